"""Attempts at the exercises of notebook 10."""

import math
import random

import numpy as np
import torch

from .tables import right, unlisted, wrong

# ----------------------------------------------------------------------------------------------- guesses


def guesses_transposed(word_weights):
    itself = torch.eye(word_weights.shape[-1], dtype=torch.bool)
    return word_weights.transpose(-2, -1).masked_fill(itself, -1).argmax(dim=-1)


def guesses_max(word_weights):
    copy = word_weights.clone()
    copy.diagonal(dim1=-2, dim2=-1).fill_(-math.inf)
    return copy.max(dim=2).indices


def guesses_loops(word_weights):
    layers, heads, words, _ = word_weights.shape
    found = torch.zeros(layers, heads, words, dtype=torch.long)
    for layer in range(layers):
        for head in range(heads):
            for word in range(words):
                others = [other for other in range(words) if other != word]
                found[layer, head, word] = max(others, key=lambda o: word_weights[layer, head, o, word])
    return found


def guesses_sorted(word_weights):
    order = (word_weights - 9 * torch.eye(word_weights.shape[-1])).argsort(dim=-2, descending=True)
    return order[:, :, 0, :]


def guesses_multiplied(word_weights):
    away = 1 - torch.eye(word_weights.shape[-1])
    return torch.einsum("lhqk,qk->lhkq", word_weights, away).argmax(dim=-1)


right("guesses", guesses_transposed, guesses_max, guesses_loops, guesses_sorted, guesses_multiplied)


def guesses_as_in_the_notebook(word_weights):
    itself = torch.eye(word_weights.shape[-1], dtype=torch.bool)
    return word_weights.masked_fill(itself, -1).argmax(dim=-1)


def guesses_over(axis):
    def attempt(word_weights):
        itself = torch.eye(word_weights.shape[-1], dtype=torch.bool)
        return word_weights.masked_fill(itself, -1).max(dim=axis).indices

    return attempt


def guesses_in_place(word_weights):
    word_weights.diagonal(dim1=-2, dim2=-1).fill_(-1)
    return word_weights.argmax(dim=-2)


wrong("guesses", "wrong_direction", guesses_as_in_the_notebook, guesses_over(3), lambda w: w.argmax(dim=-1))
wrong("guesses", "itself_left_in", lambda w: w.argmax(dim=-2), lambda w: w.mT.max(dim=-1).indices)
wrong("guesses", "wrong_axis", guesses_over(0), guesses_over(1), lambda w: w.argmax(dim=1))
wrong(
    "guesses",
    "second_best",
    lambda w: w.topk(2, dim=-2).indices[:, :, 1],
    lambda w: w.argsort(dim=-2, descending=True)[:, :, 1],
    lambda w: w.mT.topk(2).indices[..., -1],
)
wrong("guesses", "words_from_one", lambda w: guesses_max(w) + 1)
wrong(
    "guesses",
    "always_itself",
    lambda w: w.masked_fill(torch.eye(w.shape[-1], dtype=torch.bool), 1).argmax(dim=-2),
)
wrong("guesses", "weakest_instead", lambda w: w.argmin(dim=-2), lambda w: w.mT.min(dim=-1).indices)
wrong("guesses", "changes_its_input", guesses_in_place)
unlisted(
    "guesses",
    lambda w: guesses_max(w.mean(dim=1, keepdim=True)),
    lambda w: w.masked_fill(torch.eye(w.shape[-1], dtype=torch.bool), -1).amax(dim=-2),
    lambda w: guesses_max(w)[0],
)

# ----------------------------------------------------------------------------------------- a head held out


def best_numpy(hits, chooses):
    shares = hits[chooses].mean(axis=0)
    layer, head = np.unravel_index(shares.argmax(), shares.shape)
    return layer, head, hits[~chooses, layer, head].mean()


def best_divmod(hits, chooses):
    layer, head = divmod(hits[chooses].sum(axis=0).argmax(), hits.shape[-1])
    scored = hits[np.logical_not(chooses)][:, layer, head]
    return int(layer), int(head), scored.sum() / len(scored)


def best_loops(hits, chooses):
    best, most = None, -1
    for layer in range(hits.shape[1]):
        for head in range(hits.shape[2]):
            found = sum(bool(hits[pair, layer, head]) for pair in range(len(hits)) if chooses[pair])
            if found > most:
                best, most = (layer, head), found
    others = [hits[pair, best[0], best[1]] for pair in range(len(hits)) if not chooses[pair]]
    return *best, sum(others) / len(others)


def best_torch(hits, chooses):
    hits, chooses = torch.tensor(hits).double(), torch.tensor(chooses)
    place = hits[chooses].mean(dim=0).argmax().item()
    layer, head = divmod(place, hits.shape[2])
    return [layer, head, hits[~chooses].mean(dim=0)[layer, head].item()]


def best_flat(hits, chooses):
    flat = hits.reshape(len(hits), -1)
    place = np.argmax(np.average(flat, axis=0, weights=chooses))
    return (place // hits.shape[2], place % hits.shape[2]), np.average(flat[:, place], weights=1 - chooses)


right("held_out_best", best_numpy, best_divmod, best_loops, best_torch, best_flat)


def best_with(choosing, scoring, worst=False, share=np.mean, rename=lambda layer, head: (layer, head)):
    def attempt(hits, chooses):
        found = hits[choosing(chooses)].mean(axis=0)
        place = found.argmin() if worst else found.argmax()
        layer, head = np.unravel_index(place, found.shape)
        return *rename(int(layer), int(head)), share(hits[scoring(chooses), layer, head])

    return attempt


def yes(chooses):
    return chooses


def no(chooses):
    return ~chooses


def everything(chooses):
    return slice(None)


def best_of_maximum(hits, chooses):
    shares = hits[chooses].mean(axis=0)
    return *divmod(shares.argmax(), shares.shape[1]), shares.max()


def best_divided(hits, chooses):
    place = hits[chooses].mean(axis=0).argmax()
    layer, head = divmod(place, hits.shape[1])
    return layer, head, hits[~chooses].reshape(sum(~chooses), -1)[:, place].mean()


wrong("held_out_best", "same_half", best_with(yes, yes), best_with(no, no), best_of_maximum)
wrong("held_out_best", "halves_exchanged", best_with(no, yes))
wrong("held_out_best", "all_choose", *(best_with(everything, scored) for scored in (no, yes, everything)))
wrong("held_out_best", "scored_on_all", best_with(yes, everything))
wrong(
    "held_out_best",
    "counts_instead_of_share",
    best_with(yes, no, share=np.sum),
    lambda hits, chooses: (
        *best_numpy(hits, chooses)[:2],
        best_with(yes, no, share=np.sum)(hits, chooses)[2] / len(hits),
    ),
)
wrong(
    "held_out_best",
    "share_of_other_heads",
    lambda hits, chooses: (*best_numpy(hits, chooses)[:2], hits[~chooses].mean(axis=0).max()),
    lambda hits, chooses: (*best_numpy(hits, chooses)[:2], hits[~chooses].mean()),
)
wrong("held_out_best", "weakest_instead", best_with(yes, no, worst=True))
wrong("held_out_best", "divided_by_layers", best_divided)
wrong(
    "held_out_best", "counted_from_one", best_with(yes, no, rename=lambda layer, head: (layer + 1, head + 1))
)
wrong("held_out_best", "layer_and_head_swapped", best_with(yes, no, rename=lambda layer, head: (head, layer)))
unlisted(
    "held_out_best",
    lambda hits, chooses: best_numpy(hits, chooses)[:2],
    lambda hits, chooses: (*best_numpy(hits, chooses)[:2], hits),
)
wrong(
    "held_out_best",
    "share_of_misses",
    lambda hits, chooses: (*best_numpy(hits, chooses)[:2], 1 - best_numpy(hits, chooses)[2]),
)

# --------------------------------------------------------------------------------------- a paired interval


def interval_counts(head_hits, rule_hits, sentence, draws):
    _, group = np.unique(sentence, return_inverse=True)
    ahead = np.bincount(group, weights=head_hits.astype(float) - rule_hits)
    pairs = np.bincount(group)
    drawn = np.random.default_rng().integers(len(pairs), size=(draws, len(pairs)))
    return tuple(np.quantile(ahead[drawn].sum(axis=1) / pairs[drawn].sum(axis=1), [0.025, 0.975]))


def interval_loops(head_hits, rule_hits, sentence, draws):
    pairs_of = {}
    for h, r, place in zip(head_hits.tolist(), rule_hits.tolist(), sentence.tolist(), strict=True):
        pairs_of.setdefault(place, []).append(h - r)
    places, found = list(pairs_of), []
    for _ in range(draws):
        drawn = [d for place in random.choices(places, k=len(places)) for d in pairs_of[place]]
        found.append(sum(drawn) / len(drawn))
    found.sort()
    return found[round(0.025 * draws)], found[round(0.975 * draws) - 1]


def interval_torch(head_hits, rule_hits, sentence, draws):
    head, rule = (torch.tensor(hits).double() for hits in (head_hits, rule_hits))
    names, group = torch.tensor(sentence).unique(return_inverse=True)
    table = torch.nn.functional.one_hot(group).double()  # (pairs, sentences)
    times = torch.nn.functional.one_hot(torch.randint(len(names), (draws, len(names)))).sum(dim=1).double()
    weight = times @ table.T  # (draws, pairs): how often each pair was drawn
    difference = weight @ head / weight.sum(dim=1) - weight @ rule / weight.sum(dim=1)
    return difference.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64))


def interval_percentile(head_hits, rule_hits, sentence, draws):
    rows = [(head_hits[sentence == place].sum(), rule_hits[sentence == place].sum(), (sentence == place).sum())
            for place in np.unique(sentence)]  # fmt: skip
    rows = np.array(rows)
    drawn = rows[np.random.choice(len(rows), size=(draws, len(rows)))].sum(axis=1)
    return np.percentile((drawn[:, 0] - drawn[:, 1]) / drawn[:, 2], (2.5, 97.5)).tolist()


def interval_times(head_hits, rule_hits, sentence, draws):
    """How often each sentence is drawn is multinomial."""
    places, group = np.unique(sentence, return_inverse=True)
    times = np.random.default_rng(3).multinomial(len(places), [1 / len(places)] * len(places), size=draws)
    weight = times[:, group]
    found = np.sort((weight * head_hits).sum(1) / weight.sum(1) - (weight * rule_hits).sum(1) / weight.sum(1))
    cut = int(0.025 * draws)
    return found[cut], found[-cut - 1]


right("paired_interval", interval_counts, interval_loops, interval_torch, interval_percentile, interval_times)


def interval_with(statistic, cut=(0.025, 0.975), replace=True, apart=False):
    """From a statistic of (shares of the head in each draw, of the rule, all hits of the rule)."""

    def attempt(head_hits, rule_hits, sentence, draws):
        places, group = np.unique(sentence, return_inverse=True)
        rng, shares = np.random.default_rng(), []
        for hits in (head_hits, rule_hits):
            if replace and (apart or not shares):
                drawn = rng.integers(len(places), size=(draws, len(places)))
            elif not replace:
                drawn = np.tile(np.arange(len(places)), (draws, 1))
            right, pairs = np.bincount(group, weights=hits), np.bincount(group)
            shares.append(right[drawn].sum(axis=1) / pairs[drawn].sum(axis=1))
        return np.quantile(statistic(*shares, rule_hits), cut)

    return attempt


def paired(head, rule, hits):
    return head - rule


def interval_of_pairs(head_hits, rule_hits, sentence, draws):
    ahead = head_hits * 1.0 - rule_hits * 1.0
    return np.quantile(
        ahead[np.random.randint(len(ahead), size=(draws, len(ahead)))].mean(axis=1), [0.025, 0.975]
    )


def interval_of_pairs_loops(head_hits, rule_hits, sentence, draws):
    ahead = [int(h) - int(r) for h, r in zip(head_hits, rule_hits, strict=True)]
    found = sorted(sum(random.choices(ahead, k=len(ahead))) / len(ahead) for _ in range(draws))
    return found[draws // 40], found[-draws // 40]


def interval_of_means(head_hits, rule_hits, sentence, draws):
    means = [
        head_hits[sentence == place].mean() - rule_hits[sentence == place].mean()
        for place in np.unique(sentence)
    ]
    found = np.random.default_rng().choice(means, size=(draws, len(means))).mean(axis=1)
    return np.quantile(found, [0.025, 0.975])


def interval_of_two(head_hits, rule_hits, sentence, draws):
    head = interval_with(lambda h, r, hits: h)(head_hits, rule_hits, sentence, draws)
    rule = interval_with(lambda h, r, hits: r)(head_hits, rule_hits, sentence, draws)
    return head[0] - rule[1], head[1] - rule[0]


wrong("paired_interval", "draws_pairs", interval_of_pairs, interval_of_pairs_loops)
wrong(
    "paired_interval",
    "sign_lost",
    lambda head_hits, rule_hits, sentence, draws: interval_with(lambda h, r, hits: h)(
        head_hits ^ rule_hits, rule_hits, sentence, draws
    ),
)
wrong("paired_interval", "true_minus_false", lambda head_hits, rule_hits, *_: head_hits - rule_hits)
wrong(
    "paired_interval",
    "rule_taken_as_fixed",
    interval_with(lambda head, rule, hits: head - hits.mean()),
    lambda head, rule, *rest: interval_with(lambda h, r, hits: h)(head, rule, *rest) - np.average(rule),
)
wrong(
    "paired_interval",
    "rule_left_out",
    interval_with(lambda head, rule, hits: head),
    interval_with(lambda head, rule, hits: rule),
)
wrong("paired_interval", "drawn_apart", interval_with(paired, apart=True), interval_of_two)
wrong(
    "paired_interval",
    "rule_minus_head",
    interval_with(lambda head, rule, hits: rule - head),
    lambda head, rule, *rest: interval_counts(rule, head, *rest),
)
wrong("paired_interval", "high_before_low", interval_with(paired, cut=(0.975, 0.025)))
wrong("paired_interval", "sentences_weigh_the_same", interval_of_means)
wrong(
    "paired_interval",
    "ends_are_equal",
    interval_with(paired, replace=False),
    lambda head, rule, *_: (head.mean() - rule.mean(),) * 2,
)
wrong(
    "paired_interval",
    "other_share_cut_off",
    interval_with(paired, cut=(0.05, 0.95)),
    interval_with(paired, cut=(0, 1)),
    interval_with(paired, cut=(0.16, 0.84)),
    interval_with(paired, cut=(0.02, 0.98)),
    interval_with(paired, cut=(0.03, 0.97)),
)


def interval_low_from_low(head_hits, rule_hits, sentence, draws):
    head = interval_with(lambda h, r, hits: h)(head_hits, rule_hits, sentence, draws)
    return head - interval_with(lambda h, r, hits: r)(head_hits, rule_hits, sentence, draws)


def interval_by_deviation(head_hits, rule_hits, sentence, draws):
    _, group = np.unique(sentence, return_inverse=True)
    ahead, pairs = np.bincount(group, weights=head_hits * 1.0 - rule_hits), np.bincount(group)
    drawn = np.random.default_rng().integers(len(pairs), size=(draws, len(pairs)))
    found = ahead[drawn].sum(axis=1) / pairs[drawn].sum(axis=1)
    return found.mean() - 1.96 * found.std(), found.mean() + 1.96 * found.std()


wrong("paired_interval", "drawn_apart", interval_low_from_low)
wrong("paired_interval", "ends_by_deviation", interval_by_deviation)


def interval_with_gaps(head_hits, rule_hits, sentence, draws):
    """Places that hold no pair are drawn too."""
    ahead, pairs = np.bincount(sentence, weights=head_hits * 1.0 - rule_hits), np.bincount(sentence)
    drawn = np.random.default_rng(0).integers(len(pairs), size=(draws, len(pairs)))
    return np.quantile(ahead[drawn].sum(axis=1) / pairs[drawn].sum(axis=1).clip(1), [0.025, 0.975])


wrong("paired_interval", "gaps_are_drawn", interval_with_gaps)
unlisted(
    "paired_interval",
    lambda *inputs: interval_counts(*inputs)[0],
    lambda head, rule, *_: (head.mean(), rule.mean()),
    lambda head, rule, sentence, draws: (-1.96 * (head * 1.0 - rule).std(), 1.96 * (head * 1.0 - rule).std()),
)


# ------------------------------------------------------------------------------------- one more of each mistake


def unit(weights):
    return torch.eye(weights.shape[-1], dtype=torch.bool)


def off_diagonal(weights):
    return weights.masked_fill(unit(weights), -1)


def itself_cut_out(weights):
    """The place in a column that lacks one entry."""
    columns = range(weights.shape[-1])
    others = [[row for row in columns if row != column] for column in columns]
    return torch.stack([weights[..., others[column], column].argmax(-1) for column in columns], -1)


for misconception, attempt in {
    "mean_over_heads": lambda weights: off_diagonal(weights.mean(1)).argmax(-2),
    "itself_made_smaller": lambda weights: (weights - 0.1 * unit(weights)).argmax(-2),
    "neighbour": lambda weights: (torch.arange(weights.shape[-1]) - 1).expand(weights.shape[:-1]),
    "one_side_only": lambda weights: weights.tril(-1).argmax(-2),
    "both_directions": lambda weights: off_diagonal(weights + weights.mT).argmax(-2),
    "most_looked_at": lambda weights: off_diagonal(weights).sum(-2).argmax(-1),
    "places_shifted": itself_cut_out,
    "other_diagonal": lambda weights: weights.masked_fill(
        torch.eye(*weights.shape[:2]).bool()[..., None, None], -1
    ).argmax(-2),
}.items():
    wrong("guesses", misconception, attempt)


def best_and(share_of):
    """The right head, with `share_of(hits of this head, chooses)`."""

    def attempt(hits, chooses):
        layer, head, _ = best_numpy(hits, chooses)
        return int(layer), int(head), float(share_of(hits[:, layer, head], chooses))

    return attempt


def best_by(choose):
    """Another head, from its table of shares."""

    def attempt(hits, chooses):
        layer, head = map(int, choose(hits[chooses].mean(0)))
        return layer, head, hits[~chooses][:, layer, head].mean()

    return attempt


for misconception, attempt in {
    "share_as_percent": best_and(lambda hits, chooses: 100 * hits[~chooses].mean()),
    "parts_in_another_order": lambda *given: (best_numpy(*given)[2], *best_numpy(*given)[:2]),
    "one_layer_only": best_by(lambda table: (len(table) - 1, table[-1].argmax())),
    "one_number_twice": lambda *given: (best_numpy(*given)[0], best_numpy(*given)[0], best_numpy(*given)[2]),
    "truth_used_as_place": best_and(lambda hits, chooses: hits[1 - chooses.astype(int)].mean()),
    "halves_by_place": lambda hits, chooses: best_numpy(hits, np.arange(len(hits)) < chooses.sum()),
    "difference_of_halves": best_and(lambda hits, chooses: hits[~chooses].mean() - hits[chooses].mean()),
    "share_of_misses": best_and(lambda hits, chooses: 1 - hits[~chooses].mean()),
    "layer_and_head_apart": best_by(lambda table: (table.mean(1).argmax(), table.mean(0).argmax())),
    "mean_of_halves": best_and(lambda hits, chooses: (hits[~chooses].mean() + hits[chooses].mean()) / 2),
    "second_best": best_by(lambda table: divmod(table.ravel().argsort()[-2], table.shape[1])),
}.items():
    wrong("held_out_best", misconception, attempt)


def sentences_drawn_once(head_hits, rule_hits, sentence, draws):
    """A sentence that is drawn twice counts once."""
    places, found = np.unique(sentence), []
    for _ in range(draws):
        rows = np.isin(sentence, np.random.choice(places, len(places)))
        found.append(head_hits[rows].mean() - rule_hits[rows].mean())
    return tuple(np.quantile(found, [0.025, 0.975]))


def interval_of_sums(head_hits, rule_hits, sentence, draws):
    """The differences are not divided by the pairs."""
    _, group = np.unique(sentence, return_inverse=True)
    ahead = np.bincount(group, weights=head_hits.astype(float) - rule_hits)
    drawn = np.random.default_rng(0).integers(len(ahead), size=(draws, len(ahead)))
    return tuple(np.quantile(ahead[drawn].sum(axis=1), [0.025, 0.975]))


for misconception, attempt in {
    "interval_as_percent": lambda *given: tuple(100 * end for end in interval_counts(*given)),
    "ends_are_equal": lambda head, rule, sentence, draws: interval_percentile(head, rule, sentence, 1),
    "sums_not_shares": interval_of_sums,
    "ratio_not_difference": interval_with(lambda head, rule, hits: head / rule.clip(0.01)),
    "one_end_only": lambda head, rule, *given: (
        interval_counts(head, rule, *given)[0],
        head.mean() - rule.mean(),
    ),
    "drawn_once_each": sentences_drawn_once,
}.items():
    wrong("paired_interval", misconception, attempt)


def guesses_of_first_head(word_weights):
    others = word_weights.clone()
    others[0, 0].fill_diagonal_(-1.0)
    return others.argmax(dim=-2)


wrong("guesses", "diagonal_of_one_head", guesses_of_first_head)


def interval_of(how_many, places):
    """Draw other places than the sentences that hold pairs, or another number of them."""

    def attempt(head_hits, rule_hits, sentence, draws):
        random, there = np.random.default_rng(1), np.unique(sentence)
        ahead = np.bincount(sentence, head_hits.astype(float) - rule_hits, minlength=99)
        pairs = np.bincount(sentence, minlength=99)
        drawn = places(there)[random.integers(len(there), size=(draws, how_many(there, sentence)))]
        found = pairs[drawn].sum(axis=1)
        return np.quantile((ahead[drawn].sum(axis=1)[found > 0] / found[found > 0]), [0.025, 0.975])

    return attempt


wrong(
    "paired_interval",
    "other_number_drawn",
    interval_of(lambda there, s: len(s), lambda there: there),
    interval_of(lambda there, s: len(there) - 1, lambda there: there),
)
wrong(
    "paired_interval",
    "gaps_are_drawn",
    interval_of(lambda there, s: len(there), lambda there: np.arange(len(there))),
)


def interval_by_pairs(head_hits, rule_hits, sentence, draws):
    random, ahead = np.random.default_rng(2), head_hits.astype(float) - rule_hits
    sizes = (draws, len(np.unique(sentence)))
    drawn = random.choice(sentence, size=sizes)
    found = np.bincount(sentence, ahead)[drawn].sum(axis=1) / np.bincount(sentence)[drawn].sum(axis=1)
    return np.quantile(found, [0.025, 0.975])


wrong("paired_interval", "long_sentences_drawn_more", interval_by_pairs)
