"""Where a token is: four ways to tell it to attention, which by itself does not know the order of tokens.

"learned" and "sinusoidal" add a vector to each token (`position_table`), "relative" adds a number to each
score (`RelativeAttention`), "rotary" turns queries and keys (`RotaryAttention`).
"""

import torch
from torch import nn

from .attention import LayerAttention
from .guards import require_even, require_positions


def position_angles(seq_len, width, start=0, base=10000.0):
    """Return an angle for each position and each pair of numbers, (seq, width / 2), in radians and float64.

    Position p turns pair i by `p / base^(2i / width)`: the first pair by one radian a token, like a fast
    hand of a clock, the last ones hardly at all. Positions are counted from `start`. Raises `ValueError` for
    an odd width.
    """
    require_even(width)
    speed = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)  # (width / 2,)
    return torch.outer(torch.arange(start, start + seq_len).double(), speed)  # (seq, width / 2)


def sinusoidal_positions(seq_len, hidden_size):
    """Return a fixed vector for each position, (seq, hidden_size): section 3.5 of Vaswani et al. 2017.

    Even places hold the sine and odd ones the cosine of `position_angles`. Raises `ValueError` for an odd
    size.
    """
    angles = position_angles(seq_len, hidden_size)  # (seq, hidden_size / 2)
    pairs = torch.stack([angles.sin(), angles.cos()], dim=-1)  # (seq, hidden_size / 2, 2)
    return pairs.flatten(-2).to(torch.get_default_dtype())  # (seq, hidden_size)


def rotate(per_head, start=0, base=10000.0):
    """Return queries or keys, (..., seq, head_dim), with each pair
    of numbers turned by its `position_angles`.

    The product of a turned query and a turned key depends on their distance, not on where they are: Su et al.
    2021 (rotary positions). Pairs are neighbours, (0, 1), (2, 3), ... Raises `ValueError` for an odd
    head_dim.
    """
    angles = position_angles(*per_head.shape[-2:], start, base)  # (seq, head_dim / 2)
    cos, sin = angles.cos().to(per_head), angles.sin().to(per_head)
    x, y = per_head[..., 0::2], per_head[..., 1::2]  # each (..., seq, head_dim / 2)
    turned = torch.stack([x * cos - y * sin, x * sin + y * cos], dim=-1)  # (..., seq, head_dim / 2, 2)
    return turned.flatten(-2)  # (..., seq, head_dim)


class RotaryAttention(LayerAttention):
    """`LayerAttention` whose queries and keys are turned by their position (`rotate`). Values are not."""

    def project(self, hidden_state, memory):
        query, key, value = super().project(hidden_state, memory)
        return rotate(query), rotate(key), value


class RelativeAttention(LayerAttention):
    """`LayerAttention` with a learned number, for each head and each distance, added to the scores.

    The distance is key minus query, and beyond `max_distance` each side shares one number: Shaw et al. 2018,
    in the form of Raffel et al. 2020 (T5), where all layers share one table. Here each has its own.
    """

    max_distance = 128

    def __init__(self, config):
        super().__init__(config)
        self.distance_bias = nn.Embedding(2 * self.max_distance + 1, self.num_heads)

    def position_bias(self, query_len, key_len):
        position = torch.arange(max(query_len, key_len), device=self.distance_bias.weight.device)
        distance = position[None, :key_len] - position[:query_len, None]  # (query, key)
        row = distance.clamp(-self.max_distance, self.max_distance) + self.max_distance
        return self.distance_bias(row).permute(2, 0, 1)  # (heads, query, key)


def position_table(config, positions):
    """Return the `nn.Embedding` with a vector for each position, or
    None if the scheme adds none to tokens."""
    require_positions(positions)
    if positions == "learned":
        return nn.Embedding(config.max_position_embeddings, config.hidden_size)
    if positions == "sinusoidal":
        table = sinusoidal_positions(config.max_position_embeddings, config.hidden_size)
        return nn.Embedding.from_pretrained(table)  # frozen: it is not learned
    return None
