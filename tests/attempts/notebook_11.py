"""Attempts at the exercises of notebook 11."""

import bisect
import math
import operator

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from utils.checks.notebook_11 import behind
from utils.checks.shared import made_numbers

from .tables import fresh, peer, right, wrong


def flops_terms(seq_len, hidden_size, intermediate_size, num_heads, num_kv_heads):
    kv_size = hidden_size // num_heads * num_kv_heads
    projections = 4 * seq_len * hidden_size**2 + 4 * seq_len * hidden_size * kv_size
    return projections + 4 * seq_len**2 * hidden_size + 4 * seq_len * hidden_size * intermediate_size


def flops_products(n, d, d_ff, h, g):
    products = [(n, d, d), (n, d, d // h * g), (n, d, d // h * g), (n, d, d), (n, d, d_ff), (n, d_ff, d)]
    products += [(n, d // h, n), (n, n, d // h)] * h
    return sum(2 * a * b * c for a, b, c in products)


def flops_heads(n, d, d_ff, h, g):
    total = 4 * n * d * d_ff
    for head in range(h):
        total += (4 + 4 * (head < g)) * n * d * (d // h) + 4 * n * n * (d // h)
    return torch.tensor(total)


right(
    "layer_flops",
    *(flops_terms, flops_products, flops_heads),
    lambda n, d, f, h, g: 8 * n * d**2 + 4 * n**2 * d + 4 * n * d * f - 4 * n * d * (h - g) * (d // h),
    lambda n, d, f, h, g: 4 * n * d * (d + d * g / h + n + f),
)


def counted_flops(n, d, d_ff, heads, kv_heads):
    kv, head_dim = kv_heads * (d // heads), d // heads
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        for before, after in [(d, d), (d, kv), (d, kv), (d, d), (d, d_ff), (d_ff, d)]:
            torch.empty(n, before) @ torch.empty(before, after)
        query = key = value = torch.empty(heads, n, head_dim)  # keys and values are repeated for their group
        (query @ key.mT) @ value
    return counter.get_total_flops()


peer("layer_flops", counted_flops)
fresh("layer_flops", (9, 40, 70, 10, 5), (3, 8, 5, 4, 1), (100, 6, 6, 3, 3))


def flops_like(query=1, output=1, table=4, inner=4, keys=2, kv=lambda d, h, g: d // h * g):
    def attempt(n, d, d_ff, h, g):
        projections = 2 * n * d * (d * (query + output) + keys * kv(d, h, g))
        return projections + table * n * n * d + inner * n * d * d_ff

    return attempt


wrong(
    "layer_flops",
    groups_ignored=lambda n, d, f, h, g: flops_terms(n, d, f, h, h),
    table_shrunk=lambda n, d, f, h, g: flops_like(table=4 * g / h)(n, d, f, h, g),
    query_or_output_shrunk=lambda n, d, f, h, g: flops_like(query=g / h)(n, d, f, h, g),
    values_not_shared=lambda n, d, f, h, g: flops_like(keys=1)(n, d, f, h, g) + 2 * n * d * d,
    keys_or_values_forgotten=flops_like(keys=1),
    group_size_as_number=flops_like(kv=lambda d, h, g: g),
    multiply_add_as_one=lambda *sizes: flops_terms(*sizes) // 2,
    one_head_of_keys=flops_like(kv=lambda d, h, g: d // h),
    rounded_to_zero=flops_like(kv=lambda d, h, g: g // h * d),
    heads_exchanged=lambda n, d, f, h, g: flops_terms(n, d, f, g, h),
    one_product_with_the_table=flops_like(table=2),
    table_for_each_head=lambda n, d, f, h, g: flops_like(table=sum([4] * h))(n, d, f, h, g),
    table_of_one_head=lambda n, d, f, h, g: flops_like(table=4 / h)(n, d, f, h, g),
    table_without_width=lambda n, d, f, h, g: flops_like(table=0)(n, d, f, h, g) + 4 * n**2,
    no_table=flops_like(table=0),
    table_without_square=lambda n, d, *sizes: flops_like(table=0)(n, d, *sizes) + 4 * n * d,
    table_counted_otherwise=flops_like(table=8),
    feed_forward_counted_otherwise=flops_like(inner=6),
    projections_counted_otherwise=flops_like(query=2, output=2),
    all_counted_several_times=lambda *sizes: 3 * flops_terms(*sizes),
    more_than_products=lambda n, d, f, h, g: flops_terms(n, d, f, h, g) + 5 * h * n * n,
    parameters_counted=lambda n, d, f, h, g: 2 * d * d + 2 * d * (d // h * g) + 2 * d * f,
    unit_changed=lambda *sizes: flops_terms(*sizes) / 1e9,
    one_product_of_feed_forward=flops_like(inner=2),
    no_feed_forward=flops_like(inner=0),
    output_projection_forgotten=flops_like(output=0),
    nan_everywhere=lambda *sizes: flops_terms(*sizes) * math.nan,
    several_numbers=lambda n, d, f, h, g: (flops_like(inner=0)(n, d, f, h, g), 4 * n * d * f),
)


def step_lines(top, total, output, scores, value):
    new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
    weights, shrink = (scores - new_top).exp(), (top - new_top).exp()
    return new_top, total * shrink + weights.sum(dim=-1, keepdim=True), output * shrink + weights @ value


def step_cat(top, total, output, scores, value):
    both = torch.cat([top, scores], dim=-1)
    new_top = both.max(dim=-1, keepdim=True).values
    weights = torch.exp(both - new_top)
    old, new = weights[..., :1], weights[..., 1:]
    total = old * total + new.sum(-1, keepdim=True)
    return [new_top, total, old * output + torch.einsum("...qk,...kd->...qd", new, value)]


def step_one_by_one(top, total, output, scores, value):
    for key in range(scores.shape[-1]):
        score = scores[..., key : key + 1]
        larger = torch.where(score > top, score, top)
        total = total * torch.exp(top - larger) + torch.exp(score - larger)
        output = output * torch.exp(top - larger) + torch.exp(score - larger) * value[..., key : key + 1, :]
        top = larger
    return top, total, output


def step_two_cases(top, total, output, scores, value):
    tile_top = scores.amax(-1, keepdim=True)
    tile = (scores - tile_top).exp()
    old, new = (top - tile_top).clamp(max=0).exp(), (tile_top - top).clamp(max=0).exp()
    total = total * old + tile.sum(-1, keepdim=True) * new
    return torch.maximum(top, tile_top), total, output * old + tile @ value * new


def step_double(top, total, output, scores, value):
    top, total, output, scores, value = (part.double() for part in (top, total, output, scores, value))
    new = torch.amax(torch.cat((scores, top), -1), -1, True)
    ratio = torch.exp(scores - new)
    return {"top": new, "total": ratio.sum(-1, True) + total * torch.exp(top - new),
            "output": ratio.matmul(value) + output * torch.exp(top - new)}  # fmt: skip


right("online_step", step_lines, step_cat, step_one_by_one, step_two_cases, step_double)


def step_by_hand(top, total, output, scores, value):
    seen = total > 0
    every = torch.cat([torch.where(seen, top + total.log(), -torch.inf), scores], dim=-1)
    known = torch.where(seen, output / total.where(seen, 1), 0)  # (..., query, head_dim)
    weights = every.softmax(dim=-1)
    mixed = weights[..., :1] * known + weights[..., 1:] @ value
    new_top = torch.cat([top, scores], dim=-1).amax(dim=-1, keepdim=True)
    new_total = (every.logsumexp(dim=-1, keepdim=True) - new_top).exp()
    return new_top, new_total, mixed * new_total


peer("online_step", step_by_hand)
parts = made_numbers(3, 4, start=2), made_numbers(4, 2, start=6)
state = [part.float() for part in behind(parts[0][:, :1], parts[1][:1])]
fresh("online_step", (*state, parts[0][:, 1:], parts[1][1:]), (*(3 * part for part in state), *parts))


def step_like(sums=1, outputs=1, new_top=None, weigh=None, old=1, base=math.e, last=None, add=torch.sum):
    def attempt(top, total, output, scores, value):
        new = torch.maximum(top, scores.amax(-1, keepdim=True)) if new_top is None else new_top(top, scores)
        factor = base ** (top - new)
        weights = base ** (scores - new) if weigh is None else weigh(scores, new, top)
        total = old * (total * factor**sums) + add(weights, -1, keepdim=True)
        output = old * (output * factor**outputs) + weights @ value
        return last(new, total, output, factor) if last else (new, total, output)

    return attempt


wrong(
    "online_step",
    exponential_forgotten=step_like(weigh=lambda s, new, top: s - new),
    output_not_shrunk=step_like(outputs=0),
    total_not_shrunk=step_like(sums=0),
    nothing_shrunk=step_like(0, 0),
    shrink_turned_round=step_like(-1, -1),
    top_not_updated=lambda top, *rest: (top, *step_lines(top, *rest)[1:]),
    old_maximum=step_like(new_top=lambda top, s: top),
    maximum_of_the_tile=step_like(new_top=lambda top, s: s.max(-1, keepdim=True).values),
    old_parts_forgotten=step_like(old=0),
    divided_too_early=step_like(last=lambda top, total, output, _: (top, total, output.div(total))),
    no_maximum=step_like(0, 0, weigh=lambda s, new, top: s.exp()),
    one_maximum_for_all=step_like(new_top=lambda top, s: torch.maximum(top, s.max())),
    minimum_instead=step_like(new_top=lambda top, s: torch.minimum(top, s.min(-1, keepdim=True).values)),
    sum_of_maxima=lambda top, t, o, s, v: (top + s.max(-1, True)[0], *step_lines(top, t, o, s, v)[1:]),
    new_part_shrunk_too=step_like(0, 0, last=lambda new, total, output, f: (new, total * f, output * f)),
    new_part_forgotten=step_like(weigh=lambda s, new, top: torch.zeros_like(s)),
    other_base=step_like(base=2),
    mean_not_sum=step_like(add=torch.mean),
    shrunk_by_the_sum=step_like(outputs=2),
    order_of_parts=lambda *given: step_lines(*given)[::-1],
    softmax_of_the_tile=step_like(weigh=lambda s, new, top: F.softmax(s, dim=-1)),
    scores_scaled_again=lambda *given: step_lines(*given[:3], given[3] / given[4].shape[-1] ** 0.5, given[4]),
)


def longest_of_two(free_bytes, token_bytes, full_layers, window_layers, window):
    growing = free_bytes // (token_bytes * (full_layers + window_layers))
    left = free_bytes - token_bytes * window_layers * window
    if full_layers:
        return max(growing, left // (token_bytes * full_layers))
    return growing if left < 0 else math.inf


def longest_counted(free_bytes, token_bytes, full_layers, window_layers, window):
    tokens, taken = 0, 0
    while True:
        taken += token_bytes * (full_layers + (window_layers if tokens < window else 0))
        if taken > free_bytes:
            return tokens
        tokens += 1
        if tokens >= window and not full_layers:
            return float("inf")


def longest_searched(free_bytes, token_bytes, full_layers, window_layers, window):
    def size(tokens):
        return token_bytes * (full_layers * tokens + window_layers * min(tokens, window))

    if size(10**15) <= free_bytes:
        return math.inf
    return bisect.bisect_right(range(10**15), free_bytes, key=size) - 1


def longest_behind_the_window(free, token, full, windowed, window):
    units, both = free // token, full + windowed
    if units < both * window:
        return torch.tensor(units // both)
    return np.int64(window + (units - both * window) // full) if full else np.inf


def longest_summed(free_bytes, token_bytes, full_layers, window_layers, window):
    each = np.where(np.arange(100_000) < window, full_layers + window_layers, full_layers) * token_bytes
    fits = np.searchsorted(each.cumsum(), free_bytes, side="right")
    return [fits if fits < len(each) else np.inf]


def longest_like(behind, before=operator.floordiv):
    def attempt(free, token, full, windowed, window):
        if free < token * (full + windowed) * window:
            return before(free, token * (full + windowed))
        return behind(free, token, full, windowed, window) if full else math.inf

    return attempt


right(
    "longest_text",
    *(longest_of_two, longest_counted, longest_searched, longest_behind_the_window, longest_summed),
    longest_like(lambda free, t, a, b, n: math.floor((free / t - b * n) / a), lambda a, b: int(a / b)),
)
HAND_WORKED = [1771, 89, 178, math.inf, 416, math.inf, 208, 80, 30, 0, 20480]
BY_HAND = dict(
    zip([50_001, 4_990, 10_000, 9_000, 5_000, 6_000, 5_003, 720, 1_063, 10, 2**30], HAND_WORKED, strict=True)
)
peer("longest_text", lambda free_bytes, *_: BY_HAND[free_bytes])
fresh("longest_text", (777, 2, 3, 2, 40), (90, 5, 1, 4, 9), (4_000, 8, 0, 5, 99), (4_000, 8, 0, 5, 101))


wrong(
    "longest_text",
    brackets_missing=longest_like(lambda free, t, a, b, n: (free - t * b * n) // t * a),
    window_ignored=lambda free, t, a, b, n: free // t // (a + b),
    windows_always_full=lambda free, t, a, b, n: (free - t * b * n) // (t * a) if a else math.inf,
    window_layers_forgotten=lambda free, t, a, *_: free // t // a if a else math.inf,
    full_layers_forgotten=lambda free, t, a, b, n: longest_of_two(free, t, 0, b, n),
    all_layers_forget=lambda free, t, a, b, n: longest_of_two(free, t, 0, a + b, n),
    one_window_for_all=longest_like(lambda free, t, a, b, n: (free - t * n) // (t * a)),
    all_layers_go_on=longest_like(lambda free, t, a, b, n: (free - t * b * n) // (t * (a + b))),
    windows_not_taken_off=longest_like(lambda free, t, a, b, n: n + (free - n * t * a) // (t * a)),
    no_end_seen_too_early=lambda *given: longest_counted(*given) if given[2] else math.inf,
    stops_at_the_window=lambda free, t, a, b, n: min(free // (t * (a + b)), n),
    layers_not_counted=lambda free, t, *_: math.floor(free / t),
    window_not_counted=longest_like(lambda free, t, a, b, n: (free - t * (a + b) * n) // (t * a)),
    window_counted_twice=longest_like(lambda free, t, a, b, n: n + (free - t * b * n) // (t * a)),
    part_of_a_token=longest_like(lambda free, t, a, b, n: (free / t - b * n) / a, operator.truediv),
    one_token_too_many=lambda *given: longest_of_two(*given) + 1,
    one_token_too_few=lambda *given: longest_of_two(*given) - 1,
    keys_and_values_again=lambda free, token, *sizes: longest_counted(free, 2 * token, *sizes),
    bytes_of_a_token_ignored=lambda free, token, *sizes: longest_searched(free, 1, *sizes),
    layers_exchanged=lambda free, t, a, b, n: longest_counted(free, t, b, a, n),
    no_end_not_seen=lambda *given: [tokens := longest_counted(*given), given[-1]][tokens == math.inf],
    exact_fit=lambda free, t, a, b, n: (
        longest_of_two(free, t, a, b, n) if a or free > t * b * n else free // (t * b)
    ),
    cases_exchanged=lambda free, t, a, b, n: (
        min(free // (t * (a + b)), (free - t * b * n) // (t * a)) if a else longest_of_two(free, t, 0, b, n)
    ),
    rounded_up=longest_like(
        lambda free, t, a, b, n: math.ceil((free - t * b * n) / (t * a)), lambda a, b: math.ceil(a / b)
    ),
    divided_by_zero=lambda free, t, a, b, n: max(free // (t * (a + b)), (free - t * b * n) // (t * a)),
    nothing_returned=lambda *given: None,
)
