"""Attempts at the exercises of notebook 13."""

import struct

import numpy as np
import torch
import torch.nn.functional as F
from transformers.generation import TopPLogitsWarper

from .tables import peer, right, wrong


def head_of(blocks):
    return blocks[:, :4].contiguous().view(torch.float16).float()


def levels_of(blocks):
    return torch.cat([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], dim=1)


def unpack_by_struct(blocks):
    rows = []
    for block in blocks.tolist():
        scale, smallest = struct.unpack("<ee", bytes(block[:4]))
        levels = [byte % 16 for byte in block[4:]] + [byte // 16 for byte in block[4:]]
        rows.append([scale * level + smallest for level in levels])
    return torch.tensor(rows)


def unpack_by_numpy(blocks):
    raw = blocks.numpy()
    head = np.frombuffer(raw[:, :4].tobytes(), np.float16).reshape(-1, 2).astype(np.float32)
    return torch.from_numpy(head[:, :1] * np.hstack([raw[:, 4:] & 15, raw[:, 4:] >> 4]) + head[:, 1:])


def unpack_in_place(blocks):
    numbers = torch.empty(len(blocks), 32)
    for i in range(16):
        numbers[:, i] = blocks[:, 4 + i] % 16
        numbers[:, i + 16] = blocks[:, 4 + i] // 16
    return numbers * head_of(blocks)[:, :1] + head_of(blocks)[:, 1:]


def unpack_from_halves(blocks):
    head = blocks[:, :4].clone().view(torch.float16).double()
    return torch.addcmul(head[:, 1, None], head[:, 0, None], levels_of(blocks).double())


right(
    "unpack_q4_1",
    unpack_by_struct,
    unpack_by_numpy,
    unpack_in_place,
    unpack_from_halves,
    lambda b: torch.stack([head_of(b)[i, 0] * levels_of(b)[i] + head_of(b)[i, 1] for i in range(len(b))]),
    lambda b: torch.einsum("bi,bj->bj", head_of(b)[:, :1], levels_of(b).float()) + head_of(b)[:, 1:],
)
peer("unpack_q4_1", unpack_by_struct)


def unpacked(levels=levels_of, head=head_of):
    def attempt(blocks):
        scale, smallest = head(blocks).unbind(1)
        return levels(blocks) * scale[:, None] + smallest[:, None]

    return attempt


wrong(
    "unpack_q4_1",
    halves_exchanged=unpacked(lambda b: levels_of(b).roll(16, 1)),
    levels_interleaved=unpacked(lambda b: levels_of(b).view(-1, 2, 16).mT.reshape(-1, 32)),
    scale_and_smallest_exchanged=unpacked(head=lambda b: head_of(b).flip(1)),
    smallest_forgotten=unpacked(head=lambda b: head_of(b) * torch.tensor([1, 0])),
    smallest_subtracted=unpacked(head=lambda b: head_of(b) * torch.tensor([1, -1])),
    smallest_scaled_too=lambda b: (levels_of(b) + head_of(b)[:, 1:]) * head_of(b)[:, :1],
    high_not_shifted=unpacked(lambda b: torch.hstack([b[:, 4:] % 16, b[:, 4:] // 16 * 16])),
    low_not_masked=unpacked(lambda b: torch.hstack([b[:, 4:], b[:, 4:] // 16])),
    levels_centred=unpacked(lambda b: levels_of(b).int() - 8),
    head_read_as_bytes=unpacked(head=lambda b: b[:, [0, 2]].float()),
    read_as_bfloat16=unpacked(head=lambda b: b[:, :4].clone().view(torch.bfloat16).float()),
    one_scale_for_all=unpacked(head=lambda b: head_of(b)[[0] * len(b)]),
)


def draw_by_library(logits, p):
    warped = TopPLogitsWarper(p)(None, logits) if p < 1 else logits
    return torch.multinomial(warped.softmax(-1), 1)[:, 0]


def draw_by_numpy(logits, p):
    numbers, drawn = np.random.default_rng(0), []
    for row in logits.softmax(-1).double().numpy():
        order = row.argsort()[::-1]
        stay = order[: np.searchsorted(row[order].cumsum(), min(p, 0.999999)) + 1]
        drawn.append(numbers.choice(stay, p=row[stay] / row[stay].sum()))
    return torch.tensor(drawn)


def draw_by_cumulative(logits, p):
    values, ids = logits.sort(descending=True)
    total = values.softmax(-1).cumsum(-1)
    gone = F.pad(total[:, :-1] >= p, (1, 0))
    place = torch.distributions.Categorical(logits=values.masked_fill(gone, -1e9)).sample()
    return ids.gather(1, place[:, None]).squeeze(1)


def draw_by_scatter(logits, p):
    odds = logits.softmax(-1)
    order = odds.argsort(dim=-1, descending=True)
    stays = odds.gather(1, order).cumsum(1).roll(1, 1).index_fill(1, torch.tensor([0]), 0) < p
    return torch.multinomial(odds * torch.zeros_like(stays).scatter(1, order, stays), 1).flatten()


def draw_by_gumbel(logits, p):
    odds = logits.softmax(-1)
    likelier = (odds[:, None] > odds[:, :, None]).to(odds) @ odds[:, :, None]  # what is likelier than each
    noise = -torch.empty_like(odds).exponential_().log()
    return (logits + noise).masked_fill(likelier[..., 0] >= p, -torch.inf).argmax(-1)


def draw_by_inverse(logits, p):
    odds, ids = logits.softmax(-1).sort(descending=True)
    odds = torch.where(odds.cumsum(-1) - odds < p, odds, 0)
    at = torch.rand(len(odds), 1, dtype=odds.dtype) * odds.sum(-1, keepdim=True)
    return ids.gather(1, (odds.cumsum(-1) < at).sum(-1, keepdim=True))[:, 0]


right(
    "draw_top_p",
    *(draw_by_library, draw_by_numpy, draw_by_cumulative),
    *(draw_by_scatter, draw_by_gumbel, draw_by_inverse),
)
peer("draw_top_p", draw_by_library)


def sampled(odds):
    return torch.distributions.Categorical(odds).sample()


def likely(odds, p):
    return odds.cumsum(-1) - odds < p


def drawn(stays=likely, draw=sampled, odds_of=lambda x: x.softmax(-1), down=True):
    def attempt(logits, p):
        odds, ids = odds_of(logits).sort(descending=down)
        return ids.gather(1, draw(torch.where(stays(odds, p), odds, 0))[:, None])[:, 0]

    return attempt


wrong(
    "draw_top_p",
    last_one_left_out=drawn(lambda odds, p: odds.cumsum(-1) <= p),
    unlikely_kept=drawn(down=False),
    places_for_ids=lambda x, p: draw_by_inverse(x.sort(descending=True).values, p),
    not_filtered=lambda x, p: sampled(x.softmax(-1)),
    each_against_p=drawn(lambda odds, p: odds >= 1 - p),
    rest_instead_of_p=lambda x, p: draw_by_inverse(x, max(1 - p, 0.01)),
    likeliest_always=lambda x, p: x.argmax(dim=-1),
    drawn_evenly=drawn(draw=lambda odds: sampled(odds.ceil())),
    softmax_twice=drawn(draw=lambda odds: sampled(odds.exp())),
    softmax_over_draws=drawn(odds_of=lambda x: x.softmax(0)),
    one_draw_for_all=drawn(draw=lambda odds: sampled(odds[:1]).repeat(len(odds))),
    one_too_many=drawn(lambda odds, p: F.pad(odds.cumsum(-1)[:, :-2] < p, (2, 0), value=True)),
)


def halves_by_loop(weight, num_heads):
    size = len(weight) // num_heads
    rows = []
    for start in range(0, len(weight), size):
        rows += [weight[i] for i in range(start, start + size, 2)]
        rows += [weight[i] for i in range(start + 1, start + size, 2)]
    return torch.stack(rows)


def halves_by_heads(weight, num_heads):
    return torch.cat([torch.cat([head[0::2], head[1::2]]) for head in weight.chunk(num_heads)])


def halves_by_index(weight, num_heads):
    return weight[torch.arange(len(weight)).view(num_heads, -1, 2).mT.flatten()]


def halves_by_numpy(weight, num_heads):
    rows, width = weight.shape
    return torch.from_numpy(
        weight.numpy().reshape(num_heads, -1, 2, width).swapaxes(1, 2).reshape(rows, width).copy()
    )


right(
    "to_halves",
    *(halves_by_loop, halves_by_heads, halves_by_index, halves_by_numpy),
    lambda w, n: w.view(n, -1, 2, w.shape[1]).permute(0, 2, 1, 3).reshape(w.shape),
    lambda w, n: torch.stack([w.view(n, -1, w.shape[1])[:, i::2] for i in (0, 1)], dim=1).reshape_as(w),
)
peer("to_halves", halves_by_loop)
wrong(
    "to_halves",
    heads_forgotten=lambda w, n: torch.cat([w[0::2], w[1::2]]),
    other_direction=lambda w, n: w.view(n, 2, -1, w.shape[1]).transpose(1, 2).reshape(w.shape),
    not_reordered=lambda w, n: w.clone(),
    columns_reordered=lambda w, n: halves_by_index(w.T, n).T,
    heads_interleaved=lambda w, n: w.view(-1, n, 2, w.shape[1]).transpose(1, 2).reshape(w.shape),
    seconds_first=lambda w, n: torch.cat([torch.cat([h[1::2], h[0::2]]) for h in w.chunk(n)]),
    order_of_pairs_reversed=lambda w, n: torch.cat([h[i::2].flip(0) for h in w.chunk(n) for i in (0, 1)]),
    first_head_only=lambda w, n: torch.cat([halves_by_heads(w.chunk(n)[0], 1), *w.chunk(n)[1:]]),
    heads_reversed=lambda w, n: halves_by_heads(torch.cat(w.chunk(n)[::-1]), n),
    heads_kept_apart=lambda w, n: halves_by_heads(w, n).view(n, -1, w.shape[1]),
)
