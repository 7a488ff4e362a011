"""The exercises of notebook 04: heads cut out of a projection, and multi-head attention whole."""

import math

import torch
import torch.nn.functional as F  # noqa: F401  # for the edits, as `changed`
from torch import nn

from .answers import Unreadable, alone, output_and_weights
from .exercise import Exercise
from .hints import sums_to_one
from .modules import ModuleExercise, apart, by_name, changed, linear_layer  # noqa: F401
from .shared import made_numbers


def split_heads(projected, num_heads):
    pieces = projected.chunk(num_heads, dim=-1)  # num_heads times (batch, seq, head_dim)
    return torch.stack(pieces, dim=1)  # (batch, heads, seq, head_dim)


check_split_heads = Exercise(
    split_heads,
    lambda: [
        (made_numbers(2, 4, 6), 3),
        (made_numbers(1, 5, 20, start=2), 4),
        (made_numbers(3, 20, 4, start=4).mT, 4),  # as many tokens for each head; not contiguous
    ],
    alone("result"),
)


class MultiHeadAttention(nn.Module):
    def __init__(self, hidden_size, num_heads):
        super().__init__()
        head_dim = hidden_size // num_heads
        self.num_heads = num_heads
        self.query = nn.Linear(hidden_size, num_heads * head_dim)
        self.key = nn.Linear(hidden_size, num_heads * head_dim)
        self.value = nn.Linear(hidden_size, num_heads * head_dim)
        self.output = nn.Linear(num_heads * head_dim, hidden_size)

    def forward(self, hidden_state, mask=None):
        parts = [self.query(hidden_state), self.key(hidden_state), self.value(hidden_state)]
        parts = [part.unflatten(-1, (self.num_heads, -1)) for part in parts]  # (batch, seq, heads, head_dim)
        query, key, value = (part.transpose(1, 2) for part in parts)  # (batch, heads, seq, head_dim)
        attn_scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        if mask is not None:
            attn_scores = attn_scores.masked_fill(~mask, -math.inf)
        attn_weights = attn_scores.softmax(dim=-1)
        per_head = attn_weights @ value
        merged = per_head.transpose(1, 2).flatten(2)  # (batch, seq, hidden_size)
        return self.output(merged), attn_weights


def by_view(part):
    """Return (batch, seq, heads, head_dim) cut by view alone into (batch, heads, seq, head_dim): for edits."""
    return part.reshape(part.transpose(1, 2).shape)


LAYERS = "query", "key", "value"
LARGE = "overflow_on_large_scores", "mask_after_softmax", "renormalised_after_softmax"
SUM_TO_ONE = "rows that sum to 1"  # weights: of all heads, or their mean


def multi_head_trials():
    small, wide = (6, 3), (20, 4)  # hidden_size and heads: more heads than numbers in each, and fewer
    some = torch.tensor([[1, 1, 0, 1], [1, 0, 1, 0], [1, 1, 1, 1], [1, 0, 0, 1]]).bool()
    states = made_numbers(2, 5, 6) / 2, made_numbers(3, 20, 7, start=8).mT / 4, made_numbers(2, 4, 6) / 2
    large = made_numbers(1, 4, 6, start=3) * 30  # scores of hundreds: an exponential of them is too large
    return [
        (small, states[0]),
        (wide, states[1]),
        (small, states[2], some),
        (small, large),
        (small, large, some),
    ]


def read_attention(raw):
    """Read an output, alone or followed by the weights; whether there were two tensors; what the second is."""
    answer = output_and_weights(raw)
    if "weights" not in answer:
        return answer
    return answer | {
        "the second tensor": SUM_TO_ONE if sums_to_one(answer["weights"]) else "rows that do not"
    }


def four_layers(module, hidden_size, num_heads):
    """Return the weights of a learner's module by the solution's names, also if its heads stand in a list."""
    heads = getattr(module, "heads", None)
    if isinstance(heads, list | tuple | dict):
        seen = f"Your `heads` is a {type(heads).__name__} of {len(heads)}, and PyTorch sees none of their weights."
        raise Unreadable(seen, "heads_in_plain_list")
    state, modules = {}, heads if isinstance(heads, nn.ModuleList | nn.Sequential) else [module]
    for part in modules:
        apart(part, (*LAYERS, "output"), "one_layer_twice")
    for name in LAYERS:
        weights, biases = zip(*(linear_layer(part, name) for part in modules), strict=True)
        if weights[0].shape[1] == hidden_size // num_heads:
            seen = f"Your layer `{name}` takes {weights[0].shape[1]} numbers; a token has {hidden_size}."
            raise Unreadable(seen, "heads_get_slices")
        if len(modules) > 1 and len(weights[0]) == hidden_size:
            raise Unreadable(
                f"The layer `{name}` of each head makes {hidden_size} numbers.", "heads_too_wide"
            )
        if len(modules) == 1 and len(weights[0]) == hidden_size // num_heads:
            seen = f"Your layer `{name}` makes {len(weights[0])} numbers, which is enough for one head."
            raise Unreadable(seen, "heads_share_weights")
        if len(weights) > 1 and torch.equal(weights[0], weights[1]):
            seen = f"In the layer `{name}` two heads start with the number {weights[0][0, 0]:.2f}."
            raise Unreadable(seen, "heads_share_weights")
        state |= {f"{name}.weight": torch.cat(weights), f"{name}.bias": torch.cat(biases)}
    return state | by_name(module, "output")


class HeadsExercise(ModuleExercise):
    """Several heads. What has nothing to do with the mask shows where none is given; large scores show little."""

    def says_something(self, name, inputs):
        of_mask, (_, hidden_state, *mask) = name.startswith(("mask", "renormalised")), inputs
        if hidden_state.abs().max() > 9:
            return name in LARGE and (of_mask or not mask)
        return of_mask or not mask


check_multi_head_attention = HeadsExercise(MultiHeadAttention, multi_head_trials, four_layers, read_attention)
