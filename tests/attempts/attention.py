"""Attempts at attention, which 02 and 03 ask for: right ones that take a mask or none, and one step changed."""

import math

import numpy as np
import torch
import torch.nn.functional as F


def attention_loops(query, key, value, mask=None):
    shape = (*query.shape[:-1], value.shape[-1])
    if query.dim() > 2:
        masks = [None] * len(query) if mask is None else mask.expand(*query.shape[:-1], key.shape[-2])
        return torch.stack([attention_loops(*part) for part in zip(query, key, value, masks, strict=True)])
    output = torch.zeros(shape)
    for i in range(len(query)):
        scores = [float(query[i] @ key[j]) / math.sqrt(len(key[j])) for j in range(len(key))]
        if mask is not None:
            scores = [score if mask[i, j] else -math.inf for j, score in enumerate(scores)]
        if max(scores) == -math.inf:
            continue
        powers = [math.exp(score - max(scores)) for score in scores]
        for j in range(len(key)):
            if sum(powers):
                output[i] += powers[j] / sum(powers) * value[j]
    return output


def attention_einsum(query, key, value, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    if mask is not None:
        weights = torch.where(mask.any(dim=-1, keepdim=True), weights, 0.0)
    return torch.einsum("...qk,...kv->...qv", weights, value), weights


def attention_additive(query, key, value, mask=None):
    scores = (query / query.shape[-1] ** 0.5) @ key.transpose(-2, -1)
    if mask is not None:
        scores = scores + torch.where(mask, 0.0, -math.inf)
    weights = F.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ value


def attention_numpy(query, key, value, mask=None):
    query, key, value = query.numpy(), key.numpy(), value.numpy()
    scores = query @ np.swapaxes(key, -2, -1) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask.numpy(), scores, -1e30)
    with np.errstate(invalid="ignore"):  # inf - inf
        powers = np.exp(scores - scores.max(-1, keepdims=True))
    if mask is not None:
        powers = powers * mask.numpy()
    total = powers.sum(-1, keepdims=True)
    return torch.from_numpy(powers / np.where(total == 0, 1, total) @ value)


def attention_framework(query, key, value, mask=None):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def attention_keys_apart(query, key, value, mask=None):
    """Each query with the keys that it may see, and no others."""
    output = torch.zeros(*query.shape[:-1], value.shape[-1])
    weights_shape = *query.shape[:-1], key.shape[-2]
    allowed = torch.ones(weights_shape, dtype=torch.bool) if mask is None else mask.expand(weights_shape)
    for place in np.ndindex(*query.shape[:-1]):
        seen = allowed[place]
        if seen.any():
            keys, values = key[place[:-1]][seen], value[place[:-1]][seen]
            output[place] = ((keys @ query[place]) / math.sqrt(len(query[place]))).softmax(0) @ values
    return output


def attention_root_shared(query, key, value, mask=None):
    """The fourth root at the query and at the key; -1e9, and the empty rows taken out behind softmax."""
    root = query.shape[-1] ** 0.25
    scores = (query / root) @ (key / root).transpose(-1, -2)
    if mask is not None:
        scores = torch.where(mask, scores, torch.tensor(-1e9))
    weights = scores.softmax(-1)
    if mask is not None:
        weights = weights * mask.any(-1, keepdim=True)
    return [weights @ value, weights]


def attention_by_powers(query, key, value, mask=None):
    """Softmax by hand, over the allowed keys."""
    scores = torch.matmul(query, key.swapaxes(-1, -2)).div(query.size(-1) ** 0.5)
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), torch.finfo(scores.dtype).min)
    powers = (scores - scores.max(-1, keepdim=True).values).exp()
    if mask is not None:
        powers = powers.masked_fill(~mask, 0)
    total = powers.sum(-1, keepdim=True)
    return (powers @ value) / total.masked_fill(total == 0, 1.0)


FOR_BOTH = [
    attention_loops,
    attention_einsum,
    attention_additive,
    attention_numpy,
    attention_framework,
    attention_keys_apart,
    attention_root_shared,
    attention_by_powers,
]


def masked(scores, mask, filling=-math.inf):
    return scores if mask is None else scores.masked_fill(~mask, filling)


def settle(weights, mask):
    """No weight in a row with everything masked."""
    return weights if mask is None else weights.masked_fill(~mask.any(-1, keepdim=True), 0.0)


def changed(pair=None, divide=None, weigh=None, fetch=None):
    """Attention by einsum with one step changed: the two that are multiplied, the root, the weights, the mean."""

    def attempt(query, key, value, mask=None):
        left, right = pair(query, key, value) if pair else (query, key)
        scores = torch.einsum("...qd,...kd->...qk", left, right)
        scores = divide(scores, query, key, value) if divide else scores * query.shape[-1] ** -0.5
        weights = settle((weigh or torch.nn.Softmax(-1))(masked(scores, mask)), mask)
        return (
            fetch(weights, query, key, value) if fetch else torch.einsum("...qk,...kv->...qv", weights, value)
        )

    return attempt


def causal(scores):
    return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf).softmax(-1)


# A mistake in one step, with a mask or without.
WRONG_STEPS = {
    "no_scaling": changed(divide=lambda s, q, k, v: s),
    "scaled_by_d": changed(lambda q, k, v: (q / q.size(-1), k), lambda s, *_: s),
    "scaled_by_sequence_length": changed(divide=lambda s, q, k, v: s / s.shape[-1]),
    "scaled_by_batch": changed(divide=lambda s, q, k, v: s * len(q) ** -0.5),
    "scaled_by_value_width": changed(divide=lambda s, q, k, v: s / math.sqrt(v.size(-1))),
    "scaled_by_a_constant": changed(divide=lambda s, q, k, v: s * 0.125),
    "multiplied_by_root": changed(lambda q, k, v: (q * q.size(-1) ** 0.5, k), lambda s, *_: s),
    "multiplied_by_d": changed(divide=lambda s, q, k, v: s * k.size(-1)),
    "other_divisor": changed(divide=lambda s, q, k, v: 2 * s / q.shape[-1]),
    "sign_turned": changed(lambda q, k, v: (q, 0 - k)),
    "query_key_swapped": changed(lambda q, k, v: (k, q)),
    "query_with_itself": changed(lambda q, k, v: (q, q)),
    "key_value_swapped": changed(lambda q, k, v: (q, v), fetch=lambda w, q, k, v: w @ k),
    "no_softmax": changed(weigh=lambda s: s),
    "softmax_twice": changed(weigh=lambda s: F.softmax(F.softmax(s, -1), -1)),
    "softmax_over_queries": changed(weigh=lambda s: s.mT.softmax(-1).mT),
    "softmax_over_batch": changed(weigh=lambda s: F.softmax(s, 0)),
    "each_score_alone": changed(weigh=lambda s: s.exp() / (1 + s.exp())),
    "largest_score_only": changed(
        weigh=lambda s: torch.zeros_like(s).scatter(-1, s.argmax(-1, keepdim=True), 1.0)
    ),
    "all_keys_alike": changed(weigh=lambda s: torch.full_like(s, 1 / s.shape[-1])),
    "scores_changed": changed(weigh=lambda s: s.clamp(min=0).softmax(-1)),
    "causal_mask_added": changed(weigh=causal),
    "overflow_on_large_scores": changed(weigh=lambda s: s.exp() / s.exp().sum(-1)[..., None]),
    "scaled_after_softmax": changed(
        divide=lambda s, *_: s, fetch=lambda w, q, k, v: w @ v / q.size(-1) ** 0.5
    ),
    "scaled_twice": changed(fetch=lambda w, q, k, v: w @ v / q.size(-1) ** 0.5),
    "value_ignored": changed(fetch=lambda w, q, k, v: w),
    "weights_first": changed(fetch=lambda w, q, k, v: (w, w @ v)),
}


def divides_in_place(query, key, value, mask=None):
    query /= math.sqrt(query.shape[-1])
    return settle(masked(query @ key.mT, mask).softmax(-1), mask) @ value
