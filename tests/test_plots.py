"""The plots room: tables and heat maps that say what the tensor holds."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import matplotlib
import pandas as pd
import pytest
import torch

from utils.plots import attention_table, plot_attention

matplotlib.use("agg")
ROOT = Path(__file__).parent.parent
TOKENS = ["the", "cat", "saw", "the", "dog"]


@pytest.fixture
def attn_weights():
    torch.manual_seed(0)
    return torch.softmax(torch.randn(5, 5, dtype=torch.float64), dim=-1)


class Cells(HTMLParser):
    """The texts of a table's cells, row by row."""

    def __init__(self):
        super().__init__()
        self.rows, self.inside = [], False

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        self.inside = tag in ("td", "th")

    def handle_data(self, data):
        if self.inside and data.strip():
            self.rows[-1].append(data.strip())


def cells(table):
    parser = Cells()
    parser.feed(table._repr_html_())
    return parser.rows


def test_table_is_a_dataframe_with_queries_as_rows_and_keys_as_columns(attn_weights):
    table = attention_table(attn_weights, TOKENS)
    assert isinstance(table, pd.DataFrame)
    assert (table.index.name, table.columns.name) == ("query", "key")
    assert list(table.index) == list(table.columns) == TOKENS
    assert table.iloc[1, 2] == pytest.approx(attn_weights[1, 2].item(), abs=5e-4)


def test_rows_sum_to_one_and_columns_do_not(attn_weights):
    table = attention_table(attn_weights, TOKENS)
    assert table.sum(axis=1).tolist() == pytest.approx([1.0] * 5, abs=1e-12)
    assert table.sum(axis=0).tolist() != pytest.approx([1.0] * 5, abs=0.1)
    assert type(table.sum(axis=1)) is pd.Series and type(table * 2) is pd.DataFrame


def test_notebook_and_text_show_three_decimals_and_equal_tokens(attn_weights):
    table = attention_table(attn_weights, TOKENS)
    rows = cells(table)
    assert rows[0] == ["query \\ key", *TOKENS]
    for token, row, expected in zip(TOKENS, rows[1:], attn_weights.tolist(), strict=True):
        assert row == [token, *(f"{weight:.3f}" for weight in expected)]
        assert f"{expected[0]:.3f}" in repr(table)


def test_html_is_coloured_stable_and_holds_no_markup_of_tokens(attn_weights):
    wild = ["<script>alert(1)</script>", "&amp;", '"', "$x$", "the"]
    html = attention_table(attn_weights, wild)._repr_html_()
    assert html == attention_table(attn_weights, wild)._repr_html_()
    assert "background-color" in html
    assert "<script" not in html and "&lt;script&gt;" in html and "&amp;amp;" in html


def test_largest_weight_has_the_darkest_colour():
    weights = torch.tensor([[0.9, 0.1], [0.5, 0.5]])
    html = attention_table(weights, ["a", "b"])._repr_html_()
    light_of = [sum(map(int, rgb)) for rgb in re.findall(r"rgb\((\d+),(\d+),(\d+)\)", html)]
    assert light_of[0] < light_of[2] == light_of[3] < light_of[1]


def test_heat_map_shows_the_weights_with_labelled_axes(attn_weights):
    ax = plot_attention(attn_weights, TOKENS, title="head 1-1")
    assert torch.equal(torch.tensor(ax.images[0].get_array().data), attn_weights)
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("key", "query", "head 1-1")
    assert [label.get_text() for label in ax.get_xticklabels()] == TOKENS
    assert [label.get_text() for label in ax.get_yticklabels()] == TOKENS
    assert ax.images[0].get_clim() == (0, 1)


def test_queries_and_keys_may_be_different_tokens():
    weights = torch.softmax(torch.zeros(2, 3), dim=-1)
    assert attention_table(weights, ["x", "y"], ["a", "b", "c"]).shape == (2, 3)
    ax = plot_attention(weights, ["x", "y"], ["a", "b", "c"])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["x", "y"]


def test_drawing_prints_nothing():
    """No font warning, no LaTeX, also with signs that the font lacks, in a process of its own."""
    code = (
        "import io, matplotlib; matplotlib.use('agg'); import torch; from utils.plots import plot_attention\n"
        "ax = plot_attention(torch.eye(3), ['$x$', '中', '🤖'], title='head 1-1')\n"
        "ax.figure.savefig(io.BytesIO())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.mark.parametrize("function", [attention_table, plot_attention])
def test_what_does_not_fit_is_refused_with_both_shapes(function, attn_weights):
    with pytest.raises(ValueError, match=r"\(5, 5\).*4 query tokens and 4 key tokens"):
        function(attn_weights, TOKENS[:4])
    with pytest.raises(ValueError, match=r"\(1, 5, 5\).*one head"):
        function(attn_weights[None], TOKENS)
    with pytest.raises(TypeError, match="not one string"):
        function(attn_weights, "abcde")
    with pytest.raises(TypeError, match="not list"):
        function(attn_weights.tolist(), TOKENS)
