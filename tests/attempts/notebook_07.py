"""Attempts at the exercises of notebook 07."""

import numpy as np
import torch

from utils.checks.shared import made_attentions

from .notebook_06 import argmax_2d
from .tables import fresh, peer, right, wrong

# ------------------------------------------------------------------------------------------------- shares

SPECIAL = {"[CLS]", "[SEP]"}


def separator_loops(attentions, tokens):
    rows = [i for i, token in enumerate(tokens) if token not in SPECIAL]
    return torch.stack(
        [
            sum(weights[0, :, rows, k] for k, token in enumerate(tokens) if token == "[SEP]").mean(-1)
            for weights in attentions
        ]
    )


def separator_mask(attentions, tokens):
    here = torch.tensor([token == "[SEP]" for token in tokens])
    word = torch.tensor([token not in ("[CLS]", "[SEP]") for token in tokens])
    return (torch.cat(attentions) * here * word[:, None]).sum((-2, -1)) / word.sum()


def separator_by_cell(attentions, tokens):
    shares = torch.zeros(len(attentions), attentions[0].shape[1])
    words = [token for token in tokens if token != "[CLS]" and token != "[SEP]"]
    for layer in range(shares.shape[0]):
        for head in range(shares.shape[1]):
            for query in range(len(tokens)):
                for key in range(len(tokens)):
                    if tokens[key] == "[SEP]" and tokens[query] in words:
                        shares[layer, head] += attentions[layer][0, head, query, key] / len(words)
    return shares


def at(tokens):
    return [place for place, token in enumerate(tokens) if token == "[SEP]"]


def words(tokens):
    return [place for place, token in enumerate(tokens) if token not in SPECIAL]


def given(attentions, tokens):
    """What the words give to the separators: (layers, heads, words, separators)."""
    return torch.cat(attentions)[:, :, words(tokens)][..., at(tokens)]


def share_of(attentions, tokens, places):
    return torch.cat(attentions)[:, :, words(tokens)][..., places].sum(-1).mean(-1)


right(
    "separator_share",
    *(separator_loops, separator_mask, separator_by_cell),
    lambda a, t: given(a, t).sum(-1).mean(-1),
    lambda a, t: torch.cat(a)[:, :, np.array(words(t))[:, None], np.array(at(t))].sum(3).mean(2),
    lambda a, t: torch.stack([w[0, :, :, np.array(t) == "[SEP]"].sum(-1)[:, words(t)].mean(-1) for w in a]),
    lambda a, t: given(a, t).mean(-2).sum(-1),
)
peer("separator_share", separator_by_cell)
fresh(
    "separator_share",
    (made_attentions(3, 4, 6, 9), ["[CLS]", "a", "[SEP]", "b", "c", "[SEP]"]),
    (made_attentions(2, 5, 7, 8), ["[CLS]", "a", "b", "[SEP]", ".", "a", "[SEP]"]),
)
wrong(
    "separator_share",
    one_separator_only=lambda a, t: torch.cat(a)[:, :, words(t), t.index("[SEP]")].mean(-1),
    separators_look_too=lambda a, t: torch.cat(a)[..., at(t)].sum(-1).mean(-1),
    divided_by_all_queries=lambda a, t: given(a, t).sum((2, 3)) / len(t),
    separators_as_queries=lambda a, t: torch.cat(a)[:, :, at(t)][..., at(t)].sum(-1).mean(-1),
    other_words=lambda a, t: separator_mask(
        a, ["[CLS]" if not x.isalpha() and x != "[SEP]" else x for x in t]
    ),
    other_tokens_counted=lambda a, t: share_of(a, t, [i for i, x in enumerate(t) if x in SPECIAL]),
    truth_used_as_place=lambda a, t: share_of(a, t, [1 if token == "[SEP]" else 0 for token in t]),
    neighbour_of_separator=lambda a, t: share_of(a, t, [place - 1 for place in at(t)]),
    queries_for_keys=lambda a, t: separator_loops([w.mT for w in a], t),
    mean_over_keys=lambda a, t: given(a, t).mean((-2, -1)),
    query_axis_kept=lambda a, t: torch.cat(a)[..., at(t)].sum(-1),
    texts_as_numbers=lambda a, t: (torch.tensor(t) == "[SEP]").sum(),
    index_is_no_place=lambda a, t: t["[SEP]"],
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
    return ((weights * table).sum(-1) - weights.diagonal(dim1=-2, dim2=-1))[..., table.sum(-1) > 1].mean(-1)


def to_others(attentions, tokens):
    """The weights on other places of the same word, elsewhere 0: (layers, heads, query, key)."""
    return torch.cat(attentions) * same_table(tokens)


def repeated(tokens):
    return same_table(tokens).sum(-1) > 0


right(
    "same_word_share",
    *(same_loops, same_matrix, same_nan, same_minus_diagonal),
    lambda a, t: (torch.cat(a) * same_table(t)).sum(-1)[..., same_table(t).sum(-1) > 0].mean(-1),
    lambda a, t: same_loops(a, t).to(torch.float64),
    lambda a, t: to_others(a, t).sum(-2)[..., repeated(t)].mean(-1),  # "the same" holds both ways
    lambda a, t: torch.einsum("lhqk,qk->lh", torch.cat(a), same_table(t)) / sum(t.count(x) > 1 for x in t),
)
peer("same_word_share", same_loops)
fresh(
    "same_word_share",
    (made_attentions(3, 4, 6, 9), ["a", "b", "a", "c", "b", "a"]),
    (made_attentions(2, 5, 7, 8), ["a", "b", "c", "d", "c", "b", "e"]),
)


def mean_by_word(attentions, tokens):
    words = [word for word in dict.fromkeys(tokens) if tokens.count(word) > 1]
    rows = to_others(attentions, tokens).sum(-1)
    return torch.stack([rows[..., [t == word for t in tokens]].mean(-1) for word in words]).mean(0)


def same_by(share_of_rows):
    """The rows of a word that comes again, from the weights on its other places, (layers, heads, query, key)."""
    return lambda attentions, tokens: share_of_rows(to_others(attentions, tokens)[:, :, repeated(tokens)])


def same_of_what_leaves(attentions, tokens):
    away = 1 - torch.cat(attentions).diagonal(dim1=-2, dim2=-1)
    return (to_others(attentions, tokens).sum(-1) / away)[..., repeated(tokens)].mean(-1)


wrong(
    "same_word_share",
    other_words_counted=lambda a, t: (
        (torch.cat(a) * (1 - same_table(t, True))).sum(-1)[..., repeated(t)].mean(-1)
    ),
    includes_itself=lambda a, t: (torch.cat(a) * same_table(t, True)).sum(-1)[..., repeated(t)].mean(-1),
    all_queries_counted=lambda a, t: torch.einsum("lhqk,qk->lh", torch.cat(a), same_table(t)) / len(t),
    mean_over_keys=lambda a, t: torch.cat(a)[..., same_table(t) > 0].mean(-1),
    mean_over_words=mean_by_word,
    one_other_place_only=same_by(lambda rows: (rows * ((rows > 0).cumsum(-1) == 1)).sum(-1).mean(-1)),
    first_place_for_each=lambda a, t: (
        to_others(a, t)[:, :, [t.index(x) for x in t if t.count(x) > 1]].sum(-1).mean(-1)
    ),
    one_side_only=lambda a, t: to_others(a, t).triu().sum((-2, -1)) / repeated(t).sum(),
    other_than_mean=same_by(lambda rows: rows.sum(-1).amax(-1)),
    neighbours_counted=lambda a, t: torch.cat(a).diagonal(-1, -2, -1).mean(-1),
    query_axis_kept=lambda a, t: to_others(a, t).sum(-1),
    ratio_to_the_rest=same_of_what_leaves,
    queries_left_out=same_by(lambda rows: rows.sum(-1)[..., :-1].mean(-1)),
    largest_instead_of_sum=same_by(lambda rows: rows.amax(-1).mean(-1)),
    sum_over_queries=lambda a, t: to_others(a, t).sum((-2, -1)),
)

# ---------------------------------------------------------------------------------- a head for every text


def steady_loops(scores, even):
    best, found = None, None
    for layer in range(scores.shape[1]):
        for head in range(scores.shape[2]):
            lowest = min(scores[text, layer, head].item() - even[text].item() for text in range(len(even)))
            if best is None or lowest > best:
                best, found = lowest, (layer, head)
    return found


def worst(scores, even):
    return torch.stack([table - one for table, one in zip(scores, even, strict=True)]).min(dim=0).values


def steady_numpy(scores, even):
    leads = np.swapaxes(scores.numpy().T - even.numpy(), 0, 1).min(-1)  # .T: (heads, layers, texts)
    return np.unravel_index(leads.argmax(), leads.shape)


def steady_running(scores, even):
    lowest = scores[0] - even[0]
    for table, one in zip(scores[1:], even[1:], strict=True):
        lowest = torch.minimum(lowest, table - one)
    return [lowest.amax(dim=1).argmax().item(), lowest.amax(dim=0).argmax().item()]


right(
    "steady_head",
    *(steady_loops, steady_numpy, steady_running),
    lambda s, e: argmax_2d(worst(s, e)),
    lambda s, e: (worst(s, e) == worst(s, e).max()).nonzero()[0],
    lambda s, e: argmax_2d(-(e.view(-1, 1, 1) - s).amax(0)),
    lambda s, e: max((value, place) for place, value in np.ndenumerate(worst(s, e).numpy()))[1],
)
peer("steady_head", steady_loops)


def from_zero(scores, even):
    best = 0
    for layer, row in enumerate(worst(scores, even)):
        for head, lead in enumerate(row):
            if lead > best:
                best, place = lead, [layer, head]
    return place


def best_of_rows_as_lists(scores, even):
    rows = worst(scores, even).tolist()
    layer = rows.index(max(rows))
    return layer, rows[layer].index(max(rows[layer]))


wrong(
    "steady_head",
    even_on_another_axis=lambda s, e: argmax_2d((s - e).amin(0)),
    even_ignored=lambda s, e: argmax_2d(s.min(dim=0)[0]),
    divided_by_even=lambda s, e: argmax_2d((s / e.view(-1, 1, 1)).amin(0)),
    lead_turned=lambda s, e: steady_loops(-s, -e),
    mean_over_texts=lambda s, e: argmax_2d(s.mean(0) - e.mean()),
    best_text=lambda s, e: argmax_2d((s.permute(1, 2, 0) - e).amax(-1)),
    one_text_only=lambda s, e: argmax_2d(s[0] - e[0]),
    texts_counted_too=lambda s, e: divmod((s - e[:, None, None]).argmax().item(), s.shape[2]),
    lowest_of_a_layer=lambda s, e: argmax_2d((s - e[:, None, None]).min(1)[0]),
    hits_counted=lambda s, e: argmax_2d(sum((t > x).int() for t, x in zip(s, e, strict=True))),
    starts_at_zero=from_zero,
    sign_ignored=lambda s, e: argmax_2d((s.permute(1, 2, 0) - e).abs().min(-1)[0]),
    one_for_each_row=lambda s, e: worst(s, e).max(dim=1).indices.tolist(),
    first_column_chooses=best_of_rows_as_lists,
    argmax_of_one_axis=lambda s, e: (worst(s, e).argmax(0)[0].item(), worst(s, e).argmax(1)[0].item()),
    counted_down_the_columns=lambda s, e: divmod(worst(s, e).T.flatten().argmax().item(), s.shape[2]),
    other_than_the_lowest=lambda s, e: argmax_2d((s - e[:, None, None]).median(0)[0]),
    weakest_instead=lambda s, e: argmax_2d(-worst(s, e)),
    flat_index=lambda s, e: worst(s, e).argmax(),
    not_whole_numbers=lambda s, e: worst(s, e).max(),
)
