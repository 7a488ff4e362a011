"""The checks of notebook 07: patterns measured, and the head that shows one best."""

import torch

from .answers import LAYER_HEAD, alone, whole_numbers
from .heads import WRONG_SHAPES, place, planted, search, share, shares_of_keys, wrong_shares, wrong_tables
from .judge import judge, safely


@safely
def check_separator_share(attempt):
    """Check `attempt(attentions, tokens)`: for each head the share of its weight that goes to all [SEP] tokens.

    `attentions` is a tuple of (1, heads, query, key); the result is (layers, heads).
    """
    trials = [
        (planted(2, 3, 7, {}), ["[CLS]", "leaves", "fall", "[SEP]", "autumn", ".", "[SEP]"]),
        (planted(3, 2, 7, {}, start=3), ["[CLS]", "[MASK]", "[SEP]", "sep", "[SEP]", "[MASK]", "[SEP]"]),
        (planted(2, 3, 4, {(0, 1): {(1, 3): 0.9}}, start=1), ["[CLS]", "sep", "##s", "[SEP]"]),
    ]

    def at(attentions, tokens):
        return [place for place, token in enumerate(tokens) if token == "[SEP]"]

    def right(attentions, tokens):
        others = [place for place in range(len(tokens)) if place not in at(attentions, tokens)]
        return share(1 - shares_of_keys(attentions, others))  # each row sums to 1

    def of_keys(counts):
        return lambda a, tokens: share(
            shares_of_keys(a, [i for i, token in enumerate(tokens) if counts(token)])
        )

    def words_only(attentions, tokens):
        words = [place for place, token in enumerate(tokens) if token not in ("[CLS]", "[SEP]")]
        return share(shares_of_keys([weights[:, :, words] for weights in attentions], at(attentions, tokens)))

    mistakes = wrong_shares(right, at)
    mistakes["queries_left_out"] += [words_only]
    mistakes |= {
        "one_separator_only": [
            lambda a, tokens: share(shares_of_keys(a, at(a, tokens)[:1])),
            lambda a, tokens: share(shares_of_keys(a, at(a, tokens)[-1:])),
            lambda a, tokens: share(shares_of_keys(a, at(a, tokens)[:2])),
            lambda a, tokens: share(shares_of_keys(a, [at(a, tokens)[0], -1])),
            lambda a, tokens: share(shares_of_keys(a, sorted({at(a, tokens)[0], len(tokens) - 1}))),
        ],
        "other_tokens_counted": [
            of_keys(lambda token: token in ("[CLS]", "[SEP]")),
            of_keys(lambda token: token.startswith("[")),
            of_keys(lambda token: token == "[CLS]"),
            of_keys(lambda token: token in ("[SEP]", ".")),
            of_keys(lambda token: token in ("[CLS]", "[SEP]", ".")),
            of_keys(lambda token: "sep" in token.lower()),
            of_keys(lambda token: "SEP" in token or token == "sep"),
            of_keys(lambda token: not token.isalpha()),
        ],
        "truth_used_as_place": [
            lambda a, tokens: share(shares_of_keys(a, [int(token == "[SEP]") for token in tokens])),
            lambda a, tokens: share(shares_of_keys(a, [0, 1])),
        ],
        "neighbour_of_separator": [
            lambda a, tokens, by=by: share(
                shares_of_keys(a, [i + by for i in at(a, tokens) if i + by < len(tokens)])
            )
            for by in (-1, 1)
        ],
    }
    return judge("separator_share", attempt, trials, right, mistakes, alone("share"), WRONG_SHAPES)


@safely
def check_same_word_share(attempt):
    """Check `attempt(attentions, tokens)`: for each head the share that goes to other places of the same word.

    It is a mean over those queries whose word stands in the text more than once. No special tokens are among them.
    `attentions` is a tuple of (1, heads, query, key); the result is (layers, heads).
    """
    trials = [
        (planted(2, 3, 7, {}), ["in", "autumn", "leaves", "fall", "autumn", "in", "autumn"]),
        (planted(3, 2, 6, {}, start=5), ["a", "leaf", "falls", "a", "fall", "leaf"]),
    ]

    def found(attentions, tokens, choose, every, measure):
        """Return for each query its word, its number of keys, and a measure of its weights there, (layers, heads)."""
        for query, word in enumerate(tokens):
            same = [key for key, other in enumerate(tokens) if other == word]
            if every or len(same) > 1:
                keys = choose(query, same)
                yield word, len(keys), measure(torch.cat(attentions)[:, :, query], keys)

    def others(query, same):
        return [key for key in same if key != query]

    def over_queries(rows):
        return torch.stack([row for _, _, row in rows]).mean(dim=0)

    def largest(weights, keys):
        return weights[..., keys].amax(dim=-1)

    def summed(weights, keys):
        return weights[..., keys].sum(dim=-1)

    def computed(reduce=over_queries, choose=others, every=False, measure=summed):
        return lambda a, tokens: share(reduce(list(found(a, tokens, choose, every, measure))))

    def over_keys(rows):
        return torch.stack([row / max(count, 1) for _, count, row in rows]).mean(dim=0)

    def over_pairs(rows):
        return sum(row for _, _, row in rows) / sum(count for _, count, _ in rows)

    def over_words(rows):
        words = sorted({word for word, _, _ in rows})
        return torch.stack([over_queries([row for row in rows if row[0] == word]) for word in words]).mean(
            dim=0
        )

    def with_keys(rows):
        return over_queries([row for row in rows if row[1]])

    def one_side(sign):
        return lambda query, same: [key for key in same if sign * key > sign * query]

    def of_what_leaves(attentions, tokens):
        """Divide each weight by what a query gives to others than itself."""
        rest = [1 - w.diagonal(dim1=-2, dim2=-1)[..., None] for w in attentions]
        return right([w / away for w, away in zip(attentions, rest, strict=True)], tokens)

    right = computed()
    mistakes = wrong_tables(right) | {
        "includes_itself": [
            computed(choose=lambda query, same: same, every=every) for every in (False, True)
        ],
        "all_queries_counted": [computed(every=True)],
        "mean_over_keys": [
            computed(over_keys),
            computed(over_pairs),
            computed(over_keys, every=True),
            lambda a, tokens: share(right(a, tokens)["share"] / len(tokens)),
            lambda a, tokens: share(computed(every=True)(a, tokens)["share"] / len(tokens)),
        ],
        "mean_over_words": [computed(over_words)],
        "other_than_mean": [
            computed(lambda rows, reduce=reduce: reduce(torch.stack([row for _, _, row in rows])))
            for reduce in (
                lambda rows: rows.amax(0),
                lambda rows: rows.amin(0),
                lambda rows: rows.median(0).values,
                lambda rows: rows.sum(0) / (len(rows) - 1),
            )
        ]
        + [computed(lambda rows: torch.stack([row for _, _, row in rows]).amax(0), measure=largest)],
        "queries_left_out": [
            *(
                computed(lambda rows, cut=cut: over_queries(rows[cut]))
                for cut in (slice(1, None), slice(-1), slice(1), slice(-1, None))
            ),
            lambda a, tokens: computed()(a, [t if t == tokens[0] else i for i, t in enumerate(tokens)]),
        ],
        "neighbours_counted": [
            lambda a, tokens, by=by: share(torch.cat(a).diagonal(by, dim1=-2, dim2=-1).mean(-1))
            for by in (-1, 1)
        ],
        "query_axis_kept": [
            computed(lambda rows: torch.stack([row for _, _, row in rows], dim=-1), every=every)
            for every in (False, True)
        ],
        "sum_over_queries": [computed(lambda rows: sum(row for _, _, row in rows))],
        "hits_counted": [
            computed(measure=lambda w, keys: torch.isin(w.argmax(-1), torch.tensor(keys)).double()),
            computed(measure=lambda w, keys: summed((w == w.amax(-1, keepdim=True)).double(), keys)),
        ],
        "largest_instead_of_sum": [computed(measure=largest)],
        "one_other_place_only": [
            computed(choose=lambda query, same: others(query, same)[:1]),
            computed(choose=lambda query, same: others(query, same)[-1:]),
            computed(choose=lambda query, same: others(query, same[:1])),
            computed(choose=lambda query, same: others(query, same[-1:])),
        ],
        "ratio_to_the_rest": [
            of_what_leaves,
            lambda a, tokens: share((found := right(a, tokens)["share"]) / (1 - found)),
        ],
        "one_side_only": [
            *(computed(reduce, one_side(sign)) for sign in (1, -1) for reduce in (over_queries, with_keys)),
            *(computed(choose=one_side(sign), every=True) for sign in (1, -1)),
        ],
    }
    return judge("same_word_share", attempt, trials, right, mistakes, alone("share"), WRONG_SHAPES)


@safely
def check_best_head(attempt):
    """Check `attempt(scores)`: from one number a head, (layers, heads), the (layer, head) of the largest."""
    cases = [
        (
            [[20, 10, 4, 40, 50], [80, 25, 60, 75, 55], [15, 90, 12, 30, 5], [45, 35, 8, 38, 18]],
            (2, 1),
        ),
        ([[7, 21, -5], [11, -40, -98], [-13, 29, 3], [31, 6, -27], [33, -60, 24]], (4, 0)),
        ([[-35, -9, -27, -39], [-30, -41, -8, -4], [-44, -28, -52, -33]], (1, 3)),
        ([[1, 2, 6, 9], [4, 5, 3, 0], [2, 1, 1, 6], [2, 3, 4, 1], [1, 4, 2, 3]], (0, 3)),
    ]

    def below_zero(answer):
        """Return this answer where no score is above 0, and elsewhere the right one."""
        return lambda scores: {LAYER_HEAD: answer} if scores.max() < 0 else place(scores)

    def call(scores):
        """Run the attempt. A search that starts at 0 may find nothing: that is an answer of no numbers."""
        try:
            found = attempt(scores)
        except UnboundLocalError:
            if scores.max() > 0:
                raise
            found = None
        return [] if found is None and scores.max() < 0 else found

    mistakes = {
        "starts_at_zero": [
            below_zero(torch.zeros(2)),
            below_zero(-torch.ones(2)),
            below_zero(torch.empty(0)),
        ],
        "sign_ignored": [lambda scores: place(scores.abs())],
        "one_for_each_row": [
            lambda scores: {LAYER_HEAD: scores.argmax(dim=1)},
            lambda scores: {LAYER_HEAD: scores.argmax(dim=0)},
        ],
        "first_column_chooses": [
            lambda scores, column=column: {
                LAYER_HEAD: torch.stack([row := scores[:, column].argmax(), scores[row].argmax()])
            }
            for column in (0, -1)
        ],
        "argmax_of_one_axis": [
            lambda scores, place=place: {
                LAYER_HEAD: torch.stack([scores.argmax(dim=0)[place], scores.argmax(dim=1)[place]])
            }
            for place in (0, -1)
        ],
        "counted_down_the_columns": [
            lambda scores: {
                LAYER_HEAD: torch.tensor(divmod(scores.T.flatten().argmax().item(), scores.shape[1]))
            }
        ],
        "score_instead_of_place": [lambda scores: {LAYER_HEAD: scores.max()}],
    }
    tables = [((torch.tensor(rows, dtype=torch.float32),), told) for rows, told in cases]
    found = search(tables, lambda scores: scores, mistakes)
    return judge("best_head", attempt, *found, whole_numbers(LAYER_HEAD), call=call)
