"""The exercises of notebook 11: operations with shared keys, a step of the softmax in passing, how long a text fits."""

import math

import torch
import torch.nn.functional as F

from .answers import Unreadable, parts_of, read_tensor
from .exercise import Exercise
from .shared import made_numbers


def one_number(name):
    """Return a reader of one number, a whole one where it is whole."""

    def read(raw):
        numbers = read_tensor(raw, name, lists=True)
        if numbers.numel() != 1 or (isinstance(raw, list | tuple) and numbers.dim() > 1):
            said = f"Your result holds {numbers.numel()}, in the shape {tuple(numbers.shape)}."
            raise Unreadable(f"One number is expected. {said}", "several_numbers")
        value = numbers.item()
        if math.isnan(value):
            raise Unreadable("Your number is nan.", "nan_everywhere")
        return {name: int(value) if value.is_integer() and abs(value) < 1e15 else round(value, 2)}

    return read


def layer_flops(seq_len, hidden_size, intermediate_size, num_heads, num_kv_heads):
    kv_size = hidden_size // num_heads * num_kv_heads
    query_and_output = 4 * seq_len * hidden_size * hidden_size
    key_and_value = 4 * seq_len * hidden_size * kv_size
    table = 4 * seq_len**2 * hidden_size
    feed_forward = 4 * seq_len * hidden_size * intermediate_size
    return query_and_output + key_and_value + table + feed_forward


check_layer_flops = Exercise(
    layer_flops,
    lambda: [(7, 24, 11, 8, 2), (5, 24, 50, 12, 4), (30, 16, 9, 4, 4), (2048, 768, 3072, 12, 4)],
    one_number("operations"),
)


def online_step(top, total, output, scores, value):
    new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
    weights, shrink = (scores - new_top).exp(), (top - new_top).exp()
    new_total = total * shrink + weights.sum(dim=-1, keepdim=True)
    new_output = output * shrink + weights @ value  # (..., query, head_dim)
    return new_top, new_total, new_output


def behind(scores, value):
    """Return top, total and output behind these scores, by functions that see them all."""
    scores, value = scores.double(), value.double()
    top = F.pad(scores, (0, 1), value=-torch.inf).amax(dim=-1, keepdim=True)
    total = (scores.logsumexp(dim=-1, keepdim=True) - top).exp().nan_to_num(0.0)  # 0 before the first token
    return top, total, scores.softmax(dim=-1) @ value * total


def tiles():
    """Return steps: the shape of the rows, tokens so far and new ones, and what is added to the scores of both."""
    sizes = [((3,), 2, 2, 0), ((2, 3), 4, 3, 0), ((4,), 0, 3, 0), ((1, 2, 2), 3, 1, 0)]
    sizes += [((3,), 2, 2, 1000), ((3,), 0, 2, -1000)]  # an exponential of these is too large or too small
    trials = []
    for shape, before, new, added in sizes:
        scores = made_numbers(*shape, before + new, start=before + 4) * 1.5
        scores = scores + torch.tensor([added] * before + [added * 1.001] * new)
        if len(shape) == 2:
            scores[..., before + 1] = -torch.inf  # a key that is masked
        value = made_numbers(*shape[:-1], before + new, 2, start=3)
        state = behind(scores[..., :before], value[..., :before, :])
        trials.append((*(part.float() for part in state), scores[..., before:], value[..., before:, :]))
    return trials


check_online_step = Exercise(online_step, tiles, parts_of("top", "total", "output"))


def longest_text(free_bytes, token_bytes, full_layers, window_layers, window):
    growing = token_bytes * (full_layers + window_layers)  # bytes of one more token, while no window is full
    if free_bytes < growing * window:
        return free_bytes // growing
    if full_layers == 0:
        return math.inf  # the cache has stopped growing
    left = free_bytes - token_bytes * window_layers * window
    return left // (token_bytes * full_layers)


check_longest_text = Exercise(
    longest_text,
    lambda: [
        (50_001, 13, 2, 3, 101),
        (4_990, 7, 3, 5, 100),  # room for the windows alone
        (10_000, 7, 3, 5, 400),  # no window is full
        (9_000, 3, 0, 4, 500),  # every text fits
        (5_000, 3, 0, 4, 500),
        (6_000, 3, 0, 4, 500),  # the full windows take all bytes
        (5_003, 6, 4, 0, 50),
        (720, 3, 2, 4, 20),  # 80 tokens fill it exactly
        (1_063, 7, 2, 3, 30),  # one byte too few for one more token behind the full windows
        (10, 4, 2, 2, 6),  # no token fits
        (2**30, 4096, 8, 24, 4096),
    ],
    one_number("tokens"),
)
