"""Attempts at the exercises of notebook 07."""

import numpy as np
import torch

from .notebook_06 import argmax_2d
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


right(
    "separator_share",
    separator_loops,
    separator_mask,
    lambda a, t: (
        torch.einsum("lhqk,k->lh", torch.cat(a), torch.tensor([float(x == "[SEP]") for x in t])) / len(t)
    ),
    lambda a, t: torch.stack([w[0, :, :, np.array(t) == "[SEP]"].sum(-1).mean(-1) for w in a]),
)
wrong(
    "separator_share",
    "only_first_separator",
    lambda a, t: torch.cat(a)[..., t.index("[SEP]")].mean(-1),
    lambda a, t: torch.stack([w[0, :, :, t.index("[SEP]")].sum(-1) / len(t) for w in a]),
)
wrong(
    "separator_share",
    "separators_as_queries",
    lambda a, t: separator_loops([w.mT for w in a], t),
    lambda a, t: torch.cat(a)[:, :, [i for i, x in enumerate(t) if x == "[SEP]"]].mean((-2, -1)),
)
wrong(
    "separator_share",
    "mean_over_keys",
    lambda a, t: torch.cat(a)[..., [i for i, x in enumerate(t) if x == "[SEP]"]].mean((-2, -1)),
    lambda a, t: separator_mask(a, t) / t.count("[SEP]"),
)
wrong(
    "separator_share",
    "sum_over_queries",
    lambda a, t: torch.cat(a)[..., [i for i, x in enumerate(t) if x == "[SEP]"]].sum((-2, -1)),
    lambda a, t: separator_loops(a, t) * len(t),
)
unlisted(
    "separator_share",
    lambda a, t: torch.cat(a)[..., -1].mean(-1),
    lambda a, t: 1 - separator_mask(a, t),
    lambda a, t: separator_mask(a, t).mean(0),
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


def twins(tokens, itself=False):
    table = torch.tensor([[one == other for other in tokens] for one in tokens]).float()
    return table if itself else table - torch.eye(len(tokens))


def same_matrix(attentions, tokens):
    table = twins(tokens)
    return (torch.cat(attentions) * table).sum((-2, -1)) / table.any(-1).sum()


right(
    "same_word_share",
    same_loops,
    same_matrix,
    lambda a, t: (torch.cat(a) * twins(t)).sum(-1)[..., twins(t).sum(-1) > 0].mean(-1),
    lambda a, t: same_loops(a, t).to(torch.float64),
)
wrong(
    "same_word_share",
    "includes_itself",
    lambda a, t: (torch.cat(a) * twins(t, True)).sum(-1)[..., twins(t).sum(-1) > 0].mean(-1),
    lambda a, t: (torch.cat(a) * twins(t, True)).sum(-1).mean(-1),
)
wrong(
    "same_word_share",
    "all_queries_counted",
    lambda a, t: (torch.cat(a) * twins(t)).sum(-1).mean(-1),
    lambda a, t: torch.einsum("lhqk,qk->lh", torch.cat(a), twins(t)) / len(t),
)
wrong(
    "same_word_share",
    "mean_over_keys",
    lambda a, t: torch.stack(
        [torch.cat(a)[:, :, q, twins(t)[q] > 0].mean(-1) for q in range(len(t)) if t.count(t[q]) > 1]
    ).mean(0),
    lambda a, t: ((torch.cat(a) * twins(t)).sum(-1) / twins(t).sum(-1)).nanmean(-1),
)
unlisted(
    "same_word_share",
    lambda a, t: (torch.cat(a) * twins(t)).amax((-2, -1)),
    lambda a, t: same_matrix([w.mT for w in a], t) * 2,
    lambda a, t: (torch.cat(a) * twins(t)).sum((-2, -1)),
)


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
)
wrong(
    "best_head",
    "counted_from_one",
    lambda s: [x + 1 for x in argmax_2d(s)],
    lambda s: tuple((s == s.max()).nonzero()[0] + 1),
)
wrong("best_head", "layer_and_head_swapped", lambda s: argmax_2d(s)[::-1], lambda s: best_loops(s.T))
wrong(
    "best_head", "weakest_instead", lambda s: argmax_2d(-s), lambda s: divmod(s.argmin().item(), s.shape[1])
)
wrong("best_head", "flat_index", lambda s: s.argmax(), lambda s: int(s.numpy().argmax()))
unlisted(
    "best_head", lambda s: divmod(s.argmax().item(), len(s)), lambda s: s.max(), lambda s: s.argmax(dim=1)
)
