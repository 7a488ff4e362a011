"""The checks of notebook 10: a guess for each word, a head chosen on one half, and an interval of a difference."""

import numpy as np
import torch

from .answers import LAYER_HEAD, Unreadable, kind_of, read_tensor, whole_numbers
from .judge import judge, safely
from .shared import made_numbers


def fixed(array):
    """Return an array that an attempt cannot write into."""
    array.flags.writeable = False
    return array


# -------------------------------------------------------------------------------------- a guess for each word


@safely
def check_guesses(attempt):
    """Check `attempt(word_weights)`: for each word the other word that looks at it most, (layers, heads, words).

    word_weights: (layers, heads, words, words). Peer: PyTorch's argmax.
    """

    def answer(guesses):
        return {"guesses": guesses}

    def without_itself(weights):
        return weights.masked_fill(torch.eye(weights.shape[-1], dtype=torch.bool), -1)

    def over(axis):
        return lambda weights: answer(without_itself(weights).argmax(dim=axis))

    right = over(-2)
    mistakes = {
        "wrong_direction": [over(-1), lambda weights: answer(weights.argmax(dim=-1))],
        "itself_left_in": [lambda weights: answer(weights.argmax(dim=-2))],
        "always_itself": [
            lambda weights: answer(torch.arange(weights.shape[-1]).expand(weights.shape[:-1])),
        ],
        "wrong_axis": [over(0), over(1), *(lambda w, axis=axis: answer(w.argmax(axis)) for axis in (0, 1))],
        "second_best": [
            lambda weights: answer(weights.topk(2, dim=-2).indices[..., 1, :]),
            lambda weights: answer(weights.topk(2, dim=-1).indices[..., 1]),
        ],
        "words_from_one": [lambda weights: answer(without_itself(weights).argmax(dim=-2) + 1)],
        "weakest_instead": [
            lambda weights: answer(weights.argmin(dim=-2)),
            lambda weights: answer((weights + 2 * torch.eye(weights.shape[-1])).argmin(dim=-2)),
        ],
    }
    trials = []
    for shape in [(2, 3, 4, 4), (3, 3, 3, 3), (4, 2, 6, 6)]:
        weights = (made_numbers(*shape) / 2 + 0.7 * torch.eye(shape[-1])).softmax(dim=-1)
        trials.append((0.8 * weights,))  # the rest lies on [CLS] and [SEP]
    return judge("guesses", attempt, trials, right, mistakes, whole_numbers("guesses", lists=False))


# ----------------------------------------------------------------------------------- a head chosen on one half

# Pairs in the half that chooses and in the other, how often each head is right in both, and the answer by hand.
# The first half, the second and both together have three different best heads.
HALVES = [
    ((8, 8), [[(2, 7), (5, 3), (8, 2)], [(4, 5), (7, 6), (1, 4)]], (0, 2, 2 / 8)),
    ((5, 10), [[(2, 9), (1, 6)], [(0, 5), (3, 4)], [(5, 3), (4, 8)]], (2, 0, 3 / 10)),
]


@safely
def check_held_out_best(attempt):
    """Check `attempt(hits, chooses)`: (layer, head, share), chosen on one half and scored on the other.

    hits: (pairs, layers, heads), bool. chooses: (pairs,), bool. Both are arrays of numpy.
    """
    answers = {sum(pairs): best for pairs, _, best in HALVES}

    def trial(pairs, counts, _):
        chooses = np.isin(np.arange(sum(pairs)) * 7 % sum(pairs), np.arange(pairs[0]))  # the halves are mixed
        hits = np.zeros((sum(pairs), len(counts), len(counts[0])), dtype=bool)
        for layer, head in np.ndindex(hits.shape[1:]):
            for half, count in zip((chooses, ~chooses), counts[layer][head], strict=True):
                hits[np.roll(half.nonzero()[0], layer + head)[:count], layer, head] = True
        return fixed(hits), fixed(chooses)

    def answer(layer, head, share):
        return {LAYER_HEAD: torch.tensor([layer, head]), "share": round(float(share), 3)}

    def right(hits, chooses):
        return answer(*answers[len(chooses)])

    first, second, both = (lambda c: c), (lambda c: ~c), (lambda c: c | True)

    def like(choosing, scoring, find=np.argmax, share=np.mean):
        def compute(hits, chooses):
            layer, head = divmod(int(find(hits[choosing(chooses)].sum(axis=0))), hits.shape[2])
            return answer(layer, head, share(hits[scoring(chooses), layer, head]))

        return compute

    def shares(hits):
        return hits.mean(axis=0)

    def divided_by_layers(hits, chooses):
        layer, head, _ = answers[len(chooses)]
        return {LAYER_HEAD: torch.tensor(divmod(layer * hits.shape[2] + head, hits.shape[1]))}

    mistakes = {
        "same_half": [like(first, first), like(second, second)],
        "halves_exchanged": [like(second, first)],
        "all_choose": [like(both, second), like(both, first), like(both, both)],
        "scored_on_all": [like(first, both)],
        "counts_instead_of_share": [
            like(first, second, share=np.sum),
            lambda hits, chooses: like(first, second, share=lambda found: found.sum() / len(hits))(
                hits, chooses
            ),
        ],
        "share_of_other_heads": [
            lambda hits, chooses: right(hits, chooses) | {"share": shares(hits[~chooses]).max().round(3)},
            lambda hits, chooses: right(hits, chooses) | {"share": shares(hits[~chooses]).mean().round(3)},
        ],
        "weakest_instead": [like(first, second, find=np.argmin)],
        "counted_from_one": [lambda *inputs: {LAYER_HEAD: right(*inputs)[LAYER_HEAD] + 1}],
        "layer_and_head_swapped": [lambda *inputs: {LAYER_HEAD: right(*inputs)[LAYER_HEAD].flip(0)}],
        "divided_by_layers": [divided_by_layers],
    }

    def read(raw):
        if isinstance(raw, tuple | list) and len(raw) == 2 and isinstance(raw[0], tuple | list):
            raw = [*raw[0], raw[1]]
        try:
            numbers = read_tensor(raw, lists=True).flatten()
        except Unreadable:
            numbers = ()
        if len(numbers) != 3:
            held = f"Your result is {kind_of(raw)}."
            said = f"{held} Three numbers are expected: the layer, the head, and a share."
            raise Unreadable(said, "nothing_returned" if raw is None else "other_number_of_parts")
        return {LAYER_HEAD: numbers[:2], "share": round(numbers[2].item(), 3)}

    return judge("held_out_best", attempt, [trial(*half) for half in HALVES], right, mistakes, read)


# ---------------------------------------------------------------------------------- an interval of a difference

# Two kinds of sentences, four of each: (pairs, right guesses of the head, of the rule) in one of the kind. So a draw of
# eight sentences is told by one number: how many are of the first kind. It is 0 in 0.4 % of all draws and 1 or less in
# 3.5 %; 8 and 7 are as rare. So the ends of a 95 % interval are those of 1 and of 7, whatever the random numbers were.
KINDS = {24: [(2, 2, 1), (4, 1, 0)], 16: [(1, 1, 0), (3, 0, 3)]}
DRAWS = 10_000


@safely
def check_paired_interval(attempt):
    """Check `attempt(head_hits, rule_hits, sentence, draws)`: the 95 % interval of head minus rule, (low, high).

    The first three are arrays of numpy, (pairs,): bool, bool, and the place of the pair's sentence.
    """

    def trial(kinds):
        places = [(kinds[place % 2], 3 * (place * 5 % 8) + 2) for place in range(8)]
        found = [(pair < h, pair < r, place) for (n, h, r), place in places for pair in range(n)]
        found = [found[place * 7 % len(found)] for place in range(len(found))]  # the sentences are mixed
        return (*(fixed(np.array(column)) for column in zip(*found, strict=True)), DRAWS)

    def drawn(hits, first):
        """Return the pairs, and the shares of head and rule, in draws with so many sentences of the first kind."""
        pairs, head, rule = (first * a + (8 - first) * b for a, b in zip(*KINDS[len(hits)], strict=True))
        return pairs, head / pairs, rule / pairs

    def interval(low, high):
        return {"interval": torch.tensor([float(low), float(high)], dtype=torch.float64)}

    def ends(statistic, firsts=(1, 7)):
        """Return an answer whose ends are a statistic of (share of the head, share of the rule, rule's hits)."""

        def compute(head_hits, rule_hits, *_):
            return interval(*sorted(statistic(*drawn(head_hits, k)[1:], rule_hits.mean()) for k in firsts))

        return compute

    def difference(head, rule, _):
        return head - rule

    right = ends(difference)

    def turned(change):
        return lambda *inputs: interval(*change(*right(*inputs)["interval"]))

    def sentence_means(head_hits, *_):
        one, other = ((h - r) / n for n, h, r in KINDS[len(head_hits)])
        return interval(*sorted((k * one + (8 - k) * other) / 8 for k in (1, 7)))

    def two_intervals(*inputs):
        (low, high), (least, most) = (
            ends(of)(*inputs)["interval"] for of in (lambda h, r, _: h, lambda h, r, _: r)
        )
        return interval(low - most, high - least)

    def low_from_low(*inputs):
        head, rule = (ends(of)(*inputs)["interval"] for of in (lambda h, r, _: h, lambda h, r, _: r))
        return interval(*(head - rule))

    mistakes = {
        "rule_taken_as_fixed": [ends(lambda head, rule, whole: head - whole)],
        "rule_left_out": [ends(lambda head, rule, whole: head), ends(lambda head, rule, whole: rule)],
        "rule_minus_head": [turned(lambda low, high: (-high, -low)), turned(lambda low, high: (-low, -high))],
        "high_before_low": [turned(lambda low, high: (high, low))],
        "sentences_weigh_the_same": [sentence_means],
        "without_replacement": [lambda head, rule, *_: interval(*[head.mean() - rule.mean()] * 2)],
        "drawn_apart": [two_intervals, low_from_low],
        "other_share_cut_off": [ends(difference, firsts) for firsts in [(0, 8), (2, 6), (3, 5)]],
    }

    def with_deviation(head_hits, rule_hits, *_):
        """The mean of all draws, plus and minus two standard deviations."""
        first = np.random.default_rng(0).binomial(8, 0.5, size=2000)
        differences = difference(*drawn(head_hits, first)[1:], None)
        return torch.tensor([differences.mean() + sign * 2 * differences.std() for sign in (-1, 1)])

    def near(statistic, tolerance=0.05):
        """Return whether an answer lies near the ends that a random statistic has; these differ from draw to draw."""

        def shows(inputs, answer):
            expected = np.quantile(statistic(np.random.default_rng(0), *inputs[:3]), [0.025, 0.975])
            return bool((answer["interval"] - torch.from_numpy(expected)).abs().max() < tolerance)

        return shows

    def of_pairs(random, head_hits, rule_hits, _):
        ahead = head_hits.astype(float) - rule_hits
        return ahead[random.integers(len(ahead), size=(2000, len(ahead)))].mean(axis=1)

    def apart(random, head_hits, rule_hits, _):
        once, again = random.binomial(8, 0.5, size=(2, 2000))
        return drawn(head_hits, once)[1] - drawn(head_hits, again)[2]

    def with_gaps(random, head_hits, rule_hits, sentence):
        ahead, pairs = np.bincount(sentence, head_hits.astype(float) - rule_hits), np.bincount(sentence)
        places = random.integers(len(pairs), size=(DRAWS, len(pairs)))
        return ahead[places].sum(axis=1) / pairs[places].sum(axis=1).clip(1)

    def read(raw):
        numbers = read_tensor(raw, "interval", lists=True).flatten()
        if len(numbers) != 2:
            said = f"Two numbers are expected, low and high. You returned {len(numbers)}."
            raise Unreadable(said, "other_number_of_parts")
        return {"interval": numbers}

    signs = {
        "draws_pairs": near(of_pairs),
        "drawn_apart": near(apart),
        "gaps_are_drawn": near(with_gaps, 0.008),
        "ends_by_deviation": lambda inputs, answer: bool(
            (answer["interval"] - with_deviation(*inputs)).abs().max() < 0.008
        ),
    }
    trials = [trial(kinds) for kinds in KINDS.values()]
    return judge("paired_interval", attempt, trials, right, mistakes, read, signs)
