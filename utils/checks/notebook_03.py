"""The exercises of notebook 03: masks, and attention with a mask."""

import math

import torch
import torch.nn.functional as F  # noqa: F401  # for edits

from .answers import Unreadable, read_tensor
from .exercise import Exercise
from .shared import far_trial, made_numbers, plain_trials
from .words import table

BOOL = "True and False"


def read_mask(raw):
    """Read a mask and what it is made of."""
    mask = read_tensor(raw, "mask")
    if raw.dtype == torch.bool:
        return {"mask": mask.bool(), "dtype": BOOL}
    return {"mask": mask, "dtype": str(raw.dtype)}


class MaskExercise(Exercise):
    """An exercise whose answer is a mask. Of which numbers it is made is asked for only when they are right."""

    def same(self, mine, foreseen):
        return super().same({"mask": mine["mask"]}, {"mask": foreseen["mask"]})


NOT_BOOL = {"wrong_dtype_or_value": lambda inputs, answer: answer["dtype"] != BOOL}
SIGNS = {
    "axes_in_front": lambda inputs, answer: answer["mask"].shape[-3:] == (1, inputs[0], inputs[0]),
    "not_square": lambda inputs, answer: answer["mask"].shape != (inputs[0], inputs[0]),
} | NOT_BOOL


def causal_mask(seq_len):
    place = torch.arange(seq_len)
    return place[:, None] >= place  # (query, 1) against (key,) gives (query, key)


check_causal_mask = MaskExercise(causal_mask, lambda: [(5,), (2,), (1,)], read_mask, SIGNS)


def window_mask(seq_len, size):
    place = torch.arange(seq_len)
    distance = place[:, None] - place  # (query, key): how far back
    return (distance >= 0) & (distance < size)


check_window_mask = MaskExercise(window_mask, lambda: [(7, 5), (6, 1), (5, 3), (3, 4)], read_mask, SIGNS)


def padding_mask(attention_mask):
    real = attention_mask == 1
    return real[:, None, None, :]  # (batch, 1, 1, key)


# Pads in front, too; the batches are no number of keys, and there are 5 heads: no axis can be taken for another.
HEADS = 5
TEXTS = [
    [[0, 0, 1, 1], [1, 1, 1, 0]],
    [[1, 1, 1, 0], [1, 1, 0, 0]],
    [[1, 1, 1], [1, 0, 0], [1, 1, 0]] * 2,
    [[1, 1, 0]],
]


class PaddingMask(MaskExercise):
    """What counts is the mask that meets scores of (batch, heads, query, key)."""

    def call(self, function, attention_mask):
        batch, key = attention_mask.shape
        return (batch, HEADS, key, key), function(attention_mask)


def read_spread(result):
    """Read a mask as it meets the scores."""
    scores, raw = result
    answer = read_mask(raw)
    try:
        return answer | {"mask": answer["mask"].expand(scores)}
    except RuntimeError:
        said = f"Your mask has the shape {tuple(raw.shape)} and does not line up with scores of {scores}, "
        said += f"(batch, heads, query, key): {(scores[0], 1, 1, scores[-1])} would."
        name = "masks_queries_not_keys" if raw.shape[1:] == (scores[-1], 1) else "does_not_broadcast"
        raise Unreadable(said, name) from None


check_padding_mask = PaddingMask(
    padding_mask, lambda: [(torch.tensor(rows),) for rows in TEXTS], read_spread, NOT_BOOL
)


def scaled_dot_product_attention(query, key, value, mask=None):
    attn_scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (..., query, key)
    empty = torch.zeros_like(attn_scores, dtype=torch.bool)
    if mask is not None:
        empty = empty | ~mask.any(dim=-1, keepdim=True)  # queries with every key masked
        attn_scores = attn_scores.masked_fill(~mask & ~empty, -math.inf)
    attn_weights = attn_scores.softmax(dim=-1)
    attn_weights = attn_weights.masked_fill(empty, 0.0)
    return attn_weights @ value, attn_weights


def masked_trials():
    some = torch.tensor([[1, 1, 0, 1], [1, 0, 1, 0], [1, 1, 1, 1], [1, 0, 0, 1]]).bool()
    pads = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]]).bool()[:, None, None, :]  # (batch, 1, 1, key)
    last = torch.tensor([1, 1, 1, 0]).bool().expand(2, 4, 4)
    empty = torch.tensor([[1, 1, 0, 1], [0, 0, 0, 0], [0, 1, 1, 1], [1, 0, 0, 0]]).bool()
    only_pads = torch.tensor([[1, 1, 1, 0], [0, 0, 0, 0]]).bool()[:, None, None, :]
    three, four = ([made_numbers(*shape, start=i) for i in (2, 5, 9)] for shape in ((2, 4, 3), (2, 3, 4, 2)))
    fewer = made_numbers(2, 3, 4), made_numbers(2, 5, 4, start=3), made_numbers(2, 5, 6, start=6)
    window = torch.tensor([[1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 1, 0]]).bool()  # 3 queries, 5 keys
    # Forbidden keys with scores of 2000 beside allowed ones of -2000, and the other way round.
    query, key, value = far_trial()
    key[:, :3, 0] = -125
    broken = three[0].clone()
    broken[0, 2, 1], broken[1, 0, 0] = (
        math.inf,
        math.nan,
    )  # broken queries: their output is nan, and has to stay so
    return [
        *plain_trials(),
        (*three, some),
        (*four, pads),
        (*fewer, window),
        (query, key, value, last),
        (broken, *three[1:], some),
        (*three, empty),
        (*four, only_pads),
    ]


class MaskedAttention(Exercise):
    """Attention in which the mistakes of notebook 02 are looked for where no mask is given."""

    def says_something(self, name, inputs):
        return len(inputs) == 3 or name in table()[self.name]


check_scaled_dot_product_attention = MaskedAttention(
    scaled_dot_product_attention, masked_trials, library=["scaled_dot_product_attention"]
)
