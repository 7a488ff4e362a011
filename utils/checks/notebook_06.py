"""The checks of notebook 06: heads that do something, and where attention rests."""

import torch

from .answers import LAYER_HEAD, alone
from .heads import WRONG_SHAPES, place, planted, read_place, search, share, shares_of_keys, wrong_shares
from .judge import judge, safely


def looking_back(*strengths, start=0.0):
    """Return the cells of a head that gives each token but the first this weight to the token before it.

    Where it is below a half, another token gets half of the weight. `start` is what the first token gives to the
    last one.
    """
    seq = len(strengths) + 1
    cells = {(0, seq - 1): start}
    for query, strength in enumerate(strengths, start=1):
        cells[query, query - 1] = strength
        if strength < 0.5:
            cells[query, (query + 2) % seq] = 0.5
    return cells


@safely
def check_previous_token_head(attempt):
    """Check `attempt(attentions)`: (layer, head), counted from 0, of the largest mean weight on the token before.

    `attentions` is a tuple of (1, heads, query, key), as a model returns it. The heads are planted.
    """
    seq = 8
    tidy = looking_back(0.97, 0.97, 0.38, 0.38, 0.97, 0.98, 0.97)
    plants = {  # each head but the right one is first in something else
        (2, 1): looking_back(0.99, 0.99, 0.1, 0.99, 0.99, 0.99, 0.99),
        # the first layer, the layer and the column with the largest sum, the last layer
        (0, 0): tidy,
        (1, 0): tidy,
        (3, 0): tidy,
        # without the first query, without the last one
        (0, 4): looking_back(0.0, *[0.93] * 6),
        (1, 1): looking_back(*[0.92] * 6, 0.0),
        # how often it is the largest of its row, the largest of all, and where index -1 counts
        (1, 4): {(query, query - 1): 0.7 for query in range(1, seq)},
        (3, 4): {(6, 5): 1.0},
        (3, 3): looking_back(0.95, 0.95, 0.9, 0.45, 0.45, 0.95, 0.8, start=0.999),
        # other places: all earlier ones, two before, the next, itself; and the least
        (0, 2): {(query, 0): 0.995 for query in range(1, seq)},
        (0, 3): {(query, query - 2): 0.9 for query in range(2, seq)},
        (2, 0): {(query, query + 1): 0.9 for query in range(seq - 1)},
        (2, 4): {(query, query): 0.9 for query in range(seq)},
        (0, 1): looking_back(*[0.0] * 7),
        (1, 3): {(6, 5): 0.7},  # so that a mean over heads names none of them
    }
    last_layer = {
        (4, 0): looking_back(0.98, 0.98, 0.98, 0.3, 0.3, 0.3),
        (3, 1): looking_back(0.9, 0.9, 0.4, 0.4, 0.3, 0.3),  # the second best
        (2, 1): looking_back(*[0.45] * 6),  # the largest median
        (0, 1): {(3, 2): 1.0},
    }
    first_layer = {(0, 3): looking_back(0.6, 0.7, 0.8, 0.9), (1, 1): looking_back(0.5, 0.6, 0.5, 0.6)}
    cases = [
        ((planted(4, 5, seq, plants),), (2, 1)),
        ((planted(5, 3, 7, last_layer),), (4, 0)),
        ((planted(3, 4, 5, first_layer, start=2),), (0, 3)),
    ]

    def offset(attentions, by=-1):
        return torch.cat(attentions).diagonal(by, dim1=-2, dim2=-1)  # (layers, heads, queries)

    def largest(table):
        return lambda attentions: place(table(attentions))

    def wrapping(attentions):
        return torch.cat([offset(attentions), torch.cat(attentions)[:, :, :1, -1]], dim=-1).mean(dim=-1)

    def hits(attentions, start=0):
        most = torch.cat(attentions).argmax(dim=-1)[..., start:]  # (layers, heads, query)
        before = torch.arange(start, most.shape[-1] + start) - 1
        return (most == before % attentions[0].shape[-1]).sum(dim=-1)

    mistakes = {
        "next_token_instead": [largest(lambda a: offset(a, 1).mean(dim=-1))],
        "token_itself_instead": [largest(lambda a: offset(a, 0).mean(dim=-1))],
        "two_places_back": [largest(lambda a: offset(a, -2).mean(dim=-1))],
        "one_weight_instead_of_mean": [
            largest(lambda a: offset(a).amax(dim=-1)),
            largest(lambda a: torch.cat(a).amax((-2, -1))),
        ],
        "wraps_around": [largest(wrapping)],
        "counts_instead_of_mean": [largest(lambda a: hits(a, start=1)), largest(hits)],
        "all_earlier_tokens": [largest(lambda a: torch.cat(a).tril(-1).sum((-2, -1)))],
        "queries_left_out": [
            largest(lambda a: offset(a)[..., 1:].mean(dim=-1)),
            largest(lambda a: offset(a)[..., :-1].mean(dim=-1)),
            largest(lambda a: offset(a)[..., 1:-1].mean(dim=-1)),
        ],
        "diagonal_of_other_axes": [largest(lambda a: torch.cat(a).diagonal(-1).mean(dim=-1))],
        "mean_over_heads": [
            largest(lambda a: offset(a).mean(dim=0)),
            largest(lambda a: offset(a).mean(dim=1)),
        ],
    }
    last = {
        "other_than_mean": [
            largest(lambda a, reduce=reduce: reduce(offset(a)))
            for reduce in (
                lambda w: w.prod(dim=-1),
                lambda w: w.amin(dim=-1),
                lambda w: w.median(dim=-1).values,
                lambda w: w.square().mean(dim=-1),
                lambda w: w.std(dim=-1),
                lambda w: w.log().mean(dim=-1),
            )
        ],
    }
    found = search(cases, lambda a: offset(a).mean(dim=-1), mistakes, last)
    return judge("previous_token_head", attempt, *found, read_place)


@safely
def check_strongest_head(attempt):
    """Check `attempt(attentions, query, key)`: (layer, head), counted from 0, that gives most from query to key."""
    here, back, before, behind = (4, 2), (2, 4), (3, 1), (5, 3)
    plants = {
        (2, 1): {here: 0.9},
        (0, 2): {(4, 0): 0.98},  # most from this query, to another key
        (0, 1): {here: 0.0},
        (0, 3): {here: 0.7},
        (0, 4): {(query, 2): 0.6 for query in range(6)},  # most to this key from all queries together
        (1, 0): {here: 0.75},
        (1, 1): {here: 0.5, before: 0.95},
        (1, 3): {here: 0.4},
        (1, 4): {here: 0.5, behind: 0.95},
        (2, 0): {back: 0.95},
        (2, 4): {(1, 2): 0.97},  # most to this key, from another query
        (3, 0): {here: 0.7},
        (3, 3): {here: 0.6},
        (3, 4): {(5, 5): 0.995},  # the largest weight of all
    }
    last_layer = {(4, 0): {(1, 5): 0.9}, (1, 2): {(1, 5): 0.6}, (0, 2): {(0, 4): 0.9, (2, 6): 0.9}}
    last_layer |= {(2, 2): {(1, 6): 0.95}, (2, 1): {(4, 5): 0.95}}  # behind the key, behind the query
    cases = [
        ((planted(4, 5, 6, plants), 4, 2), (2, 1)),
        ((planted(5, 3, 7, last_layer), 1, 5), (4, 0)),
        ((planted(3, 4, 5, {(0, 3): {(0, 4): 0.9}, (1, 1): {(0, 4): 0.6}}, start=2), 0, 4), (0, 3)),
    ]

    def largest(table):
        return lambda attentions, query, key: place(table(torch.cat(attentions), query, key))

    mistakes = {
        "query_key_swapped": [largest(lambda w, query, key: w[:, :, key, query])],
        "key_ignored": [largest(lambda w, query, key: w[:, :, query].amax(dim=-1))],
        "query_ignored": [
            largest(lambda w, query, key: w[..., key].amax(dim=-1)),
            largest(lambda w, query, key: w[..., key].mean(dim=-1)),
        ],
        "batch_axis_forgotten": [
            lambda a, query, key: {
                LAYER_HEAD: torch.tensor(
                    divmod(torch.stack(a)[:, :, query, key].argmax().item(), a[0].shape[1])
                )
            },
        ],
        "whole_table": [largest(lambda w, query, key: w.amax((-2, -1)))],
    }
    last = {
        "tokens_counted_from_one": [
            largest(lambda w, query, key: w[:, :, query - 1, key - 1]),
            largest(lambda w, query, key: w[:, :, query + 1, key + 1]),
            *(
                largest(lambda w, query, key, q=q, k=k: w[:, :, query + q, key + k])
                for q, k in ((0, 1), (0, -1), (1, 0), (-1, 0))
            ),
        ],
        "both_directions": [
            largest(lambda w, query, key: w[:, :, query, key] + w[:, :, key, query]),
            largest(lambda w, query, key: w[:, :, query, key] - w[:, :, key, query]),
            largest(lambda w, query, key: torch.maximum(w[:, :, query, key], w[:, :, key, query])),
        ],
    }
    found = search(cases, lambda a, query, key: torch.cat(a)[:, :, query, key], mistakes, last)
    return judge("strongest_head", attempt, *found, read_place)


@safely
def check_working_share(attempt):
    """Check `attempt(attentions)`: for each head the share that goes neither to the first nor to the last token.

    `attentions` is a tuple of (1, heads, query, key); the result is (layers, heads).
    """
    trials = [
        (planted(2, 3, 6, {(0, 1): {(query, 0): 0.7 for query in range(6)}}),),
        (planted(3, 2, 5, {(1, 0): {(0, 2): 0.9, (4, 4): 0.0}}, start=4),),
    ]

    def right(attentions):
        return share(1 - shares_of_keys(attentions, [0, -1]))  # each row sums to 1

    mistakes = wrong_shares(right, lambda attentions: list(range(1, attentions[0].shape[-1] - 1))) | {
        "one_end_left_out": [
            lambda a: share(1 - shares_of_keys(a, [0])),
            lambda a: share(1 - shares_of_keys(a, [-1])),
        ],
        "other_keys_left_out": [
            lambda a, first=first, end=end: share(torch.cat(a)[..., first:end].sum(-1).mean(-1))
            for first, end in ((2, None), (0, -2), (2, -1), (1, -2), (2, -2), (0, None))
        ],
    }
    return judge("working_share", attempt, trials, right, mistakes, alone("share"), WRONG_SHAPES)
