"""What the neuron view is given: a model's inputs with the texts of their tokens; and what its page gets."""

import inspect
import zlib
from dataclasses import dataclass

import numpy as np
import torch

from ..capture import Stack
from .page import deflate
from .panels import read_indices, read_tokens
from .tokens import prettify, sides_of

MOST_TOKENS = 128  # of each list: a browser draws a cell for each number of each vector
MOST_NUMBERS = 12_000_000  # in all vectors: a page of 30 MB
MOST_EXACT = 200_000  # so many numbers are in the page as float32, more of them in 16 bits each
ROUNDED = "so many vectors are in 16 bits each: weights are within 0.001, with fewer layers within 0.00001"
SPARE = ("token_type_ids", "attention_mask")  # of one text, which a model that lacks them can do without
MORE_WAYS = "Or pass inputs, a dict of what the model takes, with tokens, the text of each position."


@dataclass
class Reading:
    """What a model is run on, and the texts that its positions stand for, with the marks of their tokenizer."""

    inputs: dict
    encoder_tokens: list[str]
    decoder_tokens: list[str]  # the same where there is only one list
    sentence_b_start: int | None = None

    def tokens_of(self, stack):
        """Return the texts of the queries and of the keys of a stack. Raises ValueError for another number of them."""
        query = self.encoder_tokens if stack.name == "Encoder" else self.decoder_tokens
        key = self.encoder_tokens if stack.name == "Cross" else query
        sizes = (stack.query.shape[2], stack.key.shape[2])
        if sizes != (len(query), len(key)):
            raise ValueError(
                f"{stack.name}: the model attends from {sizes[0]} to {sizes[1]} positions, but there are {len(query)} "
                f"and {len(key)} tokens. Give a token for each position that the model sees, or draw a part of it."
            )
        return query, key


def read_texts(model, tokenizer, sentence_a, sentence_b):
    """Return the model to run, and what the tokenizer makes of one text or two.

    The second text is a pair's, or what an encoder-decoder writes. Without it an encoder-decoder runs its encoder.
    """
    _require_model(model)
    if isinstance(tokenizer, str):
        raise TypeError(
            f"tokenizer is {tokenizer!r}. bertviz takes the model's type here; this view finds it by itself: "
            "neuron_view(model, tokenizer, sentence_a)."
        )
    for name, sentence in (("sentence_a", sentence_a), ("sentence_b", sentence_b)):
        if isinstance(sentence, list | tuple):
            raise TypeError(
                f"{name} is a {type(sentence).__name__}, and a view shows one text. Pass one of its texts, "
                "or draw each in a view of its own."
            )
        if not isinstance(sentence, str) and not (name == "sentence_b" and sentence is None):
            raise TypeError(f"{name} must be a text, not {type(sentence).__name__}. {MORE_WAYS}")
        if sentence is not None and not sentence.strip():
            raise ValueError(f"{name} is empty, so there is nothing to draw. Give a text, or leave it out.")
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        inputs = _tokenize(tokenizer, sentence_a)
        tokens = _tokens(tokenizer, inputs["input_ids"])
        if sentence_b is None:
            model = model.get_encoder()
            return model, Reading(_known(model, inputs), tokens, tokens)
        ids = _decoder_ids(model, _tokenize(tokenizer, text_target=sentence_b)["input_ids"])
        inputs = _known(model, {**inputs, "decoder_input_ids": ids})
        return model, Reading(inputs, tokens, _tokens(tokenizer, ids))
    inputs = _tokenize(tokenizer, sentence_a, sentence_b)
    tokens = _tokens(tokenizer, inputs["input_ids"])
    start = None if sentence_b is None else _sentence_b_start(inputs)
    return model, Reading(_known(model, inputs), tokens, tokens, start)


def read_inputs(model, inputs, tokens, encoder_tokens, decoder_tokens):
    """Return what a model is run on from what the caller has made ready."""
    _require_model(model)
    if not isinstance(inputs, dict) and not hasattr(inputs, "keys"):
        raise TypeError(f"inputs must be a dict of what the model takes, not {type(inputs).__name__}.")
    if inputs.get("past_key_values") is not None:
        raise ValueError("inputs hold past_key_values, which a run changes. Pass the text without them.")
    for name, part in inputs.items():
        if isinstance(part, list | np.ndarray):
            raise TypeError(
                f"{name} in inputs is of the type {type(part).__name__}; a model takes tensors, with a batch of one. "
                'A tokenizer makes them with return_tensors="pt".'
            )
    if (ids := inputs.get("input_ids")) is not None and ids.dim() != 2:
        raise ValueError(f"input_ids has the shape {tuple(ids.shape)}; a model takes (1, tokens).")
    batch = max((len(part) for part in inputs.values() if getattr(part, "ndim", 0) > 1), default=1)
    if batch > 1:
        raise ValueError(f"inputs hold a batch of {batch} texts. Pass one text, without padding.")
    if tokens is not None:
        if encoder_tokens is not None or decoder_tokens is not None:
            raise ValueError("tokens is for a single stack, the others are for an encoder-decoder.")
        encoder_tokens = decoder_tokens = tokens
    lists = []
    for name, texts in {"encoder_tokens": encoder_tokens, "decoder_tokens": decoder_tokens}.items():
        lists.append(read_tokens(texts, f"tokens or {name}", "neuron_view with inputs"))
        _require_few(len(lists[-1]))
    return Reading(_on_device(model, inputs), *lists)


@dataclass
class NeuronPanel:
    """A stack with the texts of its tokens, cut to the layers and heads that the page holds."""

    stack: Stack
    layers: list[int]  # as the model counts them
    heads: list[int]
    query_tokens: list[str]  # as they are shown
    key_tokens: list[str]
    sides: dict  # which tokens make a word and which are special, for the page


def make_panels(stacks, include_layers, include_heads, given):
    """Return the panels of the stacks for some of their layers and heads. given: the `Reading` that has their tokens."""
    there = sorted({layer for stack in stacks for layer in stack.layers})
    layers = read_indices("include_layers", include_layers, there)
    heads = read_indices("include_heads", include_heads, range(max(stack.query.shape[1] for stack in stacks)))
    panels = []
    for stack in stacks:
        own_layers = [one for one in layers if one in stack.layers]
        own_heads = [one for one in heads if one < stack.query.shape[1]]
        if own_layers and own_heads:
            lists = given.tokens_of(stack)
            panels.append(NeuronPanel(stack, own_layers, own_heads, *map(prettify, lists), sides_of(*lists)))
    return panels


def pack(panel, exact):
    """Return a panel for the page: vectors, and beside them what it needs to compute the weights.

    Nothing is beside them where the weights are softmax(q·k/√d). exact: whether the vectors are float32.
    """
    stack, heads = panel.stack, panel.heads
    rows = [stack.layers.index(layer) for layer in panel.layers]
    key_of = [stack.key_of(head) for head in heads]
    key_heads = sorted(set(key_of))
    query, key = stack.query[rows][:, heads].float(), stack.key[rows][:, key_heads].float()
    packed = {
        "name": stack.name,
        "left_text": panel.query_tokens,
        "right_text": panel.key_tokens,
        "layers": panel.layers,
        "heads": heads,
        "formula": [stack.formula(row) for row in rows],
        "key_of": [key_heads.index(one) for one in key_of],
        "queries": _vectors(query, exact),
        "keys": _vectors(key, exact),
    } | panel.sides
    if stack.has_own_scale:
        packed["scale"] = stack.scale[rows].tolist()
    if stack.softcap:
        packed["softcap"] = stack.softcap
    if stack.sinks is not None:
        packed["sinks"] = stack.sinks[rows][:, heads].float().tolist()
    if stack.added is not None:
        tables, added_of = _distinct(stack.added[rows].float().numpy())  # most layers share one
        if tables.shape[1] > 1:
            tables = tables[:, heads]
        packed |= {
            "added": deflate(tables, zlib.Z_DEFAULT_STRATEGY),
            "added_shape": list(tables.shape),
            "added_of": added_of,
        }
    return packed


def _distinct(tables):
    """Return the tables that differ, and which of them each is."""
    seen = {}
    which = [seen.setdefault(table.tobytes(), len(seen)) for table in tables]
    return tables[[which.index(place) for place in range(len(seen))]], which


def _vectors(vectors, exact):
    """Return vectors (layers, heads, tokens, head_dim) for the page: as float32, or in 16 bits and a unit for each head."""
    if exact:
        return {"shape": list(vectors.shape), "numbers": deflate(vectors.numpy())}
    units = vectors.abs().amax((2, 3)).clamp(min=1e-30) / 32767  # (layers, heads)
    levels = (vectors / units[..., None, None]).round().numpy().astype(np.int16)
    return {"shape": list(vectors.shape), "numbers": deflate(levels), "units": units.flatten().tolist()}


def require_page(panels):
    """Refuse more numbers than a page can hold, and return how many there are."""
    count = 0
    for panel in panels:
        query, key = panel.stack.query, panel.stack.key
        keys = len({panel.stack.key_of(head) for head in panel.heads})
        count += len(panel.layers) * (len(panel.heads) * query[0, 0].numel() + keys * key[0, 0].numel())
    if count > MOST_NUMBERS:
        raise ValueError(
            f"The query and key vectors are {count:,} numbers, a page of about {count * 5 // 2 // 10**6} MB; at most "
            f"{MOST_NUMBERS:,} are drawn. Choose some with include_layers and include_heads, or cut the text."
        )
    return count


def _require_model(model):
    if not isinstance(model, torch.nn.Module):
        raise TypeError(
            f"model must be a loaded model, for example a BertModel, not {type(model).__name__}. "
            "The order is neuron_view(model, tokenizer, sentence_a)."
        )


def _tokenize(tokenizer, *texts, **named):
    if not callable(tokenizer):
        raise TypeError(f"tokenizer must be that of the model, not {type(tokenizer).__name__}. {MORE_WAYS}")
    inputs = tokenizer(*texts, **named, return_tensors="pt")
    if "input_ids" not in inputs:
        raise TypeError(f"{type(tokenizer).__name__} makes no input_ids of a text. {MORE_WAYS}")
    return inputs


def _tokens(tokenizer, ids):
    _require_few(ids.shape[1])
    return read_tokens(tokenizer.convert_ids_to_tokens(ids[0].tolist()), "tokens", "neuron_view")


def _require_few(count):
    if count > MOST_TOKENS:
        raise ValueError(f"{count} tokens would freeze the browser; at most {MOST_TOKENS} fit. Cut them.")


def _decoder_ids(model, target_ids):
    """Return the ids that a decoder reads while it writes the target: one place later, after a token of start."""
    if hasattr(model, "prepare_decoder_input_ids_from_labels"):
        return model.prepare_decoder_input_ids_from_labels(target_ids)
    start = getattr(model.config, "decoder_start_token_id", None)
    if start is None:
        raise ValueError(
            f"The config of {type(model).__name__} has no decoder_start_token_id, with which its decoder would begin. "
            "Load the model with its head (for conditional generation), or pass inputs with decoder_input_ids."
        )
    return torch.cat([torch.full_like(target_ids[:, :1], start), target_ids[:, :-1]], dim=1)


def _sentence_b_start(inputs):
    """Return the index of the first token of sentence B: by the tokenizer's types, or by where its words stand."""
    if 1 in inputs.get("token_type_ids", torch.zeros(1, 1)):
        return inputs["token_type_ids"][0].tolist().index(1)
    sentences = inputs.sequence_ids(0) if hasattr(inputs, "sequence_ids") else []
    if 1 not in sentences:
        raise ValueError("The tokenizer does not say where sentence B begins. Leave sentence_b out.")
    end_of_a = len(sentences) - sentences[::-1].index(0)
    # RoBERTa has two separators: the first is A's, as in bertviz.
    return min(end_of_a + 1, sentences.index(1))


def _known(model, inputs):
    """Return what the tokenizer made without types of tokens and mask, where the model knows none; where the model is.

    What is around a model (torch.compile, DataParallel) hands on whatever it gets, so the parts in it are asked.
    """
    known = dict(inspect.signature(model.forward).parameters)
    if any(one.kind is one.VAR_POSITIONAL for one in known.values()):
        for part in model.modules():
            known |= inspect.signature(part.forward).parameters
    return _on_device(model, {k: v for k, v in inputs.items() if k not in SPARE or k in known})


def _on_device(model, inputs):
    device = next((weight.device for weight in model.parameters()), "cpu")
    return {name: part.to(device) if hasattr(part, "to") else part for name, part in inputs.items()}
