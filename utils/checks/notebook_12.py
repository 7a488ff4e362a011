"""The checks of notebook 12: a score for induction, a model without some heads, and one path that is cut."""

import copy
import functools
import math

import torch
from torch import nn

from .answers import read_tensor
from .judge import judge, safely
from .shared import OTHER_DIVISORS, fill_weights, made_numbers, scaled_scores, weights_of
from .small_models import Attention, Attentions

# ---------------------------------------------------------------------------------------- a score for induction

# Tokens, and for each query whose token stood before: the keys right behind those places. Worked by hand.
REPEATS = [
    ([3, 5, 9, 7, 3, 5, 3, 8, 7], {4: [1], 5: [2], 6: [1, 5], 8: [4]}),
    ([4, 4, 6, 4, 6, 6, 8], {1: [1], 3: [1, 2], 4: [3], 5: [3, 5]}),
    ([0, 1, 2, 3, 0, 1, 2, 3], {4: [1], 5: [2], 6: [3], 7: [4]}),
]


@safely
def check_induction_score(attempt):
    """Check `attempt(attn_weights, input_ids)`: each head's score, (layers, heads).

    attn_weights: (layers, heads, query, key), causal. input_ids: (seq,).
    """
    keys_of = {tuple(ids): keys for ids, keys in REPEATS}

    def like(
        keys=lambda ids, keys: keys, reduce=torch.sum, over=lambda rows: rows.mean(0), weigh=lambda w: w
    ):
        """Return what heads put on these keys of each query, taken together `over` the queries."""

        def compute(weights, ids):
            chosen = keys(ids, keys_of[tuple(ids.tolist())])
            found = [
                reduce(weigh(weights)[..., query, torch.tensor(of).long()], -1)
                for query, of in chosen.items()
            ]
            return {"score": over(torch.stack(found))}

        return compute

    def moved(by, down=0):
        def apply(ids, keys):
            found = {q + down: [key + by for key in of if 0 <= key + by < len(ids)] for q, of in keys.items()}
            return {query: of for query, of in found.items() if query < len(ids)}

        return apply

    def not_itself(ids, keys):
        return {query: [key for key in of if key != query] for query, of in keys.items()}

    def only(place):
        return lambda ids, keys: {query: [of[place]] for query, of in keys.items()}

    def from_query(start):
        return lambda ids, keys: {query: keys.get(query, []) for query in range(start, len(ids))}

    def with_itself(ids, keys):
        """Each token is taken for an earlier place of itself; the key behind the last one is not there."""
        rows = range(len(ids))
        return {q: [*keys.get(q, []), *([q + 1] if q + 1 < len(ids) else [])] for q in rows}

    def also_later(ids, keys):
        """A later place counts like an earlier one: its keys have no weight, but its queries are counted."""
        ids = ids.tolist()
        return {q: keys.get(q, []) for q in range(len(ids)) if ids.count(ids[q]) > 1}

    def pairs(weights, ids):
        keys = keys_of[tuple(ids.tolist())]
        flat = [(q, k) for q, of in keys.items() for k in of]
        return {"score": torch.stack([weights[..., q, k] for q, k in flat]).mean(dim=0)}

    def marked(mark, known=lambda same, marks: same.tril(-1)):
        """Add the weights on the keys that `mark(ids, same)` marks, for each query that `known` has a True for."""

        def compute(weights, ids):
            same = ids[:, None] == ids
            marks = mark(ids, same)
            return {"score": (weights * marks).sum(-1)[..., known(same, marks).any(-1)].mean(-1)}

        return compute

    def diagonal(offset):
        return lambda weights, ids: {"score": weights.diagonal(offset(len(ids)), dim1=-2, dim2=-1).mean(-1)}

    mistakes = {
        "earlier_place_itself": [like(moved(-1))],
        "token_before_it": [like(moved(-2))],
        "one_too_far": [like(moved(1))],
        "first_place_only": [like(only(0))],
        "last_place_only": [like(only(-1))],
        "largest_only": [like(reduce=torch.amax)],
        "all_queries_counted": [like(from_query(0)), like(with_itself), like(from_query(1))],
        "last_query_left_out": [like(lambda ids, keys: {q: keys[q] for q in keys if q < len(ids) - 1})],
        "later_places_counted": [like(also_later)],
        "mean_over_keys": [
            like(reduce=torch.mean),
            pairs,
            lambda weights, ids: {"score": like()(weights, ids)["score"] / len(ids)},
        ],
        "query_itself_left_out": [
            like(lambda ids, keys: {query: of for query, of in not_itself(ids, keys).items() if of}),
            like(not_itself),
        ],
        "sum_over_queries": [like(over=lambda rows: rows.sum(0))],
        "other_than_mean": [
            like(over=lambda rows: rows.amax(0)),
            like(over=lambda rows: rows.median(0).values),
            like(over=lambda rows: rows.amin(0)),
        ],
        "queries_left_out": [
            *(
                like(lambda ids, keys, part=part: {q: keys[q] for q in list(keys)[part]})
                for part in (slice(1, None), slice(-1), slice(-1, None), slice(1))
            ),
            like(lambda ids, keys: {q: keys[q] for q in keys if q >= len(ids) // 2}),
        ],
        "fixed_distance": [
            *(diagonal(lambda seq_len, k=k: k - seq_len // 2) for k in (0, 1, -1)),
            *(diagonal(lambda seq_len, k=k: k) for k in (-1, -2, 0)),
            lambda w, ids: {
                "score": w[..., range(len(ids) // 2, len(ids)), range(1, (len(ids) + 3) // 2)].mean(-1)
            },
        ],
        "hits_counted": [like(weigh=lambda w: (w == w.amax(-1, keepdim=True)).double())],
        "next_query_read": [
            *(like(moved(by, down=1)) for by in (0, -1)),
            like(lambda ids, keys: {q - 1: [k for k in of if k < q] for q, of in keys.items()}),
        ],
        "mean_over_heads": [
            like(over=lambda rows, dim=dim: rows.mean(dim)) for dim in ((0, 1), (0, 2), (0, 1, 2))
        ],
        "every_place_of_the_next_token": [
            marked(lambda ids, same: nn.functional.pad(ids[1:], (0, 1), value=-1)[:, None] == ids)
        ],
        "last_column_comes_round": [
            marked(lambda ids, same: same.roll(1, dims=-1).tril(), lambda same, marks: marks)
        ],
        "all_earlier_places": [like(lambda ids, keys: {q: list(range(q)) for q in keys})],
        "query_key_swapped": [like(weigh=lambda w: w.mT)],
    }
    trials = []
    for start, (ids, _) in enumerate(REPEATS):
        layers, heads, seq = 2 + start % 2, 3 - start % 2, len(ids)
        scores = made_numbers(layers, heads, seq, seq, start=start)
        hidden = ~torch.ones(seq, seq, dtype=torch.bool).tril()
        trials.append((scores.masked_fill(hidden, -math.inf).softmax(dim=-1), torch.tensor(ids)))

    def read(raw):
        return {"score": read_tensor(raw, "score")}

    return judge("induction_score", attempt, trials, like(), mistakes, read)


# ---------------------------------------------------------------------------------- a model without some heads


class Planned(Exception):
    """What `run` raises in one of the trials."""


@safely
def check_without_head(attempt):
    """Check `attempt(model, heads, head_dim, run)`: what `run()` gives without these heads; then all is as before.

    model: has `attentions[layer].output`. heads: pairs (layer, head). In the last trial `run` raises an error.
    """

    def hidden_state(layers, num_heads, head_dim):
        return made_numbers(2, 4, num_heads * head_dim) / 2

    def call(sizes, heads, fails):
        dtype = torch.float64 if sizes[0] == 3 else torch.float32  # of one of the trials
        model = Attentions(*sizes).to(dtype)

        def run():
            if fails:
                raise Planned
            with torch.no_grad():
                return model(hidden_state(*sizes).to(dtype))

        try:
            output = attempt(model, [*heads], sizes[2], run)
            output = torch.zeros(1) if fails else output
        except Planned:  # the caller is told
            output = torch.ones(1)
        return output, model

    def answer(output, model):
        outputs = torch.stack([layer.output.weight.detach() for layer in model.attentions])
        others = [p.detach().flatten() for name, p in model.named_parameters() if "output.weight" not in name]
        with torch.no_grad():  # a hook that is left behind shows here
            again = model(made_numbers(2, 4, outputs.shape[-1]).to(outputs) / 2)
        return {
            "output": output.detach(),
            "output.weight after the call": outputs,
            "other weights after the call": torch.cat(others),
            "output of the model after the call": again,
        }

    def read(raw):
        output, model = raw
        return {name: value.double() for name, value in answer(read_tensor(output), model).items()}

    @functools.cache
    def untouched(*sizes):
        """Return a model that stays as it is, and the answer that says so."""
        model = Attentions(*sizes)
        return model, answer(torch.zeros(1), model)

    def like(change=None, back=lambda fails: True, silent=lambda heads, sizes: heads, told=True):
        """Return the answer where these heads are silent, or the model is changed so; put back or not, told or not."""

        def compute(sizes, heads, fails):
            model, before = untouched(*sizes)
            model = copy.deepcopy(model) if change else model
            with torch.no_grad():
                for layer, head in heads if change else ():
                    start = head * sizes[2]
                    change(model.attentions[layer], slice(start, start + sizes[2]), head)
                output = model(hidden_state(*sizes), () if change else silent(heads, sizes))
            output = torch.tensor([float(told)]) if fails else output
            return before | {"output": output} if back(fails) else answer(output, model)

        return compute

    def never(fails):
        return False

    def columns(attention, part, head):
        attention.output.weight[:, part] = 0

    def rows_of(name):
        def apply(attention, part, head):
            getattr(attention, name).weight[part] = 0

        return apply

    def cut_at(change):
        """Clear the columns of this slice, a function of (start, stop, head, head_dim)."""

        def apply(attention, part, head):
            attention.output.weight[:, change(part.start, part.stop, head, part.stop - part.start)] = 0

        return apply

    def filled(change):
        """Fill the columns with what a function of all weights and the columns gives."""

        def apply(attention, part, head):
            weight = attention.output.weight
            weight[:, part] = change(weight, weight[:, part])

        return apply

    def every_nth(attention, part, head):
        attention.output.weight[:, head :: attention.num_heads] = 0

    def bias_too(attention, part, head):
        columns(attention, part, head)
        attention.output.bias.zero_()

    def whole_layer(attention, part, head):
        attention.output.weight.zero_()

    def all_of(sizes):
        return [(layer, head) for layer in range(sizes[0]) for head in range(sizes[1])]

    def there(places, sizes):
        return [place for place in places if 0 <= place[1] < sizes[1]]

    def renamed(change):
        """Each place (layer, head) is taken for another, a function of layer, head and the number of heads."""
        return like(silent=lambda heads, sizes: there([change(*place, sizes[1]) for place in heads], sizes))

    def difference(sign):
        def compute(sizes, heads, fails):
            found, whole = (made(sizes, heads, fails) for made in (like(), like(silent=lambda *_: [])))
            return found if fails else found | {"output": sign * (whole["output"] - found["output"])}

        return compute

    def last_put_back(sizes, heads, fails):
        """Each head's weights are noted one after the other, and put back in the same order."""
        right = like()(sizes, heads, fails)
        model, kept = Attentions(*sizes), []
        with torch.no_grad():
            for layer, head in heads:
                weight = model.attentions[layer].output.weight
                kept.append((weight, weight.clone()))
                columns(model.attentions[layer], slice(head * sizes[2], (head + 1) * sizes[2]), head)
            for weight, noted in kept:
                weight.copy_(noted)
        return answer(right["output"], model)

    mistakes = {
        "error_swallowed": [like(told=False)],
        "rows_for_columns": [like(rows_of("output")), like(rows_of("output"), never)],
        "put_back_in_the_same_order": [last_put_back],
        "not_put_back_after_an_error": [like(columns, back=lambda fails: not fails)],
        "not_put_back": [like(columns, never)],
        "nothing_taken_out": [like(silent=lambda heads, sizes: [])],
        "one_head_only": [
            like(silent=lambda heads, sizes: heads[:1]),
            like(silent=lambda heads, sizes: heads[-1:]),
        ],
        "every_nth_column": [like(every_nth)],
        "one_column": [like(cut_at(lambda start, stop, head, d: head))],
        "not_set_to_zero": [
            like(filled(change))
            for change in (
                lambda w, part: 1.0,
                lambda w, part: -part,
                lambda w, part: part / 2,
                lambda w, part: w.mean(),
                lambda w, part: part.mean(),
                lambda w, part: part.mean(dim=0, keepdim=True),
            )
        ],
        "query_or_key_cleared": [like(rows_of(name)) for name in ("query", "key")],
        "difference_returned": [difference(1), difference(-1)],
        "values_instead": [like(rows_of("value")), like(rows_of("value"), never)],
        "bias_too": [like(bias_too), like(bias_too, never)],
        "whole_layer": [like(whole_layer)],
        "head_from_one": [
            renamed(lambda layer, head, num_heads: (layer, head + 1)),
            renamed(lambda layer, head, num_heads: (layer, head - 1)),
            renamed(lambda layer, head, num_heads: (layer, (head - 1) % num_heads)),
            renamed(lambda layer, head, num_heads: (layer, (head + 1) % num_heads)),
            renamed(lambda layer, head, num_heads: (layer - 1, head)),
        ],
        "layer_ignored": [
            renamed(lambda layer, head, num_heads: (0, head)),
            like(silent=lambda heads, sizes: [(heads[0][0], head) for _, head in heads]),
            like(
                silent=lambda heads, sizes: [
                    place for place in all_of(sizes) if place[1] in {head for _, head in heads}
                ]
            ),
        ],
        "columns_of_another_slice": [
            like(cut_at(change))
            for change in (
                lambda start, stop, head, d: slice(start, stop + 1),
                lambda start, stop, head, d: slice(start, stop - 1),
                lambda start, stop, head, d: slice(start, None),
                lambda start, stop, head, d: slice(stop),
                lambda start, stop, head, d: slice(head, head + d),
                lambda start, stop, head, d: slice(start + 1, stop + 1),
                lambda start, stop, head, d: slice(start, start + 1),
            )
        ],
        "kept_instead": [
            like(silent=lambda heads, sizes: [place for place in all_of(sizes) if place not in heads])
        ],
    }
    trials = [
        ((2, 4, 2), ((1, 2),), False),
        ((2, 3, 3), ((0, 1), (1, 2)), False),
        ((3, 2, 2), ((2, 0), (2, 1), (0, 1)), False),
        ((2, 3, 2), ((0, 1),), True),
    ]

    def shown(sizes, heads, fails):
        return None, [*heads], sizes[2], None

    return judge("without_head", attempt, trials, like(), mistakes, read, call=call, shown=shown)


# ------------------------------------------------------------------------------------------ a path that is cut


@safely
def check_path_cut(attempt):
    """Check `attempt(attention, norm, hidden_state, written, num_heads)`: weights (batch, heads, query, key).

    attention: a module with linear layers `query` and `key`. norm: a LayerNorm. hidden_state, written: (batch, seq,
    hidden_size). Peer: F.scaled_dot_product_attention on those layers.
    """

    def heads_of(projected, num_heads):
        return projected.unflatten(-1, (num_heads, -1)).transpose(1, 2)

    def causal(query, key):
        return weights_of(query, key, torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril())

    def whole(norm, x, w):
        return norm(x)

    def cut(norm, x, w):
        return norm(x - w)

    def like(
        for_query=whole, for_key=cut, layers=("query", "key"), split=heads_of, divisor=None, finish=causal
    ):
        """Return the weights from these states, by these layers, in these heads; `divisor` takes head_dim and heads."""

        def compute(attention, norm, hidden_state, written, num_heads):
            states = [change(norm, hidden_state, written) for change in (for_query, for_key)]
            projected = [
                getattr(attention, layer)(state) for layer, state in zip(layers, states, strict=True)
            ]
            query, key = (split(part, num_heads) for part in projected)
            if divisor:
                query = query * math.sqrt(query.shape[-1]) / divisor(query.shape[-1], num_heads)
            return {"table of weights": finish(query, key)}

        return compute

    def with_scores(finish):
        """Return what comes of the right scores, (batch, heads, query, key), without a mask."""
        return like(finish=lambda query, key: finish(scaled_scores(query, key)))

    def without(scores, triangle):
        """Hide what `triangle`, one half of the table, leaves."""
        return scores.masked_fill(triangle(torch.ones_like(scores)).bool(), -math.inf)

    def hidden(scores, diagonal=1):
        return without(scores, lambda ones: ones.triu(diagonal))

    def difference(sign):
        return lambda *given: {
            "table of weights": sign
            * (like()(*given)["table of weights"] - like(whole, whole)(*given)["table of weights"])
        }

    mistakes = {
        "queries_cut_too": [like(cut, cut)],
        "queries_cut_instead": [like(cut, whole)],
        "nothing_cut": [like(whole, whole)],
        "added_instead": [like(whole, lambda norm, x, w: norm(x + w))],
        "keys_from_written": [like(whole, lambda norm, x, w: norm(w))],
        "cut_behind_the_norm": [
            like(whole, lambda norm, x, w: norm(x) - w),
            like(whole, lambda norm, x, w: norm(x) - norm(w)),
        ],
        "no_norm": [
            like(lambda norm, x, w: x, lambda norm, x, w: x - w),
            like(whole, lambda norm, x, w: x - w),
            like(lambda norm, x, w: x, cut),
        ],
        "wrong_layer": [like(layers=pair) for pair in (("key", "query"), ("key", "key"), ("query", "query"))],
        "no_mask": [like(finish=weights_of)],
        "mask_after_softmax": [
            with_scores(lambda s: s.softmax(dim=-1).tril()),
            with_scores(lambda s: (late := s.softmax(dim=-1).tril()) / late.sum(dim=-1, keepdim=True)),
        ],
        "mask_not_minus_infinity": [with_scores(lambda s: s.tril().softmax(dim=-1))],
        "excludes_itself": [
            with_scores(lambda s: hidden(s, 0).softmax(dim=-1)),
            with_scores(lambda s: s.softmax(dim=-1).tril(-1)),
        ],
        "half_cut": [
            like(whole, lambda norm, x, w: norm(x - w / 2)),
            like(whole, lambda norm, x, w: norm(x - 2 * w)),
            like(whole, lambda norm, x, w: norm(w - x)),
        ],
        "norm_twice": [like(whole, lambda norm, x, w: norm(norm(x - w)))],
        "mean_over_heads": [like(finish=lambda query, key: causal(query, key).mean(1))],
        "difference_returned": [difference(1), difference(-1)],
        "not_split": [like(split=lambda x, heads: x[:, None]), like(split=lambda x, heads: x)],
        "heads_interleaved": [like(split=lambda x, heads: x.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2))],
        "scaled_by_d": [like(divisor=lambda d, h: d)],
        "mask_inverted": [
            with_scores(lambda s, k=k: without(s, lambda ones: ones.tril(k)).softmax(dim=-1)) for k in (0, -1)
        ],
        "softmax_over_queries": [with_scores(lambda s: hidden(s).softmax(dim=-2))],
        "no_softmax": [with_scores(hidden), with_scores(torch.tril)],
        "no_scaling": [like(divisor=lambda d, h: 1)],
        "scaled_by_hidden_size": [like(divisor=lambda d, h: math.sqrt(d * h))],
        "view_without_transpose": [
            like(split=lambda x, heads: x.reshape(len(x), heads, x.shape[1], x.shape[2] // heads))
        ],
        "other_divisor": [
            *(like(divisor=lambda d, h, by=by: by(d)) for by in OTHER_DIVISORS),
            like(divisor=lambda d, h: h),
            like(divisor=lambda d, h: math.sqrt(h)),
            *(like(divisor=lambda d, h, by=by: by) for by in (8, 4, 64)),
        ],
    }
    trials = []
    for start, (batch, seq, num_heads, head_dim) in enumerate([(2, 5, 2, 3), (1, 4, 3, 2), (3, 3, 4, 4)]):
        shape = batch, seq, num_heads * head_dim
        attention = fill_weights(Attention(num_heads, head_dim)).requires_grad_(False)
        norm = nn.LayerNorm(shape[-1], eps=0.1).requires_grad_(False)
        norm.weight.copy_(made_numbers(shape[-1], start=9))
        norm.bias.copy_(made_numbers(shape[-1], start=6))
        states = made_numbers(*shape, start=start), made_numbers(*shape, start=start + 4, step=23) * 0.8
        trials.append((attention, norm, *states, num_heads))

    def read(raw):
        return {"table of weights": read_tensor(raw, "table of weights")}

    return judge("path_cut", attempt, trials, like(), mistakes, read)
