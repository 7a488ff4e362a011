"""The decoder, an encoder-decoder made of the course's own parts, and how it writes.

From small to large: masked self-attention, attention to the encoder's output and a feed-forward network make
a `DecoderLayer`. Embeddings and a stack of layers make a `Decoder`. With an `Encoder` in front and a linear
layer behind it is an `EncoderDecoder`. `greedy_decode` lets it write, one token after another.

`config` is transformers' `BertConfig` or any object with the fields in `guards.CONFIG_FIELDS`. Encoder and
decoder share it, and no weight.
"""

from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import torch
from torch import nn

from .attention import LayerAttention, causal_mask, split_heads
from .encoder import Embeddings, Encoder, FeedForward, encoder_mask
from .guards import (
    require_batches,
    require_config,
    require_eval_mode,
    require_input_ids,
    require_max_new_tokens,
    require_no_cache,
    require_same_memory,
)

PAD, START, END = 0, 1, 2  # the ids that every vocabulary of these models begins with


# -------------------------------------------------------------------------------------------------- the model


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the encoder's output, a feed-forward network: Vaswani et al. 2017.

    Around each of the three stand a residual connection and a layer norm, placed by `norm_first` as in an
    `EncoderLayer`. The two attentions have weights of their own. The second takes its queries from the
    decoder, and its keys and values from `memory`: what the *last* layer of the encoder puts out.

    `forward(hidden_state, memory, mask=None, memory_mask=None)` takes hidden_state (batch, query,
    hidden_size) and memory (batch, key, hidden_size). The masks are bool or 0/1, and 1 means: may be attended
    to. `mask` belongs to the self-attention and broadcasts to (batch, heads, query, query), `memory_mask` to
    the cross-attention and broadcasts to (batch, heads, query, key).

    Returns output (batch, query, hidden_size), and the weights of the self-attention, (batch, heads, query,
    query), and of the cross-attention, (batch, heads, query, key). Raises what its parts raise.
    """

    def __init__(self, config, norm_first=False):
        super().__init__()
        require_config(config)
        self.norm_first = norm_first
        self.self_attention = LayerAttention(config)
        self.self_attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.cross_attention = LayerAttention(config)
        self.cross_attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_state, memory, mask=None, memory_mask=None):
        if self.norm_first:
            attended, self_weights = self.self_attention(self.self_attention_norm(hidden_state), mask)
            hidden_state = hidden_state + self.dropout(attended)
            query_state = self.cross_attention_norm(hidden_state)
            attended, cross_weights = self.cross_attention(query_state, memory_mask, memory)
            hidden_state = hidden_state + self.dropout(attended)
            output = hidden_state + self.feed_forward(self.feed_forward_norm(hidden_state))
            return output, self_weights, cross_weights
        attended, self_weights = self.self_attention(hidden_state, mask)
        hidden_state = self.self_attention_norm(hidden_state + self.dropout(attended))
        attended, cross_weights = self.cross_attention(hidden_state, memory_mask, memory)
        hidden_state = self.cross_attention_norm(hidden_state + self.dropout(attended))
        output = self.feed_forward_norm(hidden_state + self.feed_forward(hidden_state))
        return output, self_weights, cross_weights


class DecoderOutput(NamedTuple):
    """What a `Decoder` returns."""

    last_hidden_state: torch.Tensor  # (batch, query, hidden_size)
    decoder_attentions: tuple  # of each layer: (batch, heads, query, query)
    cross_attentions: tuple  # of each layer: (batch, heads, query, key)


class Decoder(nn.Module):
    """Embeddings and a stack of decoder layers. With `norm_first` a norm stands after the last one too.

    `forward(target_ids, memory, memory_mask=None)` takes target_ids (batch, query), memory (batch, key,
    hidden_size) and a memory_mask as `padding_mask` makes it, (batch, 1, 1, key). Returns a `DecoderOutput`.

    The causal mask is made here. Pads behind a target need no mask besides: no token before them may look at
    them.

    Raises `TypeError` or `ValueError` for a config that lacks fields, ids that it has no vector for, more
    tokens than positions, a memory that does not fit, and inside a `key_value_cache`.
    """

    def __init__(self, config, norm_first=False):
        super().__init__()
        require_config(config)
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(DecoderLayer(config, norm_first) for _ in range(config.num_hidden_layers))
        self.norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps) if norm_first else nn.Identity()

    def forward(self, target_ids, memory, memory_mask=None):
        require_no_cache(self)
        require_input_ids(target_ids, self.embeddings, "target_ids")
        hidden_state = self.embeddings(target_ids)  # (batch, query, hidden_size)
        mask = causal_mask(target_ids.shape[1]).to(target_ids.device)
        return self.run_layers(hidden_state, memory, mask, memory_mask)

    def run_layers(self, hidden_state, memory, mask=None, memory_mask=None):
        """Return a `DecoderOutput` for tokens that are embedded already, (batch, query, hidden_size)."""
        decoder_attentions, cross_attentions = [], []
        for layer in self.layers:
            hidden_state, self_weights, cross_weights = layer(hidden_state, memory, mask, memory_mask)
            decoder_attentions.append(self_weights)
            cross_attentions.append(cross_weights)
        return DecoderOutput(self.norm(hidden_state), tuple(decoder_attentions), tuple(cross_attentions))


class EncoderDecoderOutput(NamedTuple):
    """What an `EncoderDecoder` returns, under the names that transformers uses."""

    logits: torch.Tensor  # (batch, query, vocab_size): the scores of each next token, before softmax
    encoder_attentions: tuple  # of each layer: (batch, heads, key, key), the source's attention to itself
    decoder_attentions: tuple  # of each layer: (batch, heads, query, query)
    cross_attentions: tuple  # of each layer: (batch, heads, query, key)


class EncoderDecoder(nn.Module):
    """An `Encoder` reads the source, a `Decoder` writes the target: the Transformer of Vaswani et al. 2017.

    `forward(source_ids, target_ids, source_mask=None)` takes source_ids (batch, key), target_ids (batch,
    query) and source_mask (batch, key), which is what a tokenizer calls attention_mask. Returns an
    `EncoderDecoderOutput`. Its logits at place i are about token i + 1, and know of tokens 0 to i only.

    Raises `TypeError` or `ValueError` for a config that lacks fields, ids outside the vocabulary, more tokens
    than positions, a source and a target of unequal batches, and a mask that does not fit.
    """

    def __init__(self, config, norm_first=False):
        super().__init__()
        self.encoder = Encoder(config, norm_first)
        self.decoder = Decoder(config, norm_first)
        self.to_vocabulary = nn.Linear(config.hidden_size, config.vocab_size)

    def encode(self, source_ids, source_mask=None):
        """Return the `EncoderOutput` of a source, and its mask in the shape that cross-attention takes."""
        require_input_ids(source_ids, self.encoder.embeddings, "source_ids")
        encoded = self.encoder(source_ids, attention_mask=source_mask)
        return encoded, encoder_mask(source_mask, source_ids)  # mask (batch, 1, 1, key)

    def forward(self, source_ids, target_ids, source_mask=None):
        require_batches(source_ids, target_ids)
        encoded, memory_mask = self.encode(source_ids, source_mask)
        decoded = self.decoder(target_ids, encoded.last_hidden_state, memory_mask)
        logits = self.to_vocabulary(decoded.last_hidden_state)  # (batch, query, vocab_size)
        attentions = encoded.attentions, decoded.decoder_attentions, decoded.cross_attentions
        return EncoderDecoderOutput(logits, *attentions)


# ----------------------------------------------------------------------------------------------- the decoding


@contextmanager
def key_value_cache(decoder):
    """Let the decoder's attentions keep their keys and values in this `with` block, and compute none twice.

    No token may look at a newer one, so what was computed for it stays as it is, and the memory stays too. It
    is enough to run the layers on the newest token, by `run_layers`. The decoder as a whole is refused here:
    its embeddings would count positions from 0 at each call. One block is for one batch of one memory.

    It replaces `project` of each attention, the step that makes queries, keys and values. Raises `ValueError`
    if the decoder is in such a block already.
    """
    require_no_cache(decoder)
    for layer in decoder.layers:
        layer.self_attention.project = ProjectNew(layer.self_attention)
        layer.cross_attention.project = ProjectOnce(layer.cross_attention)
    try:
        yield
    finally:
        for layer in decoder.layers:
            del layer.self_attention.project, layer.cross_attention.project  # that of the class is back


class ProjectNew:
    """A `project` for self-attention: keys and values of new tokens come behind those made before."""

    def __init__(self, attention):
        self.project, self.key, self.value = attention.project, None, None

    def __call__(self, hidden_state, memory):
        query, key, value = self.project(hidden_state, memory)  # each (batch, heads, new, head_dim)
        if self.key is not None:
            key, value = torch.cat([self.key, key], dim=2), torch.cat([self.value, value], dim=2)
        self.key, self.value = key, value  # (batch, heads, all so far, head_dim)
        return query, key, value


class ProjectOnce:
    """A `project` for cross-attention: keys and values of the memory are made at the first call only."""

    def __init__(self, attention):
        self.attention, self.project, self.key = attention, attention.project, None

    def __call__(self, hidden_state, memory):
        if self.key is None:
            _, self.key, self.value = self.project(hidden_state, memory)
        require_same_memory(self, memory)
        query = split_heads(self.attention.query(hidden_state), self.attention.num_heads)
        return query, self.key, self.value


class Decoded(NamedTuple):
    """What `greedy_decode` returns."""

    target_ids: torch.Tensor  # (batch, 1 + steps): [START], then what was written; behind [END] only [PAD]
    logits: torch.Tensor  # (batch, steps, vocab_size): the scores that each token was chosen by


@torch.no_grad()
def greedy_decode(model, source_ids, source_mask=None, max_new_tokens=None, use_cache=True):
    """Let an `EncoderDecoder` write targets: the likeliest next token each time, until each has its [END].

    Takes source_ids (batch, key) and source_mask (batch, key). At most max_new_tokens are written, by default
    as many as there are positions. Returns `Decoded`, the same with `key_value_cache` and without.

    Raises `TypeError` or `ValueError` if the model is in train mode, ids or mask do not fit, or
    max_new_tokens is more than the positions.
    """
    require_eval_mode(model)
    positions = model.decoder.embeddings.position.num_embeddings
    require_max_new_tokens(max_new_tokens, positions)
    limit = positions if max_new_tokens is None else max_new_tokens
    encoded, memory_mask = model.encode(source_ids, source_mask)
    target_ids = torch.full_like(source_ids[:, :1], START)  # (batch, 1)
    ended, steps = target_ids[:, 0] == END, []  # (batch,): none has
    with key_value_cache(model.decoder) if use_cache else nullcontext():
        while len(steps) < limit and not ended.all():
            logits = next_logits(model, target_ids, encoded.last_hidden_state, memory_mask, use_cache)
            next_ids = logits.argmax(dim=-1).masked_fill(ended, PAD)  # (batch,)
            target_ids = torch.cat([target_ids, next_ids[:, None]], dim=1)  # (batch, 1 + steps)
            ended = ended | (next_ids == END)
            steps.append(logits)
    return Decoded(target_ids, torch.stack(steps, dim=1))


def next_logits(model, target_ids, memory, memory_mask, use_cache):
    """Return the scores of the token that follows target_ids, (batch, vocab_size).

    With `use_cache` only the newest token goes through the layers. It may attend to all, so no mask is
    needed.
    """
    if use_cache:
        newest = model.decoder.embeddings(target_ids)[:, -1:]  # (batch, 1, hidden_size)
        decoded = model.decoder.run_layers(newest, memory, memory_mask=memory_mask)
    else:
        decoded = model.decoder(target_ids, memory, memory_mask)
    return model.to_vocabulary(decoded.last_hidden_state[:, -1])  # (batch, vocab_size)
