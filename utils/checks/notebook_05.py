"""The exercises of notebook 05: a norm folded into the next layer, positions moved, a layer of the encoder."""

import math  # noqa: F401  # for edits
from collections import namedtuple

import torch
from torch import nn

from .answers import Unreadable, agrees, alone, output_and_weights, parts_of, what_differs
from .exercise import Exercise
from .modules import ModuleExercise, apart
from .shared import made_numbers


def fold_norm(norm_weight, norm_bias, weight, bias):
    folded_weight = weight * norm_weight  # each column times its own number
    folded_bias = bias + weight @ norm_bias
    return folded_weight, folded_bias


class FoldExercise(Exercise):
    """A norm's result has the mean 0: what is added to a whole row of the weight changes nothing, and is right too."""

    def close(self, inputs, mine, expected):
        """Say whether bias and weight are right, the weight but for what is added to whole rows."""
        rows = [
            one | {"weight": one["weight"] - one["weight"].mean(-1, keepdim=True)} for one in (mine, expected)
        ]
        return mine["weight"].shape == expected["weight"].shape and agrees(*rows)


def fold_norm_trials():
    # Numbers that come out and that go in. What takes rows for columns runs once.
    shapes = [[(n,), (n,), (m, n), (m,)] for m, n in ((4, 4), (3, 5), (5, 2))]
    return [tuple(made_numbers(*shape, start=i) for i, shape in enumerate(four, *four[0])) for four in shapes]


check_fold_norm = FoldExercise(fold_norm, fold_norm_trials, parts_of("weight", "bias"))


def move_positions(positions, steps):
    hidden_size = positions.shape[-1]
    speed = 10000.0 ** (-torch.arange(0, hidden_size, 2) / hidden_size)  # (hidden_size / 2,)
    angle = steps * speed
    sine, cosine = positions[:, 0::2], positions[:, 1::2]  # (seq, hidden_size / 2)
    later_sine = sine * angle.cos() + cosine * angle.sin()
    later_cosine = cosine * angle.cos() - sine * angle.sin()
    later = torch.stack([later_sine, later_cosine], dim=-1)  # (seq, hidden_size / 2, 2)
    return later.flatten(1)


def sinusoidal(places, width):
    """Return the vectors of these places, (seq, width): section 3.5 of Vaswani et al. 2017. For trials and edits."""
    angles = torch.as_tensor(places)[:, None].double() / 10000 ** (torch.arange(0, width, 2) / width).double()
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()


class MoveExercise(Exercise):
    """Positions: of very large angles 32 bits know too little."""

    def says_something(self, name, inputs):
        """Say whether a trial can show a mistake: turned too fast, only few angles are known."""
        few = inputs[0].shape[-1] == 4 and abs(inputs[1]) < 9
        return few or name not in ("degrees", "speed_upside_down")


def move_positions_trials():
    # In the first the places are 0, 1, 2, …; so large a step as in the last shows a base that is nearly right.
    cases = [(range(5), 6, 2), ((9, 0, 4, 30), 4, 3), ((6, 2, 11, 17), 4, -2), ((3, 40, 8), 4, 200)]
    return [(sinusoidal(places, width), steps) for places, width, steps in cases]


check_move_positions = MoveExercise(move_positions, move_positions_trials, alone("result"))


class EncoderLayer(nn.Module):
    def __init__(self, attention, feed_forward, hidden_size, dropout):
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_norm = nn.LayerNorm(hidden_size)
        self.feed_forward_norm = nn.LayerNorm(hidden_size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden_state):
        attended = self.dropout(self.attention(hidden_state))
        collected = self.attention_norm(hidden_state + attended)
        changed = self.dropout(self.feed_forward(collected))
        return self.feed_forward_norm(collected + changed)


def halves(layer, x, first, second=None, turned=False):
    """Run both halves as formulas say, of n, the norm, p, the part, d, dropout, and x: for edits."""
    pairs = [(layer.attention_norm, layer.attention), (layer.feed_forward_norm, layer.feed_forward)]
    torch.manual_seed(0)  # as if nothing had been drawn before
    for formula, (n, p) in zip((first, second or first), pairs[::-1] if turned else pairs, strict=True):
        x = eval(formula, {"n": n, "p": p, "d": layer.dropout, "x": x})
    return x


class Part(nn.Module):
    """A part of a layer that is handed to a learner's class. It has no weights of its own."""

    def __init__(self, forward):
        super().__init__()
        self.forward = forward


def mixed(x):
    """Attention that gives each token something of all tokens."""
    scores = (x @ x.mT / 2 + made_numbers(x.shape[1], x.shape[1]).to(x)).softmax(dim=-1)
    return scores @ x.roll(1, dims=-1) * made_numbers(x.shape[-1], start=3).to(x)


def few_numbers(places, way):
    """A part that writes into these places of a token only, so that a dropout has but few results."""
    return lambda x: torch.tensor(places).to(x) * (x @ torch.tensor(way).to(x))[..., None]


RATE, MANY = 0.4, 6000  # of dropout: none that a learner would write down; and equal tokens
Calls = namedtuple("Calls", "first second training")  # what came back, also for the same input again
NORMS = "attention_norm", "feed_forward_norm"
ALONE = Part(lambda x: torch.tanh(x @ made_numbers(x.shape[-1], x.shape[-1], start=5).to(x)) * 2 - 0.5)
WHOLE = Part(mixed), ALONE, 6, RATE
DROPPED = (
    Part(few_numbers([0, 1, 0.8], [0.9, -0.4, 0.3])),
    Part(few_numbers([0, 0, 1], [0.5, 0.6, -0.8])),
    3,
    RATE,
)
KINDS = f"table of the different results in train mode, of {MANY:,} equal tokens"


class LayerExercise(ModuleExercise):
    """A layer with dropout: some trials run in train mode. There all tokens are equal, and kinds of results count."""

    def call(self, layer, hidden_state):
        """Run the layer, twice in eval mode."""
        training = hidden_state.shape[-1] == 3
        first = layer.train(training)(hidden_state)
        return Calls(first, first if training else layer(hidden_state), training)

    def close(self, inputs, mine, expected):
        """Say whether an answer is the expected one: in train mode the same kinds of results, and the most frequent."""
        if KINDS not in mine.keys() | expected.keys():
            return agrees(mine, expected)
        if mine.keys() != expected.keys():
            return False
        apart = torch.cdist(mine[KINDS], expected[KINDS])
        often = (mine["most frequent result"] - expected["most frequent result"]).abs().max()
        return bool(max(apart.amin(dim=0).max(), apart.amin(dim=1).max(), often) < 1e-3)

    def fill(self, module, state):
        """Put a learner's weights in, and the eps of the norms, which is no weight."""
        super().fill(module, state)
        for name in NORMS:
            if f"{name}.eps" in state:
                getattr(module, name).eps = state[f"{name}.eps"].item()

    def says_something(self, name, inputs):
        """Say whether a trial can show a mistake: in train mode only those of dropout, which it alone can show."""
        return name.startswith("dropout") == (inputs[1].shape[-1] == 3)


def read_layer(raw):
    """Read an output, or of equal tokens in train mode its different rows."""
    first, second, training = raw if isinstance(raw, Calls) else Calls(raw, raw, False)
    answer = {"output": output_and_weights(first)["output"]}
    if training and answer["output"].dim() > 1:
        kinds, counts = answer["output"].flatten(0, -2).round(decimals=4).unique(dim=0, return_counts=True)
        often, kinds = kinds[counts.argmax()], kinds[:200]
        new = [i for i, kind in enumerate(kinds) if not (kinds[:i] - kind).abs().amax(-1).lt(1e-3).any()]
        return {KINDS: kinds[new], "most frequent result": often}
    again = {"output": output_and_weights(second)["output"]}
    if answer["output"].shape == again["output"].shape and not agrees(again, answer):
        differs = what_differs(again, answer)
        raise Unreadable(f"Called twice in eval mode, it gives two answers. {differs}", "dropout_in_eval")
    return answer


def two_norms(module, attention, feed_forward, hidden_size, dropout):
    """Return the weights of a learner's norms, by the solution's names; those of one alone by one name."""
    held = {name: norm for name, norm in module.named_modules() if isinstance(norm, nn.LayerNorm)}
    apart(module, NORMS, "one_norm_shared")
    if (seen := len({attention, feed_forward} & {*module.modules()})) < 2:
        raise Unreadable(
            f"Of the 2 parts that your class is given, PyTorch finds {seen}.", "parts_in_plain_list"
        )
    if not held:
        raise Unreadable("Your class holds 0 norms (nn.LayerNorm) where a layer has two.", "norm_missing")
    if any(norm.weight is None or norm.bias is None for norm in held.values()):
        said = "A norm of yours has no weight or no bias. Make it with nn.LayerNorm(hidden_size)."
        raise Unreadable(said, "layer_without_weights")
    if sizes := {norm.normalized_shape for norm in held.values()} - {(hidden_size,)}:
        said = f"A norm of yours has the size {list(*sizes)}; a token has {hidden_size} numbers."
        raise Unreadable(said, "layer_of_another_size")
    if (eps := max(norm.eps for norm in held.values())) > 1.1e-5:
        raise Unreadable(f"A norm of yours has an eps of {eps:.2g}.", "norm_eps")
    if len(held) == 1:
        ((name, norm),) = held.items()
        held = {name if name in NORMS else NORMS[0]: norm}
    elif missing := next((name for name in NORMS if name not in held), None):
        said = f"Your class needs an nn.LayerNorm named `{missing}`, and has none."
        raise Unreadable(said, "layer_missing")
    state = {name: held[name].state_dict() for name in NORMS if name in held}
    for name, parts in state.items():
        parts["eps"] = torch.tensor(held[name].eps, dtype=torch.float64)
    return {f"{name}.{part}": weight for name, parts in state.items() for part, weight in parts.items()}


def encoder_layer_trials():
    wide, long = made_numbers(2, 3, 6) / 2, made_numbers(1, 6, 4, start=3).mT  # the second is not contiguous
    return [(WHOLE, wide), (WHOLE, long), (DROPPED, made_numbers(1, 1, 3, start=4).expand(1, MANY, 3))]


check_encoder_layer = LayerExercise(EncoderLayer, encoder_layer_trials, two_norms, read_layer)
