"""The checks of notebook 05: layer normalisation, positions, a layer of the encoder."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .answers import Unreadable, alone, output_and_weights, what_differs
from .judge import judge, refused, safely
from .running import run_attempt, why_not_run
from .shared import built, fill_weights, made_numbers


@safely
def check_layer_norm(attempt):
    """Check `attempt(hidden_state, weight, bias, eps)`: the shape stays. Peer: F.layer_norm."""
    weight, bias = made_numbers(4, start=5) + 0.5, made_numbers(4, start=9)
    trials = [
        (made_numbers(2, 4, 4), weight, bias, 1e-5),
        (made_numbers(3, 4, start=2) / 4, weight, bias, 0.5),
        (made_numbers(4, 4, start=4), weight, bias, 0.1),  # square: a mean without keepdim finds an axis
        (made_numbers(2, 6, 3, start=7).mT, *made_numbers(2, 6, start=3), 0.2),  # not contiguous
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
        "unbiased_variance": [like(correction=1)],
        "epsilon_outside_root": [like(root=lambda v, eps: torch.sqrt(v) + eps)],
        "eps_ignored": [like(root=lambda v, eps, fixed=fixed: torch.sqrt(v + fixed)) for fixed in (0, 1e-5)],
        "variance_without_root": [like(root=lambda v, eps: v + eps), like(root=lambda v, eps: v)],
        "root_twice": [like(root=lambda v, eps: torch.sqrt(torch.sqrt(v) + eps))],
        "mean_not_subtracted": [divided(itself, mean_square), divided(itself, variance)],
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
        "weight_and_bias_exchanged": [like(finish=lambda normed, w, b: normed * b + w)],
        "shift_before_scale": [like(finish=lambda normed, w, b: (normed + b) * w)],
    }

    def right(x, weight, bias, eps):
        return {"result": F.layer_norm(x, x.shape[-1:], weight, bias, eps)}

    return judge("layer_norm", attempt, trials, right, mistakes, alone("result"))


def scaled_shifted(normed, weight, bias):
    """Return what the last step of layer norm gives."""
    return normed * weight + bias


# ------------------------------------------------------------------------------------------------- positions


@safely
def check_position_encoding(attempt):
    """Check `attempt(token_vectors)`: (batch, seq, hidden_size) plus the sinusoidal position of each token.

    The right numbers are worked out one by one from section 3.5 of Vaswani et al. 2017, counting from position 0.
    """
    trials = [
        (made_numbers(2, 5, 6),),
        (made_numbers(1, 7, 4, start=6),),
        (made_numbers(3, 8, 3, start=4).mT.double(),),  # as many tokens as sentences; not contiguous
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
            added(turns=(math.sin, math.sin)),
            added(turns=(math.cos, math.cos)),
            added(turns=(math.sin, lambda angle: 0)),
            added(turns=(lambda angle: 0, math.cos)),
        ],
        "sine_cosine_exchanged": [added(turns=(math.cos, math.sin))],
        "degrees": [added(unit=unit) for unit in (math.pi / 180, 180 / math.pi, 2 * math.pi)],
        "subtracted": [lambda x: {"result": x - positions(x)}],
        "other_base": [
            added(speed=lambda j, d, base=base: base ** (-2 * (j // 2) / d)) for base in (1000, 1e5)
        ],
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
        "speed_upside_down": [added(speed=power(lambda j, d: -2 * (j // 2) / d))],
        "positions_from_one": [added(start=1)],
        "not_of_token": [of_sentence, lambda x: {"result": x + positions(x[:, :1])}],
        "vectors_scaled": [lambda x: {"result": x * math.sqrt(x.shape[-1]) + positions(x)}],
        "no_position": [lambda x: {"result": x}],
        "not_added": [lambda x: {"result": positions(x)}, lambda x: {"result": positions(x).expand(x.shape)}],
    }
    signs = {"depends_on_token": depends_on_token}
    return judge("position_encoding", attempt, trials, added(), mistakes, alone("result"), signs)


def speed_of_pair(place, size):
    """Return how fast the angle at this place of the vector grows; both places of a pair share one speed."""
    return 10000 ** (-2 * (place // 2) / size)


def positions(x, unit=1.0, speed=speed_of_pair, start=0, turns=(math.sin, math.cos)):
    """Return the positions (seq, hidden_size) for x (batch, seq, hidden_size), right but for what is given."""
    _, seq, size = x.shape
    return torch.tensor(
        [[turns[i % 2](unit * (p + start) * speed(i, size)) for i in range(size)] for p in range(seq)],
        dtype=torch.float64,
    )


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
    verdict = judge(exercise, attempt, trials, right, mistakes, call=module)
    many = made_numbers(4, 8, hidden_size) / 2
    wrong = what_drops_wrongly(module.train(), parts, norms, many) if verdict.passed else None
    return refused(exercise, *wrong) if wrong else verdict


RATE = 0.25  # of dropout: none that a learner would write down, so that a fixed one shows


class Part(nn.Module):
    """A part of a layer that is handed to a learner's class: it returns one tensor, and keeps what it was given."""

    def __init__(self, function):
        super().__init__()
        self.function, self.given = function, None

    def forward(self, hidden_state):
        self.given = hidden_state.detach().clone()
        return self.function(hidden_state)


def norms_of(module, held):
    """Return the two norms of the learner's module, twice the same if it has but one, or raise `Unreadable`."""
    if any(norm.weight is None or norm.bias is None for norm in held):
        said = "A norm of yours has no weight or no bias. Make it with nn.LayerNorm(hidden_size)."
        raise Unreadable(said, "layer_without_weights")
    if len(held) == 1:
        return held * 2
    names = ("attention_norm", "feed_forward_norm")
    for name in names:
        if not isinstance(getattr(module, name, None), nn.LayerNorm):
            raise Unreadable(
                f"Your class needs an nn.LayerNorm named `{name}`, and has none.", "layer_missing"
            )
    return [getattr(module, name) for name in names]


def two_answers(module, x):
    """Return a sentence if the module gives two answers to the same input, else None."""
    ran = run_attempt(module, [(x,), (x,)])
    try:
        answers = [output_and_weights(result)["output"] for _, result in ran.results]
    except Exception:  # `judge` says what it is
        return None
    if len(answers) < 2 or answers[0].shape != answers[1].shape or torch.allclose(*answers, equal_nan=True):
        return None
    differs = what_differs({"output": answers[1]}, {"output": answers[0]})
    return f"Called twice in eval mode, it gives two answers. {differs}"


def peer_answer(peer, norms, x):
    """Return what nn.TransformerEncoderLayer computes with the learner's norms."""
    with torch.no_grad():
        for theirs, mine in zip((peer.norm1, peer.norm2), norms, strict=True):
            theirs.weight.copy_(mine.weight)
            theirs.bias.copy_(mine.bias)
            theirs.eps = mine.eps
        return {"output": peer(x)}


def post(norm, part, x):
    """BERT's order: the norm stands behind the addition."""
    return norm(x + part(x))


def pre(norm, part, x):
    return x + part(norm(x))


def inside(norm, part, x):
    return x + norm(part(x))


def first_alone(norm, part, x):
    return norm(x) + part(x)


def both_alone(norm, part, x):
    return norm(x) + norm(part(x))


def sandwich(norm, part, x):
    return x + norm(part(norm(x)))


def from_normed(norm, part, x):
    return norm(x) + part(norm(x))


def twice(norm, part, x):
    return norm(x + norm(part(x)))


def post_alone(norm, part, x):
    """BERT's order, without the residual connection."""
    return norm(part(x))


def pre_alone(norm, part, x):
    return part(norm(x))


def bare(norm, part, x):
    """The residual connection alone, without a norm."""
    return x + part(x)


def norm_alone(norm, part, x):
    """The norm alone, without the part."""
    return norm(x)


def nothing(norm, part, x):
    return x


def wrong_layers(parts, norms):
    """Return what misconceptions of an encoder layer would compute with these parts and norms.

    Each is an order for attention, one for the feed-forward part, and which norms they use.
    """
    attention, feed_forward = parts
    first, second = norms

    def like(one, other, norm_1=first, norm_2=second, part_1=attention, part_2=feed_forward):
        def compute(x):
            with torch.no_grad():
                return {"output": other(norm_2, part_2, one(norm_1, part_1, x))}

        return compute

    def again(second_sum):
        """Compute the second half from the layer's input and what the first half gave."""

        def compute(x):
            with torch.no_grad():
                return {"output": second(second_sum(x, post(first, attention, x)))}

        return compute

    orders = (pre, inside, post)
    wrong_orders = [(one, other) for one in orders for other in orders if (one, other) != (post, post)]
    turned = {"part_1": feed_forward, "part_2": attention}
    return {
        "one_norm_shared": [
            like(post, post, first, first),
            like(post, post, second, second),
            like(pre, pre, first, first),
        ],
        "missing_residual": [
            like(post_alone, post_alone),
            like(post, post_alone),
            like(post_alone, post),
            like(pre_alone, pre_alone),
            like(pre_alone, pre),
            like(pre, pre_alone),
        ],
        "norms_exchanged": [like(post, post, second, first)],
        "norm_missing": [like(bare, bare), like(bare, post), like(post, bare)],
        "parts_exchanged": [like(post, post, **turned), like(post, post, second, first, **turned)],
        "part_missing": [
            like(one, other)
            for one, other in ((post, nothing), (nothing, post), (post, norm_alone), (norm_alone, post))
        ]
        + [like(post, post, part_2=attention), like(post, post, part_1=feed_forward)],
        "input_read_again": [
            again(lambda x, h: x + feed_forward(h)),
            again(lambda x, h: h + feed_forward(x)),
        ],
        "norm_order": [
            *(like(*order) for order in wrong_orders),
            *(like(order, order) for order in (first_alone, both_alone, sandwich, from_normed, twice)),
        ],
    }


def what_drops_wrongly(module, parts, norms, x):
    """Return a sentence and a name if dropout does not strike as it should in train mode, else None.

    Dropout is random, but it can only keep or drop each number of a token: of all these ways one must fit, in each of
    the two places. The first shows in what the second part is given, the other in the output.
    """
    ran = run_attempt(module, [(x,)])
    if not ran.results:
        return why_not_run(ran), None
    output = output_and_weights(ran.results[0][1])["output"]
    seen = f"In train mode, with a dropout of {RATE}, this happens around `{{}}`."
    if not torch.allclose(parts[0].given, x):
        return seen.format("attention"), "dropout_on_input"
    with torch.no_grad():
        attended, changed = (part.function(part.given) for part in parts)
        whole = norms[0](x + attended)
    if found := how_it_drops(norms[0], x, attended, parts[1].given):
        # what the second part was given may be dropped alone, beside a residual connection that is whole
        beside = how_it_drops(norms[1], whole, changed, output)
        if found == "dropout_after_norm" and beside in (None, "dropout_missing"):
            return seen.format("feed_forward"), "dropout_on_input"
        return seen.format("attention"), found
    found = how_it_drops(norms[1], parts[1].given, changed, output)
    return (seen.format("feed_forward"), found) if found else None


def how_it_drops(norm, x, branch, result):
    """Return what dropout does at a norm, given the residual connection and the branch; None if it is right.

    Each way of dropping is tried for each token: `kept` is (ways, 1, 1, hidden_size), of 0 and 1.
    """
    kept = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * x.shape[-1])[:, None, None]
    grown = 1 / (1 - RATE)

    def share_kept(made):
        """Return the share of numbers that were kept, if each token is as one of the ways makes it, else None."""
        same = torch.isclose(made.double(), result.double(), rtol=1e-4, atol=2e-5).all(
            dim=-1
        )  # (ways, batch, seq)
        return kept[same.int().argmax(dim=0)].mean().item() if same.any(dim=0).all() else None

    with torch.no_grad():
        if share_kept(norm(x + branch)[None]) is not None:
            return "dropout_missing"
        share = share_kept(norm(x + kept * branch * grown))
        if share is not None:  # of 192 numbers; its standard deviation is 0.03
            return None if abs(share - (1 - RATE)) < 0.15 else "dropout_rate_ignored"
        ways = [
            ("dropout_on_sum", norm(kept * (x + branch) * grown)),
            ("dropout_after_norm", kept * norm(x + branch) * grown),
            # unscaled, and at 0.5, 0.1 and the opposite of the rate
            *(
                ("dropout_rate_ignored", norm(x + kept * branch * scale))
                for scale in (1, 2, 1 / 0.9, 1 / RATE)
            ),
        ]
        return next((name for name, made in ways if share_kept(made) is not None), "elsewhere")
