"""Attempts at the exercises of notebook 03; those at attention stand in attention.py."""

import math

import numpy as np
import torch
from torch import nn

from .tables import right, unlisted, wrong

# ------------------------------------------------------------------------------------------------ causal_mask


def causal_loops(seq_len):
    mask = torch.zeros(seq_len, seq_len, dtype=torch.bool)
    for query in range(seq_len):
        for key in range(query + 1):
            mask[query, key] = True
    return mask


right(
    "causal_mask",
    causal_loops,
    lambda n: torch.tril(torch.ones(n, n, dtype=torch.bool)),
    lambda n: torch.arange(n)[:, None] >= torch.arange(n),
    lambda n: ~torch.triu(torch.ones(n, n), diagonal=1).bool(),
    lambda n: torch.ones(n, n, dtype=torch.long).tril()[None, None],
    lambda n: torch.from_numpy(np.tril(np.ones((n, n), dtype=bool))),
    lambda n: nn.Transformer.generate_square_subsequent_mask(n) == 0,
)
wrong(
    "causal_mask",
    "upper_instead_of_lower",
    lambda n: torch.ones(n, n, dtype=torch.bool).triu(),
    lambda n: torch.arange(n)[:, None] <= torch.arange(n),
    lambda n: causal_loops(n).T,
)
wrong(
    "causal_mask",
    "excludes_itself",
    lambda n: torch.ones(n, n, dtype=torch.bool).tril(-1),
    lambda n: torch.arange(n)[:, None] > torch.arange(n),
)
wrong(
    "causal_mask",
    "inverted",
    lambda n: torch.triu(torch.ones(n, n), diagonal=1).bool(),
    lambda n: ~causal_loops(n),
)
wrong(
    "causal_mask",
    "wrong_dtype_or_value",
    lambda n: torch.tril(torch.ones(n, n)),
    lambda n: torch.zeros(n, n).masked_fill(~causal_loops(n), -math.inf),
    lambda n: nn.Transformer.generate_square_subsequent_mask(n),
    lambda n: causal_loops(n).long() - 1,
)
wrong(
    "causal_mask",
    "not_square",
    lambda n: torch.arange(n) >= 0,
    lambda n: torch.ones(n, n + 1, dtype=torch.bool).tril(),
    lambda n: causal_loops(n)[:, :, None],
)
unlisted("causal_mask", lambda n: torch.ones(n, n, dtype=torch.bool), lambda n: causal_loops(n).flip(1))
wrong("causal_mask", "upper_instead_of_lower", lambda n: torch.triu(torch.ones(n, n)))
wrong("causal_mask", "excludes_itself", lambda n: torch.tril(torch.ones(n, n), diagonal=-1))
wrong(
    "causal_mask",
    "not_square",
    lambda n: torch.ones(1, n, dtype=torch.bool),
    lambda n: torch.tril(torch.ones(n - 1, n)),
)


# ----------------------------------------------------------------------------------------------- padding_mask


def padding_loops(attention_mask):
    batch, key = attention_mask.shape
    mask = torch.zeros(batch, 1, key, key, dtype=torch.bool)
    for sentence in range(batch):
        for place in range(key):
            mask[sentence, 0, :, place] = attention_mask[sentence, place] == 1
    return mask


right(
    "padding_mask",
    padding_loops,
    lambda m: m[:, None, None, :].bool(),
    lambda m: m.unsqueeze(1).unsqueeze(1) == 1,
    lambda m: m.view(len(m), 1, 1, -1),
    lambda m: torch.einsum("bk,bq->bqk", m, torch.ones_like(m))[:, None] > 0,
)
wrong(
    "padding_mask",
    "inverted",
    lambda m: m[:, None, None, :] == 0,
    lambda m: ~m.bool().unsqueeze(1).unsqueeze(2),
    lambda m: 1 - m[:, None, None],
)
wrong(
    "padding_mask",
    "masks_queries_not_keys",
    lambda m: m[:, None, :, None] == 1,
    lambda m: m.bool()[:, None, :, None].expand(-1, -1, -1, m.shape[1]),
)
wrong(
    "padding_mask",
    "does_not_broadcast",
    lambda m: m == 1,
    lambda m: m[:, None, :].bool(),
    lambda m: m.bool()[:, :, None, None],
)
unlisted(
    "padding_mask",
    lambda m: (m[:, None, :, None] * m[:, None, None, :]).bool(),
    lambda m: torch.ones_like(m)[:, None, None, :].bool(),
    lambda m: (1.0 - m[:, None, None, :]) * -1e9,
)
wrong("padding_mask", "masks_queries_not_keys", lambda m: m.unsqueeze(-1).bool())
wrong("padding_mask", "does_not_broadcast", lambda m: m[None, None].bool())


# ------------------------------------------------------------------------------------------------ window_mask


def window_loops(seq_len, size):
    rows = [[0 <= query - key < size for key in range(seq_len)] for query in range(seq_len)]
    return torch.tensor(rows)


def distance(seq_len):
    return torch.arange(seq_len)[:, None] - torch.arange(seq_len)


right(
    "window_mask",
    window_loops,
    lambda n, size: (
        torch.ones(n, n, dtype=torch.bool).tril() & ~torch.ones(n, n, dtype=torch.bool).tril(-size)
    ),
    lambda n, size: torch.ones(n, n).tril().triu(1 - size).bool(),
    lambda n, size: (distance(n) >= 0) & (distance(n) < size),
)
wrong(
    "window_mask",
    "window_too_long",
    lambda n, size: torch.ones(n, n).tril().triu(-size).bool(),
    lambda n, size: (distance(n) >= 0) & (distance(n) <= size),
)
wrong(
    "window_mask",
    "window_too_short",
    lambda n, size: torch.ones(n, n).tril().triu(2 - size).bool(),
    lambda n, size: (distance(n) >= 0) & (distance(n) < size - 1),
)
wrong(
    "window_mask",
    "looks_ahead",
    lambda n, size: ~torch.ones(n, n, dtype=torch.bool).tril(-size),
    lambda n, size: distance(n).abs() < size,
    lambda n, size: window_loops(n, size).T,
)
unlisted(
    "window_mask",
    lambda n, size: (distance(n) > 0) & (distance(n) <= size),
    lambda n, size: torch.ones(n, n, dtype=torch.bool).tril(),
)
