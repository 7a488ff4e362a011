"""Attempts at the exercises of notebook 08."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from .tables import right, unlisted, wrong


def product_loops(query, keys):
    products = torch.zeros_like(keys)
    scores = []
    for token, key in enumerate(keys):
        for neuron in range(len(query)):
            products[token, neuron] = query[neuron] * key[neuron]
        scores.append(sum(products[token]) / len(query) ** 0.5)
    return products, torch.stack(scores)


def root(query):
    return math.sqrt(len(query))


right(
    "query_key_product",
    product_loops,
    lambda q, k: (q * k, (q * k).sum(dim=-1) / math.sqrt(len(q))),
    lambda q, k: (torch.einsum("d,kd->kd", q, k), k @ q * len(q) ** -0.5),
    lambda q, k: {"products": k * q, "scores": torch.from_numpy(k.numpy() @ q.numpy() / np.sqrt(len(q)))},
    lambda q, k: [k @ q.diag(), (q / q.numel() ** 0.25) @ (k.T / q.numel() ** 0.25)],
    lambda q, k: (q.expand_as(k).mul(k), F.linear(q, k) / torch.tensor(k.shape[1]).sqrt()),
    lambda q, k: (torch.stack([q * key for key in k]), torch.stack([q @ key for key in k]) / root(q)),
)
# Ways to divide wrongly: they give scores.
DIVIDED_WRONGLY = {
    "no_scaling": [lambda q, k: k @ q, lambda q, k: (q * k).sum(1)],
    "scaled_by_d": [lambda q, k: k @ q / len(q), lambda q, k: (q * k).mean(dim=-1)],
    "scaled_by_sequence_length": [
        lambda q, k: k @ q / math.sqrt(len(k)),
        lambda q, k: torch.mv(k, q) / k.shape[0],
        lambda q, k: (q * k).sum(-1) / k.size(0) ** 0.5,
    ],
    "fixed_divisor": [lambda q, k: k @ q / math.sqrt(32), lambda q, k: k @ q / 8],
    "multiplied_by_root": [lambda q, k: k @ q * math.sqrt(len(q))],
    "keys_transposed": [lambda q, k: k.T @ q / root(q), lambda q, k: q @ k / root(q), lambda q, k: q @ k],
}
for name, found in DIVIDED_WRONGLY.items():
    wrong("query_key_product", name, *(lambda q, k, like=like: (q * k, like(q, k)) for like in found))
    wrong("weights_of_token", name, *(lambda q, k, like=like: like(q, k).softmax(-1) for like in found))
wrong(
    "query_key_product",
    "sum_over_keys",
    lambda q, k: (q * k, (q * k).sum(dim=0) / math.sqrt(len(q))),
    lambda q, k: (q * k, sum(q * row for row in k)),
)
wrong(
    "query_key_product",
    "products_scaled",
    lambda q, k: (q * k / root(q), (q * k).sum(-1) / root(q)),
    lambda q, k: (q * k / root(q), (q * k / root(q)).sum(-1)),
    lambda q, k: (q * k / root(q), (q * k / root(q)).sum(-1) / root(q)),
)
wrong(
    "query_key_product",
    "softmaxed_scores",
    lambda q, k: (q * k, (k @ q / math.sqrt(len(q))).softmax(0)),
    lambda q, k: (q * k, F.softmax(k @ q, dim=0)),
)
wrong("query_key_product", "one_sum_for_all", lambda q, k: (q * k, (q * k).sum() / root(q)))
wrong("query_key_product", "not_added_up", lambda q, k: (q * k, q * k / root(q)), lambda q, k: (q * k, q * k))
wrong("query_key_product", "products_added_up", lambda q, k: (k @ q, k @ q / root(q)))
wrong(
    "query_key_product",
    "added_not_multiplied",
    lambda q, k: (q + k, k @ q / math.sqrt(len(q))),
    lambda q, k: (k + q, (k + q).sum(1) / root(q)),
)
wrong("query_key_product", "exchanged", lambda q, k: (k @ q / root(q), q * k))
unlisted(
    "query_key_product",
    lambda q, k: q * k,
    lambda q, k: k @ q / root(q),
    lambda q, k: (q * k, (q * k).sum(-1, keepdim=True) / root(q)),
)
wrong("query_key_product", "lengths_taken_out", lambda q, k: (q * k, F.cosine_similarity(q[None], k)))


def row_loops(query, keys):
    scores = [
        sum(a * b for a, b in zip(query.tolist(), key.tolist(), strict=True)) / math.sqrt(len(key))
        for key in keys
    ]
    powers = [math.exp(score - max(scores)) for score in scores]
    return torch.tensor([power / sum(powers) for power in powers])


def row_by_hand(query, keys):
    scores = (query * keys).sum(1) / query.shape[0] ** 0.5
    powers = torch.exp(scores - scores.max())
    return powers / powers.sum()


right(
    "weights_of_token",
    row_loops,
    row_by_hand,
    lambda q, k: (k @ q / math.sqrt(len(q))).softmax(dim=0),
    lambda q, k: F.softmax(q[None] @ k.T / q.shape[-1] ** 0.5, dim=-1)[0],
    lambda q, k: F.scaled_dot_product_attention(q[None, None], k[None], torch.eye(len(k))[None])[0, 0],
    lambda q, k: torch.einsum("d,kd->k", q, k).div(root(q)).log_softmax(-1).exp(),
    lambda q, k: torch.softmax(torch.stack([torch.dot(q, key) for key in k]) / root(k[0]), 0),
)
wrong(
    "weights_of_token",
    "no_softmax",
    lambda q, k: k @ q / math.sqrt(len(q)),
    lambda q, k: (q * k).sum(-1),
    lambda q, k: k @ q / sum(k @ q),
)
wrong(
    "weights_of_token",
    "softmax_of_one",
    lambda q, k: (q[None] @ k.T / root(q)).softmax(0),
    lambda q, k: (k @ q[:, None] / root(q)).softmax(-1),
    lambda q, k: (k @ q[:, None] / root(q)).softmax(-1)[:, 0],
)
wrong(
    "weights_of_token",
    "softmax_before_sum",
    lambda q, k: (q * k / math.sqrt(len(q))).softmax(0).sum(-1),
    lambda q, k: (q * k / math.sqrt(len(q))).softmax(0),
    lambda q, k: (q * k / math.sqrt(len(q))).softmax(1),
)
wrong("weights_of_token", "sum_over_keys", lambda q, k: ((q * k).sum(0) / root(q)).softmax(0))
wrong(
    "weights_of_token",
    "divided_after_softmax",
    lambda q, k: (k @ q).softmax(0) / root(q),
    lambda q, k: (k @ q / root(q)).softmax(0) / root(q),
)
wrong("weights_of_token", "not_divided_by_sum", lambda q, k: (k @ q / root(q)).exp())
wrong("weights_of_token", "applied_to_keys", lambda q, k: (k @ q / root(q)).softmax(0) @ k)
wrong("weights_of_token", "softmax_twice", lambda q, k: (k @ q / root(q)).softmax(0).softmax(0))
unlisted(
    "weights_of_token",
    lambda q, k: (-k @ q / root(q)).softmax(0),
)
wrong("weights_of_token", "axis_left_over", lambda q, k: (k @ q[:, None] / root(q)).softmax(0))


def neurons_loop(query, key, count):
    products, found = (query * key).tolist(), []
    for _ in range(count):
        best = max(range(len(products)), key=products.__getitem__)
        found.append(best)
        products[best] = -math.inf
    return found


def neurons_zip(query, key, count):
    pairs = [(a.item() * b.item(), place) for place, (a, b) in enumerate(zip(query, key, strict=True))]
    return [place for _, place in sorted(pairs, reverse=True)][:count]


right(
    "strongest_neurons",
    neurons_loop,
    neurons_zip,
    lambda q, k, n: (q * k).topk(n).indices,
    lambda q, k, n: (q * k).argsort(descending=True)[:n].tolist(),
    lambda q, k, n: np.argsort(-(q * k).numpy())[:n],
    lambda q, k, n: tuple(sorted(range(len(q)), key=lambda i: -q[i] * k[i])[:n]),
    lambda q, k, n: torch.sort(q * k / root(q), descending=True)[1][:n],
    lambda q, k, n: torch.topk((q * k).softmax(0), n)[1],
    lambda q, k, n: list((q * k).argsort().flip(0)[:n]),
)
wrong(
    "strongest_neurons",
    "weakest_first",
    lambda q, k, n: (q * k).argsort()[:n],
    lambda q, k, n: (q * k).topk(n, largest=False).indices,
)
wrong(
    "strongest_neurons",
    "sign_ignored",
    lambda q, k, n: (q * k).abs().topk(n).indices,
    lambda q, k, n: sorted(range(len(q)), key=lambda i: -((q[i] * k[i]) ** 2))[:n],
)
wrong(
    "strongest_neurons",
    "query_alone",
    lambda q, k, n: q.topk(n).indices,
    lambda q, k, n: q.abs().argsort(descending=True)[:n],
    lambda q, k, n: k.topk(n).indices,
    lambda q, k, n: k.abs().topk(n).indices,
)
wrong("strongest_neurons", "added_not_multiplied", lambda q, k, n: (q + k).topk(n).indices)
wrong(
    "strongest_neurons",
    "two_negatives_left_out",
    lambda q, k, n: (q.clamp(min=0) * k.clamp(min=0)).topk(n).indices,
    lambda q, k, n: (q * k).masked_fill((q < 0) & (k < 0), 0).topk(n).indices,
)
wrong(
    "strongest_neurons",
    "counted_from_one",
    lambda q, k, n: (q * k).topk(n).indices + 1,
    lambda q, k, n: [place + 1 for place in neurons_loop(q, k, n)],
)
wrong(
    "strongest_neurons",
    "strongest_last",
    lambda q, k, n: (q * k).topk(n).indices.flip(0),
    lambda q, k, n: (q * k).argsort()[-n:],
)
wrong(
    "strongest_neurons",
    "in_order_of_places",
    lambda q, k, n: sorted(neurons_loop(q, k, n)),
    lambda q, k, n: (q * k).topk(n).indices.sort().values,
)
wrong(
    "strongest_neurons",
    "count_ignored",
    lambda q, k, n: (q * k).argsort(descending=True),
    lambda q, k, n: (q * k).argmax(),
    lambda q, k, n: [(q * k).argmax().item()],
)
wrong(
    "strongest_neurons",
    "one_too_few_or_many",
    lambda q, k, n: (q * k).argsort(descending=True)[: n - 1],
    lambda q, k, n: (q * k).argsort(descending=True)[: n + 1],
    lambda q, k, n: (q * k).argsort(descending=True)[1 : n + 1],
)
wrong(
    "strongest_neurons",
    "above_zero_only",
    lambda q, k, n: [place for place in neurons_loop(q, k, n) if q[place] * k[place] > 0],
)
wrong(
    "strongest_neurons",
    "values_of_topk",
    lambda q, k, n: (q * k).topk(n).values,
    lambda q, k, n: (q * k).topk(n)[0],
)
wrong(
    "strongest_neurons",
    "pair_of_topk",
    lambda q, k, n: (q * k).topk(n),
    lambda q, k, n: tuple((q * k).topk(n)),
)
unlisted(
    "strongest_neurons",
    lambda q, k, n: (q - k).topk(n).indices,
    lambda q, k, n: (q * k).topk(n).indices.float() + 0.5,
)


# ------------------------------------------------------------------------------------- one more of each mistake


def scaled(q, k):
    return k @ q / root(q)


for misconception, attempt in {
    "sign_lost": lambda q, k: ((q * k).abs(), scaled(q, k)),
    "exponential_taken": lambda q, k: (q * k, scaled(q, k).exp()),
    "keys_alone": lambda q, k: (k * k, (k * k).sum(-1) / root(q)),
    "lengths_taken_out": lambda q, k: (q * k, F.cosine_similarity(q[None], k)),
    "mean_not_sum": lambda q, k: (q * k, (q * k).amax(-1)),
    "other_divisor": lambda q, k: (q * k, k @ q / (2 * len(q))),
    "sign_turned": lambda q, k: (q * k, -scaled(q, k)),
}.items():
    wrong("query_key_product", misconception, attempt)
for misconception, attempt in {
    "largest_score_only": lambda q, k: (k @ q).argmax(),
    "each_score_alone": lambda q, k: scaled(q, k).sigmoid(),
    "sign_turned": lambda q, k: (-scaled(q, k)).softmax(0),
    "axis_left_over": lambda q, k: scaled(q, k).softmax(0)[:, None],
    "overflow_on_large_scores": lambda q, k: scaled(q, k).exp() / scaled(q, k).exp().sum(),
    "scores_changed": lambda q, k: (scaled(q, k) / scaled(q, k).max()).softmax(0),
    "logarithm": lambda q, k: scaled(q, k).log_softmax(0),
    "other_divisor": lambda q, k: (k @ q / math.sqrt(len(q) - 1)).softmax(0),
}.items():
    wrong("weights_of_token", misconception, attempt)
wrong(
    "strongest_neurons",
    "difference_not_product",
    lambda q, k, count: (q - k).abs().topk(count, largest=False).indices.tolist(),
)


def without_two_negatives(q, k, count):
    products = q * k
    products[(q < 0) | (k < 0)] = -math.inf
    return products.argsort(descending=True)[:count]


wrong("strongest_neurons", "two_negatives_left_out", without_two_negatives)
wrong("strongest_neurons", "ranks_not_places", lambda q, k, n: (-q * k).argsort().argsort()[:n])
wrong("query_key_product", "rounded", lambda q, k: ((q * k).round(decimals=2), k @ q / math.sqrt(len(q))))
