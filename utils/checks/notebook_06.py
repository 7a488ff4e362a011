"""The exercises of notebook 06: heads that do something, and where attention rests."""

import torch

from .answers import alone
from .exercise import Exercise
from .shared import SHAPES_OF_SHARES, made_attentions, read_place


def previous_token_head(attentions, attention_mask):
    weights = torch.stack(attentions)  # (layers, batch, heads, query, key)
    before = weights.diagonal(-1, dim1=-2, dim2=-1)  # (layers, batch, heads, query), without the first query
    real = (attention_mask[:, 1:] * attention_mask[:, :-1])[:, None]  # (batch, 1, query)
    table = (before * real).sum(dim=(1, 3)) / real.sum()  # (layers, heads)
    layer, head = divmod(table.argmax().item(), table.shape[1])
    return layer, head


PADDED = [
    [[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 1, 1]],
    [[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]],
    [[1, 1, 0, 0, 0], [0, 1, 1, 1, 1], [0, 0, 0, 1, 1], [1, 1, 1, 0, 0]],
    [[1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1]],
    [[1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1]],
    [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]],
]
SIZES = [(4, 5), (5, 3), (3, 4), (2, 6), (6, 2), (3, 5)]
# With these each mistake names other heads than the right ones, and than any other mistake.
STARTS = 81, 24, 0, 81, 28, 37


def padded_trials(starts=STARTS):
    """Return batches of a model that was not told of the pads: tokens look at them."""
    return [
        (made_attentions(*size, len(rows[0]), start, len(rows)), torch.tensor(rows))
        for size, rows, start in zip(SIZES, PADDED, starts, strict=True)
    ]


check_previous_token_head = Exercise(previous_token_head, padded_trials, read_place)


def strongest_head(attentions, query, key):
    table = torch.cat(attentions)[:, :, query, key]  # (layers, heads)
    layer, head = divmod(table.argmax().item(), table.shape[1])
    return layer, head


def strongest_trials():
    places = [(4, 2), (1, 3), (0, 2), (3, 1), (1, 4), (2, 3)]
    made = [
        (made_attentions(*size, 6, start), *at) for size, at, start in zip(SIZES, places, STARTS, strict=True)
    ]
    rows = torch.tensor([[35.0, 25, 40], [10, 46, 44], [50.5, 0, 49.5], [25.5, 26, 48.5]]) / 100  # of query 0
    tables = torch.stack([rows, rows.roll(1, 1), rows.roll(2, 1)], dim=1)  # (head, query, key)
    # In the last, the largest weight from query 0 to key 2 is not the largest of its row.
    return [*made, (tables.view(2, 1, 2, 3, 3).unbind(0), 0, 2)]


check_strongest_head = Exercise(strongest_head, strongest_trials, read_place)


def working_share(attentions):
    weights = torch.cat(attentions)  # (layers, heads, query, key)
    on_keys = weights[..., 1:-1]
    shares = on_keys.sum(dim=-1)  # (layers, heads, query)
    table = shares.mean(dim=-1)  # (layers, heads)
    return table


check_working_share = Exercise(
    working_share,
    lambda: [(made_attentions(2, 3, 6),), (made_attentions(3, 2, 5, start=4),)],
    alone("share"),
    SHAPES_OF_SHARES,
)
