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


for_both = [
    attention_loops,
    attention_einsum,
    attention_additive,
    attention_numpy,
    attention_framework,
    attention_keys_apart,
    attention_root_shared,
    attention_by_powers,
]
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


unlisted("attention", loops_without_softmax)
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


# ------------------------------------------------------------------------- mistakes in each step, with and without


def changed(query_key=None, divide=None, weigh=None, fetch=None, filling=-math.inf):
    """Attention with one step changed."""

    def attempt(query, key, value, mask=None):
        left, right_ = query_key(query, key, value) if query_key else (query, key)
        scores = left @ right_.transpose(-2, -1)
        scores = divide(scores, query, key, value) if divide else scores / math.sqrt(query.shape[-1])
        scores = masked(scores, mask, filling)
        weights = settle(weigh(scores) if weigh else scores.softmax(-1), mask)
        return fetch(weights, query, key, value) if fetch else weights @ value

    return attempt


both(
    "scaled_by_a_constant",
    changed(divide=lambda s, q, k, v: s / math.sqrt(4)),
    changed(divide=lambda s, q, k, v: s / 2),
    changed(divide=lambda s, q, k, v: s / 8),
    changed(divide=lambda s, q, k, v: s / math.sqrt(768)),
    changed(divide=lambda s, q, k, v: s / 4),
    changed(divide=lambda s, q, k, v: s / math.sqrt(2)),
    changed(divide=lambda s, q, k, v: s * 0.125),
)
both("scaled_by_value_width", changed(divide=lambda s, q, k, v: s / math.sqrt(v.shape[-1])))
both(
    "scaled_by_batch",
    changed(divide=lambda s, q, k, v: s / math.sqrt(q.shape[0])),
    changed(divide=lambda s, q, k, v: s / len(q) ** 0.5),
)
both(
    "scaled_after_softmax",
    changed(
        divide=lambda s, q, k, v: s,
        fetch=lambda w, q, k, v: w / math.sqrt(q.shape[-1]) @ v,
    ),
    changed(
        divide=lambda s, q, k, v: s,
        weigh=lambda s: s.softmax(-1),
        fetch=lambda w, q, k, v: w @ v / q.shape[-1] ** 0.5,
    ),
    changed(fetch=lambda w, q, k, v: w @ v / q.shape[-1] ** 0.5),
)
both(
    "multiplied_by_root",
    changed(divide=lambda s, q, k, v: s * math.sqrt(q.shape[-1])),
    changed(query_key=lambda q, k, v: (q * q.shape[-1] ** 0.5, k), divide=lambda s, q, k, v: s),
)
both(
    "key_value_swapped",
    lambda q, k, v, mask=None: (
        F.scaled_dot_product_attention(q, v, k, mask)
        if v.shape == k.shape
        else attention_framework(q, k, v, mask)
    ),
    changed(query_key=lambda q, k, v: (q, v), fetch=lambda w, q, k, v: w @ k),
)
both(
    "query_with_itself",
    changed(query_key=lambda q, k, v: (q, q)),
    changed(query_key=lambda q, k, v: (k, k)),
    lambda q, k, v, mask=None: F.scaled_dot_product_attention(q, q, v, mask),
)
both(
    "sign_turned",
    changed(weigh=lambda s: (-s).masked_fill(s == -math.inf, -math.inf).softmax(-1)),
    changed(divide=lambda s, q, k, v: -s / math.sqrt(q.shape[-1])),
    changed(divide=lambda s, q, k, v: -(s / q.shape[-1] ** 0.5)),
)
both(
    "overflow_on_large_scores",
    changed(weigh=lambda s: s.exp() / s.exp().sum(-1, keepdim=True)),
    changed(weigh=lambda s: (s - s.max()).exp() / (s - s.max()).exp().sum(-1, keepdim=True)),
    changed(weigh=lambda s: s.exp() / s.exp().sum(-1)[..., None]),
    changed(weigh=lambda s: (s.exp() / s.exp().sum(-1, keepdim=True)).nan_to_num(0.0)),
)
both(
    "value_ignored",
    changed(fetch=lambda w, q, k, v: w),
    changed(fetch=lambda w, q, k, v: (w @ k, w)),
    changed(fetch=lambda w, q, k, v: w @ q),
)
both(
    "softmax_over_queries",
    changed(weigh=lambda s: s.softmax(-2)),
    lambda q, k, v, mask=None: masked(q @ k.mT / q.shape[-1] ** 0.5, mask).softmax(-2) @ v,
)
both("query_key_swapped", changed(query_key=lambda q, k, v: (k, q)))
for exercise in ("attention", "scaled_dot_product_attention"):
    unlisted(
        exercise,
        lambda q, k, v, mask=None: attention_framework(q, k, v, mask).tolist(),
        lambda q, k, v, mask=None: attention_framework(q, k, v, mask).numpy(),
        lambda q, k, v, mask=None: attention_framework(q, k, v, mask).mT,
        lambda q, k, v, mask=None: attention_framework(q, k, v, mask).squeeze(),
        lambda q, k, v, mask=None: attention_framework(q, k, v, mask) / 2,
        changed(query_key=lambda q, k, v: (q * k, v)),
        changed(fetch=lambda w, q, k, v: (w @ v, k)),
        changed(fetch=lambda w, q, k, v: (w @ v, v)),
    )


# ------------------------------------------------------------------------------------------- mistakes in the mask


def with_mask(step):
    """Attention in which `step(scores, mask)` gives the weights."""

    def attempt(query, key, value, mask=None):
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        return (scores.softmax(-1) if mask is None else step(scores, mask)) @ value

    return attempt


def late(scores, mask):
    return scores.softmax(-1) * mask


mask_wrong(
    "mask_transposed",
    with_mask(lambda s, m: settle(s.masked_fill(~m.mT, -math.inf).softmax(-1), m.mT)),
    with_mask(lambda s, m: s.masked_fill(~m.transpose(-1, -2), -1e9).softmax(-1)),
)
mask_wrong(
    "renormalised_after_softmax",
    with_mask(lambda s, m: late(s, m) / late(s, m).sum(-1, keepdim=True)),
    with_mask(lambda s, m: late(s, m) / late(s, m).sum(-1, keepdim=True).clamp(min=1e-9)),
    with_mask(lambda s, m: late(s, m) / (late(s, m).sum(-1, keepdim=True) + 1e-12)),
    with_mask(lambda s, m: F.normalize(late(s, m), p=1, dim=-1)),
    with_mask(lambda s, m: (late(s, m) / late(s, m).sum(-1, keepdim=True)).nan_to_num(0.0)),
)
mask_wrong(
    "nan_wiped_away",
    with_mask(lambda s, m: s.masked_fill(~m, -math.inf).softmax(-1).nan_to_num(0.0)),
    with_mask(lambda s, m: torch.nan_to_num(s.masked_fill(~m, -math.inf).softmax(-1))),
    with_mask(
        lambda s, m: (lambda w: torch.where(w.isnan(), 0.0, w))(s.masked_fill(~m, -math.inf).softmax(-1))
    ),
    lambda q, k, v, mask=None: F.scaled_dot_product_attention(q, k, v, mask).nan_to_num(0.0),
)
mask_wrong(
    "mask_not_minus_infinity",
    with_mask(lambda s, m: settle(s.masked_fill(~m, math.inf).softmax(-1), m)),
    with_mask(lambda s, m: settle(s.masked_fill(~m, 1e9).softmax(-1), m)),
    with_mask(lambda s, m: settle(s.masked_fill(~m, -100).softmax(-1), m)),
    with_mask(lambda s, m: settle(s.masked_fill(~m, -1000).softmax(-1), m)),
    with_mask(lambda s, m: settle((s + ~m * -100.0).softmax(-1), m)),
    with_mask(lambda s, m: settle((s + ~m * -1000.0).softmax(-1), m)),
    with_mask(lambda s, m: settle((s + ~m * 1e9).softmax(-1), m)),
    with_mask(lambda s, m: settle(s.masked_fill(~m, torch.finfo(s.dtype).tiny).softmax(-1), m)),
    with_mask(lambda s, m: settle(s.masked_fill(~m, torch.finfo(s.dtype).max).softmax(-1), m)),
    with_mask(lambda s, m: settle(s.where(m, 0).softmax(-1), m)),
)
mask_wrong(
    "mask_after_softmax",
    with_mask(lambda s, m: s.softmax(-1).masked_fill(~m, -math.inf)),
    with_mask(lambda s, m: s.softmax(-1).masked_fill(~m, -1e9)),
    with_mask(lambda s, m: torch.where(m, s.softmax(-1), 0.0)),
)
mask_wrong(
    "mask_inverted",
    with_mask(lambda s, m: settle(torch.where(m, -1e30, s).softmax(-1), ~m)),
    with_mask(lambda s, m: (s + m * -1e9).softmax(-1)),
)
mask_wrong(
    "masked_row_not_zero",
    with_mask(lambda s, m: s.masked_fill(~m & m.any(-1, keepdim=True), -math.inf).softmax(-1)),
)
unlisted(
    "scaled_dot_product_attention",
    with_mask(lambda s, m: s.masked_fill(~m, -math.inf).softmax(-1).masked_fill(~m.any(), 0.0) * 0.5),
    lambda q, k, v, mask=None: F.scaled_dot_product_attention(q, k, v, is_causal=mask is not None),
)


# ---------------------------------------------------------------------------------- the weights by another rule


def causal(scores):
    return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf)


for misconception, weigh in {
    "scores_changed": lambda scores: scores.relu().softmax(-1),
    "causal_mask_added": lambda scores: causal(scores).softmax(-1),
    "each_score_alone": torch.sigmoid,
    "softmax_twice": lambda scores: scores.softmax(-1).softmax(-1),
    "all_keys_alike": lambda scores: torch.full_like(scores, 1 / scores.shape[-1]),
    "largest_score_only": lambda scores: F.one_hot(scores.argmax(-1), scores.shape[-1]).to(scores),
}.items():
    wrong("attention", misconception, changed(weigh=weigh))
    wrong(
        "scaled_dot_product_attention",
        misconception,
        lambda q, k, v, mask=None, weigh=weigh: (changed() if mask is not None else changed(weigh=weigh))(
            q, k, v, mask
        ),
    )
both("other_divisor", changed(divide=lambda s, q, k, v: 2 * s / q.shape[-1]))
for misconception, masked_otherwise in {
    "mask_on_values": lambda q, k, v, mask: attention_framework(q, k, v) * mask.any(-1, keepdim=True),
    "scaled_otherwise_with_a_mask": lambda q, k, v, mask: changed(divide=lambda s, q, k, v: s)(q, k, v, mask),
    "causal_instead_of_mask": lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "mask_of_one_query": lambda q, k, v, mask: changed()(q, k, v, mask[..., :1, :]),
}.items():
    wrong(
        "scaled_dot_product_attention",
        misconception,
        lambda q, k, v, mask=None, other=masked_otherwise: (
            attention_framework(q, k, v) if mask is None else other(q, k, v, mask)
        ),
    )
