"""Attempts at the exercises of notebook 05."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from .tables import combined, right, unlisted, wrong

# ------------------------------------------------------------------------------------------------- layer_norm


def norm_loops(x, weight, bias, eps):
    result = torch.empty_like(x)
    for place in np.ndindex(*x.shape[:-1]):
        row = x[place].tolist()
        mean = sum(row) / len(row)
        variance = sum((number - mean) ** 2 for number in row) / len(row)
        for i, number in enumerate(row):
            result[(*place, i)] = (number - mean) / math.sqrt(variance + eps) * weight[i] + bias[i]
    return result


def norm_by(axis):
    def attempt(x, weight, bias, eps):
        mean = x.mean(axis, keepdim=True)
        variance = ((x - mean) ** 2).mean(axis, keepdim=True)
        return weight * (x - mean) / (variance + eps).sqrt() + bias

    return attempt


def norm_module(x, weight, bias, eps):
    layer = nn.LayerNorm(x.shape[-1], eps=eps)
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    return layer(x)


def norm_numpy(x, weight, bias, eps):
    x, weight, bias = x.numpy(), weight.numpy(), bias.numpy()
    result = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * weight + bias
    return torch.from_numpy(result)


def norm_unbiased(x, weight, bias, eps):
    centred = x - x.mean(-1, True)
    return centred / torch.sqrt((centred**2).sum(-1, True) / (x.shape[-1] - 1) + eps) * weight + bias


right(
    "layer_norm",
    norm_loops,
    norm_by(-1),
    norm_module,
    norm_numpy,
    lambda x, w, b, eps: F.layer_norm(x, w.shape, w, b, eps),
    lambda x, w, b, eps: (
        (x - x.mean(-1, True)) * (x.var(-1, keepdim=True, correction=0) + eps).rsqrt() * w + b
    ),
    lambda x, w, b, eps: torch.addcmul(b, F.layer_norm(x, x.shape[-1:], eps=eps), w),
    lambda x, w, b, eps: (
        ((x.mT - x.mean(-1).unsqueeze(-2)) / (x.mT.var(-2, False, keepdim=True) + eps) ** 0.5).mT * w + b
    ),
)
wrong(
    "layer_norm",
    "wrong_axis",
    norm_by(0),
    norm_by(1),
    norm_by(-2),
    lambda x, w, b, e: (x - x.mean()) / (x.var(correction=0) + e).sqrt() * w + b,
)
wrong(
    "layer_norm",
    "unbiased_variance",
    norm_unbiased,
    lambda x, w, b, e: (x - x.mean(-1, True)) / (x.var(-1, keepdim=True) + e).sqrt() * w + b,
)
wrong(
    "layer_norm",
    "epsilon_outside_root",
    lambda x, w, b, e: (x - x.mean(-1, True)) / (x.std(-1, keepdim=True, correction=0) + e) * w + b,
    lambda x, w, b, e: w * (x - x.mean(-1, True)) / (x.var(-1, keepdim=True, unbiased=False).sqrt() + e) + b,
)
wrong(
    "layer_norm",
    "no_scale_and_shift",
    lambda x, w, b, e: F.layer_norm(x, x.shape[-1:], eps=e),
    lambda x, w, b, e: (x - x.mean(-1, True)) / (x.var(-1, keepdim=True, correction=0) + e).sqrt(),
    lambda x, w, b, e: norm_by(-1)(x, w, 0, e),
    lambda x, w, b, e: norm_by(-1)(x, 1, b, e),
)


def centred(x):
    return x - x.mean(-1, keepdim=True)


def variance(x):
    return x.var(-1, keepdim=True, correction=0)


wrong(
    "layer_norm",
    "variance_without_root",
    lambda x, w, b, e: centred(x) / (variance(x) + e) * w + b,
    lambda x, w, b, e: w * centred(x) / (centred(x) ** 2).mean(-1, keepdim=True).add(e) + b,
)
wrong(
    "layer_norm",
    "eps_ignored",
    lambda x, w, b, e: centred(x) / variance(x).sqrt() * w + b,
    lambda x, w, b, e: centred(x) / x.std(-1, unbiased=False, keepdim=True) * w + b,
    lambda x, w, b, e: F.layer_norm(x, w.shape, w, b),
    lambda x, w, b, e: centred(x) / (variance(x) + 1e-12).sqrt() * w + b,
)
wrong(
    "layer_norm",
    "mean_not_subtracted",
    lambda x, w, b, e: x / (x.square().mean(-1, True) + e).sqrt() * w + b,
    lambda x, w, b, e: F.rms_norm(x, w.shape, w, e) + b,
    lambda x, w, b, e: x / (variance(x) + e).sqrt() * w + b,
)
wrong(
    "layer_norm",
    "uncentred_variance",
    lambda x, w, b, e: centred(x) / (x.square().mean(-1, True) + e).sqrt() * w + b,
    lambda x, w, b, e: centred(x) / torch.sqrt((x**2).mean(dim=-1, keepdim=True) + e) * w + b,
)
wrong(
    "layer_norm",
    "squares_not_averaged",
    lambda x, w, b, e: centred(x) / (centred(x) ** 2 + e).sqrt() * w + b,
    lambda x, w, b, e: centred(x) / (centred(x).square().sum(-1, True) + e).sqrt() * w + b,
    lambda x, w, b, e: centred(x) / (centred(x).norm(dim=-1, keepdim=True) ** 2 + e).sqrt() * w + b,
)
wrong(
    "layer_norm",
    "root_twice",
    lambda x, w, b, e: centred(x) / (x.std(-1, keepdim=True, correction=0) + e).sqrt() * w + b,
)
wrong(
    "layer_norm",
    "no_keepdim",
    lambda x, w, b, e: (x - x.mean(-1)) / (x.var(-1, correction=0) + e).sqrt() * w + b,
    lambda x, w, b, e: (x - x.mean(dim=-1)) / (variance(x) + e).sqrt() * w + b,
    lambda x, w, b, e: centred(x) / (x.var(dim=-1, correction=0) + e).sqrt() * w + b,
    lambda x, w, b, e: centred(x) / (centred(x).square().mean(-1) + e).sqrt() * w + b,
)
wrong(
    "layer_norm",
    "weight_and_bias_exchanged",
    lambda x, w, b, e: F.layer_norm(x, w.shape, b, w, e),
    lambda x, w, b, e: centred(x) / (variance(x) + e).sqrt() * b + w,
)
wrong(
    "layer_norm",
    "shift_before_scale",
    lambda x, w, b, e: (centred(x) / (variance(x) + e).sqrt() + b) * w,
    lambda x, w, b, e: w * (F.layer_norm(x, w.shape, eps=e) + b),
)
wrong(
    "layer_norm",
    "not_divided",
    lambda x, w, b, e: centred(x) * w + b,
    lambda x, w, b, e: centred(x) * (variance(x) + e).sqrt() * w + b,
)
wrong(
    "layer_norm",
    "wrong_axis",
    lambda x, w, b, e: centred(x) / ((centred(x) ** 2).mean(0, keepdim=True) + e).sqrt() * w + b,
    lambda x, w, b, e: centred(x) / (centred(x).square().mean(dim=-2, keepdim=True) + e).sqrt() * w + b,
)
wrong("layer_norm", "wrong_axis", lambda x, w, b, e: F.layer_norm(x, x.shape[-2:], eps=e) * w + b)
unlisted(
    "layer_norm",
    lambda x, w, b, e: x,
    lambda x, w, b, e: x * w + b,
    lambda x, w, b, e: norm_by(-1)(x, w, b, e)[0],
    lambda x, w, b, e: norm_by(-1)(x, w, b, e).tolist(),
    lambda x, w, b, e: norm_by(-1)(x, w, b, e).numpy(),
    lambda x, w, b, e: F.layer_norm(x, w.shape, w, b, e).softmax(-1),
)
combined(
    "layer_norm",
    ("unbiased_variance", "epsilon_outside_root"),
    lambda x, w, b, e: (x - x.mean(-1, True)) / (x.std(-1, keepdim=True) + e) * w + b,
)


def norm_in_place(x, weight, bias, eps):
    x -= x.mean(-1, keepdim=True)
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight + bias


wrong("layer_norm", "changes_its_input", norm_in_place, lambda x, w, b, e: x.copy_(norm_by(-1)(x, w, b, e)))
wrong(
    "layer_norm",
    "wrong_axis",
    lambda x, w, b, e: (x - x.mean(0)) / (x.var(0, correction=0) + e).sqrt() * w + b,
)
wrong(
    "layer_norm",
    "epsilon_outside_root",
    lambda x, w, b, e: (
        F.layer_norm(x, w.shape, eps=0.0)
        * x.std(-1, correction=0, keepdim=True)
        / (x.std(-1, correction=0, keepdim=True) + e)
        * w
        + b
    ),
)


# ------------------------------------------------------------------------------------------ position_encoding


def positions_loops(x):
    result = x.clone()
    for p in range(x.shape[1]):
        for i in range(0, x.shape[2], 2):
            angle = p / 10000 ** (i / x.shape[2])
            result[:, p, i] += math.sin(angle)
            result[:, p, i + 1] += math.cos(angle)
    return result


def angles(x, first=0, speed=None):
    size = x.shape[-1]
    speed = 10000.0 ** (-torch.arange(0, size, 2) / size) if speed is None else speed
    return torch.arange(first, first + x.shape[-2])[:, None] * speed * torch.ones(size // 2)


def interleaved(angle):
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


def positions_slices(x):
    table = torch.zeros(x.shape[1:])
    speed = torch.exp(torch.arange(0, x.shape[2], 2) * (-math.log(10000.0) / x.shape[2]))
    table[:, 0::2] = torch.sin(torch.arange(x.shape[1])[:, None] * speed)
    table[:, 1::2] = torch.cos(torch.arange(x.shape[1])[:, None] * speed)
    return x + table


def positions_numpy(x):
    _, seq, size = x.shape
    i = np.arange(size)
    angle = np.arange(seq)[:, None] / np.power(10000, 2 * (i // 2) / size)
    return x + torch.from_numpy(np.where(i % 2 == 0, np.sin(angle), np.cos(angle)))


def positions_cos_alone(x):
    """Every place a cosine, turned by a quarter where a sine is meant."""
    i = torch.arange(x.shape[2])
    angle = torch.arange(x.shape[1]).outer(1e4 ** (-(i - i % 2) / x.shape[2]))
    return (angle - math.pi / 2 * (i % 2 == 0)).cos() + x


def positions_complex(x):
    turns = torch.polar(torch.ones_like(angles(x)), angles(x))  # e^(i angle): real part cosine
    return x + torch.view_as_real(turns).flip(-1).flatten(-2)[None].expand(len(x), -1, -1)


right(
    "position_encoding",
    positions_loops,
    positions_slices,
    positions_numpy,
    positions_cos_alone,
    positions_complex,
    lambda x: x + interleaved(angles(x)),
)
wrong(
    "position_encoding",
    "not_interleaved",
    lambda x: x + torch.cat([angles(x).sin(), angles(x).cos()], dim=-1),
    lambda x: x + torch.cat([angles(x).cos(), angles(x).sin()], dim=-1),
    lambda x: x + torch.stack([angles(x).sin(), angles(x).cos()], dim=-2).flatten(-2),
)
wrong(
    "position_encoding",
    "only_sine_or_cosine",
    lambda x: x + angles(x).sin().repeat_interleave(2, dim=-1),
    lambda x: x + angles(x).cos().repeat_interleave(2, dim=-1),
    lambda x: x + torch.where(torch.arange(x.shape[2]) % 2 == 0, angles(x).sin().repeat_interleave(2, -1), 0),
)
wrong(
    "position_encoding",
    "sine_cosine_exchanged",
    lambda x: x + torch.stack([angles(x).cos(), angles(x).sin()], dim=-1).flatten(-2),
    lambda x: x + interleaved(angles(x)).unflatten(-1, (-1, 2)).flip(-1).flatten(-2),
)


def positions_every_place(x):
    size = x.shape[-1]
    angle = torch.arange(x.shape[1])[:, None] / 10000 ** (torch.arange(size) / size)
    return x + torch.where(torch.arange(size) % 2 == 0, angle.sin(), angle.cos())


def exponents(exponent):
    """Add positions whose speed is 10000 to the power of minus `exponent`, given each pair and the width."""

    def attempt(x):
        pair = torch.arange(x.shape[2] // 2)
        return x + interleaved(angles(x, speed=10000.0 ** -exponent(pair, x.shape[2])))

    return attempt


def exponent_loops(x):
    result = x.clone()
    for p in range(x.shape[1]):
        for i in range(0, x.shape[2], 2):
            angle = p / 10000 ** (2 * i / x.shape[2])  # i is 2i already
            result[:, p, i] += math.sin(angle)
            result[:, p, i + 1] += math.cos(angle)
    return result


def each_place_doubled(x):
    i = torch.arange(x.shape[2])
    angle = torch.arange(x.shape[1])[:, None] / 10000 ** (2 * i / x.shape[2])
    table = angle.sin()
    table[:, 1::2] = angle[:, 1::2].cos()
    return x + table


wrong(
    "position_encoding",
    "degrees",
    lambda x: x + interleaved(torch.deg2rad(angles(x))),
    lambda x: x + interleaved(angles(x) * 180 / math.pi),
)
wrong(
    "position_encoding",
    "one_speed_for_all",
    lambda x: x + interleaved(angles(x, speed=1.0)),
    lambda x: x + interleaved(angles(x, speed=1 / 10000)),
)
wrong("position_encoding", "exponent_of_place", positions_every_place, each_place_doubled)
wrong("position_encoding", "exponent_halved", exponents(lambda i, d: i / d))
wrong("position_encoding", "exponent_doubled", exponents(lambda i, d: 4 * i / d), exponent_loops)
wrong("position_encoding", "speed_upside_down", exponents(lambda i, d: -2 * i / d))
wrong(
    "position_encoding",
    "exponent_of_place",
    lambda x: (
        x
        + (
            torch.arange(x.shape[1])[:, None] / 10000 ** (torch.arange(x.shape[2]) / x.shape[2])
            + math.pi / 2 * (torch.arange(x.shape[2]) % 2)
        ).sin()
    ),
)
wrong(
    "position_encoding",
    "not_of_token",
    lambda x: x + interleaved(angles(x.transpose(0, 1)))[:, None],
    lambda x: x + interleaved(angles(x[:, :1])),
)
wrong(
    "position_encoding",
    "vectors_scaled",
    lambda x: x * math.sqrt(x.shape[-1]) + interleaved(angles(x)),
)
wrong(
    "position_encoding",
    "depends_on_token",
    lambda x: x + (x[..., :1] + interleaved(angles(x))).sin(),
    lambda x: x + interleaved(angles(x)) * x.norm(dim=-1, keepdim=True),
)
wrong(
    "position_encoding",
    "positions_from_one",
    lambda x: x + interleaved(angles(x, first=1)),
    lambda x: positions_loops(torch.cat([x[:, :1], x], dim=1))[:, 1:],
)
wrong(
    "position_encoding",
    "not_added",
    lambda x: interleaved(angles(x)),
    lambda x: interleaved(angles(x)).expand(len(x), -1, -1),
    lambda x: interleaved(angles(x))[None],
)
unlisted(
    "position_encoding",
    lambda x: x + torch.cat([angles(x, first=1).sin(), angles(x, first=1).cos()], dim=-1),
    lambda x: (x + interleaved(angles(x))).numpy(),
    lambda x: (x + interleaved(angles(x))).tolist(),
    exponents(lambda i, d: 2 * i / d * 0.6),
)
wrong("position_encoding", "counted_backwards", lambda x: x + interleaved(angles(x)).flip(0))
wrong("position_encoding", "subtracted", lambda x: x - interleaved(angles(x)))
wrong(
    "position_encoding",
    "other_base",
    lambda x: x + interleaved(angles(x, speed=1000.0 ** (-torch.arange(0, x.shape[2], 2) / x.shape[2]))),
)
wrong(
    "position_encoding",
    "pairs_from_one",
    exponents(lambda i, d: 2 * (i + 1) / d),
    lambda x: x + interleaved(angles(x, speed=1e4 ** (-torch.arange(1, x.shape[2], 2) / x.shape[2]))),
)
wrong("position_encoding", "degrees", lambda x: x + interleaved(2 * math.pi * angles(x)))
wrong("position_encoding", "no_position", lambda x: x, lambda x: x.clone())
wrong(
    "position_encoding",
    "changes_its_input",
    lambda x: x.add_(interleaved(angles(x))),
    lambda x: torch.add(x, interleaved(angles(x)), out=x),
)


# ---------------------------------------------------------------------------------------------- encoder_layer


class Layer(nn.Module):
    def __init__(self, attention, feed_forward, hidden_size, dropout):
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.attention_norm = nn.LayerNorm(hidden_size)
        self.feed_forward_norm = nn.LayerNorm(hidden_size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden_state):
        hidden_state = self.attention_norm(hidden_state + self.dropout(self.attention(hidden_state)))
        return self.feed_forward_norm(hidden_state + self.dropout(self.feed_forward(hidden_state)))


class LayerLoop(Layer):
    def forward(self, x):
        parts = [(self.attention, self.attention_norm), (self.feed_forward, self.feed_forward_norm)]
        for part, norm in parts:
            x = norm(self.dropout(part(x)) + x)
        return x


class LayerFunctional(Layer):
    def forward(self, x):
        attended = F.dropout(self.attention(x), self.dropout.p, self.training)
        x = F.layer_norm(x + attended, x.shape[-1:], self.attention_norm.weight, self.attention_norm.bias)
        changed = F.dropout(self.feed_forward(x), self.dropout.p, self.training)
        return F.layer_norm(
            x + changed, x.shape[-1:], self.feed_forward_norm.weight, self.feed_forward_norm.bias
        )


class LayerModel(nn.Module):
    def __init__(self, attention, feed_forward, hidden_size, dropout):
        super().__init__()
        self.attention_norm, self.feed_forward_norm = (nn.LayerNorm(hidden_size, eps=1e-5) for _ in range(2))
        self.attention = nn.Sequential(attention, nn.Dropout(dropout))
        self.feed_forward = nn.Sequential(feed_forward, nn.Dropout(dropout))

    def forward(self, x):
        x = self.attention_norm(torch.add(x, self.attention(x)))
        return self.feed_forward_norm(torch.add(x, self.feed_forward(x)))


class LayerOfBert(Layer):
    """With the eps of BERT, and a dropout of its own for each part."""

    def __init__(self, attention, feed_forward, hidden_size, dropout):
        super().__init__(attention, feed_forward, hidden_size, dropout)
        self.attention_norm = nn.LayerNorm(hidden_size, eps=1e-12)
        self.feed_forward_norm = nn.LayerNorm(hidden_size, eps=1e-12)
        self.dropout_2 = nn.Dropout(p=dropout)

    def forward(self, hidden_state):
        first = hidden_state + self.dropout(self.attention(hidden_state))
        first = self.attention_norm(first)
        second = first + self.dropout_2(self.feed_forward(first))
        return self.feed_forward_norm(second)


class LayerDropsByHand(Layer):
    def drop(self, x):
        if not self.training:
            return x
        kept = torch.rand(x.shape) >= self.dropout.p
        return x * kept / (1 - self.dropout.p)

    def forward(self, x):
        x = self.attention_norm(x + self.drop(self.attention(x)))
        return self.feed_forward_norm(self.drop(self.feed_forward(x)) + x)


class LayerPair(Layer):
    def forward(self, x):
        return Layer.forward(self, x), None


right(
    "encoder_layer", Layer, LayerLoop, LayerFunctional, LayerModel, LayerOfBert, LayerDropsByHand, LayerPair
)


class PreNorm(Layer):
    def forward(self, x):
        x = x + self.dropout(self.attention(self.attention_norm(x)))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class NormInside(Layer):
    def forward(self, x):
        x = x + self.attention_norm(self.attention(x))
        return x + self.feed_forward_norm(self.feed_forward(x))


class NormsExchanged(Layer):
    def forward(self, x):
        x = self.feed_forward_norm(x + self.attention(x))
        return self.attention_norm(x + self.feed_forward(x))


class NoResidual(Layer):
    def forward(self, x):
        return self.feed_forward_norm(self.feed_forward(self.attention_norm(self.attention(x))))


class OneResidual(Layer):
    def forward(self, x):
        x = self.attention_norm(self.dropout(self.attention(x)))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))


class OtherResidual(Layer):
    def forward(self, x):
        x = self.attention_norm(x + self.attention(x))
        return self.feed_forward_norm(self.feed_forward(x))


class SharedNorm(Layer):
    def __init__(self, attention, feed_forward, hidden_size, dropout):
        super().__init__(attention, feed_forward, hidden_size, dropout)
        self.feed_forward_norm = self.attention_norm


class OneNorm(nn.Module):
    def __init__(self, attention, feed_forward, hidden_size, dropout):
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.norm, self.dropout = nn.LayerNorm(hidden_size), nn.Dropout(dropout)

    def forward(self, x):
        x = self.norm(x + self.dropout(self.attention(x)))
        return self.norm(x + self.dropout(self.feed_forward(x)))


class NormReused(Layer):
    def forward(self, x):
        x = self.attention_norm(x + self.attention(x))
        return self.attention_norm(x + self.feed_forward(x))


class AlwaysDrops(Layer):
    def forward(self, x):
        x = self.attention_norm(x + F.dropout(self.attention(x), 0.5))
        return self.feed_forward_norm(x + F.dropout(self.feed_forward(x), 0.5))


class OwnDropout(Layer):
    def forward(self, x):
        attended = self.attention(x)
        attended = attended * (torch.rand_like(attended) > self.dropout.p) / (1 - self.dropout.p)
        x = self.attention_norm(x + attended)
        return self.feed_forward_norm(x + self.feed_forward(x))


class StaysInTraining(Layer):
    def forward(self, x):
        return Layer.forward(self.train(), x)


for misconception, attempts in {
    "norm_order": [PreNorm, NormInside],
    "norms_exchanged": [NormsExchanged],
    "missing_residual": [NoResidual, OneResidual, OtherResidual],
    "one_norm_shared": [SharedNorm, OneNorm, NormReused],
    "dropout_in_eval": [AlwaysDrops, OwnDropout, StaysInTraining],
}.items():
    wrong("encoder_layer", misconception, *attempts)


class NoNorms(nn.Module):
    def __init__(self, attention, feed_forward, hidden_size, dropout):
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.feed_forward(x)


class FeedForwardFirst(Layer):
    def forward(self, x):
        x = self.feed_forward_norm(x + self.feed_forward(x))
        return self.attention_norm(x + self.attention(x))


wrong("encoder_layer", "norm_missing", NoNorms)
wrong("encoder_layer", "parts_exchanged", FeedForwardFirst)


class PartsOf(Layer):
    """A layer of one mistake, written as sums of named steps."""

    def forward(self, x):
        add = x + self.attention(self.attention_norm(x))
        return self.feed_forward_norm(add + self.feed_forward(add))


class NormThenAdd(Layer):
    def forward(self, x):
        first = x + self.attention_norm(self.dropout(self.attention(x)))
        return first + self.feed_forward_norm(self.dropout(self.feed_forward(first)))


class ResidualFromStart(Layer):
    def forward(self, x):
        first = self.attention_norm(x + self.attention(x))
        return self.feed_forward_norm(x + self.feed_forward(first))


class PreNormNoResidual(Layer):
    def forward(self, x):
        return self.feed_forward(self.feed_forward_norm(self.attention(self.attention_norm(x))))


wrong("encoder_layer", "norm_order", PartsOf, NormThenAdd)
wrong("encoder_layer", "missing_residual", PreNormNoResidual)
wrong("encoder_layer", "input_read_again", ResidualFromStart)


class Steps(Layer):
    """A subclass says what is done around each part."""

    def first(self, x):
        return self.attention_norm(x + self.dropout(self.attention(x)))

    def second(self, x, start):
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))

    def forward(self, x):
        return self.second(self.first(x), x)


def layer(**steps):
    return type("Stepped", (Steps,), steps)


class PlainNames(nn.Module):
    def __init__(self, attention, feed_forward, hidden_size, dropout):
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.norm1, self.norm2 = nn.LayerNorm(hidden_size), nn.LayerNorm(hidden_size)

    def forward(self, x):
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.feed_forward(x))


class RateFixed(Layer):
    def __init__(self, attention, feed_forward, hidden_size, dropout):
        super().__init__(attention, feed_forward, hidden_size, dropout)
        self.dropout = nn.Dropout()


class RateOfBert(Layer):
    def __init__(self, attention, feed_forward, hidden_size, dropout):
        super().__init__(attention, feed_forward, hidden_size, 0.1)


class DropsUnscaled(LayerDropsByHand):
    def drop(self, x):
        return x * (torch.rand_like(x) > self.dropout.p) if self.training else x


class DropsTheOthers(LayerDropsByHand):
    def drop(self, x):
        return x * (torch.rand_like(x) < self.dropout.p) / (1 - self.dropout.p) if self.training else x


class GrowsAll(LayerDropsByHand):
    def drop(self, x):
        return x / (1 - self.dropout.p) if self.training else x


class DropsEverything(Layer):
    def forward(self, x):
        x = self.attention_norm(x + F.dropout(self.attention(x), self.training))
        return self.feed_forward_norm(x + F.dropout(self.feed_forward(x), self.training))


class DropsOnlyOnce(Layer):
    def forward(self, x):
        x = self.attention_norm(x + self.attention(x))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))


class DropsInput(Layer):
    def forward(self, x):
        x = self.attention_norm(x + self.attention(self.dropout(x)))
        return self.feed_forward_norm(x + self.feed_forward(self.dropout(x)))


class DropsTheLayersInput(Layer):
    def forward(self, x):
        x = self.dropout(x)
        x = self.attention_norm(x + self.attention(x))
        return self.feed_forward_norm(x + self.feed_forward(x))


def drops(around):
    """A layer with `around(self, norm, part, x)` in both places."""

    def forward(self, x):
        x = around(self, self.attention_norm, self.attention, x)
        return around(self, self.feed_forward_norm, self.feed_forward, x)

    return type("Drops", (Layer,), {"forward": forward})


for misconception, attempts in {
    "norms_exchanged": [
        drops(
            lambda self, norm, part, x: F.layer_norm(
                x + self.dropout(part(x)),
                x.shape[-1:],
                self.feed_forward_norm.weight if part is self.attention else self.attention_norm.weight,
                self.feed_forward_norm.bias if part is self.attention else self.attention_norm.bias,
            )
        )
    ],
    "norm_missing": [
        layer(first=lambda self, x: x + self.attention(x)),
        layer(second=lambda self, x, start: x + self.feed_forward(x)),
        drops(lambda self, norm, part, x: x + self.dropout(part(x))),
    ],
    "missing_residual": [
        layer(second=lambda self, x, start: self.feed_forward_norm(self.dropout(self.feed_forward(x)))),
        layer(
            first=lambda self, x: self.attention(self.attention_norm(x)),
            second=lambda self, x, start: x + self.feed_forward(self.feed_forward_norm(x)),
        ),
    ],
    "input_read_again": [
        layer(second=lambda self, x, start: self.feed_forward_norm(x + self.feed_forward(start))),
    ],
    "part_missing": [
        layer(second=lambda self, x, start: x),
        layer(first=lambda self, x: x),
        layer(second=lambda self, x, start: self.feed_forward_norm(x)),
        layer(second=lambda self, x, start: self.feed_forward_norm(start + self.feed_forward(start))),
        layer(first=lambda self, x: self.attention_norm(x)),
    ],
    "parts_exchanged": [
        layer(
            first=lambda self, x: self.attention_norm(x + self.feed_forward(x)),
            second=lambda self, x, start: self.feed_forward_norm(x + self.attention(x)),
        )
    ],
    "norm_order": [
        drops(lambda self, norm, part, x: norm(x) + self.dropout(part(x))),
        drops(lambda self, norm, part, x: norm(x) + norm(part(x))),
        drops(lambda self, norm, part, x: x + norm(part(norm(x)))),
        drops(lambda self, norm, part, x: norm(x) + part(norm(x))),
        drops(lambda self, norm, part, x: norm(x + norm(part(x)))),
    ],
    "dropout_missing": [
        drops(lambda self, norm, part, x: norm(x + part(x))),
        DropsOnlyOnce,
        layer(second=lambda self, x, start: self.feed_forward_norm(x + self.feed_forward(x))),
    ],
    "dropout_on_sum": [
        drops(lambda self, norm, part, x: norm(self.dropout(x + part(x)))),
        layer(second=lambda self, x, start: self.feed_forward_norm(self.dropout(self.feed_forward(x) + x))),
    ],
    "dropout_after_norm": [
        drops(lambda self, norm, part, x: self.dropout(norm(x + part(x)))),
        layer(
            first=lambda self, x: F.dropout(
                self.attention_norm(x + self.attention(x)), self.dropout.p, self.training
            )
        ),
        layer(second=lambda self, x, start: self.dropout(self.feed_forward_norm(x + self.feed_forward(x)))),
    ],
    "dropout_on_input": [DropsInput, DropsTheLayersInput],
    "dropout_rate_ignored": [RateFixed, RateOfBert, DropsUnscaled, DropsEverything, DropsTheOthers, GrowsAll],
}.items():
    wrong("encoder_layer", misconception, *attempts)


class PartTwice(Layer):
    def forward(self, x):
        return Layer.forward(self, Layer.forward(self, x))


class Scaled(Layer):
    def forward(self, x):
        x = self.attention_norm(x + 0.5 * self.attention(x))
        return self.feed_forward_norm(x + 0.5 * self.feed_forward(x))


class WithoutTheBatch(Layer):
    def forward(self, x):
        return Layer.forward(self, x)[0]


unlisted("encoder_layer", PlainNames, PartTwice, Scaled, WithoutTheBatch)


# ------------------------------------------------------------------------------------- one more of each mistake


def deviation(x, eps):
    return torch.sqrt(variance(x) + eps)


for misconception, attempt in {
    "not_the_variance": lambda x, w, b, e: centred(x) / (centred(x).abs().mean(-1, keepdim=True) + e) * w + b,
    "centre_is_no_mean": lambda x, w, b, e: (x - x.median(-1, keepdim=True).values) / deviation(x, e) * w + b,
    "eps_changed": lambda x, w, b, e: centred(x) / (variance(x) - e).abs().sqrt() * w + b,
    "scale_or_shift_changed": lambda x, w, b, e: centred(x) / deviation(x, e) * w - b,
}.items():
    wrong("layer_norm", misconception, attempt)


def positions_only(x):
    return interleaved(angles(x))


for misconception, attempt in {
    "place_as_number": lambda x: x + torch.arange(x.shape[1])[:, None],
    "counted_backwards": lambda x: x + positions_only(x).flip(0),
    "multiplied": lambda x: x * positions_only(x),
    "laid_beside": lambda x: torch.cat([x, positions_only(x).expand_as(x)], -1),
    "averaged": lambda x: (x + positions_only(x)) / 2,
    "fixed_width": exponents(lambda pair, size: 2 * pair / 768),
    "exponent_from_behind": exponents(lambda pair, size: 2 * pair.flip(0) / size),
    "brackets_missing": lambda x: (
        x
        + interleaved(
            torch.arange(x.shape[1])[:, None] / 10000.0 ** torch.arange(0, x.shape[2], 2) * x.shape[2]
        )
    ),
}.items():
    wrong("position_encoding", misconception, attempt)


class DropoutAsEps(Layer):
    def __init__(self, attention, feed_forward, hidden_size, dropout):
        super().__init__(attention, feed_forward, hidden_size, dropout)
        self.attention_norm = nn.LayerNorm(hidden_size, dropout)


for misconception, attempt in {
    "norm_eps": DropoutAsEps,
    "something_twice": layer(
        second=lambda self, x, start: self.feed_forward_norm(
            x + self.dropout(self.feed_forward(self.feed_forward(x)))
        )
    ),
    "residual_changed": layer(
        second=lambda self, x, start: self.feed_forward_norm(x - self.dropout(self.feed_forward(x)))
    ),
}.items():
    wrong("encoder_layer", misconception, attempt)


def norm_of_squares(x, weight, bias, eps):
    mean = x.mean(dim=-1, keepdim=True)
    return (x - mean) / ((x**2).mean(dim=-1, keepdim=True) - mean**2 + eps).sqrt() * weight + bias


def positions_through_batch(x):
    return x + interleaved(angles(x.reshape(1, -1, x.shape[-1]))).view(x.shape)


def positions_without_minus(x):
    speed = torch.exp(torch.arange(0, x.shape[-1], 2) * (math.log(10000.0) / x.shape[-1]))
    return x + interleaved(angles(x, speed=speed))


wrong("layer_norm", "square_of_the_mean", norm_of_squares)
wrong("position_encoding", "counted_through_the_batch", positions_through_batch)
wrong("position_encoding", "speed_upside_down", positions_without_minus)
