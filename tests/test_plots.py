"""The plots room: tables and heat maps that say what the tensor holds, and pictures with controls."""

import os
import re
import subprocess
import sys

import ipywidgets
import matplotlib
import pandas as pd
import pytest
import torch
from refused import refusals

import course
from utils.plots import MOST_TOKENS, attention_table, grid_of_axes, live, plot_attention, plot_tables

matplotlib.use("agg")
WEIGHTS = torch.randn(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).softmax(-1)
TOKENS = ["the", "cat", "saw", "the", "dog"]


def test_table_shows_queries_as_rows_and_keys_as_columns_with_three_decimals():
    table = attention_table(WEIGHTS, TOKENS)
    assert (table.index.name, table.columns.name) == ("query", "key")
    assert list(table.index) == list(table.columns) == TOKENS
    assert table.to_numpy().tolist() == WEIGHTS.tolist()
    assert type(table.sum(axis=1)) is pd.Series and type(table * 2) is pd.DataFrame
    rows = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row) for row in table._repr_html_().split("<tr>")]
    assert rows[:2] == [[], ["query \\ key", *TOKENS]]
    for token, row, expected in zip(TOKENS, rows[2:], WEIGHTS.tolist(), strict=True):
        assert row == [token, *(f"{weight:.3f}" for weight in expected)]
        assert f"{expected[0]:.3f}" in repr(table)


def test_html_is_stable_without_markup_of_tokens_and_the_largest_weight_is_the_darkest():
    wild = ["<script>alert(1)</script>", "&amp;", '"', "$x$", "the"]
    html = attention_table(WEIGHTS, wild)._repr_html_()
    assert html == attention_table(WEIGHTS, wild)._repr_html_()
    assert "<script" not in html and "&lt;script&gt;" in html and "&amp;amp;" in html
    html = attention_table(torch.tensor([[0.9, 0.1], [0.5, 0.5]]), ["a", "b"])._repr_html_()
    light_of = [sum(map(int, rgb)) for rgb in re.findall(r"rgb\((\d+),(\d+),(\d+)\)", html)]
    assert light_of[0] < light_of[2] == light_of[3] < light_of[1]


@pytest.mark.parametrize("count, columns, rows", [(7, 3, 3), (6, 3, 2), (1, 3, 1), (2, 3, 1), (3, 1, 3)])
def test_a_grid_has_no_empty_axes(count, columns, rows):
    fig, axes = grid_of_axes(count, columns, size=(2, 1.5), sharex=True)
    assert fig.axes == axes and len(axes) == count
    assert fig.get_size_inches().tolist() == [2 * min(count, columns), 1.5 * rows]
    fig.draw_without_rendering()
    places = [ax.get_position() for ax in axes]
    for ax, place in zip(axes, places, strict=True):  # the numbers of the x axis stand where nothing is below
        lowest = not any(below.x0 == place.x0 and below.y0 < place.y0 for below in places)
        assert ax.xaxis.get_tick_params()["labelbottom"] == lowest


def labels(ax):
    """What stands at the queries and at the keys of a heat map."""
    return [[label.get_text() for label in each] for each in (ax.get_yticklabels(), ax.get_xticklabels())]


def test_heat_map_shows_the_weights_with_labelled_axes():
    ax = plot_attention(WEIGHTS, TOKENS, title="L0H0")
    assert torch.equal(torch.tensor(ax.images[0].get_array().data), WEIGHTS)
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title("left")) == ("key", "query", "L0H0")
    assert labels(ax) == [TOKENS, TOKENS] and ax.images[0].get_clim() == (0, 1)
    weights, keys = torch.softmax(torch.zeros(2, 30), dim=-1), [str(number) for number in range(30)]
    assert attention_table(weights, ["x", "y"], keys).shape == (2, 30)
    ax = plot_attention(weights, ["x", "y"], keys)
    assert labels(ax) == [["x", "y"], keys], "queries and keys may be different tokens"
    width, height = ax.figure.get_size_inches()
    assert width > 2 * height, "room for each token"


def test_beyond_most_tokens_the_table_is_that_of_pandas_and_no_map_is_drawn():
    most, more = (torch.full((count, 1), 0.125) for count in (MOST_TOKENS, MOST_TOKENS + 1))
    assert "background-color" in attention_table(most, ["a"] * MOST_TOKENS, ["b"])._repr_html_()
    html = attention_table(more, ["a"] * (MOST_TOKENS + 1), ["b"])._repr_html_()
    assert "background-color" not in html and "0.125" in html and html.count("<tr") < 70
    plot_attention(most, ["a"] * MOST_TOKENS, ["b"])
    with pytest.raises(ValueError, match=f"{MOST_TOKENS + 1}.*{MOST_TOKENS}"):
        plot_attention(more, ["a"] * (MOST_TOKENS + 1), ["b"])


def test_tables_side_by_side_have_0_in_white_and_their_own_or_one_scale():
    tables = {"signed": torch.tensor([[-2.0, 1]]), "weights": torch.tensor([[0.25], [0.5]])}
    tables["zeros"] = torch.zeros(2, 2)
    axes = plot_tables(tables)
    for ax, (title, table) in zip(axes, tables.items(), strict=True):
        assert (ax.get_title("left"), ax.get_xlabel(), ax.get_ylabel()) == (title, "key", "query")
        assert torch.equal(torch.tensor(ax.images[0].get_array().data), table)
        assert min(ax.images[0].to_rgba(0.0)) > 0.95, "0 is white"
    assert [ax.images[0].get_clim() for ax in axes] == [(-2, 2), (0, 0.5), (0, 1)]
    red, _, blue, _ = axes[0].images[0].to_rgba(-2.0)
    assert red > blue, "below 0 is red"
    assert {ax.images[0].get_clim() for ax in plot_tables(tables, "a", "b", limit=3)} == {(-3, 3)}


@pytest.mark.slow
def test_drawing_says_nothing():
    code = "import io, torch; from utils.plots import plot_attention\n"
    code += "plot_attention(torch.eye(3), ['$x$', '中', '🤖'], title='L0H0').figure.savefig(io.BytesIO())"
    env = os.environ | {"MPLBACKEND": "agg", "PYTHONPATH": course.ROOT}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.mark.parametrize("static", [True, False])
def test_first_value_of_each_control_is_drawn_first(static, monkeypatch):
    drawn, shown = [], []

    def interact(redraw, **controls):
        shown.append(ipywidgets.interactive(redraw, **controls))  # but not displayed

    monkeypatch.setenv("COURSE_STATIC_VIEWS", "1" if static else "0")
    monkeypatch.setattr(ipywidgets, "interact", interact)
    live(lambda **chosen: drawn.append(chosen), d=[64, 2, 4], kind=["b", "a"])
    assert drawn == [{"d": 64, "kind": "b"}] and len(shown) == (not static)
    if shown:
        d, kind = shown[0].children[:2]
        assert (d.options, kind.options) == ((2, 4, 64), ("b", "a")), "numbers in order, words as given"
        d.value = 4
        assert drawn[1:] == [{"d": 4, "kind": "b"}]


EYE, HOLE = torch.eye(2), torch.tensor([[1.0, torch.nan]])
test_what_does_not_fit_is_refused = refusals(
    ("fewer tokens", lambda: attention_table(EYE, TOKENS), ValueError, r"\(2, 2\).* 5 query .* 5 key "),
    ("a batch", lambda: attention_table(EYE[None], TOKENS[:2]), ValueError, r"\(1, 2, 2\)"),
    ("one string", lambda: attention_table(EYE, "ab"), TypeError, "list of strings"),
    ("a list", lambda: attention_table([[1.0]], ["a"]), TypeError, "list"),
    ("NaN", lambda: attention_table(HOLE, ["a"], ["a", "b"]), ValueError, "NaN"),
    ("a map with fewer tokens", lambda: plot_attention(EYE, TOKENS), ValueError, r"\(2, 2\).* 5 query "),
    ("no tables", lambda: plot_tables({}), ValueError, "no tables"),
    ("a hole", lambda: plot_tables({"a": EYE, "b": HOLE}), ValueError, "NaN .*in b"),
    ("no limit", lambda: plot_tables({"a": EYE}, limit=0), ValueError, "limit is 0"),
    ("no plots", lambda: grid_of_axes(0, 3), ValueError, "at least one"),
    ("no columns", lambda: grid_of_axes(2, 0), ValueError, "at least one"),
)
