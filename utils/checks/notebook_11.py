"""The checks of notebook 11: operations with shared keys, a step of the softmax in passing, the bytes of a cache."""

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
        "one_product_with_the_table": [like(table=2)],
        "table_for_each_head": [like(table=lambda h, g: 4 * h), like(table=lambda h, g: 4 * g)],
        "table_without_width": [like(table=lambda h, g: 4 * h, width=False), like(table=4, width=False)],
        "no_table": [like(table=0)],
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
        "softmax_of_the_tile": [like(weigh=lambda s, new, top: s.softmax(dim=-1))],
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
        "what_is_forgotten": [like(kept=lambda n, w: n - w), like(kept=lambda n, w: max(n - w, 0))],
        "one_token_too_many": [like(kept=lambda n, w: min(n, w + 1))],
        "one_token_too_few": [like(kept=lambda n, w: min(n, w - 1))],
        "keys_only": [like(factor=1)],
        "one_layer": [like(layers=lambda x: 1)],
        "numbers_not_bytes": [like(size=lambda x: 1)],
        "bits_not_bytes": [like(size=lambda x: 8 * x)],
        "one_head": [lambda layers, n, g, *rest: like()(layers, n, 1, *rest)],
        "head_dim_forgotten": [lambda layers, n, g, head_dim, *rest: like()(layers, n, g, 1, *rest)],
    }
    trials = [(3, 10, 11, 13, 4, 6), (3, 20, 5, 7, 4, 50), (32, 8192, 8, 128, 2, 4096), (2, 9, 1, 4, 1, None)]
    return judge("cache_bytes", attempt, trials, right, mistakes, one_number("bytes"))
