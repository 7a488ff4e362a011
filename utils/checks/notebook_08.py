"""The checks of notebook 08: what stands in the neuron view, computed again."""

import math

import torch
import torch.nn.functional as F

from .answers import alone, parts_of, whole_numbers
from .judge import judge, safely
from .shared import OTHER_DIVISORS, SCORES_CHANGED, made_numbers, weights_of


def one_query():
    """Return a query (head_dim,) and keys (key, head_dim): as a slice of all heads, square so that a swap runs."""
    return [
        (made_numbers(6), made_numbers(6, 5, start=6).T),
        (made_numbers(3, start=2), made_numbers(3, 3, start=7)),
        (made_numbers(5, start=1), made_numbers(7, 5, start=4)),
    ]


def divided(divisor):
    """Return the function that gives the scores (key,) of a query and keys, with this divisor(keys, head_dim)."""
    return lambda query, keys: torch.mv(keys, query) / divisor(*keys.shape)


SCALED = divided(lambda n, d: math.sqrt(d))
WRONG_DIVISORS = {
    "no_scaling": [divided(lambda n, d: 1)],
    "scaled_by_d": [divided(lambda n, d: d), divided(lambda n, d: d * math.sqrt(d))],
    "scaled_by_sequence_length": [
        divided(lambda n, d: math.sqrt(n)),
        divided(lambda n, d: n),
        divided(lambda n, d: math.sqrt(n * d)),
    ],
    "fixed_divisor": [divided(lambda n, d, size=size: math.sqrt(size)) for size in (32, 64)],
    "multiplied_by_root": [divided(lambda n, d: 1 / math.sqrt(d))],
    "keys_transposed": [
        lambda query, keys: keys.T @ query / math.sqrt(len(query)),
        lambda query, keys: query @ keys,
    ],
}


@safely
def check_query_key_product(attempt):
    """Check `attempt(query, keys)`: q×k for each token, (key, head_dim), and q·k, (key,), as the view shows them."""

    def answer(products=torch.mul, scores=SCALED):
        return lambda query, keys: {"products": products(query, keys), "scores": scores(query, keys)}

    def scaled(query, keys):
        return query * keys / math.sqrt(len(query))

    mistakes = {name: [answer(scores=like) for like in likes] for name, likes in WRONG_DIVISORS.items()} | {
        "sum_over_keys": [
            answer(scores=lambda query, keys: scaled(query, keys).sum(dim=0)),
            answer(scores=lambda query, keys: (query * keys).sum(dim=0)),
        ],
        "one_sum_for_all": [
            answer(scores=lambda query, keys: scaled(query, keys).sum()),
            answer(scores=lambda query, keys: (query * keys).sum()),
        ],
        "not_added_up": [answer(scores=scaled), answer(scores=torch.mul)],
        "products_scaled": [
            answer(scaled),
            answer(scaled, lambda query, keys: scaled(query, keys).sum(dim=-1) / math.sqrt(len(query))),
        ],
        "exponential_taken": [answer(scores=lambda query, keys: SCALED(query, keys).exp())],
        "sign_lost": [
            answer(lambda q, k: (q * k).abs()),
            answer(lambda q, k: (q * k).abs(), lambda q, k: (q * k).abs().sum(dim=-1) / math.sqrt(len(q))),
            answer(scores=lambda q, k: SCALED(q, k).abs()),
            answer(lambda q, k: (q * k).relu()),
        ],
        "sign_turned": [answer(scores=lambda q, k: -SCALED(q, k))],
        "keys_alone": [
            answer(lambda q, k: k * k, lambda q, k: (k * k).sum(dim=-1) / math.sqrt(len(q))),
            answer(lambda q, k: k * k),
            answer(lambda q, k: q.expand_as(k)),
            answer(lambda q, k: q.square().expand_as(k)),
        ],
        "mean_not_sum": [
            answer(scores=lambda q, k: (q * k).mean(dim=-1)),
            answer(scores=lambda q, k: (q * k).mean(dim=-1) / math.sqrt(len(q))),
            answer(scores=lambda q, k: (q * k).amax(dim=-1)),
        ],
        "lengths_taken_out": [answer(scores=lambda q, k: F.cosine_similarity(q[None], k))],
        "other_divisor": [answer(scores=divided(lambda n, d, by=by: by(d))) for by in OTHER_DIVISORS],
        "softmaxed_scores": [
            answer(scores=lambda query, keys: SCALED(query, keys).softmax(dim=-1)),
            answer(scores=lambda query, keys: (keys @ query).softmax(dim=-1)),
        ],
        "products_added_up": [answer(lambda query, keys: keys @ query), answer(SCALED)],
        "added_not_multiplied": [
            answer(torch.add),
            answer(torch.add, lambda query, keys: (query + keys).sum(dim=-1) / math.sqrt(len(query))),
        ],
        "exchanged": [lambda query, keys: {"products": SCALED(query, keys), "scores": query * keys}],
    }
    read = parts_of("products", "scores")
    return judge("query_key_product", attempt, one_query(), answer(), mistakes, read)


@safely
def check_weights_of_token(attempt):
    """Check `attempt(query, keys)`: one token's weights, (key,), from its query (head_dim,) and keys (key, head_dim).

    Peer: F.scaled_dot_product_attention.
    """

    def right(query, keys):
        return {"row": weights_of(query[None], keys)[0]}

    def softmax_of(scores):
        return lambda query, keys: {"row": scores(query, keys).softmax(dim=0)}

    def like(row):
        return lambda query, keys: {"row": row(query, keys)}

    def products(query, keys):
        return query * keys / math.sqrt(len(query))

    mistakes = {name: [softmax_of(score) for score in scores] for name, scores in WRONG_DIVISORS.items()} | {
        "no_softmax": [
            like(SCALED),
            like(lambda query, keys: keys @ query),
            like(lambda query, keys: keys @ query / (keys @ query).sum()),
        ],
        "softmax_of_one": [
            like(lambda query, keys: torch.ones(len(keys))),
            like(lambda query, keys: torch.ones(len(keys), 1)),
            like(lambda query, keys: torch.ones(1, len(keys))),
        ],
        "softmax_before_sum": [
            like(lambda q, k, made=made, axis=axis, reduce=reduce: reduce(made(q, k).softmax(dim=axis)))
            for made in (products, torch.mul)
            for axis in (0, 1)
            for reduce in (
                lambda w: w,
                lambda w: w.mean(dim=-1),
                lambda w: w.sum(dim=-1),
                lambda w: w.sum(dim=-1) / w.sum(),
            )
        ],
        "sum_over_keys": [
            softmax_of(lambda query, keys: products(query, keys).sum(dim=0)),
            softmax_of(lambda query, keys: (query * keys).sum(dim=0)),
        ],
        "not_divided_by_sum": [like(lambda query, keys: SCALED(query, keys).exp())],
        "applied_to_keys": [like(lambda query, keys: SCALED(query, keys).softmax(dim=0) @ keys)],
        "divided_after_softmax": [
            like(lambda query, keys: (keys @ query).softmax(dim=0) / math.sqrt(len(query))),
            like(lambda query, keys: SCALED(query, keys).softmax(dim=0) / math.sqrt(len(query))),
        ],
        "overflow_on_large_scores": [
            like(lambda query, keys: (powers := SCALED(query, keys).exp()) / powers.sum()),
            like(lambda query, keys: ((powers := SCALED(query, keys).exp()) / powers.sum()).nan_to_num(0.0)),
        ],
        "each_score_alone": [like(lambda query, keys: SCALED(query, keys).sigmoid())],
        "sign_turned": [softmax_of(lambda query, keys: -SCALED(query, keys))],
        "logarithm": [like(lambda query, keys: SCALED(query, keys).log_softmax(dim=0))],
        "scores_changed": [
            *(softmax_of(lambda query, keys, c=c: c(SCALED(query, keys))) for c in SCORES_CHANGED),
            softmax_of(lambda query, keys: F.cosine_similarity(query[None], keys)),
        ],
        "largest_score_only": [
            like(lambda query, keys: F.one_hot((keys @ query).argmax(), len(keys)).to(keys)),
            like(lambda query, keys: (keys @ query).argmax()),
        ],
        "axis_left_over": [
            like(lambda query, keys: weights_of(query[None], keys)),
            like(lambda query, keys: weights_of(query[None], keys).T),
        ],
        "other_divisor": [softmax_of(divided(lambda n, d, by=by: by(d))) for by in OTHER_DIVISORS],
        "softmax_twice": [softmax_of(lambda query, keys: SCALED(query, keys).softmax(dim=0))],
    }

    # Scores near 1000 and -1000, whose sum is small.
    far = torch.tensor([25.0, 1.0]), torch.tensor([[60.0, 1], [59.5, 2], [-60, 0], [-59, 1]])
    return judge("weights_of_token", attempt, [*one_query(), far], right, mistakes, alone("row"))


@safely
def check_strongest_neurons(attempt):
    """Check `attempt(query, key, count)`: the places of the `count` dimensions that raise the score most, in order."""
    trials = [  # the products are whole numbers, and larger than any place
        (torch.tensor([6.0, -8, 3, 4, -5, 1]), torch.tensor([7.0, -4, 11, -12, -7, 10]), 3),
        (torch.tensor([2.0, -3, 5, 1, 4]), torch.tensor([-7.0, -6, -2, -9, -8]), 2),  # one product above 0
        (torch.tensor([-1.5, 2, 0.5, 3]), torch.tensor([4.0, 7, -8, 5]), 4),  # all of them
    ]

    def ranked(by=torch.mul, change=lambda order, count: order[:count]):
        def compute(query, key, count):
            values = by(query, key).tolist()
            order = sorted(range(len(values)), key=values.__getitem__, reverse=True)
            return {"dimensions": torch.tensor(change(order, count))}

        return compute

    def above_zero(query, key, count):
        order = ranked()(query, key, count)["dimensions"]
        return {"dimensions": order[(query * key)[order] > 0]}

    def without_negatives(query, key, count):
        values = (query * key).masked_fill((query < 0) | (key < 0), -math.inf)
        if (values > 0).sum() < count:
            raise ValueError("which of the others come next depends on how they are sorted")
        return {"dimensions": values.topk(count).indices}

    def topk(read):
        return lambda query, key, count: {"dimensions": read((query * key).topk(count))}

    mistakes = {
        "above_zero_only": [above_zero],
        "weakest_first": [ranked(lambda q, k: -q * k)],
        "sign_ignored": [ranked(lambda q, k: (q * k).abs())],
        "query_alone": [
            ranked(lambda q, k: q),
            ranked(lambda q, k: k),
            ranked(lambda q, k: q.abs()),
            ranked(lambda q, k: k.abs()),
        ],
        "added_not_multiplied": [ranked(torch.add)],
        "difference_not_product": [ranked(lambda q, k: -(q - k).abs()), ranked(lambda q, k: q - k)],
        "two_negatives_left_out": [
            without_negatives,
            ranked(lambda q, k: (q * k).masked_fill((q < 0) & (k < 0), 0)),
        ],
        "ranks_not_places": [
            lambda q, k, count, down=down: {"dimensions": (q * k).argsort(descending=down).argsort()[:count]}
            for down in (True, False)
        ],
        "counted_from_one": [ranked(change=lambda order, count: [place + 1 for place in order[:count]])],
        "strongest_last": [ranked(change=lambda order, count: order[:count][::-1])],
        "in_order_of_places": [ranked(change=lambda order, count: sorted(order[:count]))],
        "count_ignored": [
            ranked(change=lambda order, count: order),
            ranked(change=lambda order, count: order[0]),
            ranked(change=lambda order, count: order[:1]),
        ],
        "one_too_few_or_many": [
            ranked(change=lambda order, count: order[: count - 1]),
            ranked(change=lambda order, count: order[: count + 1]),
            ranked(change=lambda order, count: order[1 : count + 1]),
        ],
        "values_of_topk": [topk(lambda found: found.values)],
        "pair_of_topk": [topk(lambda found: torch.stack([found.values, found.indices]))],
    }

    signs = {"count_ignored": lambda inputs, answer: answer["dimensions"].numel() != inputs[2]}

    def read(raw):
        if isinstance(raw, tuple) and len(raw) == 2 and all(getattr(part, "ndim", 0) == 1 for part in raw):
            raw = torch.stack([torch.as_tensor(part, dtype=torch.float64) for part in raw])
        return whole_numbers("dimensions")(raw)

    return judge("strongest_neurons", attempt, trials, ranked(), mistakes, read, signs)
