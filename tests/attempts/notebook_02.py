"""Attempts at the exercises of notebook 02; those at attention stand in attention.py."""

import math

import numpy as np
import torch
import torch.nn.functional as F

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
unlisted("softmax", lambda s: s.sigmoid(), lambda s: s.softmax(-1).log(), lambda s: (2 * s).softmax(-1))


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
)
wrong(
    "weights_of_head", "head_counted_from_one", head_with(start=-1), head_with(start=1), head_one_based_chunks
)
wrong("weights_of_head", "every_nth_number", head_with(step=True), head_interleaved_view)
wrong("weights_of_head", "bias_forgotten", head_with(bias=False), head_no_bias)
wrong(
    "weights_of_head",
    "scaled_by_hidden_size",
    head_with(divisor=lambda size: math.sqrt(3 * size)),
    head_root_of_hidden,
)
wrong(
    "weights_of_head",
    "no_scaling",
    head_with(divisor=lambda size: 1),
    head_without_root,
)
unlisted(
    "weights_of_head",
    lambda x, layer, head: head_slice(x, layer, head).mT,
    lambda x, layer, head: head_slice(x, layer, head)[0],
    lambda x, layer, head: (head_slice(x, layer, head), x),
    head_with(bias=False, divisor=lambda size: 1),
)
