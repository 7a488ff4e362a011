"""The exercises of notebook 02: softmax, attention without a mask, one head of a model."""

import math

import torch
import torch.nn.functional as F

from .answers import alone
from .exercise import Exercise
from .shared import (  # noqa: F401  # as_stored: for an edit
    as_stored,
    fill_weights,
    made_numbers,
    overflowed,
    plain_trials,
)


def softmax(attn_scores):
    largest = attn_scores.amax(dim=-1, keepdim=True)  # (batch, query, 1)
    powers = (attn_scores - largest).exp()
    sums = powers.sum(dim=-1, keepdim=True)  # (batch, query, 1)
    return powers / sums


LARGE = [[[0.0, 200.0, 100.0], [1.0, 2.0, 3.0]]]
SMALL = [[[-1000.0, -1000.0, -999.0], [0.0, 1.0, -1.0], [-1000.0, -1.0, 0.0], [900.0, 900.0, 899.0]]]


def softmax_trials():
    # In the third a sum without keepdim runs, and divides by the sums of other rows.
    shapes = [made_numbers(2, 4, 3), made_numbers(3, 2, 5, start=4), made_numbers(3, 3, 3, start=2)]
    return [(scores,) for scores in (*shapes, torch.tensor(LARGE), torch.tensor(SMALL))]


def level(inputs, answer):
    """Say whether scores of 200 and 100 get equal weights."""
    weights = answer["table of weights"]
    return inputs[0].tolist() == LARGE and weights[0, 0, 1] == weights[0, 0, 2] > 0.4


def lost_rows(inputs, answer):
    """Say whether rows of large scores are lost."""
    weights = answer["table of weights"]
    return inputs[0].abs().max() > 100 and overflowed(weights, torch.softmax(inputs[0], dim=-1))


check_softmax = Exercise(
    softmax,
    softmax_trials,
    alone("table of weights"),
    {"scores_cut_off": level, "overflow_on_large_scores": lost_rows},
    library=["softmax", "Softmax", "log_softmax", "softmin"],
)


def attention(query, key, value):
    attn_scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (..., query, key)
    attn_weights = attn_scores.softmax(dim=-1)
    return attn_weights @ value, attn_weights


def lost_queries(inputs, answer):
    """Say whether the output of queries with large scores is lost."""
    query, key, value = inputs
    return query.abs().max() > 10 and overflowed(
        answer["output"], F.scaled_dot_product_attention(query, key, value)
    )


check_attention = Exercise(
    attention,
    plain_trials,
    signs={"overflow_on_large_scores": lost_queries},
    library=["scaled_dot_product_attention"],
)


def weights_of_head(hidden_state, layer, head):
    head_dim = layer.query.out_features // layer.num_attention_heads
    part = slice(head * head_dim, (head + 1) * head_dim)
    query = layer.query(hidden_state)[..., part]  # (batch, query, head_dim)
    key = layer.key(hidden_state)[..., part]  # (batch, key, head_dim)
    attn_scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    attn_weights = attn_scores.softmax(dim=-1)
    return attn_weights


def small_bert():
    """Return a BERT with one layer of five heads, and what goes into the layer. No two of its sizes are equal."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=11, hidden_size=15, num_hidden_layers=1, num_attention_heads=5, intermediate_size=4
    )
    config._attn_implementation = "eager"
    model = fill_weights(BertModel(config, add_pooling_layer=False)).eval()
    ids = torch.tensor([[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 5, 8, 9, 7]])
    with torch.no_grad():
        return model, model(ids, output_hidden_states=True).hidden_states[0]


def weights_of_head_trials():
    model, hidden_state = small_bert()
    layer = model.encoder.layer[0].attention.self
    return [(hidden_state, layer, head) for head in (2, 1, 0, 3)] + [(hidden_state[:1], layer, 3)]


check_weights_of_head = Exercise(weights_of_head, weights_of_head_trials, alone("head's weights"))
