"""The checks of notebook 08: what stands in the neuron view, computed again."""

import math

import torch

from .answers import alone, parts_of, whole_numbers
from .judge import judge, safely
from .shared import made_numbers, weights_of


@safely
def check_query_key_product(attempt):
    """Check `attempt(query, keys)`: q×k for each token, (key, head_dim), and q·k, (key,), as the view shows them."""
    trials = [
        (made_numbers(4), made_numbers(5, 4, start=6)),
        (made_numbers(3, start=2), made_numbers(3, 3, start=7)),
    ]

    def right(query, keys):
        # log of softmax keeps differences only, so the scores themselves come from a product of matrices
        return {"products": torch.mul(query, keys), "scores": torch.mv(keys, query) / math.sqrt(len(query))}

    def like(divisor=math.sqrt, axis=-1):
        def compute(query, keys):
            products = torch.einsum("d,kd->kd", query, keys)
            return {"products": products, "scores": products.sum(dim=axis) / divisor(len(query))}

        return compute

    mistakes = {
        "no_scaling": [like(lambda d: 1)],
        "scaled_by_d": [like(lambda d: d)],
        "sum_over_keys": [like(axis=0), like(lambda d: 1, axis=0)],
    }
    return judge("query_key_product", attempt, trials, right, mistakes, parts_of("products", "scores"))


@safely
def check_weights_of_token(attempt):
    """Check `attempt(query, keys)`: one token's weights, (key,), from its query (head_dim,) and keys (key, head_dim).

    Peer: F.scaled_dot_product_attention.
    """
    trials = [
        (made_numbers(3), made_numbers(5, 3, start=6)),
        (made_numbers(4, start=1), made_numbers(6, 4, start=4)),
    ]

    def right(query, keys):
        return {"row": weights_of(query[None], keys)[0]}

    def like(divisor):
        return lambda query, keys: {"row": (keys @ query / divisor(*keys.shape)).softmax(dim=0)}

    mistakes = {
        "no_scaling": [like(lambda n, d: 1)],
        "scaled_by_d": [like(lambda n, d: d)],
        "scaled_by_sequence_length": [like(lambda n, d: n), like(lambda n, d: math.sqrt(n))],
        "no_softmax": [
            lambda q, k: {"row": k @ q / math.sqrt(len(q))},
            lambda q, k: {"row": k @ q},
            lambda q, k: {"row": (k @ q) / (k @ q).sum()},
        ],
    }

    def read(raw):
        row = alone("row")(raw)["row"]
        return {"row": row[0] if row.dim() == 2 and len(row) == 1 else row}

    return judge("weights_of_token", attempt, trials, right, mistakes, read)


@safely
def check_strongest_neurons(attempt):
    """Check `attempt(query, key, count)`: the places of the `count` dimensions that raise the score most, in order."""
    trials = [
        (torch.tensor([2.0, -1.0, 0.5, 3.0, -2.0]), torch.tensor([1.0, -3.0, 0.0, -2.0, 0.25]), 2),
        (torch.tensor([1.0, 0.5, -4.0, 2.0, -1.0, 3.0]), torch.tensor([5.0, 2.0, 1.5, 0.1, -4.0, 1.0]), 3),
    ]

    def ranked(by=lambda q, k: q * k, add=0, largest=True):
        def compute(query, key, count):
            values = [by(q, k) for q, k in zip(query.tolist(), key.tolist(), strict=True)]
            order = sorted(range(len(values)), key=values.__getitem__, reverse=largest)
            return {"dimensions": torch.tensor([place + add for place in order[:count]])}

        return compute

    mistakes = {
        "weakest_first": [ranked(largest=False)],
        "sign_ignored": [ranked(lambda q, k: abs(q * k))],
        "query_alone": [
            ranked(lambda q, k: q),
            ranked(lambda q, k: k),
            ranked(lambda q, k: abs(q)),
            ranked(lambda q, k: abs(k)),
        ],
        "counted_from_one": [ranked(add=1)],
    }
    return judge("strongest_neurons", attempt, trials, ranked(), mistakes, whole_numbers("dimensions"))
