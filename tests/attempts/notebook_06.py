"""Attempts at the exercises of notebook 06."""

import numpy as np
import torch

from utils.checks.notebook_06 import padded_trials
from utils.checks.shared import made_attentions

from .tables import fresh, peer, right, wrong

# ------------------------------------------------------------------------------------- a head that looks back


def previous_loops(attentions, attention_mask):
    best, found = -1.0, None
    for layer, weights in enumerate(attentions):
        for head in range(weights.shape[1]):
            row = []
            for text, real in zip(weights[:, head], attention_mask.tolist(), strict=True):
                row += [text[i, i - 1].item() for i in range(1, len(real)) if real[i] and real[i - 1]]
            if sum(row) / len(row) > best:
                best, found = sum(row) / len(row), (layer, head)
    return found


def argmax_2d(scores):
    return divmod(scores.argmax().item(), scores.shape[1])


def weighed(attentions, mask, by=-1):
    """The weights `by` places from each token, pads left out: (layers, heads, batch, query)."""
    real = mask[:, :, None] * mask[:, None]  # (batch, query, key)
    return (torch.stack(attentions).transpose(1, 2) * real).diagonal(by, -2, -1)


def previous_chosen(attentions, mask):
    real = (mask[:, 1:] & mask[:, :-1]).bool()
    return argmax_2d(
        torch.stack([w.transpose(0, 1).diagonal(-1, 2, 3)[:, real].mean(-1) for w in attentions])
    )


def previous_numpy(attentions, mask):
    weights, (text, key) = (
        np.stack([w.numpy() for w in attentions]),
        (mask[:, 1:] * mask[:, :-1]).numpy().nonzero(),
    )
    means = weights[:, text, :, key + 1, key].mean(0)
    return np.unravel_index(means.argmax(), means.shape)


def previous_by_text(attentions, mask):
    total = 0
    for b, row in enumerate(mask):
        places = row.nonzero().flatten()  # the tokens of a text stand side by side
        total = total + torch.stack([w[b, :, places[1:], places[:-1]].sum(-1) for w in attentions])
    return torch.stack(torch.unravel_index(total.argmax(), total.shape))


right(
    "previous_token_head",
    *(previous_loops, previous_chosen, previous_numpy, previous_by_text),
    lambda a, m: argmax_2d(weighed(a, m).sum((2, 3))),
    lambda a, m: argmax_2d(weighed(a, m).flatten(2).mean(-1)),
    lambda a, m: argmax_2d(
        torch.einsum("lbhii,bi->lh", torch.stack(a)[:, :, :, 1:, :-1], (m[:, 1:] & m[:, :-1]).float())
    ),
)
peer("previous_token_head", previous_loops)  # a loop over single numbers, as one would count by hand
fresh("previous_token_head", *padded_trials((15, 16, 17, 18, 19, 20)))


def by_lengths(attentions, mask):
    lengths = mask.sum(-1).tolist()
    sums = [
        sum(w[b, :, :n, :n].diagonal(-1, -2, -1).sum(-1) for b, n in enumerate(lengths)) for w in attentions
    ]
    return argmax_2d(torch.stack(sums))


def by_wrapping(attentions, mask):
    real = (mask & mask.roll(1, -1))[:, None, :, None]
    sums = [(w * real).roll(1, -1).diagonal(0, -2, -1).sum((0, 2)) for w in attentions]
    return argmax_2d(torch.stack(sums))


def mean_of_means(attentions, mask):
    means = [
        weighed(attentions, m[None].expand_as(mask))[:, :, b].sum(-1) / (m.sum() - 1)
        for b, m in enumerate(mask)
    ]
    return argmax_2d(sum(means))


wrong(
    "previous_token_head",
    pad_taken_for_previous=lambda a, m: argmax_2d(
        torch.einsum("lbhqq,bq->lh", torch.stack(a)[..., 1:, :-1], 1.0 * m[:, 1:])
    ),
    pads_counted=lambda a, m: argmax_2d(torch.stack(a).diagonal(-1, -2, -1).mean((1, 3))),
    first_places_taken=by_lengths,
    texts_weigh_the_same=mean_of_means,
    one_text_only=lambda a, m: previous_loops([w[:1] for w in a], m[:1]),
    batch_taken_for_layers=lambda a, m: argmax_2d(torch.cat(a).diagonal(offset=-1, dim1=2, dim2=3).sum(-1)),
    next_token_instead=lambda a, m: previous_loops([w.mT for w in a], m),
    token_itself_instead=lambda a, m: argmax_2d(weighed(a, m, 0).mean((2, 3))),
    two_places_back=lambda a, m: argmax_2d(weighed(a, m, -2).mean((2, 3))),
    one_weight_instead_of_mean=lambda a, m: argmax_2d(weighed(a, m).flatten(2).max(-1)[0]),
    wraps_around=by_wrapping,
    counts_instead_of_mean=lambda a, m: argmax_2d(
        weighed([w == w.amax(-1, keepdim=True) for w in a], m).sum((2, 3))
    ),
    all_earlier_tokens=lambda a, m: argmax_2d(
        torch.stack([(w * m[:, None, :, None]).tril(-1).sum((0, 2, 3)) for w in a])
    ),
    queries_left_out=lambda a, m: argmax_2d(weighed(a, m)[..., 1:].sum((2, 3))),
    mean_over_heads=lambda a, m: argmax_2d(weighed(a, m).sum((1, 3))),
    other_than_mean=lambda a, m: argmax_2d((weighed(a, m) ** 2).sum((2, 3))),
    list_used_as_tensor=lambda a, m: argmax_2d(a.diagonal(-1, -2, -1).mean(-1)),
)

# ------------------------------------------------------------------------------- from one token to another


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
    layer = torch.stack([weights[0, :, query, key].max() for weights in attentions]).argmax()
    return torch.stack([layer, attentions[layer][0, :, query, key].argmax()])


def cells(attentions, query, key):
    return torch.stack([weights[0, :, query, key] for weights in attentions])


right(
    "strongest_head",
    *(strongest_loops, strongest_running, strongest_by_layer),
    lambda a, q, k: argmax_2d(torch.cat(a)[:, :, q, k]),
    lambda a, q, k: np.unravel_index(
        np.argmax(np.stack([w[0, :, q, k].numpy() for w in a])), (len(a), a[0].shape[1])
    ),
)
peer("strongest_head", strongest_loops)
wrong(
    "strongest_head",
    softmax_again=lambda a, q, k: strongest_loops([w.softmax(3) for w in a], q, k),
    query_key_swapped=lambda a, q, k: strongest_loops(a, k, q),
    key_ignored=lambda a, q, k: argmax_2d(torch.stack([w[0, :, q].max(dim=-1).values for w in a])),
    query_ignored=lambda a, q, k: argmax_2d(torch.cat(a)[:, :, :, k].mean(2)),
    batch_axis_forgotten=lambda a, q, k: divmod(torch.stack(a)[:, :, q, k].argmax().item(), a[0].shape[1]),
    whole_table=lambda a, q, k: argmax_2d(torch.stack([w[0].flatten(1).max(1)[0] for w in a])),
    tokens_counted_from_one=lambda a, q, k: strongest_loops(a, q - 1, k - 1),
    both_directions=lambda a, q, k: argmax_2d(cells(a, q, k) + cells(a, k, q)),
    tensors_as_numbers=lambda a, q, k: argmax_2d(torch.tensor(a)[:, :, q, k]),
)


def last_layer_wins(attentions, query, key):
    """Forget to compare the layers."""
    for layer, weights in enumerate(attentions):
        found = layer, weights[0, :, query, key].argmax().item()
    return found


def without_first(scores):
    layer, head = argmax_2d(scores[1:])
    return layer + 1, head


# The rows that serve each search for a head in a table (layers, heads).
for name, choose in {
    "counted_from_one": lambda t: tuple(x + 1 for x in argmax_2d(t)),
    "layer_and_head_swapped": lambda t: divmod(t.T.argmax().item(), len(t)),
    "never_compared": lambda t: (t.shape[0] - 1, t.shape[1] - 1),
    "one_number_twice": lambda t: (argmax_2d(t)[0],) * 2,
    "second_best": lambda t: divmod(int(t.flatten().sort(descending=True).indices[1]), t.shape[1]),
    "layer_or_head_alone": lambda t: t.argmax().item() % t.shape[1],
    "flat_index": lambda t: int(np.argmax(t.numpy())),
    "divided_by_layers": lambda t: (t.argmax().item() // t.shape[1], t.argmax().item() % t.shape[0]),
    "fixed_number_of_heads": lambda t: divmod(t.argmax().item(), 12),
    "layer_and_head_apart": lambda t: (t.mean(1).argmax().item(), t.mean(0).argmax().item()),
    "part_of_table": without_first,
    "weakest_instead": lambda t: tuple((t == t.min()).nonzero()[0].tolist()),
    "one_thing_taken_for_many": lambda t: tuple(t.argmax()),
}.items():
    wrong("strongest_head", **{name: lambda a, q, k, choose=choose: choose(cells(a, q, k))})
wrong("strongest_head", one_layer_only=last_layer_wins)

# ----------------------------------------------------------------------------------------------- off or on


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


right(
    "working_share",
    *(working_loops, working_mask),
    lambda a: torch.cat(a)[:, :, :, 1:-1].sum(-1).mean(-1),
    lambda a: 1 - torch.cat(a)[..., [0, -1]].sum(-1).mean(-1),
    lambda a: torch.cat(a)[..., 1:-1].mean(-2).sum(-1),
    lambda a: torch.einsum("lhqk->lh", on(a)) / a[0].shape[-1],
    lambda a: torch.stack([1 - (w[0, :, :, 0] + w[0, :, :, -1]).mean(-1) for w in a]),
    lambda a: torch.from_numpy(np.stack([w[0].numpy()[:, :, 1:-1].sum(2).mean(1) for w in a])),
)
peer("working_share", working_loops)
fresh("working_share", (made_attentions(3, 4, 7, 9),), (made_attentions(2, 5, 4, 8),))


wrong(
    "working_share",
    share_of_the_rest=lambda a: torch.stack([(w[0, :, :, 0] + w[0, :, :, -1]).mean(-1) for w in a]),
    all_keys_counted=lambda a: torch.cat(a).sum(-1).mean(-1),
    one_end_left_out=lambda a: 1 - torch.cat(a)[..., -1].mean(-1),
    other_keys_left_out=lambda a: torch.cat(a)[..., 2:-1].sum(-1).mean(-1),
    queries_left_out=lambda a: torch.stack([w[0, :, 1:-1, 1:-1].sum((1, 2)) / w.shape[-1] for w in a]),
    # the rows that serve each share of the weights
    heads_before_layers=lambda a: working_loops(a).transpose(0, 1),
    batch_axis_kept=lambda a: torch.stack(a)[..., 1:-1].sum(-1).mean(-1).permute(2, 1, 0),
    one_number_for_all=lambda a: on(a).mean(),
    itself_left_out=lambda a: (
        on([torch.cat(a).masked_fill(torch.eye(a[0].shape[-1]) == 1, 0)]).sum(-1).mean(-1)
    ),
    ratio_to_the_rest=lambda a: working_loops(a) / (1 - working_loops(a)),
    sum_and_mean_exchanged=lambda a: on(a).sum(-2).mean(-1),
    query_axis_kept=lambda a: torch.cat(a)[..., 0],
    largest_instead_of_sum=lambda a: on(a).amax(-1).mean(-1),
    queries_for_keys=lambda a: torch.stack([w[0][:, 1:-1, :].sum(1).mean(-1) for w in a]),
)
