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


right(
    "query_key_product",
    product_loops,
    lambda q, k: (q * k, (q * k).sum(dim=-1) / math.sqrt(len(q))),
    lambda q, k: (torch.einsum("d,kd->kd", q, k), k @ q * len(q) ** -0.5),
    lambda q, k: {"products": k * q, "scores": torch.from_numpy(k.numpy() @ q.numpy() / np.sqrt(len(q)))},
)
wrong("query_key_product", "no_scaling", lambda q, k: (q * k, k @ q), lambda q, k: (q * k, (q * k).sum(1)))
wrong(
    "query_key_product",
    "scaled_by_d",
    lambda q, k: (q * k, k @ q / len(q)),
    lambda q, k: (q * k, (q * k).mean(dim=-1)),
)
wrong(
    "query_key_product",
    "sum_over_keys",
    lambda q, k: (q * k, (q * k).sum(dim=0) / math.sqrt(len(q))),
    lambda q, k: (q * k, sum(q * row for row in k)),
)
unlisted(
    "query_key_product",
    lambda q, k: (q + k, k @ q / math.sqrt(len(q))),
    lambda q, k: q * k,
    lambda q, k: (q * k, (k @ q / math.sqrt(len(q))).softmax(0)),
)


def row_loops(query, keys):
    scores = [
        sum(a * b for a, b in zip(query.tolist(), key.tolist(), strict=True)) / math.sqrt(len(key))
        for key in keys
    ]
    powers = [math.exp(score) for score in scores]
    return torch.tensor([power / sum(powers) for power in powers])


right(
    "weights_of_token",
    row_loops,
    lambda q, k: (k @ q / math.sqrt(len(q))).softmax(dim=0),
    lambda q, k: F.softmax(q[None] @ k.T / q.shape[-1] ** 0.5, dim=-1),
    lambda q, k: F.scaled_dot_product_attention(q[None, None], k[None], torch.eye(len(k))[None])[0, 0],
)
wrong(
    "weights_of_token",
    "no_scaling",
    lambda q, k: (k @ q).softmax(0),
    lambda q, k: F.softmax((q * k).sum(-1), dim=-1),
)
wrong(
    "weights_of_token",
    "scaled_by_d",
    lambda q, k: (k @ q / len(q)).softmax(0),
    lambda q, k: (q * k).mean(-1).softmax(-1),
)
wrong(
    "weights_of_token",
    "scaled_by_sequence_length",
    lambda q, k: (k @ q / math.sqrt(len(k))).softmax(0),
    lambda q, k: (torch.mv(k, q) / k.shape[0]).softmax(0),
)
wrong(
    "weights_of_token",
    "no_softmax",
    lambda q, k: k @ q / math.sqrt(len(q)),
    lambda q, k: (q * k).sum(-1),
    lambda q, k: k @ q / sum(k @ q),
)
unlisted(
    "weights_of_token",
    lambda q, k: (k @ q / math.sqrt(len(q))).sigmoid(),
    lambda q, k: (q * k / math.sqrt(len(q))).softmax(0).sum(-1),
)


def neurons_loop(query, key, count):
    products, found = (query * key).tolist(), []
    for _ in range(count):
        best = max(range(len(products)), key=products.__getitem__)
        found.append(best)
        products[best] = -math.inf
    return found


right(
    "strongest_neurons",
    neurons_loop,
    lambda q, k, n: (q * k).topk(n).indices,
    lambda q, k, n: (q * k).argsort(descending=True)[:n].tolist(),
    lambda q, k, n: np.argsort(-(q * k).numpy())[:n],
    lambda q, k, n: tuple(sorted(range(len(q)), key=lambda i: -q[i] * k[i])[:n]),
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
)
wrong(
    "strongest_neurons",
    "counted_from_one",
    lambda q, k, n: (q * k).topk(n).indices + 1,
    lambda q, k, n: [place + 1 for place in neurons_loop(q, k, n)],
)
unlisted(
    "strongest_neurons",
    lambda q, k, n: (q * k).topk(n).values,
    lambda q, k, n: (q + k).topk(n).indices,
    lambda q, k, n: (q * k).topk(n).indices.flip(0),
)
