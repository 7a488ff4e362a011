"""The checks of notebook 02: softmax, attention without a mask, one head of a model."""

import math

import torch
import torch.nn.functional as F

from .answers import alone
from .judge import judge, safely
from .shared import fill_weights, made_numbers, plain_trials, right_attention, wrong_attention


@safely
def check_softmax(attempt):
    """Check `attempt(attn_scores)`: weights over the keys, (batch, query, key). Peer: torch.softmax."""
    large = torch.tensor([[[0.0, 200.0, 100.0], [1.0, 2.0, 3.0]]])
    trials = [(made_numbers(2, 4, 3),), (made_numbers(3, 2, 5, start=4),), (large,)]

    def answer(weights):
        return {"row weights": weights}

    def right(scores):
        return answer(torch.softmax(scores, dim=-1))

    def overflow(scores):
        powers = scores.exp()
        if not powers.isinf().any():
            raise ValueError("nothing is too large")
        return answer(powers / powers.sum(dim=-1, keepdim=True))

    mistakes = {
        "softmax_over_queries": [lambda s: answer(s.softmax(dim=-2))],
        "softmax_over_batch": [lambda s: answer(s.softmax(dim=0))],
        "one_sum_for_all": [
            lambda s: answer(s.exp() / s.exp().sum()),
            lambda s: answer(s.flatten().softmax(dim=0).reshape(s.shape)),
        ],
        "no_exponential": [
            lambda s: answer(s / s.sum(dim=-1, keepdim=True)),
            lambda s: answer(s.abs() / s.abs().sum(dim=-1, keepdim=True)),
        ],
        "overflow_on_large_scores": [overflow],
    }
    return judge("softmax", attempt, trials, right, mistakes, alone("row weights"))


@safely
def check_attention(attempt):
    """Check `attempt(query, key, value)`: the output, alone or with the weights. No mask.

    The shapes are (..., query, head_dim), (..., key, head_dim) and (..., key, width), with no leading axis, one or
    two. Peer: F.scaled_dot_product_attention.
    """
    return judge("attention", attempt, plain_trials(), right_attention, wrong_attention())


@safely
def check_weights_of_head(attempt):
    """Check `attempt(hidden_state, layer, head)`: one head's weights, (batch, query, key). Peer: transformers.

    `layer` is the `BertSelfAttention` of a small model with made-up weights: `layer.query` and `layer.key` are
    linear layers, `layer.num_attention_heads` counts the heads. `head` is counted from 0.
    """
    hidden_state, layer, attentions = small_bert()

    def right(hidden_state, layer, head):
        return {"head's weights": attentions[:, head]}

    def like(numbers_of=lambda head: slice(2 * head, 2 * head + 2), divisor=2, bias=True):
        def compute(hidden_state, layer, head):
            layers = (layer.query, layer.key)
            parts = [F.linear(hidden_state, p.weight, p.bias if bias else None) for p in layers]
            query, key = (part[..., numbers_of(head)] for part in parts)
            if query.shape[-1] != 2:
                raise ValueError("there is no such head")
            return {"head's weights": (query @ key.mT / math.sqrt(divisor)).softmax(dim=-1).detach()}

        return compute

    mistakes = {
        "head_counted_from_one": [
            like(lambda head: slice(2 * head - 2, 2 * head)),
            like(lambda head: slice(2 * head + 2, 2 * head + 4)),
            like(lambda head: slice(2 * head - 2, 2 * head if head else None)),  # head -1 is the last one
        ],
        "every_nth_number": [like(lambda head: slice(head, None, 3))],
        "bias_forgotten": [like(bias=False)],
        "scaled_by_hidden_size": [like(divisor=6)],
        "no_scaling": [like(divisor=1)],
    }
    trials = [(hidden_state, layer, head) for head in (1, 0, 2)]
    return judge("weights_of_head", attempt, trials, right, mistakes, alone("head's weights"))


def small_bert():
    """Return of a BERT with one layer of three heads: what goes into the layer, the layer, and its attentions.

    The first is (batch, seq, hidden_size), the last (batch, heads, query, key).
    """
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=11, hidden_size=6, num_hidden_layers=1, num_attention_heads=3, intermediate_size=4
    )
    config._attn_implementation = "eager"
    model = fill_weights(BertModel(config, add_pooling_layer=False)).eval()
    ids = torch.tensor([[3, 1, 4, 1], [5, 9, 2, 6]])
    with torch.no_grad():
        outputs = model(ids, output_attentions=True, output_hidden_states=True)
    return outputs.hidden_states[0], model.encoder.layer[0].attention.self, outputs.attentions[0]
