"""The exercises of notebook 08: from weights back to scores, and what a single dimension is worth."""

import math

import torch

from .answers import alone, whole_numbers
from .exercise import Exercise
from .shared import made_numbers


def scores_from_weights(attn_weights):
    logs = attn_weights.log()  # (query, key): the scores, less one number in each row
    middle = logs.mean(dim=-1, keepdim=True)  # (query, 1)
    return logs - middle


check_scores_from_weights = Exercise(
    scores_from_weights,
    lambda: [
        ((made_numbers(*shape, start=i) * (1 + i)).softmax(dim=-1),)
        for i, shape in enumerate([(4, 4), (3, 6), (5, 2)])
    ],
    alone("scores"),
)


def weight_without_each(query, keys, target):
    products = query * keys / math.sqrt(query.shape[-1])  # (key, head_dim)
    scores = products.sum(dim=-1, keepdim=True)  # (key, 1)
    without = scores - products  # (key, head_dim): in column d, the scores without dimension d
    attn_weights = without.softmax(dim=0)  # each column sums to 1
    return attn_weights[target]


FAR = torch.tensor([25.0, 1]), torch.tensor([[60.0, 1], [59.5, 2], [-60, 0], [-59, 1]]), 1  # scores near 1000

check_weight_without_each = Exercise(
    weight_without_each,
    lambda: [
        (made_numbers(5), made_numbers(5, 5, start=6).T, 2),  # square, so that a swap runs; not contiguous
        (made_numbers(3, start=2), made_numbers(4, 3, start=7), 0),
        (made_numbers(6, start=1), made_numbers(4, 6, start=4), 3),
        FAR,
    ],
    alone("target's weight"),
)


def strongest_dimensions(query, keys, target, count):
    products = query * keys  # (key, head_dim)
    leads = products[target] - products.mean(dim=0)  # (head_dim,)
    order = leads.argsort(descending=True)
    return order[:count]


def whole_numbers_of(*shape, start):
    """Return a tensor of whole numbers from -15 to 15."""
    count = torch.arange(math.prod(shape))
    return ((count + 3) * (count + start) * 7 % 31 - 15.0).reshape(shape)


# Keys, dimensions, target, count, start. With these no two leads are equal, and no two numbers that mistakes rank.
SIZES = [(4, 6, 2, 3, 19), (5, 5, 2, 3, 15), (3, 4, 1, 4, 13), (6, 5, 3, 2, 11), (3, 6, 1, 3, 12)]
SIZES += [(5, 11, 2, 8, 7)]  # with other means, other dimensions lead


def dimension_trials():
    """Return inputs whose products and leads are whole numbers, and no two leads of one input are equal."""
    trials = []
    for keys, head_dim, *rest, start in SIZES:
        query = whole_numbers_of(head_dim, start=start)
        rows = whole_numbers_of(keys, head_dim, start=start + 9)
        rows[-1] -= rows.sum(dim=0) % keys  # the mean over the keys is a whole number
        trials.append((query, rows, *rest))
    return trials


def read_dimensions(raw):
    """Read whole numbers. The pair that topk gives is read too: that mistake has a name."""
    if isinstance(raw, tuple) and len(raw) == 2 and all(getattr(part, "ndim", 0) == 1 for part in raw):
        raw = torch.stack([torch.as_tensor(part, dtype=torch.float64) for part in raw])
    return whole_numbers("dimensions")(raw)


check_strongest_dimensions = Exercise(
    strongest_dimensions,
    dimension_trials,
    read_dimensions,
    {
        "count_ignored": lambda inputs, answer: (
            (found := answer["dimensions"]).numel() != inputs[3]
            and bool((found >= 0).all() and (found < len(inputs[0])).all())
        )
    },
)
