"""The encoder: embeddings, a stack of layers, and a twin of BERT that is held against the original.

From small to large: attention with dropout (`LayerAttention`) and a `FeedForward` make an `EncoderLayer`.
`Embeddings` and a stack of layers make an `Encoder`, and a linear layer on top a `SequenceClassifier`.
`Encoder.from_bert` takes the weights of a BERT of transformers, and `compare_with_bert` says whether the two
compute the same and, if not, where they part.

`config` is transformers' `BertConfig` or any object with the fields in `CONFIG_FIELDS`.

The modules use `nn.LayerNorm`. It gives the numbers of `layer_norm`, the formula written out, in one pass over
the memory instead of seven.
"""

import math
from typing import NamedTuple

import pandas as pd
import torch
import torch.nn.functional as F
from torch import nn

from .attention import (
    MultiHeadAttention,
    check_mask,
    check_size,
    masked_softmax,
    padding_mask,
)

# ------------------------------------------------------------------------------------- the parts of a layer


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
        check_config(config)
        self.expand = nn.Linear(config.hidden_size, config.intermediate_size)
        self.gelu = nn.GELU()
        self.contract = nn.Linear(config.intermediate_size, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_state):
        inner = self.gelu(self.expand(hidden_state))  # (..., intermediate_size)
        return self.dropout(self.contract(inner))  # (..., hidden_size)


class LayerAttention(MultiHeadAttention):
    """Multi-head attention as a layer of BERT has it: in train mode, dropout strikes attention weights.

    Takes, returns and raises what `MultiHeadAttention` does. In train mode the weights it returns are those
    after dropout, as in transformers. With `fused` (`use_fused_attention`) they are None. A scheme of
    positions replaces `project` or `position_bias`.
    """

    def __init__(self, config):
        check_config(config)
        super().__init__(config.hidden_size, config.num_attention_heads)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)
        self.fused = False

    def position_bias(self, query_len, key_len):
        """Return what is added to the scores, (heads, query, key), or None for nothing."""
        return None

    def attend(self, query, key, value, mask):
        bias = self.position_bias(query.shape[-2], key.shape[-2])
        if self.fused:
            dropout = self.dropout.p if self.training else 0.0
            return fused_attention(query, key, value, mask, bias, dropout), None
        attn_scores = query @ key.transpose(-2, -1)  # (batch, heads, query, key)
        # Scaled after the product, as BERT does, not before it as in `attention_scores`: in float32 the two are
        # rounded differently, which after six layers makes more than 1e-5.
        attn_scores *= query.shape[-1] ** -0.5
        if bias is not None:
            attn_scores = attn_scores + bias
        attn_weights = self.dropout(masked_softmax(attn_scores, mask))
        return attn_weights @ value, attn_weights  # output (batch, heads, query, head_dim)


def fused_attention(query, key, value, mask=None, bias=None, dropout=0.0):
    """Return the output of attention, (batch, heads, query, head_dim), without ever storing its weights.

    The mask is bool or 0/1, and 1 means: may be attended to. The bias, (heads, query, key), is added to the
    scores. `F.scaled_dot_product_attention` works tile by tile: Dao et al. 2022.
    """
    if mask is not None:
        like_scores = query[..., :1].expand(*query.shape[:-1], key.shape[-2])  # (batch, heads, query, key)
        check_mask(mask, like_scores)
        mask = (mask == 1).expand_as(like_scores)  # no number is copied
        if bias is not None:  # the kernel takes one of the two, so -inf in the bias says: masked
            bias = torch.where(mask, bias, -math.inf)  # (batch, heads, query, key)
    attn_mask = mask if bias is None else bias
    return F.scaled_dot_product_attention(query, key, value, attn_mask=attn_mask, dropout_p=dropout)


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
        check_config(config)
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


# ---------------------------------------------------------------------------------------- where a token is

POSITIONS = ("learned", "sinusoidal", "relative", "rotary", None)


def position_angles(seq_len, width):
    """Return an angle for each position and each pair of numbers, (seq, width / 2), in radians and float64.

    Position p turns pair i by `p / 10000^(2i / width)`: the first pair by one radian a token, like a fast
    hand of a clock, the last ones hardly at all. Raises `ValueError` for an odd width.
    """
    check_even(width)
    speed = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)  # (width / 2,)
    return torch.outer(torch.arange(seq_len, dtype=torch.float64), speed)  # (seq, width / 2)


def sinusoidal_positions(seq_len, hidden_size):
    """Return a fixed vector for each position, (seq, hidden_size): section 3.5 of Vaswani et al. 2017.

    Even places hold the sine and odd ones the cosine of `position_angles`. Raises `ValueError` for an odd size.
    """
    angles = position_angles(seq_len, hidden_size)  # (seq, hidden_size / 2)
    pairs = torch.stack([angles.sin(), angles.cos()], dim=-1)  # (seq, hidden_size / 2, 2)
    return pairs.flatten(-2).to(torch.get_default_dtype())  # (seq, hidden_size)


def rotate(per_head):
    """Return queries or keys, (..., seq, head_dim), with each pair of numbers turned by its `position_angles`.

    The product of a turned query and a turned key depends on their distance, not on where they are: Su et al.
    2021 (rotary positions). Pairs are neighbours, (0, 1), (2, 3), ... Raises `ValueError` for an odd head_dim.
    """
    angles = position_angles(*per_head.shape[-2:])  # (seq, head_dim / 2)
    cos, sin = angles.cos().to(per_head), angles.sin().to(per_head)
    x, y = per_head[..., 0::2], per_head[..., 1::2]  # each (..., seq, head_dim / 2)
    turned = torch.stack([x * cos - y * sin, x * sin + y * cos], dim=-1)  # (..., seq, head_dim / 2, 2)
    return turned.flatten(-2)  # (..., seq, head_dim)


class RotaryAttention(LayerAttention):
    """`LayerAttention` whose queries and keys are turned by their position (`rotate`). Values are not."""

    def project(self, hidden_state, memory):
        query, key, value = super().project(hidden_state, memory)
        return rotate(query), rotate(key), value


class RelativeAttention(LayerAttention):
    """`LayerAttention` with a learned number, for each head and each distance, added to the scores.

    The distance is key minus query, and beyond `max_distance` all share one number: Shaw et al. 2018, in the
    form of Raffel et al. 2020 (T5), where all layers share one table. Here each has its own.
    """

    max_distance = 128

    def __init__(self, config):
        super().__init__(config)
        self.distance_bias = nn.Embedding(2 * self.max_distance + 1, self.num_heads)

    def position_bias(self, query_len, key_len):
        position = torch.arange(max(query_len, key_len), device=self.distance_bias.weight.device)
        distance = position[None, :key_len] - position[:query_len, None]  # (query, key)
        row = distance.clamp(-self.max_distance, self.max_distance) + self.max_distance
        return self.distance_bias(row).permute(2, 0, 1)  # (heads, query, key)


def position_table(config, positions):
    """Return the `nn.Embedding` with a vector for each position, or None if the scheme adds none to tokens."""
    check_positions(positions)
    if positions == "learned":
        return nn.Embedding(config.max_position_embeddings, config.hidden_size)
    if positions == "sinusoidal":
        table = sinusoidal_positions(config.max_position_embeddings, config.hidden_size)
        return nn.Embedding.from_pretrained(table)  # frozen: it is not learned
    return None


# ----------------------------------------------------------------------------------------------- the whole


class Embeddings(nn.Module):
    """The sum of three vectors a token, for its id, its segment and its position; then layer norm and dropout.

    `forward(input_ids, token_type_ids=None)` takes two tensors (batch, seq) of whole numbers; without
    token_type_ids every token is in segment 0. Returns (batch, seq, hidden_size).

    Raises `TypeError` or `ValueError` for a config that lacks fields, an unknown name of a position scheme,
    ids or segments out of range, more tokens than positions, and shapes that do not fit.
    """

    def __init__(self, config, positions="learned"):
        super().__init__()
        check_config(config)
        self.token = nn.Embedding(config.vocab_size, config.hidden_size)
        self.segment = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.position = position_table(config, positions)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids, token_type_ids=None):
        check_input_ids(input_ids, self.token, self.position)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        check_token_type_ids(token_type_ids, input_ids, self.segment)
        embedded = self.token(input_ids) + self.segment(token_type_ids)  # (batch, seq, hidden_size)
        if self.position is not None:
            embedded = embedded + self.position.weight[: input_ids.shape[1]]
        return self.dropout(self.norm(embedded))


class EncoderOutput(NamedTuple):
    """What an `Encoder` returns, under the names that transformers uses."""

    last_hidden_state: torch.Tensor  # (batch, seq, hidden_size)
    hidden_states: tuple  # the embeddings, then the output of each layer: each (batch, seq, hidden_size)
    attentions: tuple  # the weights of each layer: each (batch, heads, query, key); () with fused attention


class Encoder(nn.Module):
    """Embeddings and a stack of layers: BERT without its pooler (Devlin et al. 2019), if nothing else is asked.

    `positions` says how a token knows its place: "learned" (BERT), "sinusoidal", "relative", "rotary", or
    None for not at all. With `norm_first` a norm stands after the last layer too, as no other would.

    `forward(input_ids, token_type_ids=None, attention_mask=None)` takes what a tokenizer returns, each
    (batch, seq). Returns an `EncoderOutput`.

    A sequence that is padding only gets attention weights of 0; the BERT of transformers (eager) spreads them.

    Raises `TypeError` or `ValueError` for a config that lacks fields, and for ids, segments and masks that do
    not fit it or one another.
    """

    def __init__(self, config, norm_first=False, positions="learned"):
        super().__init__()
        check_config(config)
        attention = {"relative": RelativeAttention, "rotary": RotaryAttention}.get(positions, LayerAttention)
        layers = [EncoderLayer(config, norm_first, attention) for _ in range(config.num_hidden_layers)]
        self.embeddings = Embeddings(config, positions)
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps) if norm_first else nn.Identity()

    @classmethod
    def from_bert(cls, model):
        """Return the twin of a `BertModel`: an encoder that computes the same, with the same weights.

        It shares the memory of the weights: nothing is copied, and training one trains both.
        `copy.deepcopy` makes a twin of its own. It is in train or eval mode as the model is.

        Raises `TypeError` or `ValueError` for anything but a BERT encoder with finite weights, all of which
        find their place; the pooler (`pooler.dense`) alone is left.
        """
        check_bert(model)
        with torch.device("meta"):  # shapes without numbers: these come from BERT
            encoder = cls(model.config)
        weights = twin_weights(model)
        check_weights(weights, encoder)
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
        attentions = [attn_weights for attn_weights in attentions if attn_weights is not None]
        return EncoderOutput(hidden_states[-1], tuple(hidden_states), tuple(attentions))


def encoder_mask(attention_mask, input_ids):
    """Return a tokenizer's attention_mask, (batch, seq), as (batch, 1, 1, key); None if nothing is masked."""
    if attention_mask is None:
        return None
    check_attention_mask(attention_mask, input_ids)
    mask = padding_mask(attention_mask)  # (batch, 1, 1, key)
    return None if mask.all() else mask  # such a mask changes nothing, but costs time in every layer


def use_fused_attention(module, fused=True):
    """Let every attention in `module` compute by `fused_attention`, or again by hand. Returns the module.

    It is faster and takes less memory on long inputs, and has no weights to show: `attentions` is ().
    """
    for part in module.modules():
        if hasattr(part, "fused"):
            part.fused = fused
    return module


class SequenceClassifier(nn.Module):
    """An encoder, then dropout and a linear layer on the hidden state of the first token, [CLS].

    `forward(input_ids, token_type_ids=None, attention_mask=None)` returns a score for each label, before
    softmax: (batch, num_labels). BERT's own classifier has a further layer between, the pooler.
    """

    def __init__(self, config, num_labels):
        super().__init__()
        check_size("num_labels", num_labels)
        self.encoder = Encoder(config)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, num_labels)

    def forward(self, input_ids, token_type_ids=None, attention_mask=None):
        hidden_state = self.encoder(input_ids, token_type_ids, attention_mask).last_hidden_state
        cls_state = hidden_state[:, 0]  # (batch, hidden_size)
        return self.classifier(self.dropout(cls_state))  # (batch, num_labels)


# ------------------------------------------------------------------------------- the twin and the original

TWIN_NAMES = {  # BERT's name of a part: this module's. The longer ones come first.
    "embeddings.word_embeddings.": "embeddings.token.",
    "embeddings.token_type_embeddings.": "embeddings.segment.",
    "embeddings.position_embeddings.": "embeddings.position.",
    "embeddings.LayerNorm.": "embeddings.norm.",
    "encoder.layer.": "layers.",
    "attention.self.": "attention.",
    "attention.output.dense.": "attention.output.",
    "attention.output.LayerNorm.": "attention_norm.",
    "intermediate.dense.": "feed_forward.expand.",
    "output.dense.": "feed_forward.contract.",
    "output.LayerNorm.": "feed_forward_norm.",
}


def twin_weights(model):
    """Return the weights of a `BertModel` under the names of an `Encoder`. The pooler is left out, by name."""
    weights = {}
    for name, weight in model.state_dict().items():
        if name.startswith("pooler."):
            continue
        for theirs, ours in TWIN_NAMES.items():
            name = name.replace(theirs, ours)
        weights[name] = weight
    return weights


class Comparison(NamedTuple):
    """What `compare_with_bert` found. Its text shows no digits of differences that are within tolerance."""

    table: pd.DataFrame  # a row a tensor, in the order of computation: "largest difference" and "equal"
    first_difference: str | None  # the name of the first tensor that differs
    tolerance: float

    def __repr__(self):
        within = f"< {self.tolerance:g}"
        shown = [
            within if row.equal else f"{row.difference:.1e}"
            for row in self.table.set_axis(["difference", "equal"], axis=1).itertuples()
        ]
        text = self.table.assign(**{"largest difference": shown}).to_string()
        return f"{text}\nThe first tensor that differs: {self.first_difference or 'none'}."


TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-10}


def compare_with_bert(encoder, model, inputs, tolerance=None):
    """Run a twin and its BERT on the same inputs, and return a `Comparison` of what each layer computes.

    `inputs` is what the tokenizer returns, with `return_tensors="pt"`. The tolerance is an absolute one: 1e-5
    in float32 and 1e-10 in float64. Compare in float64 (`dtype=torch.float64` at loading): a small mistake, such
    as an epsilon of 1e-5 for 1e-12, makes less than 1e-4, not far from what rounding does to float32. By hand
    against a model loaded with sdpa, float32 is too coarse; such a model returns no attention weights, either,
    and these are left out of the table.

    Raises `TypeError` or `ValueError` if the model is no `BertModel` in eval mode, or the two differ in the
    number of layers or in dtype.
    """
    check_comparable(encoder, model)
    tolerance = choose_tolerance(tolerance, model.dtype)
    ours = record(encoder, encoder_places(encoder), inputs)
    theirs = record(model, bert_places(model), inputs)
    differences = {
        name: largest_difference(ours[name], theirs[name])
        for name in theirs
        if ours[name] is not None and theirs[name] is not None
    }
    table = pd.DataFrame({"largest difference": differences})
    table["equal"] = table["largest difference"] <= tolerance  # False for NaN, too
    differing = table.index[~table["equal"]]
    return Comparison(table, differing[0] if len(differing) else None, tolerance)


def encoder_places(encoder):
    """Return, for each tensor to compare, the module that puts it out and the tensor's index in a tuple."""
    places = {"embeddings": (encoder.embeddings, 0)}
    for number, layer in enumerate(encoder.layers, start=1):
        places |= {
            f"layer {number} attention weights": (layer.attention, 1),
            f"layer {number} attention output": (layer.attention, 0),
            f"layer {number} after the first norm": (layer.attention_norm, 0),
            f"layer {number} feed-forward output": (layer.feed_forward, 0),
            f"layer {number} output": (layer, 0),
        }
    return places


def bert_places(model):
    """Return the places of the same tensors, under the same names, in a `BertModel`."""
    places = {"embeddings": (model.embeddings, 0)}
    for number, layer in enumerate(model.encoder.layer, start=1):
        places |= {
            f"layer {number} attention weights": (layer.attention.self, 1),
            f"layer {number} attention output": (layer.attention.output.dense, 0),
            f"layer {number} after the first norm": (layer.attention.output.LayerNorm, 0),
            f"layer {number} feed-forward output": (layer.output.dropout, 0),
            f"layer {number} output": (layer, 0),
        }
    return places


def record(model, places, inputs):
    """Run the model on the inputs, and return by name what came out at each place."""
    found = dict.fromkeys(places)

    def keep(name, index):
        def hook(module, args, output):
            found[name] = output[index] if isinstance(output, tuple) else output

        return hook

    hooks = [module.register_forward_hook(keep(name, index)) for name, (module, index) in places.items()]
    try:
        with torch.no_grad():
            model(**inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def largest_difference(ours, theirs):
    """Return the largest absolute difference of two tensors; infinity if their shapes differ."""
    return (ours - theirs).abs().max().item() if ours.shape == theirs.shape else math.inf


# ------------------------------------------------------------------------- what is refused, in plain words

CONFIG_SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
)
CONFIG_FIELDS = (*CONFIG_SIZES, "layer_norm_eps", "hidden_dropout_prob", "attention_probs_dropout_prob")


def check_config(config):
    """Refuse a config that lacks fields, or asks for something else than GELU."""
    if missing := [name for name in CONFIG_FIELDS if not hasattr(config, name)]:
        raise ValueError(
            f"The config ({type(config).__name__}) lacks {', '.join(missing)}. "
            "Add what is missing, or use transformers' BertConfig."
        )
    for name in CONFIG_SIZES:
        check_size(name, getattr(config, name))
    if getattr(config, "hidden_act", "gelu") != "gelu":
        raise ValueError(
            f'hidden_act of the config is {config.hidden_act!r}, but this encoder computes the exact "gelu" only. '
            'Choose a checkpoint or a config with hidden_act="gelu".'
        )


def check_positions(positions):
    """Refuse the name of a position scheme that is not there."""
    if positions not in POSITIONS:
        raise ValueError(
            f"There is no position scheme {positions!r}. Choose from {', '.join(map(repr, POSITIONS))}."
        )


def check_even(width):
    """Refuse a width that cannot be cut into pairs."""
    if width % 2:
        raise ValueError(f"Angles belong to pairs of numbers, but the width is {width}. Choose an even one.")


def check_input_ids(input_ids, token, position):
    """Refuse ids that are not (batch, seq), not in the vocabulary, or more than there are positions."""
    check_ids("input_ids", input_ids, token, "the vocabulary has {} ids", "Use this model's own tokenizer.")
    if position is not None and input_ids.shape[1] > position.num_embeddings:
        raise ValueError(
            f"input_ids has {input_ids.shape[1]} tokens a sequence, but there are only {position.num_embeddings} "
            f"positions. Shorten it: tokenizer(..., truncation=True, max_length={position.num_embeddings})."
        )


def check_token_type_ids(token_type_ids, input_ids, segment):
    """Refuse segments that are out of range, or not one for each token."""
    advice = "The tokenizer numbers them: 0 for sentence A, 1 for sentence B."
    check_ids("token_type_ids", token_type_ids, segment, "there are {} segments", advice)
    check_same_shape("token_type_ids", token_type_ids, input_ids)


def check_attention_mask(attention_mask, input_ids):
    """Refuse an attention_mask that has not one number for each token."""
    if not isinstance(attention_mask, torch.Tensor):
        raise TypeError(f"attention_mask is of the type {type(attention_mask).__name__}. Give a tensor.")
    check_same_shape("attention_mask", attention_mask, input_ids)


def check_same_shape(name, tensor, input_ids):
    """Refuse, by name, a tensor that is not shaped like input_ids."""
    if tensor.shape != input_ids.shape:
        raise ValueError(
            f"{name} has the shape {tuple(tensor.shape)} and input_ids {tuple(input_ids.shape)}. "
            "Both must be (batch, seq): take them from one call of the tokenizer."
        )


def check_ids(name, ids, embedding, rule, advice):
    """Refuse, by name, what is no tensor (batch, seq) of whole numbers that have a row in the embedding."""
    if not isinstance(ids, torch.Tensor):
        raise TypeError(
            f'{name} is of the type {type(ids).__name__}. Give a tensor: tokenizer(..., return_tensors="pt").'
        )
    if ids.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"{name} is of {ids.dtype}, but ids are whole numbers. Convert it with .long().")
    if ids.dim() != 2 or ids.numel() == 0:
        one_axis = " unsqueeze(0) makes a batch of one sequence." if ids.dim() == 1 else ""
        raise ValueError(
            f"{name} has the shape {tuple(ids.shape)}, but must be (batch, seq), neither of them 0.{one_axis}"
        )
    if ids.device != embedding.weight.device:
        raise ValueError(
            f"{name} is on {ids.device}, the weights are on {embedding.weight.device}. Move one."
        )
    low, high = (extreme.item() for extreme in ids.aminmax())
    if low < 0 or high >= embedding.num_embeddings:
        raise ValueError(
            f"{name} holds {low if low < 0 else high}, but {rule.format(embedding.num_embeddings)}, "
            f"0 to {embedding.num_embeddings - 1}. {advice}"
        )


def check_bert(model):
    """Refuse what is not transformers' `BertModel`, used as an encoder."""
    from transformers import BertModel  # here, as it takes seconds, and who has a model has it loaded already

    if not isinstance(model, BertModel):
        inner = " Give the encoder in it: model.bert." if hasattr(model, "bert") else ""
        raise TypeError(
            f"The model is of the type {type(model).__name__}, not a BertModel of transformers.{inner}"
        )
    if model.config.is_decoder or model.config.add_cross_attention:
        raise ValueError(
            "This BertModel is a decoder (is_decoder or add_cross_attention in its config). Give an encoder."
        )


def check_weights(weights, encoder):
    """Refuse weights, by name, that have no place in the encoder, another shape, or are not numbers."""
    wanted = encoder.state_dict()
    problems = {
        "The model has weights that the encoder has no place for": weights.keys() - wanted.keys(),
        "The model lacks weights that the encoder needs": wanted.keys() - weights.keys(),
    }
    if not any(problems.values()):
        problems = {
            "Weights of the model have another shape than its config says": [
                name for name, weight in weights.items() if weight.shape != wanted[name].shape
            ],
            "Weights of the model hold NaN or infinity": [
                name for name, weight in weights.items() if not weight.isfinite().all()
            ],
        }
    if found := [f"{problem}: {', '.join(sorted(names))}." for problem, names in problems.items() if names]:
        raise ValueError(f"{' '.join(found)} Load the checkpoint anew, or give a plain BertModel.")


def check_comparable(encoder, model):
    """Refuse a model that is no BERT in eval mode, and a pair of different depth or dtype."""
    check_bert(model)
    if model.training:
        raise ValueError("The BertModel is in train mode, so dropout changes it. Call model.eval().")
    ours, theirs = len(encoder.layers), len(model.encoder.layer)
    if ours != theirs:
        raise ValueError(
            f"The encoder has {ours} layers and the model {theirs}. Compare a twin with its BERT."
        )
    dtype = next(encoder.parameters()).dtype
    if dtype != model.dtype:
        raise TypeError(
            f"The encoder is of {dtype} and the model of {model.dtype}. Convert one with .to(dtype)."
        )


def choose_tolerance(tolerance, dtype):
    """Return the tolerance, by default that of the dtype. Refuse a dtype without one."""
    if tolerance is None and dtype not in TOLERANCES:
        raise ValueError(f"No tolerance is set for {dtype}. Give one, or compare in float64.")
    return TOLERANCES[dtype] if tolerance is None else tolerance
