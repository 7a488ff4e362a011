"""The exercises of notebook 02: softmax, attention without a mask, one head of a model."""

import math

import torch
import torch.nn.functional as F  # noqa: F401  # for edits

from .answers import alone
from .exercise import Exercise
from .modules import changed  # noqa: F401  # for an edit
from .shared import fill_weights, made_numbers, plain_trials


def softmax(attn_scores):
    largest = attn_scores.amax(dim=-1, keepdim=True)  # (batch, query, 1)
    powers = (attn_scores - largest).exp()
    sums = powers.sum(dim=-1, keepdim=True)  # (batch, query, 1)
    return powers / sums


LARGE = [[[0.0, 200.0, 100.0], [1.0, 2.0, 3.0]]]
SMALL = [[[-1000.0, -1000.0, -999.0], [0.0, 1.0, -1.0], [-1000.0, -1.0, 0.0], [900.0, 900.0, 899.0]]]

UNEQUAL = [[[0.0, 1.0, 2.0]], [[200.0, 199.0, 198.0]]]  # one text has far larger scores


def softmax_trials():
    # In the third a sum without keepdim runs, and divides by the sums of other rows.
    shapes = [made_numbers(2, 4, 3), made_numbers(3, 2, 5, start=4), made_numbers(3, 3, 3, start=2)]
    return [(scores,) for scores in (*shapes, *map(torch.tensor, (LARGE, SMALL, UNEQUAL)))]


check_softmax = Exercise(
    softmax,
    softmax_trials,
    alone("table of weights"),
    {  # 200 and 100 get the same weight
        "scores_cut_off": lambda inputs, answer: (
            inputs[0].tolist() == LARGE
            and (row := answer["table of weights"][0, 0])[1] == row[2]
            and 0.4 < row[1] < 0.6
        )
    },
    library=["softmax", "Softmax", "log_softmax", "softmin"],
)


def attention(query, key, value):
    attn_scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (..., query, key)
    attn_weights = attn_scores.softmax(dim=-1)
    return attn_weights @ value, attn_weights


check_attention = Exercise(attention, plain_trials, library=["scaled_dot_product_attention"])


def weights_of_head(hidden_state, layer, head):
    head_dim = layer.query.out_features // layer.num_attention_heads
    part = slice(head * head_dim, (head + 1) * head_dim)
    query = layer.query(hidden_state)[..., part]  # (batch, query, head_dim)
    key = layer.key(hidden_state)[..., part]  # (batch, key, head_dim)
    attn_scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    attn_weights = attn_scores.softmax(dim=-1)
    return attn_weights


def weights_of_head_trials():
    from transformers import BertConfig, BertModel

    sizes = {"vocab_size": 11, "hidden_size": 15, "num_attention_heads": 5, "intermediate_size": 4}
    config = BertConfig(num_hidden_layers=1, attn_implementation="eager", **sizes)  # no two sizes are equal
    layer = fill_weights(BertModel(config, add_pooling_layer=False)).eval().encoder.layer[0].attention.self
    hidden_state = made_numbers(2, 7, 15)
    return [(hidden_state, layer, head) for head in (2, 1, 0, 3)] + [(hidden_state[:1], layer, 3)]


check_weights_of_head = Exercise(weights_of_head, weights_of_head_trials, alone("head's weights"))
