"""The checks of notebook 06: heads that do something, and where attention rests."""

import torch

from .answers import LAYER_HEAD, Unreadable, alone, whole_numbers
from .judge import judge, safely
from .shared import planted, shares_of_keys, wrong_places


@safely
def check_previous_token_head(attempt):
    """Check `attempt(attentions)`: (layer, head), counted from 0, of the largest mean weight on the token before.

    `attentions` is a tuple of (1, heads, query, key), as a model returns it. The heads are planted.
    """
    cases = []
    for seq, back, ahead, itself, once in (
        (6, (1, 3), (2, 0), (0, 2), (0, 1)),
        (7, (2, 1), (1, 0), (0, 3), (1, 4)),
    ):
        plants = {
            back: (0.8, [(i, i - 1) for i in range(1, seq)]),
            ahead: (0.8, [(i, i + 1) for i in range(seq - 1)]),
            itself: (0.8, [(i, i) for i in range(seq)]),
            once: (1.0, [(3, 2)]),
        }
        wrong = {
            "next_token_instead": ahead,
            "token_itself_instead": itself,
            "one_weight_instead_of_mean": once,
        }
        cases.append(((planted(3, 5, seq, plants),), back, wrong))
    return judge_heads("previous_token_head", attempt, cases)


@safely
def check_strongest_head(attempt):
    """Check `attempt(attentions, query, key)`: (layer, head), counted from 0, that gives most from query to key."""
    cases = []
    for query, key, right, swapped, last in ((4, 2, (1, 3), (0, 4), (2, 2)), (1, 5, (0, 2), (2, 0), (2, 4))):
        plants = {right: (0.9, [(query, key)]), swapped: (0.95, [(key, query)]), last: (0.6, [(query, key)])}
        attentions = planted(3, 5, 6, plants, start=query)
        wrong = {"query_key_swapped": swapped, "last_layer_only": last}
        cases.append(((attentions, query, key), right, wrong))
    return judge_heads("strongest_head", attempt, cases)


def judge_heads(exercise, attempt, cases):
    """Judge a search for a head. Each case: its inputs, the right (layer, head), and where mistakes would lead."""
    trials = [inputs for inputs, _, _ in cases]
    known = {id(inputs[0]): (place, wrong) for inputs, place, wrong in cases}

    def right(*inputs):
        return {LAYER_HEAD: torch.tensor(known[id(inputs[0])][0])}

    def led_to(name):
        return lambda *inputs: {LAYER_HEAD: torch.tensor(known[id(inputs[0])][1][name])}

    def read(raw):
        places = whole_numbers(LAYER_HEAD)(raw)
        if places[LAYER_HEAD].shape != (2,):
            count = places[LAYER_HEAD].numel()
            raise Unreadable(f"Your result holds {count} numbers. Two are expected: the layer and the head.")
        return places

    mistakes = wrong_places(right) | {name: [led_to(name)] for name in cases[0][2]}
    return judge(exercise, attempt, trials, right, mistakes, read)


@safely
def check_working_share(attempt):
    """Check `attempt(attentions)`: for each head the share that goes neither to the first nor to the last token.

    `attentions` is a tuple of (1, heads, query, key); the result is (layers, heads).
    """
    trials = [
        (planted(2, 3, 6, {(0, 1): (0.7, [(i, 0) for i in range(6)])}),),
        (planted(3, 2, 5, {}, start=4),),
    ]

    def answer(share):
        return {"share": share}

    def right(attentions):
        return answer(1 - shares_of_keys(attentions, [0, -1]))  # each row sums to 1

    def inner(attentions):
        return list(range(1, attentions[0].shape[-1] - 1))

    mistakes = {
        "leaves_out_queries": [
            lambda a: answer(torch.cat(a)[:, :, 1:-1].sum(dim=-1).mean(dim=-1)),
            lambda a: answer(torch.cat(a)[:, :, 1:-1].sum(dim=-2).mean(dim=-1)),
        ],
        "share_of_specials": [lambda a: answer(shares_of_keys(a, [0, -1]))],
        "mean_over_keys": [lambda a: answer(shares_of_keys(a, inner(a)) / len(inner(a)))],
        "sum_over_queries": [lambda a: answer(shares_of_keys(a, inner(a)) * a[0].shape[-1])],
    }
    return judge("working_share", attempt, trials, right, mistakes, alone("share"))
