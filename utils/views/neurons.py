"""What the neuron view is given: a model's inputs with the texts of their tokens; and what its page gets."""

import base64
import inspect
from dataclasses import dataclass

import numpy as np
import torch

from .panels import read_tokens
from .tokens import prettify

MOST_TOKENS = 128  # of each list: a browser draws a cell for each number of each vector
MOST_NUMBERS = 12_000_000  # in all vectors: a page of 64 MB
MORE_WAYS = "Or pass inputs, a dict of what the model takes, with tokens, the text of each position."


@dataclass
class Reading:
    """What a model is run on, and the texts that its positions stand for."""

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
    for name, sentence in (("sentence_a", sentence_a), ("sentence_b", sentence_b)):
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
        return model, Reading(
            _known(model, {**inputs, "decoder_input_ids": ids}), tokens, _tokens(tokenizer, ids)
        )
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
        raise ValueError(
            "inputs hold past_key_values, which the run would change. Pass the whole text without them."
        )
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
        raise ValueError(
            f"inputs hold a batch of {batch}, and a view shows one. Pass one text, without padding."
        )
    if tokens is not None and (encoder_tokens is not None or decoder_tokens is not None):
        raise ValueError(
            "tokens is for a single stack, encoder_tokens and decoder_tokens for an encoder-decoder."
        )
    if tokens is not None:
        encoder_tokens = decoder_tokens = tokens
    encoder_tokens = read_tokens(encoder_tokens, "tokens or encoder_tokens", "neuron_view with inputs")
    decoder_tokens = read_tokens(decoder_tokens, "tokens or decoder_tokens", "neuron_view with inputs")
    for texts in (encoder_tokens, decoder_tokens):
        _require_few(len(texts))
    return Reading(_on_device(model, inputs), prettify(encoder_tokens), prettify(decoder_tokens))


def pack(stack, query_tokens, key_tokens):
    """Return a stack for the page: vectors as float32, and beside them what it needs to compute the weights.

    Nothing is beside them where the weights are softmax(q·k/√d).
    """
    panel = {
        "name": stack.name,
        "left_text": query_tokens,
        "right_text": key_tokens,
        "shape": list(stack.query.shape),
        "queries": floats(stack.query),
        "keys": floats(stack.key),
    }
    if stack.query.shape != stack.key.shape:
        panel["key_shape"] = list(stack.key.shape)
    if stack.has_own_scale:
        panel["scale"] = stack.scale.tolist()
    if stack.softcap:
        panel["softcap"] = stack.softcap
    if stack.sinks is not None:
        panel["sinks"] = stack.sinks.float().tolist()
    if stack.added is not None:
        tables, rows = stack.added.unique(dim=0, return_inverse=True)  # most layers share one
        panel |= {"added": floats(tables), "added_shape": list(tables.shape), "added_of": rows.tolist()}
    return panel


def floats(numbers):
    """Return the numbers as float32 in base64, low byte first."""
    return base64.b64encode(numbers.float().numpy().astype("<f4").tobytes()).decode("ascii")


def require_page(stacks):
    """Refuse more numbers than a page can hold."""
    count = sum(stack.query.numel() + stack.key.numel() for stack in stacks)
    if count > MOST_NUMBERS:
        raise ValueError(
            f"The query and key vectors are {count:,} numbers, a page of {count * 16 // 3 // 10**6} MB; at most "
            f"{MOST_NUMBERS:,} are drawn. Cut the text."
        )


def _require_model(model):
    if not isinstance(model, torch.nn.Module):
        raise TypeError(
            f"model must be a loaded model, for example a BertModel, not {type(model).__name__}. "
            "The order is neuron_view(model, tokenizer, sentence_a)."
        )


def _tokenize(tokenizer, *texts, **named):
    if not callable(tokenizer):
        raise TypeError(
            f"tokenizer must be the tokenizer of the model, not {type(tokenizer).__name__}. {MORE_WAYS}"
        )
    inputs = tokenizer(*texts, **named, return_tensors="pt")
    if "input_ids" not in inputs:
        raise TypeError(f"{type(tokenizer).__name__} makes no input_ids of a text. {MORE_WAYS}")
    return inputs


def _tokens(tokenizer, ids):
    _require_few(ids.shape[1])
    return prettify(read_tokens(tokenizer.convert_ids_to_tokens(ids[0].tolist()), "tokens", "neuron_view"))


def _require_few(count):
    if count > MOST_TOKENS:
        most = f"the neuron view draws at most {MOST_TOKENS}"
        raise ValueError(f"{count} tokens would freeze the browser; {most}. Cut the text.")


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
    """Return what the tokenizer made without the types of tokens, where the model knows none; where the model is.

    What is around a model (torch.compile, DataParallel) hands on whatever it gets, so the parts in it are asked.
    """
    known = dict(inspect.signature(model.forward).parameters)
    if any(one.kind is one.VAR_POSITIONAL for one in known.values()):
        for part in model.modules():
            known |= inspect.signature(part.forward).parameters
    return _on_device(model, {k: v for k, v in inputs.items() if k != "token_type_ids" or k in known})


def _on_device(model, inputs):
    device = next((weight.device for weight in model.parameters()), "cpu")
    return {name: part.to(device) if hasattr(part, "to") else part for name, part in inputs.items()}
