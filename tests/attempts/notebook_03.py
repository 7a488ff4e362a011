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
    lambda n: torch.eye(n).cumsum(dim=0).T.flip(0, 1).bool(),
    lambda n: torch.stack([torch.arange(n) <= query for query in range(n)]),
    lambda n: torch.tensor([[key <= query for key in range(n)] for query in range(n)]),
    lambda n: torch.arange(1, n + 1).unsqueeze(1) > torch.arange(n).unsqueeze(0),
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
    lambda n: causal_loops(n).long(),
    lambda n: causal_loops(n).int(),
    lambda n: torch.ones(n, n, dtype=torch.uint8).tril(),
)
wrong(
    "causal_mask",
    "looks_one_ahead",
    lambda n: torch.ones(n, n, dtype=torch.bool).tril(1),
    lambda n: torch.arange(n)[:, None] + 1 >= torch.arange(n),
    lambda n: torch.ones(n, n).triu(2) == 0,
)
wrong(
    "causal_mask",
    "allows_everything",
    lambda n: torch.ones(n, n, dtype=torch.bool),
    lambda n: torch.ones(n, n).bool(),
)
wrong(
    "causal_mask",
    "only_itself",
    lambda n: torch.eye(n, dtype=torch.bool),
    lambda n: torch.arange(n)[:, None] == torch.arange(n),
)
wrong("causal_mask", "mirrored", lambda n: causal_loops(n).flip(1), lambda n: causal_loops(n).flip(0))
wrong(
    "causal_mask",
    "not_square",
    lambda n: causal_loops(4),
    lambda n: causal_loops(n + 1),
    lambda n: causal_loops(n - 1),
)
wrong("causal_mask", "not_square", lambda n: causal_loops(n)[None].expand(2, n, n))
wrong(
    "causal_mask",
    "not_square",
    lambda n: torch.arange(n) >= 0,
    lambda n: torch.ones(n, n + 1, dtype=torch.bool).tril(),
    lambda n: causal_loops(n)[:, :, None],
)
unlisted(
    "causal_mask",
    lambda n: causal_loops(n).tolist(),
    lambda n: causal_loops(n).numpy(),
    lambda n: (causal_loops(n), n),
)
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
    lambda m: m.view(len(m), 1, 1, -1).bool(),
    lambda m: torch.logical_not(m == 0)[:, None, None],
    lambda m: (m > 0)[:, None, None, :].expand(-1, 1, m.shape[1], -1),
    lambda m: torch.stack([(row == 1).repeat(1, len(row), 1) for row in m]),
    lambda m: m.bool().reshape(m.shape[0], 1, 1, m.shape[1]),
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
wrong(
    "padding_mask",
    "masks_queries_too",
    lambda m: (m[:, None, :, None] * m[:, None, None, :]).bool(),
    lambda m: m.bool()[:, None, :, None] & m.bool()[:, None, None],
)
wrong(
    "padding_mask",
    "allows_everything",
    lambda m: torch.ones_like(m)[:, None, None, :].bool(),
    lambda m: (m >= 0)[:, None, None, :],
)
wrong(
    "padding_mask",
    "wrong_dtype_or_value",
    lambda m: m[:, None, None, :],
    lambda m: m.unsqueeze(1).unsqueeze(2).float(),
    lambda m: (1.0 - m[:, None, None, :]) * -1e9,
    lambda m: torch.zeros(m.shape)[:, None, None].masked_fill(m[:, None, None] == 0, -math.inf),
    lambda m: (1.0 - m[:, None, None, :]) * torch.finfo(torch.float32).min,
)
wrong(
    "padding_mask",
    "counts_tokens",
    lambda m: (torch.arange(m.shape[1]) < m.sum(dim=1, keepdim=True))[:, None, None, :],
)
wrong(
    "padding_mask",
    "first_sentence_only",
    lambda m: m[0].bool(),
    lambda m: m[:1, None, None, :] == 1,
)
wrong(
    "padding_mask",
    "causal_too",
    lambda m: (m[:, None, None, :] == 1) & torch.ones(m.shape[1], m.shape[1]).tril().bool(),
)
wrong(
    "padding_mask",
    "does_not_broadcast",
    lambda m: m.bool().T,
    lambda m: m.bool().unsqueeze(-1).unsqueeze(-1),
    lambda m: m.bool()[:, None, None, None],
    lambda m: m[:, None, :, :, None].bool() if m.dim() == 3 else m.bool().flatten(),
)
unlisted(
    "padding_mask",
    lambda m: (m[:, None, None, :] == 1).tolist(),
    lambda m: (m[:, None, None, :] == 1).numpy(),
    lambda m: ((m == 1)[:, None, None], m),
)
wrong("padding_mask", "masks_queries_not_keys", lambda m: m.unsqueeze(-1).bool())
wrong("padding_mask", "does_not_broadcast", lambda m: m[None, None].bool())


# ------------------------------------------------------------------------------------------------ window_mask


def window_loops(seq_len, size):
    rows = [[0 <= query - key < size for key in range(seq_len)] for query in range(seq_len)]
    return torch.tensor(rows)


def window_slices(seq_len, size):
    mask = torch.zeros(seq_len, seq_len, dtype=torch.bool)
    for query in range(seq_len):
        mask[query, max(0, query - size + 1) : query + 1] = True
    return mask


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
    lambda n, size: (distance(n) >= 0) ^ (distance(n) >= size),
    lambda n, size: ~torch.ones(n, n).triu(1).bool() & torch.ones(n, n).triu(1 - size).bool(),
    lambda n, size: torch.isin(distance(n), torch.arange(size)),
    lambda n, size: sum(torch.eye(n).roll(-k, 1).tril(-k) for k in range(min(n, size))) == 1,
    window_slices,
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
wrong(
    "window_mask",
    "looks_ahead",
    lambda n, size: distance(n) < size,
    lambda n, size: distance(n).abs() <= size,
    lambda n, size: (distance(n) <= 0) & (distance(n) > -size),
    lambda n, size: distance(n).abs() <= size // 2,
)
wrong(
    "window_mask",
    "without_itself",
    lambda n, size: (distance(n) > 0) & (distance(n) <= size),
    lambda n, size: (distance(n) > 0) & (distance(n) < size),
    lambda n, size: torch.ones(n, n).tril(-1).triu(-size).bool(),
)
wrong(
    "window_mask",
    "inverted",
    lambda n, size: ~window_loops(n, size),
    lambda n, size: (distance(n) < 0) | (distance(n) >= size),
)
wrong(
    "window_mask",
    "size_ignored",
    lambda n, size: torch.ones(n, n, dtype=torch.bool).tril(),
    lambda n, size: distance(n) >= 0,
    lambda n, size: window_loops(n, 3),
)
wrong(
    "window_mask",
    "window_does_not_move",
    lambda n, size: (distance(n) >= 0) & (torch.arange(n) >= n - size),
    lambda n, size: (torch.arange(n) >= n - size).expand(n, n),
    lambda n, size: (distance(n) >= 0) & (torch.arange(n) < size),
)
wrong(
    "window_mask",
    "blocks",
    lambda n, size: (distance(n) >= 0) & (torch.arange(n)[:, None] // size == torch.arange(n) // size),
)
wrong(
    "window_mask",
    "beyond_the_window",
    lambda n, size: distance(n) >= size,
    lambda n, size: torch.ones(n, n).tril(-size).bool(),
)
wrong(
    "window_mask",
    "wrong_dtype_or_value",
    lambda n, size: window_loops(n, size).float(),
    lambda n, size: window_loops(n, size).long(),
    lambda n, size: torch.ones(n, n).tril().triu(1 - size),
    lambda n, size: torch.zeros(n, n).masked_fill(~window_loops(n, size), -math.inf),
)
wrong(
    "window_mask",
    "not_square",
    lambda n, size: window_loops(size, n),
    lambda n, size: window_loops(6, size),
    lambda n, size: window_loops(n, size)[-1],
)
unlisted(
    "window_mask",
    lambda n, size: window_loops(n, size).tolist(),
    lambda n, size: window_loops(n, size).numpy(),
    lambda n, size: (window_loops(n, size), size),
)
wrong("causal_mask", "allows_nothing", lambda n: torch.zeros(n, n, dtype=torch.bool))
wrong("padding_mask", "allows_nothing", lambda m: torch.zeros_like(m)[:, None, None, :].bool())
wrong("window_mask", "allows_nothing", lambda n, size: torch.zeros(n, n, dtype=torch.bool))


# ------------------------------------------------------------------------------------- one more of each mistake


def window_from_below_zero(seq_len, size):
    mask = torch.zeros(seq_len, seq_len, dtype=torch.bool)
    for query in range(seq_len):
        mask[query, query + 1 - size : query + 1] = True
    return mask


for misconception, attempt in {
    "only_one_before": lambda seq_len: distance(seq_len) == 1,
    "upper_without_diagonal_allowed": lambda seq_len: distance(seq_len) != 0,
    "row_left_out": lambda seq_len: (distance(seq_len) >= 0) & (torch.arange(seq_len)[:, None] > 0),
    "axes_in_front": lambda seq_len: (distance(seq_len) >= 0)[None, None],
}.items():
    wrong("causal_mask", misconception, attempt)
wrong("padding_mask", "pads_moved", lambda mask: mask.bool()[:, None, None].roll(1, -1))
for misconception, attempt in {
    "one_place_only": lambda seq_len, size: distance(seq_len) == size - 1,
    "every_nth_token": lambda seq_len, size: (distance(seq_len) >= 0) & (distance(seq_len) % size == 0),
    "axes_in_front": lambda seq_len, size: window_loops(seq_len, size)[None],
    "slice_from_below_zero": window_from_below_zero,
}.items():
    wrong("window_mask", misconception, attempt)
