"""Scaled dot-product attention, its masks and its heads.

From small to large: `attention_scores` and `masked_softmax` make `scaled_dot_product_attention`. With three
projections it is an `AttentionHead`. Several of them are a `MultiHeadAttentionList`, and computed all at once
they are `MultiHeadAttention`.

Masks are bool or 0/1, and True or 1 means: may be attended to. `convert_mask` knows the other conventions.

The rule for a row with everything masked: its weights are all 0, so its output is 0, and no gradient flows
through it. `F.scaled_dot_product_attention` does the same with a bool mask. `nn.MultiheadAttention` gives NaN
when it returns weights, and the BERT of transformers (eager) spreads the weight evenly over the masked keys.
"""

import math

import torch
from torch import nn

# ------------------------------------------------------------------------------------------------ attention


def attention_scores(query, key):
    """Return how well each query matches each key: `Q Kᵀ / √head_dim`, before softmax.

    Shapes: query (..., query, head_dim), key (..., key, head_dim); the scores are (..., query, key).
    """
    # Scaling the query costs less than scaling the scores, and keeps them within float16's range.
    query = query / math.sqrt(query.shape[-1])
    return query @ key.transpose(-2, -1)  # (..., query, key)


def masked_softmax(attn_scores, mask=None):
    """Return the softmax of each row over the keys that the mask allows; all other weights are exactly 0.

    Shapes: scores and weights (..., query, key). The mask is bool or 0/1, broadcasts to them, and 1 means:
    may be attended to. Each row sums to 1, but for a row with everything masked: its weights are all 0.

    Raises `TypeError` or `ValueError` if the mask does not fit (`check_mask`).
    """
    if mask is None:
        return attn_scores.softmax(dim=-1)
    check_mask(mask, attn_scores)
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

    Raises `TypeError` or `ValueError` if the tensors do not fit together (`check_qkv`), or the mask does not
    fit them (`check_mask`).
    """
    check_qkv(query, key, value)
    attn_scores = attention_scores(query, key)  # (..., query, key)
    attn_weights = masked_softmax(attn_scores, mask)
    return attn_weights @ value, attn_weights  # output (..., query, width)


# ---------------------------------------------------------------------------------------------------- masks


def causal_mask(seq_len):
    """Return the lower triangle, (query, key) of bool: a token may attend to itself and to those before it.

    Raises `TypeError` or `ValueError` if `seq_len` is no whole number from 0 up.
    """
    check_size("seq_len", seq_len, smallest=0)
    return torch.ones(seq_len, seq_len, dtype=torch.bool).tril()


def padding_mask(attention_mask):
    """Return a tokenizer's attention_mask, (batch, key), as (batch, 1, 1, key) of bool.

    So it broadcasts over heads and queries. With the other kind: `padding_mask(m) & causal_mask(seq_len)`.

    Raises `TypeError` or `ValueError` if the mask has not two axes, or is not of 0 and 1.
    """
    check_mask_values(attention_mask, "attention_mask")
    check_padding_shape(attention_mask)
    return attention_mask[:, None, None, :] == 1  # (batch, 1, 1, key)


MASK_CONVENTIONS = ("tokenizer", "keep", "ignore", "additive")


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
    check_convention(mask, source, target, dtype)
    keep = mask == 1 if source in ("tokenizer", "keep") else mask == 0
    if target == "tokenizer":
        return keep.long()
    if target == "keep":
        return keep
    if target == "ignore":
        return ~keep
    # The minimum, not -inf: softmax of a row of -inf only is NaN.
    return torch.zeros_like(keep, dtype=dtype).masked_fill(~keep, torch.finfo(dtype).min)


# ---------------------------------------------------------------------------------------------------- heads


class AttentionHead(nn.Module):
    """One head: three projections from hidden_size down to head_dim, then attention.

    `forward(hidden_state, mask=None, memory=None)` takes hidden_state (..., query, hidden_size). Keys and
    values come from memory (..., key, hidden_size), which is the hidden_state itself unless given
    (cross-attention). The mask broadcasts to (..., query, key).

    Returns output (..., query, head_dim) and attn_weights (..., query, key).

    Raises `TypeError` or `ValueError` for sizes below 1 (`check_size`), for inputs that do not fit the
    projections (`check_hidden_state`), and for a mask that does not fit the scores (`check_mask`).
    """

    def __init__(self, hidden_size, head_dim):
        super().__init__()
        check_size("hidden_size", hidden_size)
        check_size("head_dim", head_dim)
        self.query = nn.Linear(hidden_size, head_dim)
        self.key = nn.Linear(hidden_size, head_dim)
        self.value = nn.Linear(hidden_size, head_dim)

    def forward(self, hidden_state, mask=None, memory=None):
        memory = hidden_state if memory is None else memory
        check_hidden_state(hidden_state, memory, self.query)
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
        check_heads(hidden_size, num_heads)
        head_dim = hidden_size // num_heads
        self.heads = nn.ModuleList(AttentionHead(hidden_size, head_dim) for _ in range(num_heads))
        self.output = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_state, mask=None, memory=None):
        memory = hidden_state if memory is None else memory
        check_hidden_state(hidden_state, memory, self.output, batched=True)
        masks = split_mask(mask, len(self.heads))
        results = [head(hidden_state, m, memory) for head, m in zip(self.heads, masks, strict=True)]
        outputs, attn_weights = zip(*results, strict=True)
        output = torch.cat(outputs, dim=-1)  # (batch, query, hidden_size)
        return self.output(output), torch.stack(attn_weights, dim=1)  # (batch, heads, query, key)


def split_mask(mask, num_heads):
    """Return a list with one mask a head, from a mask that broadcasts to (batch, heads, query, key).

    Raises `TypeError` or `ValueError` if it is no mask, or its axis of heads is not 1 or `num_heads` long.
    """
    check_head_axis(mask, num_heads)
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

    Raises `TypeError` or `ValueError` if hidden_size cannot be divided among the heads (`check_heads`), the
    inputs do not fit the projections (`check_hidden_state`), or the mask not the scores (`check_mask`).
    """

    def __init__(self, hidden_size, num_heads):
        super().__init__()
        check_heads(hidden_size, num_heads)
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
        check_hidden_state(hidden_state, memory, self.query, batched=True)
        query, key, value = self.project(hidden_state, memory)
        output, attn_weights = self.attend(query, key, value, mask)
        return self.output(merge_heads(output)), attn_weights  # output (batch, query, hidden_size)


# ------------------------------------------- the weights of others, for MultiHeadAttention.load_state_dict


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
    check_packed(attention)
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


# ------------------------------------------------------------------------- what is refused, in plain words


def check_qkv(query, key, value):
    """Refuse a query, key and value that do not fit together."""
    check_floats(query=query, key=key, value=value)
    q, k, v = tuple(query.shape), tuple(key.shape), tuple(value.shape)
    wrong = None
    if min(len(q), len(k), len(v)) < 2:
        wrong = "Each needs at least two axes, (tokens, width)."
    elif not q[:-2] == k[:-2] == v[:-2]:
        wrong = "All axes but the last two must be equal; expand() repeats one along an axis."
    elif q[-1] != k[-1] or q[-1] == 0:
        wrong = "The last axis of query and key must be equal and not empty: project both to one head_dim."
    elif k[-2] != v[-2]:
        wrong = "Each key needs one value: the last axis but one must be equal."
    if wrong:
        raise ValueError(f"query has the shape {q}, key {k} and value {v}. {wrong}")


def check_hidden_state(hidden_state, memory, projection, batched=False):
    """Refuse a hidden_state or memory that a projection (an `nn.Linear`) cannot take.

    With `batched` they must have three axes, (batch, seq, hidden_size); else any number from two up.
    """
    check_floats(hidden_state=hidden_state, memory=memory, weight=projection.weight)
    hidden_size = projection.in_features
    wanted = f"({'batch' if batched else '...'}, seq, {hidden_size})"
    for name, tensor in (("hidden_state", hidden_state), ("memory", memory)):
        if tensor.shape[-1:] != (hidden_size,) or tensor.dim() < 2 or (batched and tensor.dim() != 3):
            raise ValueError(
                f"{name} has the shape {tuple(tensor.shape)}, but these weights take {wanted}. "
                "The last axis must be hidden_size; unsqueeze(0) makes a batch of one sequence."
            )
    if hidden_state.shape[:-2] != memory.shape[:-2]:
        raise ValueError(
            f"hidden_state has the shape {tuple(hidden_state.shape)} and memory {tuple(memory.shape)}. "
            "Both need the same batch: one memory for each sequence; expand() repeats one."
        )


def check_mask(mask, attn_scores):
    """Refuse a mask that is not of 0 and 1, or does not broadcast to the scores as they are."""
    check_mask_values(mask)
    if mask.device != attn_scores.device:
        raise ValueError(
            f"The mask is on {mask.device}, the scores on {attn_scores.device}. Move it with mask.to(device)."
        )
    # A mask with more rows or axes than the scores would stretch them: plain broadcasting allows that.
    sizes = zip(reversed(mask.shape), reversed(attn_scores.shape), strict=False)
    if mask.dim() > attn_scores.dim() or any(size not in (1, wanted) for size, wanted in sizes):
        raise ValueError(
            f"The mask has the shape {tuple(mask.shape)}, which does not broadcast to the scores, "
            f"(..., query, key) = {tuple(attn_scores.shape)}. Make each of its axes 1 or as long as theirs; "
            "padding_mask() does so for a tokenizer's attention_mask."
        )


def check_mask_values(mask, name="The mask"):
    """Refuse a mask whose values do not say, with True or 1: may be attended to."""
    if not isinstance(mask, torch.Tensor) or mask.is_complex():
        kind = mask.dtype if isinstance(mask, torch.Tensor) else type(mask).__name__
        raise TypeError(f"{name} is of the type {kind}. Give a tensor of bool or 0/1.")
    if mask.dtype == torch.bool or mask.numel() == 0:
        return
    rule = "must be bool or 0/1, where 1 means: may be attended to"
    if not ((mask == 0) | (mask == 1)).all():
        low, high = mask.aminmax()
        looks = " looks additive: it" if high <= 0 else ""
        raise ValueError(
            f"{name} ({mask.dtype}){looks} holds numbers from {low:.4g} to {high:.4g}, but {rule}. "
            "convert_mask() turns an additive one."
        )
    # An additive mask without pads is all 0; an inverted one has a row of 0 for the longest sequence.
    if mask.is_floating_point() and (mask == 0).all(dim=-1).any():
        raise ValueError(
            f"{name} ({mask.dtype}) looks additive or inverted: it has a row without any 1, but {rule}. "
            "convert_mask() turns it; if the row is meant, pass mask.bool()."
        )


def check_padding_shape(attention_mask):
    """Refuse an attention_mask that is not (batch, key)."""
    if attention_mask.dim() != 2:
        shape = tuple(attention_mask.shape)
        raise ValueError(
            f"attention_mask has the shape {shape}. Give it as the tokenizer does: (batch, key)."
        )


def check_head_axis(mask, num_heads):
    """Refuse a mask, unless it is None, whose third axis from the end is neither 1 nor num_heads long."""
    if mask is None:
        return
    check_mask_values(mask)
    if mask.dim() > 2 and mask.shape[-3] not in (1, num_heads):
        raise ValueError(
            f"The mask has the shape {tuple(mask.shape)}, which does not broadcast to the scores, "
            f"(batch, {num_heads}, query, key). unsqueeze(1) gives it an axis of heads."
        )


def check_convention(mask, source, target, dtype):
    """Refuse an unknown convention, or a mask that is not of the convention `source`."""
    for name in (source, target):
        if name not in MASK_CONVENTIONS:
            raise ValueError(
                f"There is no mask convention {name!r}. Choose from {', '.join(MASK_CONVENTIONS)}."
            )
    if not dtype.is_floating_point:
        raise TypeError(f"An additive mask cannot be of {dtype}. Choose the dtype of the scores.")
    if not isinstance(mask, torch.Tensor):
        raise TypeError(f"The mask is of the type {type(mask).__name__}. Give a tensor.")
    if source in ("keep", "ignore"):
        right, holds = mask.dtype == torch.bool, "True and False"
    elif source == "tokenizer":
        right, holds = ((mask == 0) | (mask == 1)).all(), "0 and 1"
    else:
        right = mask.is_floating_point() and ((mask == 0) | (mask < -1000)).all()
        holds = "floats, 0 or below -1000"
    if not right:
        raise ValueError(
            f'A mask of the convention "{source}" holds {holds}, but this one ({mask.dtype}) does not. '
            f"Name the one it has: {', '.join(MASK_CONVENTIONS)}."
        )


def check_packed(attention):
    """Refuse an `nn.MultiheadAttention` without packed projections and biases."""
    if attention.in_proj_weight is None or attention.in_proj_bias is None:
        raise ValueError(
            "This nn.MultiheadAttention has no in_proj_weight or no in_proj_bias. "
            "Make it with bias=True, and without kdim and vdim."
        )


def check_floats(**tensors):
    """Refuse, by name, what is no tensor of floats, and tensors that differ in dtype or device."""
    first, reference = next(iter(tensors.items()))
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} is of the type {type(tensor).__name__}. Give a tensor.")
        if not tensor.is_floating_point():
            raise TypeError(
                f"{name} is of {tensor.dtype}, but attention computes with floats. "
                "Token ids become vectors by an embedding, other numbers floats by .float()."
            )
        # Under autocast, PyTorch itself brings the dtypes together.
        if tensor.dtype != reference.dtype and not torch.is_autocast_enabled(tensor.device.type):
            raise TypeError(
                f"{first} is of {reference.dtype} and {name} of {tensor.dtype}. Convert one with .to(dtype)."
            )
        if tensor.device != reference.device:
            raise ValueError(
                f"{first} is on {reference.device} and {name} on {tensor.device}. Move one with .to(device)."
            )


def check_heads(hidden_size, num_heads):
    """Refuse a hidden_size that cannot be divided among num_heads."""
    check_size("hidden_size", hidden_size)
    check_size("num_heads", num_heads)
    if hidden_size % num_heads:
        raise ValueError(
            f"hidden_size {hidden_size} cannot be divided evenly among num_heads {num_heads}. "
            f"Choose a num_heads that divides {hidden_size}."
        )


def check_size(name, size, smallest=1):
    """Refuse, by name, a size that is no whole number from `smallest` up."""
    if not isinstance(size, int) or isinstance(size, bool):
        raise TypeError(f"{name} is {size!r}. Give a whole number (int).")
    if size < smallest:
        raise ValueError(f"{name} is {size}, but must be at least {smallest}.")
