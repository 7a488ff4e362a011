"""The checks of notebook 03: masks, and attention with a mask."""

import math

import torch

from .answers import read_tensor
from .judge import judge, safely
from .shared import (
    applied,
    made_numbers,
    plain_trials,
    right_attention,
    scaled_scores,
    weights_of,
    wrong_attention,
)

# -------------------------------------------------------------------------------------------------- masks alone

FINE, OTHER = "bool, or 0 and 1 in whole numbers", "floats or other numbers"


def read_mask(raw):
    """Read a mask and what it is made of. Leading axes of length 1 are taken off."""
    mask = read_tensor(raw, "mask")
    while mask.dim() > 2 and mask.shape[0] == 1:
        mask = mask[0]
    whole = not isinstance(raw, torch.Tensor) or not raw.is_floating_point()
    return {"mask": mask, "dtype": FINE if whole and ((mask == 0) | (mask == 1)).all() else OTHER}


def mask_answer(mask):
    """Return the right answer for a mask, (query, key)."""
    return {"mask": mask.bool(), "dtype": FINE}


@safely
def check_causal_mask(attempt):
    """Check `attempt(seq_len)`: (query, key) of bool, or 0/1 in whole numbers. True means: may be attended to."""
    rows = {1: [[1]], 4: [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]], 2: [[1, 0], [1, 1]]}

    def right(seq_len):
        return mask_answer(torch.tensor(rows[seq_len]))

    def triangle(cut, diagonal):
        return lambda seq_len: {"mask": cut(torch.ones(seq_len, seq_len), diagonal)}

    mistakes = {
        "upper_instead_of_lower": [triangle(torch.triu, 0)],
        "excludes_itself": [triangle(torch.tril, -1)],
        "inverted": [triangle(torch.triu, 1)],
    }
    signs = {
        "not_square": lambda inputs, answer: answer["mask"].shape != (inputs[0], inputs[0]),
        "wrong_dtype_or_value": lambda inputs, answer: answer["dtype"] == OTHER,
    }
    return judge("causal_mask", attempt, [(4,), (2,), (1,)], right, mistakes, read_mask, signs)


@safely
def check_padding_mask(attempt):
    """Check `attempt(attention_mask)`: from (batch, key), 1 or 0, a mask for scores (batch, heads, query, key)."""
    # 5 heads, and batches that are no number of keys: no axis can be taken for another.
    rows = [[[1, 1, 1, 0], [1, 1, 0, 0]], [[1, 1, 1], [1, 0, 0], [1, 1, 0]] * 2]
    met = "mask as it meets the scores"

    def right(attention_mask):
        batch, key = attention_mask.shape
        mask = attention_mask[:, None, None, :].expand(batch, 5, key, key)
        return {met: mask.bool(), "dtype": FINE}

    mistakes = {
        "inverted": [lambda mask: {met: right(1 - mask)[met]}],
        "masks_queries_not_keys": [
            lambda mask: {met: right(mask)[met].mT},
            lambda mask: {met: mask[:, :, None]},
        ],
    }

    def unlike_scores(inputs, answer):
        batch, key = inputs[0].shape
        return answer[met].shape != (batch, 5, key, key)

    def call(attention_mask):
        return tuple(attention_mask.shape), attempt(attention_mask)

    def read(result):
        (batch, key), raw = result
        dtype, mask = read_mask(raw)["dtype"], read_tensor(raw)
        try:
            return {met: mask.expand(batch, 5, key, key), "dtype": dtype}
        except RuntimeError:
            return {"dtype": dtype, met: mask}

    signs = {"does_not_broadcast": unlike_scores}
    trials = [(torch.tensor(mask),) for mask in rows]
    return judge("padding_mask", attempt, trials, right, mistakes, read, signs, call)


@safely
def check_window_mask(attempt):
    """Check `attempt(seq_len, size)`: a causal mask in which a token may look at the last `size` tokens."""

    def window(seq_len, back, ahead=0):
        rows = [[-ahead <= i - j < back for j in range(seq_len)] for i in range(seq_len)]
        return mask_answer(torch.tensor(rows))

    mistakes = {
        "window_too_long": [lambda n, size: window(n, size + 1)],
        "window_too_short": [lambda n, size: window(n, size - 1)],
        "looks_ahead": [
            lambda n, size: window(n, size, n),
            lambda n, size: window(n, size, size - 1),
            lambda n, size: window(n, 1, size - 1),
            lambda n, size: window(n, size, size),
        ],
    }
    return judge("window_mask", attempt, [(6, 3), (5, 1), (4, 2)], window, mistakes, read_mask)


# ------------------------------------------------------------------------------------------ attention with a mask


@safely
def check_scaled_dot_product_attention(attempt):
    """Check `attempt(query, key, value, mask=None)`: the output, alone or with the weights.

    The mask is of bool, broadcasts to (..., query, key), and True means: may be attended to. A query with every key
    masked gets an output of 0. Peer: F.scaled_dot_product_attention.
    """
    some = torch.tensor([[1, 1, 0, 1], [1, 0, 1, 0], [0, 1, 1, 1], [1, 0, 0, 1]]).bool()
    pads = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]]).bool()[:, None, None, :]  # (batch, 1, 1, key)
    empty = torch.tensor([[1, 1, 0, 1], [0, 0, 0, 0], [0, 1, 1, 1], [1, 0, 0, 0]]).bool()
    three = plain_trials()[0]
    four = tuple(made_numbers(2, 3, 4, 2, start=i) for i in (2, 5, 9))
    trials = [*plain_trials(), (*three, some), (*four, pads), (*three, empty)]
    mistakes = for_inputs(3, wrong_attention()) | for_inputs(4, wrong_masks())
    signs = {"mask_not_minus_infinity": leaks}
    return judge("scaled_dot_product_attention", attempt, trials, right_attention, mistakes, signs=signs)


def for_inputs(count, mistakes):
    """Return misconceptions that foresee an answer only for so many inputs: 3 without a mask, 4 with one."""

    def only(like):
        def compute(*inputs):
            if len(inputs) != count:
                raise ValueError("not foreseen")
            return like(*inputs)

        return compute

    return {name: [only(like) for like in likes] for name, likes in mistakes.items()}


def wrong_masks():
    """Return what misconceptions of a mask would compute from (query, key, value, mask)."""

    def filled(filling):
        return lambda q, k, v, mask: applied(filling(scaled_scores(q, k), mask).softmax(dim=-1), v)

    def nan_row(query, key, value, mask):
        weights = weights_of(query, key, mask)
        return applied(weights.masked_fill(~mask.any(dim=-1, keepdim=True), math.nan), value)

    def with_empty_row(like):
        def compute(query, key, value, mask):
            if mask.any(dim=-1).all():
                raise ValueError("no row is empty")
            return like(query, key, value, mask)

        return compute

    return {
        "mask_ignored": [lambda q, k, v, mask: right_attention(q, k, v)],
        "mask_inverted": [
            lambda q, k, v, mask: right_attention(q, k, v, ~mask),
            filled(lambda scores, mask: scores.masked_fill(mask, -1e9)),
        ],
        "mask_after_softmax": [lambda q, k, v, mask: applied(weights_of(q, k) * mask, v)],
        "nan_on_masked_row": [with_empty_row(nan_row)],
        "masked_row_not_zero": [
            with_empty_row(filled(lambda scores, mask: scores.masked_fill(~mask, -1e9))),
            with_empty_row(filled(lambda scores, mask: scores + (~mask) * -1e4)),
            with_empty_row(filled(lambda scores, mask: scores + (~mask) * -1e9)),
        ],
    }


def leaks(inputs, answer):
    """Say whether some ordinary number x stands in the forbidden scores, or was added to them.

    With A and Z, the sums of e^s · v and of e^s over the allowed keys, and B and Y those over the forbidden ones, the
    output is (A + t B) / (Z + t Y), where t is e^x. This is solved for the one t that fits all rows best.
    """
    if len(inputs) < 4 or not inputs[3].any(dim=-1).all():
        return False
    query, key, value, mask = (part.to(torch.float64) for part in inputs)
    powers, output = scaled_scores(query, key).exp(), answer["output"]
    if output.shape != (*query.shape[:-1], value.shape[-1]):
        return False
    allowed, forbidden = mask, 1 - mask
    for leak in (forbidden.expand_as(powers), powers * forbidden):  # x in place of the score; x added to it
        missing = (powers * allowed) @ value - output * (powers * allowed).sum(dim=-1, keepdim=True)
        surplus = output * leak.sum(dim=-1, keepdim=True) - leak @ value
        t = (missing * surplus).sum() / surplus.square().sum()
        if t > 1e-6 and torch.allclose(missing, t * surplus, rtol=1e-3, atol=1e-4):
            return True
    return False
