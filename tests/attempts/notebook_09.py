"""Attempts at the exercises of notebook 09."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .tables import right, unlisted, wrong


def shift_loops(labels, start_id):
    return [[start_id, *row[:-1]] for row in labels.tolist()]


def shift_copy(labels, start_id):
    shifted = torch.empty_like(labels)
    shifted[:, 0] = start_id
    shifted[:, 1:] = labels[:, :-1]
    return shifted


right(
    "shift_right",
    shift_loops,
    shift_copy,
    lambda x, s: torch.cat([torch.full((len(x), 1), s), x[:, :-1]], dim=1),
    lambda x, s: F.pad(x, (1, 0), value=s)[:, :-1],
    lambda x, s: F.pad(x, (1, -1), value=s),
)
wrong(
    "shift_right",
    "shifted_left",
    lambda x, s: torch.cat([x[:, 1:], torch.full((len(x), 1), s)], dim=1),
    lambda x, s: F.pad(x[:, 1:], (0, 1)),
    lambda x, s: x[:, 1:],
)
wrong(
    "shift_right",
    "wraps_around",
    lambda x, s: x.roll(1, dims=1),
    lambda x, s: torch.cat([x[:, -1:], x[:, :-1]], dim=1),
)
wrong(
    "shift_right",
    "one_too_long",
    lambda x, s: F.pad(x, (1, 0), value=s),
    lambda x, s: [[s, *row] for row in x.tolist()],
)
wrong(
    "shift_right",
    "start_replaces_first",
    lambda x, s: torch.cat([torch.full((len(x), 1), s), x[:, 1:]], dim=1),
    lambda x, s: torch.where(torch.arange(x.shape[1]) == 0, s, x),
)
unlisted("shift_right", lambda x, s: x, lambda x, s: F.pad(x, (1, -1)), lambda x, s: x.roll(1, dims=0))


def start_in_place(labels, start_id):
    labels[:, 1:] = labels[:, :-1].clone()
    labels[:, 0] = start_id
    return labels


def start_roll_in_place(labels, start_id):
    shifted = labels.roll(1, dims=1)
    labels[:, 0] = start_id
    shifted[:, 0] = labels[:, 0]
    return shifted


wrong("shift_right", "changes_its_input", start_in_place, start_roll_in_place)


def greedy_while(next_logits, start_id, end_id, max_new_tokens):
    ids = [start_id]
    while len(ids) <= max_new_tokens and ids[-1] != end_id:
        ids.append(next_logits(ids)[-1].argmax().item())
    return ids


def greedy_for(next_logits, start_id, end_id, max_new_tokens):
    written = []
    for _ in range(max_new_tokens):
        written.append(int(next_logits([start_id, *written])[-1].argmax()))
        if written[-1] == end_id:
            break
    return written


def greedy_tensor(next_logits, start_id, end_id, max_new_tokens):
    ids = torch.tensor([start_id])
    for _ in range(max_new_tokens):
        ids = torch.cat([ids, next_logits(ids).softmax(-1).argmax(-1)[-1:]])
        if ids[-1] == end_id:
            return ids
    return ids


def greedy_recursive(next_logits, start_id, end_id, max_new_tokens, ids=()):
    ids = ids or (start_id,)
    if max_new_tokens == 0 or ids[-1] == end_id:
        return list(ids)
    chosen = max(range(9), key=lambda token: next_logits(list(ids))[-1, token])
    return greedy_recursive(next_logits, start_id, end_id, max_new_tokens - 1, (*ids, chosen))


right("greedy_decode", greedy_while, greedy_for, greedy_tensor, greedy_recursive)


def greedy_with(view=lambda ids: ids, row=-1, stops=True, choose=torch.argmax):
    def attempt(next_logits, start_id, end_id, max_new_tokens):
        ids = [start_id]
        for _ in range(max_new_tokens):
            ids.append(choose(next_logits(view(ids))[row]).item())
            if stops and ids[-1] == end_id:
                break
        return ids

    return attempt


def greedy_row_zero(next_logits, start_id, end_id, max_new_tokens):
    ids = [start_id]
    while ids[-1] != end_id and len(ids) <= max_new_tokens:
        ids += [next_logits(ids).argmax(dim=-1)[0].item()]
    return ids[1:]


def greedy_last_only(next_logits, start_id, end_id, max_new_tokens):
    token, written = start_id, []
    for _ in range(max_new_tokens):
        token = next_logits([token])[0].argmax().item()
        written.append(token)
        if token == end_id:
            break
    return written


def greedy_start_only(next_logits, start_id, end_id, max_new_tokens):
    return [next_logits([start_id])[-1].argmax().item() for _ in range(max_new_tokens)]


def greedy_endless(next_logits, start_id, end_id, max_new_tokens):
    ids = [start_id]
    while len(ids) < max_new_tokens + 1:
        ids.append(next_logits(ids)[-1].argmax().item())
    return ids


def greedy_min(next_logits, start_id, end_id, max_new_tokens):
    ids = [start_id]
    while len(ids) <= max_new_tokens and ids[-1] != end_id:
        ids.append((-next_logits(ids)[-1]).softmax(-1).argmax().item())
    return ids


wrong("greedy_decode", "reads_first_position", greedy_with(row=0), greedy_row_zero, greedy_start_only)
wrong("greedy_decode", "forgets_what_was_written", greedy_last_only, greedy_with(view=lambda ids: ids[-1:]))
wrong("greedy_decode", "does_not_stop_at_end", greedy_with(stops=False), greedy_endless)
wrong("greedy_decode", "least_likely", greedy_with(choose=torch.argmin), greedy_min)
unlisted(
    "greedy_decode",
    lambda f, s, e, n: greedy_while(f, s, e, n)[:-1],
    lambda f, s, e, n: greedy_while(f, s, e, n + 1),
    lambda f, s, e, n: f([s])[-1],
)


class Cross(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_state, memory):
        query, key, value = self.query(hidden_state), self.key(memory), self.value(memory)
        weights = (query @ key.mT / math.sqrt(query.shape[-1])).softmax(dim=-1)
        return weights @ value, weights


class CrossFused(Cross):
    def forward(self, hidden_state, memory):
        return F.scaled_dot_product_attention(self.query(hidden_state), self.key(memory), self.value(memory))


class CrossEinsum(Cross):
    def forward(self, target, source):
        scores = torch.einsum("bqd,bkd->bqk", self.query(target), self.key(source)) * target.shape[-1] ** -0.5
        return torch.einsum("bqk,bkd->bqd", scores.softmax(-1), self.value(source))


class CrossLoops(Cross):
    def forward(self, hidden_state, memory):
        outputs = []
        for target, source in zip(hidden_state, memory, strict=True):
            keys, values = self.key(source), self.value(source)
            rows = [(keys @ self.query(token) / len(token) ** 0.5).softmax(0) @ values for token in target]
            outputs.append(torch.stack(rows))
        return torch.stack(outputs)


right("cross_attention", Cross, CrossFused, CrossEinsum, CrossLoops)


class CrossOf(Cross):
    """Queries, keys and values from the named sequences: d the decoder's, e the encoder's."""

    sources = "dee"

    def forward(self, hidden_state, memory):
        states = [hidden_state if name == "d" else memory for name in self.sources]
        parts = [
            layer(state) for layer, state in zip((self.query, self.key, self.value), states, strict=True)
        ]
        return F.scaled_dot_product_attention(*parts)


class CrossOfByHand(CrossOf):
    def forward(self, hidden_state, memory):
        d, e = hidden_state, memory
        query, key, value = {
            "dde": lambda: (self.query(d), self.key(d), self.value(e)),
            "ded": lambda: (self.query(d), self.key(e), self.value(d)),
            "eee": lambda: (self.query(e), self.key(e), self.value(e)),
            "edd": lambda: (self.query(e), self.key(d), self.value(d)),
            "ddd": lambda: (self.query(d), self.key(d), self.value(d)),
        }[self.sources]()
        weights = torch.softmax(torch.bmm(query, key.transpose(1, 2)) / query.size(2) ** 0.5, dim=2)
        return torch.bmm(weights, value), weights


def crossed(sources):
    return [type(base.__name__, (base,), {"sources": sources}) for base in (CrossOf, CrossOfByHand)]


wrong("cross_attention", "keys_from_decoder", *crossed("dde"))
wrong("cross_attention", "values_from_decoder", *crossed("ded"))
wrong("cross_attention", "queries_from_encoder", *crossed("eee"), *crossed("edd"))
wrong("cross_attention", "memory_ignored", *crossed("ddd"))


class CrossNoSoftmax(Cross):
    def forward(self, hidden_state, memory):
        return self.query(hidden_state) @ self.key(memory).mT @ self.value(memory)


class CrossWithoutLayers(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()

    def forward(self, hidden_state, memory):
        return F.scaled_dot_product_attention(hidden_state, memory, memory)


class CrossBoth(Cross):
    def forward(self, hidden_state, memory):
        both = torch.cat([hidden_state, memory], dim=1)
        return F.scaled_dot_product_attention(self.query(hidden_state), self.key(both), self.value(both))


unlisted("cross_attention", CrossNoSoftmax, CrossWithoutLayers, CrossBoth)
