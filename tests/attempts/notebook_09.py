"""Attempts at the exercises of notebook 09."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .tables import right, unlisted, wrong


def shift_loops(labels, start_id):
    return torch.tensor([[start_id, *row[:-1]] for row in labels.tolist()])


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
    lambda x, s: torch.tensor([[s, *row] for row in x.tolist()]),
)
wrong(
    "shift_right",
    "start_replaces_first",
    lambda x, s: torch.cat([torch.full((len(x), 1), s), x[:, 1:]], dim=1),
    lambda x, s: torch.where(torch.arange(x.shape[1]) == 0, s, x),
)


def start_first_row(labels, start_id):
    shifted = labels.roll(1, dims=1)
    shifted[0, 0] = start_id
    return shifted


def shift_into_zeros(labels, start_id):
    shifted = torch.zeros(labels.shape)
    shifted[:, 1:] = labels[:, :-1]
    shifted[:, 0] = start_id
    return shifted


def shift_without_end(labels, start_id):
    return F.pad(labels, (1, -1), value=start_id).masked_fill(F.pad(labels, (1, -1)) == 2, 0)


right(
    "shift_right",
    lambda x, s: torch.where(torch.arange(x.shape[1]) == 0, s, x.roll(1, dims=1)),
    lambda x, s: torch.hstack([x.new_full((x.shape[0], 1), s), x])[:, : x.shape[1]],
    lambda x, s: F.pad(x, (1, -1), value=s).to(torch.int32),
)
wrong("shift_right", "not_shifted", lambda x, s: x, lambda x, s: x.clone())
wrong(
    "shift_right",
    "start_id_ignored",
    lambda x, s: F.pad(x, (1, -1)),
    lambda x, s: torch.cat([torch.ones(len(x), 1, dtype=torch.long), x[:, :-1]], dim=1),
    lambda x, s: torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1),
)
wrong(
    "shift_right",
    "no_start",
    lambda x, s: x[:, :-1],
    lambda x, s: torch.stack([row[:-1] for row in x]),
)
wrong(
    "shift_right",
    "start_at_end",
    lambda x, s: torch.cat([x[:, :-1], torch.full((len(x), 1), s)], dim=1),
    lambda x, s: F.pad(x, (0, 1), value=s),
)
wrong(
    "shift_right",
    "shifted_along_batch",
    lambda x, s: x.roll(1, dims=0),
    lambda x, s: torch.cat([torch.full((1, x.shape[1]), s), x[:-1]]),
)
wrong("shift_right", "start_only_in_first_row", start_first_row)
wrong("shift_right", "shifted_by_two", lambda x, s: F.pad(x, (2, -2), value=s))
wrong("shift_right", "shifted_along_batch", lambda x, s: torch.cat([torch.full((1, x.shape[1]), s), x]))
wrong("shift_right", "end_token_dropped", shift_without_end)
wrong(
    "shift_right",
    "wraps_around",
    lambda x, s: x.roll(1),
    lambda x, s: x.index_select(1, (torch.arange(x.shape[1]) - 1) % x.shape[1]),
)
wrong("shift_right", "shifted_left", lambda x, s: x.roll(-1, dims=1))
unlisted(
    "shift_right",
    lambda x, s: shift_into_zeros(x, s),
    lambda x, s: torch.cat([torch.full((len(x), 1), float(s)), x[:, :-1]], dim=1),
    lambda x, s: [[s, *row[:-1]] for row in x.tolist()],
    lambda x, s: F.pad(x, (1, -1), value=s).numpy(),
    lambda x, s: F.pad(x, (1, -1), value=s).flip(1),
)
wrong("shift_right", "one_row_only", lambda x, s: F.pad(x, (1, -1), value=s)[0])


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
    chosen = max(range(10), key=lambda token: next_logits(list(ids))[-1, token])
    return greedy_recursive(next_logits, start_id, end_id, max_new_tokens - 1, (*ids, chosen))


def greedy_topk(next_logits, start_id, end_id, max_new_tokens):
    ids, left = [start_id], max_new_tokens
    while left:
        best = next_logits(torch.tensor(ids)).log_softmax(-1).topk(1, dim=-1).indices
        ids, left = [*ids, int(best[-1])], left - 1
        left = 0 if ids[-1] == end_id else left
    return ids[1:]


def greedy_row_of_length(next_logits, start_id, end_id, max_new_tokens):
    ids = [start_id]
    for step in range(max_new_tokens):
        scores = next_logits(ids)[step].tolist()
        ids = [*ids, scores.index(max(scores))]
        if end_id == ids[-1]:
            return torch.tensor(ids[1:])
    return ids


right(
    "greedy_decode",
    greedy_while,
    greedy_for,
    greedy_tensor,
    greedy_recursive,
    greedy_topk,
    greedy_row_of_length,
)


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
wrong(
    "greedy_decode",
    "reads_all_scores",
    greedy_with(row=slice(None)),
    lambda f, s, e, n: greedy_while(lambda ids: f(ids).sum(0, keepdim=True), s, e, n),
    lambda f, s, e, n: greedy_while(lambda ids: f(ids).mean(0, keepdim=True), s, e, n),
    lambda f, s, e, n: greedy_while(lambda ids: f(ids).max(0, keepdim=True).values, s, e, n),
)
wrong(
    "greedy_decode",
    "softmax_over_positions",
    lambda f, s, e, n: greedy_while(lambda ids: f(ids).softmax(0), s, e, n),
    lambda f, s, e, n: greedy_for(lambda ids: torch.softmax(f(ids), dim=0), s, e, n),
)


def greedy_short(next_logits, start_id, end_id, max_new_tokens):
    ids = [start_id]
    while len(ids) < max_new_tokens and ids[-1] != end_id:
        ids.append(int(next_logits(ids)[-1].argmax()))
    return ids


def greedy_long(next_logits, start_id, end_id, max_new_tokens):
    ids = [start_id]
    while ids[-1] != end_id:
        ids.append(int(next_logits(ids)[-1].argmax()))
        if len(ids) > max_new_tokens + 1:
            break
    return ids


def greedy_no_limit(next_logits, start_id, end_id, max_new_tokens):
    ids = [start_id]
    while ids[-1] != end_id:
        ids.append(int(next_logits(ids)[-1].argmax()))
    return ids


def greedy_fixed_limit(next_logits, start_id, end_id, max_new_tokens):
    return greedy_for(next_logits, start_id, end_id, 50)


def greedy_ends_before(next_logits, start_id, end_id, max_new_tokens):
    written = []
    for _ in range(max_new_tokens):
        token = int(next_logits([start_id, *written])[-1].argmax())
        if token == end_id:
            break
        written.append(token)
    return written


def greedy_stops_at_start(next_logits, start_id, end_id, max_new_tokens):
    ids = [start_id]
    for _ in range(max_new_tokens):
        if ids[-1] == start_id and len(ids) > 1:
            break
        ids.append(next_logits(ids)[-1].argmax().item())
    return ids


def greedy_without_start(next_logits, start_id, end_id, max_new_tokens):
    ids = []
    for _ in range(max_new_tokens):
        ids.append(next_logits([start_id, *ids[:-1]])[-1].argmax().item())
        if ids[-1] == end_id:
            break
    return ids


def greedy_from_end(next_logits, start_id, end_id, max_new_tokens):
    ids = [end_id]
    for _ in range(max_new_tokens):
        ids.append(next_logits(ids)[-1].argmax().item())
    return ids


def greedy_largest(next_logits, start_id, end_id, max_new_tokens):
    ids = [start_id]
    for _ in range(max_new_tokens):
        ids.append(next_logits(ids)[-1].max().item())
    return ids


def greedy_row_before(next_logits, start_id, end_id, max_new_tokens):
    ids = [start_id]
    for _ in range(max_new_tokens):
        ids.append(next_logits(ids)[max(len(ids) - 2, 0)].argmax().item())
        if ids[-1] == end_id:
            break
    return ids


def greedy_argmax_0(next_logits, start_id, end_id, max_new_tokens):
    ids = [start_id]
    while len(ids) <= max_new_tokens and ids[-1] != end_id:
        ids.append(next_logits(ids).argmax(dim=0)[-1].item())
    return ids


def greedy_second(next_logits, start_id, end_id, max_new_tokens):
    ids = [start_id]
    for _ in range(max_new_tokens):
        ids.append(next_logits(ids)[-1].topk(2).indices[1].item())
        if ids[-1] == end_id:
            break
    return ids


def greedy_returns_in_loop(next_logits, start_id, end_id, max_new_tokens):
    ids = [start_id]
    for _ in range(max_new_tokens):
        ids.append(next_logits(ids)[-1].argmax().item())
        return ids


def greedy_forgets_start(next_logits, start_id, end_id, max_new_tokens):
    written = []
    for _ in range(max_new_tokens):
        written.append(int(next_logits(written or [start_id])[-1].argmax()))
        if written[-1] == end_id:
            break
    return written


def greedy_draws(next_logits, start_id, end_id, max_new_tokens):
    ids = [start_id]
    while len(ids) <= max_new_tokens and ids[-1] != end_id:
        ids.append(int(torch.multinomial(next_logits(ids)[-1].softmax(-1), 1)))
    return ids


wrong("greedy_decode", "start_forgotten", greedy_forgets_start)
unlisted("greedy_decode", greedy_draws)
wrong("greedy_decode", "stops_at_once", greedy_returns_in_loop)
wrong("greedy_decode", "start_counted", greedy_short, lambda f, s, e, n: greedy_for(f, s, e, n - 1))
wrong("greedy_decode", "one_too_many", greedy_long, lambda f, s, e, n: greedy_while(f, s, e, n + 1))
wrong("greedy_decode", "limit_ignored", greedy_no_limit, greedy_fixed_limit)
wrong(
    "greedy_decode", "end_token_dropped", greedy_ends_before, lambda f, s, e, n: greedy_while(f, s, e, n)[:-1]
)
wrong(
    "greedy_decode",
    "does_not_stop_at_end",
    greedy_stops_at_start,
    lambda f, s, e, n: greedy_for(f, s, None, n),
    lambda f, s, e, n: greedy_while(f, s, 2, n),
)
wrong("greedy_decode", "value_instead_of_id", greedy_largest)
wrong("greedy_decode", "reads_one_place_too_early", greedy_row_before, greedy_without_start)
wrong("greedy_decode", "argmax_over_positions", greedy_argmax_0)
unlisted(
    "greedy_decode",
    lambda f, s, e, n: f([s])[-1],
    greedy_from_end,
    greedy_second,
)
wrong("greedy_decode", "last_one_only", lambda f, s, e, n: greedy_while(f, s, e, n)[-1])
wrong("greedy_decode", "repeats_dropped", lambda f, s, e, n: list(dict.fromkeys(greedy_while(f, s, e, n))))


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


class CrossList(Cross):
    def forward(self, hidden_state, memory):
        return list(super().forward(hidden_state, memory))


class CrossPeer(Cross):
    def forward(self, hidden_state, memory):
        layers = [self.query, self.key, self.value]
        size = hidden_state.shape[-1]
        output, weights = F.multi_head_attention_forward(
            *(part.transpose(0, 1) for part in (hidden_state, memory, memory)),
            *(size, 1, None, torch.cat([layer.bias for layer in layers]), None, None, False, 0.0),
            *(torch.eye(size), None),
            use_separate_proj_weight=True,
            q_proj_weight=self.query.weight,
            k_proj_weight=self.key.weight,
            v_proj_weight=self.value.weight,
        )
        return output.transpose(0, 1), weights


class CrossNoBias(Cross):
    def __init__(self, hidden_size):
        super().__init__(hidden_size)
        self.query, self.key, self.value = (nn.Linear(hidden_size, hidden_size, bias=False) for _ in range(3))


right("cross_attention", Cross, CrossFused, CrossEinsum, CrossLoops, CrossList, CrossPeer, CrossNoBias)


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
            "eed": lambda: (self.query(e), self.key(e), self.value(d)),
            "ddd": lambda: (self.query(d), self.key(d), self.value(d)),
        }[self.sources]()
        weights = torch.softmax(torch.bmm(query, key.transpose(1, 2)) / query.size(2) ** 0.5, dim=2)
        return torch.bmm(weights, value), weights


def crossed(sources):
    return [type(base.__name__, (base,), {"sources": sources}) for base in (CrossOf, CrossOfByHand)]


wrong("cross_attention", "keys_from_decoder", *crossed("dde"))
wrong("cross_attention", "values_from_decoder", *crossed("ded"))
wrong("cross_attention", "queries_from_encoder", *crossed("eee"))
wrong("cross_attention", "memory_ignored", *crossed("ddd"))


class CrossBoth(Cross):
    def forward(self, hidden_state, memory):
        both = torch.cat([hidden_state, memory], dim=1)
        return F.scaled_dot_product_attention(self.query(hidden_state), self.key(both), self.value(both))


class CrossSteps(Cross):
    """A subclass says which layers make the parts, or how the weights come from the scores."""

    parts = ("query", "key", "value")

    def scale(self, query, key):
        return math.sqrt(query.shape[-1])

    def weigh(self, scores):
        return scores.softmax(dim=-1)

    def forward(self, hidden_state, memory):
        states = (hidden_state, memory, memory)
        query, key, value = (
            getattr(self, name)(state) for name, state in zip(self.parts, states, strict=True)
        )
        return self.weigh(query @ key.transpose(-2, -1) / self.scale(query, key)) @ value


def cross(**steps):
    return type("CrossStepped", (CrossSteps,), steps)


def cross_forward(forward):
    """A class with this `forward(self, hidden_state, memory)`."""
    return type("CrossForward", (Cross,), {"forward": forward})


def by_hand_over_queries(self, scores):
    powers = scores.exp()
    return powers / powers.sum(dim=1, keepdim=True)


def hides_later(self, scores):
    later = torch.ones_like(scores).triu(diagonal=1).bool()
    return scores.masked_fill(later, -math.inf).softmax(-1)


def attend_to(query, key, value):
    return F.scaled_dot_product_attention(query, key, value)


for misconception, attempts in {
    "no_scaling": [
        cross(scale=lambda self, query, key: 1),
        cross_forward(
            lambda self, h, m: torch.bmm(torch.bmm(self.query(h), self.key(m).mT).softmax(2), self.value(m))
        ),
    ],
    "scaled_by_d": [cross(scale=lambda self, query, key: query.shape[-1])],
    "scaled_by_sequence_length": [
        cross(scale=lambda self, query, key: math.sqrt(key.shape[1])),
        cross(scale=lambda self, query, key: math.sqrt(query.shape[1])),
        cross(scale=lambda self, query, key: key.shape[-2]),
    ],
    "no_softmax": [
        cross(weigh=lambda self, scores: scores),
        cross_forward(lambda self, h, m: self.query(h) @ self.key(m).mT @ self.value(m)),
    ],
    "softmax_over_queries": [
        cross(weigh=lambda self, scores: scores.softmax(dim=1)),
        cross(weigh=by_hand_over_queries),
    ],
    "softmax_over_batch": [cross(weigh=lambda self, scores: scores.softmax(dim=0))],
    "layers_mixed_up": [
        cross(parts=("query", "query", "value")),
        cross(parts=("query", "key", "key")),
        cross(parts=("key", "query", "value")),
        cross(parts=("query", "value", "key")),
        cross(parts=("query", "value", "value")),
    ],
    "value_unused": [cross_forward(lambda self, h, m: attend_to(self.query(h), self.key(m), m))],
    "key_unused": [cross_forward(lambda self, h, m: attend_to(self.query(h), m, self.value(m)))],
    "query_unused": [cross_forward(lambda self, h, m: attend_to(h, self.key(m), self.value(m)))],
    "layers_unused": [cross_forward(lambda self, h, m: attend_to(self.query(h), m, m))],
    "value_ignored": [
        cross_forward(lambda self, h, m: Cross.forward(self, h, m)[1]),
        cross_forward(lambda self, h, m: attend_to(self.query(h), self.key(m), self.query(h))),
    ],
    "weights_first": [cross_forward(lambda self, h, m: Cross.forward(self, h, m)[::-1])],
    "residual_added": [cross_forward(lambda self, h, m: h + Cross.forward(self, h, m)[0])],
    "multiplied_by_root": [cross(scale=lambda self, query, key: 1 / math.sqrt(key.shape[-1]))],
    "keys_from_both": [CrossBoth],
    "causal_mask_added": [
        cross(weigh=hides_later),
        cross_forward(
            lambda self, h, m: F.scaled_dot_product_attention(
                self.query(h), self.key(m), self.value(m), is_causal=True
            )
        ),
    ],
    "queries_from_encoder": [
        *crossed("eed"),
        cross_forward(lambda self, h, m: attend_to(m, self.key(m), self.value(m))),
    ],
    "query_key_swapped": [
        cross_forward(lambda self, h, m: attend_to(self.key(m), self.query(h), self.value(m)))
    ],
    "keys_from_decoder": [cross_forward(lambda self, h, m: attend_to(self.query(h), h, self.value(m)))],
    "values_from_decoder": [cross_forward(lambda self, h, m: attend_to(self.query(h), self.key(m), h))],
    "arguments_exchanged": [cross_forward(lambda self, h, m: Cross.forward(self, m, h)), *crossed("edd")],
}.items():
    wrong("cross_attention", misconception, *attempts)


class CrossWithoutLayers(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()

    def forward(self, hidden_state, memory):
        return F.scaled_dot_product_attention(hidden_state, memory, memory)


class CrossOneLayer(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.query = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_state, memory):
        return F.scaled_dot_product_attention(*(self.query(x) for x in (hidden_state, memory, memory)))


class CrossRootOfFour(CrossSteps):
    def scale(self, query, key):
        return 2.0


class CrossOverflows(CrossSteps):
    def weigh(self, scores):
        return scores.exp() / scores.exp().sum(-1, keepdim=True)


class CrossScoresBehind(Cross):
    def forward(self, hidden_state, memory):
        return super().forward(hidden_state, memory)[0], self.query(hidden_state) @ self.key(memory).mT


class CrossMemoryBehind(Cross):
    def forward(self, hidden_state, memory):
        return super().forward(hidden_state, memory)[0], memory


unlisted(
    "cross_attention",
    CrossScoresBehind,
    CrossMemoryBehind,
    CrossWithoutLayers,
    CrossOneLayer,
    CrossRootOfFour,
)
wrong("cross_attention", "overflow_on_large_scores", CrossOverflows)
unlisted("cross_attention", cross_forward(lambda self, h, m: Cross.forward(self, h, m)[0].mean(1)))


# ------------------------------------------------------------------------------------- one more of each mistake


def pads_replaced(labels, start_id):
    return shift_copy(labels, start_id).masked_fill(shift_copy(labels, start_id) == 0, start_id)


for misconception, attempt in {
    "start_added": lambda labels, start_id: labels + start_id,
    "pads_replaced": pads_replaced,
    "turned_round": lambda labels, start_id: shift_copy(labels.flip(1), start_id),
    "rows_joined": lambda labels, start_id: shift_copy(labels, start_id).flatten(),
    "one_row_only": lambda labels, start_id: shift_copy(labels, start_id)[:1],
}.items():
    wrong("shift_right", misconception, attempt)
for misconception, attempt in {
    "second_most_likely": greedy_with(choose=lambda logits: logits.topk(2).indices[1]),
    "last_one_only": lambda *given: greedy_for(*given)[-1],
    "start_fixed": lambda next_logits, start_id, *given: greedy_for(next_logits, 0, *given),
    "repeats_dropped": lambda *given: list(dict.fromkeys(greedy_for(*given))),
    "sorted": lambda *given: sorted(greedy_for(*given)),
}.items():
    wrong("greedy_decode", misconception, attempt)


def not_transposed(self, hidden_state, memory):
    states = zip((self.query, self.key, self.value), (hidden_state, memory, memory), strict=True)
    return attend_to(*(state @ part.weight + part.bias for part, state in states))


def weighed_smaller(self, scores):
    return scores.softmax(-1) / math.sqrt(self.query.out_features)


def with_output(change):
    return cross_forward(lambda self, x, memory: change(Cross.forward(self, x, memory)[0]))


for misconception, attempt in {
    "bias_forgotten": cross_forward(
        lambda self, x, m: attend_to(self.query(x), self.key(m), m @ self.value.weight.T)
    ),
    "part_of_memory": cross_forward(lambda self, x, m: Cross.forward(self, x, m.mean(1, keepdim=True))[0]),
    "output_changed": with_output(lambda output: F.layer_norm(output, output.shape[-1:])),
    "each_score_alone": cross(weigh=lambda self, scores: scores.sigmoid()),
    "matrix_not_transposed": cross_forward(not_transposed),
    "other_divisor": cross(scale=lambda self, query, key: 2 * query.shape[-1]),
    "scaled_after_softmax": cross(weigh=weighed_smaller),
    "scaled_by_a_constant": cross(scale=lambda self, query, key: 8),
    "scores_changed": cross(weigh=lambda self, scores: scores.relu().softmax(-1)),
    "sign_turned": cross(weigh=lambda self, scores: (-scores).softmax(-1)),
    "softmax_twice": cross(weigh=lambda self, scores: scores.softmax(-1).softmax(-1)),
}.items():
    wrong("cross_attention", misconception, attempt)


def shift_from_the_copy(labels, start_id):
    shifted = labels.clone()
    shifted[:, 0] = start_id
    for place in range(1, labels.shape[1]):
        shifted[:, place] = shifted[:, place - 1]
    return shifted


def shift_texts(labels, start_id):
    rolled = labels.roll(1, dims=0)
    rolled[:, 0] = start_id
    return rolled


wrong("shift_right", "one_number_everywhere", shift_from_the_copy)
wrong("shift_right", "shifted_along_batch", shift_texts)
