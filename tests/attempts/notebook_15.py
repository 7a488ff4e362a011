"""Attempts at the exercises of notebook 15."""

import itertools
import math

import numpy as np
import torch

from .tables import peer, right, wrong


def extreme_by_loop(effect, controls):
    everyone = [effect, *controls.tolist()]
    return sum(1 for one in everyone if abs(one) >= abs(effect)) / len(everyone)


def extreme_by_sorting(effect, controls):
    order = np.sort(np.abs(np.append(controls.numpy(), effect)))
    return 1 - np.searchsorted(order, abs(effect)) / len(order)


right(
    "as_extreme",
    *(extreme_by_loop, extreme_by_sorting),
    lambda e, c: torch.cat([c, torch.tensor([e])]).abs().ge(abs(e)).float().mean(),
    lambda e, c: (1 + int(torch.count_nonzero(c**2 >= e**2))) / (1 + c.numel()),
)
peer("as_extreme", extreme_by_loop)
wrong(
    "as_extreme",
    itself_not_counted=lambda e, c: (c.abs() >= abs(e)).float().mean(),
    itself_only_below=lambda e, c: sum(abs(x) >= abs(e) for x in c.tolist()) / (len(c) + 1),
    itself_only_above=lambda e, c: (sum(abs(x) >= abs(e) for x in c.tolist()) + 1) / len(c),
    one_side_only=lambda e, c: (1 + (c >= e).sum()) / (1 + len(c)),
    equal_left_out=lambda e, c: (1 + (c.abs() > abs(e)).sum()) / (1 + len(c)),
    mean_taken_off=lambda e, c: extreme_by_loop(e, c - c.mean()),
    smaller_ones_counted=lambda e, c: (1 + (c.abs() < abs(e)).sum()) / (1 + len(c)),
    not_a_share=lambda e, c: 1 + (c.abs() >= abs(e)).sum(),
    the_rest=lambda e, c: 1 - extreme_by_loop(e, c),
)


def moved_by_loop(weights, sent):
    found = torch.zeros_like(weights)
    for query, row in enumerate(weights):
        for key in range(len(sent)):
            others = [place for place in range(len(sent)) if place != key]
            without = row[others] @ sent[others] / row[others].sum()
            found[query, key] = math.dist(without.tolist(), (row @ sent).tolist())
    return found


def moved_by_masks(weights, sent):
    itself = torch.eye(len(sent), dtype=torch.bool)
    kept = weights[:, None].masked_fill(itself, 0)  # (query, hidden key, key)
    return (kept / kept.sum(-1, keepdim=True) @ sent - (weights @ sent)[:, None]).pow(2).sum(-1).sqrt()


def moved_by_scores(weights, sent):
    itself = torch.eye(len(sent), dtype=torch.bool)
    scores = weights.log()[:, None].masked_fill(itself, -torch.inf)  # (query, hidden key, key)
    return torch.linalg.vector_norm(scores.softmax(-1) @ sent - (weights @ sent)[:, None], dim=-1)


right(
    "moved_without",
    *(moved_by_loop, moved_by_masks, moved_by_scores),
    lambda w, s: w / (1 - w) * torch.cdist(w @ s, s),
)
peer("moved_without", moved_by_loop)


def moved(without, length=lambda x: x.norm(dim=-1)):
    return lambda w, s: length(without(w[..., None], s, (w @ s)[:, None]) - (w @ s)[:, None])


def shared_out(w, s, output):
    return (output - w * s) / (1 - w)


wrong(
    "moved_without",
    difference_of_lengths=lambda w, s: (
        shared_out(w[..., None], s, (w @ s)[:, None]).norm(dim=-1) - (w @ s).norm(dim=1, keepdim=True)
    ),
    softmax_again=moved(lambda w, s, _: (w.mT + (1 - torch.eye(len(s))).log()).softmax(-1) @ s),
    not_shared_out=lambda w, s: w * s.norm(dim=-1),
    divided_by_the_weight=moved(lambda w, s, output: (output - w * s) / w),
    multiplied_by_the_rest=moved(lambda w, s, output: (output - w * s) * (1 - w)),
    length_of_the_output=lambda w, s: shared_out(w[..., None], s, (w @ s)[:, None]).norm(dim=-1),
    only_the_key_stays=lambda w, s: torch.cdist(w @ s, s),
    squares_not_rooted=moved(shared_out, lambda x: (x**2).sum(-1)),
    not_squared=moved(shared_out, lambda x: x.norm(p=1, dim=-1)),
    mean_of_squares=moved(shared_out, lambda x: (x**2).mean(-1) ** 0.5),
    weight_not_applied=moved(lambda w, s, output: (output - s) / (1 - w)),
    keys_and_queries_exchanged=lambda w, s: moved_by_loop(w, s).T,
    value_zeroed_and_scaled=lambda w, s: moved_by_loop(w, s) / (w @ s).norm(dim=1)[:, None],
)


def pairs_of(added, lost):
    return list(itertools.combinations(zip(added.tolist(), lost.tolist(), strict=True), 2))


def order_by_loop(added, lost):
    agreed = [(a[0] > b[0]) == (a[1] > b[1]) for a, b in pairs_of(added, lost)]
    return sum(agreed) / len(agreed)


def order_by_signs(added, lost):
    same = torch.sign(added[:, None] - added) * torch.sign(lost[:, None] - lost)
    return (same > 0).sum() / (len(added) * (len(added) - 1))


def order_by_sorting(added, lost):
    pairs = list(itertools.combinations(lost[added.argsort()].tolist(), 2))
    return sum(low < high for low, high in pairs) / len(pairs)


right(
    "same_order",
    *(order_by_loop, order_by_signs, order_by_sorting),
    lambda a, x: torch.tensor([(p[0] - q[0]) * (p[1] - q[1]) > 0 for p, q in pairs_of(a, x)]).double().mean(),
)
peer("same_order", order_by_loop)
wrong(
    "same_order",
    larger_in_both=lambda a, x: np.mean([p[0] > q[0] and p[1] > q[1] for p, q in pairs_of(a, x)]),
    zeros_counted=lambda a, x: order_by_loop(a, x) * len(pairs_of(a, x)) / len(a) ** 2,
    head_with_itself=lambda a, x: ((a[:, None] > a) == (x[:, None] > x)).double().mean(),
    kendalls_tau=lambda a, x: 2 * order_by_loop(a, x) - 1,
    other_order_counted=lambda a, x: 1 - order_by_loop(a, x),
    neighbours_only=lambda a, x: ((a.diff() > 0) == (x.diff() > 0)).double().mean(),
    signs_compared=lambda a, x: (a.sign() == x.sign()).double().mean(),
    places_compared=lambda a, x: (a.sort().indices == x.sort().indices).double().mean(),
    not_a_share=lambda a, x: sum((p[0] > q[0]) == (p[1] > q[1]) for p, q in pairs_of(a, x)),
    rank_correlation=lambda a, x: np.corrcoef(a.argsort().argsort(), x.argsort().argsort())[0, 1],
    correlation=lambda a, x: np.corrcoef(a, x)[0, 1],
    size_of_loss=lambda a, x: order_by_loop(a, x.abs()),
)
