"""The checks of notebook 02: softmax, attention without a mask, one head of a model."""

import math

import torch
import torch.nn.functional as F

from .answers import alone
from .judge import judge, safely
from .shared import (
    OTHER_DIVISORS,
    SCORES_CHANGED,
    fill_weights,
    made_numbers,
    overflowed,
    plain_trials,
    right_attention,
    signs_of_attention,
    wrong_attention,
)


@safely
def check_softmax(attempt):
    """Check `attempt(attn_scores)`: weights over the keys, (batch, query, key). Peer: torch.softmax."""
    large = torch.tensor([[[0.0, 200.0, 100.0], [1.0, 2.0, 3.0]]])
    rows = [[-1000.0, -1000.0, -999.0], [0.0, 1.0, -1.0], [-1000.0, -1.0, 0.0], [900.0, 900.0, 899.0]]
    small = torch.tensor([rows])
    # In the third a sum without keepdim runs, and divides by the sums of other rows.
    shapes = [made_numbers(2, 4, 3), made_numbers(3, 2, 5, start=4), made_numbers(3, 3, 3, start=2)]

    def answer(weights):
        return {"table of weights": weights}

    def right(scores):
        return answer(torch.softmax(scores, dim=-1))

    def shares(numbers):
        return lambda s: answer(numbers(s) / numbers(s).sum(dim=-1, keepdim=True))

    def powers(s):
        return (s - s.amax(-1, keepdim=True)).exp()

    def taken_off(maximum, axis=-1, keepdim=True):
        """What comes out if this maximum is taken off, and the powers are divided by their sum."""
        return lambda s: answer(
            (s - maximum(s)).exp() / (s - maximum(s)).exp().sum(dim=axis, keepdim=keepdim)
        )

    mistakes = {
        "overflow_on_large_scores": [
            taken_off(lambda s: 0),
            lambda s: taken_off(lambda s: 0)(s.double()),
            lambda s: answer((s.exp() / s.exp().sum(-1, keepdim=True)).nan_to_num(0.0)),
            lambda s: answer(s.exp() / (s.exp().sum(-1, keepdim=True) + 1e-9)),
            lambda s: answer((s.exp() / (s.exp().sum(-1, keepdim=True) + 1e-9)).nan_to_num(0.0)),
            lambda s: answer(s.exp() / s.exp().sum(-1, keepdim=True).clamp(min=1e-9)),
        ],
        "softmax_over_queries": [
            lambda s: answer(s.softmax(dim=-2)),
            taken_off(lambda s: s.amax(-1, keepdim=True), axis=-2),
        ],
        "softmax_over_batch": [
            lambda s: answer(s.softmax(dim=0)),
            taken_off(lambda s: s.amax(-1, keepdim=True), axis=0),
        ],
        "one_sum_for_all": [
            lambda s: answer(s.exp() / s.exp().sum()),
            lambda s: answer(s.flatten().softmax(dim=0).reshape(s.shape)),
            lambda s: answer(
                (s - s.amax(-1, keepdim=True)).exp() / (s - s.amax(-1, keepdim=True)).exp().sum()
            ),
            lambda s: answer((s - s.amax()).exp() / (s - s.amax()).exp().sum()),
            lambda s: answer(powers(s) / powers(s).sum((-2, -1), keepdim=True)),
        ],
        "no_keepdim": [
            taken_off(lambda s: 0, keepdim=False),
            taken_off(lambda s: s.amax(-1, keepdim=True), keepdim=False),
            taken_off(lambda s: s.amax(-1)),
            taken_off(lambda s: s.amax(-1), keepdim=False),
        ],
        "maximum_not_of_the_row": [
            taken_off(lambda s: s.amax()),
            taken_off(lambda s: s.amax((1, 2), keepdim=True)),
            taken_off(lambda s: s.amax(1, keepdim=True)),
            taken_off(lambda s: s.amax(0)),
            taken_off(lambda s: s.mean(-1, keepdim=True)),
            taken_off(lambda s: s.amin(-1, keepdim=True)),
            taken_off(lambda s: s.abs().amax(-1, keepdim=True)),
            taken_off(lambda s: -s.amax(-1, keepdim=True)),
            taken_off(lambda s: s[..., :1]),
            taken_off(lambda s: s[..., -1:]),
        ],
        "divided_not_subtracted": [
            lambda s, top=top: right(s / top(s))
            for top in (
                lambda s: s.amax(-1, keepdim=True),
                lambda s: s.abs().amax(-1, keepdim=True),
                lambda s: s.abs().max(),
                lambda s: s.max(),
                lambda s: s.norm(dim=-1, keepdim=True),
                lambda s: s.std(dim=-1, keepdim=True),
            )
        ],
        "scaled_first": [
            lambda s, by=by: right(s / by(s))
            for by in (lambda s: math.sqrt(s.shape[-1]), lambda s: s.shape[-1])
        ],
        "softmax_twice": [lambda s: right(s.softmax(dim=-1))],
        "not_divided": [
            lambda s: answer(s.exp()),
            lambda s: answer((s - s.amax(-1, keepdim=True)).exp()),
            lambda s: answer(s.softmax(dim=-1) * s.shape[-1]),
            lambda s: answer(powers(s) / s.shape[-1]),
            lambda s: answer(powers(s) / powers(s).norm(dim=-1, keepdim=True)),
            *(
                lambda s, eps=eps: answer(powers(s) / (powers(s).sum(dim=-1, keepdim=True) + eps))
                for eps in (1, 0.1, 0.01, 1e-3)
            ),
        ],
        "sign_turned": [lambda s: right(-s)],
        "logarithm": [lambda s: answer(s.log_softmax(dim=-1)), lambda s: answer(s.softmax(dim=-1).log())],
        "each_score_alone": [lambda s: answer(s.sigmoid())],
        "other_base": [lambda s, base=base: right(s * math.log(base)) for base in (2, 10)],
        "no_exponential": [
            shares(lambda s: s),
            shares(lambda s: s.abs()),
            shares(lambda s: s.square()),
            shares(lambda s: s.relu()),
            shares(lambda s: s - s.amin(-1, keepdim=True)),
        ],
    }

    def level(inputs, answer):
        """Scores of 200 and 100 get equal weights."""
        weights = answer["table of weights"]
        return (
            inputs[0] is large and weights.shape == large.shape and weights[0, 0, 1] == weights[0, 0, 2] > 0.4
        )

    def overflow(inputs, answer):
        far = inputs[0] is large or inputs[0] is small
        return far and overflowed(answer["table of weights"], torch.softmax(inputs[0], dim=-1))

    signs = {"scores_cut_off": level, "overflow_on_large_scores": overflow}
    trials = [(scores,) for scores in (*shapes, large, small)]
    return judge("softmax", attempt, trials, right, mistakes, alone("table of weights"), signs)


@safely
def check_attention(attempt):
    """Check `attempt(query, key, value)`: the output, alone or with the weights. No mask.

    The shapes are (..., query, head_dim), (..., key, head_dim) and (..., key, width), with no leading axis, one or
    two. Peer: F.scaled_dot_product_attention.
    """
    return judge(
        "attention", attempt, plain_trials(), right_attention, wrong_attention(), signs=signs_of_attention()
    )


@safely
def check_weights_of_head(attempt):
    """Check `attempt(hidden_state, layer, head)`: one head's weights, (batch, query, key). Peer: transformers.

    `layer` is the `BertSelfAttention` of a small model with made-up weights: `layer.query` and `layer.key` are
    linear layers, `layer.num_attention_heads` counts the heads. `head` is counted from 0.
    """
    hidden_state, layer, attentions = small_bert()
    heads, size = attentions.shape[1], layer.attention_head_size

    def answer(weights):
        return {"head's weights": weights.detach()}

    def right(hidden_state, layer, head):
        return answer(attentions[: len(hidden_state), head])

    def like(
        projected=lambda x, part: F.linear(x, part.weight, part.bias),
        layers=lambda layer: (layer.query, layer.key),
        cut=lambda part, head: part.chunk(heads, dim=-1)[head],
        divisor=size**0.5,
        weigh=lambda scores: scores.softmax(dim=-1),
    ):
        def compute(hidden_state, layer, head):
            query, key = (cut(projected(hidden_state, part), head) for part in layers(layer))
            return answer(weigh(query @ key.mT / divisor))

        return compute

    def numbers_of(numbers):
        return like(cut=lambda part, head: part[..., numbers(head)])

    def from_the_end(part, head):
        return part.chunk(heads, dim=-1)[heads - 1 - head]

    def of_values(hidden_state, layer, head):
        value = layer.value(hidden_state).chunk(heads, dim=-1)[head]
        return answer(right(hidden_state, layer, head)["head's weights"] @ value)

    def other_model(part, head):
        return part[..., 64 * head : 64 * head + 64]

    keys = hidden_state.shape[1]
    mistakes = {
        "head_ignored": [like(cut=lambda part, head: part[..., :size])],
        "head_counted_from_one": [
            numbers_of(lambda head: slice(size * (head - 1), size * head)),
            numbers_of(lambda head: slice(size * (head + 1), size * (head + 2))),
            numbers_of(
                lambda head: slice(size * (head - 1), size * head if head else None)
            ),  # -1 is the last one
        ],
        "slice_at_the_wrong_place": [
            numbers_of(lambda head: slice(head, head + size)),
            numbers_of(lambda head: slice(head * size, head * size + size - 1)),
            numbers_of(lambda head: slice(head * size, head * size + size + 1)),
            numbers_of(lambda head: slice(head * size + 1, head * size + size + 1)),
            numbers_of(lambda head: slice(head * size, None)),
            numbers_of(lambda head: slice(None, (head + 1) * size)),
            numbers_of(lambda head: slice(head * heads, (head + 1) * heads)),
            like(cut=from_the_end),
        ],
        "applied_to_values": [of_values],
        "every_nth_number": [numbers_of(lambda head: slice(head, None, heads))],
        "not_cut_into_heads": [
            like(cut=lambda part, head: part, divisor=math.sqrt(divisor))
            for divisor in (size, heads * size, 1)
        ],
        "view_without_transpose": [
            like(cut=lambda part, head: part.reshape(len(part), heads, keys, size)[:, head])
        ],
        "other_layer_used": [
            like(layers=lambda layer: (layer.query, layer.query)),
            like(layers=lambda layer: (layer.key, layer.key)),
            like(layers=lambda layer: (layer.query, layer.value)),
            like(layers=lambda layer: (layer.value, layer.key)),
        ],
        "not_projected": [like(projected=lambda x, part: x)],
        "bias_forgotten": [like(projected=lambda x, part: F.linear(x, part.weight))],
        "matrix_not_transposed": [
            like(projected=lambda x, part: x @ part.weight + part.bias),
            like(projected=lambda x, part: x @ part.weight),
        ],
        "no_scaling": [like(divisor=1)],
        "scaled_by_d": [like(divisor=size)],
        "scaled_by_hidden_size": [like(divisor=math.sqrt(heads * size)), like(divisor=heads * size)],
        "scaled_by_sequence_length": [like(divisor=math.sqrt(keys)), like(divisor=keys)],
        "scaled_by_number_of_heads": [like(divisor=math.sqrt(heads)), like(divisor=heads)],
        "sizes_of_another_model": [
            like(cut=other_model, divisor=8),
            like(cut=other_model),
            *(
                like(cut=lambda part, head, n=n: part[..., n * head : n * (head + 1)], divisor=math.sqrt(n))
                for n in (1, 2, 4, 8)
            ),
            *(like(divisor=math.sqrt(length)) for length in (64, 768, 16, 32, 128)),
        ],
        "other_divisor": [like(divisor=divisor(size)) for divisor in OTHER_DIVISORS],
        "sign_turned": [like(divisor=-(size**0.5))],
        "softmax_twice": [like(weigh=lambda scores: scores.softmax(dim=-1).softmax(dim=-1))],
        "causal_mask_added": [
            like(weigh=lambda s: s.masked_fill(torch.ones_like(s).triu(1).bool(), -math.inf).softmax(dim=-1))
        ],
        "scores_changed": [like(weigh=lambda s, change=c: change(s).softmax(dim=-1)) for c in SCORES_CHANGED],
        "each_score_alone": [like(weigh=torch.sigmoid)],
        "scaled_after_softmax": [
            like(divisor=1, weigh=lambda s: s.softmax(dim=-1) / size**0.5),
            like(weigh=lambda s: s.softmax(dim=-1) / size**0.5),
        ],
        "no_softmax": [
            like(weigh=lambda scores: scores),
            like(weigh=lambda scores: scores / scores.sum(dim=-1, keepdim=True)),
        ],
        "softmax_over_queries": [like(weigh=lambda scores: scores.softmax(dim=-2))],
        "softmax_over_batch": [like(weigh=lambda scores: scores.softmax(dim=0))],
        "query_key_swapped": [
            lambda *inputs: answer(right(*inputs)["head's weights"].mT),
            like(layers=lambda layer: (layer.key, layer.query)),
        ],
        "all_heads_at_once": [lambda x, layer, head: answer(attentions[: len(x)])],
        "mean_of_heads": [lambda x, layer, head: answer(attentions[: len(x)].mean(dim=1))],
    }
    trials = [(hidden_state, layer, head) for head in (2, 1, 0, 3)] + [(hidden_state[:1], layer, 3)]
    return judge("weights_of_head", attempt, trials, right, mistakes, alone("head's weights"))


def small_bert():
    """Return of a BERT with one layer of five heads: what goes into the layer, the layer, and its attentions.

    The first is (batch, seq, hidden_size), the last (batch, heads, query, key). No two of the sizes are equal.
    """
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=11, hidden_size=15, num_hidden_layers=1, num_attention_heads=5, intermediate_size=4
    )
    config._attn_implementation = "eager"
    model = fill_weights(BertModel(config, add_pooling_layer=False)).eval()
    ids = torch.tensor([[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 5, 8, 9, 7]])
    with torch.no_grad():
        outputs = model(ids, output_attentions=True, output_hidden_states=True)
    return outputs.hidden_states[0], model.encoder.layer[0].attention.self, outputs.attentions[0]
