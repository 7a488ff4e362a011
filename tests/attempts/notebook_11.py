"""Attempts at the exercises of notebook 11."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from .tables import right, unlisted, wrong

# ------------------------------------------------------------------------------------- operations of a layer


def flops_terms(seq_len, hidden_size, intermediate_size, num_heads, num_kv_heads):
    kv_size = hidden_size // num_heads * num_kv_heads
    projections = 4 * seq_len * hidden_size**2 + 4 * seq_len * hidden_size * kv_size
    return projections + 4 * seq_len**2 * hidden_size + 4 * seq_len * hidden_size * intermediate_size


def flops_products(n, d, d_ff, h, g):
    products = [(n, d, d), (n, d, d // h * g), (n, d, d // h * g), (n, d, d), (n, d, d_ff), (n, d_ff, d)]
    products += [(n, d // h, n), (n, n, d // h)] * h
    return sum(2 * a * b * c for a, b, c in products)


def flops_saved(n, d, d_ff, h, g):
    """All of it, less what shared keys and values save."""
    return 8 * n * d**2 + 4 * n**2 * d + 4 * n * d * d_ff - 4 * n * d * (h - g) * (d // h)


def flops_factored(n, d, d_ff, h, g):
    return 4 * n * d * (d + d * g / h + n + d_ff)


def flops_heads(n, d, d_ff, h, g):
    total, head_dim = 0, d // h
    for head in range(h):
        total += 2 * n * d * head_dim  # query
        total += 2 * n * n * head_dim * 2  # scores, weighted sum
        total += 2 * n * head_dim * d  # its part of the output projection
        total += 2 * 2 * n * d * head_dim * (head < g)
    return torch.tensor(total + 2 * (2 * n * d * d_ff))


right("layer_flops", flops_terms, flops_products, flops_saved, flops_factored, flops_heads)


def flops_like(query=1, key=None, value=None, output=1, table=4, inner=4, kv=lambda h, g: g / h):
    def attempt(n, d, d_ff, h, g):
        key_share, value_share = (kv(h, g) if share is None else share for share in (key, value))
        products = 2 * n * d * d * (query + key_share + value_share + output)
        return round(products + table * n * n * d + inner * n * d * d_ff)

    return attempt


wrong(
    "layer_flops",
    "groups_ignored",
    flops_like(key=1, value=1),
    lambda n, d, f, h, g: flops_terms(n, d, f, h, h),
)
wrong(
    "layer_flops",
    "table_shrunk",
    lambda n, d, f, h, g: flops_terms(n, d, f, h, g) - 4 * n * n * (d - d // h * g),
    lambda n, d, f, h, g: flops_terms(n, d, f, h, g) - 2 * n * n * (d - d // h * g),
)
wrong(
    "layer_flops",
    "query_or_output_shrunk",
    lambda n, d, f, h, g: 8 * n * d * (d // h * g) + 4 * n * n * d + 4 * n * d * f,
    lambda n, d, f, h, g: 6 * n * d * (d // h * g) + 2 * n * d * d + 4 * n * n * d + 4 * n * d * f,
)
wrong("layer_flops", "values_not_shared", flops_like(value=1), flops_like(key=1))
wrong("layer_flops", "keys_or_values_forgotten", flops_like(value=0), flops_like(key=0, value=0))
wrong(
    "layer_flops",
    "group_size_as_number",
    flops_like(kv=lambda h, g: 1 / g),
    lambda n, d, f, h, g: flops_like(key=0, value=0)(n, d, f, h, g) + 4 * n * d * (d // g),
)
wrong("layer_flops", "multiply_add_as_one", lambda *sizes: flops_terms(*sizes) // 2)
wrong("layer_flops", "one_product_with_the_table", flops_like(table=2))
wrong("layer_flops", "table_for_each_head", lambda n, d, f, h, g: flops_like(table=4 * h)(n, d, f, h, g))
wrong(
    "layer_flops",
    "table_without_width",
    lambda n, d, f, h, g: flops_like(table=0)(n, d, f, h, g) + 4 * n * n * h,
    lambda n, d, f, h, g: flops_like(table=0)(n, d, f, h, g) + 4 * n**2,
)
wrong("layer_flops", "no_table", flops_like(table=0))
wrong("layer_flops", "one_product_of_feed_forward", flops_like(inner=2))
wrong("layer_flops", "no_feed_forward", flops_like(inner=0))
wrong("layer_flops", "output_projection_forgotten", flops_like(output=0), flops_like(query=0))
unlisted(
    "layer_flops",
    lambda n, d, f, h, g: flops_terms(d, n, f, 1, 1),
    lambda n, d, f, h, g: 4 * n * d,
)
wrong("layer_flops", "more_than_products", lambda n, d, f, h, g: flops_terms(n, d, f, h, g) + n * d)

# ------------------------------------------------------------------------------------- softmax in passing


def step_lines(top, total, output, scores, value):
    new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
    weights, shrink = (scores - new_top).exp(), (top - new_top).exp()
    return new_top, total * shrink + weights.sum(dim=-1, keepdim=True), output * shrink + weights @ value


def step_cat(top, total, output, scores, value):
    """The old part is one more key, with the score `top` and what was summed."""
    both = torch.cat([top, scores], dim=-1)
    new_top = both.max(dim=-1, keepdim=True).values
    weights = torch.exp(both - new_top)
    old, new = weights[..., :1], weights[..., 1:]
    return [
        new_top,
        old * total + new.sum(-1, keepdim=True),
        old * output + torch.einsum("...qk,...kd->...qd", new, value),
    ]


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
    tile_total, tile_output = tile.sum(-1, keepdim=True), tile @ value
    up, down = (tile_top - top).clamp(min=0), (top - tile_top).clamp(min=0)
    return (
        torch.maximum(top, tile_top),
        total * (-up).exp() + tile_total * (-down).exp(),
        output * (-up).exp() + tile_output * (-down).exp(),
    )


def step_double(top, total, output, scores, value):
    top, total, output, scores, value = (part.double() for part in (top, total, output, scores, value))
    new = torch.amax(torch.cat((scores, top), -1), -1, True)
    ratio = torch.exp(scores - new)
    return {"top": new, "total": ratio.sum(-1, True) + total * torch.exp(top - new),
            "output": ratio.matmul(value) + output * torch.exp(top - new)}  # fmt: skip


right("online_step", step_lines, step_cat, step_one_by_one, step_two_cases, step_double)


def step_like(
    sum_shrinks=True, output_shrinks=True, turned=False, tops=None, weigh=None, divide=False, old=1
):
    def attempt(top, total, output, scores, value):
        new = torch.maximum(top, scores.amax(-1, keepdim=True)) if tops is None else tops(top, scores)
        factor = torch.exp(new - top if turned else top - new)
        weights = torch.exp(scores - new) if weigh is None else weigh(scores, new, top)
        total = old * (total * factor if sum_shrinks else total) + weights.sum(-1, keepdim=True)
        output = old * (output * factor if output_shrinks else output) + weights @ value
        return new, total, output / total if divide else output

    return attempt


def step_in_place(top, total, output, scores, value):
    new = torch.maximum(top, scores.amax(-1, keepdim=True))
    weights = (scores - new).exp()
    total *= (top - new).exp()
    output *= (top - new).exp()
    return new, total + weights.sum(-1, keepdim=True), output + weights @ value


wrong("online_step", "output_not_shrunk", step_like(output_shrinks=False))
wrong("online_step", "total_not_shrunk", step_like(sum_shrinks=False))
wrong("online_step", "nothing_shrunk", step_like(False, False))
wrong("online_step", "shrink_turned_round", step_like(turned=True))
wrong(
    "online_step",
    "old_maximum",
    step_like(weigh=lambda s, new, top: torch.exp(s - top)),
    step_like(tops=lambda top, s: top),
)
wrong("online_step", "maximum_of_the_tile", step_like(tops=lambda top, s: s.max(-1, keepdim=True).values))
wrong("online_step", "old_parts_forgotten", step_like(old=0))


def step_divided(top, total, output, scores, value):
    new, total_now, summed = step_lines(top, total, output * total, scores, value)
    return new, total_now, summed / total_now


wrong("online_step", "divided_too_early", step_like(divide=True), step_divided)
wrong("online_step", "no_maximum", step_like(False, False, weigh=lambda s, new, top: s.exp()))
wrong("online_step", "one_maximum_for_all", step_like(tops=lambda top, s: torch.maximum(top, s.max())))
wrong("online_step", "top_not_updated", lambda top, *rest: (top, *step_lines(top, *rest)[1:]))
wrong("online_step", "softmax_of_the_tile", step_like(weigh=lambda s, new, top: F.softmax(s, dim=-1)))
wrong("online_step", "changes_its_input", step_in_place)
unlisted(
    "online_step",
    lambda *state: step_lines(*state)[2],
    lambda top, total, output, scores, value: (top, total, output),
)
wrong("online_step", "order_of_parts", lambda *state: step_lines(*state)[::-1])

# ------------------------------------------------------------------------------------- the bytes of a cache


def bytes_min(layers, seq_len, kv_heads, head_dim, number_bytes, window):
    kept = seq_len if window is None else min(seq_len, window)
    return 2 * layers * kept * kv_heads * head_dim * number_bytes


def bytes_if(layers, seq_len, kv_heads, head_dim, number_bytes, window):
    if window is not None and seq_len > window:
        seq_len = window
    return layers * kv_heads * seq_len * (number_bytes * head_dim + number_bytes * head_dim)


def bytes_numpy(layers, seq_len, kv_heads, head_dim, number_bytes, window):
    tokens = np.arange(seq_len)[-window:] if window else np.arange(seq_len)
    return np.prod([2, layers, len(tokens), kv_heads, head_dim, number_bytes])


def bytes_queue(layers, seq_len, kv_heads, head_dim, number_bytes, window):
    from collections import deque

    kept = deque(range(seq_len), maxlen=window)
    return float(math.prod((2, layers, len(kept), kv_heads, head_dim, number_bytes)))


def bytes_less(layers, seq_len, kv_heads, head_dim, number_bytes, window):
    forgotten = max(0, seq_len - (window or seq_len))
    return torch.tensor(2 * layers * (seq_len - forgotten) * kv_heads * head_dim * number_bytes)


right("cache_bytes", bytes_min, bytes_if, bytes_numpy, bytes_queue, bytes_less)


def bytes_of(kept):
    def attempt(layers, seq_len, kv_heads, head_dim, number_bytes, window):
        window = seq_len if window is None else window
        return 2 * layers * kept(seq_len, window) * kv_heads * head_dim * number_bytes

    return attempt


wrong("cache_bytes", "window_ignored", bytes_of(lambda n, w: n))
wrong("cache_bytes", "longer_of_both", bytes_of(max))
wrong("cache_bytes", "window_always_full", bytes_of(lambda n, w: w))
wrong("cache_bytes", "what_is_forgotten", bytes_of(lambda n, w: n - w), bytes_of(lambda n, w: max(0, n - w)))
wrong("cache_bytes", "one_token_too_many", bytes_of(lambda n, w: min(n, w + 1)))
wrong("cache_bytes", "one_token_too_few", bytes_of(lambda n, w: min(n, w - 1)))
wrong("cache_bytes", "keys_only", lambda *sizes: bytes_min(*sizes) // 2)
wrong("cache_bytes", "one_layer", lambda layers, *sizes: bytes_min(1, *sizes))
wrong("cache_bytes", "numbers_not_bytes", lambda a, n, g, d, size, w: bytes_min(a, n, g, d, 1, w))
wrong("cache_bytes", "bits_not_bytes", lambda *sizes: 8 * bytes_min(*sizes))
wrong("cache_bytes", "one_head", lambda a, n, g, *sizes: bytes_min(a, n, 1, *sizes))
wrong("cache_bytes", "head_dim_forgotten", lambda a, n, g, d, size, w: bytes_min(a, n, g, 1, size, w))
unlisted(
    "cache_bytes",
    lambda a, n, g, d, size, w: bytes_min(a, n, g, d, size, w) + size,
)
wrong("cache_bytes", "other_unit", lambda *sizes: bytes_min(*sizes) / 1024)
wrong("cache_bytes", "window_added", bytes_of(lambda n, w: n + w))


# ------------------------------------------------------------------------------------- one more of each mistake

for misconception, attempt in {
    "one_head_of_keys": flops_like(kv=lambda h, g: 1 / h),
    "feed_forward_counted_otherwise": flops_like(inner=6),
    "projections_counted_otherwise": lambda n, d, *sizes: flops_terms(n, d, *sizes) - 4 * n * d**2 + 4 * d**2,
    "table_without_square": lambda n, d, *sizes: flops_like(table=0)(n, d, *sizes) + 4 * n * d,
    "more_than_products": lambda n, d, d_ff, h, g: flops_terms(n, d, d_ff, h, g) + h * n * n,
    "parameters_counted": lambda n, d, d_ff, h, g: 2 * d * d + 2 * d * (d // h * g) + 2 * d * d_ff,
    "unit_changed": lambda *sizes: flops_terms(*sizes) / 1e9,
    "heads_exchanged": lambda n, d, d_ff, h, g: flops_terms(n, d, d_ff, g, h),
    "all_counted_several_times": lambda *sizes: 3 * flops_terms(*sizes),
    "table_counted_otherwise": flops_like(table=8),
}.items():
    wrong("layer_flops", misconception, attempt)


def with_sum(change):
    """The right step with another sum, `change(new sum, old sum, shrinking factor, new weights)`."""

    def attempt(top, total, output, scores, value):
        new_top, new_total, new_output = step_lines(top, total, output, scores, value)
        return new_top, change(new_total, total, (top - new_top).exp(), (scores - new_top).exp()), new_output

    return attempt


def step_shrinks_all(top, total, output, scores, value):
    new_top = torch.maximum(top, scores.amax(-1, keepdim=True))
    shrink, weights = (top - new_top).exp(), (scores - new_top).exp()
    return new_top, (total + weights.sum(-1, keepdim=True)) * shrink, (output + weights @ value) * shrink


def step_with_powers_of_two(top, total, output, scores, value):
    new_top = torch.maximum(top, scores.amax(-1, keepdim=True))
    shrink, weights = 2 ** (top - new_top), 2 ** (scores - new_top)
    return new_top, total * shrink + weights.sum(-1, keepdim=True), output * shrink + weights @ value


def step_shrinks_twice(top, total, output, scores, value):
    new_top, new_total, new_output = step_lines(top, total, output, scores, value)
    shrink = (top - new_top).exp()
    return new_top, new_total, new_output - output * shrink + output * shrink**2


def step_adds_maxima(top, total, output, scores, value):
    return top + scores.amax(-1, keepdim=True), *step_lines(top, total, output, scores, value)[1:]


for misconception, attempt in {
    "new_part_forgotten": with_sum(lambda new, old, shrink, weights: old * shrink),
    "order_of_parts": lambda *given: tuple(step_lines(*given)[place] for place in (2, 0, 1)),
    "sum_of_maxima": step_adds_maxima,
    "minimum_instead": step_like(tops=lambda top, scores: torch.minimum(top, scores.amin(-1, keepdim=True))),
    "new_part_shrunk_too": step_shrinks_all,
    "other_base": step_with_powers_of_two,
    "mean_not_sum": with_sum(lambda new, old, shrink, weights: old * shrink + weights.mean(-1, keepdim=True)),
    "shrunk_by_the_sum": step_shrinks_twice,
}.items():
    wrong("online_step", misconception, attempt)
for misconception, attempt in {
    "layers_twice": lambda layers, *sizes: layers * bytes_min(layers, *sizes),
    "other_unit": lambda *sizes: bytes_min(*sizes) / 2**20,
    "square_of_the_length": bytes_of(lambda n, w: min(n, w) ** 2),
    "nothing_without_a_window": lambda *sizes: bytes_min(*sizes[:-1], sizes[-1] or 0),
    "fixed_bytes": lambda a, n, g, d, size, w: bytes_min(a, n, g, d, 2, w),
    "counted_several_times": lambda *sizes: 2 * bytes_min(*sizes),
    "divided_by_bytes": lambda a, n, g, d, size, w: bytes_min(a, n, g, d, 1, w) // size,
    "rest_of_a_division": lambda a, n, g, d, size, w: 2 * a * (n % w if w else n) * g * d * size,
    "length_forgotten": bytes_of(lambda n, w: 1),
    "window_added": bytes_of(lambda n, w: n * w),
    "none_not_handled": lambda a, n, g, d, size, w: 2 * a * min(n, w) * g * d * size,
}.items():
    wrong("cache_bytes", misconception, attempt)


def step_with_softmax(top, total, output, scores, value):
    new_top, new_total, _ = step_lines(top, total, output, scores, value)
    return new_top, new_total, output * (top - new_top).exp() + scores.softmax(dim=-1) @ value


def step_scaled(top, total, output, scores, value):
    return step_lines(top, total, output, scores / math.sqrt(value.shape[-1]), value)


wrong("layer_flops", "rounded_to_zero", flops_like(kv=lambda h, g: g // h))
wrong("online_step", "softmax_of_the_tile", step_with_softmax)
wrong("online_step", "scores_scaled_again", step_scaled)
wrong("cache_bytes", "one_of_both_cut", lambda *s: (bytes_min(*s) + bytes_min(*s[:-1], None)) // 2)
wrong("cache_bytes", "fixed_window", lambda *sizes: bytes_min(*sizes[:-1], sizes[-1] or 4096))
