"""Attempts at the exercises of notebook 13."""

import math
import struct

import numpy as np
import torch
import torch.nn.functional as F
from transformers.generation import MinPLogitsWarper

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


right(
    "unpack_q4_1",
    *(unpack_by_struct, unpack_by_numpy, unpack_in_place),
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
    levels_alone=levels_of,
    halves_exchanged=unpacked(lambda b: levels_of(b).roll(16, 1)),
    levels_interleaved=unpacked(lambda b: levels_of(b).view(-1, 2, 16).mT.reshape(-1, 32)),
    scale_and_smallest_exchanged=unpacked(head=lambda b: head_of(b).flip(1)),
    smallest_forgotten=unpacked(head=lambda b: head_of(b) * torch.tensor([1, 0])),
    smallest_subtracted=unpacked(head=lambda b: head_of(b) * torch.tensor([1, -1])),
    smallest_scaled_too=lambda b: (levels_of(b) + head_of(b)[:, 1:]) * head_of(b)[:, :1],
    high_not_shifted=unpacked(lambda b: torch.hstack([b[:, 4:] % 16, b[:, 4:] // 16 * 16])),
    high_with_fraction=unpacked(lambda b: torch.hstack([b[:, 4:] % 16, b[:, 4:] / 16])),
    low_not_masked=unpacked(lambda b: torch.hstack([b[:, 4:], b[:, 4:] // 16])),
    levels_centred=unpacked(lambda b: levels_of(b).int() - 8),
    head_read_as_bytes=unpacked(head=lambda b: b[:, [0, 2]].float()),
    read_as_bfloat16=unpacked(head=lambda b: b[:, :4].clone().view(torch.bfloat16).float()),
    one_scale_for_all=unpacked(head=lambda b: head_of(b)[[0] * len(b)]),
)


def draw_by_library(logits, p):
    return torch.multinomial(MinPLogitsWarper(p)(None, logits).softmax(-1), 1)[:, 0]


def draw_by_numpy(logits, p):
    numbers, drawn = np.random.default_rng(0), []
    for row in logits.softmax(-1).double().numpy():
        stay = np.flatnonzero(row >= p * row.max())
        drawn.append(numbers.choice(stay, p=row[stay] / row[stay].sum()))
    return torch.tensor(drawn)


def draw_by_logits(logits, p):
    gap = logits.max(dim=-1, keepdim=True).values - logits  # p times as likely: smaller by -log p
    return torch.distributions.Categorical(logits=logits.masked_fill(gap > -np.log(p), -1e9)).sample()


def draw_by_gumbel(logits, p):
    odds = logits.softmax(-1)
    noise = -torch.empty_like(odds).exponential_().log()
    return (logits + noise).masked_fill(odds / odds.max(-1, keepdim=True).values < p, -torch.inf).argmax(-1)


def draw_by_inverse(logits, p):
    odds, ids = logits.softmax(-1).sort(descending=True)
    odds = torch.where(odds >= p * odds[:, :1], odds, 0)
    at = torch.rand(len(odds), 1, dtype=odds.dtype) * odds.sum(-1, keepdim=True)
    return ids.gather(1, (odds.cumsum(-1) < at).sum(-1, keepdim=True))[:, 0]


right("draw_min_p", draw_by_library, draw_by_numpy, draw_by_logits, draw_by_gumbel, draw_by_inverse)
peer("draw_min_p", draw_by_library)


def sampled(odds):
    return torch.distributions.Categorical(odds).sample()


def drawn(
    stays=lambda odds, p: odds >= p * odds.max(-1, True)[0], draw=sampled, odds_of=lambda x: x.softmax(-1)
):
    def attempt(logits, p):
        odds = odds_of(logits)
        return draw(torch.where(stays(odds, p), odds, 0))

    return attempt


def top_p(logits, p):
    values, ids = logits.sort(descending=True)
    gone = F.pad(values.softmax(-1).cumsum(-1)[:, :-1] >= p, (1, 0))
    return ids.gather(1, sampled(values.masked_fill(gone, -1e9).softmax(-1))[:, None])[:, 0]


wrong(
    "draw_min_p",
    p_ignored=lambda x, p: draw_by_library(x, 0.2),
    places_after_sorting=lambda x, p: draw_by_logits(x.sort(descending=True).values, p),
    likely_dropped=drawn(lambda odds, p: odds / odds.max(-1, True)[0] < p),
    not_filtered=lambda x, p: sampled(x.softmax(-1)),
    p_alone=drawn(lambda odds, p: (odds >= p) | (odds == odds.max(-1, True)[0])),
    one_minus_p=drawn(lambda odds, p: odds / odds.max(-1, True)[0] >= 1 - p),
    p_taken_off=drawn(lambda odds, p: odds.max(-1, True)[0] - odds <= p),
    share_of_mean=drawn(lambda odds, p: odds >= p / odds.shape[-1]),
    one_bar_for_all=drawn(lambda odds, p: odds >= p * odds.max()),
    logits_compared=lambda x, p: sampled(x.softmax(-1) * (x >= p * x.max(-1, True)[0])),
    taken_for_top_p=top_p,
    likeliest_always=lambda x, p: x.argmax(dim=-1),
    drawn_evenly=drawn(draw=lambda odds: sampled(odds.ceil())),
    softmax_twice=drawn(draw=lambda odds: sampled(odds.exp())),
    logits_of_zero=lambda x, p: sampled((x * (x >= x.amax(-1, True) + math.log(p))).softmax(-1)),
    likeliest_instead=lambda x, p: (one := sampled(x.softmax(-1))).where(
        x.gather(1, one[:, None])[:, 0] >= x.amax(-1) + math.log(p), x.argmax(-1)
    ),
    softmax_over_draws=drawn(odds_of=lambda x: x.softmax(0)),
    one_draw_for_all=drawn(draw=lambda odds: sampled(odds[:1]).repeat(len(odds))),
)


def both(there, back):
    """An attempt with its two directions."""
    return lambda weight, num_heads, undo=False: (back if undo else there)(weight, num_heads)


def halves_by_loop(weight, num_heads, back=False):
    size, rows = len(weight) // num_heads, []
    for start in range(0, len(weight), size):
        places = [*range(start, start + size, 2), *range(start + 1, start + size, 2)]
        rows += [start + places.index(i) for i in range(start, start + size)] if back else places
    return torch.stack([weight[i] for i in rows])


def halves_by_heads(weight, num_heads):
    return torch.cat([torch.cat([head[0::2], head[1::2]]) for head in weight.chunk(num_heads)])


def neighbours_by_heads(weight, num_heads):
    return torch.cat([torch.stack(head.chunk(2), dim=1).flatten(0, 1) for head in weight.chunk(num_heads)])


def halves_by_index(weight, num_heads, back=False):
    order = torch.arange(len(weight)).view(num_heads, -1, 2).mT.flatten()
    return weight[order.argsort() if back else order]


halves_and_back = both(halves_by_heads, neighbours_by_heads)
right(
    "to_halves",
    *(halves_by_loop, halves_by_index, halves_and_back),
    both(
        lambda w, n: w.view(n, -1, 2, w.shape[1]).permute(0, 2, 1, 3).reshape(w.shape),
        lambda w, n: w.view(n, 2, -1, w.shape[1]).permute(0, 2, 1, 3).reshape(w.shape),
    ),
)
peer("to_halves", halves_by_loop)


def after(change):
    """Both directions, and then a change of what came out."""
    return lambda w, n, back=False: change(halves_and_back(w, n, back), n)


wrong(
    "to_halves",
    heads_forgotten=lambda w, n, back=False: halves_by_index(w, 1, back),
    directions_exchanged=lambda w, n, back=False: halves_by_index(w, n, not back),
    never_back=lambda w, n, back=False: halves_by_heads(w, n),
    always_back=lambda w, n, back=False: neighbours_by_heads(w, n),
    not_reordered=lambda w, n, back=False: w.clone(),
    columns_reordered=lambda w, n, back=False: halves_by_index(w.T, n, back).T,
    heads_interleaved=both(
        lambda w, n: w.view(-1, n, 2, w.shape[1]).transpose(1, 2).reshape(w.shape),
        lambda w, n: w.view(2, n, -1, w.shape[1]).transpose(1, 2).reshape(w.shape),
    ),
    seconds_first=both(
        lambda w, n: torch.cat([torch.cat([h[1::2], h[0::2]]) for h in w.chunk(n)]),
        lambda w, n: torch.cat([torch.stack(h.chunk(2)[::-1], 1).flatten(0, 1) for h in w.chunk(n)]),
    ),
    order_of_pairs_reversed=both(
        lambda w, n: torch.cat([h[i::2].flip(0) for h in w.chunk(n) for i in (0, 1)]),
        lambda w, n: torch.cat(
            [torch.stack([half.flip(0) for half in h.chunk(2)], 1).flatten(0, 1) for h in w.chunk(n)]
        ),
    ),
    first_head_only=lambda w, n, back=False: torch.cat(
        [halves_and_back(w.chunk(n)[0], 1, back), *w.chunk(n)[1:]]
    ),
    heads_reversed=after(lambda w, n: torch.cat(w.chunk(n)[::-1])),
    heads_kept_apart=after(lambda w, n: w.view(n, -1, w.shape[1])),
)
