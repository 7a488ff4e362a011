"""Attempts at the exercises of notebook 02; those at attention stand in attention.py."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from .tables import right, unlisted, wrong

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
    softmax_loops,
    softmax_batched,
    softmax_numpy,
    lambda s: s.softmax(-1),
    lambda s: (s - s.logsumexp(2, True)).exp(),
    lambda s: torch.stack([torch.stack([F.softmax(row, 0) for row in table]) for table in s]),
    lambda s: torch.log_softmax(s, 2).exp(),
    lambda s: 1 / (s[..., None, :] - s[..., None]).exp().sum(-1),  # e^(s_j - s_i), summed over j
    lambda s: (lambda p: p / torch.einsum("bqk->bq", p)[..., None])((s - s.amax(-1)[..., None]).exp()),
    lambda s: nn.Softmax(dim=-1)(s.double()),
)
wrong(
    "softmax",
    "softmax_over_queries",
    lambda s: s.softmax(dim=1),
    lambda s: (s - s.amax(1, True)).exp() / (s - s.amax(1, True)).exp().sum(dim=1, keepdim=True),
)
wrong(
    "softmax",
    "softmax_over_batch",
    lambda s: s.softmax(dim=0),
    lambda s: torch.exp(s) / torch.exp(s).sum(dim=0),
)
wrong(
    "softmax",
    "one_sum_for_all",
    lambda s: s.exp() / s.exp().sum(),
    lambda s: s.flatten().softmax(0).view(s.shape),
)
wrong(
    "softmax",
    "no_exponential",
    lambda s: s / s.sum(dim=-1, keepdim=True),
    lambda s: F.normalize(s.abs(), p=1, dim=-1),
)
wrong(
    "softmax",
    "overflow_on_large_scores",
    lambda s: s.exp() / s.exp().sum(dim=-1, keepdim=True),
    lambda s: torch.stack([torch.stack([row.exp() / row.exp().sum() for row in table]) for table in s]),
)


def softmax_minus(maximum, sum_axis=-1, keep=True):
    def attempt(scores):
        powers = torch.exp(scores - maximum(scores))
        return powers / powers.sum(dim=sum_axis, keepdim=keep)

    return attempt


wrong(
    "softmax",
    "maximum_not_of_the_row",
    softmax_minus(lambda s: s.max()),
    softmax_minus(lambda s: s.amax(dim=(1, 2), keepdim=True)),
    softmax_minus(lambda s: s.max(dim=1, keepdim=True).values),
    softmax_minus(lambda s: s.max(dim=0).values),
    softmax_minus(lambda s: s.max(dim=1, keepdim=True).values.max()),
)
wrong(
    "softmax",
    "no_keepdim",
    softmax_minus(lambda s: s.max(dim=-1, keepdim=True).values, keep=False),
    softmax_minus(lambda s: s.max(dim=-1).values),
    softmax_minus(lambda s: s.max(-1).values, keep=False),
    lambda s: s.exp() / s.exp().sum(-1),
)
wrong(
    "softmax",
    "scores_cut_off",
    lambda s: s.clamp(max=80).exp() / s.clamp(max=80).exp().sum(-1, keepdim=True),
    lambda s: F.softmax(s.clamp(-50, 50), dim=-1),
    lambda s: s.exp().clamp(max=1e30) / s.exp().clamp(max=1e30).sum(-1, True),
)
wrong(
    "softmax",
    "not_divided",
    lambda s: s.exp(),
    lambda s: (s - s.amax(-1, True)).exp(),
    lambda s: s.exp() / s.exp().amax(-1, True),
    lambda s: (s - s.amax(-1, True)).exp() / (s - s.amax(-1, True)).exp().mean(-1, True),
)
wrong(
    "softmax",
    "sign_turned",
    lambda s: softmax_batched(-s),
    lambda s: (s.amin(-1, True) - s).exp() / (s.amin(-1, True) - s).exp().sum(-1, True),
)
wrong("softmax", "logarithm", lambda s: s.log_softmax(-1), lambda s: softmax_batched(s).log())
wrong("softmax", "each_score_alone", lambda s: s.sigmoid(), lambda s: s.exp() / (1 + s.exp()))
wrong(
    "softmax",
    "other_base",
    lambda s: 2**s / (2**s).sum(-1, True),
    lambda s: torch.exp2(s - s.amax(-1, True)) / torch.exp2(s - s.amax(-1, True)).sum(-1, True),
    lambda s: 10**s / (10**s).sum(-1, True),
)
wrong(
    "softmax",
    "no_exponential",
    lambda s: s**2 / (s**2).sum(-1, True),
    lambda s: s.relu() / s.relu().sum(-1, True),
    lambda s: (s - s.amin(-1, True)) / (s - s.amin(-1, True)).sum(-1, True),
)
wrong(
    "softmax",
    "overflow_on_large_scores",
    lambda s: (s.exp() / s.exp().sum(-1, True)).nan_to_num(0.0),
    lambda s: s.double().exp() / s.double().exp().sum(-1, True),
)
wrong(
    "softmax",
    "maximum_not_of_the_row",
    softmax_minus(lambda s: s.mean(-1, keepdim=True)),
    softmax_minus(lambda s: s.min(-1, keepdim=True).values),
)
wrong("softmax", "softmax_over_queries", softmax_minus(lambda s: s.amax(-1, True), sum_axis=1))
unlisted(
    "softmax",
    lambda s: (2 * s).softmax(-1),
    lambda s: s.softmax(-1).tolist(),
    lambda s: s.softmax(-1).numpy(),
    lambda s: (s.softmax(-1), s),
    lambda s: softmax_batched(s)[0],
    lambda s: F.one_hot(s.argmax(-1), s.shape[-1]).float(),
)


def softmax_in_place(scores):
    scores -= scores.max(dim=-1, keepdim=True).values
    return scores.exp() / scores.exp().sum(dim=-1, keepdim=True)


wrong("softmax", "changes_its_input", softmax_in_place, lambda s: s.sub_(s.amax(-1, True)).softmax(-1))


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


def head_with(start=None, step=None, divisor=None, bias=True, stop=None):
    def attempt(hidden_state, layer, head):
        size = layer.query.out_features // layer.num_attention_heads
        part = slice(head * size, head * size + size)
        if start is not None:
            part = slice((head + start) * size, (head + start + 1) * size)
        if step:
            part = slice(head, None, layer.num_attention_heads)
        query, key = (
            F.linear(hidden_state, p.weight, p.bias if bias else None) for p in (layer.query, layer.key)
        )
        return (query[..., part] @ key[..., part].mT / (divisor or math.sqrt)(size)).softmax(-1)

    return attempt


def head_one_based_chunks(hidden_state, layer, head):
    query, key = (
        p(hidden_state).chunk(layer.num_attention_heads, dim=-1)[head - 1] for p in (layer.query, layer.key)
    )
    return (query @ key.mT / math.sqrt(query.shape[-1])).softmax(-1)


def head_interleaved_view(hidden_state, layer, head):
    parts = []
    for projection in (layer.query, layer.key):
        parts.append(projection(hidden_state).unflatten(-1, (-1, layer.num_attention_heads))[..., head])
    return (parts[0] @ parts[1].mT / math.sqrt(parts[0].shape[-1])).softmax(-1)


def head_no_bias(hidden_state, layer, head):
    size = layer.attention_head_size
    query = (hidden_state @ layer.query.weight.T)[..., head * size : (head + 1) * size]
    key = (hidden_state @ layer.key.weight.T)[..., head * size : (head + 1) * size]
    return (query @ key.mT / math.sqrt(size)).softmax(-1)


def head_root_of_hidden(hidden_state, layer, head):
    query = layer.query(hidden_state)
    scale = math.sqrt(query.shape[-1])
    query, key = (t.chunk(layer.num_attention_heads, -1)[head] for t in (query, layer.key(hidden_state)))
    return (query @ key.mT / scale).softmax(-1)


def head_without_root(hidden_state, layer, head):
    query, key = (
        p(hidden_state).chunk(layer.num_attention_heads, -1)[head] for p in (layer.query, layer.key)
    )
    return torch.softmax(torch.einsum("bqd,bkd->bqk", query, key), dim=-1)


right(
    "weights_of_head",
    head_slice,
    head_view,
    head_weights,
    head_library,
    head_framework,
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
wrong(
    "weights_of_head", "head_counted_from_one", head_with(start=-1), head_with(start=1), head_one_based_chunks
)
wrong("weights_of_head", "every_nth_number", head_with(step=True), head_interleaved_view)
wrong("weights_of_head", "bias_forgotten", head_with(bias=False), head_no_bias)
wrong(
    "weights_of_head",
    "scaled_by_hidden_size",
    head_with(divisor=lambda size: math.sqrt(5 * size)),
    head_root_of_hidden,
)
wrong(
    "weights_of_head",
    "no_scaling",
    head_with(divisor=lambda size: 1),
    head_without_root,
)


def head_changed(parts=None, cut=None, scores=None, weigh=None):
    """The rule with one step changed."""

    def attempt(hidden_state, layer, head):
        n = layer.num_attention_heads
        parts_ = parts or (lambda x, layer: (layer.query(x), layer.key(x)))
        cut_ = cut or (lambda t, n, head: t.chunk(n, dim=-1)[head])
        query, key = (cut_(part, n, head) for part in parts_(hidden_state, layer))
        products = scores(query, key, layer) if scores else query @ key.mT / math.sqrt(query.shape[-1])
        return weigh(products) if weigh else products.softmax(-1)

    return attempt


def matrix_not_turned(x, layer):
    return x @ layer.query.weight + layer.query.bias, x @ layer.key.weight + layer.key.bias


wrong(
    "weights_of_head",
    "head_ignored",
    head_changed(cut=lambda t, n, head: t[..., : t.shape[-1] // n]),
    head_changed(cut=lambda t, n, head: t.chunk(n, -1)[0]),
)
wrong(
    "weights_of_head",
    "not_cut_into_heads",
    head_changed(cut=lambda t, n, head: t),
    lambda x, layer, head: (layer.query(x) @ layer.key(x).mT / layer.attention_head_size**0.5).softmax(-1),
    lambda x, layer, head: (layer.query(x) @ layer.key(x).mT).softmax(-1),
)
wrong(
    "weights_of_head",
    "view_without_transpose",
    head_changed(cut=lambda t, n, head: t.reshape(len(t), n, t.shape[1], -1)[:, head]),
)
wrong(
    "weights_of_head",
    "other_layer_used",
    head_changed(parts=lambda x, layer: (layer.query(x), layer.query(x))),
    head_changed(parts=lambda x, layer: (layer.key(x), layer.key(x))),
    head_changed(parts=lambda x, layer: (layer.query(x), layer.value(x))),
    head_changed(parts=lambda x, layer: (layer.value(x), layer.key(x))),
)
wrong("weights_of_head", "not_projected", head_changed(parts=lambda x, layer: (x, x)))
wrong(
    "weights_of_head",
    "matrix_not_transposed",
    head_changed(parts=matrix_not_turned),
    head_changed(parts=lambda x, layer: (x @ layer.query.weight, x @ layer.key.weight)),
)
wrong(
    "weights_of_head",
    "query_key_swapped",
    lambda x, layer, head: head_slice(x, layer, head).mT,
    head_changed(scores=lambda q, k, layer: k @ q.mT / q.shape[-1] ** 0.5),
)
wrong(
    "weights_of_head",
    "no_softmax",
    head_changed(weigh=lambda s: s),
    head_changed(weigh=lambda s: s / s.sum(-1, True)),
)
wrong("weights_of_head", "softmax_over_queries", head_changed(weigh=lambda s: s.softmax(1)))
wrong("weights_of_head", "softmax_over_batch", head_changed(weigh=lambda s: s.softmax(0)))
wrong(
    "weights_of_head",
    "scaled_by_d",
    head_changed(scores=lambda q, k, layer: q @ k.mT / q.shape[-1]),
    head_with(divisor=lambda size: size),
)
wrong(
    "weights_of_head",
    "scaled_by_sequence_length",
    head_changed(scores=lambda q, k, layer: q @ k.mT / math.sqrt(k.shape[-2])),
    head_changed(scores=lambda q, k, layer: q @ k.mT / math.sqrt(q.size(1))),
)
wrong(
    "weights_of_head",
    "scaled_by_number_of_heads",
    head_changed(scores=lambda q, k, layer: q @ k.mT / math.sqrt(layer.num_attention_heads)),
)
wrong(
    "weights_of_head",
    "sizes_of_another_model",
    head_changed(scores=lambda q, k, layer: q @ k.mT / 8),
    head_changed(scores=lambda q, k, layer: q @ k.mT / math.sqrt(768)),
    head_changed(
        cut=lambda t, n, head: t[..., head * 64 : (head + 1) * 64], scores=lambda q, k, layer: q @ k.mT / 8
    ),
    head_changed(scores=lambda q, k, layer: q @ k.mT / math.sqrt(16)),
)
wrong(
    "weights_of_head",
    "all_heads_at_once",
    lambda x, layer, head: layer(x)[1],
    lambda x, layer, head: torch.stack(
        [head_slice(x, layer, h) for h in range(layer.num_attention_heads)], 1
    ),
)
wrong("weights_of_head", "mean_of_heads", lambda x, layer, head: layer(x)[1].mean(1))


def head_in_place(hidden_state, layer, head):
    hidden_state *= 1.5
    return head_slice(hidden_state, layer, head)


wrong("weights_of_head", "changes_its_input", head_in_place)
unlisted(
    "weights_of_head",
    lambda x, layer, head: (x, head_slice(x, layer, head)),
    lambda x, layer, head: head_slice(x, layer, head).squeeze(),
    lambda x, layer, head: head_slice(x, layer, head).tolist(),
    lambda x, layer, head: head_slice(x, layer, head)[0],
    lambda x, layer, head: (head_slice(x, layer, head), x),
    head_with(bias=False, divisor=lambda size: 1),
)


# ------------------------------------------------------------------------------------- one more of each mistake


for misconception, attempt in {
    "softmax_twice": lambda scores: scores.softmax(-1).softmax(-1),
    "scaled_first": lambda scores: (scores / math.sqrt(scores.shape[-1])).softmax(-1),
    "divided_not_subtracted": lambda scores: (scores / scores.abs().amax(-1, keepdim=True)).softmax(-1),
}.items():
    wrong("softmax", misconception, attempt)
for misconception, attempt in {
    "applied_to_values": lambda x, layer, head: (
        head_slice(x, layer, head) @ layer.value(x).chunk(layer.num_attention_heads, -1)[head]
    ),
    "slice_at_the_wrong_place": head_changed(cut=lambda t, n, head: t[..., head : head + t.shape[-1] // n]),
    "causal_mask_added": head_changed(
        weigh=lambda s: s.masked_fill(torch.ones_like(s).triu(1).bool(), -math.inf).softmax(-1)
    ),
    "each_score_alone": head_changed(weigh=torch.sigmoid),
    "other_divisor": head_with(divisor=lambda size: size / 2),
    "scaled_after_softmax": head_changed(
        scores=lambda q, k, layer: q @ k.mT, weigh=lambda s: s.softmax(-1) / math.sqrt(3)
    ),
    "scores_changed": head_changed(weigh=lambda s: s.relu().softmax(-1)),
    "sign_turned": head_changed(weigh=lambda s: (-s).softmax(-1)),
    "softmax_twice": head_changed(weigh=lambda s: s.softmax(-1).softmax(-1)),
}.items():
    wrong("weights_of_head", misconception, attempt)
