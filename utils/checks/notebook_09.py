"""The exercises of notebook 09: what a decoder reads, how it writes, and attention to another text."""

import copy
import math

import torch
import torch.nn.functional as F  # noqa: F401  # for the edits, as `changed`
from torch import nn

from .answers import Unreadable, read_tensor, whole_numbers
from .exercise import Exercise
from .modules import ModuleExercise, by_name, changed  # noqa: F401
from .notebook_04 import LAYERS, read_attention
from .shared import made_numbers


def shift_right(labels, start_id):
    start = torch.full((len(labels), 1), start_id)  # (batch, 1)
    return torch.cat([start, labels[:, :-1]], dim=1)  # (batch, seq)


check_shift_right = Exercise(
    shift_right,
    lambda: [
        (torch.tensor([[5, 6, 7, 2], [8, 9, 2, 0]]), 1),
        (torch.tensor([[4, 2, 0], [3, 7, 2], [7, 7, 2]]), 9),
        (torch.tensor([[6, 8], [3, 8], [3, 4], [2, 2]]).mT, 5),  # not contiguous
        (torch.tensor([[7, 3, 2]]), 4),
        (torch.tensor([[5, 2, 0, 0], [6, 7, 8, 2]]), 1),  # two pads
    ],
    whole_numbers("ids", lists=False),
)

START = 1
STORIES = [[START, 5, 3, 5, 7, 4, 2], [START, 7, 5, 5, 3, 9]]  # each ends with an end token of its own


def greedy_decode(next_logits, start_id, end_id, max_new_tokens):
    ids = [start_id]
    while len(ids) <= max_new_tokens and ids[-1] != end_id:
        scores = next_logits(ids)  # (len(ids), vocab_size)
        ids.append(scores[-1].argmax().item())
    return ids[1:]


def writer(story):
    """Return `next_logits(ids)`, whose scores write the story; off the story they never write its start or its end."""

    def next_logits(ids):
        ids = [int(value) for value in torch.as_tensor(ids).flatten()]
        rows = made_numbers(len(ids), 10) / 2 + torch.arange(10) / 100  # no two alike
        for place in range(len(ids)):
            top = 4.0 + place // 2 + 2 * (place % 2)  # up and down: no row stands out among all
            rows[place] += top - 1.5  # others come so near that a draw would take them often
            on_story = ids[: place + 1] == story[:-1][: place + 1]
            off = 3 + (2 * sum(ids[: place + 1]) + place + 1) % 6
            rows[place, story[place + 1] if on_story else off] = top
            rows[place, (place * 2) % 3 + 6] -= 3.0
        return rows

    return next_logits


def read_ids(raw):
    """Read a list of ids, or of scores in their place; the start token may stand in front or not."""
    if isinstance(raw, list):
        raw = [part.squeeze() if isinstance(part, torch.Tensor) else part for part in raw]
    ids = read_tensor(raw, "ids", lists=True)
    if ids.dim() > 1:
        raise Unreadable(f"Your ids have the shape {tuple(ids.shape)}. One list of ids is expected.")
    ids = [int(value) if value.is_integer() else round(value, 2) for value in ids.flatten().tolist()]
    return {"ids": ids[1:] if ids[:1] == [START] else ids}


check_greedy_decode = Exercise(
    greedy_decode,
    lambda: [(writer(story), START, story[-1], limit) for story in STORIES for limit in (8, 4)],
    read_ids,
    {"not_whole_numbers": lambda inputs, answer: any(isinstance(value, float) for value in answer["ids"])},
)


class CrossAttention(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_state, memory):
        query = self.query(hidden_state)  # (batch, query, hidden_size)
        key = self.key(memory)  # (batch, key, hidden_size)
        value = self.value(memory)  # (batch, key, hidden_size)
        attn_scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (batch, query, key)
        attn_weights = attn_scores.softmax(dim=-1)
        return attn_weights @ value, attn_weights


def with_layers(module, letters):
    """Return a module that uses the layers with these letters as query, key and value; "-" is none: for edits."""
    other = copy.copy(module)
    layers = {name[0]: getattr(module, name) for name in LAYERS} | {"-": nn.Identity()}
    other._modules = {name: layers[letter] for name, letter in zip(LAYERS, letters, strict=True)}
    return other


class CrossExercise(ModuleExercise):
    def says_something(self, name, inputs):
        """Where scores are very large, many mistakes look alike."""
        return name in ("overflow_on_large_scores", "scores_changed") or inputs[2].abs().max() < 9


check_cross_attention = CrossExercise(
    CrossAttention,
    lambda: [  # first as many target as source tokens, so that a mistake runs to its end
        ((4,), made_numbers(2, 3, 4) / 2, made_numbers(2, 3, 4, start=5) / 2),
        ((4,), made_numbers(3, 2, 4, start=2), made_numbers(3, 5, 4, start=4)),
        ((6,), made_numbers(2, 6, 5, start=6).mT, made_numbers(2, 6, 3, start=1).mT),  # not contiguous
        ((4,), made_numbers(1, 3, 4, start=6) * 30, made_numbers(1, 7, 4, start=3) * 30),  # too large for exp
    ],
    lambda module, _: by_name(module, *LAYERS),
    read_attention,
)
