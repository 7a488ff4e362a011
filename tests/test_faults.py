"""Faults of a learner's input and of a learner's machine: each ends
in a right result, or in a few plain sentences.

Here are those that cross the rooms, and those that need a notebook, a mount or several processes. The others
are tested with the room in which a learner meets them; the hub and spoilt checkpoints, for example, in
test_models.py.
"""

import copy
import functools
import json
import os
import re
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.font_manager import FontManager, json_dump
from packaging.specifiers import SpecifierSet
from view_samples import unpack

import course
from utils import start
from utils.encoder import Encoder
from utils.heads import measure_links, score_pronouns
from utils.patterns import score_patterns
from utils.plots import attention_table, plot_attention
from utils.treebank import Sentence
from utils.views import head_view, model_view, neuron_view

ROOT = Path(__file__).resolve().parent.parent


def assert_plain(message, *facts):
    """The message holds these facts, in at most three sentences on one line."""
    assert all(fact in message for fact in facts), message
    assert len(re.split(r"[.!?]\s+", message.strip())) <= 3 and "\n" not in message.strip(), message


def data_of(view):
    """What the page of a view draws first: tokens, and weights with their shape."""
    return json.loads(re.search(r"^const view = (.*);$", view.html, flags=re.MULTILINE)[1])["attention"][0]


# ------------------------------------------------------------------------------------------- texts, tensors,
# models

# The tokens are those of WordPiece as its paper and BERT's own reading define them, worked out by hand.
TEXTS = [
    pytest.param("", [], id="empty"),
    pytest.param(" \n\t ", [], id="white space only"),
    pytest.param("👍 great 👩‍👩‍👧 day", ["[UNK]", "great", "[UNK]", "day"], id="emoji"),
    pytest.param("注力 is 力", ["[UNK]", "力", "is", "力"], id="CJK"),
    pytest.param("של مر", ["ש", "##ל", "م", "##ر"], id="right-to-left"),
    pytest.param("a\u200bb c\u200d\ufeff", ["ab", "c"], id="zero-width"),
    pytest.param("\u200b", [], id="zero-width only"),
    pytest.param("\x00d\x07og", ["dog"], id="control characters"),
]


@pytest.fixture(scope="module")
def twin(bert):
    return Encoder.from_bert(bert[1])


@pytest.mark.parametrize("text, pieces", TEXTS)
def test_odd_text_gives_a_right_result_everywhere(bert, twin, text, pieces):
    """From the tokenizer to the views; the hidden states are those of transformers' BERT."""
    tokenizer, model = bert
    inputs = tokenizer(text, return_tensors="pt")
    tokens = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
    assert tokens == ["[CLS]", *pieces, "[SEP]"]
    with torch.no_grad():
        outputs = model(**inputs, output_attentions=True)
        torch.testing.assert_close(twin(**inputs).last_hidden_state, outputs.last_hidden_state)
    views = [head_view(outputs.attentions, tokens), model_view(outputs.attentions, tokens)]
    views += [neuron_view(model, tokenizer, text)] if text.strip() else []
    assert all(data_of(view)["left_text"] == tokens for view in views)
    assert views[0].png.startswith(b"\x89PNG")
    weights = outputs.attentions[0][0, 0]
    assert list(attention_table(weights, tokens).index) == tokens
    assert [label.get_text() for label in plot_attention(weights, tokens).get_yticklabels()] == tokens
    plt.close("all")
    patterns = score_patterns(outputs.attentions, tokens)
    assert "delimiter" in patterns and all(of_heads.isfinite().all() for of_heads in patterns.values())
    assert ("identical" in patterns) == any(piece.strip("#").isalnum() for piece in pieces)


def test_odd_words_in_a_treebank_are_measured_or_skipped_aloud(bert, capsys):
    tokenizer, model = bert
    words = ["👍", "力", "של", "dog", "\u200b"]
    rest = (["NOUN", "VERB"], [1, -1], ["nsubj", "root"], [None, None])
    links = measure_links(model, tokenizer, [Sentence([word, "barks"], *rest) for word in words])
    assert links.sentence.tolist() == [0, 1, 2, 3]
    assert links.hits.all()  # with two words there is one candidate, so every guess hits
    assert "Skipped 1 of 5 sentences: the tokenizer makes no token of a word." in capsys.readouterr().out


def test_pair_with_an_empty_first_sentence_is_drawn(bert):
    tokenizer, model = bert
    inputs = tokenizer("", "a dog", return_tensors="pt")
    tokens, start_of_b = ["[CLS]", "[SEP]", "a", "dog", "[SEP]"], 2
    assert tokenizer.convert_ids_to_tokens(inputs["input_ids"][0]) == tokens
    assert inputs["token_type_ids"][0].tolist().index(1) == start_of_b
    with torch.no_grad():
        attentions = model(**inputs, output_attentions=True).attentions
    assert data_of(head_view(attentions, tokens, start_of_b))["left_text"] == tokens
    patterns = score_patterns(attentions, tokens, start_of_b)
    assert "other sentence" not in patterns  # A has no word that could look at B
    assert patterns["next"].isfinite().all()


@pytest.mark.parametrize("dtype, near", [(torch.float16, 0.01), (torch.bfloat16, 0.1)], ids=["fp16", "bf16"])
def test_model_of_half_precision_works_everywhere(bert, dtype, near):
    """Its numbers are those of the same model in float64, as far as 11 or 8 bits go."""
    tokenizer, exact = bert
    model = copy.deepcopy(exact).to(dtype)
    words = ["The", "cat", "sat", "on", "the", "mat", "because", "it", "was", "tired"]
    inputs = tokenizer(" ".join(words), return_tensors="pt")
    tokens = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
    with torch.no_grad():
        outputs, own = model(**inputs, output_attentions=True), Encoder.from_bert(model)(**inputs)
        torch.testing.assert_close(own.last_hidden_state, outputs.last_hidden_state)
        truth = torch.cat(exact(**inputs, output_attentions=True).attentions)  # (layers, heads, query, key)
    drawn = data_of(model_view(outputs.attentions, tokens))
    levels = torch.from_numpy(unpack(drawn["weights"], "<u2").astype(float)).view(drawn["shape"])
    assert ((levels / 4095) ** 2 - truth).abs().max() < near
    table = attention_table(outputs.attentions[2][0, 0], tokens)
    assert (torch.tensor(table.to_numpy()) - truth[2, 0]).abs().max() < near
    sentence = Sentence(words, ["X"] * 10, [1, 2, -1, 5, 5, 2, 9, 9, 9, 2], ["dep"] * 10, [None] * 10)
    hits = measure_links(model, tokenizer, [sentence]).hits
    assert (hits == measure_links(exact, tokenizer, [sentence]).hits).mean() > 0.95


@pytest.fixture(scope="module")
def broken(bert):
    """A BERT of which one row of weights is NaN, and its tokenizer."""
    model = copy.deepcopy(bert[1])
    with torch.no_grad():
        model.encoder.layer[2].attention.self.query.weight[3] = torch.nan
    return model, bert[0]


EYE, LONG = torch.eye(602), ["long"] * 602
NAN, ABC = torch.full((3, 3), torch.nan), ["a", "b", "c"]
DOG = Sentence(["dogs", "bark"], ["NOUN", "VERB"], [1, -1], ["nsubj", "root"], [None, None])
SHE = Sentence(
    ["Anna", "told", "Tom", "she", "won"],
    ["PROPN", "VERB", "PROPN", "PRON", "VERB"],
    [1, -1, 1, 4, 1],
    ["dep"] * 5,
    [None, None, None, 0, None],
)
REFUSED = {
    "602 tokens in a heat map": (lambda _: plot_attention(EYE, LONG), "602 tokens", "at most 128"),
    "602 tokens in a model view": (
        lambda _: model_view([EYE[None, None]], LONG),
        "602 tokens",
        "at most 256",
    ),
    "NaN in a table": (lambda _: attention_table(NAN, ABC), "NaN"),
    "NaN in a heat map": (lambda _: plot_attention(NAN, ABC), "NaN"),
    "NaN in a model view": (lambda _: model_view([NAN[None, None]], ABC), "NaN"),
    "NaN in patterns": (lambda _: score_patterns([NAN[None, None]], ABC), "NaN"),
    "NaN in links": (lambda broken: measure_links(*broken, [DOG]), "NaN"),
    "NaN in pronouns": (lambda broken: score_pronouns(*broken, [SHE] * 4), "NaN"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_shown_or_measured_is_refused_at_once(broken, case):
    call, *facts = REFUSED[case]
    begin = time.process_time()  # the work, whatever else the machine does meanwhile
    with pytest.raises(ValueError) as caught:
        call(broken)
    assert time.process_time() - begin < 5
    assert_plain(str(caught.value), *facts)


def test_what_is_long_is_shown_in_short_or_whole():
    shown = attention_table(EYE, LONG)._repr_html_()
    assert len(shown) < 100_000 and "602 rows" in shown
    assert score_patterns([EYE[None, None]], LONG)["next"][0, 0] == 0  # each token looks at itself
    assert attention_table(EYE[:2, :128], LONG[:2], LONG[:128])._repr_html_().count("<td") == 2 * 128
    assert len(plot_attention(EYE[:128, :128], LONG[:128]).get_yticklabels()) == 128
    plt.close("all")


# ------------------------------------------------------------------------------ versions that the course does
# not know


@pytest.fixture
def set_up(tmp_path, monkeypatch):
    """A function that runs the set-up cell of the notebooks where
    Python finds these versions before its own."""

    def run(versions):
        for name, version in versions.items():
            info = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Name: {name}\n" + f"Version: {version}\n" * bool(version))
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(sys, "path", list(sys.path))
        monkeypatch.chdir(ROOT / "notebooks")
        exec(compile(course.set_up(), "set-up", "exec"), {})

    return run


UNFIT = [
    "torch 2.5.1",
    "torch 3.0.0",
    "transformers 4.57.1",
    "transformers 6.0.0.dev0",
    "pandas 2.1.4",
    "pandas 4.0.0rc1",
    "matplotlib 3.8.4",
    "ipywidgets 9.0",
    "bertviz 1.5",
    "mpld3 0.6.0",
    "transformers 4.57.1, pandas 1.5.3, conllu 7.0",
]


@pytest.mark.parametrize("versions", UNFIT)
def test_set_up_cell_names_an_unfit_version_and_the_command(versions, set_up):
    found = dict(pair.split() for pair in versions.split(", "))
    with pytest.raises(start.PackagesUnfit) as caught:
        set_up(found)
    requirements = "\n".join(file.read_text(encoding="utf-8") for file in start.FILES)
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)", requirements, re.MULTILINE))
    command = " ".join(f"{name}=={pins[name]}" for name in found)
    assert_plain(str(caught.value), versions, f"`%pip install {command}`", "restart the kernel")
    ranges = dict(re.findall(r"([\w-]+) (>=[\d.]+,<[\d.]+)", str(caught.value)))
    assert list(ranges) == list(found)
    for name, range_ in ranges.items():  # as pip reads it
        assert not SpecifierSet(range_).contains(found[name], prereleases=False)
        assert SpecifierSet(range_).contains(pins[name])


FIT = {
    "Colab": "torch 2.11.0+cu128, transformers 5.15.0, pandas 2.2.3, matplotlib 3.10.0, ipywidgets 7.7.1",
    "newer": "torch 2.99.1, transformers 5.99.0, pandas 3.99, matplotlib 3.99.1, bertviz 1.4.9, conllu 6.1",
    "oldest": ", ".join(f"{name} {oldest}" for name, (oldest, _) in start.WORKS_WITH.items()),
}


@pytest.mark.parametrize("case", FIT)
def test_versions_that_the_course_works_with_pass(case, set_up):
    versions = dict(pair.split() for pair in FIT[case].split(", "))
    set_up(versions)
    assert {name: metadata.version(name) for name in versions} == versions


def test_package_that_was_removed_halfway_counts_as_missing(set_up):
    with pytest.raises(start.PackagesMissing) as caught:
        set_up({"conllu": ""})
    assert_plain(str(caught.value), "conllu", "make lab")


# ------------------------------------------------------------------------------- cells twice, out of order,
# restarted

# Plays cells as a notebook's kernel does, in one process. What it gets and gives is JSON, which is ASCII.
PLAY = r"""
import json, os, sys

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

class ZMQ(InteractiveShell):
    kernel = None  # pandas looks for this and the class: a table is then as wide as in a notebook

shell = ZMQ.instance()

def play(source):
    with capture_output() as shown:
        shell.display_trap.hook = sys.displayhook  # what the last line of a cell gives is captured, too
        result = shell.run_cell(source)
    error = result.error_before_exec or result.error_in_exec
    return {
        "error": error and f"{type(error).__name__}: {error}",
        "stdout": shown.stdout,
        "stderr": shown.stderr,
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
    backwards = [play(cell) for cell in (cells[0], *reversed(cells[1:]))]
    report[name] = {"twice": twice, "backwards": backwards, "forwards": [play(cell) for cell in cells]}
print("\\n" + json.dumps(report))
"""
# What a user may have set, of which a fresh Python hears nothing; and what it hears instead, as in a
# notebook.
OWN = re.compile(r"(?i)HF_|COURSE_|IPYTHONDIR|PYTHON|XDG_|.*_proxy$|.*DISPLAY$")
USUAL = {"COURSE_STATIC_VIEWS": "1", "MPLBACKEND": "module://matplotlib_inline.backend_inline"}


@pytest.fixture(scope="module")
def fonts(tmp_path_factory):
    """A folder with matplotlib's list of fonts: making one takes long
    on a busy machine, and matplotlib says so."""
    folder = tmp_path_factory.mktemp("fonts")
    json_dump(FontManager(), folder / f"fontlist-v{FontManager.__version__}.json")
    return str(folder)


def python(script, given, folder, **settings):
    """Return what a script put into `report`, run by a fresh Python
    without the settings of this one's user."""
    env = {name: value for name, value in os.environ.items() if not OWN.match(name)} | USUAL | settings
    command = [sys.executable, "-c", script]
    given = json.dumps(given)
    done = subprocess.run(command, input=given, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]) | {"stderr": done.stderr}


@functools.cache
def code_of(number):
    """Return the code cells of a notebook, with their stored outputs."""
    (path,) = (path for path in course.paths() if path.name.startswith(number))
    return [cell for cell in course.read(path).cells if cell.cell_type == "code"]


def assert_right(cells, played):
    """Each cell shows what the committed notebook shows: the lines, the texts and the number of pictures."""
    for cell, now in zip(cells, played, strict=True):
        shown = [output.data for output in cell.outputs if "data" in output]
        assert now == {
            "error": None,
            "stdout": "".join(output.text for output in cell.outputs if output.output_type == "stream"),
            "stderr": "",
            "plain": [data.get("text/plain") for data in shown],
            "pictures": sum("image/png" in data for data in shown),
        }, cell.source


@pytest.fixture(scope="module")
def orders(fonts, tmp_path_factory):
    cells = {number: [cell.source for cell in code_of(number)] for number in ("01", "06")}
    settings = {"MPLCONFIGDIR": fonts, "IPYTHONDIR": str(tmp_path_factory.mktemp("ipython"))}
    return python(PLAY + ORDERS, cells, ROOT / "notebooks", **settings)


@pytest.mark.slow
@pytest.mark.parametrize("number", ["01", "06"])
def test_each_cell_run_twice_gives_the_same_right_result(orders, number):
    for run in (0, 1):
        assert_right(code_of(number), [both[run] for both in orders[number]["twice"]])


@pytest.mark.slow
@pytest.mark.parametrize("number", ["01", "06"])
def test_cells_out_of_order_name_what_is_not_there_yet_and_run_all_mends_it(orders, number):
    """Last cell first, after a restart: Python says which name the cells above would have made."""
    cells, names = code_of(number), set()
    for place, now in zip([0, *range(len(cells) - 1, 0, -1)], orders[number]["backwards"], strict=True):
        if now["error"] is not None:
            lacking = re.fullmatch(r"NameError: name '(\w+)' is not defined", now["error"])
            assert lacking, (cells[place].source, now["error"])
            assert any(lacking[1] in cell.source for cell in cells[:place])
            names.add(lacking[1])
    assert len(names) > 3  # else nothing was out of order
    assert_right(cells, orders[number]["forwards"])
