"""The exercises of notebook 10: a guess for each word, a head chosen on one half, and an interval of a difference."""

import math
import time

import numpy as np
import torch

from .answers import LAYER_HEAD, Unreadable, agrees, kind_of, read_tensor, whole_numbers
from .exercise import Exercise
from .running import tried
from .shared import made_numbers


def guesses(word_weights):
    itself = torch.eye(word_weights.shape[-1], dtype=torch.bool)
    candidates = word_weights.masked_fill(itself, -1)
    return candidates.argmax(dim=-2)  # (layers, heads, words)


def word_weights():
    """Return attention between words: that to itself is large, and the rest lies on [CLS] and [SEP]."""
    shapes = ((2, 3, 4, 4), 0.7), ((3, 3, 3, 3), 0.7), ((4, 2, 6, 6), 4)
    made = [made_numbers(*shape) / 2 + itself * torch.eye(shape[-1]) for shape, itself in shapes]
    return [(0.8 * weights.softmax(dim=-1),) for weights in made]


check_guesses = Exercise(guesses, word_weights, whole_numbers("guesses", lists=False))


def held_out_best(hits, chooses):
    table = hits[chooses].mean(axis=0)  # (layers, heads)
    layer, head = divmod(table.argmax().item(), table.shape[1])
    share = hits[~chooses, layer, head].mean()
    return layer, head, share


# Pairs in both halves, and how often each head is right in both. Each half, and both together, have another best head.
HALVES = [
    ((9, 8), [[(2, 7), (5, 3), (8, 2)], [(6, 5), (4, 4), (7, 6)]]),
    ((6, 10), [[(2, 9), (1, 6)], [(0, 5), (3, 4)], [(5, 3), (4, 8)]]),
    ((7, 8), [[(4, 6), (6, 1)], [(2, 7), (5, 4)]]),
    ((7, 7), [[(1, 6), (6, 1)], [(5, 6), (3, 7)]]),
]


def two_halves(pairs, counts):
    """Return hits and chooses: the halves are mixed, and so are the hits in them."""
    chooses = np.isin((np.arange(sum(pairs)) * 11 + pairs[0]) % sum(pairs), np.arange(pairs[0]))
    hits = np.zeros((sum(pairs), len(counts), len(counts[0])), dtype=bool)
    for layer, head in np.ndindex(hits.shape[1:]):
        for half, count in zip((chooses, ~chooses), counts[layer][head], strict=True):
            hits[np.roll(half.nonzero()[0], 3 - layer - head)[:count], layer, head] = True
    return hits, chooses


def read_best(raw):
    """Read a layer, a head and a share; the first two may stand in brackets of their own."""
    if isinstance(raw, tuple | list) and len(raw) == 2 and np.ndim(raw[0]) == 1:
        raw = [*raw[0], raw[1]]
    numbers = tried(read_tensor, raw, "result", True)
    if numbers is None or numbers.shape != (3,):
        said = f"Three numbers are expected: the layer, the head, and a share. Your result is {kind_of(raw)}"
        if raw is None:
            raise Unreadable(said, "nothing_returned")
        told = f" of {len(raw)}." if isinstance(raw, tuple | list) else "."
        raise Unreadable(said + told, "other_number_of_parts")
    if numbers.isnan().any():
        raise Unreadable("Your result holds nan.", "mean_of_nothing")
    return {LAYER_HEAD: numbers[:2], "share": round(numbers[2].item(), 3)}


check_held_out_best = Exercise(held_out_best, lambda: [two_halves(*half) for half in HALVES], read_best)

# Patterns as (pairs, right guesses of the head, of the rule). In the first two lists they are of two kinds, five of each:
# 1 or less of a kind are in 1.1 % of all draws, 2 or less in 5.5 %. So the ends of a 95 % interval are those of 2 and 8;
# 2,000 draws miss them once in 100 million times. In the third list the ends move by small steps: whether 2, 2.5 or 3 %
# is cut off shows in the width, if there are MANY_DRAWS.
DRAWS, MANY_DRAWS = 2_000, 40_000
MANY = [(5, 5, 1), (2, 1, 1), (4, 1, 2), (3, 3, 0), (7, 4, 1), (1, 0, 1), (6, 3, 2)]
MANY += [(2, 2, 0), (4, 4, 1), (3, 0, 1), (5, 1, 2), (2, 1, 0), (7, 5, 2)]
PATTERNS = [[(2, 2, 1)] * 5 + [(4, 1, 0)] * 5, [(1, 1, 0)] * 5 + [(3, 0, 3)] * 5, MANY]
QUICK = 0.2  # seconds of computing for DRAWS: who takes longer is not asked for MANY_DRAWS
# An end may be REACH times this from that of a mistake: where ends jump (lists 1 and 2), from the nearest of several.
STEPS, REACH, SEEDS = (0.01, 0.03, 0.01), 3, range(3, 27)
# How far low, high and high - low may be from the solution's: 4.5 standard deviations or more.
NEAR = {MANY_DRAWS: torch.tensor([0.009, 0.0075, 0.0102]), DRAWS: torch.tensor([0.04, 0.034, 0.05])}


def paired_interval(head_hits, rule_hits, pattern, draws):
    numbers, group = np.unique(pattern, return_inverse=True)  # the patterns, numbered without gaps
    head, rule = np.bincount(group, head_hits), np.bincount(group, rule_hits)  # right answers, (patterns,)
    pairs = np.bincount(group)
    rng = np.random.default_rng(3)
    drawn = rng.integers(len(numbers), size=(draws, len(numbers)))
    ahead = head[drawn].sum(axis=1) - rule[drawn].sum(axis=1)  # (draws,)
    shares = ahead / pairs[drawn].sum(axis=1)
    low, high = np.quantile(shares, [0.025, 0.975])
    return low, high


def mixed(patterns, draws):
    """Return the inputs: most numbers have no pair, and the pairs of a pattern do not stand together."""
    found = []
    for place, (pairs, head, rule) in enumerate(patterns):
        number = 2 + 3 * (place * 7 % len(patterns))
        found += [(pair < head, pair < rule, number) for pair in range(pairs)]
    found = [found[place * 7 % len(found)] for place in range(len(found))]
    return (*map(np.array, zip(*found, strict=True)), draws)


def read_interval(result):
    """Read two numbers, and how many draws they come from."""
    raw, draws = result
    numbers = read_tensor(raw, "interval", lists=True).flatten()
    if len(numbers) != 2:
        said = f"Two numbers are expected, low and high. You returned {len(numbers)}."
        raise Unreadable(said, "other_number_of_parts")
    if draws == 1:  # whatever was drawn, both ends are this one share
        return {"width of the interval": numbers[1] - numbers[0]}
    return {"interval": numbers, "draws": draws}


class IntervalExercise(Exercise):
    def call(self, function, *trial):
        """Draw few times; then once, or often, if that is asked for and the function is quick."""
        *given, draws = trial
        start, found = time.thread_time(), function(*given, DRAWS)
        if draws == 1:
            found = tried(function, *trial)  # who cannot draw once is not refused for that
            return (0.0, 0.0) if found is None else found, 1
        often = draws > DRAWS and time.thread_time() - start < QUICK
        return (function(*given, draws), draws) if often else (found, DRAWS)

    def close(self, inputs, mine, expected):
        """Say whether the ends are right, and how far they are apart."""
        if "draws" not in mine:
            return agrees(mine, expected) or bool(mine["width of the interval"].isnan())
        (low, high), (least, most) = mine["interval"], expected["interval"]
        off = torch.stack([low - least, high - most, high - low - most + least]).abs()
        return bool((off < (NEAR[mine["draws"]] if inputs[3] > DRAWS else 1e-4)).all())

    def nearest(self, read, foresee):
        """Return the name of the mistake whose intervals are nearest, if no other is nearly as near."""
        read = [one for one in read if one.answer]
        if {one.place for one in read if one.seen} in ({3}, {2, 3}):
            return "draws_ignored"
        ends = [one.answer["interval"].tolist() for one in read if one.inputs[3] > 1]
        if all(math.isclose(low, high, abs_tol=2e-5) for low, high in ends):
            return "ends_are_equal" if ends else None
        far = {}
        for name, edit, _ in self.mutants:
            off = [self.far_off(one, edit, foresee) for one in read]
            if max(off) < REACH:
                far[name] = min(sum(off), far.get(name, math.inf))
        name, *others = sorted(far, key=far.get) or [None]
        return name if not others or far[others[0]] >= 1.5 * far[name] else None

    def far_off(self, one, edit, foresee):
        """Return how far an answer is from those of an edited solution, in steps."""
        if one.inputs[3] == 1:
            other = foresee(self.edited(edit), edit, one.place)
            alike = other and self.close((), other, one.expected) == (one.seen is None)
            return 0 if alike else math.inf
        mine, found = one.answer["interval"], [math.inf]
        for seed in SEEDS if one.place < 2 else SEEDS[:1]:
            again = f"{edit} ;; rng({SEEDS[0]}) => rng({seed})"
            made = None if (again, one.place) in self._known else self.edited(again)
            if other := foresee(made, again, one.place):
                off = (mine - other["interval"]).abs() / other["interval"].abs().max().clip(1)
                found.append(off.max().item() / STEPS[one.place])
        return min(found) / (4 if one.answer["draws"] < one.inputs[3] else 1)

    def differs_from_call_to_call(self, run, inputs):
        return False  # by chance


check_paired_interval = IntervalExercise(
    paired_interval,
    lambda: list(map(mixed, [*PATTERNS, MANY], [DRAWS, DRAWS, MANY_DRAWS, 1])),
    read_interval,
)
