"""Attempts at the exercises of notebook 02."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from .attention import FOR_BOTH, WRONG_STEPS, divides_in_place
from .tables import peer, right, wrong

# ---------------------------------------------------------------------------------------------------- softmax


def softmax_loops(scores):
    weights = torch.zeros_like(scores)
    for b, table in enumerate(scores):
        for i, row in enumerate(table):
            powers = [math.exp(score - max(row)) for score in row]
            weights[b, i] = torch.tensor([power / sum(powers) for power in powers])
    return weights


def softmax_batched(scores):
    powers = (scores - scores.max(dim=-1, keepdim=True).values).exp()
    return powers / powers.sum(dim=-1, keepdim=True)


def softmax_numpy(scores):
    scores = scores.numpy()
    powers = np.exp(scores - scores.max(axis=2)[:, :, None])
    return torch.from_numpy(powers / powers.sum(axis=2)[:, :, None])


right(
    "softmax",
    *(softmax_loops, softmax_batched, softmax_numpy),
    lambda s: s.softmax(-1),
    lambda s: (s - s.logsumexp(2, True)).exp(),
    lambda s: torch.stack([torch.stack([F.softmax(row, 0) for row in table]) for table in s]),
    lambda s: torch.log_softmax(s, 2).exp(),
    lambda s: 1 / (s[..., None, :] - s[..., None]).exp().sum(-1),  # e^(s_j - s_i), summed over j
    lambda s: (lambda p: p / torch.einsum("bqk->bq", p)[..., None])((s - s.amax(-1)[..., None]).exp()),
    lambda s: nn.Softmax(dim=-1)(s.double()),
)


def minus(largest, axis=-1, keep=True):
    def attempt(scores):
        powers = torch.exp(scores - largest(scores))
        return powers / powers.sum(dim=axis, keepdim=keep)

    return attempt


def in_place(scores):
    scores -= scores.max(dim=-1, keepdim=True).values
    return scores.exp() / scores.exp().sum(dim=-1, keepdim=True)


peer("softmax", nn.Softmax(dim=-1))
wrong(
    "softmax",
    largest_score_only=lambda s: torch.zeros_like(s).scatter(2, s.argmax(2, True), 1),
    softmax_over_queries=lambda s: F.softmax(s, 1),
    softmax_over_batch=lambda s: torch.stack([row.softmax(0) for row in s.unbind(1)], 1),
    one_sum_for_all=lambda s: s.flatten().softmax(0).view(s.shape),
    no_exponential=lambda s: F.normalize(s.abs(), p=1, dim=-1),
    overflow_on_large_scores=lambda s: torch.stack(
        [torch.stack([r.exp() / r.exp().sum() for r in t]) for t in s]
    ),
    maximum_not_of_the_row=minus(lambda s: s.max(dim=1, keepdim=True).values),
    no_keepdim=minus(lambda s: s.max(dim=-1).values),
    scores_cut_off=lambda s: s.clamp(-50, 50).softmax(-1),
    not_divided=lambda s: (s - s.amax(-1)[..., None]).exp(),
    sign_turned=lambda s: F.softmin(s, -1),
    logarithm=lambda s: F.log_softmax(s, -1),
    each_score_alone=torch.sigmoid,
    other_base=lambda s: torch.exp2(s - s.amax(-1, True)) / torch.exp2(s - s.amax(-1, True)).sum(-1, True),
    softmax_twice=lambda s: F.softmax(F.softmax(s, -1), -1),
    scaled_first=lambda s: F.softmax(s * s.size(-1) ** -0.5, -1),
    divided_not_subtracted=lambda s: F.softmax(s / s.abs().amax(-1, keepdim=True), -1),
    changes_its_input=in_place,
)

# -------------------------------------------------------------------------------------------------- attention

right(
    "attention",
    *FOR_BOTH,
    lambda q, k, v: ((q @ k.mT) / math.sqrt(k.size(-1))).softmax(-1) @ v,
    lambda q, k, v: (F.scaled_dot_product_attention(q, k, v),),
    lambda q, k, v: (F.scaled_dot_product_attention(q, k, v), None),
)
peer("attention", F.scaled_dot_product_attention)
wrong("attention", **WRONG_STEPS, changes_its_input=divides_in_place)

# -------------------------------------------------------------------------------------------- weights_of_head


def head_slice(hidden_state, layer, head):
    size = layer.query.out_features // layer.num_attention_heads
    part = slice(head * size, (head + 1) * size)
    query, key = layer.query(hidden_state)[..., part], layer.key(hidden_state)[..., part]
    return (query @ key.transpose(-1, -2) / math.sqrt(size)).softmax(dim=-1)


def head_view(hidden_state, layer, head):
    batch, seq, _ = hidden_state.shape
    shape = batch, seq, layer.num_attention_heads, -1
    query = layer.query(hidden_state).view(shape).transpose(1, 2)
    key = layer.key(hidden_state).view(shape).transpose(1, 2)
    return F.softmax(query @ key.mT * query.shape[-1] ** -0.5, dim=-1)[:, head]


def head_weights(hidden_state, layer, head):
    size = layer.attention_head_size
    rows = slice(head * size, head * size + size)
    query, key = (
        F.linear(hidden_state, part.weight[rows], part.bias[rows]) for part in (layer.query, layer.key)
    )
    return torch.einsum("bqd,bkd->bqk", query, key).div(size**0.5).softmax(-1)


def head_library(hidden_state, layer, head):
    """The layer itself also returns its weights."""
    return layer(hidden_state)[1][:, head]


def head_framework(hidden_state, layer, head):
    size = layer.query.out_features // layer.num_attention_heads
    query, key = (part(hidden_state).split(size, dim=-1)[head] for part in (layer.query, layer.key))
    return F.scaled_dot_product_attention(query, key, torch.eye(key.shape[1]).expand(len(key), -1, -1))


def head_changed(parts=None, cut=None, scores=None, weigh=None):
    """The rule with one step changed."""

    def attempt(hidden_state, layer, head):
        n = layer.num_attention_heads
        made = parts(hidden_state, layer) if parts else (layer.query(hidden_state), layer.key(hidden_state))
        query, key = (cut(part, n, head) if cut else part.chunk(n, dim=-1)[head] for part in made)
        products = scores(query, key, layer) if scores else query @ key.mT / math.sqrt(query.shape[-1])
        return (weigh or nn.Softmax(-1))(products)

    return attempt


def stored(x, part):
    return torch.einsum("bsi,io->bso", x, part.weight) + part.bias


def small_layer(x, layer, head):
    """The head's own part of the input, and the square of the weights that fits it."""
    part = slice(3 * head, 3 * head + 3)
    query, key = (F.linear(x[..., part], made.weight[part, part]) for made in (layer.query, layer.key))
    return (query @ key.mT / math.sqrt(3)).softmax(-1)


def head_in_place(hidden_state, layer, head):
    hidden_state *= 1.5
    return head_slice(hidden_state, layer, head)


right(
    "weights_of_head",
    *(head_slice, head_view, head_weights, head_library, head_framework),
    lambda x, layer, head: torch.stack(
        [
            (a @ b.T / a.shape[-1] ** 0.5).softmax(-1)
            for a, b in zip(
                *(
                    f(x).tensor_split(layer.num_attention_heads, -1)[head].unbind()
                    for f in (layer.query, layer.key)
                ),
                strict=True,
            )
        ]
    ),
)
peer("weights_of_head", head_library)
wrong(
    "weights_of_head",
    **{
        name: head_changed(weigh=weigh)
        for name, weigh in {
            "no_softmax": lambda s: s,
            "softmax_twice": lambda s: F.softmax(F.softmax(s, -1), -1),
            "softmax_over_queries": lambda s: s.softmax(1),
            "softmax_over_batch": lambda s: s.softmax(0),
            "each_score_alone": torch.sigmoid,
            "scores_changed": lambda s: s.clamp(min=0).softmax(-1),
            "sign_turned": lambda s: F.softmin(s, -1),
            "causal_mask_added": lambda s: (s + torch.full_like(s, -math.inf).triu(1)).softmax(-1),
        }.items()
    },
    **{
        name: head_changed(scores=scores)
        for name, scores in {
            "no_scaling": lambda q, k, layer: q @ k.mT,
            "scaled_by_d": lambda q, k, layer: q @ k.mT / k.size(-1),
            "scaled_by_sequence_length": lambda q, k, layer: q @ k.mT / math.sqrt(k.size(1)),
            "scaled_by_number_of_heads": lambda q, k, layer: q @ k.mT / math.sqrt(layer.num_attention_heads),
            "scaled_by_hidden_size": lambda q, k, layer: q @ k.mT / math.sqrt(layer.query.in_features),
            "sizes_of_another_model": lambda q, k, layer: q @ k.mT / 8,
            "other_divisor": lambda q, k, layer: 2 * q @ k.mT / q.shape[-1],
            "query_key_swapped": lambda q, k, layer: k @ q.mT / q.shape[-1] ** 0.5,
        }.items()
    },
    **{
        name: head_changed(cut=cut)
        for name, cut in {
            "head_ignored": lambda t, n, head: t.chunk(n, -1)[0],
            "head_counted_from_one": lambda t, n, head: t.chunk(n, -1)[head - 1],
            "slice_at_the_wrong_place": lambda t, n, head: t[..., head : head + t.shape[-1] // n],
            "every_nth_number": lambda t, n, head: t.unflatten(-1, (-1, n))[..., head],
            "not_cut_into_heads": lambda t, n, head: t,
            "view_without_transpose": lambda t, n, head: t.reshape(len(t), n, t.shape[1], -1)[:, head],
        }.items()
    },
    **{
        name: head_changed(parts)
        for name, parts in {
            "bias_forgotten": lambda x, layer: (x @ layer.query.weight.T, x @ layer.key.weight.T),
            "matrix_not_transposed": lambda x, layer: (stored(x, layer.query), stored(x, layer.key)),
            "not_projected": lambda x, layer: (x, x),
            "other_layer_used": lambda x, layer: (layer.query(x), layer.value(x)),
        }.items()
    },
    scaled_after_softmax=head_changed(
        scores=lambda q, k, layer: q @ k.mT, weigh=lambda s: s.softmax(-1) / math.sqrt(3)
    ),
    applied_to_values=lambda x, layer, head: head_slice(x, layer, head) @ layer.value(x).split(3, -1)[head],
    input_cut_into_heads=small_layer,
    all_heads_at_once=lambda x, layer, head: layer(x)[1],
    mean_of_heads=lambda x, layer, head: layer(x)[1].mean(1),
    changes_its_input=head_in_place,
)
