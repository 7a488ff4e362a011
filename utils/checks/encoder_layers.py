"""What the check of an encoder layer computes: its peer, what misconceptions would give, and where dropout strikes."""

import itertools

import torch
from torch import nn

from .answers import Unreadable, close, output_and_weights, what_differs
from .running import run_attempt, why_not_run

RATE = 0.25  # of dropout: none that a learner would write down, so that a fixed one shows


class Part(nn.Module):
    """A part of a layer that is handed to a learner's class: it returns one tensor, and keeps what it was given."""

    def __init__(self, function):
        super().__init__()
        self.function, self.given = function, None

    def forward(self, hidden_state):
        self.given = hidden_state.detach().clone()
        return self.function(hidden_state.float()).to(hidden_state.dtype)


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
            again(lambda x, h: x + h + feed_forward(h)),
            again(lambda x, h: x + attention(x) + feed_forward(x)),
            again(lambda x, h: h + feed_forward(x + attention(x))),
            again(lambda x, h: x + attention(x) + feed_forward(h)),
        ],
        "residual_changed": [
            *(
                like(*(lambda n, p, x, f=f: n(f(x, p(x))) for f in pair))
                for pair in itertools.product(
                    (
                        lambda x, y: x + y,
                        lambda x, y: x - y,
                        lambda x, y: 2 * x + y,
                        lambda x, y: x + 2 * y,
                        lambda x, y: x * y,
                        lambda x, y: y - x,
                    ),
                    repeat=2,
                )
            ),
        ][1:],
        "something_twice": [
            like(lambda n, p, x: n(x + p(p(x))), post),
            like(post, lambda n, p, x: n(x + p(p(x)))),
            like(lambda n, p, x: n(n(x + p(x))), post),
            like(post, lambda n, p, x: n(n(x + p(x)))),
            like(lambda n, p, x: post(n, p, post(n, p, x)), post),
            like(post, lambda n, p, x: post(n, p, post(n, p, x))),
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
    seen = f"Your layer ran in train mode, with a dropout of {RATE}. This is about the part `{{}}`."
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
        same = close(made, result).all(dim=-1)  # (ways, batch, seq)
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
