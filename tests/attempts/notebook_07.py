"""Attempts at the exercises of notebook 07."""

import numpy as np
import torch

from .notebook_06 import argmax_2d, not_itself, second_best, wrong_choices, wrong_shapes
from .tables import right, unlisted, wrong


def separator_loops(attentions, tokens):
    return torch.stack(
        [
            sum(weights[0, :, :, k] for k, token in enumerate(tokens) if token == "[SEP]").mean(-1)
            for weights in attentions
        ]
    )


def separator_mask(attentions, tokens):
    here = torch.tensor([token == "[SEP]" for token in tokens])
    return (torch.cat(attentions) * here).sum(-1).mean(-1)


def separator_masked_fill(attentions, tokens):
    elsewhere = torch.tensor([token != "[SEP]" for token in tokens])
    return torch.cat(attentions).masked_fill(elsewhere, 0).mean(dim=-2).sum(dim=-1)


def separator_by_cell(attentions, tokens):
    shares = torch.zeros(len(attentions), attentions[0].shape[1])
    for layer in range(shares.shape[0]):
        for head in range(shares.shape[1]):
            for query in range(len(tokens)):
                for key in range(len(tokens)):
                    if tokens[key] == "[SEP]":
                        shares[layer, head] += attentions[layer][0, head, query, key] / len(tokens)
    return shares


def at(tokens):
    return [place for place, token in enumerate(tokens) if token == "[SEP]"]


def to_separators(attentions, tokens):
    return torch.cat(attentions)[..., at(tokens)]


def share_of(attentions, places):
    return torch.cat(attentions)[..., places].sum(-1).mean(-1)


right(
    "separator_share",
    separator_loops,
    separator_mask,
    separator_masked_fill,
    separator_by_cell,
    lambda a, t: (
        torch.einsum("lhqk,k->lh", torch.cat(a), torch.tensor([float(x == "[SEP]") for x in t])) / len(t)
    ),
    lambda a, t: torch.stack([w[0, :, :, np.array(t) == "[SEP]"].sum(-1).mean(-1) for w in a]),
    lambda a, t: torch.cat(a).index_select(-1, torch.tensor(at(t))).sum((2, 3)) / len(t),
)
wrong_shapes("separator_share", separator_mask)
wrong(
    "separator_share",
    "one_separator_only",
    lambda a, t: torch.cat(a)[..., t.index("[SEP]")].mean(-1),
    lambda a, t: torch.stack([w[0, :, :, t.index("[SEP]")].sum(-1) / len(t) for w in a]),
    lambda a, t: torch.cat(a)[..., -1].mean(-1),
)
wrong(
    "separator_share",
    "other_tokens_counted",
    lambda a, t: share_of(a, [i for i, x in enumerate(t) if x in ("[CLS]", "[SEP]")]),
    lambda a, t: share_of(a, [i for i, x in enumerate(t) if x.startswith("[")]),
    lambda a, t: share_of(a, [i for i, x in enumerate(t) if x in {"[SEP]", "."}]),
    lambda a, t: share_of(a, [0]),
)
wrong(
    "separator_share",
    "queries_for_keys",
    lambda a, t: separator_loops([w.mT for w in a], t),
    lambda a, t: torch.cat(a)[:, :, at(t)].mean((-2, -1)),
    lambda a, t: torch.cat(a)[:, :, at(t)].sum(-1).mean(-1),
)
wrong(
    "separator_share",
    "queries_left_out",
    lambda a, t: to_separators(a, t)[:, :, 1:-1].sum(-1).mean(-1),
    lambda a, t: to_separators(a, t)[:, :, at(t)].sum(-1).mean(-1),
    lambda a, t: to_separators(a, t)[:, :, [i for i, x in enumerate(t) if x != "[SEP]"]].sum(-1).mean(-1),
    lambda a, t: (
        to_separators(a, t)[:, :, [i for i, x in enumerate(t) if x not in ("[CLS]", "[SEP]")]]
        .sum(-1)
        .mean(-1)
    ),
)
wrong(
    "separator_share",
    "mean_over_keys",
    lambda a, t: to_separators(a, t).mean((-2, -1)),
    lambda a, t: separator_mask(a, t) / t.count("[SEP]"),
)
wrong(
    "separator_share",
    "sum_over_queries",
    lambda a, t: to_separators(a, t).sum((-2, -1)),
    lambda a, t: separator_loops(a, t) * len(t),
)
wrong(
    "separator_share",
    "sum_and_mean_exchanged",
    lambda a, t: to_separators(a, t).mean(-1).sum(-1),
    lambda a, t: to_separators(a, t).sum(dim=2).mean(dim=2),
)
wrong(
    "separator_share",
    "mean_over_heads",
    lambda a, t: to_separators(a, t).sum(-1).mean(1),
    lambda a, t: separator_mask(a, t).mean(1),
    lambda a, t: separator_mask(a, t).mean(0),
    lambda a, t: to_separators(a, t).sum(-1).mean(0),
)
wrong("separator_share", "query_axis_kept", lambda a, t: to_separators(a, t).sum(-1))
wrong("separator_share", "largest_instead_of_sum", lambda a, t: to_separators(a, t).amax(-1).mean(-1))
unlisted(
    "separator_share",
    lambda a, t: to_separators(a, t).prod(-1).mean(-1),
)
wrong(
    "separator_share",
    "other_tokens_counted",
    lambda a, t: share_of(a, [i for i, x in enumerate(t) if "sep" in x.lower()]),
)


def same_loops(attentions, tokens):
    rows = []
    for weights in attentions:
        rows.append([])
        for table in weights[0]:
            found = []
            for query, word in enumerate(tokens):
                others = [k for k, other in enumerate(tokens) if other == word and k != query]
                if others:
                    found.append(sum(table[query, k].item() for k in others))
            rows[-1].append(sum(found) / len(found))
    return torch.tensor(rows)


def same_table(tokens, itself=False):
    table = torch.tensor([[one == other for other in tokens] for one in tokens]).float()
    return table if itself else table - torch.eye(len(tokens))


def same_matrix(attentions, tokens):
    table = same_table(tokens)
    return (torch.cat(attentions) * table).sum((-2, -1)) / table.any(-1).sum()


def same_nan(attentions, tokens):
    table = same_table(tokens)
    shares = (torch.cat(attentions) * table).sum(-1)
    return shares.masked_fill(table.sum(-1) == 0, torch.nan).nanmean(dim=-1)


def same_minus_diagonal(attentions, tokens):
    weights, table = torch.cat(attentions), same_table(tokens, itself=True)
    shares = (weights * table).sum(-1) - weights.diagonal(dim1=-2, dim2=-1)
    return shares[..., table.sum(-1) > 1].mean(-1)


def to_others(attentions, tokens):
    """The weights on other places of the same word, elsewhere 0: (layers, heads, query, key)."""
    return torch.cat(attentions) * same_table(tokens)


def repeated(tokens):
    return same_table(tokens).sum(-1) > 0


def mean_by_word(attentions, tokens):
    words = [word for word in dict.fromkeys(tokens) if tokens.count(word) > 1]
    rows = to_others(attentions, tokens).sum(-1)
    return torch.stack([rows[..., [t == word for t in tokens]].mean(-1) for word in words]).mean(0)


def first_other(attentions, tokens):
    rows = []
    for query, word in enumerate(tokens):
        for key, other in enumerate(tokens):
            if other == word and key != query:
                rows.append(torch.cat(attentions)[:, :, query, key])
                break
    return torch.stack(rows).mean(0)


def last_other(attentions, tokens):
    others = [{k: i for i, k in enumerate(tokens) if i != query} for query in range(len(tokens))]
    rows = [
        torch.cat(attentions)[:, :, q, others[q][word]] for q, word in enumerate(tokens) if word in others[q]
    ]
    return sum(rows) / len(rows)


right(
    "same_word_share",
    same_loops,
    same_matrix,
    same_nan,
    same_minus_diagonal,
    lambda a, t: (torch.cat(a) * same_table(t)).sum(-1)[..., same_table(t).sum(-1) > 0].mean(-1),
    lambda a, t: same_loops(a, t).to(torch.float64),
    lambda a, t: to_others(a, t).sum(-2)[..., repeated(t)].mean(-1),  # "the same" holds both ways
    lambda a, t: torch.einsum("lhqk,qk->lh", torch.cat(a), same_table(t)) / sum(t.count(x) > 1 for x in t),
)
wrong_shapes("same_word_share", same_matrix)
wrong(
    "same_word_share",
    "includes_itself",
    lambda a, t: (torch.cat(a) * same_table(t, True)).sum(-1)[..., repeated(t)].mean(-1),
    lambda a, t: (torch.cat(a) * same_table(t, True)).sum(-1).mean(-1),
)
wrong(
    "same_word_share",
    "all_queries_counted",
    lambda a, t: to_others(a, t).sum(-1).mean(-1),
    lambda a, t: torch.einsum("lhqk,qk->lh", torch.cat(a), same_table(t)) / len(t),
)
wrong(
    "same_word_share",
    "mean_over_keys",
    lambda a, t: torch.stack(
        [torch.cat(a)[:, :, q, same_table(t)[q] > 0].mean(-1) for q in range(len(t)) if t.count(t[q]) > 1]
    ).mean(0),
    lambda a, t: (to_others(a, t).sum(-1) / same_table(t).sum(-1)).nanmean(-1),
    lambda a, t: torch.cat(a)[..., same_table(t) > 0].mean(-1),
)
wrong(
    "same_word_share",
    "query_axis_kept",
    lambda a, t: to_others(a, t).sum(-1),
    lambda a, t: to_others(a, t).sum(-1)[..., repeated(t)],
)
wrong("same_word_share", "mean_over_keys", lambda a, t: to_others(a, t).mean((2, 3)))
wrong(
    "same_word_share",
    "mean_over_heads",
    lambda a, t: same_matrix(a, t).mean(0),
    lambda a, t: same_loops(a, t).mean(1),
)
wrong("same_word_share", "mean_over_words", mean_by_word)
wrong(
    "same_word_share",
    "sum_over_queries",
    lambda a, t: to_others(a, t).sum((-2, -1)),
    lambda a, t: torch.cat(a)[..., same_table(t).bool()].sum(-1),
)
wrong("same_word_share", "one_other_place_only", first_other, last_other)
wrong(
    "same_word_share",
    "one_side_only",
    lambda a, t: to_others(a, t).tril().sum(-1)[..., repeated(t)].mean(-1),
    lambda a, t: to_others(a, t).triu().sum((-2, -1)) / repeated(t).sum(),
    lambda a, t: to_others(a, t).tril().sum(-1)[..., [x in t[:i] for i, x in enumerate(t)]].mean(-1),
)
unlisted(
    "same_word_share",
    lambda a, t: same_matrix(a, t) * 2,
    lambda a, t: (
        (torch.cat(a) * torch.tensor([[x in y and i != j for j, y in enumerate(t)] for i, x in enumerate(t)]))
        .sum(-1)[..., repeated(t)]
        .mean(-1)
    ),
)
wrong("same_word_share", "other_than_mean", lambda a, t: to_others(a, t).amax((-2, -1)))


def best_loops(scores):
    best = 0, 0
    for layer in range(len(scores)):
        for head in range(len(scores[layer])):
            if scores[layer, head] > scores[best]:
                best = layer, head
    return best


right(
    "best_head",
    best_loops,
    argmax_2d,
    lambda s: np.unravel_index(s.numpy().argmax(), s.shape),
    lambda s: (s == s.max()).nonzero()[0],
    lambda s: torch.stack(torch.unravel_index(s.argmax(), s.shape)),
    lambda s: [s.amax(dim=1).argmax().item(), s.amax(dim=0).argmax().item()],
    lambda s: max((value, place) for place, value in np.ndenumerate(s.numpy()))[1],
)
wrong_choices("best_head", lambda scores: scores)


def from_zero(scores, found=(0, 0)):
    best = 0
    for layer, row in enumerate(scores):
        for head, score in enumerate(row):
            if score > best:
                best, found = score, (layer, head)
    return found


def from_zero_unbound(scores):
    best = 0
    for layer, row in enumerate(scores):
        for head, score in enumerate(row):
            if score > best:
                best, place = score, [layer, head]
    return place


wrong(
    "best_head",
    "starts_at_zero",
    from_zero,
    lambda s: from_zero(s, None),
    lambda s: from_zero(s, (-1, -1)),
    from_zero_unbound,
)
wrong("best_head", "sign_ignored", lambda s: argmax_2d(s.abs()), lambda s: argmax_2d(s**2))
wrong("best_head", "one_for_each_row", lambda s: s.argmax(dim=1), lambda s: s.argmax(0).tolist())
wrong("best_head", "score_instead_of_place", lambda s: s.max(), lambda s: s.max().item())
unlisted("best_head", lambda s: s.max(dim=1), lambda s: (s == s.max()).nonzero(), lambda s: s == s.max())


# ------------------------------------------------------------------------------------- one more of each mistake


def separator_hits(attentions, tokens):
    return torch.isin(torch.cat(attentions).argmax(-1), torch.tensor(at(tokens))).float().mean(-1)


def separator_ratio(attentions, tokens):
    share = share_of(attentions, at(tokens))
    return share / (1 - share)


for misconception, attempt in {
    "neighbour_of_separator": lambda a, tokens: share_of(a, [place - 1 for place in at(tokens)]),
    "other_than_mean": lambda a, tokens: to_separators(a, tokens).sum(-1).median(-1).values,
    "itself_left_out": lambda a, tokens: share_of([not_itself(a)], at(tokens)),
    "ratio_to_the_rest": separator_ratio,
    "hits_counted": separator_hits,
}.items():
    wrong("separator_share", misconception, attempt)


def same_by(share_of_rows):
    """The rows of a word that comes again, from the weights on its other places, (layers, heads, query, key)."""
    return lambda attentions, tokens: share_of_rows(to_others(attentions, tokens)[:, :, repeated(tokens)])


def same_hits(attentions, tokens):
    weights = torch.cat(attentions)
    return (
        to_others([weights == weights.amax(-1, keepdim=True)], tokens)[:, :, repeated(tokens)]
        .sum(-1)
        .float()
        .mean(-1)
    )


for misconception, attempt in {
    "other_than_mean": same_by(lambda rows: rows.sum(-1).amax(-1)),
    "queries_left_out": same_by(lambda rows: rows.sum(-1)[..., :-1].mean(-1)),
    "neighbours_counted": lambda attentions, tokens: torch.cat(attentions).diagonal(-1, -2, -1).mean(-1),
    "hits_counted": same_hits,
    "largest_instead_of_sum": same_by(lambda rows: rows.amax(-1).mean(-1)),
}.items():
    wrong("same_word_share", misconception, attempt)
for misconception, attempt in {
    "one_number_twice": lambda scores: (argmax_2d(scores)[0],) * 2,
    "second_best": second_best,
    "never_compared": lambda scores: (0, 0),
}.items():
    wrong("best_head", misconception, attempt)
unlisted("best_head", lambda scores: (scores.amax(1).argmax().item(), scores.amax(0).argmin().item()))


def columns_by_truth(attentions, tokens):
    mask = [1 if token == "[SEP]" else 0 for token in tokens]
    return torch.stack([layer[0, :, :, mask].sum(dim=-1).mean(dim=-1) for layer in attentions])


def same_by_first_place(attentions, tokens):
    first = torch.tensor([tokens.index(token) for token in tokens])
    return same_by(lambda rows: rows.sum(-1).mean(-1))(
        [layer * (torch.arange(len(tokens)) == first[:, None]) for layer in attentions], tokens
    )


def same_of_what_leaves(attentions, tokens):
    away = 1 - torch.cat(attentions).diagonal(dim1=-2, dim2=-1)
    return (to_others(attentions, tokens).sum(-1) / away)[..., repeated(tokens)].mean(-1)


def best_of_rows_as_lists(scores):
    rows = scores.tolist()
    layer = rows.index(max(rows))
    return layer, rows[layer].index(max(rows[layer]))


wrong("separator_share", "truth_used_as_place", columns_by_truth)
wrong("same_word_share", "one_other_place_only", same_by_first_place)
wrong("same_word_share", "ratio_to_the_rest", same_of_what_leaves)
wrong("best_head", "first_column_chooses", best_of_rows_as_lists)
wrong("best_head", "argmax_of_one_axis", lambda s: (s.argmax(0)[0].item(), s.argmax(1)[0].item()))
wrong("best_head", "counted_down_the_columns", lambda s: divmod(s.T.flatten().argmax().item(), s.shape[1]))
