"""What is refused, in plain words: each `require_…` raises when what
it is given does not fit, and returns nothing.

They stand in `utils` at the top of the definitions that the notebooks teach, and not in the notebooks: there
a definition is the concept alone. Every sentence says what was wrong, with both shapes or names, and what to
do next. A wrong type is a `TypeError`, a wrong shape, size or number a `ValueError`.
"""

import numpy as np
import torch


def require_size(name, size, smallest=1):
    """Refuse, by name, a size that is no whole number from `smallest` up."""
    if not isinstance(size, int) or isinstance(size, bool):
        raise TypeError(f"{name} is {size!r}. Give a whole number (int).")
    if size < smallest:
        raise ValueError(f"{name} is {size}, but must be at least {smallest}.")


def require_floats(**tensors):
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


def require_heads(hidden_size, num_heads):
    """Refuse a hidden_size that cannot be divided among num_heads."""
    require_size("hidden_size", hidden_size)
    require_size("num_heads", num_heads)
    if hidden_size % num_heads:
        raise ValueError(
            f"hidden_size {hidden_size} cannot be divided evenly among num_heads {num_heads}. "
            f"Choose a num_heads that divides {hidden_size}."
        )


def require_qkv(query, key, value):
    """Refuse a query, key and value that do not fit together."""
    require_floats(query=query, key=key, value=value)
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


def require_hidden_state(hidden_state, memory, projection, batched=False):
    """Refuse a hidden_state or memory that a projection (an `nn.Linear`) cannot take.

    With `batched` they must have three axes, (batch, seq, hidden_size); else any number from two up.
    """
    require_floats(hidden_state=hidden_state, memory=memory, weight=projection.weight)
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


def require_mask(mask, attn_scores):
    """Refuse a mask that is not of 0 and 1, or does not broadcast to the scores as they are."""
    require_mask_values(mask)
    if mask.device != attn_scores.device:
        raise ValueError(f"The mask is on {mask.device}, the scores on {attn_scores.device}. Move one.")
    # A mask with more rows or axes than the scores would stretch them: plain broadcasting allows that.
    sizes = zip(reversed(mask.shape), reversed(attn_scores.shape), strict=False)
    if mask.dim() > attn_scores.dim() or any(size not in (1, wanted) for size, wanted in sizes):
        raise ValueError(
            f"The mask has the shape {tuple(mask.shape)}, which does not broadcast to the scores, "
            f"(..., query, key) = {tuple(attn_scores.shape)}. Make each of its axes 1 or as long as theirs; "
            "padding_mask() does so for a tokenizer's attention_mask."
        )


def require_mask_values(mask, name="The mask"):
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


def require_padding_shape(attention_mask):
    """Refuse an attention_mask that is not (batch, key)."""
    if attention_mask.dim() != 2:
        shape = tuple(attention_mask.shape)
        raise ValueError(f"attention_mask has the shape {shape}. Give the tokenizer's: (batch, key).")


def require_head_axis(mask, num_heads):
    """Refuse a mask, unless it is None, whose third axis from the end is neither 1 nor num_heads long."""
    if mask is None:
        return
    require_mask_values(mask)
    if mask.dim() > 2 and mask.shape[-3] not in (1, num_heads):
        raise ValueError(
            f"The mask has the shape {tuple(mask.shape)}, which does not broadcast to the scores, "
            f"(batch, {num_heads}, query, key). unsqueeze(1) gives it an axis of heads."
        )


MASK_CONVENTIONS = ("tokenizer", "keep", "ignore", "additive")


def require_convention(mask, source, target, dtype):
    """Refuse an unknown convention, or a mask that is not of the convention `source`."""
    for name in (source, target):
        if name not in MASK_CONVENTIONS:
            raise ValueError(f"There is no convention {name!r}. Choose from {', '.join(MASK_CONVENTIONS)}.")
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


def require_packed(attention):
    """Refuse an `nn.MultiheadAttention` without packed projections and biases."""
    if attention.in_proj_weight is None or attention.in_proj_bias is None:
        raise ValueError(
            "This nn.MultiheadAttention has no in_proj_weight or no in_proj_bias. "
            "Make it with bias=True, and without kdim and vdim."
        )


CONFIG_SIZES = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
CONFIG_SIZES += ("max_position_embeddings", "type_vocab_size")
CONFIG_FIELDS = (*CONFIG_SIZES, "layer_norm_eps", "hidden_dropout_prob", "attention_probs_dropout_prob")
POSITIONS = ("learned", "sinusoidal", "relative", "rotary", None)


def require_config(config):
    """Refuse a config that lacks fields, or asks for something else than GELU."""
    if missing := [name for name in CONFIG_FIELDS if not hasattr(config, name)]:
        raise ValueError(
            f"The config ({type(config).__name__}) lacks {', '.join(missing)}. "
            "Add what is missing, or use transformers' BertConfig."
        )
    for name in CONFIG_SIZES:
        require_size(name, getattr(config, name))
    if getattr(config, "hidden_act", "gelu") != "gelu":
        raise ValueError(
            f'hidden_act of the config is {config.hidden_act!r}, but this encoder computes "gelu" only. '
            'Choose a checkpoint or a config with hidden_act="gelu".'
        )


def require_positions(positions):
    """Refuse the name of a position scheme that is not there."""
    if positions not in POSITIONS:
        raise ValueError(f"There is no position scheme {positions!r}. Choose from {POSITIONS}.")


def require_even(width):
    """Refuse a width that cannot be cut into pairs."""
    if width % 2:
        raise ValueError(f"Angles belong to pairs of numbers, but the width is {width}. Choose an even one.")


def require_input_ids(ids, embeddings, name="input_ids"):
    """Refuse, by name, ids that are not (batch, seq), not in the
    vocabulary, or more than there are positions."""
    advice = "Take them from what belongs to this model: its tokenizer, or pad_texts()."
    require_ids(name, ids, embeddings.token, "the vocabulary has {} ids", advice)
    positions = embeddings.position and embeddings.position.num_embeddings
    if positions is not None and ids.shape[1] > positions:
        raise ValueError(
            f"{name} has {ids.shape[1]} tokens a sequence, but there are only {positions} positions. "
            f"Shorten it; a tokenizer does so by truncation=True, max_length={positions}."
        )


def require_token_type_ids(token_type_ids, input_ids, segment):
    """Refuse segments that are out of range, or not one for each token."""
    advice = "The tokenizer numbers them: 0 for sentence A, 1 for sentence B."
    require_ids("token_type_ids", token_type_ids, segment, "there are {} segments", advice)
    require_same_shape("token_type_ids", token_type_ids, input_ids)


def require_attention_mask(attention_mask, input_ids):
    """Refuse an attention_mask that has not one number for each token."""
    if not isinstance(attention_mask, torch.Tensor):
        raise TypeError(f"attention_mask is of the type {type(attention_mask).__name__}. Give a tensor.")
    require_same_shape("attention_mask", attention_mask, input_ids)


def require_same_shape(name, tensor, input_ids):
    """Refuse, by name, a tensor that is not shaped like input_ids."""
    if tensor.shape != input_ids.shape:
        raise ValueError(
            f"{name} has the shape {tuple(tensor.shape)} and input_ids {tuple(input_ids.shape)}. "
            "Both must be (batch, seq): take them from one call of the tokenizer."
        )


def require_ids(name, ids, embedding, rule, advice):
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
        raise ValueError(f"{name} is on {ids.device}, the weights on {embedding.weight.device}. Move one.")
    low, high = (extreme.item() for extreme in ids.aminmax())
    if low < 0 or high >= embedding.num_embeddings:
        raise ValueError(
            f"{name} holds {low if low < 0 else high}, but {rule.format(embedding.num_embeddings)}, "
            f"0 to {embedding.num_embeddings - 1}. {advice}"
        )


def require_bert(model):
    """Refuse what is not transformers' `BertModel`, used as an encoder."""
    from transformers import BertModel  # here, as it takes seconds, and who has a model has it loaded already

    if not isinstance(model, BertModel):
        inner = " Give the encoder in it: model.bert." if hasattr(model, "bert") else ""
        raise TypeError(f"The model is of the type {type(model).__name__}, not a BertModel.{inner}")
    if model.config.is_decoder or model.config.add_cross_attention:
        raise ValueError("This BertModel is a decoder (is_decoder or add_cross_attention). Give an encoder.")


def require_weights(weights, encoder, kind="BertModel"):
    """Refuse weights, by name, without a place in the model, of another shape, or that are no numbers."""
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
                name for name, weight in weights.items() if not torch.stack(weight.aminmax()).isfinite().all()
            ],
        }
    if found := [f"{problem}: {', '.join(sorted(names))}." for problem, names in problems.items() if names]:
        raise ValueError(f"{' '.join(found)} Load the checkpoint anew, or give a plain {kind}.")


def require_comparable(encoder, model):
    """Refuse a model that is no BERT in eval mode, and a pair of different depth or dtype."""
    require_bert(model)
    if model.training:
        raise ValueError("The BertModel is in train mode, so dropout changes it. Call model.eval().")
    ours, theirs = len(encoder.layers), len(model.encoder.layer)
    if ours != theirs:
        raise ValueError(f"The encoder has {ours} layers, the model {theirs}. Compare a twin with its BERT.")
    dtype = next(encoder.parameters()).dtype
    if dtype != model.dtype:
        raise TypeError(f"The encoder is of {dtype}, the model of {model.dtype}. Convert one: .to(dtype).")


def require_batches(source_ids, target_ids):
    """Refuse a source and a target of unequal batches. What is no tensor is refused later, by its name."""
    source, target = (tuple(getattr(ids, "shape", ())) for ids in (source_ids, target_ids))
    if source and target and source[0] != target[0]:
        raise ValueError(
            f"source_ids has the shape {source} and target_ids {target}. "
            "Both need the same batch: one target for each source."
        )


def require_max_new_tokens(max_new_tokens, positions):
    """Refuse, unless it is None, a number of tokens to write that is no size, or more than the positions."""
    if max_new_tokens is None:
        return
    require_size("max_new_tokens", max_new_tokens)
    if max_new_tokens > positions:
        raise ValueError(
            f"max_new_tokens is {max_new_tokens}, but the decoder has only {positions} positions. "
            "Ask for fewer, or make a model with more max_position_embeddings."
        )


def require_eval_mode(model):
    """Refuse a model in train mode, whose dropout would change what it writes."""
    if model.training:
        raise ValueError("The model is in train mode, so dropout changes what it writes. Call model.eval().")


def require_no_cache(decoder):
    """Refuse a decoder whose attentions keep keys and values: its
    embeddings count positions from 0 at each call."""
    if any("project" in vars(layer.self_attention) for layer in decoder.layers):
        raise ValueError(
            "This decoder is in a key_value_cache. Leave that `with` block first, "
            "or embed all tokens and give the newest alone to run_layers()."
        )


def require_same_memory(project, memory):
    """Refuse another memory than the one that this `project` was
    given first, and whose keys and values it keeps.

    The first memory itself is kept here: `project` is the notebook's, and has no need of it.
    """
    first = vars(project).setdefault("memory", memory)
    if memory is not first:
        raise ValueError(
            f"This key_value_cache keeps the keys of one memory, {tuple(first.shape)}, and got another, "
            f"{tuple(memory.shape)}. Pass the first each time, and open a new `with` block for each source."
        )


LLAMA_SIZES = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
LLAMA_SIZES += ("num_key_value_heads", "head_dim")


def require_llama(model):
    """Refuse what is not transformers' `LlamaForCausalLM`."""
    from transformers import LlamaForCausalLM

    if not isinstance(model, LlamaForCausalLM):
        kind = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
        raise TypeError(f"The model is of the type {kind}, but the course writes with a LlamaForCausalLM.")


def require_llama_config(config):
    """Refuse a config that lacks fields, and what only some models of this architecture have."""
    fields = (*LLAMA_SIZES, "rms_norm_eps", "rope_parameters")
    if missing := [name for name in fields if not hasattr(config, name)]:
        raise ValueError(
            f"The config ({type(config).__name__}) lacks {', '.join(missing)}. Use transformers' LlamaConfig."
        )
    for name in LLAMA_SIZES:
        require_size(name, getattr(config, name))
    require_even(config.head_dim)
    heads, shared = config.num_attention_heads, config.num_key_value_heads
    if heads % shared:
        raise ValueError(
            f"{heads} query heads cannot share {shared} key heads evenly. Choose a divisor of {heads}."
        )
    rope = {"rope_type": "default", **config.rope_parameters}
    if rope["rope_type"] != "default" or rope.get("partial_rotary_factor", 1) != 1:
        raise ValueError(
            f"This model scales its rotations ({rope['rope_type']}), which `rotate` does not. "
            "Choose one whose config has no rope_scaling."
        )
    if biased := [name for name in ("attention_bias", "mlp_bias") if getattr(config, name, False)]:
        raise ValueError(
            f"{biased[0]} of the config is True, but this decoder has no biases. Take another model."
        )
    if getattr(config, "hidden_act", "silu") != "silu":
        raise ValueError(
            f'hidden_act of the config is {config.hidden_act!r}, but SwiGLU bends by "silu" only.'
        )


def require_numbers(attentions):
    """Refuse NaN. A comparison with it is False, so every head would seem to guess, and wrongly."""
    if any(layer.isnan().any() for layer in attentions):
        raise ValueError("The model's attention weights hold NaN. Load the model's weights again.")


def require_head_pairs(heads, config):
    """Refuse what are no pairs (layer, head), counted from 0, of heads that the model has."""
    try:
        pairs = [(layer, head) for layer, head in heads]
        whole = all(isinstance(number, (int, np.integer)) for pair in pairs for number in pair)
    except (TypeError, ValueError):
        whole = False
    if not whole or iter(heads) is heads:  # an iterator, which is used up now
        raise TypeError(f"heads is {heads!r}. Give a list of pairs (layer, head), such as [(2, 0)] for L2H0.")
    layers, count = config.num_hidden_layers, config.num_attention_heads
    for layer, head in pairs:
        if not (0 <= layer < layers and 0 <= head < count):
            raise ValueError(
                f"There is no head ({layer}, {head}): layers are 0 to {layers - 1}, heads 0 to {count - 1}."
            )
