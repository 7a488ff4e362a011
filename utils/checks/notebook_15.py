"""The exercises of notebook 15: how rare an effect is, what a hidden key changes, and whether two measures agree."""

import torch

from .answers import alone, scalar
from .exercise import Exercise
from .shared import made_numbers


def as_extreme(effect, controls):
    as_far = controls.abs() >= abs(effect)  # (controls,)
    count = 1 + as_far.sum()  # the head itself is one of them
    return count / (1 + len(controls))


def effect_trials():
    found = [
        (-1.5, [0.25, -0.5, 1.75, 0.125, -2.0, 0.0, 1.5, -0.75, 0.5]),
        (0.5, [-0.25, 0.125, -0.375, 0.25, -0.75, 0.0, 0.625, -0.5, -1.0, 0.25, 0.75]),
        (2.0, [0.5, -1.0, 1.75, 0.25]),
        (1.0, [0.5, -1.5, 0.25, 2.0, -0.625, 1.25]),  # 4 of 7: no share of one decimal
    ]
    return [(effect, torch.tensor(controls)) for effect, controls in found]


check_as_extreme = Exercise(as_extreme, effect_trials, scalar("share"))


def moved_without(attn_weights, sent):
    output = attn_weights @ sent  # (query, hidden_size)
    part = attn_weights[..., None] * sent  # (query, key, hidden_size): what each key adds
    rest = output[:, None] - part  # the sum of all others
    without = rest / (1 - attn_weights[..., None])  # whose weights sum to 1 again
    return (without - output[:, None]).norm(dim=-1)


def sent_trials():
    shapes = (3, 4, 5), (4, 4, 4), (2, 6, 3)  # query, key, hidden_size
    made = [(made_numbers(query, key), made_numbers(key, width, start=5)) for query, key, width in shapes]
    return [((scores / 2).softmax(dim=-1), sent) for scores, sent in made]


check_moved_without = Exercise(moved_without, sent_trials, alone("distances"))


def same_order(added, lost):
    one, other = torch.triu_indices(len(added), len(added), 1)  # each pair of heads, once
    by_added = added[one] > added[other]  # (pairs,)
    by_lost = lost[one] > lost[other]
    return (by_added == by_lost).double().mean()


def order_trials():
    found = [
        ([0.66, -0.77, 0.05, 0.38, 0.31, 0.01], [0.1, -0.63, 0.02, -0.06, 0.12, -0.02]),
        ([1.5, 0.25, -0.5, 0.75], [1.25, -0.5, -0.25, 0.5]),
        ([-0.1, 0.2, -0.3, 0.4, 0.5], [0.3, 0.1, -0.2, -0.4, 0.05]),
    ]
    return [tuple(map(torch.tensor, pair)) for pair in found]


check_same_order = Exercise(same_order, order_trials, scalar("share"))
