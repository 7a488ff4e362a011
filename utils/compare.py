"""The twin and the original: a library's weights under our names, and the first tensor that differs."""

import math
import re
from typing import NamedTuple

import pandas as pd
import torch

from .guards import require_comparable

TWIN_NAMES = {  # BERT's name of a part: the encoder's. In this order: a name may end in another one.
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
    """Return the weights of a `BertModel` under the names of an
    `Encoder`. The pooler is left out, by name."""
    weights = {}
    for name, weight in model.state_dict().items():
        if name.startswith("pooler."):
            continue
        for theirs, ours in TWIN_NAMES.items():
            name = name.replace(theirs, ours)
        weights[name] = weight
    return weights


LLAMA_NAMES = [  # of a part: in transformers, in a GGUF file, here
    ("model.embed_tokens.", "token_embd.", "embeddings."),
    ("model.layers.", "blk.", "blocks."),
    ("model.norm.", "output_norm.", "norm."),
    ("lm_head.", "output.", "output."),
    ("self_attn.q_proj.", "attn_q.", "attention.query."),
    ("self_attn.k_proj.", "attn_k.", "attention.key."),
    ("self_attn.v_proj.", "attn_v.", "attention.value."),
    ("self_attn.o_proj.", "attn_output.", "attention.output."),
    ("input_layernorm.", "attn_norm.", "attention_norm."),
    ("post_attention_layernorm.", "ffn_norm.", "feed_forward_norm."),
    ("mlp.gate_proj.", "ffn_gate.", "feed_forward.gate."),
    ("mlp.up_proj.", "ffn_up.", "feed_forward.up."),
    ("mlp.down_proj.", "ffn_down.", "feed_forward.down."),
]


def renamed(weights, source, target):
    """Return weights under the names of another column of LLAMA_NAMES."""
    parts = {row[source]: row[target] for row in LLAMA_NAMES}
    part = re.compile(rf"(?:^|(?<=\d\.))(?:{'|'.join(map(re.escape, parts))})")
    return {part.sub(lambda found: parts[found[0]], name): weight for name, weight in weights.items()}


def to_halves(weight, head_dim):
    """Return a weight of queries or keys, (heads * head_dim, hidden_size), for rotations that pair a
    head's halves."""
    return weight.unflatten(0, (-1, head_dim // 2, 2)).transpose(1, 2).flatten(0, 2)


def to_neighbours(weight, head_dim):
    """Return a weight of queries or keys for rotations that pair neighbours, as `rotate` does."""
    return weight.unflatten(0, (-1, 2, head_dim // 2)).transpose(1, 2).flatten(0, 2)


def turned(weights, turn, head_dim):
    """Return the weights of a `Llama`, those of queries and keys turned by `to_halves` or `to_neighbours`."""
    rotary = ("attention.query.weight", "attention.key.weight")
    return {name: turn(w, head_dim) if name.endswith(rotary) else w for name, w in weights.items()}


class Comparison(NamedTuple):
    """What a comparison found. Its text shows no digits of differences that are within tolerance."""

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
    in float32 and 1e-10 in float64. Compare in float64 (`dtype=torch.float64` at loading): a small mistake,
    such as an epsilon of 1e-5 for 1e-12, makes about 1e-4, not far from what rounding does to float32. By
    hand against a model loaded with sdpa, float32 is too coarse; such a model returns no attention weights,
    either, and these are left out of the table.

    Raises `TypeError` or `ValueError` if the model is no `BertModel` in eval mode, or the two differ in the
    number of layers or in dtype, or their dtype has no tolerance and none is given.
    """
    require_comparable(encoder, model)
    tolerance = tolerance_for(tolerance, model.dtype)
    ours = record(encoder, encoder_places(encoder), inputs)
    theirs = record(model, bert_places(model), inputs)
    return compare_tensors(ours, theirs, tolerance)


def compare_with_llama(ours, theirs, input_ids, tolerance=1e-5):
    """Run a `Llama` and its `LlamaForCausalLM` on the same ids, and return a `Comparison` of what each layer
    computes.

    The table holds each difference as a share of the tensor's largest number (if that is more than 1): some
    numbers of a hidden state reach 20,000, where float32 rounds by 0.002. Load the model with
    attn_implementation="eager". In place of either may stand what `record_llama` returned for it.
    """
    ours, theirs = (
        made if isinstance(made, dict) else record_llama(made, input_ids) for made in (ours, theirs)
    )
    sizes = {
        name: max(1.0, tensor.abs().max().item()) for name, tensor in theirs.items() if tensor is not None
    }
    ours, theirs = ({name: made[name] / sizes[name] for name in sizes} for made in (ours, theirs))
    return compare_tensors(ours, theirs, tolerance)


def record_llama(model, input_ids):
    """Run a `Llama` or a `LlamaForCausalLM`, and return by name what its layers compute, and the logits."""
    places = llama_places(model) if hasattr(model, "lm_head") else our_llama_places(model)
    return record(model, places, {"input_ids": input_ids})


def compare_tensors(ours, theirs, tolerance):
    """Return the `Comparison` of two dicts of tensors, in the order of `theirs`; what is None is left out."""
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
    for number, layer in enumerate(encoder.layers):
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
    for number, layer in enumerate(model.encoder.layer):
        places |= {
            f"layer {number} attention weights": (layer.attention.self, 1),
            f"layer {number} attention output": (layer.attention.output.dense, 0),
            f"layer {number} after the first norm": (layer.attention.output.LayerNorm, 0),
            f"layer {number} feed-forward output": (layer.output.dropout, 0),
            f"layer {number} output": (layer, 0),
        }
    return places


def our_llama_places(model):
    """Return the places of a `Llama` to compare: each norm, attention, feed-forward network and block."""
    places = {"embeddings": (model.embeddings, 0)}
    for number, block in enumerate(model.blocks):
        parts = (block.attention_norm, block.attention, block.feed_forward_norm, block.feed_forward, block)
        places |= layer_places(number, *parts)
    return places | {"logits": (model, 0)}


def llama_places(model):
    """Return the places of the same tensors, under the same names, in a `LlamaForCausalLM`."""
    places = {"embeddings": (model.model.embed_tokens, 0)}
    for number, layer in enumerate(model.model.layers):
        parts = (layer.input_layernorm, layer.self_attn, layer.post_attention_layernorm, layer.mlp, layer)
        places |= layer_places(number, *parts)
    return places | {"logits": (model.lm_head, 0)}


def layer_places(number, attention_norm, attention, feed_forward_norm, feed_forward, layer):
    return {
        f"layer {number} first norm": (attention_norm, 0),
        f"layer {number} attention weights": (attention, 1),
        f"layer {number} attention output": (attention, 0),
        f"layer {number} second norm": (feed_forward_norm, 0),
        f"layer {number} feed-forward output": (feed_forward, 0),
        f"layer {number} output": (layer, 0),
    }


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


def tolerance_for(tolerance, dtype):
    """Return the tolerance, by default that of the dtype. Refuse a dtype without one."""
    if tolerance is None and dtype not in TOLERANCES:
        raise ValueError(f"No tolerance is set for {dtype}. Give one, or compare in float64.")
    return TOLERANCES[dtype] if tolerance is None else tolerance
