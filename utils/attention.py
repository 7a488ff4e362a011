"""Scaled dot-product attention, its masks and its heads.

From small to large: `attention_scores` and `masked_softmax` make `scaled_dot_product_attention`. With three
projections it is an `AttentionHead`. Several of them are a `MultiHeadAttentionList`, and computed all at once
they are `MultiHeadAttention`. `LayerAttention` is what a layer of BERT holds.

Masks are bool or 0/1, and True or 1 means: may be attended to. `convert_mask` knows the other conventions.

The rule for a row with everything masked: its weights are all 0, so its output is 0, and no gradient flows
through it. `F.scaled_dot_product_attention` does the same with a bool mask. `nn.MultiheadAttention` gives NaN
when it returns weights, and the BERT of transformers (eager) spreads the weight evenly over the masked keys.
"""

import math
from types import MethodType

import torch
import torch.nn.functional as F
from torch import nn

from .guards import (
    require_config,
    require_convention,
    require_head_axis,
    require_heads,
    require_hidden_state,
    require_mask,
    require_mask_values,
    require_packed,
    require_padding_shape,
    require_qkv,
    require_size,
)

# -------------------------------------------------------------------------------------------------- attention


def attention_scores(query, key):
    """Return how well each query matches each key: `Q Kᵀ / √head_dim`, before softmax.

    Shapes: query (..., query, head_dim), key (..., key, head_dim); the scores are (..., query, key).
    """
    # Scaling the query keeps the scores within float16's range, and costs less for long texts.
    query = query / math.sqrt(query.shape[-1])
    return query @ key.transpose(-2, -1)  # (..., query, key)


def masked_softmax(attn_scores, mask=None):
    """Return the softmax of each row over the keys that the mask allows; all other weights are exactly 0.

    Shapes: scores and weights (..., query, key). The mask is bool or 0/1, broadcasts to them, and 1 means:
    may be attended to. Each row sums to 1, but for a row with everything masked: its weights are all 0.

    Raises `TypeError` or `ValueError` if the mask does not fit (`require_mask`).
    """
    if mask is None:
        return attn_scores.softmax(dim=-1)
    require_mask(mask, attn_scores)
    blocked = mask == 0
    empty = blocked.all(dim=-1, keepdim=True)  # (..., query, 1): the rows that may attend to nothing
    # Softmax of a row of -inf only is NaN, and so is its gradient: an empty row keeps its scores until then.
    attn_weights = attn_scores.masked_fill(blocked & ~empty, -math.inf).softmax(dim=-1)
    return attn_weights.masked_fill(empty, 0.0) if empty.any() else attn_weights


def scaled_dot_product_attention(query, key, value, mask=None):
    """Return `softmax(Q Kᵀ / √head_dim) V` and its weights: equation 1 of Vaswani et al. 2017.

    Shapes: query (..., query, head_dim), key (..., key, head_dim), value (..., key, width), with equal
    leading axes. The mask is bool or 0/1, broadcasts to (..., query, key), and 1 means: may be attended to.

    Returns `(output, attn_weights)`, of the shapes (..., query, width) and (..., query, key).
    A query with every key masked gets weights of 0 and an output of 0.

    Raises `TypeError` or `ValueError` if the tensors do not fit together (`require_qkv`), or the mask does
    not fit them (`require_mask`).
    """
    require_qkv(query, key, value)
    attn_scores = attention_scores(query, key)  # (..., query, key)
    attn_weights = masked_softmax(attn_scores, mask)
    return attn_weights @ value, attn_weights  # output (..., query, width)


# ------------------------------------------------------------------------------------------------------ masks


def causal_mask(seq_len):
    """Return the lower triangle, (query, key) of bool: a token may attend to itself and to those before it.

    Raises `TypeError` or `ValueError` if `seq_len` is no whole number from 0 up.
    """
    require_size("seq_len", seq_len, smallest=0)
    return torch.ones(seq_len, seq_len, dtype=torch.bool).tril()


def padding_mask(attention_mask):
    """Return a tokenizer's attention_mask, (batch, key), as (batch, 1, 1, key) of bool.

    So it broadcasts over heads and queries. With the other kind: `padding_mask(m) & causal_mask(seq_len)`.

    Raises `TypeError` or `ValueError` if the mask has not two axes, or is not of 0 and 1.
    """
    require_mask_values(attention_mask, "attention_mask")
    require_padding_shape(attention_mask)
    return attention_mask[:, None, None, :] == 1  # (batch, 1, 1, key)


def convert_mask(mask, source, target, dtype=torch.float32):
    """Return a mask of the convention `source` in the convention `target`. Its shape stays.

    | name        | may be attended to | masked              | who speaks it                                 |
    |-------------|--------------------|---------------------|-----------------------------------------------|
    | "tokenizer" | 1                  | 0                   | a tokenizer's attention_mask (int64)          |
    | "keep"      | True               | False               | `F.scaled_dot_product_attention`, this course |
    | "ignore"    | False              | True                | `nn.MultiheadAttention`                       |
    | "additive"  | 0.0                | the dtype's minimum | transformers, inside: added to the scores     |

    `dtype` is for the target "additive" alone. As a source, it may also hold -inf or any number below -1000.

    Raises `TypeError` or `ValueError` if a name is unknown, or the mask is not of the convention `source`.
    """
    require_convention(mask, source, target, dtype)
    keep = mask == 1 if source in ("tokenizer", "keep") else mask == 0
    if target == "tokenizer":
        return keep.long()
    if target == "keep":
        return keep
    if target == "ignore":
        return ~keep
    # The minimum, not -inf: softmax of a row of -inf only is NaN.
    return torch.zeros_like(keep, dtype=dtype).masked_fill(~keep, torch.finfo(dtype).min)


# ------------------------------------------------------------------------------------------------------ heads


class AttentionHead(nn.Module):
    """One head: three projections from hidden_size down to head_dim, then attention.

    `forward(hidden_state, mask=None, memory=None)` takes hidden_state (..., query, hidden_size). Keys and
    values come from memory (..., key, hidden_size), which is the hidden_state itself unless given
    (cross-attention). The mask broadcasts to (..., query, key).

    Returns output (..., query, head_dim) and attn_weights (..., query, key).

    Raises `TypeError` or `ValueError` for sizes below 1 (`require_size`), for inputs that do not fit the
    projections (`require_hidden_state`), and for a mask that does not fit the scores (`require_mask`).
    """

    def __init__(self, hidden_size, head_dim):
        super().__init__()
        require_size("hidden_size", hidden_size)
        require_size("head_dim", head_dim)
        self.query = nn.Linear(hidden_size, head_dim)
        self.key = nn.Linear(hidden_size, head_dim)
        self.value = nn.Linear(hidden_size, head_dim)

    def forward(self, hidden_state, mask=None, memory=None):
        memory = hidden_state if memory is None else memory
        require_hidden_state(hidden_state, memory, self.query)
        query = self.query(hidden_state)  # (..., query, head_dim)
        key = self.key(memory)  # (..., key, head_dim)
        value = self.value(memory)  # (..., key, head_dim)
        return scaled_dot_product_attention(query, key, value, mask)


class MultiHeadAttentionList(nn.Module):
    """Multi-head attention as a list of heads, one after the other: easy to read, slow to run.

    Takes, returns and raises what `MultiHeadAttention` does; `weights_of_list` carries its weights there.
    """

    def __init__(self, hidden_size, num_heads):
        super().__init__()
        require_heads(hidden_size, num_heads)
        head_dim = hidden_size // num_heads
        self.heads = nn.ModuleList(AttentionHead(hidden_size, head_dim) for _ in range(num_heads))
        self.output = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_state, mask=None, memory=None):
        memory = hidden_state if memory is None else memory
        require_hidden_state(hidden_state, memory, self.output, batched=True)
        masks = split_mask(mask, len(self.heads))
        results = [head(hidden_state, m, memory) for head, m in zip(self.heads, masks, strict=True)]
        outputs, attn_weights = zip(*results, strict=True)
        output = torch.cat(outputs, dim=-1)  # (batch, query, hidden_size)
        return self.output(output), torch.stack(attn_weights, dim=1)  # (batch, heads, query, key)


def split_mask(mask, num_heads):
    """Return a list with one mask a head, from a mask that broadcasts to (batch, heads, query, key).

    Raises `TypeError` or `ValueError` if it is no mask, or its axis of heads is not 1 or `num_heads` long.
    """
    require_head_axis(mask, num_heads)
    if mask is None or mask.dim() < 3:
        return [mask] * num_heads
    return mask.expand(*mask.shape[:-3], num_heads, -1, -1).unbind(dim=-3)  # each (batch, query, key)


def split_heads(projected, num_heads):
    """Return (batch, seq, hidden_size) cut into heads: (batch, heads, seq, head_dim). No number is copied."""
    batch, seq_len, hidden_size = projected.shape
    head_dim = hidden_size // num_heads
    per_head = projected.view(batch, seq_len, num_heads, head_dim)  # (batch, seq, heads, head_dim)
    return per_head.transpose(1, 2)  # (batch, heads, seq, head_dim)


def merge_heads(per_head):
    """Return (batch, heads, seq, head_dim) with its heads side by side again: (batch, seq, hidden_size)."""
    batch, num_heads, seq_len, head_dim = per_head.shape
    per_head = per_head.transpose(1, 2)  # (batch, seq, heads, head_dim)
    return per_head.reshape(batch, seq_len, num_heads * head_dim)  # (batch, seq, hidden_size)


class MultiHeadAttention(nn.Module):
    """Multi-head attention, all heads at once: section 3.2.2 of Vaswani et al. 2017, with biases as in BERT.

    `forward(hidden_state, mask=None, memory=None)` takes hidden_state (batch, query, hidden_size). Keys and
    values come from memory (batch, key, hidden_size), which is the hidden_state itself unless given
    (cross-attention). The mask is bool or 0/1, broadcasts to (batch, heads, query, key), and 1 means: may be
    attended to. A mask of two axes is read as (query, key): give a tokenizer's through `padding_mask`.

    Returns output (batch, query, hidden_size) and attn_weights (batch, heads, query, key).

    Raises `TypeError` or `ValueError` if hidden_size cannot be divided among the heads (`require_heads`), the
    inputs do not fit the projections (`require_hidden_state`), or the mask not the scores (`require_mask`).
    """

    def __init__(self, hidden_size, num_heads):
        super().__init__()
        require_heads(hidden_size, num_heads)
        self.num_heads = num_heads
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.output = nn.Linear(hidden_size, hidden_size)

    def project(self, hidden_state, memory):
        """Return query (batch, heads, query, head_dim), key and value (batch, heads, key, head_dim)."""
        query = split_heads(self.query(hidden_state), self.num_heads)  # (batch, heads, query, head_dim)
        key = split_heads(self.key(memory), self.num_heads)  # (batch, heads, key, head_dim)
        value = split_heads(self.value(memory), self.num_heads)  # (batch, heads, key, head_dim)
        return query, key, value

    def attend(self, query, key, value, mask):
        """Return output (batch, heads, query, head_dim) and attn_weights: the step that variants replace."""
        return scaled_dot_product_attention(query, key, value, mask)

    def forward(self, hidden_state, mask=None, memory=None):
        memory = hidden_state if memory is None else memory
        require_hidden_state(hidden_state, memory, self.query, batched=True)
        query, key, value = self.project(hidden_state, memory)
        output, attn_weights = self.attend(query, key, value, mask)
        return self.output(merge_heads(output)), attn_weights  # output (batch, query, hidden_size)


class LayerAttention(MultiHeadAttention):
    """Multi-head attention as a layer of BERT has it: in train
    mode, dropout sets some attention weights to 0.

    Takes, returns and raises what `MultiHeadAttention` does. In train mode the weights it returns are those
    after dropout, as in transformers. A scheme of positions replaces `project` or `position_bias`.
    """

    def __init__(self, config):
        require_config(config)
        super().__init__(config.hidden_size, config.num_attention_heads)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def position_bias(self, query_len, key_len):
        """Return what is added to the scores, (heads, query, key), or None for nothing."""
        return None

    def attend(self, query, key, value, mask):
        bias = self.position_bias(query.shape[-2], key.shape[-2])
        attn_scores = query @ key.transpose(-2, -1)  # (batch, heads, query, key)
        # Scaled after the product, as BERT does, not before it as in `attention_scores`: in float32 the two
        # are rounded differently, which after six layers makes more than 1e-5.
        attn_scores *= query.shape[-1] ** -0.5
        if bias is not None:
            attn_scores = attn_scores + bias
        attn_weights = self.dropout(masked_softmax(attn_scores, mask))
        return attn_weights @ value, attn_weights  # output (batch, heads, query, head_dim)


# ---------------------------------------------------------------------------------------------- the fast path


def fused_attention(query, key, value, mask=None, bias=None, dropout=0.0):
    """Return the output of attention, (batch, heads, query, head_dim), and no weights.

    The mask is bool or 0/1, and 1 means: may be attended to. The bias, (heads, query, key), is added to the
    scores. `F.scaled_dot_product_attention` works tile by tile: Dao et al. 2022.
    """
    if mask is not None:
        like_scores = query[..., :1].expand(*query.shape[:-1], key.shape[-2])  # (batch, heads, query, key)
        require_mask(mask, like_scores)
        mask = (mask == 1).expand_as(like_scores)  # no number is copied
        if bias is not None:  # the kernel takes one of the two, so -inf in the bias says: masked
            bias = torch.where(mask, bias, -math.inf)  # (batch, heads, query, key)
    attn_mask = mask if bias is None else bias
    return F.scaled_dot_product_attention(query, key, value, attn_mask=attn_mask, dropout_p=dropout)


class FusedAttention(LayerAttention):
    """`LayerAttention` by `fused_attention`: faster, with less memory on
    long inputs, and None in place of weights."""

    def attend(self, query, key, value, mask):
        bias = self.position_bias(query.shape[-2], key.shape[-2])
        dropout = self.dropout.p if self.training else 0.0
        return fused_attention(query, key, value, mask, bias, dropout), None


def use_fused_attention(module, fused=True):
    """Return `module`, in which every `LayerAttention` now attends as
    `FusedAttention` does, or again by hand."""
    for part in module.modules():
        if isinstance(part, LayerAttention):
            vars(part).pop("attend", None)  # that of the class is back
            if fused:
                part.attend = MethodType(FusedAttention.attend, part)
    return module


# ---------------------------------------------- the weights of others, for MultiHeadAttention.load_state_dict


def weights_of_list(attention):
    """Return the weights of a `MultiHeadAttentionList` as `MultiHeadAttention` names and shapes them."""
    weights = {"output.weight": attention.output.weight, "output.bias": attention.output.bias}
    for name in ("query", "key", "value"):
        parts = [getattr(head, name) for head in attention.heads]
        weights[f"{name}.weight"] = torch.cat([part.weight for part in parts])  # (hidden_size, hidden_size)
        weights[f"{name}.bias"] = torch.cat([part.bias for part in parts])  # (hidden_size,)
    return weights


def weights_of_torch(attention):
    """Return the weights of an `nn.MultiheadAttention` as `MultiHeadAttention` names and shapes them.

    Raises `ValueError` if it has no biases, or takes keys and values of another width.
    """
    require_packed(attention)
    weights = {"output.weight": attention.out_proj.weight, "output.bias": attention.out_proj.bias}
    names = ("query.weight", "key.weight", "value.weight")
    weights |= zip(names, attention.in_proj_weight.chunk(3), strict=True)  # each (hidden_size, hidden_size)
    names = ("query.bias", "key.bias", "value.bias")
    weights |= zip(names, attention.in_proj_bias.chunk(3), strict=True)  # each (hidden_size,)
    return weights


def weights_of_bert(attention):
    """Return the weights of a BERT layer of transformers as `MultiHeadAttention` names and shapes them.

    `attention` is `model.encoder.layer[i].attention`. The layer norm that BERT keeps in there is left out.
    """
    layers = {"query": attention.self.query, "key": attention.self.key, "value": attention.self.value}
    layers["output"] = attention.output.dense
    return {f"{name}.{part}": w for name, layer in layers.items() for part, w in layer.named_parameters()}
