"""The checks of notebook 04: heads cut out of a projection, and multi-head attention whole."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from .answers import Unreadable, alone
from .judge import judge, refused, safely
from .shared import built, linear_layer, made_numbers, scaled_scores


@safely
def check_split_heads(attempt):
    """Check `attempt(projected, num_heads)`: (batch, seq, hidden_size) cut into (batch, heads, seq, head_dim)."""
    trials = [(made_numbers(2, 4, 6), 3), (made_numbers(1, 5, 8, start=2), 2)]

    def right(projected, num_heads):
        return {"result": torch.stack(projected.chunk(num_heads, dim=-1), dim=1)}

    def like(change):
        def compute(projected, n):
            batch, seq, hidden = projected.shape
            return {"result": change(projected, batch, seq, n, hidden // n)}

        return compute

    mistakes = {
        "view_without_transpose": [like(lambda x, b, s, n, d: x.reshape(b, n, s, d))],
        "heads_interleaved": [like(lambda x, b, s, n, d: x.reshape(b, s, d, n).permute(0, 3, 1, 2))],
        "heads_not_in_front": [like(lambda x, b, s, n, d: x.reshape(b, s, n, d))],
    }
    return judge("split_heads", attempt, trials, right, mistakes, alone("result"))


# ------------------------------------------------------------------------------------------ multi-head attention

HIDDEN_SIZE, NUM_HEADS, HEAD_DIM = 6, 3, 2


@safely
def check_multi_head_attention(attempt):
    """Check the class `attempt(hidden_size, num_heads)` with `forward(hidden_state, mask=None)`.

    It has linear layers `query`, `key`, `value` and `output`; or a ModuleList `heads`, each head with `query`, `key`
    and `value`, and a layer `output`. The mask is (query, key) of bool, True: may be attended to. It returns the
    output, (batch, seq, hidden_size), alone or with the weights. Peer: nn.MultiheadAttention with equal weights.
    """
    exercise = "multi_head_attention"
    module = built(attempt, HIDDEN_SIZE, NUM_HEADS)
    layers = layers_of(module)
    weights = layers.heads[0][0]
    if len(weights) > 1 and torch.equal(weights[0], weights[1]):
        seen = f"Two heads start with the number {weights[0, 0, 0]:.2f}."
        return refused(exercise, seen, "heads_share_weights")

    def right(hidden_state, mask=None):
        return peer_answer(layers, hidden_state, mask)

    def unknown(hidden_state, mask=None):
        return {"output": torch.full(hidden_state.shape, math.nan)}

    some = torch.tensor([[1, 1, 0, 1], [1, 0, 1, 0], [0, 1, 1, 1], [1, 0, 0, 1]]).bool()
    states = made_numbers(2, 4, HIDDEN_SIZE) / 2, made_numbers(1, 5, HIDDEN_SIZE, start=8) / 2
    trials = [(states[0],), (states[1],), (states[0], some)]
    mistakes = wrong_heads(layers)
    if layers.fit():
        return judge(exercise, attempt, trials, right, mistakes, call=module)
    # No answer is right then. But the output may tell why the sizes are as they are.
    causes = {name: mistakes[name] for name in ("no_output_projection", "heads_summed_not_concatenated")}
    verdict = judge(exercise, attempt, trials, unknown, causes, call=module)
    return (
        verdict if "raised" in verdict.message else refused(exercise, layers.sizes(), verdict.misconception)
    )


class Layers(NamedTuple):
    """The weights and biases of the learner's module."""

    heads: list  # for query, key and value: (heads, head_dim, hidden_size) and (heads, head_dim)
    output: tuple | None  # (hidden_size, hidden_size) and (hidden_size,)

    def fit(self):
        """Say whether all sizes are as they should be."""
        whole = self.output and self.output[0].shape == (HIDDEN_SIZE, HIDDEN_SIZE)
        return bool(whole) and self.heads[0][0].shape[:2] == (NUM_HEADS, HEAD_DIM)

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


def layers_of(module):
    """Return the `Layers` of the learner's module, or raise `Unreadable`."""
    return Layers(
        [projection(module, name) for name in ("query", "key", "value")],
        linear_layer(module, "output") if hasattr(module, "output") else None,
    )


def projection(module, name):
    """Return weights (heads, head_dim, hidden_size) and biases (heads, head_dim) of the layers with this name."""
    heads = getattr(module, "heads", None)
    if isinstance(heads, nn.ModuleList):
        weights, biases = zip(*(linear_layer(head, name) for head in heads), strict=True)
        return torch.stack(weights), torch.stack(biases)
    weight, bias = linear_layer(module, name)
    if len(weight) == HEAD_DIM:  # one projection for all heads
        return weight.expand(NUM_HEADS, -1, -1), bias.expand(NUM_HEADS, -1)
    if len(weight) == HIDDEN_SIZE:
        return weight.reshape(NUM_HEADS, HEAD_DIM, -1), bias.reshape(NUM_HEADS, HEAD_DIM)
    raise Unreadable(f"Your layer `{name}` makes {len(weight)} numbers; {HIDDEN_SIZE} are needed.")


def peer_answer(layers, hidden_state, mask):
    """Return what nn.MultiheadAttention computes with the learner's weights."""
    peer = nn.MultiheadAttention(HIDDEN_SIZE, NUM_HEADS, batch_first=True).eval()
    with torch.no_grad():
        peer.in_proj_weight.copy_(torch.cat([weight.flatten(0, 1) for weight, _ in layers.heads]))
        peer.in_proj_bias.copy_(torch.cat([bias.flatten() for _, bias in layers.heads]))
        peer.out_proj.weight.copy_(layers.output[0])
        peer.out_proj.bias.copy_(layers.output[1])
        states = [hidden_state] * 3
        attn_mask = None if mask is None else ~mask  # there True means: may not be attended to
        output, weights = peer(*states, attn_mask=attn_mask, average_attn_weights=False)
    return {"output": output, "weights": weights}


def wrong_heads(layers):
    """Return what misconceptions of multi-head attention would compute with the learner's weights."""

    def like(**changed):
        return lambda hidden_state, mask=None: {"output": attend(layers, hidden_state, mask, **changed)}

    def only_head_obeys(place):
        def obeys(mask, heads):
            if mask is None:
                raise ValueError("this shows only with a mask")
            return mask | (torch.arange(heads)[:, None, None] != place % heads)

        return obeys

    return {
        "view_without_transpose": [like(split=by_view), like(split=by_view, join=as_it_lies)],
        "merge_without_transpose": [like(join=as_it_lies)],
        "heads_share_weights": [like(share=0), like(share=-1)],
        "scaled_by_hidden_size": [like(divisor=math.sqrt(HIDDEN_SIZE)), like(divisor=HIDDEN_SIZE)],
        "no_output_projection": [like(last=lambda merged: merged)],
        "heads_summed_not_concatenated": [
            like(join=lambda per_head: per_head.sum(dim=1)),
            like(join=lambda per_head: per_head.mean(dim=1)),
            like(join=lambda per_head: per_head.sum(dim=1).repeat(1, 1, NUM_HEADS)),
            like(join=lambda per_head: per_head.mean(dim=1).repeat(1, 1, NUM_HEADS)),
        ],
        "mask_only_for_one_head": [like(obeys=only_head_obeys(place)) for place in range(NUM_HEADS)],
    }


def side_by_side(per_head):
    """Join heads as it is right: (batch, seq, hidden_size)."""
    return per_head.transpose(1, 2).flatten(2)


def as_it_lies(per_head):
    """Join heads without bringing the tokens to the front."""
    return per_head.reshape(per_head.shape[0], per_head.shape[2], -1)


def by_view(per_head):
    """Cut the projection into heads by view alone, given the heads as they should be."""
    return side_by_side(per_head).reshape(per_head.shape)


def attend(
    layers, hidden_state, mask, split=None, join=side_by_side, divisor=None, share=None, obeys=None, last=None
):
    """Return multi-head attention with the learner's weights, right but for the step that is given.

    `split` and `join` change how heads are cut and joined, `divisor` divides the scores, `share` is the one head
    whose weights all use, `obeys(mask, heads)` makes another mask, `last` stands for the layer `output`.
    """
    per_head = []
    for weight, bias in layers.heads:
        if share is not None:
            weight, bias = weight[[share] * len(weight)], bias[[share] * len(bias)]
        part = torch.einsum("bsi,hdi->bhsd", hidden_state, weight) + bias[:, None]
        per_head.append(split(part) if split else part)
    query, key, value = per_head
    scores = query @ key.mT / divisor if divisor else scaled_scores(query, key)
    if obeys:
        mask = obeys(mask, scores.shape[1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return (last or layers.project)(join(scores.softmax(dim=-1) @ value))
