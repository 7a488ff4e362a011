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


def previous_gathered(attentions):
    weights = torch.stack(attentions).squeeze(1)
    places = torch.arange(weights.shape[-1] - 1)
    previous = weights[:, :, places + 1, places].sum(-1)
    return [index.item() for index in torch.unravel_index(previous.argmax(), previous.shape)]


def previous_one_hot(attentions):
    weights = torch.cat(attentions)
    means = (weights * torch.eye(weights.shape[-1]).roll(-1, 1).tril()).sum((2, 3)) / weights.shape[-1]
    return tuple((means == means.max()).nonzero()[0].tolist())


def previous_dict(attentions):
    count = attentions[0].shape[-1]
    means = {
        (layer, head): sum(table[i][i - 1] for i in range(1, count)) / count
        for layer, weights in enumerate(attentions)
        for head, table in enumerate(weights[0].tolist())
    }
    return sorted(means, key=means.get)[-1]


right(
    "previous_token_head",
    previous_loops,
    previous_numpy,
    previous_gathered,
    previous_one_hot,
    previous_dict,
    lambda a: argmax_2d(offset(a, -1)),
    lambda a: argmax_2d(torch.cat(a).mT.diagonal(1, 2, 3).mean(2)),
    lambda a: torch.tensor(argmax_2d(torch.stack([w[0, :, 1:, :-1].diagonal(0, 1, 2).sum(-1) for w in a]))),
)


def by_wrapping(attentions):
    best, found = 0.0, (0, 0)
    for layer, weights in enumerate(attentions):
        for head in range(weights.shape[1]):
            total = sum(weights[0, head, i, i - 1] for i in range(weights.shape[-1]))
            if total > best:
                best, found = total, (layer, head)
    return found


def by_hits(attentions, start=1):
    counts = {}
    for layer, weights in enumerate(attentions):
        for head, table in enumerate(weights[0]):
            counts[layer, head] = sum(table[i].argmax() == i - 1 for i in range(start, len(table)))
    return max(counts, key=counts.get)


def apart(scores):
    return scores.sum(dim=1).argmax().item(), scores.sum(dim=0).argmax().item()


def layer_then_head(scores):
    layer = scores.mean(1).argmax().item()
    return layer, scores[layer].argmax().item()


def from_place(scores, rows, columns):
    index = scores.argmax().item()
    return index // rows, index % columns


def without_first(scores):
    layer, head = argmax_2d(scores[1:])
    return layer + 1, head


# Ways to choose wrongly in a table (layers, heads), the same in three exercises.
CHOSEN_WRONGLY = {
    "counted_from_one": [
        lambda t: tuple(x + 1 for x in argmax_2d(t)),
        lambda t: (argmax_2d(t)[0] + 1, argmax_2d(t)[1]),
        lambda t: [argmax_2d(t)[0], argmax_2d(t)[1] + 1],
        lambda t: torch.tensor(argmax_2d(t)) + 1,
    ],
    "layer_and_head_swapped": [
        lambda t: argmax_2d(t)[::-1],
        lambda t: argmax_2d(t.T),
        lambda t: (t.argmax().item() % t.shape[1], t.argmax().item() // t.shape[1]),
        lambda t: divmod(t.T.argmax().item(), len(t)),
    ],
    "layer_or_head_alone": [lambda t: argmax_2d(t)[0], lambda t: t.argmax().item() % t.shape[1]],
    "flat_index": [lambda t: t.argmax(), lambda t: t.argmax().item(), lambda t: int(np.argmax(t.numpy()))],
    "divided_by_layers": [
        lambda t: divmod(t.argmax().item(), len(t)),
        lambda t: divmod(t.argmax().item(), t.shape[0]),
        lambda t: from_place(t, t.shape[1], t.shape[0]),
    ],
    "fixed_number_of_heads": [
        lambda t: divmod(t.argmax().item(), 12),
        lambda t: from_place(t, 12, 12),
    ],
    "layer_and_head_apart": [
        apart,
        layer_then_head,
        lambda t: (t.mean(1).argmax().item(), t.mean(0).argmax().item()),
    ],
    "one_layer_only": [lambda t: (0, t[0].argmax().item()), lambda t: (len(t) - 1, t[-1].argmax().item())],
    "part_of_table": [
        without_first,
        lambda t: argmax_2d(t[:-1]),
        lambda t: argmax_2d(t[:, :-1]),
        lambda t: without_first(t.T)[::-1],
    ],
    "weakest_instead": [
        lambda t: argmax_2d(-t),
        lambda t: divmod(t.argmin().item(), t.shape[1]),
        lambda t: tuple((t == t.min()).nonzero()[0].tolist()),
    ],
}


def wrong_choices(exercise, table):
    """Add the ways to choose wrongly in the table that `table(*inputs)` gives."""
    for name, choices in CHOSEN_WRONGLY.items():
        wrong(exercise, name, *(lambda *inputs, choose=choose: choose(table(*inputs)) for choose in choices))
    unlisted(
        exercise,
        lambda *inputs: (*argmax_2d(table(*inputs)), table(*inputs).max().item()),
        lambda *inputs: [argmax_2d(table(*inputs))],
    )


wrong_choices("previous_token_head", lambda attentions: offset(attentions, -1))
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
        (w[0, h, i, i - 1].item(), (n, h))
        for n, w in enumerate(a)
        for h in range(w.shape[1])
        for i in range(1, w.shape[-1])
    )[1],
)
wrong(
    "previous_token_head",
    "one_weight_instead_of_mean",
    lambda a: argmax_2d(torch.cat(a).amax((2, 3))),
    lambda a: argmax_2d(torch.cat(a).flatten(2).max(-1).values),
)
wrong(
    "previous_token_head",
    "wraps_around",
    by_wrapping,
    lambda a: argmax_2d(torch.cat(a).roll(1, -1).diagonal(0, -2, -1).mean(-1)),
)
wrong(
    "previous_token_head",
    "two_places_back",
    lambda a: argmax_2d(offset(a, -2)),
    lambda a: argmax_2d(torch.stack([sum(w[0, :, i, i - 2] for i in range(2, w.shape[-1])) for w in a])),
)
wrong("previous_token_head", "counts_instead_of_mean", by_hits, lambda a: by_hits(a, 0))
wrong(
    "previous_token_head",
    "all_earlier_tokens",
    lambda a: argmax_2d(torch.cat(a).tril(-1).sum(-1).mean(-1)),
    lambda a: argmax_2d(
        torch.stack([torch.stack([w[0, :, i, :i].sum(-1) for i in range(1, w.shape[-1])]).sum(0) for w in a])
    ),
)
wrong(
    "previous_token_head",
    "queries_left_out",
    lambda a: argmax_2d(torch.cat(a).diagonal(-1, -2, -1)[..., 1:].mean(-1)),
    lambda a: argmax_2d(torch.cat(a).diagonal(-1, -2, -1)[..., 1:-1].sum(-1)),
    lambda a: previous_loops([w[:, :, :-1, :-1] for w in a]),
)
wrong(
    "previous_token_head",
    "diagonal_of_other_axes",
    lambda a: argmax_2d(torch.cat(a).diagonal(offset=-1).mean(-1)),
    lambda a: argmax_2d(torch.cat(a).diagonal(-1).mean(dim=2)),
)
wrong(
    "previous_token_head",
    "mean_over_heads",
    lambda a: argmax_2d(torch.cat(a).diagonal(-1, 2, 3).mean(1)),
    lambda a: argmax_2d(torch.cat(a).diagonal(-1, 2, 3).mean(0)),
)
unlisted(
    "previous_token_head",
    lambda a: argmax_2d(torch.cat(a).diagonal(-1, 2, 3).median(-1).values),
)


def strongest_loops(attentions, query, key):
    found = {}
    for layer, weights in enumerate(attentions):
        for head, table in enumerate(weights[0]):
            found[layer, head] = table[query][key].item()
    return max(found, key=found.get)


def strongest_running(attentions, query, key):
    best, place = 0, None
    for layer in range(len(attentions)):
        for head in range(attentions[layer].size(1)):
            if attentions[layer][0, head, query, key] > best:
                best, place = attentions[layer][0, head, query, key], [layer, head]
    return place


def strongest_by_layer(attentions, query, key):
    best = torch.stack([weights[0, :, query, key].max() for weights in attentions])
    layer = best.argmax()
    return torch.stack([layer, attentions[layer][0, :, query, key].argmax()])


def cells(attentions, query, key):
    return torch.cat(attentions)[:, :, query, key]


right(
    "strongest_head",
    strongest_loops,
    strongest_running,
    strongest_by_layer,
    lambda a, q, k: argmax_2d(torch.cat(a)[:, :, q, k]),
    lambda a, q, k: np.unravel_index(
        np.argmax(np.stack([w[0, :, q, k].numpy() for w in a])), (len(a), a[0].shape[1])
    ),
    lambda a, q, k: max(
        ((n, h) for n in range(len(a)) for h in range(a[0].shape[1])), key=lambda p: a[p[0]][0, p[1], q, k]
    ),
)
wrong_choices("strongest_head", cells)
wrong(
    "strongest_head",
    "query_key_swapped",
    lambda a, q, k: strongest_loops(a, k, q),
    lambda a, q, k: argmax_2d(torch.cat(a)[:, :, k, q]),
)


def last_layer_wins(attentions, query, key):
    """Forget to compare the layers."""
    for layer, weights in enumerate(attentions):
        found = layer, weights[0, :, query, key].argmax().item()
    return found


def returns_too_early(attentions, query, key):
    for layer, weights in enumerate(attentions):
        return layer, weights[0, :, query, key].argmax().item()


wrong("strongest_head", "one_layer_only", last_layer_wins, returns_too_early)
wrong(
    "strongest_head",
    "key_ignored",
    lambda a, q, k: argmax_2d(torch.cat(a)[:, :, q].amax(-1)),
    lambda a, q, k: argmax_2d(torch.stack([w[0, :, q].max(dim=-1).values for w in a])),
)
wrong(
    "strongest_head",
    "query_ignored",
    lambda a, q, k: argmax_2d(torch.cat(a)[..., k].amax(-1)),
    lambda a, q, k: argmax_2d(torch.cat(a)[:, :, :, k].mean(2)),
)
wrong(
    "strongest_head",
    "whole_table",
    lambda a, q, k: argmax_2d(torch.cat(a).amax((2, 3))),
    lambda a, q, k: argmax_2d(torch.stack([w[0].flatten(1).max(1)[0] for w in a])),
)
wrong(
    "strongest_head",
    "tokens_counted_from_one",
    lambda a, q, k: strongest_loops(a, q - 1, k - 1),
    lambda a, q, k: argmax_2d(torch.cat(a)[:, :, q + 1, k + 1]),
)
unlisted("strongest_head", lambda a, q, k: cells(a, q, k).max().item())


def working_loops(attentions):
    shares = []
    for weights in attentions:
        shares.append([])
        for table in weights[0]:
            shares[-1].append(sum(row[1:-1].sum().item() for row in table) / len(table))
    return torch.tensor(shares)


def working_mask(attentions):
    inner = torch.ones(attentions[0].shape[-1])
    inner[0] = inner[-1] = 0
    return torch.cat(attentions).matmul(inner).mean(dim=-1)


def on(attentions):
    return torch.cat(attentions)[..., 1:-1]


# Ways to hand back a right table in another shape, the same in three exercises.
HANDED_BACK_WRONGLY = {
    "heads_before_layers": [lambda t: t.T, lambda t: t.transpose(0, 1)],
    "one_layer_only": [lambda t: t[0], lambda t: t[-1], lambda t: t[:1]],
    "batch_axis_kept": [lambda t: t.unsqueeze(1), lambda t: t[None]],
    "share_of_the_rest": [lambda t: 1 - t],
    "one_number_for_all": [lambda t: t.mean()],
}


def wrong_shapes(exercise, right_one):
    for name, changes in HANDED_BACK_WRONGLY.items():
        wrong(exercise, name, *(lambda *inputs, to=to: to(right_one(*inputs)) for to in changes))


right(
    "working_share",
    working_loops,
    working_mask,
    lambda a: torch.cat(a)[:, :, :, 1:-1].sum(-1).mean(-1),
    lambda a: 1 - torch.cat(a)[..., [0, -1]].sum(-1).mean(-1),
    lambda a: torch.cat(a)[..., 1:-1].mean(-2).sum(-1),
    lambda a: torch.einsum("lhqk->lh", on(a)) / a[0].shape[-1],
    lambda a: torch.stack([1 - (w[0, :, :, 0] + w[0, :, :, -1]).mean(-1) for w in a]),
    lambda a: torch.from_numpy(np.stack([w[0].numpy()[:, :, 1:-1].sum(2).mean(1) for w in a])),
)
wrong_shapes("working_share", working_loops)
wrong(
    "working_share",
    "batch_axis_kept",
    lambda a: torch.stack(a)[..., 1:-1].sum(-1).mean(-1),
)
wrong(
    "working_share",
    "share_of_the_rest",
    lambda a: torch.cat(a)[..., [0, -1]].sum(-1).mean(-1),
    lambda a: torch.stack([(w[0, :, :, 0] + w[0, :, :, -1]).mean(-1) for w in a]),
)
wrong(
    "working_share",
    "queries_for_keys",
    lambda a: torch.cat(a)[:, :, 1:-1].sum(-1).mean(-1),
    lambda a: torch.stack([w[0][:, 1:-1, :].sum(1).mean(-1) for w in a]),
    lambda a: torch.cat(a)[:, :, 1:-1].mean((2, 3)),
)
wrong(
    "working_share",
    "queries_left_out",
    lambda a: torch.cat(a)[:, :, 1:-1, 1:-1].sum(-1).mean(-1),
    lambda a: torch.cat(a)[:, :, 1:, 1:-1].sum(-1).mean(-1),
    lambda a: torch.cat(a)[:, :, :-1, 1:-1].mean(2).sum(2),
    lambda a: torch.stack([w[0, :, 1:-1, 1:-1].sum((1, 2)) / w.shape[-1] for w in a]),
)
wrong(
    "working_share",
    "one_end_left_out",
    lambda a: torch.cat(a)[..., 1:].sum(-1).mean(-1),
    lambda a: 1 - torch.cat(a)[..., -1].mean(-1),
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
wrong(
    "working_share",
    "sum_and_mean_exchanged",
    lambda a: on(a).mean(-1).sum(-1),
    lambda a: on(a).sum(-2).mean(-1),
)
wrong(
    "working_share", "mean_over_heads", lambda a: on(a).sum(-1).mean(1), lambda a: on(a).sum(-1).mean((1, 2))
)
wrong("working_share", "query_axis_kept", lambda a: on(a).sum(-1), lambda a: torch.cat(a)[..., 0])
wrong("working_share", "one_number_for_all", lambda a: on(a).mean())
wrong(
    "working_share", "batch_axis_kept", lambda a: torch.stack(a)[..., 1:-1].sum(-1).mean(-1).permute(2, 1, 0)
)
wrong("working_share", "largest_instead_of_sum", lambda a: on(a).amax(-1).mean(-1))
unlisted(
    "working_share",
    lambda a: (torch.cat(a).argmax(-1) > 0).float().mean(-1),
)
wrong("working_share", "other_keys_left_out", lambda a: torch.cat(a)[..., 2:-1].sum(-1).mean(-1))


# ------------------------------------------------------------------------------------- one more of each mistake


def second_best(scores):
    return divmod(scores.flatten().topk(2).indices[1].item(), scores.shape[1])


for exercise, table in (
    ("previous_token_head", lambda attentions: offset(attentions, -1)),
    ("strongest_head", cells),
):
    for misconception, choose in {
        "one_number_twice": lambda scores: (argmax_2d(scores)[0],) * 2,
        "second_best": second_best,
        "never_compared": lambda scores: (scores.shape[0] - 1, scores.shape[1] - 1),
    }.items():
        wrong(exercise, misconception, lambda *given, table=table, choose=choose: choose(table(*given)))
wrong(
    "previous_token_head",
    "other_than_mean",
    lambda attentions: argmax_2d(torch.cat(attentions).diagonal(-1, -2, -1).prod(-1)),
)
wrong(
    "strongest_head",
    "both_directions",
    lambda a, query, key: argmax_2d(cells(a, query, key) + cells(a, key, query)),
)


def not_itself(attentions):
    return torch.cat(attentions) * (1 - torch.eye(attentions[0].shape[-1]))


def working_hits(attentions):
    most = torch.cat(attentions).argmax(-1)
    return ((most > 0) & (most < most.shape[-1] - 1)).float().mean(-1)


for misconception, attempt in {
    "other_keys_left_out": lambda attentions: torch.cat(attentions)[..., 2:].sum(-1).mean(-1),
    "itself_left_out": lambda attentions: not_itself(attentions)[..., 1:-1].sum(-1).mean(-1),
    "other_than_mean": lambda attentions: on(attentions).sum(-1).amax(-1),
    "ratio_to_the_rest": lambda attentions: (
        on(attentions).sum(-1).mean(-1) / (1 - on(attentions).sum(-1).mean(-1))
    ),
    "hits_counted": working_hits,
}.items():
    wrong("working_share", misconception, attempt)


def without_batch_axis(attentions, query, key):
    index = torch.stack(attentions)[:, :, query, key].argmax().item()
    return divmod(index, attentions[0].shape[1])


wrong("strongest_head", "batch_axis_forgotten", without_batch_axis)
