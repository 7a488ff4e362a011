"""Attempts at the exercises of notebook 05."""

import functools
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from utils.checks.notebook_05 import DROPPED, WHOLE

from .tables import fresh, peer, right, wrong


def fold_loops(norm_weight, norm_bias, weight, bias):
    weight, bias = weight.clone(), bias.clone()
    for row in range(weight.shape[0]):
        for column in range(weight.shape[1]):
            bias[row] += weight[row, column] * norm_bias[column]
            weight[row, column] *= norm_weight[column]
    return weight, bias


def fold_fitted(norm_weight, norm_bias, weight, bias):
    norm, linear = nn.LayerNorm(len(norm_weight), eps=0), nn.Linear(*weight.T.shape)
    norm.load_state_dict({"weight": norm_weight, "bias": norm_bias})
    linear.load_state_dict({"weight": weight, "bias": bias})
    x = torch.randn(50, len(norm_weight), dtype=torch.float64)
    plain = F.pad(F.layer_norm(x, x.shape[-1:], eps=0), (0, 1), value=1)
    found = torch.linalg.lstsq(plain, linear.double()(norm.double()(x)), driver="gelsd").solution.T
    return found[:, :-1].detach(), found[:, -1].detach()


right(
    "fold_norm",
    *(fold_loops, fold_fitted),
    lambda nw, nb, w, b: ((F.linear(nw.diag() + nb, w) - F.linear(nb, w)).T, F.linear(nb, w, b)),
    lambda nw, nb, w, b: [w @ nw.diag(), F.linear(nb, w, b)],
    lambda nw, nb, w, b: {"weight": (w.T * nw[:, None]).T, "bias": b + (w * nb).sum(dim=1)},
    lambda nw, nb, w, b: (torch.einsum("oi,i->oi", w, nw), torch.addmv(b, w, nb)),
    lambda nw, nb, w, b: (w * nw, b + torch.from_numpy(np.dot(w.numpy(), nb.numpy()))),
)
peer("fold_norm", fold_fitted)
wrong(
    "fold_norm",
    norm_parts_exchanged=lambda n, b, w, x: (w * b, x + w @ n),
    rows_scaled=lambda nw, nb, w, b: (nw.diag() @ w, b + w @ nb),
    weight_used_twice=lambda nw, nb, w, b: ((new := w * nw), b + new @ nb),
    bias_not_folded=lambda nw, nb, w, b: (w * nw, b.clone()),
    old_bias_lost=lambda nw, nb, w, b: (w * nw, F.linear(nb, w)),
    norm_bias_as_it_is=lambda nw, nb, w, b: (w * nw, b + nb),
    matrix_not_transposed=lambda nw, nb, w, b: (w * nw, b + w.T @ nb),
    products_not_summed=lambda nw, nb, w, b: (w * nw, (w * nb) + b),
    weight_not_scaled=lambda nw, nb, w, b: (w.clone(), F.linear(nb, w, b)),
    weight_summed=lambda nw, nb, w, b: (F.linear(nw, w), F.linear(nb, w, b)),
    bias_scaled=lambda nw, nb, w, b: (w * nw, F.linear(nb, w, b) * nw),
    divided_by_the_weight=lambda nw, nb, w, b: (w @ (1 / nw).diag(), F.linear(nb, w, b)),
    added_to_the_weight=lambda nw, nb, w, b: (nb + w * nw, F.linear(nb, w, b)),
    one_added=lambda nw, nb, w, b: (w + w * nw, F.linear(nb, w, b)),
    bias_subtracted=lambda nw, nb, w, b: (w * nw, b + w @ -nb),
    bias_first=lambda nw, nb, w, b: fold_loops(nw, nb, w, b)[::-1],
    weight_turned=lambda nw, nb, w, b: (w.T * nw[:, None], F.linear(nb, w, b)),
    unchanged=lambda nw, nb, w, b: (w.clone(), b.clone()),
    changes_its_input=lambda nw, nb, w, b: (b.add_(w @ nb), w.mul_(nw))[::-1],
)


def speeds(positions):
    width = positions.shape[1]
    return torch.tensor([10000 ** (-2 * pair / width) for pair in range(width // 2)], dtype=torch.float64)


def move_atan(positions, steps):
    angles = torch.atan2(positions[:, ::2], positions[:, 1::2]).double() + steps * speeds(positions)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def move_matrix(positions, steps):
    blocks = [torch.tensor([[a.cos(), -a.sin()], [a.sin(), a.cos()]]) for a in steps * speeds(positions)]
    return positions @ torch.block_diag(*blocks).to(positions.dtype)


def move_loops(positions, steps):
    moved, width = positions.clone(), positions.shape[1]
    for row in range(len(positions)):
        for place in range(0, width, 2):
            turn = steps / 10000 ** (place / width)
            sine, cosine = positions[row, place].item(), positions[row, place + 1].item()
            moved[row, place] = sine * math.cos(turn) + cosine * math.sin(turn)
            moved[row, place + 1] = cosine * math.cos(turn) - sine * math.sin(turn)
    return moved


def at(place, width):  # the formula of Vaswani et al. 2017, 3.5
    angles = [place / 10000 ** (2 * pair / width) for pair in range(width // 2)]
    return torch.tensor([turn(angle) for angle in angles for turn in (math.sin, math.cos)])


def move_by_search(positions, steps):
    width = positions.shape[1]
    places = [min(range(100), key=lambda place: (at(place, width) - row).abs().max()) for row in positions]
    return torch.stack([at(place + steps, width) for place in places])


def moved_by(angles):
    def move(positions, steps):
        width, clocks = positions.shape[1], torch.complex(positions[:, 1::2], positions[:, ::2])
        turn = torch.tensor([angles(steps, pair, width) for pair in range(width // 2)], dtype=torch.float64)
        turned = clocks * torch.exp(1j * turn)
        return torch.stack([turned.imag, turned.real], dim=-1).flatten(1)

    return move


def put(move):
    def attempt(positions, steps):
        x, y, turn = positions[:, ::2], positions[:, 1::2], steps * speeds(positions).to(positions)
        return torch.stack(move(x, y, turn.sin(), turn.cos()), dim=-1).flatten(1)

    return attempt


right(
    "move_positions",
    *(move_atan, move_matrix, move_loops, move_by_search),
    moved_by(lambda steps, i, d: steps / 10000 ** (2 * i / d)),
    put(lambda x, y, s, c: (x * c + y * s, y * c - x * s)),
)
peer("move_positions", move_by_search)
fresh("move_positions", (torch.stack([at(place, 8) for place in (7, 3, 50)]), 5))


wrong(
    "move_positions",
    one_step_only=lambda positions, steps: move_loops(positions, 1),
    moved_back=put(lambda x, y, s, c: (x * c - y * s, x * s + y * c)),  # as `rotate` does it
    rows_moved=lambda p, steps: torch.roll(p, -steps, 0),
    taken_for_the_first_places=lambda p, steps: torch.stack([at(i + steps, len(r)) for i, r in enumerate(p)]),
    steps_added=lambda p, steps: p + at(steps, p.shape[1]),
    multiplied=lambda p, steps: p * at(steps, p.shape[1]),
    steps_alone=lambda p, steps: at(steps, p.shape[1]).repeat(len(p), 1),
    sign_of_one_term=put(lambda x, y, s, c: (x * c + y * s, y * c + x * s)),
    terms_mixed_up=put(lambda x, y, s, c: (x * s + y * c, y * c - x * s)),
    half_a_circle_lost=put(lambda x, y, s, c: (x * c + (z := (1 - x * x).sqrt()) * s, z * c - x * s)),
    half_moved=put(lambda x, y, s, c: ((x := x * c + y * s), y * c - x * s)),
    halves_for_pairs=lambda p, steps: move_atan(p, steps).unflatten(1, (-1, 2)).mT.flatten(1),
    sine_cosine_exchanged=lambda p, steps: move_atan(p, steps).unflatten(1, (-1, 2)).flip(2).flatten(1),
    degrees=moved_by(lambda steps, i, d: math.degrees(steps / 10000 ** (2 * i / d))),
    one_speed_for_all=moved_by(lambda steps, i, d: float(steps)),
    exponent_halved=moved_by(lambda steps, i, d: steps / 10000 ** (i / d)),
    exponent_doubled=moved_by(lambda steps, i, d: steps / 10000 ** (4 * i / d)),
    speed_upside_down=moved_by(lambda steps, i, d: steps * 10000 ** (2 * i / d)),
    other_base=moved_by(lambda steps, i, d: steps / 1000 ** (2 * i / d)),
    fixed_width=moved_by(lambda steps, i, d: steps / 10000 ** (2 * i / 384)),
    pairs_from_one=moved_by(lambda steps, i, d: steps / 10000 ** (2 * (i + 1) / d)),
    exponent_from_behind=moved_by(lambda steps, i, d: steps / 10000 ** ((d - 2 - 2 * i) / d)),
    brackets_missing=moved_by(lambda steps, i, d: steps * 10000.0 ** (-2 * i) / d),
    one_step_off=moved_by(lambda steps, i, d: (steps - 1) / 10000 ** (2 * i / d)),
    not_moved=lambda p, steps: p.clone(),
    changes_its_input=lambda p, steps: p.copy_(move_atan(p, steps)),
)


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


class LayerModel(nn.Module):
    def __init__(self, attention, feed_forward, hidden_size, dropout):
        super().__init__()
        self.attention_norm, self.feed_forward_norm = (nn.LayerNorm(hidden_size, eps=1e-5) for _ in range(2))
        self.attention = nn.Sequential(attention, nn.Dropout(dropout))
        self.feed_forward = nn.Sequential(feed_forward, nn.Dropout(dropout))

    def forward(self, x):
        x = self.attention_norm(torch.add(x, self.attention(x)))
        return self.feed_forward_norm(torch.add(x, self.feed_forward(x)))


def layer_of_torch(module, x):
    theirs = nn.TransformerEncoderLayer(x.shape[-1], 1, 4, dropout=0.0, batch_first=True)
    theirs._sa_block = lambda x, *given, **named: module.attention(x)
    theirs._ff_block = lambda x: module.feed_forward(x)
    theirs.norm1, theirs.norm2 = module.attention_norm, module.feed_forward_norm
    return theirs.train()(x)  # in train mode nothing is fused


def changed(change):
    made = lambda s, *inputs: [Layer.__init__(s, *inputs), change(s)].clear()  # noqa: E731
    return type("Changed", (Layer,), {"__init__": made})


def layer(forward):
    return type("Forward", (Layer,), {"forward": forward})


def parts(forward):
    return layer(lambda s, x: forward(x, s.attention, s.feed_forward, s.attention_norm, s.feed_forward_norm))


def drops(around):
    halves = lambda s: ((s.attention_norm, s.attention), (s.feed_forward_norm, s.feed_forward))  # noqa: E731
    return layer(lambda s, x: functools.reduce(lambda x, half: around(s, *half, x), halves(s), x))


def functional(s, norm, part, x):
    x = x + F.dropout(part(x), s.dropout.p, s.training)
    return F.layer_norm(x, x.shape[-1:], norm.weight, norm.bias)


def dropped_by_hand(s, norm, part, x):
    kept = torch.rand(x.shape) >= s.dropout.p
    return norm((part(x) * kept / (1 - s.dropout.p) if s.training else part(x)) + x)


pre_norm = drops(lambda s, norm, part, x: x + s.dropout(part(norm(x))))
small_eps = changed(lambda s: [vars(n).update(eps=1e-12) for n in (s.attention_norm, s.feed_forward_norm)])
right(
    "encoder_layer",
    *(Layer, LayerModel, drops(functional), drops(dropped_by_hand)),
    drops(lambda s, norm, part, x: norm(s.dropout(part(x)) + x)),
    layer(lambda s, x: (Layer.forward(s, x), None)),
    small_eps,
)
peer("encoder_layer", layer_of_torch)
fresh(
    "encoder_layer",
    (WHOLE, torch.randn(2, 3, 6)),
    (DROPPED, torch.tensor([0.3, -0.8, 1.1]).expand(1, 3000, 3)),
)
wrong(
    "encoder_layer",
    parts_in_plain_list=type(
        "Listed", (Layer,), {"__setattr__": lambda s, name, x: s.__dict__.update({name: [x]})}
    ),
    one_norm_shared=changed(lambda s: s.add_module("feed_forward_norm", s.attention_norm)),
    norm_eps=changed(lambda s: s.attention_norm.__dict__.update(eps=s.dropout.p)),
    norm_missing=changed(
        lambda s: [s._modules.pop(part + "_norm") for part in ("attention", "feed_forward")]
    ),
    dropout_rate_ignored=changed(lambda s: s.dropout.__dict__.update(p=0.1)),
    dropout_in_eval=layer(lambda s, x: Layer.forward(s.train(), x)),
    norms_exchanged=parts(lambda x, a, f, norm, other: norm((y := other(x + a(x))) + f(y))),
    parts_exchanged=parts(lambda x, a, f, norm, other: norm((y := other(x + f(x))) + a(y))),
    input_read_again=parts(lambda x, a, f, norm, other: other(x + f(norm(x + a(x))))),
    parts_in_parallel=parts(lambda x, a, f, norm, other: other(x + a(x) + f(x))),
    part_missing=parts(lambda x, a, f, norm, other: norm(x + a(x))),
    missing_residual=drops(lambda s, norm, part, x: norm(s.dropout(part(x)))),
    something_twice=drops(lambda s, norm, part, x: norm(x + part(part(x) if part is s.attention else x))),
    residual_changed=drops(lambda s, norm, part, x: norm(x - s.dropout(part(x)))),
    dropout_missing=drops(lambda s, norm, part, x: norm(x + part(x))),
    dropout_on_sum=drops(lambda s, norm, part, x: norm(s.dropout(x + part(x)))),
    dropout_after_norm=drops(lambda s, norm, part, x: s.dropout(norm(x + part(x)))),
    dropout_drawn_together=drops(lambda s, norm, part, x: norm(x + s.dropout(x[..., :1] ** 0) * part(x))),
    dropout_on_input=drops(lambda s, norm, part, x: norm(x + part(s.dropout(x)))),
)
wrong("encoder_layer", "norm_order", pre_norm, type("Small", (pre_norm,), {"__init__": small_eps.__init__}))
