"""The checks of notebook 03: masks, and attention with a mask."""

import math

import torch

from .answers import read_tensor
from .judge import judge, safely
from .shared import (
    applied,
    far_trial,
    made_numbers,
    only_where,
    plain_trials,
    right_attention,
    scaled_scores,
    signs_of_attention,
    weights_of,
    wrong_attention,
)

# -------------------------------------------------------------------------------------------------- masks alone

BOOL = "True and False"


def read_mask(raw):
    """Read a mask and what it is made of."""
    mask = read_tensor(raw, "mask")
    return {"mask": mask, "dtype": BOOL if raw.dtype == torch.bool else str(raw.dtype)}


def mask_answer(mask):
    """Return the right answer for a mask, (query, key)."""
    return {"mask": mask.bool(), "dtype": BOOL}


def not_bool(inputs, answer):
    """Say whether a mask is made of something else than True and False."""
    return answer["dtype"] != BOOL


def axes_in_front(inputs, answer):
    """Say whether a mask has axes of length 1 in front of (seq_len, seq_len)."""
    shape = answer["mask"].shape
    return len(shape) > 2 and shape[-2:] == (inputs[0], inputs[0]) and set(shape[:-2]) == {1}


def not_square(inputs, answer):
    """Say whether a mask is not (seq_len, seq_len)."""
    return answer["mask"].shape != (inputs[0], inputs[0])


SIGNS = {"axes_in_front": axes_in_front, "not_square": not_square, "wrong_dtype_or_value": not_bool}


@safely
def check_causal_mask(attempt):
    """Check `attempt(seq_len)`: (query, key) of bool. True means: may be attended to."""

    def right(seq_len):
        return mask_answer(torch.tensor([[j <= i for j in range(seq_len)] for i in range(seq_len)]))

    def triangle(cut, diagonal):
        return lambda seq_len: {"mask": cut(torch.ones(seq_len, seq_len), diagonal)}

    mistakes = {
        "upper_instead_of_lower": [triangle(torch.triu, 0)],
        "excludes_itself": [triangle(torch.tril, -1)],
        "inverted": [triangle(torch.triu, 1)],
        "looks_one_ahead": [triangle(torch.tril, 1)],
        "allows_everything": [lambda seq_len: {"mask": torch.ones(seq_len, seq_len)}],
        "allows_nothing": [lambda seq_len: {"mask": torch.zeros(seq_len, seq_len)}],
        "only_itself": [lambda seq_len: {"mask": torch.eye(seq_len)}],
        "row_left_out": [
            lambda seq_len: {
                "mask": torch.tensor([[i > 0 and j <= i for j in range(seq_len)] for i in range(seq_len)])
            },
            lambda seq_len: {
                "mask": torch.tensor([[j <= i < seq_len - 1 for j in range(seq_len)] for i in range(seq_len)])
            },
        ],
        "only_one_before": [
            lambda seq_len: {"mask": torch.ones(seq_len, seq_len).tril(-1).triu(-1)},
            lambda seq_len: {"mask": torch.ones(seq_len, seq_len).tril().triu(-1)},
        ],
        "upper_without_diagonal_allowed": [lambda seq_len: {"mask": 1 - torch.eye(seq_len)}],
        "mirrored": [
            lambda seq_len, axis=axis: {"mask": torch.ones(seq_len, seq_len).tril().flip(axis)}
            for axis in (0, 1)
        ],
    }
    return judge("causal_mask", attempt, [(5,), (2,), (1,)], right, mistakes, read_mask, SIGNS)


@safely
def check_padding_mask(attempt):
    """Check `attempt(attention_mask)`: from (batch, key), 1 or 0, a mask for scores (batch, heads, query, key)."""
    # 5 heads, and batches that are no number of keys: no axis can be taken for another.
    rows = [
        [[0, 0, 1, 1], [1, 1, 1, 0]],  # pads in front, too
        [[1, 1, 1, 0], [1, 1, 0, 0]],
        [[1, 1, 1], [1, 0, 0], [1, 1, 0]] * 2,
        [[1, 1, 0]],
    ]
    met = "mask (spread over the scores)"

    def right(attention_mask):
        batch, key = attention_mask.shape
        mask = attention_mask[:, None, None, :].expand(batch, 5, key, key)
        return {met: mask.bool(), "dtype": BOOL}

    def seen_as(change):
        return lambda mask: {met: right(change(mask))[met]}

    mistakes = {
        "inverted": [seen_as(lambda mask: 1 - mask)],
        "allows_everything": [seen_as(torch.ones_like)],
        "allows_nothing": [seen_as(torch.zeros_like)],
        "first_sentence_only": [seen_as(lambda mask: mask[:1].expand_as(mask))],
        "counts_tokens": [seen_as(lambda mask: mask.sort(dim=1, descending=True).values)],
        "masks_queries_too": [lambda mask: {met: right(mask)[met] * right(mask)[met].mT}],
        "causal_too": [lambda mask: {met: right(mask)[met].tril()}],
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
        mask, dtype = read_tensor(raw, "mask"), read_mask(raw)["dtype"]
        try:
            return {met: mask.expand(batch, 5, key, key), "dtype": dtype}
        except RuntimeError:
            return {"dtype": dtype, met: mask}

    mistakes["pads_moved"] = [
        seen_as(lambda mask: mask.roll(1, -1)),
        seen_as(lambda mask: mask.roll(-1, -1)),
        seen_as(lambda mask: mask.flip(-1)),
        seen_as(lambda mask: mask.flip(0)),
    ]
    signs = {"does_not_broadcast": unlike_scores, "wrong_dtype_or_value": not_bool}
    trials = [(torch.tensor(mask),) for mask in rows]
    return judge("padding_mask", attempt, trials, right, mistakes, read, signs, call)


@safely
def check_window_mask(attempt):
    """Check `attempt(seq_len, size)`: a causal mask in which a token may look at the last `size` tokens."""

    def where(allowed):
        def compute(seq_len, size):
            places = range(seq_len)
            return mask_answer(torch.tensor([[allowed(i, j, seq_len, size) for j in places] for i in places]))

        return compute

    def window(back, ahead=lambda size: 0):
        """A window of `back(size)` tokens, which also reaches over `ahead(size)` later ones."""
        return where(lambda i, j, n, size: -ahead(size) <= i - j < back(size))

    right = window(lambda size: size)
    mistakes = {
        "allows_nothing": [where(lambda i, j, n, size: False)],
        "window_too_long": [
            window(lambda size: size + 1),
            window(lambda size: size + 2),
            window(lambda size: 2 * size),
        ],
        "window_too_short": [
            window(lambda size: size - 1),
            window(lambda size: size - 2),
            window(lambda size: size // 2),
            window(lambda size: (size + 1) // 2),
            window(lambda size: size // 2 + 1),
        ],
        "slice_from_below_zero": [
            where(lambda i, j, n, size: j in range(n)[i - size + 1 : i + 1]),
            where(lambda i, j, n, size: j in range(n)[i - size : i + 1]),
            where(lambda i, j, n, size: j in range(n)[i - size : i]),
        ],
        "every_nth_token": [where(lambda i, j, n, size: j <= i and (i - j) % size == 0)],
        "one_place_only": [
            where(lambda i, j, n, size: i - j == size - 1),
            where(lambda i, j, n, size: i - j == size),
            where(lambda i, j, n, size: i == j),
        ],
        "without_itself": [
            where(lambda i, j, n, size: 0 < i - j <= size),
            where(lambda i, j, n, size: 0 < i - j < size),
        ],
        "inverted": [where(lambda i, j, n, size: not 0 <= i - j < size)],
        "size_ignored": [window(lambda size: math.inf), window(lambda size: 3)],
        "looks_ahead": [
            window(lambda size: size, lambda size: math.inf),
            window(lambda size: size, lambda size: size - 1),
            window(lambda size: 1, lambda size: size - 1),
            window(lambda size: size, lambda size: size),
            window(lambda size: size + 1, lambda size: size),
            window(lambda size: size // 2 + 1, lambda size: size // 2),
            window(lambda size: size + 1, lambda size: size - 1),
            window(lambda size: math.inf, lambda size: size),
            window(lambda size: math.inf, lambda size: size - 1),
            window(lambda size: size, lambda size: 1),
            window(lambda size: 0, lambda size: size),
            window(lambda size: 0, lambda size: size - 1),
        ],
        "window_does_not_move": [
            where(lambda i, j, n, size: n - size <= j),
            where(lambda i, j, n, size: n - size <= j <= i),
            where(lambda i, j, n, size: j < size),
            where(lambda i, j, n, size: j <= i and j < size),
        ],
        "blocks": [where(lambda i, j, n, size: j <= i and i // size == j // size)],
        "beyond_the_window": [where(lambda i, j, n, size: i - j >= size)],
    }
    return judge("window_mask", attempt, [(7, 5), (6, 1), (5, 3), (3, 4)], right, mistakes, read_mask, SIGNS)


# ------------------------------------------------------------------------------------------ attention with a mask


@safely
def check_scaled_dot_product_attention(attempt):
    """Check `attempt(query, key, value, mask=None)`: the output, alone or with the weights.

    The mask is of bool, broadcasts to (..., query, key), and True means: may be attended to. A query with every key
    masked gets an output of 0. Peer: F.scaled_dot_product_attention.
    """
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
    broken[0, 2, 1] = math.inf  # a query that came in broken: its output is nan, and has to stay so
    trials = [
        *plain_trials(),
        (*three, some),
        (*four, pads),
        (*fewer, window),
        (query, key, value, last),
        (broken, *three[1:], some),
        (*three, empty),
        (*four, only_pads),
    ]
    mistakes = for_inputs(3, wrong_attention()) | for_inputs(4, wrong_masks())
    mistakes["nan_wiped_away"] = [
        lambda *inputs: {name: part.nan_to_num(0.0) for name, part in right_attention(*inputs).items()}
    ]
    signs = signs_of_attention() | {"mask_not_minus_infinity": leaks}
    return judge("scaled_dot_product_attention", attempt, trials, right_attention, mistakes, signs=signs)


def for_inputs(count, mistakes):
    """Return misconceptions that foresee an answer only for so many inputs: 3 without a mask, 4 with one."""
    return {
        name: [only_where(lambda *inputs: len(inputs) == count, like) for like in likes]
        for name, likes in mistakes.items()
    }


def wrong_masks():
    """Return what misconceptions of a mask would compute from (query, key, value, mask)."""

    def weighed(weigh):
        """What these weights give, made of the scores and the mask."""

        def compute(query, key, value, mask):
            return applied(weigh(scaled_scores(query, key), mask), value)

        return compute

    def filled(number, where=torch.logical_not):
        """What a number gives that is written into the forbidden scores, or added to them."""

        def added(scores, mask):
            return scores + torch.zeros_like(scores).masked_fill(where(mask), number)

        def written(scores, mask):
            return scores.masked_fill(where(mask), number)

        return [weighed(lambda *given, step=step: step(*given).softmax(dim=-1)) for step in (written, added)]

    def late(scores, mask, number=0.0):
        return scores.softmax(dim=-1).masked_fill(~mask, number)

    def settled(scores, mask):
        return scores.softmax(dim=-1).masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)

    def shared_again(scores, mask):
        return late(scores, mask) / late(scores, mask).sum(dim=-1, keepdim=True)

    def with_empty_row(like):
        return only_where(lambda q, k, v, mask: not mask.any(dim=-1).all(), like)

    def nan_row(query, key, value, mask):
        weights = weights_of(query, key, mask)
        return applied(weights.masked_fill(~mask.any(dim=-1, keepdim=True), math.nan), value)

    return {
        "mask_ignored": [lambda q, k, v, mask: right_attention(q, k, v)],
        "mask_inverted": [
            lambda q, k, v, mask: right_attention(q, k, v, ~mask),
            lambda q, k, v, mask: {
                n: part.nan_to_num() for n, part in right_attention(q, k, v, ~mask).items()
            },
            weighed(lambda scores, mask: scores.masked_fill(mask, -math.inf).softmax(dim=-1)),
            *filled(-1e9, where=lambda mask: mask),
        ],
        "mask_transposed": [
            lambda q, k, v, mask: right_attention(q, k, v, mask.mT),
            *filled(-1e9, where=lambda mask: ~mask.mT),
        ],
        "mask_of_one_query": [
            lambda q, k, v, mask: right_attention(q, k, v, mask[..., :1, :]),
            lambda q, k, v, mask: right_attention(q, k, v, mask.any(dim=-2, keepdim=True)),
            lambda q, k, v, mask: right_attention(q, k, v, mask.all(dim=-2, keepdim=True)),
        ],
        "mask_on_values": [
            lambda q, k, v, mask: {"output": weights_of(q, k) @ (v * mask.any(dim=-2)[..., None])},
            lambda q, k, v, mask: {
                "output": right_attention(q, k, v)["output"] * mask.any(dim=-1, keepdim=True)
            },
            lambda q, k, v, mask: {"output": right_attention(q, k, v)["output"] * mask[..., :1]},
        ],
        "causal_instead_of_mask": [
            lambda q, k, v, mask: right_attention(
                q, k, v, torch.ones(q.shape[-2], k.shape[-2]).tril().bool()
            ),
            lambda q, k, v, mask: right_attention(
                q, k, v, mask & torch.ones(q.shape[-2], k.shape[-2]).tril().bool()
            ),
        ],
        "scaled_otherwise_with_a_mask": [
            lambda q, k, v, mask: right_attention(q * math.sqrt(q.shape[-1]), k, v, mask),
            lambda q, k, v, mask: right_attention(q / math.sqrt(q.shape[-1]), k, v, mask),
        ],
        "mask_after_softmax": [
            weighed(late),
            weighed(lambda scores, mask: late(scores, mask, -math.inf)),
            weighed(lambda scores, mask: late(scores, mask, -1e9)),
        ],
        "renormalised_after_softmax": [
            only_where(lambda q, k, v, mask: q.isfinite().all() and scaled_scores(q, k).max() > 1000, like)
            for like in (weighed(shared_again), weighed(lambda s, m: shared_again(s, m).nan_to_num(0.0)))
        ],
        "mask_not_minus_infinity": [
            *(
                weighed(lambda s, mask, x=x: settled(s.masked_fill(~mask, x), mask))
                for x in (math.inf, 1e9, -100, -1000)
            ),
            # nan at each row with a forbidden key says little where there is no other row
            *(only_where(lambda q, k, v, mask: mask.all(dim=-1).any(), like) for like in filled(math.inf)),
            *(
                only_where(lambda q, k, v, mask: mask.any(dim=-1).all(), like)
                for number in (1e9, -100.0, -1000.0)
                for like in filled(number)
            ),
        ],
        "nan_on_masked_row": [with_empty_row(nan_row)],
        "masked_row_not_zero": [
            *(
                with_empty_row(like)
                for number in (-1e9, -1e4, -3.4028234663852886e38)
                for like in filled(number)
            ),
            with_empty_row(
                lambda q, k, v, mask: {
                    "output": torch.where(
                        mask.any(dim=-1, keepdim=True),
                        right_attention(q, k, v, mask)["output"],
                        v.mean(dim=-2, keepdim=True),
                    )
                }
            ),
            with_empty_row(
                lambda q, k, v, mask: right_attention(q, k, v, mask | ~mask.any(dim=-1, keepdim=True))
            ),
        ],
    }


def leaks(inputs, answer):
    """Say whether some ordinary number x stands in the forbidden scores, or was added to them.

    With A and Z, the sums of e^s · v and of e^s over the allowed keys, and B and Y those over the forbidden ones, the
    output is (A + t B) / (Z + t Y), where t is e^x. This is solved for the one t that fits all rows best.
    """
    if len(inputs) < 4 or not inputs[3].any(dim=-1).all() or inputs[0].isinf().any():
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
