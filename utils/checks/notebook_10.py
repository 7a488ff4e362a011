"""The exercises of notebook 10: a guess for each word, a head chosen on one half, and an interval of a difference."""

from contextlib import suppress

import numpy as np
import torch

from .answers import LAYER_HEAD, Unreadable, kind_of, read_tensor, whole_numbers
from .exercise import Exercise
from .shared import made_numbers


def guesses(word_weights):
    itself = torch.eye(word_weights.shape[-1], dtype=torch.bool)
    candidates = word_weights.masked_fill(itself, -1)
    return candidates.argmax(dim=-2)  # (layers, heads, words)


def word_weights():
    """Return attention between words: that to the word itself is large, and the rest lies on [CLS] and [SEP]."""
    shapes = ((2, 3, 4, 4), 0.7), ((3, 3, 3, 3), 0.7), ((4, 2, 6, 6), 4)
    made = [made_numbers(*shape) / 2 + itself * torch.eye(shape[-1]) for shape, itself in shapes]
    return [(0.8 * weights.softmax(dim=-1),) for weights in made]


check_guesses = Exercise(guesses, word_weights, whole_numbers("guesses", lists=False))

# ----------------------------------------------------------------------------------- a head chosen on one half


def held_out_best(hits, chooses):
    table = hits[chooses].mean(axis=0)  # (layers, heads)
    layer, head = divmod(table.argmax().item(), table.shape[1])
    share = hits[~chooses, layer, head].mean()
    return layer, head, share


# Pairs in the half that chooses and in the other, and how often each head is right in both. The first half, the
# second and both together have three different best heads.
HALVES = [
    ((9, 8), [[(2, 7), (5, 3), (8, 2)], [(4, 5), (7, 6), (1, 4)]]),
    ((6, 10), [[(2, 9), (1, 6)], [(0, 5), (3, 4)], [(5, 3), (4, 8)]]),
    ((7, 8), [[(4, 6), (6, 1)], [(2, 7), (5, 4)]]),
]


def two_halves(pairs, counts):
    """Return hits and chooses: the halves are mixed, and so are the hits in them."""
    chooses = np.isin(np.arange(sum(pairs)) * 7 % sum(pairs), np.arange(pairs[0]))
    hits = np.zeros((sum(pairs), len(counts), len(counts[0])), dtype=bool)
    for layer, head in np.ndindex(hits.shape[1:]):
        for half, count in zip((chooses, ~chooses), counts[layer][head], strict=True):
            hits[np.roll(half.nonzero()[0], layer + head)[:count], layer, head] = True
    return hits, chooses


def read_best(raw):
    """Read a layer, a head and a share; the first two may stand in brackets of their own."""
    if isinstance(raw, tuple | list) and len(raw) == 2 and isinstance(raw[0], tuple | list):
        raw = [*raw[0], raw[1]]
    numbers = torch.empty(0)
    with suppress(Unreadable):
        numbers = read_tensor(raw, lists=True)
    if numbers.shape != (3,):
        said = f"Three numbers are expected: the layer, the head, and a share. Your result is {kind_of(raw)}"
        raise Unreadable(*((said, "nothing_returned") if raw is None else (said + ".", "other_number_of_parts")))
    if numbers.isnan().any():
        raise Unreadable("Your result holds nan.", "mean_of_nothing")
    return {LAYER_HEAD: numbers[:2], "share": round(numbers[2].item(), 3)}


check_held_out_best = Exercise(held_out_best, lambda: [two_halves(*half) for half in HALVES], read_best)
