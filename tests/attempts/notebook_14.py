"""Attempts at the exercises of notebook 14."""

import numpy as np
import torch
import torch.nn.functional as F

from .tables import peer, right, wrong


def sinks_by_loop(text, window, sinks):
    mask = torch.zeros(len(text), len(text), dtype=torch.bool)
    for query in range(len(text)):
        first = text.tolist().index(text[query])
        for key in range(first, query + 1):
            mask[query, key] = key > query - window or key < first + sinks
    return mask


def sinks_by_text(text, window, sinks):
    blocks = []
    for size in torch.unique_consecutive(text, return_counts=True)[1]:
        ones = torch.ones(size, size).bool()
        near = ones.tril() & ones.triu(1 - window)
        near[:, :sinks] = True
        blocks.append(near.tril())
    return torch.block_diag(*blocks).bool()


def sinks_by_numpy(text, window, sinks):
    text = text.numpy()
    place = np.arange(len(text))
    start = np.searchsorted(text, text)
    gap = place[:, None] - place
    return torch.from_numpy((text[:, None] == text) & (gap >= 0) & ((gap < window) | (place - start < sinks)))


right("sink_mask", sinks_by_loop, sinks_by_text, sinks_by_numpy)
peer("sink_mask", sinks_by_loop)


def parts_of(text):
    place = torch.arange(len(text))
    gap, begin = place[:, None] - place, torch.searchsorted(text, text)
    return text[:, None] == text, gap, (place - begin)[None]


def sinking(rule):
    return lambda text, window, sinks: rule(*parts_of(text), window, sinks)


wrong(
    "sink_mask",
    one_sink_too_few=lambda t, w, s: sinks_by_loop(t, w, s - 1),
    query_left_out=lambda t, w, s: sinks_by_loop(t, w, s) & ~torch.eye(len(t)).bool(),
    earlier_keys_hidden=sinking(lambda same, gap, at, w, s: same & (gap <= 0) & ((-gap < w) | (at < s))),
    brackets_missing=sinking(lambda same, gap, at, w, s: same & (gap >= 0) & (gap < w) | (at < s)),
    texts_mixed=sinking(lambda same, gap, at, w, s: (gap >= 0) & ((gap < w) | (at < s))),
    later_keys_seen=sinking(lambda same, gap, at, w, s: same & ((gap < w) | (at < s))),
    no_sinks=sinking(lambda same, gap, at, w, s: same & (gap >= 0) & (gap < w)),
    no_window=sinking(lambda same, gap, at, w, s: same & (gap >= 0) & (at < s)),
    both_demanded=sinking(lambda same, gap, at, w, s: same & (gap >= 0) & (gap < w) & (at < s)),
    window_one_too_long=lambda t, w, s: sinks_by_loop(t, w + 1, s),
    window_one_too_short=lambda t, w, s: sinks_by_loop(t, w - 1, s),
    one_sink_too_many=lambda t, w, s: sinks_by_loop(t, w, s + 1),
    sinks_of_first_text=sinking(
        lambda same, gap, at, w, s: same & (gap >= 0) & ((gap < w) | (torch.arange(len(gap)) < s))
    ),
    sinks_counted_from_query=sinking(
        lambda same, gap, at, w, s: same & (gap >= 0) & ((gap < w) | (s > at.T))
    ),
    sinks_inside_window=lambda t, w, s: sinks_by_loop(t, w - s, s),
    sizes_exchanged=lambda t, w, s: sinks_by_loop(t, s, w),
    wrong_dtype_or_value=lambda t, w, s: sinks_by_loop(t, w, s).int(),
    inverted=lambda t, w, s: sinks_by_loop(t, w, s).logical_not(),
    transposed=lambda t, w, s: sinks_by_loop(t, w, s).mT.clone(),
)


def tokens_by_loop(weights, value, output, direction):
    heads, keys = weights.shape
    head_dim, group = value.shape[-1], heads // len(value)
    found = torch.zeros(heads, keys, dtype=weights.dtype)
    for head in range(heads):
        columns = output[:, head * head_dim : (head + 1) * head_dim]
        for key in range(keys):
            found[head, key] = direction @ (columns @ (weights[head, key] * value[head // group, key]))
    return found


def tokens_by_einsum(weights, value, output, direction):
    columns = output.view(len(output), len(weights), -1)
    values = value.repeat_interleave(len(weights) // len(value), 0)
    return torch.einsum("hk,hkd,ehd,e->hk", weights, values, columns, direction)


def tokens_by_groups(weights, value, output, direction):
    towards = F.linear(direction, output.T).unflatten(0, (len(value), -1, value.shape[-1]))
    return (weights.unflatten(0, (len(value), -1)) * (towards @ value.mT)).flatten(0, 1)


right("contributions_by_token", tokens_by_loop, tokens_by_einsum, tokens_by_groups)
peer("contributions_by_token", tokens_by_loop)


wrong(
    "contributions_by_token",
    weights_left_out=lambda w, v, o, d: tokens_by_loop(torch.ones_like(w), v, o, d),
    values_left_out=lambda w, v, o, d: w.clone(),
    keys_tiled=lambda w, v, o, d: tokens_by_einsum(w, torch.cat([v] * (len(w) // len(v))), o, d),
    summed_over_tokens=lambda w, v, o, d: tokens_by_loop(w, v, o, d).sum(1),
    summed_over_heads=lambda w, v, o, d: tokens_by_loop(w, v, o, d).sum(0),
    rows_for_columns=lambda w, v, o, d: tokens_by_loop(w, v, o.reshape(o.shape[1], o.shape[0]).T, d),
    heads_interleaved=lambda w, v, o, d: tokens_by_loop(
        w, v, o.view(len(o), -1, len(w)).transpose(1, 2).flatten(1), d
    ),
    head_0_for_all=lambda w, v, o, d: tokens_by_loop(w, v, o[:, : v.shape[2]].repeat(1, len(w)), d),
    values_of_head_0=lambda w, v, o, d: tokens_by_loop(w, v[:1], o, d),
    softmax_again=lambda w, v, o, d: tokens_by_loop(torch.softmax(w, -1), v, o, d),
    squared=lambda w, v, o, d: tokens_by_loop(w, v, o, d) ** 2,
    share_of_the_whole=lambda w, v, o, d: (
        F.normalize(tokens_by_loop(w, v, o, d).double(), p=1, dim=1)
        * tokens_by_loop(w, v, o, d).abs().sum(1, keepdim=True)
        / tokens_by_loop(w, v, o, d).sum(1, keepdim=True)
    ),
)


def known_by_loop(table, norm, input_ids, right, wrong):
    total = 0.0
    for ids, one, other in zip(input_ids.tolist(), right.tolist(), wrong.tolist(), strict=True):
        total += norm(table[ids[-1]]) @ (table[one] - table[other])
    return total / len(right)


def known_by_einsum(table, norm, input_ids, right, wrong):
    return torch.einsum("bd,bd->b", norm(table[input_ids])[:, -1], table[right] - table[wrong]).mean()


def known_by_linear(table, norm, input_ids, right, wrong):
    logits = F.linear(norm(F.embedding(input_ids[:, -1], table)), table)
    both = logits.gather(1, torch.stack([right, wrong], dim=1))
    return (both @ both.new_tensor([1, -1])).sum() / len(both)


right("known_beforehand", known_by_loop, known_by_einsum, known_by_linear)
right("known_beforehand", lambda *given: known_by_loop(*given).item())
peer("known_beforehand", known_by_loop)


def gaps(table, norm, ids, right, wrong):
    return (norm(table[ids[:, -1]]) * (table[right] - table[wrong])).sum(-1)


def softmaxed(table, norm, ids, right, wrong):
    odds = F.softmax(norm(table[ids[:, -1]]) @ table.mT, dim=-1)
    return (odds.gather(1, right[:, None]) - odds.gather(1, wrong[:, None])).mean()


wrong(
    "known_beforehand",
    names_of_all_prompts=lambda t, n, i, r, w: (n(t[i[:, -1]]) @ (t[r] - t[w]).T).mean(),
    norm_left_out=lambda t, n, i, r, w: known_by_loop(t, lambda x: x, i, r, w),
    norm_twice=lambda t, n, i, r, w: (n(t[i[:, -1]]) * (n(t[r]) - n(t[w]))).sum(-1).mean(),
    first_token=lambda t, n, i, r, w: known_by_loop(t, n, i.flip(1), r, w),
    all_tokens=lambda t, n, i, r, w: (n(t[i].mean(1)) * (t[r] - t[w])).sum(-1).mean(),
    sign_turned=lambda t, n, i, r, w: known_by_loop(t, n, i, w, r),
    right_alone=lambda t, n, i, r, w: known_by_loop(t, n, i, r, w) + (n(t[i[:, -1]]) * t[w]).sum(-1).mean(),
    probabilities=softmaxed,
    sign_lost=lambda *given: gaps(*given).abs().mean(),
    summed=lambda *given: gaps(*given).sum(),
    share_of_right=lambda *given: gaps(*given).gt(0).float().mean(),
    for_each_prompt=gaps,
    names_for_the_token=lambda t, n, i, r, w: known_by_loop(t, n, r[:, None], r, w),
)
