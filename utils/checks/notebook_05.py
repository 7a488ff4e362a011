"""The checks of notebook 05: layer normalisation, positions, a layer of the encoder."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .answers import Unreadable, alone, read_tensor, what_differs
from .judge import judge, refused, run_attempt, safely
from .shared import built, fill_weights, made_numbers


@safely
def check_layer_norm(attempt):
    """Check `attempt(hidden_state, weight, bias, eps)`: the shape stays. Peer: F.layer_norm."""
    weight, bias = made_numbers(4, start=5) + 0.5, made_numbers(4, start=9)
    trials = [
        (made_numbers(2, 4, 4), weight, bias, 1e-5),
        (made_numbers(3, 4, start=2) / 4, weight, bias, 0.5),
    ]

    def like(axis=-1, correction=0, root=lambda v, eps: torch.sqrt(v + eps), scale=True, shift=True):
        def compute(x, weight, bias, eps):
            mean = x.mean(dim=axis, keepdim=True)
            result = (x - mean) / root(x.var(dim=axis, keepdim=True, correction=correction), eps)
            return {"result": result * (weight if scale else 1) + (bias if shift else 0)}

        return compute

    mistakes = {
        "wrong_axis": [like(axis=axis) for axis in (0, 1, -2, (0, 1), (-2, -1), (0, 1, 2))],
        "unbiased_variance": [like(correction=1)],
        "epsilon_outside_root": [like(root=lambda v, eps: torch.sqrt(v) + eps)],
        "no_scale_and_shift": [like(scale=False, shift=False), like(scale=False), like(shift=False)],
    }

    def right(x, weight, bias, eps):
        return {"result": F.layer_norm(x, x.shape[-1:], weight, bias, eps)}

    return judge("layer_norm", attempt, trials, right, mistakes, alone("result"))


# ------------------------------------------------------------------------------------------------- positions


@safely
def check_position_encoding(attempt):
    """Check `attempt(token_vectors)`: (batch, seq, hidden_size) plus the sinusoidal position of each token.

    The right numbers are worked out one by one from section 3.5 of Vaswani et al. 2017, counting from position 0.
    """
    trials = [(made_numbers(2, 5, 6),), (made_numbers(1, 7, 4, start=6),)]

    def added(table, **changed):
        return lambda x: {"result": x + table(x, **changed)}

    mistakes = {
        "not_interleaved": [
            added(half_by_half),
            added(half_by_half, first=1),
            added(positions, turns=(math.sin, math.sin)),
            added(positions, turns=(math.cos, math.sin)),
        ],
        "degrees_or_missing_frequency": [
            added(positions, unit=math.pi / 180),
            added(positions, unit=180 / math.pi),
            added(positions, speed=lambda place, size: 1.0),
            added(positions, speed=lambda place, size: 1 / 10000),
            added(positions, speed=lambda place, size: 10000 ** (-place / size)),
        ],
        "positions_from_one": [added(positions, start=1)],
        "not_added": [lambda x: {"result": positions(x)}, lambda x: {"result": positions(x).expand(x.shape)}],
    }
    signs = {"depends_on_token": depends_on_token}
    return judge("position_encoding", attempt, trials, added(positions), mistakes, alone("result"), signs)


def speed_of_pair(place, size):
    """Return how fast the angle at this place of the vector grows; both places of a pair share one speed."""
    return 10000 ** (-2 * (place // 2) / size)


def positions(x, unit=1.0, speed=speed_of_pair, start=0, turns=(math.sin, math.cos)):
    """Return the positions (seq, hidden_size) for x (batch, seq, hidden_size), right but for what is given."""
    _, seq, size = x.shape
    return torch.tensor(
        [[turns[i % 2](unit * (p + start) * speed(i, size)) for i in range(size)] for p in range(seq)]
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
    peer = nn.TransformerEncoderLayer(hidden_size, 2, 8, 0.5, "gelu", batch_first=True)
    peer = fill_weights(peer).eval().requires_grad_(False)
    parts = (
        Part(lambda x: peer.self_attn(x, x, x, need_weights=False)[0]),
        Part(lambda x: peer.linear2(F.gelu(peer.linear1(x)))),
    )
    module = built(attempt, *parts, hidden_size, 0.5)
    norms = norms_of(module)
    shared = norms[0] is norms[1]

    def right(x):
        return peer_answer(peer, norms, x)

    def unknown(x):
        return {"output": torch.full(x.shape, math.nan)}

    trials = [(made_numbers(2, 3, hidden_size) / 2,), (made_numbers(1, 4, hidden_size, start=3),)]
    if seen := two_answers(module, *trials[0]):
        return refused(exercise, seen, "dropout_in_eval")
    mistakes = wrong_layers(parts, norms)
    if not shared:
        return judge(exercise, attempt, trials, right, mistakes, call=module)
    # No answer is right then. But the output may tell whether this is the only mistake.
    only = {"one_norm_shared": mistakes["one_norm_shared"]}
    verdict = judge(exercise, attempt, trials, unknown, only, call=module)
    held = sum(isinstance(part, nn.LayerNorm) for part in module.modules())
    seen = f"Your class holds {held} norm where a layer has two."
    return verdict if "raised" in verdict.message else refused(exercise, seen, verdict.misconception)


class Part(nn.Module):
    """A part of a layer that is handed to a learner's class: it returns one tensor."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, hidden_state):
        return self.function(hidden_state)


def norms_of(module):
    """Return the two norms of the learner's module, twice the same if it has but one, or raise `Unreadable`."""
    held = [part for part in module.modules() if isinstance(part, nn.LayerNorm)]
    if len(held) == 1:
        return held * 2
    names = ("attention_norm", "feed_forward_norm")
    for name in names:
        if not isinstance(getattr(module, name, None), nn.LayerNorm):
            raise Unreadable(f"Your class needs an nn.LayerNorm named `{name}`, and has none.")
    return [getattr(module, name) for name in names]


def two_answers(module, x):
    """Return a sentence if the module gives two answers to the same input, else None."""
    ran = run_attempt(module, [(x,), (x,)])
    answers = [read_tensor(result) for _, result in ran.results if isinstance(result, torch.Tensor)]
    if len(answers) < 2 or answers[0].shape != answers[1].shape or torch.allclose(*answers):
        return None
    differs = what_differs({"output": answers[1]}, {"output": answers[0]})
    return f"Called twice in eval mode, it gives two answers. {differs}"


def peer_answer(peer, norms, x):
    """Return what nn.TransformerEncoderLayer computes with the learner's norms."""
    with torch.no_grad():
        for theirs, mine in zip((peer.norm1, peer.norm2), norms, strict=True):
            theirs.weight.copy_(mine.weight)
            theirs.bias.copy_(mine.bias)
        return {"output": peer(x)}


def post(norm, part, x):
    """BERT's order: the norm stands behind the addition."""
    return norm(x + part(x))


def pre(norm, part, x):
    return x + part(norm(x))


def inside(norm, part, x):
    return x + norm(part(x))


def post_alone(norm, part, x):
    """BERT's order, without the residual connection."""
    return norm(part(x))


def pre_alone(norm, part, x):
    return part(norm(x))


def wrong_layers(parts, norms):
    """Return what misconceptions of an encoder layer would compute with these parts and norms.

    Each is an order for attention, one for the feed-forward part, and which norms they use.
    """
    attention, feed_forward = parts
    first, second = norms

    def like(one, other, norm_1=first, norm_2=second):
        def compute(x):
            with torch.no_grad():
                return {"output": other(norm_2, feed_forward, one(norm_1, attention, x))}

        return compute

    orders = (pre, inside, post)
    wrong_orders = [(one, other) for one in orders for other in orders if (one, other) != (post, post)]
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
        ],
        "norm_order": [*(like(*order) for order in wrong_orders), like(post, post, second, first)],
    }
