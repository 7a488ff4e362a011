"""The exercises of notebook 14: what is known beforehand, a window with sinks, contributions token by token."""

import torch
from torch import nn

from .answers import alone, scalar
from .exercise import Exercise
from .notebook_03 import NOT_BOOL, MaskExercise, read_mask
from .shared import made_numbers


def known_beforehand(table, norm, input_ids, right, wrong):
    last_state = norm(table[input_ids[:, -1]])  # (prompts, hidden_size)
    logits = last_state @ table.T  # (prompts, vocab_size)
    rows = torch.arange(len(right))
    difference = logits[rows, right] - logits[rows, wrong]  # (prompts,)
    return difference.mean()


def prompt_trials():
    trials = []
    for start, (prompts, seq) in enumerate([(4, 5), (3, 3), (6, 4)]):
        ids = torch.arange(prompts * seq).view(prompts, seq) * 7 % 12
        right, wrong = torch.arange(prompts) * 5 % 12, (torch.arange(prompts) * 3 + 1) % 12
        right, wrong = (wrong, right) if start == 1 else (right, wrong)  # of another sign
        norm = nn.RMSNorm(6, eps=0.1).requires_grad_(False)
        norm.weight.copy_(made_numbers(6, start=start))
        trials.append((2 * made_numbers(12, 6, start=start), norm, ids, right, wrong))
    return trials


check_known_beforehand = Exercise(known_beforehand, prompt_trials, scalar("mean"))


def sink_mask(text, window, sinks):
    place = torch.arange(len(text))
    query, key = place[:, None], place  # (query, 1) and (key,)
    same = text[:, None] == text  # (query, key): both in one text
    start = same.int().argmax(dim=1)  # (seq,): where the text of each token begins
    near = query - key < window
    sink = key - start < sinks
    return same & (key <= query) & (near | sink)


def sink_trials():
    texts = [([0] * 4 + [1] * 5, 2, 1), ([0] * 8, 5, 2), ([0] * 3 + [1] * 6 + [2] * 2, 1, 2), ([0] * 5, 9, 1)]
    return [(torch.tensor(text), window, sinks) for text, window, sinks in texts]


check_sink_mask = MaskExercise(sink_mask, sink_trials, read_mask, NOT_BOOL)


def contributions_by_token(attn_weights, value, output_weight, direction):
    group = len(attn_weights) // len(value)
    values = value.repeat_interleave(group, dim=0)  # (heads, key, head_dim)
    towards = (direction @ output_weight).view(len(attn_weights), -1)  # (heads, head_dim)
    worth = (values * towards[:, None]).sum(dim=-1)  # (heads, key): what each value is worth
    return attn_weights * worth


def heads_trials():
    trials = []
    for start, (heads, kv_heads, keys, head_dim) in enumerate([(4, 2, 5, 3), (3, 1, 4, 2), (6, 3, 3, 4)]):
        weights = made_numbers(heads, keys, start=start).softmax(dim=-1)
        value, output = made_numbers(kv_heads, keys, head_dim, start=2), made_numbers(10, heads * head_dim)
        trials.append((weights, value, output, made_numbers(10, start=start + 5)))
    return trials


check_contributions_by_token = Exercise(contributions_by_token, heads_trials, alone("contributions"))
