"""Attempts at the exercises of notebook 08."""

import math

import numpy as np
import torch

from utils.checks.shared import made_numbers

from .tables import fresh, peer, right, wrong

# ------------------------------------------------------------------------------------------ back to scores


def scores_loops(weights):
    rows = []
    for row in weights.tolist():
        logs = [math.log(weight) for weight in row]
        rows.append([log - sum(logs) / len(logs) for log in logs])
    return torch.tensor(rows)


def scores_numpy(weights):
    logs = np.log(weights.numpy())
    return torch.from_numpy(logs - logs.mean(axis=1, keepdims=True))


def scores_by_ratios(weights):
    """A score's lead over each other one is the logarithm of a ratio of weights."""
    return (weights[:, :, None] / weights[:, None]).log().mean(dim=-1)


def scores_of_geometric_mean(weights):
    return torch.log(weights / (weights.log().sum(-1) / weights.shape[-1]).exp().unsqueeze(-1))


def centred(rows, axis=-1):
    return rows - rows.mean(axis, keepdim=True)


right(
    "scores_from_weights",
    *(scores_loops, scores_numpy, scores_by_ratios, scores_of_geometric_mean),
    lambda w: centred(torch.log(w)),
    lambda w: centred((w / w[:, :1]).log()),
    lambda w: centred(w.logit() + (1 - w).log()),
    lambda w: w.log() @ (torch.eye(w.shape[1]) - 1 / w.shape[1]).to(w),
    lambda w: torch.stack([row.log() - row.log().mean() for row in w]),
)
peer("scores_from_weights", scores_by_ratios)
fresh("scores_from_weights", *((made_numbers(*size, start=5).softmax(-1),) for size in ((5, 5), (2, 7))))
wrong(
    "scores_from_weights",
    not_turned_back=centred,
    not_centred=torch.log,
    other_number_taken_off=lambda w: (w / w.max(dim=-1, keepdim=True).values).log(),
    diagonal_taken_off=lambda w: (w / torch.diag(w)[: len(w), None]).log(),
    one_mean_for_all=lambda w: w.log() - torch.mean(w.log()),
    mean_over_queries=lambda w: centred(w.log(), 0),
    no_keepdim=lambda w: w.log() - w.log().sum(-1) / w.shape[-1],
    other_base=lambda w: centred(torch.log10(w)),
    exponential_taken=lambda w: centred(math.e**w),
    mean_of_weights=lambda w: (w * w.shape[-1]).log(),
    centred_before=lambda w: torch.log(w - w.sum(-1, keepdim=True) / w.shape[-1]),
    scaled_again=lambda w: centred(w.log()) * w.shape[-1] ** 0.5,
    sign_turned=lambda w: centred((1 / w).log()),
    divided_not_subtracted=lambda w: w.log() / w.log().mean(-1, True),
    spread_taken_out=lambda w: centred(w.log()) / w.log().std(-1, keepdim=True),
    each_weight_alone=lambda w: centred((w / (1 - w)).log()),
    softmax_again=lambda w: torch.exp(w) / torch.exp(w).sum(-1, keepdim=True),
)

# ------------------------------------------------------------------------------------- without a dimension


def root(query):
    return math.sqrt(len(query))


def without_loops(query, keys, target):
    found = []
    for left_out in range(len(query)):
        scores = []
        for key in keys:
            terms = [a * b for d, (a, b) in enumerate(zip(query, key, strict=True)) if d != left_out]
            scores.append(sum(terms) / root(query))
        found.append(torch.stack(scores).softmax(0)[target])
    return torch.stack(found)


def without_in_query(query, keys, target):
    found = torch.empty_like(query)
    for left_out in range(len(query)):
        kept = query.clone()
        kept[left_out] = 0
        found[left_out] = (keys @ kept / root(query)).softmax(0)[target]
    return found


def without_by_eye(query, keys, target):
    kept = query * (1 - torch.eye(len(query)).to(query))  # (dimension left out, head_dim)
    return (kept @ keys.T / root(query)).softmax(dim=-1)[:, target]


def left(query, keys, change=None, axis=0):
    scores = (keys @ query)[:, None]
    scores = scores - query * keys if change is None else change(scores, query * keys)
    return (scores / root(query)).softmax(axis)


def without_deleted(query, keys, target):
    rows = []
    for d in range(len(query)):
        rest = [other for other in range(len(query)) if other != d]
        rows.append(torch.softmax(keys[:, rest] @ query[rest] / len(query) ** 0.5, 0))
    return torch.stack(rows).T[target]


def without_leads(query, keys, target):
    """The weight of the target from its differences to the other scores."""
    products = query * keys / root(query)
    behind = products - products[target]  # (key, head_dim)
    return 1 / (behind.sum(-1, keepdim=True) - behind).exp().sum(0)


right(
    "weight_without_each",
    *(without_loops, without_in_query, without_by_eye, without_deleted, without_leads),
    lambda q, k, t: left(q, k)[t],
    lambda q, k, t: ((torch.einsum("d,kd->k", q, k)[:, None] - q * k) / root(q)).log_softmax(0).exp()[t],
)
peer("weight_without_each", without_in_query)


def taken_from_query(query, keys, target):
    found = torch.empty_like(query)
    for left_out in range(len(query)):
        query = query.clone()
        query[left_out] = 0
        found[left_out] = (keys @ query / root(query)).softmax(0)[target]
    return found


def by_powers(query, keys, target):
    powers = (((keys @ query)[:, None] - query * keys) / root(query)).exp()
    return powers[target] / powers.sum(0)


wrong(
    "weight_without_each",
    nothing_removed=lambda q, k, t: left(q, k, lambda s, p: s + 0 * p)[t],
    only_this_dimension=lambda q, k, t: left(q, k, lambda s, p: p)[t],
    added_not_removed=lambda q, k, t: left(q, k, torch.add)[t],
    removed_for_one_key=lambda q, k, t: torch.stack(
        [
            (k @ q).index_fill(0, torch.tensor(t), k[t] @ q - q[d] * k[t, d]).div(root(q)).softmax(0)[t]
            for d in range(len(q))
        ]
    ),
    one_after_the_other=taken_from_query,
    softmax_over_dimensions=lambda q, k, t: left(q, k, axis=1)[t],
    old_sum=lambda q, k, t: ((k[t] @ q - q * k[t]) / root(q)).exp() / (k @ q / root(q)).exp().sum(),
    change_not_weight=lambda q, k, t: (k @ q / root(q)).softmax(0)[t] - left(q, k)[t],
    scores_not_weights=lambda q, k, t: (k[t] @ q - q * k[t]) / root(q),
    other_key=lambda q, k, t: left(q, k)[0],
    all_keys_returned=lambda q, k, t: left(q, k),
    keys_together=lambda q, k, t: left(q, k).mean(0),
    weight_of_the_rest=lambda q, k, t: left(q, k)[[i for i in range(len(k)) if i != t]].sum(0),
    column_for_row=lambda q, k, t: left(q, k)[:, t],
    keys_transposed=lambda q, k, t: left(q, k.T)[t],
    no_keepdim=lambda q, k, t: ((k @ q - q * k) / root(q)).softmax(0)[t],
    sum_over_keys=lambda q, k, t: (((q * k).sum(0) - q * k) / root(q)).softmax(0)[t],
    products_not_scaled=lambda q, k, t: ((k @ q)[:, None] / root(q) - q * k).softmax(0)[t],
    one_less_in_the_root=lambda q, k, t: (((k @ q)[:, None] - q * k) / math.sqrt(len(q) - 1)).softmax(0)[t],
    root_after_softmax=lambda q, k, t: ((k @ q)[:, None] - q * k).softmax(0)[t] / root(q),
    scaled_by_number_of_keys=lambda q, k, t: (((k @ q)[:, None] - q * k) / len(k) ** 0.5).softmax(0)[t],
    keys_alone=lambda q, k, t: ((k.sum(1)[:, None] - k) / root(q)).softmax(0)[t],
    overflow_on_large_scores=by_powers,
    not_divided_by_sum=lambda q, k, t: ((k[t] @ q - q * k[t]) / root(q)).exp(),
    each_score_alone=lambda q, k, t: ((k[t] @ q - q * k[t]) / root(q)).sigmoid(),
    no_scaling=lambda q, k, t: ((k @ q)[:, None] - q * k).softmax(0)[t],
    axis_is_not_there=lambda q, k, t: (q @ k.T).sum(1)[t],
)

# ---------------------------------------------------------------------------------------- strongest leads


def dimensions_loop(query, keys, target, count):
    leads, found = [], []
    for d in range(len(query)):
        products = [query[d].item() * key[d].item() for key in keys]
        leads.append(products[target] - sum(products) / len(products))
    for _ in range(count):
        best = max(range(len(leads)), key=leads.__getitem__)
        found.append(best)
        leads[best] = -math.inf
    return found


def of_others(query, keys, target):
    """The lead over the mean of the other keys: larger by a factor, in the same order."""
    others = [place for place in range(len(keys)) if place != target]
    return query * keys[target] - (query * keys[others]).mean(dim=0)


def lead(q, k, t):
    return q * (k[t] - k.mean(0))


right(
    "strongest_dimensions",
    dimensions_loop,
    lambda q, k, t, n: of_others(q, k, t).topk(n).indices,
    lambda q, k, t, n: lead(q, k, t).topk(n).indices,
    lambda q, k, t, n: lead(q, k, t).argsort(descending=True)[:n].tolist(),
    lambda q, k, t, n: np.argsort(-of_others(q, k, t).numpy())[:n],
    lambda q, k, t, n: tuple(sorted(range(len(q)), key=lambda d: -lead(q, k, t)[d])[:n]),
    lambda q, k, t, n: torch.sort(lead(q, k, t) / root(q), descending=True)[1][:n],
    lambda q, k, t, n: list(((q * k)[t] * len(k) - (q * k).sum(0)).argsort().flip(0)[:n]),
)
peer("strongest_dimensions", dimensions_loop)
fresh(
    "strongest_dimensions",
    *(
        ((made_numbers(d, start=n) * 5 + torch.arange(d) / 9), made_numbers(n, d, start=d) * 7, t, c)
        for n, d, t, c in ((5, 6, 1, 2), (3, 5, 2, 5), (6, 8, 4, 3))
    ),
)
wrong(
    "strongest_dimensions",
    first_places=lambda q, k, t, n: [*range(n)],
    product_not_lead=lambda q, k, t, n: (q * k[t]).topk(n).indices,
    lead_over_the_best=lambda q, k, t, n: (q * k[t] - (q * k).max(0).values).topk(n).indices,
    lead_over_one_key=lambda q, k, t, n: (q * (k[t] - k[0])).topk(n).indices,
    mean_over_dimensions=lambda q, k, t, n: (q * k[t] - (q * k).sum(1) / len(q)).topk(n).indices,
    spread_divided_out=lambda q, k, t, n: (lead(q, k, t) / (q * k).std(0)).topk(n).indices,
    sum_not_mean=lambda q, k, t, n: (
        (q * k[t] - sum(q * key for i, key in enumerate(k) if i != t)).topk(n).indices
    ),
    mean_alone=lambda q, k, t, n: (q * k.sum(0)).topk(n)[1],
    other_target=lambda q, k, t, n: lead(q, k, 0).topk(n).indices,
    weakest_first=lambda q, k, t, n: lead(q, k, t).argsort()[:n],
    sign_ignored=lambda q, k, t, n: (lead(q, k, t) ** 2).topk(n).indices,
    query_alone=lambda q, k, t, n: k[t].abs().topk(n).indices,
    added_not_multiplied=lambda q, k, t, n: (q + k[t]).argsort(descending=True)[:n],
    difference_not_product=lambda q, k, t, n: (q - k[t]).abs().topk(n, largest=False).indices.tolist(),
    two_negatives_left_out=lambda q, k, t, n: lead(q.clamp(min=0), k.clamp(min=0), t).argsort(
        descending=True
    )[:n],
    above_zero_only=lambda q, k, t, n: [d for d in dimensions_loop(q, k, t, n) if lead(q, k, t)[d] > 0],
    counted_from_one=lambda q, k, t, n: [place + 1 for place in dimensions_loop(q, k, t, n)],
    strongest_last=lambda q, k, t, n: lead(q, k, t).argsort()[-n:],
    in_order_of_places=lambda q, k, t, n: sorted(dimensions_loop(q, k, t, n)),
    count_ignored=lambda q, k, t, n: [lead(q, k, t).argmax().item()],
    one_too_few_or_many=lambda q, k, t, n: lead(q, k, t).argsort(descending=True)[1 : n + 1],
    values_of_topk=lambda q, k, t, n: lead(q, k, t).sort(descending=True)[0][:n],
    pair_of_topk=lambda q, k, t, n: lead(q, k, t).topk(n),
    ranks_not_places=lambda q, k, t, n: (-lead(q, k, t)).argsort().argsort()[:n],
    more_than_there_are=lambda q, k, t, n: (k[t] @ q).topk(n).indices,
)
