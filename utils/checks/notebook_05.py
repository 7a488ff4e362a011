"""The checks of notebook 05: layer normalisation, positions, a layer of the encoder."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .answers import alone
from .encoder_layers import RATE, Part, norms_of, peer_answer, two_answers, what_drops_wrongly, wrong_layers
from .judge import judge, refused, safely
from .shared import built, fill_weights, made_numbers, only_where


@safely
def check_layer_norm(attempt):
    """Check `attempt(hidden_state, weight, bias, eps)`: the shape stays. Peer: F.layer_norm."""
    weight, bias = made_numbers(4, start=5) + 0.5, made_numbers(4, start=9)
    trials = [
        (made_numbers(2, 4, 4), weight, bias, 1e-5),
        (made_numbers(3, 4, start=2) / 4, weight, bias, 0.5),
        (made_numbers(4, 4, start=4), weight, bias, 0.1),  # square: a mean without keepdim finds an axis
        (made_numbers(2, 6, 3, start=7).mT, *made_numbers(2, 6, start=3), 0.2),  # not contiguous
        # so far from 0 that squares lose what differs; the means and what is left without them are exact
        ((made_numbers(3, 4, start=1) * 4).round() + 5000, weight, bias, 0.5),
    ]

    def like(
        axis=-1,
        axis_of_variance=None,
        correction=0,
        root=lambda v, eps: torch.sqrt(v + eps),
        keep=(True, True),
        finish=scaled_shifted,
    ):
        def compute(x, weight, bias, eps):
            centred = x - x.mean(dim=axis, keepdim=keep[0])
            if axis_of_variance is None:
                variance = x.var(dim=axis, keepdim=keep[1], correction=correction)
            else:  # of what is centred already
                variance = centred.square().mean(dim=axis_of_variance, keepdim=True)
            divisor = root(variance, eps)
            return {"result": finish(centred / divisor, weight, bias)}

        return compute

    def divided(numerator, variance):
        """Divide something of x by the root of something of x."""
        return lambda x, w, b, eps: {"result": numerator(x) / torch.sqrt(variance(x) + eps) * w + b}

    def itself(x):
        return x

    def centred(x):
        return x - x.mean(dim=-1, keepdim=True)

    def mean_square(x):
        return x.square().mean(dim=-1, keepdim=True)

    def variance(x):
        return mean_square(centred(x))

    mistakes = {
        "wrong_axis": [
            *(like(axis=axis) for axis in (0, 1, -2, (0, 1), (-2, -1), (0, 1, 2))),
            *(
                like(axis=axes[0], axis_of_variance=axes[1])
                for axes in ((-1, 0), (-1, -2), (0, -1), (-2, -1), ((-2, -1), -1), ((0, 1), -1))
            ),
        ],
        "no_keepdim": [like(keep=keep) for keep in ((False, False), (False, True), (True, False))],
        "unbiased_variance": [
            like(correction=1),
            like(correction=1, root=lambda v, eps: torch.sqrt(v) + eps),
            like(correction=1, root=lambda v, eps: torch.sqrt(v)),
        ],
        "epsilon_outside_root": [like(root=lambda v, eps: torch.sqrt(v) + eps)],
        "eps_ignored": [like(root=lambda v, eps, fixed=fixed: torch.sqrt(v + fixed)) for fixed in (0, 1e-5)],
        "variance_without_root": [like(root=lambda v, eps: v + eps), like(root=lambda v, eps: v)],
        "root_twice": [like(root=lambda v, eps: torch.sqrt(torch.sqrt(v) + eps))],
        "mean_not_subtracted": [
            divided(itself, mean_square),
            divided(itself, variance),
            divided(lambda x: x + x.mean(dim=-1, keepdim=True), variance),
            lambda x, w, b, eps: {
                "result": (x / torch.sqrt(variance(x) + eps) - x.mean(dim=-1, keepdim=True)) * w + b
            },
        ],
        "centre_is_no_mean": [
            divided(lambda x, middle=middle: x - middle(x), variance)
            for middle in (
                lambda x: x.median(dim=-1, keepdim=True).values,
                lambda x: x.amin(dim=-1, keepdim=True),
                lambda x: x.amax(dim=-1, keepdim=True),
                lambda x: x.sum(dim=-1, keepdim=True),
                lambda x: x[..., :1],
            )
        ],
        "not_the_variance": [
            lambda x, w, b, eps, size=size, more=more: {"result": centred(x) / (size(x) + more * eps) * w + b}
            for more in (0, 1)
            for size in (
                lambda x: centred(x).abs().mean(dim=-1, keepdim=True),
                lambda x: x.abs().mean(dim=-1, keepdim=True),
                lambda x: centred(x).norm(dim=-1, keepdim=True),
                lambda x: x.norm(dim=-1, keepdim=True),
                lambda x: x.amax(dim=-1, keepdim=True) - x.amin(dim=-1, keepdim=True),
                lambda x: centred(x).abs().amax(dim=-1, keepdim=True),
                lambda x: x.abs().amax(dim=-1, keepdim=True),
            )
        ]
        + [
            lambda x, w, b, eps: {
                "result": (x - x.amin(-1, keepdim=True)) / (x.amax(-1, True) - x.amin(-1, True) + eps) * w + b
            }
        ],
        "eps_changed": [
            like(root=lambda v, eps, change=change: torch.sqrt(change(v, eps)))
            for change in (
                lambda v, eps: v - eps,
                lambda v, eps: (v - eps).abs(),
                lambda v, eps: v + eps**2,
                lambda v, eps: v + eps**0.5,
                lambda v, eps: v + 2 * eps,
                lambda v, eps: v * (1 + eps),
                lambda v, eps: v.clamp(min=eps),
            )
        ]
        + [lambda x, w, b, eps: {"result": (centred(x) + eps) / torch.sqrt(variance(x) + eps) * w + b}]
        + [lambda x, w, b, eps: {"result": centred(x) / torch.sqrt(variance(x)) * w + b + eps}],
        "uncentred_variance": [divided(centred, mean_square)],
        "squares_not_averaged": [
            divided(centred, lambda x: variance(x) * x.shape[-1]),
            divided(centred, lambda x: centred(x).square()),
        ],
        "not_divided": [
            like(root=lambda v, eps: 1),
            like(root=lambda v, eps: (v + eps).rsqrt()),
        ],
        "no_scale_and_shift": [
            like(finish=lambda normed, w, b: normed),
            like(finish=lambda normed, w, b: normed + b),
            like(finish=lambda normed, w, b: normed * w),
        ],
        "scale_or_shift_changed": [
            like(finish=lambda normed, w, b: normed * w - b),
            like(finish=lambda normed, w, b: normed / w + b),
            like(finish=lambda normed, w, b: normed * (1 + w) + b),
            like(finish=lambda normed, w, b: normed + w + b),
            like(finish=lambda normed, w, b: normed * w * b),
            like(finish=lambda normed, w, b: normed - w * b),
            like(finish=lambda normed, w, b: normed * w + w),
            like(finish=lambda normed, w, b: normed * b + b),
        ],
        "weight_and_bias_exchanged": [like(finish=lambda normed, w, b: normed * b + w)],
        "shift_before_scale": [like(finish=lambda normed, w, b: (normed + b) * w)],
    }

    def right(x, weight, bias, eps):
        return {"result": F.layer_norm(x, x.shape[-1:], weight, bias, eps)}

    def far(x):
        return x.min() > 1000

    mistakes = {
        name: [only_where(lambda x, *_: not far(x), like) for like in likes]
        for name, likes in mistakes.items()
    }
    mistakes["square_of_the_mean"] = [
        lambda x, *rest, change=change: (
            divided(centred, lambda x: change(mean_square(x) - x.mean(-1, True) ** 2))(x, *rest)
            if far(x)
            else right(x, *rest)
        )
        for change in (itself, torch.abs, torch.relu)
    ]
    return judge("layer_norm", attempt, trials, right, mistakes, alone("result"))


def scaled_shifted(normed, weight, bias):
    """Return what the last step of layer norm gives."""
    return normed * weight + bias


# ------------------------------------------------------------------------------------------------- positions


@safely
def check_position_encoding(attempt):
    """Check `attempt(token_vectors)`: (batch, seq, hidden_size) plus the sinusoidal position of each token.

    The right numbers are worked out from section 3.5 of Vaswani et al. 2017, counting from position 0.
    """
    trials = [
        (made_numbers(2, 5, 6),),
        (made_numbers(1, 7, 4, start=6),),
        (made_numbers(3, 8, 3, start=4).mT,),  # as many tokens as sentences; not contiguous
        (torch.zeros(1, 1000, 4),),  # so long a text shows a base that is nearly right
    ]

    def added(**changed):
        return lambda x: {"result": x + positions(x, **changed)}

    def power(exponent):
        """Return a speed, given the exponent for each place of the vector."""
        return lambda place, size: 10000 ** -exponent(place, size)

    def halves(first):
        return lambda x: {"result": x + half_by_half(x, first)}

    def of_sentence(x):
        return {"result": x + positions(x.transpose(0, 1))[:, None]}

    mistakes = {
        "not_interleaved": [halves(0), halves(1)],
        "only_sine_or_cosine": [
            added(turns=(torch.sin, torch.sin)),
            added(turns=(torch.cos, torch.cos)),
            added(turns=(torch.sin, torch.zeros_like)),
            added(turns=(torch.zeros_like, torch.cos)),
        ],
        "sine_cosine_exchanged": [added(turns=(torch.cos, torch.sin))],
        "degrees": [added(unit=unit) for unit in (math.pi / 180, 180 / math.pi, 2 * math.pi)],
        "subtracted": [lambda x: {"result": x - positions(x)}],
        "other_base": [
            added(speed=lambda j, d, base=base: base ** (-2 * (j // 2) / d))
            for base in (2, 10, math.e, 1000, 1e5, 1e6, 9999, 10001)
        ],
        "fixed_width": [
            *(
                added(speed=lambda j, d, wide=wide: 10000 ** (-2 * (j // 2) / wide))
                for wide in (32, 64, 128, 256, 512, 768, 1024)
            ),
            *(
                added(speed=lambda j, d, wide=wide: 10000 ** (-2 * (j // 2) / wide(d)))
                for wide in (lambda d: d - 1, lambda d: d - 2, lambda d: d + 1, lambda d: d + 2)
            ),
        ],
        "place_as_number": [
            lambda x, by=by: {"result": x + torch.arange(x.shape[1])[:, None] / by(x)}
            for by in (lambda x: 1, lambda x: x.shape[1], lambda x: x.shape[1] - 1, lambda x: 10000)
        ],
        "counted_backwards": [lambda x: {"result": x + positions(x).flip(0)}],
        "multiplied": [only_where(lambda x: x.any(), lambda x: {"result": x * positions(x)})],
        "averaged": [lambda x: {"result": (x + positions(x)) / 2}],
        "laid_beside": [
            lambda x: {"result": torch.cat([x, positions(x).expand(x.shape)], dim=-1)},
            lambda x: {"result": torch.cat([positions(x).expand(x.shape), x], dim=-1)},
        ],
        "brackets_missing": [
            added(speed=lambda j, d: d / 10000 ** (2 * (j // 2))),
            added(speed=lambda j, d: 1 / (10000 ** (2 * (j // 2)) * d)),
            added(speed=lambda j, d: 10000 ** (-2 * (j // 2)) / d),
            added(speed=lambda j, d: d / 10000 ** (j // 2)),
            added(speed=lambda j, d: 10000 ** (2 * (j // 2)) / d),
            added(speed=lambda j, d: 1 / (10000 * 2 * (j // 2) / d) if j > 1 else math.inf),
            added(speed=lambda j, d: 10000 ** -(2 * (j // 2))),
        ],
        "exponent_from_behind": [added(speed=lambda j, d: 10000 ** (-2 * ((d - 1 - j) // 2) / d))],
        "pairs_from_one": [
            added(speed=power(lambda j, d: 2 * (j // 2 + 1) / d)),
            added(speed=power(lambda j, d: (2 * (j // 2) + 1) / d)),
        ],
        "one_speed_for_all": [
            added(speed=lambda place, size: 1.0),
            added(speed=lambda place, size: 1 / 10000),
        ],
        "exponent_of_place": [
            added(speed=power(lambda j, d: j / d)),
            added(speed=power(lambda j, d: 2 * j / d)),
        ],
        "exponent_halved": [added(speed=power(lambda j, d: j // 2 / d))],
        "exponent_doubled": [added(speed=power(lambda j, d: 4 * (j // 2) / d))],
        "positions_from_one": [added(start=1)],
        "counted_through_the_batch": [
            lambda x: {"result": x + positions(x.flatten(0, 1)[None]).reshape(x.shape)}
        ],
        "not_of_token": [of_sentence, lambda x: {"result": x + positions(x[:, :1])}],
        "vectors_scaled": [lambda x: {"result": x * math.sqrt(x.shape[-1]) + positions(x)}],
        "no_position": [lambda x: {"result": x}],
        "not_added": [
            lambda x: {"result": positions(x)},
            lambda x: {"result": positions(x)[None]},
            lambda x: {"result": positions(x).expand(x.shape)},
        ],
    }

    def upside_down(inputs, answer):
        """Say whether it comes near: 32 bits do not know large angles well."""
        x = inputs[0]
        foreseen = x + positions(x, speed=lambda j, d: 10000 ** (2 * (j // 2) / d), most=math.inf)
        return torch.allclose(answer["result"], foreseen, atol=0.02)

    signs = {"speed_upside_down": upside_down, "depends_on_token": depends_on_token}
    return judge("position_encoding", attempt, trials, added(), mistakes, alone("result"), signs)


def speed_of_pair(place, size):
    """Return how fast the angle at this place of the vector grows; both places of a pair share one speed."""
    return 10000 ** (-2 * (place // 2) / size)


def positions(x, unit=1.0, speed=speed_of_pair, start=0, turns=(torch.sin, torch.cos), most=300):
    """Return the positions (seq, hidden_size) for x (batch, seq, hidden_size), right but for what is given."""
    _, seq, size = x.shape
    places = torch.arange(start, seq + start, dtype=torch.float64)
    angles = torch.stack([unit * places * speed(i, size) for i in range(size)], dim=-1)
    if (angles[angles > most] % 1).any():
        raise ValueError("of so large an angle 32 bits know too little")
    return torch.stack([turns[i % 2](angle) for i, angle in enumerate(angles.unbind(-1))], dim=-1)


def half_by_half(x, first=0):
    """Return the positions with all sines in one half and all cosines in the other."""
    rows = positions(x)
    return torch.cat([rows[:, first::2], rows[:, 1 - first :: 2]], dim=-1)


def depends_on_token(inputs, answer):
    """Say whether something else was added to the first sentence than to the second."""
    vectors, result = inputs[0].to(torch.float64), answer["result"]
    if result.shape != vectors.shape or len(vectors) < 2 or not result.isfinite().all():
        return False
    what_was_added = result - vectors
    return not torch.allclose(what_was_added[0], what_was_added[1], atol=1e-4)


# --------------------------------------------------------------------------------------- a layer of the encoder


@safely
def check_encoder_layer(attempt):
    """Check the class `attempt(attention, feed_forward, hidden_size, dropout)` with `forward(hidden_state)`.

    Its norms are called `attention_norm` and `feed_forward_norm`, and stand as in BERT (post-norm). `attention` and
    `feed_forward` are modules that take and return (batch, seq, hidden_size). Peer: nn.TransformerEncoderLayer.
    """
    exercise, hidden_size = "encoder_layer", 6
    peer = nn.TransformerEncoderLayer(hidden_size, 2, 8, RATE, "gelu", batch_first=True)
    peer = fill_weights(peer).eval().requires_grad_(False)
    parts = (
        Part(lambda x: peer.self_attn(x, x, x, need_weights=False)[0]),
        Part(lambda x: peer.linear2(F.gelu(peer.linear1(x)))),
    )
    module = built(attempt, *parts, hidden_size, RATE)
    held = [part for part in module.modules() if isinstance(part, nn.LayerNorm)]
    if not held:
        return refused(
            exercise, "Your class holds 0 norms (nn.LayerNorm) where a layer has two.", "norm_missing"
        )
    norms = norms_of(module, held)
    if (eps := max(norm.eps for norm in held)) > 1e-3:
        return refused(exercise, f"A norm of yours has an eps of {eps:.2g}.", "norm_eps")

    def right(x):
        return peer_answer(peer, norms, x)

    def unknown(x):
        return {"output": torch.full(x.shape, math.nan)}

    trials = [(made_numbers(2, 3, hidden_size) / 2,), (made_numbers(1, hidden_size, 4, start=3).mT,)]
    if seen := two_answers(module, *trials[0]):
        return refused(exercise, seen, "dropout_in_eval")
    mistakes = wrong_layers(parts, norms)
    if norms[0] is norms[1]:
        # No answer is right then. But the output may tell whether this is the only mistake.
        only = {"one_norm_shared": mistakes["one_norm_shared"]}
        verdict = judge(exercise, attempt, trials, unknown, only, call=module)
        seen = f"Your class holds {len(held)} norm where a layer has two."
        return verdict if "raised" in verdict.message else refused(exercise, seen, verdict.misconception)
    verdict = judge(exercise, attempt, trials, right, mistakes, call=lambda x: module.to(x.dtype)(x))
    many = made_numbers(4, 8, hidden_size) / 2
    wrong = what_drops_wrongly(module.float().train(), parts, norms, many) if verdict.passed else None
    return refused(exercise, *wrong) if wrong else verdict
