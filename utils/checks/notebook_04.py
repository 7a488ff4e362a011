"""The checks of notebook 04: heads cut out of a projection, and multi-head attention whole."""

import itertools
import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from .answers import Unreadable, alone, output_and_weights
from .judge import judge, refused, safely
from .shared import (
    OTHER_DIVISORS,
    SCORES_CHANGED,
    built,
    linear_layer,
    made_numbers,
    scaled_scores,
    where_it_shows,
)


@safely
def check_split_heads(attempt):
    """Check `attempt(projected, num_heads)`: (batch, seq, hidden_size) cut into (batch, heads, seq, head_dim)."""
    trials = [
        (made_numbers(2, 4, 6), 3),
        (made_numbers(1, 5, 20, start=2), 4),
        (made_numbers(3, 20, 4, start=4).mT, 4),  # as many tokens for each head; not contiguous
    ]

    def right(projected, num_heads):
        return {"result": torch.stack(projected.chunk(num_heads, dim=-1), dim=1)}

    def like(change):
        def compute(projected, n):
            batch, seq, hidden = projected.shape
            return {"result": change(projected, batch, seq, n, hidden // n)}

        return compute

    mistakes = {
        "view_without_transpose": [
            like(lambda x, b, s, n, d: x.reshape(b, n, s, d)),
            like(lambda x, b, s, n, d: x.mT.reshape(b, n, s, d)),
        ],
        "heads_interleaved": [like(lambda x, b, s, n, d: x.reshape(b, s, d, n).permute(0, 3, 1, 2))],
        "heads_not_in_front": [
            like(lambda x, b, s, n, d: x.reshape(b, s, n, d)),
            like(lambda x, b, s, n, d: x.reshape(b, s, n, d).mT),
        ],
        "heads_before_batch": [like(lambda x, b, s, n, d: x.reshape(b, s, n, d).permute(2, 0, 1, 3))],
        "head_axes_exchanged": [like(lambda x, b, s, n, d: x.reshape(b, s, n, d).permute(0, 2, 3, 1))],
        "sizes_exchanged": [like(lambda x, b, s, n, d: x.reshape(b, s, d, n).transpose(1, 2))],
        "tokens_cut": [
            like(lambda x, b, s, n, d: torch.stack(x.chunk(n, dim=1), dim=1)),
        ],
        "heads_in_another_order": [like(lambda x, b, s, n, d: torch.stack(x.chunk(n, dim=-1)[::-1], dim=1))],
        "cut_and_put_together": [
            like(lambda x, b, s, n, d: x),
            like(lambda x, b, s, n, d: torch.cat(x.chunk(n, dim=-1), dim=1)),
            like(lambda x, b, s, n, d: torch.cat(x.chunk(n, dim=-1), dim=0)),
            like(lambda x, b, s, n, d: torch.cat(x.chunk(n, dim=-1), dim=-1)),
            like(lambda x, b, s, n, d: torch.stack(x.chunk(n, dim=-1), dim=1).flatten(0, 1)),
        ],
        "heads_overlap": [
            like(lambda x, b, s, n, d: torch.stack([x[..., h : h + d] for h in range(n)], dim=1)),
        ],
        "one_head_only": [
            like(lambda x, b, s, n, d: x[..., :d]),
            like(lambda x, b, s, n, d: x[:, None, :, :d]),
        ],
    }
    return judge("split_heads", attempt, trials, right, mistakes, alone("result"))


# ------------------------------------------------------------------------------------------ multi-head attention

LAYERS = "query", "key", "value"
SUM_TO_ONE = "rows that sum to 1"  # weights: of all heads, or their mean
SIZES = [(6, 3), (20, 4)]  # hidden_size and heads: more heads than numbers in each, and fewer


@safely
def check_multi_head_attention(attempt):
    """Check the class `attempt(hidden_size, num_heads)` with `forward(hidden_state, mask=None)`.

    It has linear layers `query`, `key`, `value` and `output`; or a ModuleList `heads`, each head with `query`, `key`
    and `value`, and a layer `output`. The mask is (query, key) of bool, True: may be attended to. It returns the
    output, (batch, seq, hidden_size), alone or with the weights. Peer: nn.MultiheadAttention with equal weights.
    """
    exercise = "multi_head_attention"
    modules = [built(attempt, *sizes) for sizes in SIZES]
    heads = getattr(modules[0], "heads", None)
    if isinstance(heads, list | tuple):
        seen = f"Your `heads` is a {type(heads).__name__} of {len(heads)}, and PyTorch sees none of their weights."
        return refused(exercise, seen, "heads_in_plain_list")
    held = [layers_of(module, *sizes) for module, sizes in zip(modules, SIZES, strict=True)]
    if found := held[0].wrong_at_sight():
        return refused(exercise, *found)

    def call(place, *inputs):
        return modules[place].to(inputs[0].dtype)(*inputs)

    def right(place, hidden_state, mask=None):
        return peer_answer(held[place], hidden_state, mask)

    def unknown(place, hidden_state, mask=None):
        return {"output": torch.full(hidden_state.shape, math.nan)}

    some = torch.tensor([[1, 1, 0, 1], [1, 0, 1, 0], [0, 1, 1, 1], [1, 0, 0, 1]]).bool()
    states = made_numbers(2, 5, 6) / 2, made_numbers(3, 20, 7, start=8).mT / 4, made_numbers(2, 4, 6) / 2
    large = made_numbers(1, 4, 6, start=3) * 30  # scores of hundreds: an exponential of them is too large
    trials = [(0, states[0]), (1, states[1]), (0, states[2], some), (0, large), (0, large, some)]
    mistakes = wrong_heads(held)
    if all(layers.fit() for layers in held):
        told = where_it_shows(mistakes, right, lambda place, state, mask=None: state.abs().max() > 9)
        shown = lambda place, *inputs: inputs  # noqa: E731
        return judge(exercise, attempt, trials, right, told, read_attention, call=call, shown=shown)
    # No answer is right then. But the output may tell why the sizes are as they are.
    causes = {name: mistakes[name] for name in ("no_output_projection", "heads_summed_not_concatenated")}
    verdict = judge(exercise, attempt, trials[:1], unknown, causes, call=call, shown=lambda place, x: (x,))
    if "raised" in verdict.message:
        return verdict
    wide = "heads_too_wide" if held[0].heads[0][0].shape[1] == held[0].hidden_size else None
    return refused(exercise, held[0].sizes(), verdict.misconception or wide)


def read_attention(raw):
    """Read an output, alone or followed by the weights; whether there were two tensors; what the second is."""
    answer = output_and_weights(raw)
    sums = answer.get("weights", torch.ones(1, 1)).sum(dim=-1)
    second = SUM_TO_ONE if torch.allclose(sums, torch.ones_like(sums), atol=1e-4) else "rows that do not"
    return answer | {"a pair": "weights" in answer, "the second tensor": second}


class Layers(NamedTuple):
    """The weights and biases of the learner's module."""

    hidden_size: int
    num_heads: int
    heads: list  # for query, key and value: (heads, head_dim, hidden_size) and (heads, head_dim)
    output: tuple | None  # (hidden_size, hidden_size) and (hidden_size,)

    def head_dim(self):
        return self.hidden_size // self.num_heads

    def fit(self):
        """Say whether all sizes are as they should be."""
        whole = self.output and self.output[0].shape == (self.hidden_size, self.hidden_size)
        expected = (self.num_heads, self.head_dim(), self.hidden_size)
        return bool(whole) and all(weight.shape == expected for weight, _ in self.heads)

    def wrong_at_sight(self):
        """Return a sentence and a name for what the weights alone show, or None."""
        for name, (weight, _) in zip(LAYERS, self.heads, strict=True):
            if weight.shape[-1] == self.head_dim():
                seen = (
                    f"Your layer `{name}` takes {weight.shape[-1]} numbers; a token has {self.hidden_size}."
                )
                return seen, "heads_get_slices"
            if len(weight) > 1 and torch.equal(weight[0], weight[1]):
                seen = f"In the layer `{name}` two heads start with the number {weight[0, 0, 0]:.2f}."
                return seen, "heads_share_weights"
        return None

    def sizes(self):
        """Return a sentence about sizes that are not as they should be."""
        last = "there is no `output`"
        if self.output:
            last = f"your `output` takes {self.output[0].shape[1]} and gives {self.output[0].shape[0]}"
        return (
            "With hidden_size 6 and 3 heads, each head makes 2 numbers, and `output` takes 6 and gives 6. "
            f"Your heads make {self.heads[0][0].shape[1]}, and {last}."
        )

    def project(self, merged):
        """Apply the layer `output`, if it is there and takes so many numbers."""
        fits = self.output and self.output[0].shape[1] == merged.shape[-1]
        return F.linear(merged, *self.output) if fits else merged


def layers_of(module, hidden_size, num_heads):
    """Return the `Layers` of the learner's module, or raise `Unreadable`."""
    return Layers(
        hidden_size,
        num_heads,
        [projection(module, name, hidden_size, num_heads) for name in LAYERS],
        linear_layer(module, "output") if hasattr(module, "output") else None,
    )


def projection(module, name, hidden_size, num_heads):
    """Return weights (heads, head_dim, hidden_size) and biases (heads, head_dim) of the layers with this name."""
    heads, head_dim = getattr(module, "heads", None), hidden_size // num_heads
    if isinstance(heads, nn.ModuleList | nn.Sequential):
        weights, biases = zip(*(linear_layer(head, name) for head in heads), strict=True)
        return torch.stack(weights), torch.stack(biases)
    weight, bias = linear_layer(module, name)
    if len(weight) == head_dim:  # one projection for all heads
        return weight.expand(num_heads, -1, -1), bias.expand(num_heads, -1)
    if len(weight) == hidden_size:
        return weight.reshape(num_heads, head_dim, -1), bias.reshape(num_heads, head_dim)
    said = f"Your layer `{name}` makes {len(weight)} numbers; {hidden_size} are needed."
    raise Unreadable(said, "layer_of_another_size")


def peer_answer(layers, hidden_state, mask):
    """Return what nn.MultiheadAttention computes with the learner's weights."""
    peer = nn.MultiheadAttention(layers.hidden_size, layers.num_heads, batch_first=True).eval()
    with torch.no_grad():
        peer.in_proj_weight.copy_(torch.cat([weight.flatten(0, 1) for weight, _ in layers.heads]))
        peer.in_proj_bias.copy_(torch.cat([bias.flatten() for _, bias in layers.heads]))
        peer.out_proj.weight.copy_(layers.output[0])
        peer.out_proj.bias.copy_(layers.output[1])
        states = [hidden_state] * 3
        attn_mask = None if mask is None else ~mask  # there True means: may not be attended to
        output, weights = peer(*states, attn_mask=attn_mask, average_attn_weights=False)
    return {"output": output, "weights": weights, "the second tensor": SUM_TO_ONE}


def wrong_heads(held):
    """Return what misconceptions of multi-head attention would compute with the learner's weights."""

    def like(**changed):
        return lambda place, state, mask=None: {"output": attend(held[place], state, mask, **changed)}

    def with_mask(weigh):
        """Compute with weights made from (scores, mask), where there is a mask."""

        def weights(scores, mask):
            if mask is None:
                raise ValueError("this shows only with a mask")
            return weigh(scores, mask)

        return like(weigh=weights)

    def one_head_obeys(place):
        def weigh(scores, mask):
            others = torch.arange(scores.shape[1])[:, None, None] != place % scores.shape[1]
            return hidden(scores, mask | others).softmax(dim=-1)

        return with_mask(weigh)

    def filled(filling):
        return with_mask(lambda scores, mask: filling(scores, mask).softmax(dim=-1))

    def over(axis):
        def weigh(scores, mask):
            if mask is not None:
                raise ValueError("this shows without a mask, and gives nan with one")
            return scores.softmax(dim=axis)

        return like(weigh=weigh)

    def by_hand(scores, mask):
        if mask is not None:
            raise ValueError("this shows without a mask")
        powers = scores.exp()
        return powers / powers.sum(dim=-1, keepdim=True)

    def weights_first(place, state, mask=None):
        answer = peer_answer(held[place], state, mask)
        return {"output": answer["weights"], "weights": answer["output"], "a pair": True}

    def weights_alone(place, state, mask=None):
        return {"output": peer_answer(held[place], state, mask)["weights"], "a pair": False}

    def one_head(place, state, mask=None):
        whole = [
            (weight.reshape(1, -1, weight.shape[-1]), bias.reshape(1, -1))
            for weight, bias in held[place].heads
        ]
        return {"output": attend(held[place]._replace(heads=whole), state, mask)}

    def with_input(place, state, mask=None):
        return {"output": state + peer_answer(held[place], state, mask)["output"]}

    def layer_left_out(which):
        def compute(place, state, mask=None):
            layers = held[place]
            unit = torch.eye(layers.hidden_size).reshape(layers.num_heads, layers.head_dim(), -1)
            none = torch.zeros(layers.num_heads, layers.head_dim())
            heads = [(unit, none) if i in which else head for i, head in enumerate(layers.heads)]
            return {"output": attend(layers._replace(heads=heads), state, mask)}

        return compute

    def without_bias(which):
        def compute(place, state, mask=None):
            heads = [(w, 0 * b if i in which else b) for i, (w, b) in enumerate(held[place].heads)]
            weight, bias = held[place].output
            output = weight, 0 * bias if 3 in which else bias
            return {"output": attend(held[place]._replace(heads=heads, output=output), state, mask)}

        return compute

    def transposed(which):
        def compute(place, state, mask=None):
            layers = held[place]
            sizes = layers.num_heads, layers.head_dim(), -1
            heads = [
                (w.reshape(layers.hidden_size, -1).T.reshape(sizes) if i in which else w, b)
                for i, (w, b) in enumerate(layers.heads)
            ]
            output = (layers.output[0].T, layers.output[1]) if 3 in which else layers.output
            return {"output": attend(layers._replace(heads=heads, output=output), state, mask)}

        return compute

    def projected_twice(place, state, mask=None):
        return {"output": F.linear(peer_answer(held[place], state, mask)["output"], *held[place].output)}

    mixed = set(itertools.product(range(3), repeat=3)) - {(0, 1, 2), (1, 0, 2)}
    return {
        "view_without_transpose": [like(split=by_view), like(split=by_view, join=as_it_lies)],
        "merge_without_transpose": [like(join=as_it_lies), like(join=as_it_lies_turned)],
        "heads_interleaved": [
            like(split=every_nth),
            like(join=number_by_number),
            like(split=every_nth, join=number_by_number),
        ],
        "not_split": [one_head],
        "heads_share_weights": [like(share=0), like(share=-1)],
        "scaled_by_hidden_size": [like(divisor=lambda q: math.sqrt(hidden_of(q))), like(divisor=hidden_of)],
        "no_scaling": [like(divisor=lambda q: 1)],
        "multiplied_by_root": [like(divisor=lambda q: q.shape[-1] ** -0.5)],
        "scaled_by_d": [like(divisor=lambda q: q.shape[-1])],
        "scaled_by_num_heads": [
            like(divisor=lambda q: math.sqrt(q.shape[1])),
            like(divisor=lambda q: q.shape[1]),
        ],
        "other_divisor": [like(divisor=lambda q, by=by: by(q.shape[-1])) for by in OTHER_DIVISORS],
        "scaled_by_a_constant": [
            like(divisor=lambda q, number=number: number)
            for number in (4, 8, 16, 64, *map(math.sqrt, (16, 32, 128, 768)))
        ],
        "bias_forgotten": [
            without_bias(which) for which in [{0}, {1}, {2}, {3}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3}]
        ],
        "matrix_not_transposed": [
            transposed(which) for which in [{3}, {0}, {1}, {2}, {0, 1, 2}, {0, 1, 2, 3}]
        ],
        "projected_twice": [projected_twice],
        "heads_in_another_order": [like(join=lambda per_head: side_by_side(per_head.flip(1)))],
        "scaled_after_softmax": [
            like(weigh=lambda s, mask, by=by: hidden(s, mask).softmax(dim=-1) / by)
            for by in map(math.sqrt, (2, 5))  # head_dim of the two modules
        ],
        "scores_changed": [
            like(weigh=lambda s, mask, c=c: hidden(c(s), mask).softmax(dim=-1)) for c in SCORES_CHANGED
        ],
        "each_score_alone": [like(weigh=lambda s, mask: hidden(s, mask).sigmoid())],
        "scaled_by_sequence_length": [
            like(divisor=lambda q: math.sqrt(q.shape[-2])),
            like(divisor=lambda q: q.shape[-2]),
        ],
        "no_softmax": [
            like(weigh=lambda scores, mask: scores),
            like(weigh=lambda scores, mask: scores, divisor=lambda q: 1),
            like(weigh=lambda scores, mask: scores if mask is None else scores * mask),
        ],
        "overflow_on_large_scores": [like(weigh=by_hand)],
        "softmax_over_queries": [over(-2)],
        "softmax_twice": [
            like(weigh=lambda scores, mask: hidden(scores, mask).softmax(dim=-1).softmax(dim=-1))
        ],
        "causal_mask_added": [
            like(weigh=lambda scores, mask: hidden(scores, causal(scores)).softmax(dim=-1))
        ],
        "softmax_over_batch": [over(0), over(1)],
        "query_key_swapped": [
            like(order=(1, 0, 2)),
            like(weigh=lambda scores, mask: hidden(scores, mask).softmax(dim=-1).mT),
            like(weigh=lambda scores, mask: hidden(scores.mT, mask).softmax(dim=-1)),
        ],
        "layers_mixed_up": [like(order=order) for order in sorted(mixed)],
        **{f"{name}_unused": [layer_left_out({place})] for place, name in enumerate(LAYERS)},
        "layers_unused": [layer_left_out(which) for which in [{0, 1}, {0, 2}, {1, 2}, {0, 1, 2}]],
        "weights_first": [weights_first],
        "value_ignored": [weights_alone],
        "residual_added": [with_input],
        "no_output_projection": [like(last=lambda merged: merged)],
        "heads_summed_not_concatenated": [
            like(join=lambda per_head: per_head.sum(dim=1)),
            like(join=lambda per_head: per_head.mean(dim=1)),
            like(join=lambda per_head: per_head.sum(dim=1).repeat(1, 1, per_head.shape[1])),
            like(join=lambda per_head: per_head.mean(dim=1).repeat(1, 1, per_head.shape[1])),
        ],
        "mask_only_for_one_head": [one_head_obeys(place) for place in range(3)],
        "mask_ignored": [with_mask(lambda scores, mask: scores.softmax(dim=-1))],
        "mask_inverted": [with_mask(lambda scores, mask: hidden(scores, ~mask).softmax(dim=-1))],
        "mask_of_one_query": [
            with_mask(lambda scores, mask: hidden(scores, mask[:1]).softmax(dim=-1)),
            with_mask(lambda scores, mask: hidden(scores, mask[-1:]).softmax(dim=-1)),
        ],
        "renormalised_after_softmax": [
            with_mask(lambda s, m: (late := s.softmax(dim=-1) * m) / late.sum(dim=-1, keepdim=True)),
            with_mask(
                lambda s, m: (late := s.softmax(dim=-1) * m) / late.sum(dim=-1, keepdim=True).clamp(min=1e-9)
            ),
            with_mask(lambda s, m: (s.softmax(dim=-1) * m).softmax(dim=-1)),
        ],
        "mask_turned": [with_mask(lambda scores, mask: hidden(scores, mask.mT).softmax(dim=-1))],
        "mask_after_softmax": [
            with_mask(lambda scores, mask: scores.softmax(dim=-1) * mask),
            with_mask(lambda scores, mask: scores.softmax(dim=-1).masked_fill(~mask, -math.inf)),
            with_mask(lambda scores, mask: scores.softmax(dim=-1).masked_fill(~mask, -1e9)),
        ],
        "mask_not_minus_infinity": [
            *(filled(lambda scores, mask, x=x: scores.masked_fill(~mask, x)) for x in (0.0, -1.0, -10.0)),
            filled(lambda scores, mask: scores + mask.float()),
            filled(lambda scores, mask: scores - (~mask).float()),
        ],
    }


def hidden(scores, mask):
    """Return scores with minus infinity where the mask forbids."""
    return scores if mask is None else scores.masked_fill(~mask, -math.inf)


def causal(scores):
    """Return the mask that hides later tokens."""
    return torch.ones(scores.shape[-2:]).tril().bool()


def hidden_of(per_head):
    """Return hidden_size, given one part of all heads."""
    return per_head.shape[1] * per_head.shape[-1]


def side_by_side(per_head):
    """Join heads as it is right: (batch, seq, hidden_size)."""
    return per_head.transpose(1, 2).flatten(2)


def as_it_lies(per_head):
    """Join heads without bringing the tokens to the front."""
    return per_head.reshape(per_head.shape[0], per_head.shape[2], -1)


def as_it_lies_turned(per_head):
    """Join heads in the same way after an exchange of their last two axes."""
    return per_head.mT.reshape(per_head.shape[0], per_head.shape[2], -1)


def number_by_number(per_head):
    """Join heads so that neighbours come from different heads."""
    return per_head.permute(0, 2, 3, 1).flatten(2)


def by_view(per_head):
    """Cut the projection into heads by view alone, given the heads as they should be."""
    return side_by_side(per_head).reshape(per_head.shape)


def every_nth(per_head):
    """Cut the projection so that each head takes every n-th number, given the heads as they should be."""
    return side_by_side(per_head).unflatten(-1, (-1, per_head.shape[1])).permute(0, 3, 1, 2)


def attend(
    layers,
    hidden_state,
    mask,
    order=(0, 1, 2),
    split=None,
    join=side_by_side,
    divisor=None,
    share=None,
    weigh=None,
    last=None,
):
    """Return multi-head attention with the learner's weights, right but for the step that is given.

    `order` says which layer makes query, key and value, `split` and `join` change how heads are cut and joined,
    `divisor(query)` divides the scores, `share` is the one head whose weights all use, `weigh(scores, mask)` makes
    the weights, `last` stands for the layer `output`.
    """
    per_head = []
    for which in order:
        weight, bias = layers.heads[which]
        if share is not None:
            weight, bias = weight[[share] * len(weight)], bias[[share] * len(bias)]
        part = F.linear(hidden_state, weight.flatten(0, 1), bias.flatten())
        part = part.unflatten(-1, (len(weight), -1)).transpose(1, 2)  # (batch, heads, seq, head_dim)
        per_head.append(split(part) if split else part)
    query, key, value = per_head
    scores = query @ key.mT / divisor(query) if divisor else scaled_scores(query, key)
    weights = weigh(scores, mask) if weigh else hidden(scores, mask).softmax(dim=-1)
    return (last or layers.project)(join(weights @ value))
