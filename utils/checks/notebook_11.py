"""The checks of notebook 11: operations with shared keys, a step of the softmax in passing, the bytes of a cache."""

import itertools

import torch

from .answers import Unreadable, parts_of, read_tensor
from .judge import judge, safely
from .shared import made_numbers


def one_number(name):
    """Return a reader of one number, a whole one where it is whole."""

    def read(raw):
        numbers = read_tensor(raw, name, lists=True)
        if numbers.numel() != 1:
            raise Unreadable(f"One number is expected. You returned {numbers.numel()}.", "several_numbers")
        value = numbers.item()
        return {name: int(value) if value.is_integer() and abs(value) < 1e15 else round(value, 2)}

    return read


# ------------------------------------------------------------------------------------------------ operations


@safely
def check_layer_flops(attempt):
    """Check `attempt(seq_len, hidden_size, intermediate_size, num_heads, num_kv_heads)`: operations of a layer.

    Peer: PyTorch's counter, on tensors without numbers.
    """
    from torch.utils.flop_counter import FlopCounterMode

    def right(n, d, d_ff, heads, kv_heads):
        head_dim = d // heads
        widths = [(d, d), (d, kv_heads * head_dim), (d, kv_heads * head_dim), (d, d), (d, d_ff), (d_ff, d)]
        with torch.device("meta"), FlopCounterMode(display=False) as counter:
            for before, after in widths:
                torch.empty(n, before) @ torch.empty(before, after)
            query = key = value = torch.empty(
                heads, n, head_dim
            )  # keys and values are repeated for their group
            (query @ key.mT) @ value
        return {"operations": counter.get_total_flops()}

    def like(
        query=1.0, key=None, value=None, output=1.0, table=4.0, inner=4.0, factor=1.0, kv=None, width=True
    ):
        """Compute with these widths of the projections, as shares of d, and these factors."""

        def compute(n, d, d_ff, heads, kv_heads):
            group = kv(heads, kv_heads) if kv else kv_heads / heads
            shares = [group if share is None else share for share in (query, key, value, output)]
            projections = 2 * n * d**2 * sum(shares)
            tables = (table(heads, kv_heads) if callable(table) else table) * n**2 * (d if width else 1)
            return {"operations": round(factor * (projections + tables + inner * n * d * d_ff))}

        return compute

    def plus(n, d, f, h, g, more):
        return {"operations": round(like()(n, d, f, h, g)["operations"] + more)}

    mistakes = {
        "groups_ignored": [like(key=1, value=1)],
        "table_shrunk": [
            like(table=lambda h, g: 4 * g / h),
            like(table=lambda h, g: 2 + 2 * g / h),
        ],
        "query_or_output_shrunk": [like(query=None, output=None), like(query=None), like(output=None)],
        "values_not_shared": [like(value=1), like(key=1)],
        "keys_or_values_forgotten": [like(value=0), like(key=0), like(key=0, value=0)],
        "group_size_as_number": [like(kv=lambda h, g: 1 / g), like(kv=lambda h, g: g)],
        "multiply_add_as_one": [like(factor=0.5)],
        "one_head_of_keys": [like(kv=lambda h, g: 1 / h)],
        "rounded_to_zero": [like(kv=lambda h, g: g // h)],
        "heads_exchanged": [like(kv=lambda h, g: h / g)],
        "one_product_with_the_table": [like(table=2)],
        "table_for_each_head": [like(table=lambda h, g: 4 * h), like(table=lambda h, g: 4 * g)],
        "table_without_width": [like(table=lambda h, g: 4 * h, width=False), like(table=4, width=False)],
        "no_table": [like(table=0)],
        "table_without_square": [
            lambda n, d, f, h, g: plus(n, d, f, h, g, 4 * n * d - 4 * n**2 * d),
            lambda n, d, f, h, g: plus(n, d, f, h, g, 4 * n * d * d - 4 * n**2 * d),
        ],
        "table_counted_otherwise": [like(table=count) for count in (1, 3, 6, 8, 12)],
        "feed_forward_counted_otherwise": [
            *(like(inner=count) for count in (1, 3, 6, 8, 12)),
            lambda n, d, f, h, g: plus(n, d, f, h, g, 4 * n * f * f - 4 * n * d * f),
            lambda n, d, f, h, g: plus(n, d, f, h, g, 4 * d * f - 4 * n * d * f),
            *(
                lambda n, d, f, h, g, by=by: plus(n, d, f, h, g, by * n * d * d - 4 * n * d * f)
                for by in (4, 8, 16)
            ),
        ],
        "projections_counted_otherwise": [
            *(like(query=q, output=o) for q, o in ((0, 0), (2, 2), (1, 2), (1, 3), (1, 1.5))),
            *(like(key=by, value=by) for by in (0.5, 2)),
            lambda n, d, f, h, g: plus(n, d, f, h, g, -(n - 1) * (4 * d * d + 4 * d * d * g // h)),
            lambda n, d, f, h, g: plus(n, d, f, h, g, -(n - 1) * 4 * d * d),
            lambda n, d, f, h, g: plus(
                n, d, f, h, g, -2 * n * (2 * d * d + 2 * d * d * g // h) + 6 * n * d * d
            ),
        ],
        "all_counted_several_times": [like(factor=factor) for factor in (2, 3, 4, 0.25)],
        "more_than_products": [
            *(lambda n, d, f, h, g, by=by: plus(n, d, f, h, g, by * h * n * n) for by in (1, 2, 3, 4, 5)),
            *(lambda n, d, f, h, g, by=by: plus(n, d, f, h, g, by * n * n) for by in (1, 2, 3, 4, 5)),
            *(
                lambda n, d, f, h, g, by=by: plus(n, d, f, h, g, by * n * d)
                for by in (*range(1, 13), 14, 16, 20)
            ),
            *(lambda n, d, f, h, g, by=by: plus(n, d, f, h, g, by * n * f) for by in (1, 2, 4, 8)),
            lambda n, d, f, h, g: plus(n, d, f, h, g, n * (3 * d + 2 * d * g // h + f)),
            lambda n, d, f, h, g: plus(n, d, f, h, g, n * (2 * d + 2 * d * g // h + f + d)),
        ],
        "parameters_counted": [
            lambda n, d, f, h, g, by=by: {"operations": by * (2 * d * d + 2 * d * (d // h) * g + 2 * d * f)}
            for by in (1, 2)
        ],
        "unit_changed": [like(factor=10.0**-power) for power in (3, 6, 9, 12)],
        "one_product_of_feed_forward": [like(inner=2)],
        "no_feed_forward": [like(inner=0)],
        "output_projection_forgotten": [like(output=0), like(query=0)],
    }
    trials = [(7, 24, 11, 8, 2), (5, 24, 50, 12, 4), (30, 16, 9, 4, 4)]
    return judge("layer_flops", attempt, trials, right, mistakes, one_number("operations"))


# -------------------------------------------------------------------------------------- softmax in passing


@safely
def check_online_step(attempt):
    """Check `attempt(top, total, output, scores, value)`: (top, total, output) after one more tile.

    top and total (..., query, 1), output (..., query, head_dim), scores (..., query, tile), value
    (..., tile, head_dim). Peer: PyTorch's logsumexp and softmax over all scores at once.
    """

    def answer(top, total, output):
        return {"top": top, "total": total, "output": output}

    def state(scores, value):
        """Return what is known behind these scores, by functions that see them all."""
        scores, value = scores.double(), value.double()
        if not scores.shape[-1]:
            zero = scores.sum(dim=-1, keepdim=True)
            return zero - torch.inf, zero, zero * value.sum(dim=-2, keepdim=True)
        top = scores.amax(dim=-1, keepdim=True)
        total = (scores.logsumexp(dim=-1, keepdim=True) - top).exp()
        return top, total, scores.softmax(dim=-1) @ value * total

    tiles = []  # (scores so far, values so far, new scores, new values)
    for shape, before, new in [((3,), 2, 2), ((2, 3), 4, 3), ((4,), 0, 3), ((1, 2, 2), 3, 1)]:
        scores = made_numbers(*shape, before + new, start=before + 4) * 1.5
        value = made_numbers(*shape[:-1], before + new, 2, start=3)
        tiles.append([*scores.split([before, new], dim=-1), *value.split([before, new], dim=-2)])
    tiles[1][1] = tiles[1][1].index_fill(-1, torch.tensor([1]), -torch.inf)  # a key that is masked
    tiles.append([tiles[0][0] + 1000, tiles[0][1] + 1001, *tiles[0][2:]])
    trials, answers = [], []
    for scores, new_scores, value, new_value in tiles:
        trials.append((*(part.float() for part in state(scores, value)), new_scores, new_value))
        whole = torch.cat([scores, new_scores], dim=-1), torch.cat([value, new_value], dim=-2)
        answers.append(answer(*state(*whole)))

    def right(*inputs):
        return next(a for a, trial in zip(answers, trials, strict=True) if trial[3] is inputs[3])

    def like(
        new_top=lambda top, s: torch.maximum(top, s.amax(dim=-1, keepdim=True)),
        weigh=lambda s, new, top: (s - new).exp(),
        shrink_total=lambda x, shrink: x * shrink,
        shrink_output=lambda x, shrink: x * shrink,
        shrink=lambda top, new: (top - new).exp(),
        end=lambda top, total, output: (top, total, output),
    ):
        def compute(top, total, output, scores, value):
            new = new_top(top, scores)
            weights, factor = weigh(scores, new, top), shrink(top, new)
            total = shrink_total(total, factor) + weights.sum(dim=-1, keepdim=True)
            return answer(*end(new, total, shrink_output(output, factor) + weights @ value))

        return compute

    def divided(top, total, output):
        return top, total, output / total

    def already_divided(top, total, output, scores, value):
        return like(end=divided)(top, total, output * total, scores, value)

    def same(x, factor):
        return x

    def turned(x, factor):
        return x / factor

    def gone(x, factor):
        return torch.zeros_like(x)

    def shrunk(state, names):
        """Shrink the new parts as well as the old ones."""
        made, top = like(shrink=lambda top, new: torch.ones_like(top))(*state), state[0]
        whole = like()(*state)
        return whole | {name: made[name] * (top - whole["top"]).exp() for name in names}

    def averaged(top, total, output, scores, value):
        old = like(weigh=lambda s, new, top: torch.zeros_like(s))(top, total, output, scores, value)["total"]
        return old + (like()(top, total, output, scores, value)["total"] - old) / scores.shape[-1]

    def in_order(*order):
        def compute(*state):
            parts = list(like()(*state).values())
            return answer(*(parts[place] for place in order))

        return compute

    mistakes = {
        "output_not_shrunk": [like(shrink_output=same)],
        "total_not_shrunk": [like(shrink_total=same)],
        "nothing_shrunk": [like(shrink_total=same, shrink_output=same)],
        "shrink_turned_round": [
            like(shrink=lambda top, new: (new - top).exp()),
            like(shrink_total=turned),
            like(shrink_output=turned),
        ],
        "top_not_updated": [lambda *state: like()(*state) | {"top": state[0]}],
        "old_maximum": [
            like(weigh=lambda s, new, top: (s - top).exp()),
            like(new_top=lambda top, s: top),
            like(weigh=lambda s, new, top: (s - top).exp(), shrink_total=same, shrink_output=same),
        ],
        "maximum_of_the_tile": [
            like(new_top=lambda top, s: s.amax(dim=-1, keepdim=True)),
            like(weigh=lambda s, new, top: (s - s.amax(dim=-1, keepdim=True)).exp()),
        ],
        "old_parts_forgotten": [like(shrink_total=gone, shrink_output=gone), like(shrink_output=gone)],
        "divided_too_early": [like(end=divided), already_divided],
        "no_maximum": [
            like(weigh=lambda s, new, top: s.exp(), shrink_total=same, shrink_output=same),
            like(weigh=lambda s, new, top: s.exp()),
        ],
        "one_maximum_for_all": [
            like(new_top=lambda top, s: torch.maximum(top, s.max())),
            like(new_top=lambda top, s: torch.maximum(top.max(), s.max()).expand(top.shape)),
        ],
        "minimum_instead": [like(new_top=lambda top, s: torch.minimum(top, s.amin(dim=-1, keepdim=True)))],
        "sum_of_maxima": [
            like(new_top=lambda top, s: top + s.amax(dim=-1, keepdim=True)),
            lambda *state: like()(*state) | {"top": state[0] + state[3].amax(dim=-1, keepdim=True)},
        ],
        "new_part_shrunk_too": [
            lambda *state: shrunk(state, ("total", "output")),
            lambda *state: shrunk(state, ("total",)),
            lambda *state: shrunk(state, ("output",)),
        ],
        "new_part_forgotten": [
            lambda *state: (
                like()(*state) | {"total": like(weigh=lambda s, n, t: torch.zeros_like(s))(*state)["total"]}
            ),
            lambda *state: (
                like()(*state) | {"output": like(weigh=lambda s, n, t: torch.zeros_like(s))(*state)["output"]}
            ),
            like(weigh=lambda s, new, top: torch.zeros_like(s)),
        ],
        "other_base": [
            like(weigh=lambda s, n, t, b=base: b ** (s - n), shrink=lambda t, n, b=base: b ** (t - n))
            for base in (2, 10)
        ],
        "mean_not_sum": [
            lambda *state: like()(*state) | {"total": averaged(*state)},
            lambda *state: like()(*state) | {"output": like()(*state)["output"] / state[3].shape[-1]},
        ],
        "shrunk_by_the_sum": [
            like(shrink_output=lambda x, f: x * f**2),
            like(shrink=lambda top, new: (top - new).exp() ** 2),
            like(shrink=lambda top, new: top - new),
            like(shrink=lambda top, new: top / new),
        ],
        "order_of_parts": [
            in_order(*order) for order in itertools.permutations(range(3)) if order != (0, 1, 2)
        ],
        "softmax_of_the_tile": [
            like(weigh=lambda s, new, top: s.softmax(dim=-1)),
            *(
                lambda *state, name=name: (
                    like()(*state) | {name: like(weigh=lambda s, new, top: s.softmax(dim=-1))(*state)[name]}
                )
                for name in ("output", "total")
            ),
        ],
        "scores_scaled_again": [
            lambda top, total, output, scores, value: like()(
                top, total, output, scores / value.shape[-1] ** 0.5, value
            )
        ],
    }
    read = parts_of("top", "total", "output")
    return judge("online_step", attempt, trials, right, mistakes, read)


# -------------------------------------------------------------------------------------- the bytes of a cache


@safely
def check_cache_bytes(attempt):
    """Check `attempt(layers, seq_len, kv_heads, head_dim, number_bytes, window)`: the bytes of a cache.

    window: how many of the newest tokens are kept; None: all. Peer: the bytes of PyTorch's tensors.
    """
    kinds = {1: torch.int8, 2: torch.float16, 4: torch.float32, 8: torch.float64}

    def right(layers, seq_len, kv_heads, head_dim, number_bytes, window):
        keys = torch.empty(seq_len, kv_heads, head_dim, dtype=kinds[number_bytes], device="meta")
        values = torch.empty_like(keys)
        kept = [part[-(window or seq_len) :] for _ in range(layers) for part in (keys, values)]
        return {"bytes": sum(part.nbytes for part in kept)}

    def like(kept=lambda n, w: min(n, w), factor=2, layers=lambda x: x, size=lambda x: x):
        def compute(layer_count, n, g, head_dim, number_bytes, window):
            numbers = factor * layers(layer_count) * kept(n, window or n) * g * head_dim
            return {"bytes": numbers * size(number_bytes)}

        return compute

    mistakes = {
        "window_ignored": [like(kept=lambda n, w: n)],
        "window_always_full": [like(kept=lambda n, w: w)],
        "what_is_forgotten": [
            like(kept=lambda n, w, kept=kept, whole=whole: n if whole and w == n else kept(n, w))
            for kept in (lambda n, w: n - w, lambda n, w: max(n - w, 0), lambda n, w: abs(n - w))
            for whole in (False, True)  # all of it without a window
        ],
        "one_of_both_cut": [like(kept=lambda n, w: (min(n, w) + n) / 2)],
        "fixed_window": [
            lambda *given, w=w: like()(*given[:-1], given[-1] or w) for w in (512, 1024, 2048, 4096, 8192)
        ],
        "longer_of_both": [like(kept=max)],
        "window_added": [like(kept=lambda n, w: n + w), like(kept=lambda n, w: n * w)],
        "rest_of_a_division": [
            like(kept=lambda n, w: n % w or w),
            like(kept=lambda n, w: n % w),
            like(kept=lambda n, w: n // w),
        ],
        "nothing_without_a_window": [lambda *given: {"bytes": like()(*given)["bytes"] if given[-1] else 0}],
        "fixed_bytes": [like(size=lambda x, fixed=fixed: fixed) for fixed in (2, 4, 8)],
        "divided_by_bytes": [lambda L, n, g, d, b, w: {"bytes": 2 * L * min(n, w or n) * g * d // b}],
        "counted_several_times": [like(factor=factor) for factor in (3, 4, 6, 8)],
        "square_of_the_length": [
            like(kept=lambda n, w: min(n, w) ** 2),
            like(kept=lambda n, w: min(n, w) * n),
        ],
        "layers_twice": [
            like(layers=lambda x: x * x),
            like(layers=lambda x: x - 1),
            like(layers=lambda x: x + 1),
        ],
        "other_unit": [
            lambda *given, by=by: {"bytes": round(like()(*given)["bytes"] / by, 2)}
            for by in (1e3, 1e6, 1e9, 1024, 1024**2, 1024**3)
        ]
        + [
            lambda *given, by=by: {"bytes": like()(*given)["bytes"] // by}
            for by in (1000, 1024, 10**6, 2**20)
        ],
        "length_forgotten": [like(kept=lambda n, w: 1)],
        "one_token_too_many": [like(kept=lambda n, w: min(n, w + 1))],
        "one_token_too_few": [like(kept=lambda n, w: min(n, w - 1))],
        "keys_only": [like(factor=1)],
        "one_layer": [like(layers=lambda x: 1)],
        "numbers_not_bytes": [like(size=lambda x: 1)],
        "bits_not_bytes": [like(size=lambda x: 8 * x)],
        "one_head": [lambda layers, n, g, *rest: like()(layers, n, 1, *rest)],
        "head_dim_forgotten": [lambda layers, n, g, head_dim, *rest: like()(layers, n, g, 1, *rest)],
    }
    trials = [
        (3, 10, 11, 13, 4, 6),
        (3, 20, 5, 7, 4, 50),
        (32, 8192, 8, 128, 2, 4096),
        (2, 9000, 1, 4, 1, None),
    ]
    return judge("cache_bytes", attempt, trials, right, mistakes, one_number("bytes"))
