"""What the checks of several notebooks share: inputs, the learner's modules, attention right and wrong, heads."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .answers import Unreadable, agrees, close, kind_of
from .judge import NotAttempted
from .running import is_stub, run_attempt, why_not_run
from .symptoms import of_error

# ------------------------------------------------------------------------------------------ inputs and modules


def made_numbers(*shape, start=0, step=37):
    """Return a tensor of repeatable numbers from -2 to 2. They are not random: those differ between computers."""
    count = torch.arange(math.prod(shape))
    return (((count * step + count // 7 * 5 + 11 * start) % 29 - 14) / 7.0).reshape(shape)


def fill_weights(module):
    """Give every weight of a module a repeatable number, so that each of its tensors is another one."""
    with torch.no_grad():
        for place, weight in enumerate(module.parameters()):
            weight.copy_(made_numbers(*weight.shape, start=place + 1, step=17 + 6 * (place % 3)) / 3)
    return module


def built(attempt, *arguments):
    """Return the learner's module with repeatable weights in eval mode, or raise `Unreadable`."""
    if not isinstance(attempt, type):
        raise Unreadable(f"Give the class itself. This is {kind_of(attempt)}.", "not_the_class")
    if not issubclass(attempt, nn.Module):
        raise Unreadable(f"Your class {attempt.__name__} is no nn.Module.", "no_module")
    ran = run_attempt(attempt, [arguments])
    if is_stub(ran.error):
        raise NotAttempted
    if not ran.results:
        raise Unreadable(why_not_run(ran), of_error(ran.error))
    try:
        return fill_weights(ran.results[0][1]).eval()
    except Exception as error:
        raise Unreadable(f"Its weights cannot be set: {type(error).__name__}.") from error


def linear_layer(module, name):
    """Return weight and bias of a linear layer with this name, or raise `Unreadable`."""
    layer = getattr(module, name, None)
    if not isinstance(layer, nn.Linear):
        said = f"Your {type(module).__name__} needs a linear layer named `{name}`, and has none."
        raise Unreadable(said, "layer_missing")
    weight = layer.weight.detach()
    return weight, torch.zeros(len(weight)) if layer.bias is None else layer.bias.detach()


# ----------------------------------------------------------------- attention without a mask: notebooks 02, 03, 08


def plain_trials():
    """Return inputs of attention without a mask. In the first ones no two axes are equally long, but a swap runs."""
    shapes = [
        [(3, 7, 5)] * 3,
        [(6, 5)] * 3,
        [(2, 3, 7), (2, 5, 7), (2, 5, 6)],
        [(2, 5, 3), (2, 2, 3), (2, 2, 4)],  # more queries than keys
        [(1, 2, 3), (1, 5, 3), (1, 5, 2)],  # one text
        [(2, 3, 3)] * 3,  # what is returned as weights can be compared, whatever it is
    ]
    trials = [tuple(made_numbers(*shape, start=3 * i) for i, shape in enumerate(three)) for three in shapes]
    # Heads are cut out by a transpose, so their numbers do not lie side by side in memory.
    heads = tuple(made_numbers(2, 6, 3, 2, start=i).transpose(1, 2) for i in (2, 5, 9))
    return [*trials, heads, far_trial()]


def far_trial():
    """Return query, key and value with scores near 2000, -2000 and 0; in the second text both ends in one row.

    They are exact in 32 bits, in any order of the sums: multiples of 1/4, and the root of d is 4.
    """
    query, key = (made_numbers(2, 4, 16, start=start).mul(2).round() / 4 for start in (4, 7))
    query[..., 0] = torch.tensor([64.0, -64, 64, 0])
    key[..., 0], key[1, 2, 0] = 125, -125
    return query, key, made_numbers(2, 4, 3, start=9)


def weights_of(query, key, mask=None):
    """Return the attention weights that PyTorch computes: with the unit matrix as values, they are the output."""
    unit = torch.eye(key.shape[-2], dtype=key.dtype).expand(*key.shape[:-2], -1, -1)
    return F.scaled_dot_product_attention(query, key, unit, attn_mask=mask)


def right_attention(query, key, value, mask=None):
    """Return the right answer for attention."""
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    return {"output": output, "weights": weights_of(query, key, mask)}


def scaled_scores(query, key):
    """Return the scores before softmax, (..., query, key)."""
    return query @ key.mT / math.sqrt(query.shape[-1])


def applied(weights, value):
    """Return the answer that these weights give."""
    return {"output": weights @ value, "weights": weights}


def only_where(happens, like):
    """Return a misconception that foresees an answer only where `happens(*inputs)`."""

    def compute(*inputs):
        if not happens(*inputs):
            raise ValueError("not here")
        return like(*inputs)

    return compute


def overflowed(mine, right):
    """Say whether some rows are nan or 0, and the others right: powers of e that were too large or too small."""
    if mine.shape != right.shape:
        return False
    lost = mine.isnan().any(dim=-1) | (mine == 0).all(dim=-1)
    return bool(lost.any() and not lost.all() and close(mine[~lost], right[~lost]).all())


def signs_of_attention():
    """Return the misconceptions of attention that no formula foresees, as signs: (inputs, answer) to a bool."""

    def overflow(inputs, answer):
        large = len(inputs) == 3 and scaled_scores(*inputs[:2]).max() > 1000
        return large and overflowed(answer["output"], right_attention(*inputs)["output"])

    return {"overflow_on_large_scores": overflow}


# What a learner may divide by instead of √d, given d; and what may happen to scores before softmax.
ROOTS_OF = lambda d: d - 1, lambda d: d + 1, lambda d: 2 * d, lambda d: d / 2
OTHER_DIVISORS = [lambda d, power=power: d**power for power in (0.25, 1.5, 2)]
OTHER_DIVISORS += [lambda d, size=size: math.sqrt(size(d)) for size in ROOTS_OF] + [*ROOTS_OF]
OTHER_DIVISORS += [math.log, math.log2, lambda d: d // 2, lambda d: math.sqrt(d) + 1]
OTHER_DIVISORS += [lambda d, by=by: math.sqrt(d) * by for by in (0.5, 2)]
SCORES_CHANGED = [torch.relu, torch.abs, torch.tanh, torch.square, lambda s: s.clamp(min=1e-9)]
SCORES_CHANGED += [lambda s, top=top: s.clamp(-top, top) for top in (1, 10, 20, 50, 80, 100)]
SCORES_CHANGED += [lambda s, top=top: s.clamp(max=top) for top in (10, 20, 50, 80, 88, 100)]
SCORES_CHANGED += [lambda s: s / s.amax(-1, keepdim=True), lambda s: s / s.abs().amax(-1, keepdim=True)]
SCORES_CHANGED += [lambda s: s / s.norm(dim=-1, keepdim=True)]


def wrong_attention():
    """Return what misconceptions of attention would compute from (query, key, value).

    They serve `check_attention` (notebook 02) and `check_scaled_dot_product_attention` (03), so a new one needs its
    words in the table [shared] of misconceptions.toml and attempts at both.
    """

    def divided(divisor):
        return lambda q, k, v: applied((q @ k.mT / divisor(q, k, v)).softmax(dim=-1), v)

    def number_or_root(size):
        return [divided(size), divided(lambda q, k, v: math.sqrt(size(q, k, v)))]

    def over(axis):
        return lambda q, k, v: applied(scaled_scores(q, k).softmax(dim=axis), v)

    def instead(output):
        return lambda q, k, v: {"output": output(weights_of(q, k), q, k), "weights": weights_of(q, k)}

    def share_of_sum(q, k, v):
        scores = scaled_scores(q, k)
        return applied(scores / scores.sum(dim=-1, keepdim=True), v)

    def divided_late(scores):
        return lambda q, k, v: {"output": scores(q, k).softmax(dim=-1) @ v / math.sqrt(q.shape[-1])}

    return {
        "no_scaling": [divided(lambda q, k, v: 1)],
        "scaled_by_d": [divided(lambda q, k, v: q.shape[-1])],
        "scaled_by_sequence_length": [
            *number_or_root(lambda q, k, v: k.shape[-2]),
            *number_or_root(lambda q, k, v: q.shape[-2]),
            *number_or_root(lambda q, k, v: k.shape[1]),  # the tokens only behind one leading axis
        ],
        "scaled_by_batch": number_or_root(lambda q, k, v: len(q)),
        "scaled_by_value_width": number_or_root(lambda q, k, v: v.shape[-1]),
        "scaled_by_a_constant": [
            divided(lambda q, k, v, number=number: number)
            for number in (2, 4, 8, 16, 64, 512, 768, *map(math.sqrt, (2, 8, 512, 768)))
        ],
        "multiplied_by_root": [divided(lambda q, k, v: q.shape[-1] ** -0.5)],
        "softmax_twice": [lambda q, k, v: applied(weights_of(q, k).softmax(dim=-1), v)],
        "causal_mask_added": [
            lambda q, k, v: right_attention(q, k, v, torch.ones(q.shape[-2], k.shape[-2]).tril().bool()),
        ],
        "scores_changed": [
            *(
                lambda q, k, v, c=c: applied(c(scaled_scores(q, k)).softmax(dim=-1), v)
                for c in SCORES_CHANGED
            ),
            lambda q, k, v: right_attention(F.normalize(q, dim=-1), F.normalize(k, dim=-1), v),
            lambda q, k, v: applied((F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT).softmax(dim=-1), v),
        ],
        "each_score_alone": [
            lambda q, k, v: applied(scaled_scores(q, k).sigmoid(), v),
            lambda q, k, v: applied(scaled_scores(q, k).exp(), v),
        ],
        "largest_score_only": [
            lambda q, k, v: applied(F.one_hot(scaled_scores(q, k).argmax(-1), k.shape[-2]).to(v), v),
        ],
        "all_keys_alike": [lambda q, k, v: applied(torch.ones_like(q @ k.mT) / k.shape[-2], v)],
        "scaled_after_softmax": [divided_late(lambda q, k: q @ k.mT), divided_late(scaled_scores)],
        "sign_turned": [lambda q, k, v: right_attention(-q, k, v)],
        "softmax_over_batch": [over(-3), over(-4)],
        "softmax_over_queries": [over(-2), over(1)],  # axis 1 are the queries behind one leading axis
        "no_softmax": [
            lambda q, k, v: applied(scaled_scores(q, k), v),
            lambda q, k, v: applied(q @ k.mT, v),
            share_of_sum,
        ],
        "query_key_swapped": [
            lambda q, k, v: right_attention(k, q, v),
            lambda q, k, v: applied(weights_of(q, k).mT, v),
        ],
        "query_with_itself": [
            lambda q, k, v: right_attention(q, q, v),
            lambda q, k, v: right_attention(k, k, v),
        ],
        "key_value_swapped": [lambda q, k, v: right_attention(q, v, k)],
        "value_ignored": [
            instead(lambda weights, q, k: weights),
            instead(lambda weights, q, k: weights @ k),
            instead(lambda weights, q, k: weights @ q),
        ],
        "other_divisor": [divided(lambda q, k, v, by=by: by(q.shape[-1])) for by in OTHER_DIVISORS],
    }


LARGE_SCORES = "overflow_on_large_scores", "mask_after_softmax", "renormalised_after_softmax"


def remembered(function):
    """Return the function that computes its answer once for the same inputs: the trials come back for each formula."""
    known = {}

    def compute(*inputs):
        place = tuple(map(id, inputs))
        if place not in known:
            # with the inputs, so that no other object gets their ids
            known[place] = inputs, function(*inputs)
        return known[place][1]

    return compute


def where_it_shows(mistakes, right, large):
    """Return misconceptions that foresee an answer only where their output is not the right one.

    Else a mistake in what comes behind a right output would get the name of a misconception that does not show here.
    Where the inputs are large (`large(*inputs)`), many mistakes look alike, so only those of large scores are named.
    """
    right = remembered(right)

    def only(name, like):
        def compute(*inputs):
            if large(*inputs) and name not in LARGE_SCORES:
                raise ValueError("too much looks alike here")
            answer = like(*inputs)
            shows = not agrees({"output": answer["output"].double()}, {"output": right(*inputs)["output"]})
            return answer if shows else right(*inputs)

        return compute

    return {name: [only(name, like) for like in likes] for name, likes in mistakes.items()}
