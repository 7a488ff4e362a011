"""Attempts at attention: `attention` of notebook 02, and `scaled_dot_product_attention` of 03, which has a mask."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from .tables import combined, right, unlisted, wrong


def attention_loops(query, key, value, mask=None):
    shape = (*query.shape[:-1], value.shape[-1])
    if query.dim() > 2:
        masks = [None] * len(query) if mask is None else mask.expand(*query.shape[:-1], key.shape[-2])
        parts = zip(query, key, value, masks, strict=True)
        return torch.stack([attention_loops(*part) for part in parts])
    output = torch.zeros(shape)
    for i in range(len(query)):
        scores = [float(query[i] @ key[j]) / math.sqrt(len(key[j])) for j in range(len(key))]
        powers = [math.exp(score) for score in scores]
        if mask is not None:
            powers = [power if mask[i, j] else 0.0 for j, power in enumerate(powers)]
        for j in range(len(key)):
            if sum(powers):
                output[i] += powers[j] / sum(powers) * value[j]
    return output


def attention_einsum(query, key, value, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.nan_to_num(scores.softmax(dim=-1))
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
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    if mask is not None:
        powers = powers * mask.numpy()
    total = powers.sum(-1, keepdims=True)
    return torch.from_numpy(powers / np.where(total == 0, 1, total) @ value)


def attention_framework(query, key, value, mask=None):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


for_both = [attention_loops, attention_einsum, attention_additive, attention_numpy, attention_framework]
for exercise in ("attention", "scaled_dot_product_attention"):
    right(exercise, *for_both)
right(
    "attention",
    lambda q, k, v: ((q @ k.mT) / math.sqrt(k.size(-1))).softmax(-1) @ v,
    lambda q, k, v: (F.scaled_dot_product_attention(q, k, v),),
    lambda q, k, v: (F.scaled_dot_product_attention(q, k, v), None),
)


def masked(scores, mask, filling=-math.inf):
    return scores if mask is None else scores.masked_fill(~mask, filling)


def settle(weights, mask):
    """No weight in a row with everything masked."""
    return weights if mask is None else weights.masked_fill(~mask.any(-1, keepdim=True), 0.0)


def both(misconception, *attempts):
    for exercise in ("attention", "scaled_dot_product_attention"):
        wrong(exercise, misconception, *attempts)


def no_scaling(query, key, value, mask=None):
    return settle(masked(query @ key.transpose(-1, -2), mask).softmax(dim=-1), mask) @ value


def no_scaling_einsum(query, key, value, mask=None):
    weights = masked(torch.einsum("...id,...jd->...ij", query, key), mask).softmax(-1)
    return torch.einsum("...ij,...jd->...id", weights, value), weights


def scaled_by_d(query, key, value, mask=None):
    return settle(masked(query @ key.mT / query.shape[-1], mask).softmax(dim=-1), mask) @ value


def scaled_twice(query, key, value, mask=None):
    root = math.sqrt(key.size(-1))
    weights = masked((query / root) @ (key / root).mT, mask).softmax(dim=-1)
    return weights @ value, weights


def scaled_by_length(query, key, value, mask=None):
    return settle(masked(query @ key.mT / math.sqrt(key.shape[-2]), mask).softmax(dim=-1), mask) @ value


def scaled_by_len(query, key, value, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", query, key)
    return masked(scores / scores.shape[-1], mask).softmax(dim=-1) @ value


def scaled_by_shape_1(query, key, value, mask=None):
    return masked(query @ key.mT / query.shape[1] ** 0.5, mask).softmax(dim=-1) @ value


both("no_scaling", no_scaling, no_scaling_einsum)
both("scaled_by_d", scaled_by_d, scaled_twice)
both("scaled_by_sequence_length", scaled_by_length, scaled_by_len, scaled_by_shape_1)


def over_axis(axis):
    def attempt(query, key, value, mask=None):
        weights = masked(query @ key.mT / math.sqrt(query.shape[-1]), mask).softmax(dim=axis)
        return weights @ value, weights

    return attempt


def queries_by_hand(query, key, value, mask=None):
    powers = masked(query @ key.mT / math.sqrt(query.shape[-1]), mask).exp()
    return powers / powers.sum(dim=-2, keepdim=True) @ value


def batch_by_hand(query, key, value, mask=None):
    powers = masked(query @ key.mT / math.sqrt(query.shape[-1]), mask).exp()
    return (powers / powers.sum(0)) @ value


both("softmax_over_queries", over_axis(-2), over_axis(1), queries_by_hand)
both("softmax_over_batch", over_axis(0), batch_by_hand, over_axis(-3))


def no_softmax(query, key, value, mask=None):
    return masked(query @ key.mT / math.sqrt(query.shape[-1]), mask) @ value


def no_softmax_einsum(query, key, value, mask=None):
    return torch.einsum("...qd,...kd,...kv->...qv", query, key, value)


def swapped(query, key, value, mask=None):
    weights = masked(key @ query.mT / math.sqrt(key.shape[-1]), mask).softmax(dim=-1)
    return weights @ value, weights


def swapped_einsum(query, key, value, mask=None):
    scores = torch.einsum("...qd,...kd->...kq", query, key) / query.shape[-1] ** 0.5
    return masked(scores, mask).softmax(-1) @ value


def swapped_framework(query, key, value, mask=None):
    return F.scaled_dot_product_attention(key, query, value, mask)


def swapped_back(query, key, value, mask=None):
    return (query @ key.mT / math.sqrt(query.shape[-1])).softmax(-1).transpose(-1, -2) @ value


both("no_softmax", no_softmax, no_softmax_einsum)
both("query_key_swapped", swapped, swapped_einsum, swapped_framework, swapped_back)
both(
    "value_ignored",
    lambda q, k, v, mask=None: attention_einsum(q, k, v, mask)[1],
    lambda q, k, v, mask=None: attention_einsum(q, k, v, mask)[1] @ k,
    lambda q, k, v, mask=None: F.scaled_dot_product_attention(q, k, q, mask),
)


def divides_in_place(query, key, value, mask=None):
    query /= math.sqrt(query.shape[-1])
    return settle(masked(query @ key.mT, mask).softmax(-1), mask) @ value


def multiplies_in_place(query, key, value, mask=None):
    scores = query @ key.mul_(key.shape[-1] ** -0.5).mT
    return settle(masked(scores, mask).softmax(-1), mask) @ value


both("changes_its_input", divides_in_place, multiplies_in_place)


def inverts_in_place(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is not None:
        scores.masked_fill_(mask.logical_not_(), -1e30)
        return scores.softmax(-1).masked_fill(mask.all(-1, keepdim=True), 0.0) @ value
    return scores.softmax(-1) @ value


wrong("scaled_dot_product_attention", "changes_its_input", inverts_in_place)


def mask_wrong(misconception, *attempts):
    wrong("scaled_dot_product_attention", misconception, *attempts)


def forgets_result(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is not None:
        scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1) @ value


mask_wrong("mask_ignored", lambda q, k, v, mask=None: F.scaled_dot_product_attention(q, k, v), forgets_result)


def inverted_fill(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask, -math.inf)
    return scores.softmax(-1) @ value


def inverted_framework(query, key, value, mask=None):
    return F.scaled_dot_product_attention(query, key, value, None if mask is None else mask.logical_not())


def inverted_large(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return (scores if mask is None else scores.masked_fill(mask == 1, -1e9)).softmax(-1) @ value


mask_wrong("mask_inverted", inverted_fill, inverted_framework, inverted_large)


def after_softmax(query, key, value, mask=None):
    weights = (query @ key.mT / math.sqrt(query.shape[-1])).softmax(-1)
    return (weights if mask is None else weights * mask) @ value


def after_softmax_fill(query, key, value, mask=None):
    weights = (query @ key.mT / math.sqrt(query.shape[-1])).softmax(-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0)
    return weights @ value, weights


mask_wrong("mask_after_softmax", after_softmax, after_softmax_fill)


def filled_with(number):
    def attempt(query, key, value, mask=None):
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        return settle(masked(scores, mask, number).softmax(-1), mask) @ value

    return attempt


def scores_times_mask(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return (scores if mask is None else scores * mask).softmax(-1) @ value


def scores_plus_mask(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = (scores if mask is None else scores + mask.float()).softmax(-1)
    return weights @ value, weights


def framework_float_mask(query, key, value, mask=None):
    return F.scaled_dot_product_attention(query, key, value, None if mask is None else mask.float())


mask_wrong(
    "mask_not_minus_infinity",
    filled_with(0.0),
    filled_with(-1),
    filled_with(1e-9),
    filled_with(-10),
    scores_times_mask,
    scores_plus_mask,
    framework_float_mask,
)
mask_wrong(
    "nan_on_masked_row",
    lambda q, k, v, mask=None: masked(q @ k.mT / math.sqrt(q.shape[-1]), mask).softmax(-1) @ v,
    lambda q, k, v, mask=None: (
        (q @ k.mT / math.sqrt(q.shape[-1]) + (0.0 if mask is None else torch.where(mask, 0.0, -math.inf)))
        .softmax(-1)
        .matmul(v)
    ),
)
mask_wrong(
    "masked_row_not_zero",
    lambda q, k, v, mask=None: masked(q @ k.mT / math.sqrt(q.shape[-1]), mask, -1e9).softmax(-1) @ v,
    lambda q, k, v, mask=None: (
        (q @ k.mT / math.sqrt(q.shape[-1]) + (0.0 if mask is None else (~mask) * -1e4)).softmax(-1) @ v
    ),
    lambda q, k, v, mask=None: (
        masked(q @ k.mT / math.sqrt(q.shape[-1]), mask, torch.finfo(torch.float32).min).softmax(-1) @ v
    ),
)


def two_mistakes(query, key, value, mask=None):
    return (query @ key.mT).softmax(dim=-2) @ value


def uniform(query, key, value, mask=None):
    return value.mean(dim=-2, keepdim=True).expand(*query.shape[:-1], -1)


def sigmoid(query, key, value, mask=None):
    return (query @ key.mT / math.sqrt(query.shape[-1])).sigmoid() @ value


def wrong_weights(query, key, value, mask=None):
    output, weights = attention_einsum(query, key, value, mask)
    return output, weights.log()


for exercise in ("attention", "scaled_dot_product_attention"):
    unlisted(exercise, uniform, sigmoid, wrong_weights)
    combined(exercise, ("no_scaling", "softmax_over_queries"), two_mistakes)
combined(
    "scaled_dot_product_attention",
    ("no_scaling", "mask_ignored", "mask_inverted", "mask_after_softmax"),
    lambda q, k, v, mask=None: (q @ k.mT).softmax(-1) @ v,
    lambda q, k, v, mask=None: masked(q @ k.mT, None if mask is None else ~mask).softmax(-1) @ v,
    lambda q, k, v, mask=None: after_softmax(q, k, v, None if mask is None else ~mask),
)
unlisted("scaled_dot_product_attention", lambda q, k, v, mask=None: over_axis(-2)(q, k, v, mask)[0] * 2)


def flat(change):
    """Attention for two axes only, as notebook 02 begins: on a batch it raises, but the mistake is named."""

    def attempt(query, key, value):
        return change(query, key, value, query @ key.t())

    return attempt


wrong("attention", "no_scaling", flat(lambda q, k, v, s: s.softmax(1) @ v))
wrong("attention", "scaled_by_d", flat(lambda q, k, v, s: (s / k.shape[1]).softmax(1) @ v))
wrong(
    "attention", "scaled_by_sequence_length", flat(lambda q, k, v, s: (s / math.sqrt(len(q))).softmax(1) @ v)
)
wrong(
    "attention", "softmax_over_queries", flat(lambda q, k, v, s: (s / math.sqrt(q.shape[1])).softmax(0) @ v)
)
wrong("attention", "query_key_swapped", flat(lambda q, k, v, s: (s.T / math.sqrt(q.shape[1])).softmax(1) @ v))


def loops_without_softmax(query, key, value):
    batch, seq, d = query.shape
    output = torch.zeros_like(value)
    for b in range(batch):
        for i in range(seq):
            for j in range(seq):
                output[b, i] += (query[b, i] * key[b, j]).sum() / d**0.5 * value[b, j]
    return output


def loops_keys_first(query, key, value):
    batch, seq, d = query.shape
    scores = torch.zeros(batch, seq, seq)
    for b in range(batch):
        for i in range(seq):
            for j in range(seq):
                scores[b, j, i] = query[b, i] @ key[b, j] / math.sqrt(d)
    return torch.softmax(scores, 2) @ value


wrong("attention", "no_softmax", loops_without_softmax)
wrong("attention", "query_key_swapped", loops_keys_first)
wrong("attention", "softmax_over_batch", lambda q, k, v: torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, 0) @ v)
wrong("attention", "value_ignored", lambda q, k, v: torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1))


def weights_first(query, key, value):
    weights = torch.softmax(query @ key.mT / math.sqrt(query.shape[-1]), dim=-1)
    return weights, weights @ value


wrong("attention", "weights_first", weights_first)
mask_wrong(
    "mask_not_minus_infinity", filled_with(-3.5), filled_with(0.1), filled_with(5.0), filled_with(-1e-5)
)
mask_wrong(
    "mask_not_minus_infinity",
    lambda q, k, v, mask=None: (
        (q @ k.mT / math.sqrt(q.shape[-1]) - (0 if mask is None else 4.0 * ~mask)).softmax(-1) @ v
    ),
)
mask_wrong(
    "masked_row_not_zero",
    lambda q, k, v, mask=None: (
        (q @ k.mT / math.sqrt(q.shape[-1]) - (0 if mask is None else 1e10 * (1 - mask.float()))).softmax(-1)
        @ v
    ),
    lambda q, k, v, mask=None: (
        torch.softmax(
            torch.where(torch.tensor(True) if mask is None else mask, q @ k.mT / q.shape[-1] ** 0.5, -1e4), -1
        )
        @ v
    ),
)
