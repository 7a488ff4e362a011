"""Attempts at the exercises of notebook 09."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from transformers.models.bart.modeling_bart import shift_tokens_right

from utils.checks.notebook_09 import STORIES, writer

from .tables import fresh, peer, right, wrong


def shift_copy(labels, start_id):
    shifted = torch.empty_like(labels)
    shifted[:, 0] = start_id
    shifted[:, 1:] = labels[:, :-1]
    return shifted


right(
    "shift_right",
    shift_copy,
    lambda x, s: torch.tensor([[s, *row[:-1]] for row in x.tolist()]),
    lambda x, s: torch.cat([torch.full((len(x), 1), s), x[:, :-1]], dim=1),
    lambda x, s: F.pad(x, (1, 0), value=s)[:, :-1],
    lambda x, s: torch.where(torch.arange(x.shape[1]) == 0, s, x.roll(1, dims=1)),
    lambda x, s: F.pad(x, (1, -1), value=s).to(torch.int32),
)
peer("shift_right", lambda labels, start_id: shift_tokens_right(labels, 0, start_id))
OTHERS = torch.tensor([[9, 2, 0, 0], [4, 4, 6, 2], [3, 2, 0, 0]])
fresh("shift_right", (OTHERS, 8), (torch.tensor([[2, 5]]), 3))
wrong(
    "shift_right",
    shifted_left=lambda x, s: F.pad(x[:, 1:], (0, 1)),
    wraps_around=lambda x, s: torch.cat([x[:, -1:], x[:, :-1]], dim=1),
    one_too_long=lambda x, s: torch.tensor([[s, *row] for row in x.tolist()]),
    start_replaces_first=lambda x, s: torch.where(torch.arange(x.shape[1]) == 0, s, x),
    not_shifted=lambda x, s: x.clone(),
    start_id_ignored=lambda x, s: F.pad(x, (1, -1)),
    no_start=lambda x, s: torch.stack([row[:-1] for row in x]),
    start_at_end=lambda x, s: F.pad(x, (0, 1), value=s),
    shifted_along_batch=lambda x, s: F.pad(x, (0, 0, 1, -1), value=s),
    pads_replaced=lambda x, s: torch.where(shift_copy(x, s) == 0, s, shift_copy(x, s)),
    start_added=lambda x, s: x.add(s),
    turned_round=lambda x, s: torch.tensor([[s, *row[:0:-1]] for row in x.tolist()]),
    rows_joined=lambda x, s: torch.tensor([i for row in x.tolist() for i in [s, *row[:-1]]]),
    one_row_only=lambda x, s: torch.tensor([s, *x[0, :-1].tolist()]),
    shifted_by_two=lambda x, s: F.pad(x, (2, -2), value=s),
    start_only_in_first_row=lambda x, s: torch.cat([shift_copy(x[:1], s), x[1:].roll(1, dims=1)]),
    end_token_dropped=lambda x, s: F.pad(x, (1, -1), value=s).masked_fill(F.pad(x, (1, -1)) == 2, 0),
    one_number_everywhere=lambda x, s: torch.full_like(x, s),
    changes_its_input=lambda x, s: x.copy_(shift_copy(x, s)),
    not_whole_numbers=lambda x, s: F.pad(x, (1, -1), value=s).float(),
)


def greedy_while(next_logits, start_id, end_id, max_new_tokens):
    ids = [start_id]
    while len(ids) <= max_new_tokens and ids[-1] != end_id:
        ids.append(next_logits(ids)[-1].argmax().item())
    return ids


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
        ids.append(int(next_logits(torch.tensor(ids)).log_softmax(-1).topk(1, dim=-1).indices[-1]))
        left = 0 if ids[-1] == end_id else left - 1
    return ids[1:]


def greedy_row_of_length(next_logits, start_id, end_id, max_new_tokens):
    ids = [start_id]
    for step in range(max_new_tokens):
        scores = next_logits(ids)[step].tolist()
        ids = [*ids, scores.index(max(scores))]
        if end_id == ids[-1]:
            return torch.tensor(ids[1:])
    return ids


def greedy_with(view=lambda ids: ids, choose=lambda rows: rows[-1].argmax(), stop=True, more=0, start=None):
    def attempt(next_logits, start_id, end_id, max_new_tokens):
        written = [start_id if start is None else start]
        for _ in range(max_new_tokens + more):
            written.append(choose(next_logits(view(written))).item())
            if stop and written[-1] == end_id:
                break
        return written[1:]

    return attempt


def greedy_until_both(next_logits, start_id, end_id, max_new_tokens):
    ids = [start_id]
    while len(ids) <= max_new_tokens or ids[-1] != end_id:
        ids.append(int(next_logits(ids)[-1].argmax()))
    return ids[1:]


greedy = greedy_with()
right(
    "greedy_decode", greedy_while, greedy, greedy_tensor, greedy_recursive, greedy_topk, greedy_row_of_length
)
right("greedy_decode", lambda *given: [torch.tensor([i]) if n else i for n, i in enumerate(greedy(*given))])
peer("greedy_decode", lambda f, s, end, n: next(story for story in STORIES if story[-1] == end)[1 : n + 1])
STORIES_TOO = [1, 8, 3, 3, 4, 6, 5], [1, 4, 9, 7, 8]
fresh("greedy_decode", *((writer(story), 1, story[-1], n) for story in STORIES_TOO for n in (2, 9)))
wrong(
    "greedy_decode",
    limit_or_end=greedy_until_both,
    reads_first_position=greedy_with(choose=lambda scores: scores.argmax(dim=-1)[0]),
    reads_one_place_too_early=greedy_with(view=lambda ids: ids[:-1] or ids),
    reads_all_scores=greedy_with(choose=lambda scores: scores.mean(0).argmax()),
    argmax_over_positions=greedy_with(choose=lambda scores: scores.max(0).indices[-1]),
    softmax_over_positions=greedy_with(choose=lambda scores: torch.softmax(scores, 0)[-1].argmax()),
    value_instead_of_id=greedy_with(choose=lambda scores: scores[-1].amax()),
    start_forgotten=greedy_with(view=lambda ids: ids[bool(ids[1:]) :]),
    forgets_what_was_written=greedy_with(view=lambda ids: [ids[-1]]),
    does_not_stop_at_end=greedy_with(stop=False),
    second_most_likely=greedy_with(choose=lambda scores: scores[-1].argsort()[-2]),
    start_fixed=greedy_with(start=0),
    last_one_only=lambda *given: greedy(*given)[-1],
    repeats_dropped=lambda *given: sorted(set(ids := greedy(*given)), key=ids.index),
    sorted=lambda *given: torch.tensor(greedy(*given)).sort().values,
    stops_at_once=lambda f, s, e, n: greedy_while(f, s, e, 1),
    least_likely=greedy_with(choose=lambda scores: (-scores[-1]).softmax(-1).argmax()),
    start_counted=greedy_with(more=-1),
    one_over_the_limit=greedy_with(more=1),
    limit_ignored=greedy_with(more=40),
    end_token_dropped=lambda f, s, e, n: [*filter(lambda token: token != e, greedy(f, s, e, n))],
    one_thing_taken_for_many=lambda f, s, e, n: list([s]) + f([s])[-1].argmax().item(),
    not_whole_numbers=lambda *given: [token / 2 for token in greedy(*given)],
)


class Cross(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)

    def parts(self, x, memory):
        return self.query(x), self.key(memory), self.value(memory)

    def scale(self, query):
        return math.sqrt(query.shape[-1])

    def weigh(self, scores):
        return scores.softmax(dim=-1)

    def last(self, output, weights, x):
        return output, weights

    def forward(self, hidden_state, memory):
        query, key, value = self.parts(hidden_state, memory)
        weights = self.weigh(query @ key.mT / self.scale(query))
        return self.last(weights @ value, weights, hidden_state)


def cross(**steps):
    return type("CrossStepped", (Cross,), steps)


class CrossFused(Cross):
    def forward(self, hidden_state, memory):
        return F.scaled_dot_product_attention(*self.parts(hidden_state, memory))


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


class CrossFramework(Cross):
    def forward(self, hidden_state, memory):
        layers, size = [self.query, self.key, self.value], hidden_state.shape[-1]
        output, weights = F.multi_head_attention_forward(
            *(part.transpose(0, 1) for part in (hidden_state, memory, memory)),
            *(size, 1, None, torch.cat([layer.bias for layer in layers]), None, None, False, 0.0),
            *(torch.eye(size), None),
            use_separate_proj_weight=True,
            **{f"{name}_proj_weight": layer.weight for name, layer in zip("qkv", layers, strict=True)},
        )
        return output.transpose(0, 1), weights


class CrossNoBias(Cross):
    def __init__(self, hidden_size):
        super().__init__(hidden_size)
        self.query, self.key, self.value = (nn.Linear(hidden_size, hidden_size, bias=False) for _ in range(3))


right("cross_attention", Cross, CrossFused, CrossEinsum, CrossLoops, CrossFramework, CrossNoBias)
right("cross_attention", cross(last=lambda self, output, weights, x: [output, weights]))
peer(
    "cross_attention",
    lambda m, x, memory: F.scaled_dot_product_attention(m.query(x), m.key(memory), m.value(memory)),
)
wrong(
    "cross_attention",
    keys_from_decoder=cross(parts=lambda self, x, m: (self.query(x), self.key(x), self.value(m))),
    values_from_decoder=cross(parts=lambda self, x, m: (self.query(x), self.key(m), self.value(x))),
    queries_from_encoder=cross(parts=lambda self, x, m: (self.query(m), self.key(m), self.value(m))),
    arguments_exchanged=cross(forward=lambda self, x, m: Cross.forward(self, m, x)),
    memory_ignored=cross(forward=lambda self, x, m: Cross.forward(self, x, x)),
    sizes_of_one_model=cross(__init__=lambda self, _: Cross.__init__(self, 4)),
    one_layer_twice=cross(__init__=lambda s, n: [Cross.__init__(s, n), setattr(s, "value", s.key)].clear()),
    query_unused=cross(parts=lambda self, x, m: (x, self.key(m), self.value(m))),
    key_unused=cross(parts=lambda self, x, m: (self.query(x), m, self.value(m))),
    value_unused=cross(parts=lambda self, x, m: (self.query(x), self.key(m), m)),
    layers_unused=cross(parts=lambda self, x, m: (self.query(x), m, m)),
    layers_mixed_up=cross(parts=lambda self, x, m: (self.query(x), self.value(m), self.key(m))),
    overflow_on_large_scores=cross(weigh=lambda self, s: s.exp() / s.exp().sum(dim=2, keepdim=True)),
    keys_from_both=cross(parts=lambda self, x, m: Cross.parts(self, x, torch.hstack([x, m]))),
    residual_added=cross(last=lambda self, output, weights, x: x + output),
    part_of_memory=cross(forward=lambda self, x, m: Cross.forward(self, x, m[:, 1:])),
    bias_forgotten=cross(parts=lambda self, x, m: (self.query(x), self.key(m), m @ self.value.weight.T)),
    matrix_not_transposed=cross(
        parts=lambda self, *x: [
            y @ f.weight + f.bias for f, y in zip(self.children(), (*x, x[1]), strict=True)
        ]
    ),
    output_changed=cross(last=lambda self, output, weights, x: F.layer_norm(output, output.shape[-1:])),
    causal_mask_added=cross(
        weigh=lambda self, s: (s + torch.full_like(s, -math.inf).triu(diagonal=1)).softmax(-1)
    ),
    weights_first=cross(last=lambda self, output, weights, x: (weights, output)),
    softmax_over_queries=cross(weigh=lambda self, s: s.exp() / s.exp().sum(dim=1, keepdim=True)),
    no_scaling=cross(scale=lambda self, query: 1),
    scaled_twice=cross(weigh=lambda self, scores: scores.softmax(-1) / math.sqrt(self.query.out_features)),
    value_ignored=cross(last=lambda self, output, weights, x: weights),
)
