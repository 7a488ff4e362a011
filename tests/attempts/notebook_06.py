"""Attempts at the exercises of notebook 06."""

import numpy as np
import torch

from .tables import right, unlisted, wrong


def previous_loops(attentions):
    best, found = -1.0, None
    for layer, weights in enumerate(attentions):
        for head in range(weights.shape[1]):
            row = [weights[0, head, i, i - 1].item() for i in range(1, weights.shape[-1])]
            if sum(row) / len(row) > best:
                best, found = sum(row) / len(row), (layer, head)
    return found


def offset(attentions, by):
    return torch.cat(list(attentions)).diagonal(by, -2, -1).mean(-1)


def argmax_2d(scores):
    return divmod(scores.argmax().item(), scores.shape[1])


def previous_numpy(attentions):
    weights = np.concatenate([layer.numpy() for layer in attentions])
    means = np.array([[np.diag(table, -1).mean() for table in layer] for layer in weights])
    return np.unravel_index(means.argmax(), means.shape)


right(
    "previous_token_head",
    previous_loops,
    previous_numpy,
    lambda a: argmax_2d(offset(a, -1)),
    lambda a: torch.tensor(argmax_2d(torch.stack([w[0, :, 1:, :-1].diagonal(0, 1, 2).sum(-1) for w in a]))),
)
wrong(
    "previous_token_head",
    "next_token_instead",
    lambda a: argmax_2d(offset(a, 1)),
    lambda a: previous_loops([w.mT for w in a]),
)
wrong(
    "previous_token_head",
    "token_itself_instead",
    lambda a: argmax_2d(offset(a, 0)),
    lambda a: argmax_2d(torch.cat(a).diagonal(dim1=2, dim2=3).sum(-1)),
)
wrong(
    "previous_token_head",
    "one_weight_instead_of_mean",
    lambda a: argmax_2d(torch.cat(a).diagonal(-1, -2, -1).amax(-1)),
    lambda a: max(
        (
            (w[0, h, i, i - 1].item(), (n, h))
            for n, w in enumerate(a)
            for h in range(5)
            for i in range(1, w.shape[-1])
        )
    )[1],
)
wrong(
    "previous_token_head",
    "counted_from_one",
    lambda a: tuple(place + 1 for place in previous_loops(a)),
    lambda a: [previous_numpy(a)[0] + 1, previous_numpy(a)[1] + 1],
)
wrong(
    "previous_token_head",
    "layer_and_head_swapped",
    lambda a: previous_loops(a)[::-1],
    lambda a: divmod(offset(a, -1).T.argmax().item(), len(a)),
)
unlisted("previous_token_head", lambda a: argmax_2d(offset(a, -1))[0], lambda a: argmax_2d(offset(a, -2)))


def strongest_loops(attentions, query, key):
    found = {}
    for layer, weights in enumerate(attentions):
        for head, table in enumerate(weights[0]):
            found[layer, head] = table[query][key].item()
    return max(found, key=found.get)


right(
    "strongest_head",
    strongest_loops,
    lambda a, q, k: argmax_2d(torch.cat(a)[:, :, q, k]),
    lambda a, q, k: np.unravel_index(np.argmax(np.stack([w[0, :, q, k].numpy() for w in a])), (3, 5)),
)
wrong(
    "strongest_head",
    "query_key_swapped",
    lambda a, q, k: strongest_loops(a, k, q),
    lambda a, q, k: argmax_2d(torch.cat(a)[:, :, k, q]),
)
wrong(
    "strongest_head",
    "last_layer_only",
    lambda a, q, k: (len(a) - 1, a[-1][0, :, q, k].argmax().item()),
    lambda a, q, k: (2, max(range(5), key=lambda head: a[2][0, head, q, k])),
)
wrong(
    "strongest_head",
    "counted_from_one",
    lambda a, q, k: tuple(x + 1 for x in strongest_loops(a, q, k)),
    lambda a, q, k: torch.tensor(strongest_loops(a, q, k)) + 1,
)
wrong(
    "strongest_head",
    "layer_and_head_swapped",
    lambda a, q, k: strongest_loops(a, q, k)[::-1],
    lambda a, q, k: divmod(torch.cat(a)[:, :, q, k].T.argmax().item(), 3),
)
unlisted("strongest_head", lambda a, q, k: strongest_loops(a, q, k)[1], lambda a, q, k: (0, 0))


def working_loops(attentions):
    shares = []
    for weights in attentions:
        shares.append([])
        for table in weights[0]:
            shares[-1].append(sum(row[1:-1].sum().item() for row in table) / len(table))
    return torch.tensor(shares)


right(
    "working_share",
    working_loops,
    lambda a: torch.cat(a)[:, :, :, 1:-1].sum(-1).mean(-1),
    lambda a: 1 - torch.cat(a)[..., [0, -1]].sum(-1).mean(-1),
    lambda a: torch.from_numpy(np.stack([w[0].numpy()[:, :, 1:-1].sum(2).mean(1) for w in a])),
)
wrong(
    "working_share",
    "leaves_out_queries",
    lambda a: torch.cat(a)[:, :, 1:-1].sum(-1).mean(-1),
    lambda a: torch.stack([w[0][:, 1:-1, :].sum(1).mean(-1) for w in a]),
)
wrong(
    "working_share",
    "share_of_specials",
    lambda a: torch.cat(a)[..., [0, -1]].sum(-1).mean(-1),
    lambda a: torch.stack([(w[0, :, :, 0] + w[0, :, :, -1]).mean(-1) for w in a]),
)
wrong(
    "working_share",
    "mean_over_keys",
    lambda a: torch.cat(a)[..., 1:-1].mean((-2, -1)),
    lambda a: torch.stack([w[0, :, :, 1:-1].mean(-1).mean(-1) for w in a]),
)
wrong(
    "working_share",
    "sum_over_queries",
    lambda a: torch.cat(a)[..., 1:-1].sum((-2, -1)),
    lambda a: working_loops(a) * a[0].shape[-1],
)
unlisted(
    "working_share",
    lambda a: torch.cat(a)[..., 1:].sum(-1).mean(-1),
    lambda a: working_loops(a).T,
    lambda a: torch.cat(a)[:, :, 1:-1, 1:-1].sum(-1).mean(-1),
)
