"""What the exercises of several notebooks share: inputs, weights for modules, and planted heads."""

import math

import torch

from .answers import LAYER_HEAD, Unreadable, read_tensor, whole_numbers
from .running import tried


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


# What the shape of a table of shares shows, whatever its numbers are.
SHAPES_OF_SHARES = {
    "one_number_for_all": lambda inputs, answer: answer["share"].dim() == 0,
    "batch_axis_kept": lambda inputs, answer: (
        (shape := [*answer["share"].shape])[-1:] != [1]
        and sorted(shape) == sorted((1, len(inputs[0]), inputs[0][0].shape[1]))
    ),
    "query_axis_kept": lambda inputs, answer: (
        answer["share"].shape == (len(inputs[0]), *inputs[0][0].shape[1:3])
    ),
}


def made_attentions(layers, heads, seq, start=0, batch=1):
    """Return attention weights, a tuple of (batch, heads, query, key); no two heads have the same."""
    count = torch.arange(layers * batch * heads * seq * seq)
    scores = (count * (count + start) * 7 + count // 3) % 1009 / 200
    return tuple(scores.reshape(layers, batch, heads, seq, seq).softmax(dim=-1).unbind(0))


def read_place(raw):
    """Read two whole numbers, the layer and the head. One alone is read too: that mistake has a name."""
    numbers = tried(read_tensor, raw, LAYER_HEAD, True)
    if numbers is not None and numbers.numel() > 2:  # one of them may be no whole number
        said = f"Your result holds {numbers.numel()} numbers. Two are expected: the layer and the head."
        raise Unreadable(said, "several_numbers")
    return whole_numbers(LAYER_HEAD)(raw)
