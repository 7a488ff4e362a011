"""The encoder: a layer's parts, the layer, embeddings and the stack.

From small to large: attention and a `FeedForward` make an `EncoderLayer`. `Embeddings` and a stack of layers
make an `Encoder`, and a linear layer on top a `SequenceClassifier`. `Encoder.from_bert` takes the weights of
a BERT of transformers.

`config` is transformers' `BertConfig` or any object with the fields in `guards.CONFIG_FIELDS`.

The modules use `nn.LayerNorm`. It gives the numbers of `layer_norm`, the formula written out, in one pass
over the memory instead of seven.
"""

from typing import NamedTuple

import torch
from torch import nn

from .attention import LayerAttention, padding_mask
from .compare import twin_weights
from .guards import (
    require_attention_mask,
    require_bert,
    require_config,
    require_input_ids,
    require_size,
    require_token_type_ids,
    require_weights,
)
from .positions import RelativeAttention, RotaryAttention, position_table

# --------------------------------------------------------------------------------------- the parts of a layer


def layer_norm(hidden_state, weight, bias, eps):
    """Return each token's vector with mean 0 and variance 1, then scaled by `weight` and shifted by `bias`.

    `(x - mean) / √(variance + eps) · weight + bias`: equation 4 of Ba et al. 2016. Shapes: hidden_state
    (..., hidden_size), weight and bias (hidden_size,); the shape stays. `eps` keeps the root away from 0.
    """
    mean = hidden_state.mean(dim=-1, keepdim=True)  # (..., 1)
    variance = hidden_state.var(dim=-1, keepdim=True, correction=0)  # (..., 1), divided by n, not by n - 1
    return (hidden_state - mean) / torch.sqrt(variance + eps) * weight + bias


class FeedForward(nn.Module):
    """Two linear layers with a GELU between them, for each token alone: section 3.3 of Vaswani et al. 2017.

    `forward(hidden_state)` takes and returns (..., hidden_size). The GELU is the exact one, `x · Φ(x)`.
    Dropout comes last, as in BERT. Raises `TypeError` or `ValueError` for a config that lacks fields.
    """

    def __init__(self, config):
        super().__init__()
        require_config(config)
        self.expand = nn.Linear(config.hidden_size, config.intermediate_size)
        self.gelu = nn.GELU()
        self.contract = nn.Linear(config.intermediate_size, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_state):
        inner = self.gelu(self.expand(hidden_state))  # (..., intermediate_size)
        return self.dropout(self.contract(inner))  # (..., hidden_size)


class EncoderLayer(nn.Module):
    """Attention, then a feed-forward network; around each a residual connection and a layer norm.

    `norm_first` says where the norms stand. False: on the sum of input and output (post-norm: Vaswani et al.
    2017, and BERT). True: on the input alone, so that the residual path stays free (pre-norm: Xiong et al.
    2020).

    `forward(hidden_state, mask=None)` takes hidden_state (batch, seq, hidden_size) and a mask as
    `MultiHeadAttention` does. Returns output (batch, seq, hidden_size) and attn_weights (batch, heads, query,
    key). `attention_class` makes the attention, from the config alone. Raises what its parts raise.
    """

    def __init__(self, config, norm_first=False, attention_class=LayerAttention):
        super().__init__()
        require_config(config)
        self.norm_first = norm_first
        self.attention = attention_class(config)
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_state, mask=None):
        if self.norm_first:
            attended, attn_weights = self.attention(self.attention_norm(hidden_state), mask)
            hidden_state = hidden_state + self.dropout(attended)
            return hidden_state + self.feed_forward(self.feed_forward_norm(hidden_state)), attn_weights
        attended, attn_weights = self.attention(hidden_state, mask)
        hidden_state = self.attention_norm(hidden_state + self.dropout(attended))
        return self.feed_forward_norm(hidden_state + self.feed_forward(hidden_state)), attn_weights


# -------------------------------------------------------------------------------------------------- the whole


class Embeddings(nn.Module):
    """The sum of three vectors a token, for its id, its segment and
    its position; then layer norm and dropout.

    `forward(input_ids, token_type_ids=None)` takes two tensors (batch, seq) of whole numbers; without
    token_type_ids every token is in segment 0. Returns (batch, seq, hidden_size).

    Raises `TypeError` or `ValueError` for a config that lacks fields, an unknown name of a position scheme,
    ids or segments out of range, more tokens than positions, and shapes that do not fit.
    """

    def __init__(self, config, positions="learned"):
        super().__init__()
        require_config(config)
        self.token = nn.Embedding(config.vocab_size, config.hidden_size)
        self.segment = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.position = position_table(config, positions)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids, token_type_ids=None):
        require_input_ids(input_ids, self)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        require_token_type_ids(token_type_ids, input_ids, self.segment)
        embedded = self.token(input_ids) + self.segment(token_type_ids)  # (batch, seq, hidden_size)
        if self.position is not None:
            embedded = embedded + self.position.weight[: input_ids.shape[1]]
        return self.dropout(self.norm(embedded))


class EncoderOutput(NamedTuple):
    """What an `Encoder` returns, under the names that transformers uses."""

    last_hidden_state: torch.Tensor  # (batch, seq, hidden_size)
    hidden_states: tuple  # the embeddings, then the output of each layer: each (batch, seq, hidden_size)
    attentions: tuple  # the weights of each layer: each (batch, heads, query, key)


class Encoder(nn.Module):
    """Embeddings and a stack of layers: BERT without its pooler
    (Devlin et al. 2019), if nothing else is asked.

    `positions` says how a token knows its place: "learned" (BERT), "sinusoidal", "relative", "rotary", or
    None for not at all. With `norm_first` a norm stands after the last layer too, as no other would.

    `forward(input_ids, token_type_ids=None, attention_mask=None)` takes what a tokenizer returns, each
    (batch, seq). Returns an `EncoderOutput`.

    A sequence that is padding only gets attention weights of 0; the BERT of transformers (eager) spreads
    them.

    Raises `TypeError` or `ValueError` for a config that lacks fields, and for ids, segments and masks that do
    not fit it or one another.
    """

    def __init__(self, config, norm_first=False, positions="learned"):
        super().__init__()
        require_config(config)
        attention = {"relative": RelativeAttention, "rotary": RotaryAttention}.get(positions, LayerAttention)
        layers = [EncoderLayer(config, norm_first, attention) for _ in range(config.num_hidden_layers)]
        self.embeddings = Embeddings(config, positions)
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps) if norm_first else nn.Identity()

    @classmethod
    def from_bert(cls, model):
        """Return the twin of a `BertModel`: an encoder that computes the same, with the same weights.

        It shares the memory of the weights: nothing is copied, and training one trains both. (In BERT the
        vector of [PAD] has no gradient, by `padding_idx`; in the twin it has one.) `copy.deepcopy` makes a
        twin of its own. It is in train or eval mode as the model is.

        Raises `TypeError` or `ValueError` for anything but a BERT encoder with finite weights, all of which
        find their place; the pooler (`pooler.dense`) alone is left.
        """
        require_bert(model)
        with torch.device("meta"):  # shapes without numbers: these come from BERT
            encoder = cls(model.config)
        weights = twin_weights(model)
        require_weights(weights, encoder)
        encoder.load_state_dict(weights, assign=True)
        return encoder.train(model.training)

    def forward(self, input_ids, token_type_ids=None, attention_mask=None):
        hidden_state = self.embeddings(input_ids, token_type_ids)  # (batch, seq, hidden_size)
        mask = encoder_mask(attention_mask, input_ids)
        hidden_states, attentions = [hidden_state], []
        for layer in self.layers:
            hidden_state, attn_weights = layer(hidden_state, mask)
            hidden_states.append(hidden_state)
            attentions.append(attn_weights)
        hidden_states[-1] = self.norm(hidden_state)
        return EncoderOutput(hidden_states[-1], tuple(hidden_states), tuple(attentions))


def encoder_mask(attention_mask, input_ids):
    """Return a tokenizer's attention_mask, (batch, seq), as (batch, 1, 1, key); None if nothing is masked."""
    if attention_mask is None:
        return None
    require_attention_mask(attention_mask, input_ids)
    mask = padding_mask(attention_mask)  # (batch, 1, 1, key)
    return None if mask.all() else mask  # such a mask changes nothing, but costs time in every layer


class SequenceClassifier(nn.Module):
    """An encoder, then dropout and a linear layer on the hidden state of the first token, [CLS].

    `forward(input_ids, token_type_ids=None, attention_mask=None)` returns a score for each label, before
    softmax: (batch, num_labels). BERT's own classifier has a further layer between, the pooler.
    """

    def __init__(self, config, num_labels):
        super().__init__()
        require_size("num_labels", num_labels)
        self.encoder = Encoder(config)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, num_labels)

    def forward(self, input_ids, token_type_ids=None, attention_mask=None):
        hidden_state = self.encoder(input_ids, token_type_ids, attention_mask).last_hidden_state
        cls_state = hidden_state[:, 0]  # (batch, hidden_size)
        return self.classifier(self.dropout(cls_state))  # (batch, num_labels)
