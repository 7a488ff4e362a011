"""Exercises that name the mistake: `check_<exercise>(attempt)` says what is wrong with a learner's code.

Each check runs the attempt on a few small inputs and compares what comes back with PyTorch, transformers or a value
that is known beforehand: never with the course's own code. If it differs, the check computes what each known
misconception would give on the same inputs, and names the one that fits. The inputs are chosen so that no two of them
coincide. `trials`, `right` and `mistakes` in each check are these three; `judge` does the rest.

A check never raises and shows no traceback. It returns a `Verdict` also for code that raises, runs for ever, returns
something else, or changes its inputs.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .judge import (
    LAYER_HEAD,
    Unreadable,
    alone,
    built,
    fill_weights,
    judge,
    kind_of,
    made_numbers,
    named,
    parts_of,
    read_tensor,
    refused,
    run_attempt,
    steady,
    what_differs,
    whole_numbers,
)

# ------------------------------------------------------------------------------------------- inputs of the checks


def weights_of(query, key, mask=None):
    """Return the attention weights that PyTorch computes: with the unit matrix as values, they are the output."""
    unit = torch.eye(key.shape[-2], dtype=key.dtype).expand(*key.shape[:-2], -1, -1)
    return F.scaled_dot_product_attention(query, key, unit, attn_mask=mask)


def right_attention(query, key, value, mask=None):
    """Return the right answer for attention."""
    return {
        "output": F.scaled_dot_product_attention(query, key, value, attn_mask=mask),
        "weights": weights_of(query, key, mask),
    }


def applied(weights, value):
    return {"output": weights @ value, "weights": weights}


def wrong_attention():
    """Return what misconceptions of attention without a mask would compute."""

    def divided(divisor):
        def like(query, key, value, mask=None):
            scores = query @ key.mT / divisor(query, key)
            scores = scores if mask is None else scores.masked_fill(~mask, -math.inf)
            return applied(scores.softmax(dim=-1), value)

        return like

    def over(axis):
        def like(query, key, value, mask=None):
            scores = query @ key.mT / math.sqrt(query.shape[-1])
            if mask is not None or axis < -scores.dim():
                raise ValueError("not foreseen")
            return applied(scores.softmax(dim=axis), value)

        return like

    def instead(second):
        def like(query, key, value, mask=None):
            weights = weights_of(query, key, mask)
            return {"output": second(weights, query, key), "weights": weights}

        return like

    def scores(query, key):
        return query @ key.mT / math.sqrt(query.shape[-1])

    return {
        "no_scaling": [divided(lambda q, k: 1)],
        "scaled_by_d": [divided(lambda q, k: q.shape[-1])],
        "scaled_by_sequence_length": [
            divided(lambda q, k: math.sqrt(k.shape[-2])),
            divided(lambda q, k: k.shape[-2]),
            divided(lambda q, k: math.sqrt(q.shape[-2])),
            divided(lambda q, k: q.shape[-2]),
        ],
        "softmax_over_queries": [over(-2)],
        "softmax_over_batch": [over(-3), over(-4)],
        "no_softmax": [
            lambda q, k, v, mask=None: applied(scores(q, k), v),
            lambda q, k, v, mask=None: applied(q @ k.mT, v),
            lambda q, k, v, mask=None: applied(scores(q, k) / scores(q, k).sum(dim=-1, keepdim=True), v),
        ],
        "query_key_swapped": [
            lambda q, k, v, mask=None: right_attention(k, q, v),
            lambda q, k, v, mask=None: applied(weights_of(q, k).mT, v),
        ],
        "value_ignored": [
            instead(lambda w, q, k: w),
            instead(lambda w, q, k: w @ k),
            instead(lambda w, q, k: w @ q),
        ],
    }


def wrong_masks():
    """Return what misconceptions of a mask would compute, in attention."""

    def filled(filling):
        def like(query, key, value, mask):
            scores = query @ key.mT / math.sqrt(query.shape[-1])
            return applied(filling(scores, mask).softmax(dim=-1), value)

        return like

    def after(query, key, value, mask):
        weights = weights_of(query, key) * mask
        return applied(weights, value)

    def nan_row(query, key, value, mask):
        weights = weights_of(query, key, mask).masked_fill(~mask.any(dim=-1, keepdim=True), math.nan)
        return {"output": weights @ value, "weights": weights}

    def empty(function):
        def like(query, key, value, mask):
            if mask.any(dim=-1).all():
                raise ValueError("no row is empty")
            return function(query, key, value, mask)

        return like

    return {
        "mask_ignored": [lambda q, k, v, mask: right_attention(q, k, v)],
        "mask_inverted": [
            lambda q, k, v, mask: right_attention(q, k, v, ~mask),
            filled(lambda s, m: s.masked_fill(m, -1e9)),
        ],
        "mask_after_softmax": [after],
        "nan_on_masked_row": [empty(nan_row)],
        "masked_row_not_zero": [
            empty(filled(lambda s, m: s.masked_fill(~m, -1e9))),
            empty(filled(lambda s, m: s + (~m) * -1e4)),
            empty(filled(lambda s, m: s + (~m) * -1e9)),
        ],
    }


def leaks(inputs, answer):
    """Name the misconception if some ordinary number x stands in the forbidden scores, or was added to them.

    With A and Z, the sums of e^s · v and of e^s over the allowed keys, and B and Y those over the forbidden ones, the
    output is (A + t B) / (Z + t Y), where t is e^x. This is solved for the one t that fits all rows best.
    """
    if len(inputs) < 4 or not inputs[3].any(dim=-1).all():
        return None
    query, key, value, mask = (part.to(torch.float64) for part in inputs)
    powers, output = (query @ key.mT / math.sqrt(query.shape[-1])).exp(), answer["output"]
    if output.shape != (*query.shape[:-1], value.shape[-1]):
        return None
    allowed, forbidden = mask, 1 - mask
    for leak in (forbidden.expand_as(powers), powers * forbidden):  # x in place of the score; x added to it
        missing = (powers * allowed) @ value - output * (powers * allowed).sum(dim=-1, keepdim=True)
        surplus = output * leak.sum(dim=-1, keepdim=True) - leak @ value
        t = (missing * surplus).sum() / surplus.square().sum()
        if t > 1e-6 and torch.allclose(missing, t * surplus, rtol=1e-3, atol=1e-4):
            return "mask_not_minus_infinity"
    return None


# -------------------------------------------------------------------------------------------------- notebook 01


ENTRIES = """air airs speed ##peed ##speed a ##i ##r s ##s un able ##able ##aff ##a ##f ##ff ##b ##l ##e p"""


def check_wordpiece(attempt):
    """Check `attempt(word, vocabulary)`: the pieces of one word, a list of texts. Peer: the library tokenizers."""
    from tokenizers.models import WordPiece

    entries = ENTRIES.split()
    trials = [(word, set(entries)) for word in ("airspeed", "unaffable", "air", "airx", "unaffix", "xair")]
    library = WordPiece({entry: place for place, entry in enumerate([*entries, "[UNK]"])}, unk_token="[UNK]")

    def pieces(word, known, ends=lambda start, n: range(n, start, -1), look="##", write="##", lost=None):
        found, start = [], 0
        while start < len(word):
            for end in ends(start, len(word)):
                if (look if start else "") + word[start:end] in known:
                    break
            else:
                if lost is None:
                    return {"pieces": ["[UNK]"]}
                if lost == "skip":
                    found.append("[UNK]")
                    start += 1
                    continue
                return {"pieces": found + lost}
            found.append((write if start else "") + word[start:end])
            start = end
        return {"pieces": found}

    def upwards(start, n):
        return range(start + 1, n + 1)

    mistakes = {
        "shortest_match_first": [lambda w, v: pieces(w, v, ends=upwards)],
        "no_continuation_prefix": [
            lambda w, v: pieces(w, v, write=""),
            lambda w, v: pieces(w, v, look="", write=""),
            lambda w, v: pieces(w, v, look=""),
        ],
        "partial_word_not_unknown": [
            lambda w, v: pieces(w, v, lost=["[UNK]"]),
            lambda w, v: pieces(w, v, lost=["##[UNK]"]),
            lambda w, v: pieces(w, v, lost=[]),
            lambda w, v: pieces(w, v, lost="skip"),
        ],
    }

    def read(raw):
        if not isinstance(raw, list | tuple) or not all(isinstance(piece, str) for piece in raw):
            raise Unreadable(f"Your result is {kind_of(raw)}. A list of texts is expected.")
        return {"pieces": list(raw)}

    def right(word, _):
        return {"pieces": [token.value for token in library.tokenize(word)]}

    return judge("wordpiece", attempt, trials, right, mistakes, read)


def check_pad_batch(attempt):
    """Check `attempt(sequences, pad_id)`: input_ids and attention_mask. Peer: torch.nn.utils.rnn.pad_sequence."""
    trials = [
        ([[101, 7, 8, 102], [101, 102], [101, 9, 102]], 0),
        ([[5, 6], [7, 8, 9, 4, 3]], 1),
        ([[5, 6, 2], [7, 8, 9]], 4),
    ]

    def padded(sequences, pad_id, front=False, keep=1):
        side = "left" if front else "right"
        rows = [torch.tensor(row) for row in sequences]
        ones = [torch.full((len(row),), keep) for row in sequences]
        make = nn.utils.rnn.pad_sequence
        return {
            "input_ids": make(rows, batch_first=True, padding_value=pad_id, padding_side=side),
            "attention_mask": make(ones, batch_first=True, padding_value=1 - keep, padding_side=side),
        }

    def cut(sequences, pad_id):
        shortest = min(map(len, sequences))
        return padded([row[:shortest] for row in sequences], pad_id)

    mistakes = {
        "mask_inverted": [lambda s, p: padded(s, p, keep=0)],
        "pads_in_front": [lambda s, p: padded(s, p, front=True)],
        "cut_to_shortest": [cut],
        "pad_id_ignored": [lambda s, p: padded(s, 0)],
    }
    read = parts_of("input_ids", "attention_mask")
    return judge("pad_batch", attempt, trials, padded, mistakes, read)


def check_sentence_b_start(attempt):
    """Check `attempt(token_type_ids)`: the place of the first 1 in a list, or None if there is no sentence B."""
    rows = [[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1, 0, 0], [0, 0, 0, 1, 0, 0], [0, 0, 0, 0], [0, 1, 0]]
    answers = {tuple(row): place for row, place in zip(rows, [3, 4, 3, None, 1], strict=True)}

    def answer(place):
        return {"place": place}

    def right(row):
        return answer(answers[tuple(row)])

    def moved(by):
        return lambda row: answer(answers[tuple(row)] + by) if 1 in row else answer(math.nan)

    mistakes = {
        "counts_zeros": [lambda row: answer(row.count(0)) if 1 in row else answer(math.nan)],
        "counted_from_one": [moved(1)],
        "starts_at_separator": [moved(-1)],
    }

    def read(raw):
        if raw is None:
            return answer(None)
        place = whole_numbers("place")(raw)["place"]
        if place.numel() != 1:
            raise Unreadable(f"Your result holds {place.numel()} numbers. One is expected, or None.")
        return answer(int(place.item()))

    def tell(inputs, found):
        return "finds_b_where_none_is" if 1 not in inputs[0] and found["place"] is not None else None

    return judge("sentence_b_start", attempt, [(row,) for row in rows], right, mistakes, read, tell)


# -------------------------------------------------------------------------------------------------- notebook 02


def check_softmax(attempt):
    """Check `attempt(attn_scores)`: weights over the keys, (batch, query, key). Peer: torch.softmax."""
    large = torch.tensor([[[0.0, 200.0, 100.0], [1.0, 2.0, 3.0]]])
    trials = [(made_numbers(2, 4, 3),), (made_numbers(3, 2, 5, start=4),), (large,)]

    def whole_sum(scores):
        powers = scores.exp()
        return {"row weights": powers / powers.sum()}

    def overflow(scores):
        powers = scores.exp()
        if not powers.isinf().any():
            raise ValueError("nothing is too large")
        return {"row weights": powers / powers.sum(dim=-1, keepdim=True)}

    mistakes = {
        "softmax_over_queries": [lambda s: {"row weights": s.softmax(dim=-2)}],
        "softmax_over_batch": [lambda s: {"row weights": s.softmax(dim=0)}],
        "one_sum_for_all": [
            whole_sum,
            lambda s: {"row weights": s.flatten().softmax(dim=0).reshape(s.shape)},
        ],
        "no_exponential": [
            lambda s: {"row weights": s / s.sum(dim=-1, keepdim=True)},
            lambda s: {"row weights": s.abs() / s.abs().sum(dim=-1, keepdim=True)},
        ],
        "overflow_on_large_scores": [overflow],
    }

    def right(scores):
        return {"row weights": torch.softmax(scores, dim=-1)}

    return judge("softmax", attempt, trials, right, mistakes, alone("row weights"))


def check_attention(attempt):
    """Check `attempt(query, key, value)`: the output, alone or with the weights. No mask.

    The shapes are (..., query, head_dim), (..., key, head_dim) and (..., key, width), with no leading axis, one or
    two. Peer: F.scaled_dot_product_attention.
    """
    return judge("attention", attempt, plain_trials(), right_attention, wrong_attention())


def plain_trials():
    """Return inputs of attention without a mask. The first have as many queries as keys, so that a swap runs."""
    shapes = [[(2, 4, 3)] * 3, [(4, 3)] * 3, [(2, 3, 4, 2)] * 3, [(2, 3, 4), (2, 5, 4), (2, 5, 6)]]
    return [tuple(made_numbers(*shape, start=3 * i) for i, shape in enumerate(three)) for three in shapes]


def check_weights_of_head(attempt):
    """Check `attempt(hidden_state, layer, head)`: one head's weights, (batch, query, key). Peer: transformers.

    `layer` is the `BertSelfAttention` of a small model with made-up weights: `layer.query` and `layer.key` are
    linear layers, `layer.num_attention_heads` counts the heads. `head` is counted from 0.
    """
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=11, hidden_size=6, num_hidden_layers=1, num_attention_heads=3, intermediate_size=4
    )
    config._attn_implementation = "eager"
    with steady():
        model = fill_weights(BertModel(config, add_pooling_layer=False)).eval()
    layer = model.encoder.layer[0].attention.self
    with torch.no_grad():
        outputs = model(
            torch.tensor([[3, 1, 4, 1], [5, 9, 2, 6]]), output_attentions=True, output_hidden_states=True
        )
    hidden_state = outputs.hidden_states[0]

    def right(hidden_state, layer, head):
        return {"head's weights": outputs.attentions[0][:, head]}

    def like(numbers_of=None, divisor=2, bias=True):
        numbers_of = numbers_of or (lambda head: slice(2 * head, 2 * head + 2))

        def compute(hidden_state, layer, head):
            parts = [
                F.linear(hidden_state, p.weight, p.bias if bias else None) for p in (layer.query, layer.key)
            ]
            query, key = (part[..., numbers_of(head)] for part in parts)
            if query.shape[-1] != 2:
                raise ValueError("there is no such head")
            return {"head's weights": (query @ key.mT / math.sqrt(divisor)).softmax(dim=-1).detach()}

        return compute

    mistakes = {
        "head_counted_from_one": [
            like(lambda head: slice(2 * head - 2, 2 * head)),
            like(lambda head: slice(2 * head + 2, 2 * head + 4)),
            like(lambda head: slice(2 * head - 2, 2 * head if head else None)),  # head -1 is the last one
        ],
        "every_nth_number": [like(lambda head: slice(head, None, 3))],
        "bias_forgotten": [like(bias=False)],
        "scaled_by_hidden_size": [like(divisor=6)],
        "no_scaling": [like(divisor=1)],
    }

    trials = [(hidden_state, layer, head) for head in (1, 0, 2)]
    return judge("weights_of_head", attempt, trials, right, mistakes, alone("head's weights"))


# -------------------------------------------------------------------------------------------------- notebook 03


FINE = "bool, or 0 and 1 in whole numbers"


def read_mask(raw):
    """Read a mask and what it is made of. Leading axes of length 1 are taken off."""
    mask = read_tensor(raw, "mask")
    while mask.dim() > 2 and mask.shape[0] == 1:
        mask = mask[0]
    whole = not isinstance(raw, torch.Tensor) or not raw.is_floating_point()
    fine = whole and ((mask == 0) | (mask == 1)).all()
    return {"mask": mask, "dtype": FINE if fine else "floats or other numbers"}


def mask_answer(mask):
    return {"mask": mask.to(torch.float64), "dtype": FINE}


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

    def tell(inputs, answer):
        if answer["mask"].shape != (inputs[0], inputs[0]):
            return "not_square"
        return "wrong_dtype_or_value" if answer["dtype"] == "floats or other numbers" else None

    return judge("causal_mask", attempt, [(4,), (2,), (1,)], right, mistakes, read_mask, tell)


NAME = "mask as it meets the scores"


def check_padding_mask(attempt):
    """Check `attempt(attention_mask)`: from (batch, key), 1 or 0, a mask for scores (batch, heads, query, key)."""
    # 5 heads, and batches that are no number of keys: no axis can be taken for another.
    trials = [
        (torch.tensor(rows),)
        for rows in ([[1, 1, 1, 0], [1, 1, 0, 0]], [[1, 1, 1], [1, 0, 0], [1, 1, 0]] * 2)
    ]

    def answer(mask, kind=FINE):
        return {NAME: mask.to(torch.float64), "dtype": kind}

    def right(attention_mask):
        batch, key = attention_mask.shape
        return answer(attention_mask[:, None, None, :].expand(batch, 5, key, key))

    def queries(attention_mask):
        return {NAME: right(attention_mask)[NAME].mT}

    def column(attention_mask):
        return {NAME: attention_mask[:, :, None]}

    def inverted(attention_mask):
        return {NAME: right(1 - attention_mask)[NAME]}

    def read(result):
        (batch, key), raw = result
        mask = read_mask(raw)
        try:
            return answer(read_tensor(raw).expand(batch, 5, key, key), mask["dtype"])
        except RuntimeError:
            return {"dtype": mask["dtype"], NAME: read_tensor(raw)}

    def tell(inputs, found):
        batch, key = inputs[0].shape
        whole = found[NAME].shape == (batch, 5, key, key)
        return None if whole else "does_not_broadcast"

    mistakes = {"inverted": [inverted], "masks_queries_not_keys": [queries, column]}

    def call(attention_mask):
        return tuple(attention_mask.shape), attempt(attention_mask)

    return judge("padding_mask", attempt, trials, right, mistakes, read, tell, call)


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
    mistakes = {name: [without_mask(like) for like in likes] for name, likes in wrong_attention().items()}
    mistakes |= {name: [with_mask(like) for like in likes] for name, likes in wrong_masks().items()}
    return judge("scaled_dot_product_attention", attempt, trials, right_attention, mistakes, tell=leaks)


def without_mask(like):
    return lambda *inputs: like(*inputs) if len(inputs) == 3 else {"output": None}


def with_mask(like):
    return lambda *inputs: like(*inputs) if len(inputs) == 4 else {"output": None}


# -------------------------------------------------------------------------------------------------- notebook 04


def check_split_heads(attempt):
    """Check `attempt(projected, num_heads)`: (batch, seq, hidden_size) cut into (batch, heads, seq, head_dim)."""
    trials = [(made_numbers(2, 4, 6), 3), (made_numbers(1, 5, 8, start=2), 2)]

    def right(projected, num_heads):
        return {"result": torch.stack(projected.chunk(num_heads, dim=-1), dim=1)}

    def like(change):
        def compute(projected, n):
            batch, seq, hidden = projected.shape
            return {"result": change(projected, batch, seq, n, hidden // n)}

        return compute

    mistakes = {
        "view_without_transpose": [like(lambda x, b, s, n, d: x.reshape(b, n, s, d))],
        "heads_interleaved": [like(lambda x, b, s, n, d: x.reshape(b, s, d, n).permute(0, 3, 1, 2))],
        "heads_not_in_front": [like(lambda x, b, s, n, d: x.reshape(b, s, n, d))],
    }
    return judge("split_heads", attempt, trials, right, mistakes, alone("result"))


def linear_layer(module, name):
    """Return weight and bias of a linear layer with this name, or raise `Unreadable`."""
    layer = getattr(module, name, None)
    if not isinstance(layer, nn.Linear):
        raise Unreadable(f"Your {type(module).__name__} needs a linear layer named `{name}`, and has none.")
    weight = layer.weight.detach()
    return weight, torch.zeros(len(weight)) if layer.bias is None else layer.bias.detach()


def projections(module, num_heads, head_dim):
    """Return for query, key and value the weights (heads, head_dim, hidden_size) and biases (heads, head_dim)."""
    heads, found = getattr(module, "heads", None), []
    for name in ("query", "key", "value"):
        if isinstance(heads, nn.ModuleList):
            each = [linear_layer(head, name) for head in heads]
            found.append((torch.stack([w for w, _ in each]), torch.stack([b for _, b in each])))
            continue
        weight, bias = linear_layer(module, name)
        if weight.shape[0] == head_dim:  # one projection for all heads
            found.append((weight.expand(num_heads, -1, -1), bias.expand(num_heads, -1)))
        elif weight.shape[0] == num_heads * head_dim:
            found.append((weight.reshape(num_heads, head_dim, -1), bias.reshape(num_heads, head_dim)))
        else:
            raise Unreadable(
                f"Your layer `{name}` makes {weight.shape[0]} numbers; {num_heads * head_dim} are needed."
            )
    return found


def check_multi_head_attention(attempt):
    """Check the class `attempt(hidden_size, num_heads)` with `forward(hidden_state, mask=None)`.

    It has linear layers `query`, `key`, `value` and `output`; or a ModuleList `heads`, each head with `query`, `key`
    and `value`, and a layer `output`. The mask is (query, key) of bool, True: may be attended to. It returns the
    output, (batch, seq, hidden_size), alone or with the weights. Peer: nn.MultiheadAttention with equal weights.
    """
    exercise, hidden_size, num_heads, head_dim = "multi_head_attention", 6, 3, 2
    module, verdict = built(exercise, attempt, hidden_size, num_heads)
    if verdict:
        return verdict
    try:
        parts = projections(module, num_heads, head_dim)
        output = linear_layer(module, "output") if hasattr(module, "output") else None
    except Unreadable as unreadable:
        return refused(exercise, str(unreadable))
    weights = parts[0][0]
    if len(weights) > 1 and torch.equal(weights[0], weights[1]):
        return named(
            exercise, "heads_share_weights", f"Two heads start with the number {weights[0, 0, 0]:.2f}."
        )

    some = torch.tensor([[1, 1, 0, 1], [1, 0, 1, 0], [0, 1, 1, 1], [1, 0, 0, 1]]).bool()
    states = made_numbers(2, 4, hidden_size) / 2, made_numbers(1, 5, hidden_size, start=8) / 2
    trials = [(states[0],), (states[1],), (states[0], some)]
    fits = (
        weights.shape[:2] == (num_heads, head_dim)
        and output
        and output[0].shape == (hidden_size, hidden_size)
    )

    def right(hidden_state, mask=None):
        if not fits:
            return {"output": torch.full(hidden_state.shape, math.nan)}
        peer = nn.MultiheadAttention(hidden_size, num_heads, batch_first=True).eval()
        with torch.no_grad():
            peer.in_proj_weight.copy_(torch.cat([w.reshape(hidden_size, -1) for w, _ in parts]))
            peer.in_proj_bias.copy_(torch.cat([b.flatten() for _, b in parts]))
            peer.out_proj.weight.copy_(output[0])
            peer.out_proj.bias.copy_(output[1])
            attn_mask = None if mask is None else ~mask
            inputs = [hidden_state] * 3
            result, weights = peer(*inputs, attn_mask=attn_mask, average_attn_weights=False)
        return {"output": result, "weights": weights}

    def project(merged):
        return F.linear(merged, *output) if output and output[0].shape[1] == merged.shape[-1] else merged

    def like(join, split=None, masks=None, divisor=None, share=None, last=project):
        """Compute with one step changed. Without a change it would be right."""

        def compute(hidden_state, mask=None):
            chosen = [
                (w[[share] * len(w)], b[[share] * len(w)]) if share is not None else (w, b) for w, b in parts
            ]
            per_head = [torch.einsum("bsi,hdi->bhsd", hidden_state, w) + b[:, None] for w, b in chosen]
            if split:
                per_head = [split(part) for part in per_head]
            query, key, value = per_head
            scores = query @ key.mT / math.sqrt(divisor or query.shape[-1])
            if mask is not None:
                heads = torch.arange(scores.shape[1])[:, None, None]
                use = mask if masks is None else mask | (heads != masks % scores.shape[1])
                scores = scores.masked_fill(~use, -math.inf)
            elif masks is not None:
                raise ValueError("this shows only with a mask")
            return {"output": last(join(scores.softmax(dim=-1) @ value))}

        return compute

    def side_by_side(per_head):
        return per_head.transpose(1, 2).flatten(2)  # (batch, seq, hidden_size)

    def as_it_lies(per_head):
        return per_head.reshape(per_head.shape[0], per_head.shape[2], -1)

    def view(per_head):
        return side_by_side(per_head).reshape(per_head.shape)

    def repeated(summed):
        return summed.repeat(1, 1, num_heads)

    mistakes = {
        "view_without_transpose": [like(side_by_side, view), like(as_it_lies, view)],
        "merge_without_transpose": [like(as_it_lies)],
        "heads_share_weights": [like(side_by_side, share=0), like(side_by_side, share=-1)],
        "scaled_by_hidden_size": [
            like(side_by_side, divisor=hidden_size),
            like(side_by_side, divisor=hidden_size**2),
        ],
        "no_output_projection": [like(side_by_side, last=lambda merged: merged)],
        "heads_summed_not_concatenated": [
            like(lambda per_head: per_head.sum(dim=1)),
            like(lambda per_head: per_head.mean(dim=1)),
            like(lambda per_head: repeated(per_head.sum(dim=1))),
            like(lambda per_head: repeated(per_head.mean(dim=1))),
        ],
        "mask_only_for_one_head": [like(side_by_side, masks=place) for place in range(num_heads)],
    }
    if fits:
        return judge(exercise, attempt, trials, right, mistakes, call=module)
    # No answer is right then. But the output may tell why the sizes are as they are.
    sizes = (
        "With hidden_size 6 and 3 heads, each head makes 2 numbers, and `output` takes 6 and gives 6. "
        f"Your heads make {weights.shape[1]}, and "
        + (
            f"your `output` takes {output[0].shape[1]} and gives {output[0].shape[0]}."
            if output
            else "there is no `output`."
        )
    )
    causes = {name: mistakes[name] for name in ("no_output_projection", "heads_summed_not_concatenated")}
    verdict = judge(exercise, attempt, trials, right, causes, call=module)
    if verdict.misconception in causes:
        return named(exercise, verdict.misconception, sizes)
    return refused(exercise, sizes) if "raised" not in verdict.message else verdict


# -------------------------------------------------------------------------------------------------- notebook 05


def check_layer_norm(attempt):
    """Check `attempt(hidden_state, weight, bias, eps)`: the shape stays. Peer: F.layer_norm."""
    weight, bias = made_numbers(4, start=5) + 0.5, made_numbers(4, start=9)
    trials = [
        (made_numbers(2, 4, 4), weight, bias, 1e-5),
        (made_numbers(3, 4, start=2) / 4, weight, bias, 0.5),
    ]

    def like(axis=-1, correction=0, root=lambda v, eps: torch.sqrt(v + eps), scale=True, shift=True):
        def compute(x, weight, bias, eps):
            mean = x.mean(dim=axis, keepdim=True)
            result = (x - mean) / root(x.var(dim=axis, keepdim=True, correction=correction), eps)
            return {"result": result * (weight if scale else 1) + (bias if shift else 0)}

        return compute

    mistakes = {
        "wrong_axis": [like(axis=axis) for axis in (0, 1, -2, (0, 1), (-2, -1), (0, 1, 2))],
        "unbiased_variance": [like(correction=1)],
        "epsilon_outside_root": [like(root=lambda v, eps: torch.sqrt(v) + eps)],
        "no_scale_and_shift": [like(scale=False, shift=False), like(scale=False), like(shift=False)],
    }

    def right(x, weight, bias, eps):
        return {"result": F.layer_norm(x, x.shape[-1:], weight, bias, eps)}

    return judge("layer_norm", attempt, trials, right, mistakes, alone("result"))


def check_position_encoding(attempt):
    """Check `attempt(token_vectors)`: (batch, seq, hidden_size) plus the sinusoidal position of each token.

    The right numbers are worked out one by one from section 3.5 of Vaswani et al. 2017, counting from position 0.
    """
    trials = [(made_numbers(2, 5, 6),), (made_numbers(1, 7, 4, start=6),)]

    def table(
        x, unit=1.0, speed=lambda pair, size: 10000 ** (-2 * pair / size), first=0, turns=(math.sin, math.cos)
    ):
        _, seq, size = x.shape
        rows = [
            [turns[i % 2](unit * (p + first) * speed(i // 2, size)) for i in range(size)] for p in range(seq)
        ]
        return torch.tensor(rows)

    def blocks(x):
        rows = table(x)
        return torch.cat([rows[:, 0::2], rows[:, 1::2]], dim=-1)

    def added(make):
        return lambda x: {"result": x + make(x)}

    def without_pairs(x):
        _, seq, size = x.shape
        rows = [
            [(math.sin, math.cos)[i % 2](p * 10000 ** (-i / size)) for i in range(size)] for p in range(seq)
        ]
        return torch.tensor(rows)

    def flipped_blocks(x):
        return blocks(x).roll(x.shape[-1] // 2, dims=-1)

    mistakes = {
        "not_interleaved": [
            added(blocks),
            added(flipped_blocks),
            added(lambda x: table(x, turns=(math.sin, math.sin))),
            added(lambda x: table(x, turns=(math.cos, math.sin))),
        ],
        "degrees_or_missing_frequency": [
            added(lambda x: table(x, unit=math.pi / 180)),
            added(lambda x: table(x, unit=180 / math.pi)),
            added(lambda x: table(x, speed=lambda pair, size: 1.0)),
            added(lambda x: table(x, speed=lambda pair, size: 1 / 10000)),
            added(without_pairs),
        ],
        "positions_from_one": [added(lambda x: table(x, first=1))],
        "not_added": [lambda x: {"result": table(x)}, lambda x: {"result": table(x).expand(x.shape)}],
    }

    def tell(inputs, answer):
        vectors, result = inputs[0].to(torch.float64), answer["result"]
        if result.shape != vectors.shape or len(vectors) < 2 or not result.isfinite().all():
            return None
        what_was_added = result - vectors
        same = torch.allclose(what_was_added[0], what_was_added[1], atol=1e-4)
        return None if same else "depends_on_token"

    return judge("position_encoding", attempt, trials, added(table), mistakes, alone("result"), tell)


class _Part(nn.Module):
    """A part of a layer that is handed to a learner's class: it returns one tensor."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, hidden_state):
        return self.function(hidden_state)


def check_encoder_layer(attempt):
    """Check the class `attempt(attention, feed_forward, hidden_size, dropout)` with `forward(hidden_state)`.

    Its norms are called `attention_norm` and `feed_forward_norm`, and stand as in BERT (post-norm). `attention` and
    `feed_forward` are modules that take and return (batch, seq, hidden_size). Peer: nn.TransformerEncoderLayer.
    """
    exercise, hidden_size = "encoder_layer", 6
    with steady():
        peer = nn.TransformerEncoderLayer(hidden_size, 2, 8, 0.5, "gelu", batch_first=True)
        peer = fill_weights(peer).eval().requires_grad_(False)
    attention = _Part(lambda x: peer.self_attn(x, x, x, need_weights=False)[0])
    feed_forward = _Part(lambda x: peer.linear2(F.gelu(peer.linear1(x))))
    module, verdict = built(exercise, attempt, attention, feed_forward, hidden_size, 0.5)
    if verdict:
        return verdict
    norms = [part for part in module.modules() if isinstance(part, nn.LayerNorm)]
    first, second = (getattr(module, name, None) for name in ("attention_norm", "feed_forward_norm"))
    shared = len(norms) == 1 or (first is second and first is not None)
    if shared:
        first = second = norms[0]
    elif not (isinstance(first, nn.LayerNorm) and isinstance(second, nn.LayerNorm)):
        missing = "attention_norm" if not isinstance(first, nn.LayerNorm) else "feed_forward_norm"
        return refused(exercise, f"Your class needs an nn.LayerNorm named `{missing}`, and has none.")

    def right(x):
        with torch.no_grad():
            if shared:  # no answer is right then, but the sentence needs a number
                return {"output": torch.full(x.shape, math.nan)}
            for theirs, mine in ((peer.norm1, first), (peer.norm2, second)):
                theirs.weight.copy_(mine.weight)
                theirs.bias.copy_(mine.bias)
            return {"output": peer(x)}

    def like(one, other, norm_1=first, norm_2=second):
        def compute(x):
            with torch.no_grad():
                return {"output": other(norm_2, feed_forward, one(norm_1, attention, x))}

        return compute

    def post(norm, part, x):
        return norm(x + part(x))

    def pre(norm, part, x):
        return x + part(norm(x))

    def inside(norm, part, x):
        return x + norm(part(x))

    def alone_(norm, part, x):
        return norm(part(x))

    def unnormed_input(norm, part, x):
        return part(norm(x))

    mistakes = {
        "one_norm_shared": [like(post, post, n, n) for n in (first, second)] + [like(pre, pre, first, first)],
        "missing_residual": [
            like(one, other)
            for one, other in (
                (alone_, alone_),
                (post, alone_),
                (alone_, post),
                (unnormed_input, unnormed_input),
            )
        ],
        "norm_order": [
            like(one, other)
            for one in (pre, inside, post)
            for other in (pre, inside, post)
            if (one, other) != (post, post)
        ],
    }
    if not shared:
        mistakes["norm_order"].append(like(post, post, second, first))
    x = made_numbers(2, 3, hidden_size) / 2
    twice = run_attempt(module, [(x,), (x,)])
    answers = [result for _, result in twice.results if isinstance(result, torch.Tensor)]
    if len(answers) == 2 and answers[0].shape == answers[1].shape and not torch.allclose(*answers):
        seen = what_differs({"output": read_tensor(answers[1])}, {"output": read_tensor(answers[0])})
        return named(exercise, "dropout_in_eval", "Called twice in eval mode, it gives two answers. " + seen)
    trials = [(x,), (made_numbers(1, 4, hidden_size, start=3),)]
    if not shared:
        return judge(exercise, attempt, trials, right, mistakes, call=module)
    seen = f"Your class holds {len(set(norms))} norm where a layer has two."
    only = {"one_norm_shared": mistakes["one_norm_shared"]}
    verdict = judge(exercise, attempt, trials, right, only, call=module)
    if verdict.misconception:
        return named(exercise, "one_norm_shared", seen)
    return refused(exercise, seen) if "raised" not in verdict.message else verdict


# ------------------------------------------------------------------------------------------- notebooks 06 and 07


def planted(layers, heads, seq, plants, start=0):
    """Return attention weights, a tuple of (1, heads, query, key), in which some heads do what was planted.

    `plants` maps (layer, head) to (strength, pairs of query and key): each gets that weight, the rest share what is
    left of the row. All other heads spread their weights.
    """
    weights = (made_numbers(layers, heads, seq, seq, start=start) / 4).softmax(dim=-1)
    for (layer, head), (strength, pairs) in plants.items():
        for query, key in pairs:
            row = weights[layer, head, query].clone()
            row[key] = 0
            row *= (1 - strength) / row.sum()
            row[key] = strength
            weights[layer, head, query] = row
    return tuple(weights[:, None].unbind(0))


def heads_at(**places):
    """Return answers that are (layer, head), one function for each name."""
    return {name: [lambda *_, p=place: {LAYER_HEAD: torch.tensor(p)}] for name, place in places.items()}


def judge_heads(exercise, attempt, cases):
    """Judge a search for a head. Each case: its inputs, the right (layer, head), and where mistakes would lead."""
    trials = [inputs for inputs, _, _ in cases]
    known = {id(inputs[0]): (place, wrong) for inputs, place, wrong in cases}
    names = list(cases[0][2])

    def right(*inputs):
        return {LAYER_HEAD: torch.tensor(known[id(inputs[0])][0])}

    def led_to(name):
        return lambda *inputs: {LAYER_HEAD: torch.tensor(known[id(inputs[0])][1][name])}

    mistakes = {
        "counted_from_one": [lambda *i: {LAYER_HEAD: right(*i)[LAYER_HEAD] + 1}],
        "layer_and_head_swapped": [lambda *i: {LAYER_HEAD: right(*i)[LAYER_HEAD].flip(0)}],
    } | {name: [led_to(name)] for name in names}

    def read(raw):
        places = whole_numbers(LAYER_HEAD)(raw)
        if places[LAYER_HEAD].shape != (2,):
            count = places[LAYER_HEAD].numel()
            raise Unreadable(f"Your result holds {count} numbers. Two are expected: the layer and the head.")
        return places

    return judge(exercise, attempt, trials, right, mistakes, read)


def check_previous_token_head(attempt):
    """Check `attempt(attentions)`: (layer, head), counted from 0, of the largest mean weight on the token before.

    `attentions` is a tuple of (1, heads, query, key), as a model returns it. The heads are planted.
    """
    cases = []
    for seq, (back, ahead, self_, once) in (
        (6, ((1, 3), (2, 0), (0, 2), (0, 1))),
        (7, ((2, 1), (1, 0), (0, 3), (1, 4))),
    ):
        plants = {
            back: (0.8, [(i, i - 1) for i in range(1, seq)]),
            ahead: (0.8, [(i, i + 1) for i in range(seq - 1)]),
            self_: (0.8, [(i, i) for i in range(seq)]),
            once: (1.0, [(3, 2)]),
        }
        wrong = {
            "next_token_instead": ahead,
            "token_itself_instead": self_,
            "one_weight_instead_of_mean": once,
        }
        cases.append(((planted(3, 5, seq, plants),), back, wrong))
    return judge_heads("previous_token_head", attempt, cases)


def check_strongest_head(attempt):
    """Check `attempt(attentions, query, key)`: (layer, head), counted from 0, that gives most from query to key."""
    cases = []
    for query, key, right, swapped, last in ((4, 2, (1, 3), (0, 4), (2, 2)), (1, 5, (0, 2), (2, 0), (2, 4))):
        plants = {right: (0.9, [(query, key)]), swapped: (0.95, [(key, query)]), last: (0.6, [(query, key)])}
        attentions = planted(3, 5, 6, plants, start=query)
        cases.append(
            ((attentions, query, key), right, {"query_key_swapped": swapped, "last_layer_only": last})
        )
    return judge_heads("strongest_head", attempt, cases)


def shares_of_keys(weights, of_keys, over_queries=None):
    """Return for each head the sum over some keys, as a mean over some queries: (layers, heads)."""
    weights = torch.cat(weights)[..., of_keys]  # (layers, heads, query, some keys)
    return (weights if over_queries is None else weights[:, :, over_queries]).sum(dim=-1).mean(dim=-1)


def check_working_share(attempt):
    """Check `attempt(attentions)`: for each head the share that goes neither to the first nor to the last token."""
    trials = [
        (planted(2, 3, 6, {(0, 1): (0.7, [(i, 0) for i in range(6)])}),),
        (planted(3, 2, 5, {}, start=4),),
    ]

    def inner(attentions):
        return list(range(1, attentions[0].shape[-1] - 1))

    def every(attentions):
        return list(range(attentions[0].shape[-1]))

    def answer(value):
        return {"share": value}

    mistakes = {
        "leaves_out_queries": [
            lambda a: answer(torch.cat(a)[:, :, 1:-1].sum(dim=-1).mean(dim=-1)),
            lambda a: answer(torch.cat(a)[:, :, 1:-1].sum(dim=-2).mean(dim=-1)),
        ],
        "share_of_specials": [lambda a: answer(shares_of_keys(a, [0, -1]))],
        "mean_over_keys": [lambda a: answer(shares_of_keys(a, inner(a)) / len(inner(a)))],
        "sum_over_queries": [lambda a: answer(shares_of_keys(a, inner(a)) * len(every(a)))],
    }

    def right(attentions):
        return answer(1 - shares_of_keys(attentions, [0, -1]))  # each row sums to 1

    return judge("working_share", attempt, trials, right, mistakes, alone("share"))


def check_separator_share(attempt):
    """Check `attempt(attentions, tokens)`: for each head the share of its weight that goes to all [SEP] tokens."""
    pair = ["[CLS]", "leaves", "fall", "[SEP]", "autumn", "comes", "[SEP]"]
    trials = [
        (planted(2, 3, 7, {}), pair),
        (planted(3, 2, 5, {}, start=3), ["[CLS]", "a", "[SEP]", "b", "[SEP]"]),
    ]

    def at(tokens):
        return [place for place, token in enumerate(tokens) if token == "[SEP]"]

    def answer(value):
        return {"share": value}

    mistakes = {
        "only_first_separator": [lambda a, t: answer(shares_of_keys(a, at(t)[:1]))],
        "separators_as_queries": [
            lambda a, t: answer(torch.cat(a)[:, :, at(t)].sum(dim=-2).mean(dim=-1)),
            lambda a, t: answer(torch.cat(a)[:, :, at(t)].sum(dim=-1).mean(dim=-1)),
            lambda a, t: answer(torch.cat(a)[:, :, at(t)].mean(dim=(-2, -1))),
        ],
        "mean_over_keys": [lambda a, t: answer(shares_of_keys(a, at(t)) / len(at(t)))],
        "sum_over_queries": [lambda a, t: answer(shares_of_keys(a, at(t)) * len(t))],
    }

    def right(attentions, tokens):
        others = [place for place in range(len(tokens)) if place not in at(tokens)]
        return answer(1 - shares_of_keys(attentions, others))  # each row sums to 1

    return judge("separator_share", attempt, trials, right, mistakes, alone("share"))


def check_same_word_share(attempt):
    """Check `attempt(attentions, tokens)`: for each head the share that goes to other places of the same word.

    It is a mean over those queries whose word stands in the text more than once. No special tokens are among them.
    """
    trials = [
        (planted(2, 3, 7, {}), ["in", "autumn", "leaves", "fall", "autumn", "in", "autumn"]),
        (planted(3, 2, 5, {}, start=5), ["a", "b", "c", "a", "d"]),
    ]

    def computed(itself=False, every=False, mean=False):
        def compute(attentions, tokens):
            weights, found = torch.cat(attentions), []
            for query, word in enumerate(tokens):
                same = [k for k, other in enumerate(tokens) if other == word and (itself or k != query)]
                if tokens.count(word) > 1 or every:
                    row = weights[:, :, query, same].sum(dim=-1)  # (layers, heads)
                    found.append(row / max(len(same), 1) if mean else row)
            return {"share": torch.stack(found).mean(dim=0)}

        return compute

    mistakes = {
        "includes_itself": [computed(itself=True), computed(itself=True, every=True)],
        "all_queries_counted": [computed(every=True)],
        "mean_over_keys": [computed(mean=True)],
    }
    return judge("same_word_share", attempt, trials, computed(), mistakes, alone("share"))


def check_best_head(attempt):
    """Check `attempt(scores)`: from one number a head, (layers, heads), the (layer, head) of the largest."""
    first = torch.tensor([[0.1, 0.2, 0.3, 0.15], [0.25, 0.05, 0.4, 0.9], [0.35, 0.12, 0.45, 0.22]])
    second = torch.tensor(
        [[0.5, 0.1, 0.3], [0.2, 0.6, 0.7], [0.25, 0.15, 0.05], [0.8, 0.4, 0.35], [0.3, 0.2, 0.1]]
    )
    answers = {first.shape: ((1, 3), (1, 1)), second.shape: ((3, 0), (2, 2))}

    def right(scores):
        return {LAYER_HEAD: torch.tensor(answers[scores.shape][0])}

    mistakes = {
        "counted_from_one": [lambda s: {LAYER_HEAD: right(s)[LAYER_HEAD] + 1}],
        "layer_and_head_swapped": [lambda s: {LAYER_HEAD: right(s)[LAYER_HEAD].flip(0)}],
        "weakest_instead": [lambda s: {LAYER_HEAD: torch.tensor(answers[s.shape][1])}],
        "flat_index": [lambda s: {LAYER_HEAD: s.argmax()}],
    }
    read = whole_numbers(LAYER_HEAD)
    return judge("best_head", attempt, [(first,), (second,)], right, mistakes, read)


# -------------------------------------------------------------------------------------------------- notebook 08


def check_query_key_product(attempt):
    """Check `attempt(query, keys)`: q×k for each token, (key, head_dim), and q·k, (key,), as the view shows them."""
    trials = [
        (made_numbers(4), made_numbers(5, 4, start=6)),
        (made_numbers(3, start=2), made_numbers(3, 3, start=7)),
    ]

    def like(divisor=math.sqrt, axis=-1):
        def compute(query, keys):
            products = torch.einsum("d,kd->kd", query, keys)
            return {"products": products, "scores": products.sum(dim=axis) / divisor(len(query))}

        return compute

    def right(query, keys):
        # log of softmax keeps differences only, so the scores themselves come from a product of matrices
        return {"products": torch.mul(query, keys), "scores": torch.mv(keys, query) / math.sqrt(len(query))}

    mistakes = {
        "no_scaling": [like(lambda d: 1)],
        "scaled_by_d": [like(lambda d: d)],
        "sum_over_keys": [like(axis=0), like(lambda d: 1, axis=0)],
    }
    return judge("query_key_product", attempt, trials, right, mistakes, parts_of("products", "scores"))


def check_weights_of_token(attempt):
    """Check `attempt(query, keys)`: one token's weights, (key,), from its query (head_dim,) and keys (key, head_dim).

    Peer: F.scaled_dot_product_attention.
    """
    trials = [
        (made_numbers(3), made_numbers(5, 3, start=6)),
        (made_numbers(4, start=1), made_numbers(6, 4, start=4)),
    ]

    def right(query, keys):
        return {"row": weights_of(query[None], keys)[0]}

    def like(divisor):
        return lambda query, keys: {"row": (keys @ query / divisor(*keys.shape)).softmax(dim=0)}

    mistakes = {
        "no_scaling": [like(lambda n, d: 1)],
        "scaled_by_d": [like(lambda n, d: d)],
        "scaled_by_sequence_length": [like(lambda n, d: n), like(lambda n, d: math.sqrt(n))],
        "no_softmax": [
            lambda q, k: {"row": k @ q / math.sqrt(len(q))},
            lambda q, k: {"row": k @ q},
            lambda q, k: {"row": (k @ q) / (k @ q).sum()},
        ],
    }

    def read(raw):
        row = alone("row")(raw)["row"]
        return {"row": row[0] if row.dim() == 2 and len(row) == 1 else row}

    return judge("weights_of_token", attempt, trials, right, mistakes, read)


def check_strongest_neurons(attempt):
    """Check `attempt(query, key, count)`: the numbers of the `count` neurons that raise the score most, in order."""
    trials = [
        (torch.tensor([2.0, -1.0, 0.5, 3.0, -2.0]), torch.tensor([1.0, -3.0, 0.0, -2.0, 0.25]), 2),
        (torch.tensor([1.0, 0.5, -4.0, 2.0, -1.0, 3.0]), torch.tensor([5.0, 2.0, 1.5, 0.1, -4.0, 1.0]), 3),
    ]

    def ranked(by, add=0, largest=True):
        def compute(query, key, count):
            order = sorted(
                range(len(query)), key=lambda i: by(query[i].item(), key[i].item()), reverse=largest
            )
            return {"dimensions": torch.tensor([place + add for place in order[:count]])}

        return compute

    def product(q, k):
        return q * k

    mistakes = {
        "weakest_first": [ranked(product, largest=False)],
        "sign_ignored": [ranked(lambda q, k: abs(q * k)), ranked(lambda q, k: abs(q) * abs(k))],
        "query_alone": [
            ranked(lambda q, k: q),
            ranked(lambda q, k: k),
            ranked(lambda q, k: abs(q)),
            ranked(lambda q, k: abs(k)),
        ],
        "counted_from_one": [ranked(product, add=1)],
    }
    return judge("strongest_neurons", attempt, trials, ranked(product), mistakes, whole_numbers("dimensions"))


# -------------------------------------------------------------------------------------------------- notebook 09


def check_shift_right(attempt):
    """Check `attempt(labels, start_id)`: what the decoder reads while it learns these labels, (batch, seq).

    Peer: shift_tokens_right of the library's BART.
    """
    from transformers.models.bart.modeling_bart import shift_tokens_right

    trials = [(torch.tensor([[5, 6, 7, 2], [8, 9, 2, 0]]), 1), (torch.tensor([[4, 2, 0], [3, 7, 2]]), 9)]

    def answer(ids):
        return {"ids": ids}

    def start(labels, start_id):
        return torch.full_like(labels[:, :1], start_id)

    mistakes = {
        "shifted_left": [
            lambda x, s: answer(torch.cat([x[:, 1:], start(x, s)], dim=1)),
            lambda x, s: answer(torch.cat([x[:, 1:], start(x, 0)], dim=1)),
            lambda x, s: answer(x.roll(-1, dims=1)),
            lambda x, s: answer(x[:, 1:]),
        ],
        "wraps_around": [lambda x, s: answer(x.roll(1, dims=1))],
        "one_too_long": [lambda x, s: answer(torch.cat([start(x, s), x], dim=1))],
        "start_replaces_first": [lambda x, s: answer(torch.cat([start(x, s), x[:, 1:]], dim=1))],
    }

    def right(labels, start_id):
        return answer(shift_tokens_right(labels, 0, start_id))

    return judge("shift_right", attempt, trials, right, mistakes, whole_numbers("ids"))


def check_greedy_decode(attempt):
    """Check `attempt(next_logits, start_id, end_id, max_new_tokens)`: the ids written, a list.

    `next_logits(ids)` takes a list of ids and returns scores (len(ids), vocab_size): row i is about the token behind
    place i. The list may begin with the start token or not. It ends with the end token if that comes in time.
    """
    start_id, end_id, vocabulary = 1, 2, 9
    story = [start_id, 5, 3, 5, 7, end_id]

    def favourite(prefix):
        if prefix == story[: len(prefix)] and len(prefix) < len(story):
            return story[len(prefix)]
        return 3 + (2 * sum(prefix) + len(prefix)) % 6  # off the story: anything but the start and the end

    def next_logits(ids):
        ids = [int(value) for value in torch.as_tensor(ids).flatten()]
        rows = made_numbers(len(ids), vocabulary) / 2
        for place in range(len(ids)):
            rows[place, favourite(ids[: place + 1])] = 4.0
            rows[place, (place * 2) % 3 + 6] -= 3.0
        return rows

    def written(end, limit, view=lambda ids: ids, row=-1, choose=torch.argmax, stops=True):
        ids = [start_id]
        while len(ids) <= limit and not (stops and ids[-1] == end):
            ids.append(int(choose(next_logits(view(ids))[row])))
        return {"ids": ids[1:]}

    def like(**changes):
        return lambda next_logits, start, end, limit: written(end, limit, **changes)

    def right(next_logits, start, end, limit):
        return {"ids": story[1 : limit + 1]}

    mistakes = {
        "reads_first_position": [like(row=0)],
        "forgets_what_was_written": [like(view=lambda ids: ids[-1:])],
        "does_not_stop_at_end": [like(stops=False)],
        "least_likely": [like(choose=torch.argmin)],
    }

    def read(raw):
        ids = [int(value) for value in whole_numbers("ids")(raw)["ids"].flatten()]
        return {"ids": ids[1:] if ids[:1] == [start_id] else ids}

    trials = [(next_logits, start_id, end_id, limit) for limit in (8, 3)]
    return judge("greedy_decode", attempt, trials, right, mistakes, read)


def check_cross_attention(attempt):
    """Check the class `attempt(hidden_size)` with `forward(hidden_state, memory)`: one head, no mask.

    It has linear layers `query`, `key` and `value`. hidden_state (batch, query, hidden_size) comes from the decoder,
    memory (batch, key, hidden_size) from the encoder. Peer: F.scaled_dot_product_attention on those layers.
    """
    exercise, hidden_size = "cross_attention", 4
    module, verdict = built(exercise, attempt, hidden_size)
    if verdict:
        return verdict
    try:
        layers = [linear_layer(module, name) for name in ("query", "key", "value")]
    except Unreadable as unreadable:
        return refused(exercise, str(unreadable))
    if any(weight.shape != (hidden_size, hidden_size) for weight, _ in layers):
        sizes = ", ".join(str(tuple(weight.shape)) for weight, _ in layers)
        return refused(
            exercise, f"Each layer takes hidden_size numbers and makes as many. Yours are {sizes}."
        )

    def like(*sources):
        def compute(hidden_state, memory):
            states = {"decoder": hidden_state, "encoder": memory}
            parts = [F.linear(states[name], *layer) for name, layer in zip(sources, layers, strict=True)]
            return right_attention(*parts)

        return compute

    mistakes = {
        "keys_from_decoder": [like("decoder", "decoder", "encoder")],
        "values_from_decoder": [like("decoder", "encoder", "decoder")],
        "queries_from_encoder": [
            like("encoder", "encoder", "encoder"),
            like("encoder", "decoder", "decoder"),
            like("encoder", "encoder", "decoder"),
            like("encoder", "decoder", "encoder"),
        ],
        "memory_ignored": [like("decoder", "decoder", "decoder")],
    }
    # First as many target tokens as source tokens, so that a mistake runs to its end.
    trials = [
        (made_numbers(2, 3, hidden_size) / 2, made_numbers(2, 3, hidden_size, start=5) / 2),
        (made_numbers(1, 2, hidden_size, start=2), made_numbers(1, 5, hidden_size, start=4)),
    ]
    return judge(exercise, attempt, trials, like("decoder", "encoder", "encoder"), mistakes, call=module)
