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
unlisted(
    "layer_norm",
    lambda x, w, b, e: (x - x.mean(-1, True)) / (x.var(-1, keepdim=True, correction=0) + e) * w + b,
    lambda x, w, b, e: x / (x.square().mean(-1, True) + e).sqrt() * w + b,
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


right(
    "position_encoding",
    positions_loops,
    positions_slices,
    positions_numpy,
    lambda x: x + interleaved(angles(x)),
)
wrong(
    "position_encoding",
    "not_interleaved",
    lambda x: x + torch.cat([angles(x).sin(), angles(x).cos()], dim=-1),
    lambda x: x + torch.cat([angles(x).cos(), angles(x).sin()], dim=-1),
    lambda x: x + angles(x).sin().repeat_interleave(2, dim=-1),
)


def positions_every_place(x):
    size = x.shape[-1]
    angle = torch.arange(x.shape[1])[:, None] / 10000 ** (torch.arange(size) / size)
    return x + torch.where(torch.arange(size) % 2 == 0, angle.sin(), angle.cos())


wrong(
    "position_encoding",
    "degrees_or_missing_frequency",
    lambda x: x + interleaved(torch.deg2rad(angles(x))),
    lambda x: x + interleaved(angles(x) * 180 / math.pi),
    lambda x: x + interleaved(angles(x, speed=1.0)),
    positions_every_place,
)
wrong(
    "position_encoding",
    "depends_on_token",
    lambda x: x * interleaved(angles(x)),
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
    lambda x: x + torch.arange(x.shape[1])[:, None],
    lambda x: x + torch.cat([angles(x, first=1).sin(), angles(x, first=1).cos()], dim=-1),
    lambda x: x,
)
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


right("encoder_layer", Layer, LayerLoop, LayerFunctional, LayerModel)


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
    "norm_order": [PreNorm, NormInside, NormsExchanged],
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


unlisted("encoder_layer", NoNorms, FeedForwardFirst)


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
unlisted("encoder_layer", ResidualFromStart)
