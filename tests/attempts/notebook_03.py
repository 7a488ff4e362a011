"""Attempts at the exercises of notebook 03."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from .attention import FOR_BOTH, WRONG_STEPS, attention_framework, changed, divides_in_place, masked, settle
from .tables import fresh, peer, right, wrong

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
    lambda n: torch.from_numpy(np.tril(np.ones((n, n), dtype=bool))),
    lambda n: nn.Transformer.generate_square_subsequent_mask(n) == 0,
)
peer("causal_mask", lambda n: nn.Transformer.generate_square_subsequent_mask(n) == 0)
fresh("causal_mask", (3,), (4,), (8,))
wrong(
    "causal_mask",
    upper_instead_of_lower=lambda n: torch.triu(torch.ones(n, n)),
    excludes_itself=lambda n: torch.ones(n, n, dtype=torch.bool).tril(-1),
    inverted=lambda n: ~causal_loops(n),
    looks_one_ahead=lambda n: torch.ones(n, n).triu(2) == 0,
    allows_everything=lambda n: torch.ones(n, n, dtype=torch.bool),
    allows_nothing=lambda n: torch.zeros(n, n, dtype=torch.bool),
    only_itself=lambda n: torch.eye(n, dtype=torch.bool),
    row_left_out=lambda n: torch.stack([torch.arange(n) < row for row in [0, *range(2, n + 1)]]),
    only_one_before=lambda n: torch.ones(n, n).tril(-1).triu(-1).bool(),
    upper_without_diagonal_allowed=lambda n: ~torch.eye(n).bool(),
    mirrored=lambda n: causal_loops(n).flip(1),
    wrong_dtype_or_value=lambda n: torch.tril(torch.ones(n, n)),
    not_square=lambda n: causal_loops(n + 1),
    axes_in_front=lambda n: causal_loops(n)[None],
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
peer("padding_mask", lambda m: ~(m == 0)[:, None, None])  # hand-worked: a key is read where its id is no pad
fresh("padding_mask", *[(torch.tensor(rows),) for rows in ([[1, 0, 0], [1, 1, 1]], [[0, 1, 0, 1, 1]] * 3)])
wrong(
    "padding_mask",
    causal_instead=lambda m: torch.arange(m.shape[1])[:, None] >= torch.arange(m.shape[1]),
    inverted=lambda m: m[:, None, None, :] == 0,
    masks_queries_not_keys=lambda m: m.bool().unsqueeze(-1).unsqueeze(1),
    does_not_broadcast=lambda m: m.bool(),
    masks_queries_too=lambda m: torch.einsum("bq,bk->bqk", m, m)[:, None] > 0,
    counts_tokens=lambda m: (torch.arange(m.shape[1]) < m.sum(1, keepdim=True))[:, None, None],
    first_sentence_only=lambda m: m[:1, None, None] > 0,
    causal_too=lambda m: (m[:, None, None] * torch.ones(m.shape[1], m.shape[1]).tril()) > 0,
    allows_everything=lambda m: torch.ones_like(m).bool()[:, None, None],
    allows_nothing=lambda m: torch.zeros_like(m).bool()[:, None, None],
    pads_moved=lambda m: m.flip(1).bool()[:, None, None],
    wrong_dtype_or_value=lambda m: m[:, None, None, :],
)

# ------------------------------------------------------------------------------------------------ window_mask


def window_loops(seq_len, size):
    return torch.tensor([[0 <= query - key < size for key in range(seq_len)] for query in range(seq_len)])


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
peer("window_mask", lambda n, size: torch.from_numpy(np.tri(n, dtype=bool) & ~np.tri(n, k=-size, dtype=bool)))
fresh("window_mask", (9, 4), (4, 2), (8, 8), (2, 3))
wrong(
    "window_mask",
    allows_everything=lambda n, size: torch.ones(n, n) > 0,
    wraps_around=lambda n, size: torch.stack([torch.arange(n).roll(i + 1) >= n - size for i in range(n)]),
    window_too_long=lambda n, size: torch.ones(n, n).tril().triu(-size).bool(),
    window_too_short=lambda n, size: torch.ones(n, n).tril().triu(2 - size).bool(),
    looks_ahead=lambda n, size: distance(n).abs() < size,
    only_looks_ahead=lambda n, size: window_loops(n, size).T,
    without_itself=lambda n, size: window_loops(n, size + 1) & ~torch.eye(n).bool(),
    size_ignored=lambda n, size: torch.ones(n, n).tril().bool(),
    window_does_not_move=lambda n, size: (torch.arange(n) < size).expand(n, n),
    blocks=lambda n, size: torch.block_diag(*[torch.ones(size, size)] * n)[:n, :n].tril().bool(),
    beyond_the_window=lambda n, size: torch.ones(n, n).tril(-size).bool(),
    every_nth_token=lambda n, size: (distance(n) >= 0) & torch.isin(distance(n), torch.arange(0, n, size)),
    one_place_only=lambda n, size: torch.eye(n).roll(size - 1, 0).tril().bool(),
    slice_from_below_zero=lambda n, size: torch.stack(
        [torch.isin(torch.arange(n), torch.arange(n)[row - size + 1 : row + 1]) for row in range(n)]
    ),
    inverted=lambda n, size: ~window_loops(n, size),
    allows_nothing=lambda n, size: torch.zeros(n, n).bool(),
    wrong_dtype_or_value=lambda n, size: window_loops(n, size).long(),
    not_square=lambda n, size: window_loops(n + 1, size),
    axes_in_front=lambda n, size: window_loops(n, size)[None, None],
)

# -------------------------------------------------------------------------------- scaled_dot_product_attention

# PyTorch's own gives 0 for a query with every key masked, as the task asks.
right("scaled_dot_product_attention", *FOR_BOTH)
peer("scaled_dot_product_attention", lambda q, k, v, mask=None: F.scaled_dot_product_attention(q, k, v, mask))


def with_mask(step):
    """Attention in which `step(scores, mask)` gives the weights."""

    def attempt(query, key, value, mask=None):
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        return (scores.softmax(-1) if mask is None else step(scores, mask)) @ value

    return attempt


def where_masked(other):
    """PyTorch's attention, and another function where there is a mask."""

    def attempt(query, key, value, mask=None):
        return attention_framework(query, key, value) if mask is None else other(query, key, value, mask)

    return attempt


def forgets_result(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is not None:
        scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1) @ value


wrong(
    "scaled_dot_product_attention",
    **WRONG_STEPS,
    changes_its_input=divides_in_place,
    mask_ignored=forgets_result,
    mask_inverted=with_mask(lambda s, m: torch.where(m, -1e9, s).softmax(-1)),
    mask_transposed=with_mask(lambda s, m: s.masked_fill(~m.mT, -1e9).softmax(-1)),
    mask_of_one_query=where_masked(lambda q, k, v, mask: changed()(q, k, v, mask[..., :1, :])),
    mask_on_values=where_masked(
        lambda q, k, v, mask: attention_framework(q, k, v) * mask.any(-1, keepdim=True)
    ),
    causal_instead_of_mask=where_masked(
        lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    ),
    scaled_otherwise_with_a_mask=where_masked(
        lambda q, k, v, mask: changed(divide=lambda s, *_: s)(q, k, v, mask)
    ),
    mask_after_softmax=with_mask(lambda s, m: s.softmax(-1) * m),
    renormalised_after_softmax=with_mask(lambda s, m: F.normalize(s.softmax(-1) * m, p=1, dim=-1)),
    partly_masked_row_emptied=with_mask(lambda s, m: settle(masked(s, m).softmax(-1), m.all(-1, True))),
    mask_times_infinity=with_mask(lambda s, m: settle((s + (1 - m.float()) * -math.inf).softmax(-1), m)),
    mask_not_minus_infinity=with_mask(lambda s, m: settle(s.where(m, 0).softmax(-1), m)),
    nan_on_masked_row=with_mask(
        lambda s, m: (s + torch.zeros(m.shape).masked_fill(~m, -math.inf)).softmax(-1)
    ),
    masked_row_not_zero=with_mask(lambda s, m: s.masked_fill(~m, torch.finfo(s.dtype).min).softmax(-1)),
    nan_wiped_away=with_mask(lambda s, m: torch.nan_to_num(s.masked_fill(~m, -math.inf).softmax(-1))),
)
both = changed(None, None, lambda s: s.softmax(-1).nan_to_num(), lambda w, q, k, v: (w @ v, w))
wrong("scaled_dot_product_attention", "nan_wiped_away", both)
