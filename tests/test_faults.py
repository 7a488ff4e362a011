"""Faults that cross the rooms: odd texts, half precision, and cells that are run twice or out of order."""

import copy
import functools
import re

import matplotlib.pyplot as plt
import nbformat
import pytest
import torch
from view_samples import data_of

import course
import runner
from utils.encoder import Encoder
from utils.patterns import score_patterns
from utils.plots import attention_table, plot_attention
from utils.views import head_view, model_view, neuron_view

NUMBERS = ["01", "06"]  # the notebooks whose cells are run twice, and backwards
# The tokens are those of WordPiece as its paper and BERT's own reading define them, worked out by hand.
TEXTS = [
    ("", []),
    (" \n\t ", []),
    ("👍 great 👩‍👩‍👧 day", ["[UNK]", "great", "[UNK]", "day"]),
    ("注力 is 力", ["[UNK]", "力", "is", "力"]),
    ("של مر", ["ש", "##ל", "م", "##ر"]),
    ("a\u200bb c\u200d\ufeff", ["ab", "c"]),
    ("\u200b", []),
    ("\x00d\x07og", ["dog"]),
]


@pytest.mark.parametrize("text, pieces", TEXTS)
def test_odd_text_gives_a_right_result_everywhere(bert, text, pieces):
    tokenizer, model = bert
    inputs = tokenizer(text, return_tensors="pt")
    tokens = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
    assert tokens == ["[CLS]", *pieces, "[SEP]"]
    outputs = model(**inputs, output_attentions=True)
    own = Encoder.from_bert(model)(**inputs)
    torch.testing.assert_close(own.last_hidden_state, outputs.last_hidden_state)
    views = [head_view(outputs.attentions, tokens), model_view(outputs.attentions, tokens)]
    views += [neuron_view(model, tokenizer, text)] if text.strip() else []
    assert all(data_of(view)["attention"][0]["left_text"] == tokens for view in views)
    assert views[0].png.startswith(b"\x89PNG")
    weights = outputs.attentions[0][0, 0]
    assert list(attention_table(weights, tokens).index) == tokens
    assert [label.get_text() for label in plot_attention(weights, tokens).get_yticklabels()] == tokens
    plt.close("all")
    patterns = score_patterns(outputs.attentions, tokens)
    assert "delimiter" in patterns and all(of_heads.isfinite().all() for of_heads in patterns.values())
    assert ("identical" in patterns) == any(piece.strip("#").isalnum() for piece in pieces)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
def test_twin_of_a_model_of_half_precision_equals_it(bert, dtype):
    """What the views draw of such a model is in test_views.py."""
    model = copy.deepcopy(bert[1]).to(dtype)
    inputs = bert[0]("The cat sat on the mat because it was tired", return_tensors="pt")
    own, theirs = (one(**inputs).last_hidden_state for one in (Encoder.from_bert(model), model))
    torch.testing.assert_close(own, theirs)


@functools.cache
def code_of(number):
    """Return the code cells of a notebook, with their stored outputs."""
    (path,) = (path for path in course.paths() if path.name.startswith(number))
    return [cell for cell in course.read(path).cells if cell.cell_type == "code"]


def shown(cell):
    """What a cell shows: lines, texts and errors, and of which kinds they are; of a picture, that it is."""
    each = [(output.output_type, output.get("text"), output.get("data", {})) for output in cell.outputs]
    return [(kind, text, data.get("text/plain"), sorted(data)) for kind, text, data in each]


@pytest.fixture(scope="module")
def orders():
    """The cells of both notebooks in one kernel: from anew backwards, then each twice."""
    row, places = [], {}
    for number in NUMBERS:
        row += ["%reset -f"]  # as a restart leaves it: no name is known
        cells = [cell.source for cell in code_of(number)]
        parts = {"backwards": [cells[0], *cells[:0:-1]], "twice": [cell for cell in cells for _ in range(2)]}
        for name, part in parts.items():
            places[number, name] = slice(len(row), len(row) + len(part))
            row += part
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in row])
    runner.execute(notebook, allow_errors=True)
    return {key: notebook.cells[place] for key, place in places.items()}


@pytest.mark.slow
@pytest.mark.parametrize("number", NUMBERS)
def test_each_cell_run_twice_gives_the_same_right_result(orders, number):
    """Also behind the disorder of the test below: Run All mends it."""
    for place, now in enumerate(orders[number, "twice"]):
        assert shown(now) == shown(cell := code_of(number)[place // 2]), cell.source


@pytest.mark.slow
@pytest.mark.parametrize("number", NUMBERS)
def test_cells_out_of_order_name_what_is_not_there_yet(orders, number):
    cells, names = code_of(number), set()
    for place, now in zip([0, *range(len(cells) - 1, 0, -1)], orders[number, "backwards"], strict=True):
        for error in (output for output in now.outputs if output.output_type == "error"):
            lacking = re.fullmatch(r"name '(\w+)' is not defined", error.evalue)
            assert lacking and error.ename == "NameError", (cells[place].source, error.evalue)
            assert any(lacking[1] in cell.source for cell in cells[:place])
            names.add(lacking[1])
    assert len(names) > 3  # else nothing was out of order
