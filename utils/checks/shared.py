"""What the checks of several notebooks share: inputs, the learner's modules, attention right and wrong, heads."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .answers import LAYER_HEAD, Unreadable, kind_of
from .judge import NotAttempted, run_attempt, why_not_run

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
        raise Unreadable(f"Give the class itself. This is {kind_of(attempt)}.")
    if not issubclass(attempt, nn.Module):
        raise Unreadable(f"Your class {attempt.__name__} is no nn.Module.")
    ran = run_attempt(attempt, [arguments])
    if isinstance(ran.error, NotImplementedError):
        raise NotAttempted
    if not ran.results:
        raise Unreadable(why_not_run(ran))
    try:
        return fill_weights(ran.results[0][1]).eval()
    except Exception as error:
        raise Unreadable(f"Its weights cannot be set: {type(error).__name__}.") from error


def linear_layer(module, name):
    """Return weight and bias of a linear layer with this name, or raise `Unreadable`."""
    layer = getattr(module, name, None)
    if not isinstance(layer, nn.Linear):
        raise Unreadable(f"Your {type(module).__name__} needs a linear layer named `{name}`, and has none.")
    weight = layer.weight.detach()
    return weight, torch.zeros(len(weight)) if layer.bias is None else layer.bias.detach()


# ----------------------------------------------------------------- attention without a mask: notebooks 02, 03, 08


def plain_trials():
    """Return inputs of attention without a mask. The first have as many queries as keys, so that a swap runs."""
    shapes = [[(2, 4, 3)] * 3, [(4, 3)] * 3, [(2, 3, 4, 2)] * 3, [(2, 3, 4), (2, 5, 4), (2, 5, 6)]]
    return [tuple(made_numbers(*shape, start=3 * i) for i, shape in enumerate(three)) for three in shapes]


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


def wrong_attention():
    """Return what misconceptions of attention would compute from (query, key, value).

    They serve `check_attention` (notebook 02) and `check_scaled_dot_product_attention` (03), so a new one needs its
    words in the table [shared] of misconceptions.toml and attempts at both.
    """

    def divided(divisor):
        return lambda q, k, v: applied((q @ k.mT / divisor(q, k)).softmax(dim=-1), v)

    def over(axis):
        return lambda q, k, v: applied(scaled_scores(q, k).softmax(dim=axis), v)

    def instead(output):
        return lambda q, k, v: {"output": output(weights_of(q, k), q, k), "weights": weights_of(q, k)}

    def share_of_sum(q, k, v):
        scores = scaled_scores(q, k)
        return applied(scores / scores.sum(dim=-1, keepdim=True), v)

    return {
        "no_scaling": [divided(lambda q, k: 1)],
        "scaled_by_d": [divided(lambda q, k: q.shape[-1])],
        "scaled_by_sequence_length": [
            divided(lambda q, k: math.sqrt(k.shape[-2])),
            divided(lambda q, k: k.shape[-2]),
            divided(lambda q, k: math.sqrt(q.shape[-2])),
            divided(lambda q, k: q.shape[-2]),
            divided(lambda q, k: math.sqrt(k.shape[1])),  # the number of tokens only behind one leading axis
            divided(lambda q, k: k.shape[1]),
        ],
        "softmax_over_queries": [over(-2), over(1)],  # axis 1 are the queries behind one leading axis
        "softmax_over_batch": [over(-3), over(-4)],
        "no_softmax": [
            lambda q, k, v: applied(scaled_scores(q, k), v),
            lambda q, k, v: applied(q @ k.mT, v),
            share_of_sum,
        ],
        "query_key_swapped": [
            lambda q, k, v: right_attention(k, q, v),
            lambda q, k, v: applied(weights_of(q, k).mT, v),
        ],
        "value_ignored": [
            instead(lambda weights, q, k: weights),
            instead(lambda weights, q, k: weights @ k),
            instead(lambda weights, q, k: weights @ q),
        ],
    }


# ----------------------------------------------------------------------------- heads of a model: notebooks 06, 07


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


def wrong_places(right):
    """Return how a right (layer, head) is written down wrongly; `right(*inputs)` gives the answer."""
    return {
        "counted_from_one": [lambda *inputs: {LAYER_HEAD: right(*inputs)[LAYER_HEAD] + 1}],
        "layer_and_head_swapped": [lambda *inputs: {LAYER_HEAD: right(*inputs)[LAYER_HEAD].flip(0)}],
    }


def shares_of_keys(weights, of_keys):
    """Return for each head the sum over some keys, as a mean over the queries: (layers, heads)."""
    return torch.cat(weights)[..., of_keys].sum(dim=-1).mean(dim=-1)
