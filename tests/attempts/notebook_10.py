"""Attempts at the exercises of notebook 10."""

import math
import random

import numpy as np
import torch

from utils.checks.notebook_10 import DRAWS, PATTERNS, mixed

from .tables import fresh, peer, right, wrong


def unit(weights):
    return torch.eye(weights.shape[-1], dtype=torch.bool)


def off_diagonal(weights):
    return weights.masked_fill(unit(weights), -1)


def guesses_max(word_weights):
    copy = word_weights.clone()
    copy.diagonal(dim1=-2, dim2=-1).fill_(-math.inf)
    return copy.max(dim=2).indices


def guesses_loops(word_weights):
    found = torch.zeros(word_weights.shape[:-1], dtype=torch.long)
    for layer, head, word in np.ndindex(*found.shape):
        others = [other for other in range(found.shape[2]) if other != word]
        found[layer, head, word] = max(others, key=lambda o: word_weights[layer, head, o, word])
    return found


right(
    "guesses",
    *(guesses_max, guesses_loops),
    lambda w: w.transpose(-2, -1).masked_fill(unit(w), -1).argmax(dim=-1),
    lambda w: (w - 9 * torch.eye(w.shape[-1])).argsort(dim=-2, descending=True)[:, :, 0, :],
    lambda w: torch.einsum("lhqk,qk->lhkq", w, 1 - torch.eye(w.shape[-1])).argmax(dim=-1),
)
peer("guesses", lambda w: torch.from_numpy(np.where(unit(w), -np.inf, w.numpy()).argmax(axis=-2)))
made = torch.rand(3, 2, 2, 5, 5, generator=torch.Generator().manual_seed(0))
fresh("guesses", *((shares,) for shares in (made + torch.eye(5)).softmax(-1)))


def itself_cut_out(weights):
    columns = range(weights.shape[-1])
    others = [[row for row in columns if row != column] for column in columns]
    return torch.stack([weights[..., others[column], column].argmax(-1) for column in columns], -1)


wrong(
    "guesses",
    wrong_direction=lambda w: off_diagonal(w).max(dim=3).indices,
    itself_left_in=lambda w: w.mT.max(dim=-1).indices,
    always_itself=lambda w: w.masked_fill(unit(w), 1).argmax(dim=-2),
    wrong_axis=lambda w: off_diagonal(w).max(dim=1).indices,
    second_best=lambda w: w.argsort(dim=-2, descending=True)[:, :, 1],
    words_from_one=lambda w: guesses_max(w) + 1,
    weakest_instead=lambda w: w.mT.min(dim=-1).indices,
    mean_over_heads=lambda w: off_diagonal(w.mean(1)).argmax(-2),
    itself_made_smaller=lambda w: (w - 0.1 * unit(w)).argmax(-2),
    neighbour=lambda w: (torch.arange(w.shape[-1]) - 1).expand(w.shape[:-1]),
    one_side_only=lambda w: (w * torch.ones_like(w).tril(-1)).argmax(-2),
    both_directions=lambda w: off_diagonal((w + w.mT) / 2).argmax(-2),
    most_looked_at=lambda w: (w - w * unit(w)).sum(-2).argmax(-1),
    places_shifted=itself_cut_out,
    other_diagonal=lambda w: w.masked_fill(torch.eye(*w.shape[:2]).bool()[..., None, None], -1).argmax(-2),
    diagonal_of_one_head=lambda w: w.argmax(-2).index_put([torch.tensor(0)] * 2, guesses_max(w)[0, 0]),
    one_diagonal_through_all=lambda w: w.clone().fill_diagonal_(0).argmax(-2),
    changes_its_input=lambda w: (w.diagonal(dim1=-2, dim2=-1).fill_(-1), w.argmax(dim=-2))[1],
)


def best_numpy(hits, chooses):
    shares = hits[chooses].mean(axis=0)
    layer, head = np.unravel_index(shares.argmax(), shares.shape)
    return layer, head, hits[~chooses, layer, head].mean()


def best_loops(hits, chooses):
    best, most = None, -1
    for layer, head in np.ndindex(hits.shape[1:]):
        found = sum(bool(hits[pair, layer, head]) for pair in range(len(hits)) if chooses[pair])
        if found > most:
            best, most = (layer, head), found
    others = [hits[pair, best[0], best[1]] for pair in range(len(hits)) if not chooses[pair]]
    return *best, sum(others) / len(others)


def best_torch(hits, chooses):
    hits, chooses = torch.tensor(hits).double(), torch.tensor(chooses)
    layer, head = divmod(hits[chooses].mean(dim=0).argmax().item(), hits.shape[2])
    return [layer, head, hits[~chooses].mean(dim=0)[layer, head].item()]


def best_flat(hits, chooses):
    flat = hits.reshape(len(hits), -1)
    place = np.argmax(np.average(flat, axis=0, weights=chooses))
    return (place // hits.shape[2], place % hits.shape[2]), np.average(flat[:, place], weights=1 - chooses)


right("held_out_best", best_numpy, best_loops, best_torch, best_flat)
right("held_out_best", lambda *given: [np.array((best := best_numpy(*given))[:2]), best[2]])
BY_HAND = {17: (0, 2, 2 / 8), 16: (2, 0, 3 / 10), 15: (0, 1, 1 / 8), 14: (0, 1, 1 / 7)}  # of so many pairs
peer("held_out_best", lambda hits, chooses: BY_HAND[len(hits)])
rng = np.random.default_rng(6)
fresh("held_out_best", *((rng.random((40, 3, 4)) < 0.6, rng.random(40) < share) for share in (0.4, 0.6)))


def best_and(share_of):
    def attempt(hits, chooses):
        layer, head, _ = best_numpy(hits, chooses)
        return int(layer), int(head), float(share_of(hits[:, layer, head], chooses))

    return attempt


def best_of(choose):
    def attempt(hits, chooses):
        layer, head = map(int, choose(hits, chooses))
        return layer, head, hits[~chooses][:, layer, head].mean()

    return attempt


best_by = lambda choose: best_of(lambda hits, chooses: choose(hits[chooses].mean(0)))  # noqa: E731
best_named = lambda name: lambda h, c: name(*map(float, best_numpy(h, c)), h.shape[2])  # noqa: E731


wrong(
    "held_out_best",
    same_half=best_and(lambda hits, chooses: hits[chooses].mean()),
    halves_exchanged=lambda hits, chooses: best_loops(hits, np.logical_not(chooses)),
    all_choose=best_of(lambda hits, chooses: divmod(hits.sum(0).argmax(), hits.shape[2])),
    scored_on_all=best_and(lambda hits, chooses: hits.mean()),
    counts_instead_of_share=best_and(lambda hits, chooses: hits[~chooses].sum() / len(hits)),
    share_of_other_heads=lambda hits, chooses: (*best_numpy(hits, chooses)[:2], hits[~chooses].mean()),
    part_of_table=best_by(lambda t: divmod(t[:, :-1].argmax(), t.shape[1] - 1)),
    never_compared=best_of(lambda hits, chooses: (0, 0)),
    weakest_instead=best_by(lambda table: divmod((-table).argmax(), table.shape[1])),
    divided_by_layers=lambda h, c: (*divmod(h[c].mean(0).argmax(), h.shape[1]), best_numpy(h, c)[2]),
    flat_index=best_named(lambda layer, head, share, heads: (0, layer * heads + head, share)),
    counted_from_one=best_named(lambda layer, head, share, heads: (layer + 1, head + 1, share)),
    layer_and_head_swapped=best_named(lambda layer, head, share, heads: (head, layer, share)),
    parts_in_another_order=best_named(lambda layer, head, share, heads: (share, layer, head)),
    one_number_twice=best_named(lambda layer, head, share, heads: (layer, layer, share)),
    one_layer_only=best_by(lambda table: (len(table) - 1, table[-1].argmax())),
    layer_and_head_apart=best_by(lambda table: (table.mean(1).argmax(), table.mean(0).argmax())),
    second_best=best_by(lambda table: np.argwhere(table == np.sort(table, axis=None)[-2])[0]),
    share_as_percent=best_and(lambda hits, chooses: 100 * hits[~chooses].mean()),
    share_of_misses=best_and(lambda hits, chooses: (~hits[~chooses]).mean()),
    difference_of_halves=best_and(lambda hits, chooses: hits[~chooses].mean() - hits[chooses].mean()),
    mean_of_halves=best_and(lambda hits, chooses: (hits[~chooses].mean() + hits[chooses].mean()) / 2),
    truth_used_as_place=best_and(lambda hits, chooses: hits[-chooses.astype(int)].mean()),
    minus_before_truth=best_and(lambda hits, chooses: hits[-chooses].mean()),
    halves_by_place=lambda hits, chooses: best_numpy(hits, np.arange(len(hits)) < chooses.sum()),
    mean_of_nothing=best_and(lambda hits, chooses: hits[chooses == 2].sum() / np.float64(0)),
)


def interval_counts(head_hits, rule_hits, pattern, draws):
    _, group = np.unique(pattern, return_inverse=True)
    ahead = np.bincount(group, weights=head_hits.astype(float) - rule_hits)
    pairs = np.bincount(group)
    drawn = np.random.default_rng().integers(len(pairs), size=(draws, len(pairs)))
    return tuple(np.quantile(ahead[drawn].sum(axis=1) / pairs[drawn].sum(axis=1), [0.025, 0.975]))


def interval_loops(head_hits, rule_hits, pattern, draws):
    pairs_of = {}
    for h, r, place in zip(head_hits.tolist(), rule_hits.tolist(), pattern.tolist(), strict=True):
        pairs_of.setdefault(place, []).append(h - r)
    places, found = list(pairs_of), []
    for _ in range(draws):
        drawn = [d for place in random.choices(places, k=len(places)) for d in pairs_of[place]]
        found.append(sum(drawn) / len(drawn))
    found.sort()
    return found[round(0.025 * draws)], found[round(0.975 * draws) - 1]


def interval_torch(head_hits, rule_hits, pattern, draws):
    head, rule = (torch.tensor(hits).double() for hits in (head_hits, rule_hits))
    names, group = torch.tensor(pattern).unique(return_inverse=True)
    table = torch.nn.functional.one_hot(group).double()  # (pairs, patterns)
    times = torch.nn.functional.one_hot(torch.randint(len(names), (draws, len(names)))).sum(dim=1).double()
    weight = times @ table.T  # (draws, pairs): how often each pair was drawn
    difference = weight @ head / weight.sum(dim=1) - weight @ rule / weight.sum(dim=1)
    return difference.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64))


def interval_times(head_hits, rule_hits, pattern, draws):
    places, group = np.unique(pattern, return_inverse=True)
    times = np.random.default_rng(3).multinomial(len(places), [1 / len(places)] * len(places), size=draws)
    weight = times[:, group]
    found = np.sort((weight * head_hits).sum(1) / weight.sum(1) - (weight * rule_hits).sum(1) / weight.sum(1))
    return found[int(0.025 * draws)], found[-int(0.025 * draws) - 1]


def interval_with(statistic=lambda head, rule, pairs: (head - rule) / pairs, cut=(2.5, 97.5), seed=7, axis=1):
    def attempt(head_hits, rule_hits, pattern, draws):
        table = np.array([[hits[pattern == name].sum() for hits in (head_hits, rule_hits, pattern > -1)]
                          for name in np.unique(pattern)])  # fmt: skip
        drawn = np.random.default_rng(seed).choice(len(table), (draws, len(table)))
        return np.percentile(statistic(*table[drawn].sum(axis).T), cut)

    return attempt


def interval_slow(head_hits, rule_hits, pattern, draws):
    names, ends = np.unique(pattern), []
    for _ in range(draws):
        rows = np.hstack([np.flatnonzero(pattern == name) for name in np.random.choice(names, len(names))])
        ends.append(head_hits[rows].mean() - rule_hits[rows].mean())
    return tuple(np.percentile(ends, [2.5, 97.5]))


def exact_interval(head_hits, rule_hits, pattern, draws):
    patterns = [(pattern == name).nonzero()[0] for name in np.unique(pattern)]
    patterns = [(len(rows), int(head_hits[rows].sum()) - int(rule_hits[rows].sum())) for rows in patterns]
    chances = {(0, 0): 1.0}
    for _ in patterns:
        before, chances = chances, {}
        for (pairs, ahead), chance in before.items():
            for more, lead in patterns:
                place = pairs + more, ahead + lead
                chances[place] = chances.get(place, 0) + chance / len(patterns)
    shares, chance = zip(
        *sorted((ahead / pairs, one) for (pairs, ahead), one in chances.items()), strict=True
    )
    ends = np.searchsorted(np.cumsum(chance), [0.025, 0.975] if draws > 1 else [0.5, 0.5])
    return tuple(shares[place] for place in ends)


right("paired_interval", interval_counts, interval_loops, interval_torch, interval_times, interval_slow)
right("paired_interval", interval_with())
peer("paired_interval", exact_interval)
KINDS = [(3, 1, 0)] * 5 + [(2, 2, 0)] * 5
fresh("paired_interval", *(mixed(kinds, DRAWS) for kinds in (KINDS, PATTERNS[0][::-1])))


def drawn_apart(*given):
    each = [lambda head, rule, pairs, of=of: (head, rule)[of] / pairs for of in (0, 1)]
    head, rule = (interval_with(share, np.linspace(0, 100, 999))(*given) for share in each)
    return np.quantile(head - np.random.permutation(rule), [0.025, 0.975])


def of_others(places, how_many):
    def attempt(head_hits, rule_hits, pattern, draws):
        ahead, pairs = np.bincount(pattern, head_hits * 1.0 - rule_hits), np.bincount(pattern)
        drawn = np.random.default_rng(1).choice(places(pattern), (draws, how_many(pattern)))
        return np.quantile(ahead[drawn].sum(1) / pairs[drawn].sum(1).clip(1), [0.025, 0.975])

    return attempt


def of_means(head_hits, rule_hits, pattern, draws):
    names, lead = np.unique(pattern), head_hits * 1 - rule_hits
    return interval_times(np.array([lead[pattern == name].mean() for name in names]), 0, names, draws)


def drawn_once(head_hits, rule_hits, pattern, draws):
    names, found = np.unique(pattern), []
    random.seed(2)
    for _ in range(draws):
        rows = np.isin(pattern, [*{*random.choices(names, k=len(names))}])
        found.append(head_hits[rows].mean() - rule_hits[rows].mean())
    return np.quantile(found, [0.025, 0.975])


def by_deviation(head_hits, rule_hits, pattern, draws):
    shares = interval_with(cut=np.linspace(0, 100, 1001))(head_hits, rule_hits, pattern, draws)
    return shares.mean() - 2 * shares.std(), shares.mean() + 2 * shares.std()


wrong(
    "paired_interval",
    ends_subtracted=lambda h, r, *given: np.subtract(*(interval_counts(x, 0 * x, *given) for x in (h, r))),
    draws_pairs=lambda head, rule, pattern, n: interval_times(head, rule, np.arange(len(pattern)), n),
    sign_lost=lambda head, rule, *given: interval_counts(head ^ rule, head & ~head, *given),
    true_minus_false=lambda head_hits, rule_hits, *_: head_hits - rule_hits,
    rule_taken_as_fixed=lambda h, r, *given: np.subtract(interval_times(h, 0, *given), r.mean()),
    rule_left_out=lambda head, rule, *given: interval_torch(head, rule & False, *given),
    drawn_apart=drawn_apart,
    rule_minus_head=lambda head, rule, *given: interval_counts(rule, head, *given),
    high_before_low=lambda *given: interval_torch(*given).flip(0),
    patterns_weigh_the_same=of_means,
    ends_are_equal=lambda head, rule, pattern, draws: interval_loops(head, rule, pattern, 1),
    other_share_cut_off=interval_with(cut=(2, 98)),
    sum_over_draws=interval_with(axis=0),
    draws_ignored=lambda head, rule, pattern, draws: interval_counts(head, rule, pattern, 1000),
    ends_by_deviation=by_deviation,
    interval_as_percent=lambda *given: tuple(100 * end for end in interval_counts(*given)),
    sums_not_shares=interval_with(lambda head, rule, pairs: head - rule),
    ratio_not_difference=interval_with(lambda head, rule, pairs: head / rule.clip(0.01)),
    one_end_only=lambda h, r, *given: (interval_times(h, r, *given)[0], h.mean() - r.mean()),
    drawn_once_each=drawn_once,
    other_number_drawn=of_others(np.unique, len),
    large_patterns_drawn_more=of_others(lambda pattern: pattern, len),
    gaps_are_drawn=of_others(lambda pattern: pattern.max() + 1, lambda pattern: pattern.max() + 1),
    other_number_of_parts=lambda *given: interval_counts(*given)[0],
)
