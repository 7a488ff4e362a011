"""Attention weights as a table and as a heat map; any tables side by side; and a picture with controls."""

import html
import math
import os
import warnings

import matplotlib.pyplot as plt
import pandas as pd
import scienceplots  # noqa: F401  (importing it makes its styles known to matplotlib)
import torch
from cycler import cycler
from IPython import get_ipython
from matplotlib.colors import LinearSegmentedColormap
from matplotlib_inline.backend_inline import set_matplotlib_formats

# A sign that the font lacks (Chinese, say) is drawn as a box; matplotlib would also print a warning for each.
warnings.filterwarnings("ignore", message="Glyph .* missing from font")

if get_ipython():  # a plot has twice the pixels of its place, so that it is sharp on every screen
    set_matplotlib_formats("retina")

# 'no-latex' stands last, so that no LaTeX is asked for; the font is the one that comes with matplotlib.
STYLE = ["science", "notebook", "no-latex"]
# Of lines and bars, in this order. Each is told from the others, and from white, by its brightness alone.
PALETTE = {"purple": "#472785", "brown": "#93653a", "pink": "#a0216b", "black": "#141414", "grey": "#8b9098"}
ROLES = {"query": "#d98029", "key": "#1a4480", "value": "#2f8c4a"}  # the drawings' hues, and for nothing else
# Of weights: white is 0, and what is orange in the drawings is 0.5. Matplotlib's "Oranges" begin with one.
ORANGES = ["white", "#fbd5a9", "#f4a655", "#b8651b", "#5c2a06"]
plt.colormaps.register(LinearSegmentedColormap.from_list("weights", ORANGES), force=True)
SIZES = {
    "font.family": "DejaVu Sans",
    "mathtext.fontset": "dejavusans",
    "figure.dpi": 100,
    "figure.figsize": (6, 4),
    "axes.titlesize": 12,
    "axes.titleweight": "bold",  # as in the drawings
    "axes.titlelocation": "left",
    "axes.labelsize": 12,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "legend.fontsize": 10,
    "axes.prop_cycle": cycler(color=PALETTE.values()),
}


def plot_style():
    """Return the plot style of the course: `with plot_style(): ...` around the lines that draw."""
    return plt.style.context([*STYLE, SIZES])


def grid_of_axes(count, columns, size=(3, 3), **more):
    """Return a new figure and a list of `count` axes in it, in rows of
    `columns` each; the last row may be shorter.

    size: width and height of one plot, in inches. more: for `plt.subplots`, such as sharex=True.
    Raises `ValueError` where there is nothing to draw, or no column to draw it in.
    """
    if count < 1 or columns < 1:
        raise ValueError(f"{count} plots in {columns} columns cannot be drawn. Give at least one of each.")
    columns = min(count, columns)
    rows = math.ceil(count / columns)
    figsize = (columns * size[0], rows * size[1])
    fig, axes = plt.subplots(rows, columns, figsize=figsize, layout="constrained", squeeze=False, **more)
    for ax in axes.flat[count:]:
        ax.remove()
    for ax in axes[-2, count % columns :] if count % columns else ():
        ax.tick_params(labelbottom=True)  # where the x axis is shared, the removed ones had its numbers
    return fig, list(axes.flat[:count])


MOST_TOKENS = 128  # in a table in colour or in a heat map: with more, neither can be read
DARK = 0.765  # the weight from which white digits are read better than black ones
CELL = 'style="padding:3px 4px;font-size:11px;text-align:right'  # a colour and the closing quote follow


class AttentionTable(pd.DataFrame):
    """A DataFrame of attention weights, shown in colour with 3
    decimals. What is computed from it is plain pandas.

    Beyond MOST_TOKENS it is shown as pandas shows a large table: without colour, and without its middle.
    """

    @property
    def _constructor(self):
        return pd.DataFrame

    def __repr__(self):
        with pd.option_context("display.float_format", "{:.3f}".format):
            return super().__repr__()

    def _repr_html_(self):
        if max(self.shape) > MOST_TOKENS:
            with pd.option_context("display.float_format", "{:.3f}".format):
                return super()._repr_html_()
        # Written out with a style in each cell: notebook viewers drop style sheets, and pandas' Styler wants
        # labels that differ, while tokens may repeat.
        queries, keys = ([html.escape(str(token)) for token in axis] for axis in self.axes)
        names = [html.escape(str(name)) for name in (self.index.name, self.columns.name)]
        head = "".join(f'<th {CELL}">{key}</th>' for key in keys)
        lines = [f'<tr><th {CELL}">{names[0]} \\ {names[1]}</th>{head}</tr>']
        for query, row in zip(queries, self.to_numpy(), strict=True):
            lines.append(f'<tr><th {CELL}">{query}</th>{"".join(map(_coloured, row))}</tr>')
        return "<table>\n" + "\n".join(lines) + "\n</table>"


def _coloured(weight):
    """Return one cell of the table."""
    red, green, blue = (round(255 * part) for part in plt.get_cmap("weights")(float(weight))[:3])
    ink = "white" if weight > DARK else "black"
    return f'<td {CELL};background-color:rgb({red},{green},{blue});color:{ink}">{weight:.3f}</td>'


def attention_table(attn_weights, tokens, key_tokens=None):
    """Return the weights of one head (or of a mean over heads) as a
    table: a row for each query, a column for each key.

    attn_weights: (query, key). tokens: the text of each query, and of each key unless key_tokens is given. It
    shows 3 decimals and holds every digit, so that its rows still sum to 1. Raises `TypeError` or
    `ValueError` if shape and tokens do not fit, and for NaN.
    """
    weights, tokens, key_tokens = _read(attn_weights, tokens, key_tokens)
    table = pd.DataFrame(weights, index=tokens, columns=key_tokens)
    return AttentionTable(table.rename_axis(index="query", columns="key"))


def plot_attention(attn_weights, tokens, key_tokens=None, title=None, ax=None):
    """Draw the weights of one head as a heat map: a row for each
    query, a column for each key, white 0, dark orange 1.

    attn_weights: (query, key). tokens, key_tokens: as in `attention_table`. ax: where to draw; a new figure
    by default. Returns the Axes. Raises `TypeError` or `ValueError` if shape and tokens do not fit, for NaN,
    and for more than MOST_TOKENS tokens.
    """
    weights, tokens, key_tokens = _read(attn_weights, tokens, key_tokens)
    if max(weights.shape) > MOST_TOKENS:
        raise ValueError(
            f"A heat map of {max(weights.shape)} tokens could not be read; at most {MOST_TOKENS} are drawn. "
            "Cut the text, or draw a part: attn_weights[:40, :40] with tokens[:40]."
        )
    with plot_style():
        if ax is None:
            # In inches, with room for each token. A picture of more than 9 shrinks on the page, letters too.
            room = (max(min(0.24 * max(size, 4), 6.8), 0.17 * size) for size in reversed(weights.shape))
            width, height = (1.6 + inches for inches in room)
            _, ax = plt.subplots(figsize=(width + 0.6, height), layout="constrained")
        image = ax.imshow(weights, cmap="weights", vmin=0, vmax=1)
        ax.set_xticks(range(len(key_tokens)), key_tokens, parse_math=False)
        for label in ax.get_xticklabels():  # a letter stands upright: a turned n reads as c
            label.set_rotation(90 if len(label.get_text()) > 1 else 0)
        ax.set_yticks(range(len(tokens)), tokens, parse_math=False)
        ax.tick_params(which="both", length=0, top=False, right=False)
        ax.minorticks_off()
        ax.set(xlabel="key", ylabel="query", title=title)
        ax.figure.colorbar(image, ax=ax, label="attention weight", fraction=0.046, pad=0.03)
    return ax


def plot_tables(tables, xlabel="key", ylabel="query", limit=None):
    """Draw tables side by side as heat maps. Return the list of Axes.

    White is 0. Weights are orange; where a number is below 0, it is red, and those above are blue.

    tables: by their titles, each (rows, columns). limit: the value of the darkest colour in all of them;
    without it each table has its own, its largest absolute value, and a bar of its own. Raises `ValueError`
    if there are no tables, for NaN and infinity in one, and for a limit that is not above 0.
    """
    if not tables:
        raise ValueError("There are no tables to draw. Give at least one, under its title.")
    if limit is not None and not limit > 0:
        raise ValueError(f"limit is {limit}. Give a number above 0, or leave it out.")
    if wrong := [title for title, table in tables.items() if not table.isfinite().all()]:
        raise ValueError(f"NaN or infinity stands in {', '.join(wrong)}. Draw finite numbers.")
    with plot_style():
        size = (9, 7.4 / len(tables) + 0.7)
        fig, (axes,) = plt.subplots(1, len(tables), figsize=size, layout="constrained", squeeze=False)
        for ax, (title, table) in zip(axes, tables.items(), strict=True):
            largest = limit or table.abs().max().item() or 1
            signed = limit is not None or table.min() < 0
            colours = {
                "cmap": "RdBu" if signed else "weights",
                "vmin": -largest if signed else 0,
                "vmax": largest,
            }
            image = ax.imshow(table.detach().cpu(), **colours)
            ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
            ax.minorticks_off()
            if limit is None or ax is axes[-1]:
                fig.colorbar(image, ax=ax, fraction=0.046, pad=0.03)
    return list(axes)


def _read(attn_weights, tokens, key_tokens):
    """Return the weights as an array and the tokens of queries and
    keys, and refuse what does not fit together."""
    if not isinstance(attn_weights, torch.Tensor):
        raise TypeError(f"attn_weights must be a tensor (query, key), not {type(attn_weights).__name__}.")
    names = [tokens, tokens if key_tokens is None else key_tokens]
    if any(isinstance(name, str) for name in names):
        raise TypeError("tokens must be a list of strings, one for each position, not one string.")
    shape, expected = tuple(attn_weights.shape), tuple(len(name) for name in names)
    if len(shape) != 2:
        raise ValueError(
            f"attn_weights has the shape {shape}, but a table shows one head: (query, key). "
            "Choose one, for example attentions[0][0, 0] for L0H0."
        )
    if shape != expected:
        raise ValueError(
            f"attn_weights has the shape {shape}, but there are {expected[0]} query tokens and "
            f"{expected[1]} key tokens. Take both from the same input, with its special tokens."
        )
    if attn_weights.isnan().any():
        raise ValueError(
            "attn_weights holds NaN, so these are not attention weights. "
            "A softmax over scores of -inf only gives NaN, and so does a model whose own weights hold NaN."
        )
    return attn_weights.detach().double().cpu().numpy(), *(list(name) for name in names)


def live(draw, **controls):
    """Show a picture with a slider for each argument of `draw`:
    live(draw, d=[64, 2, 4]) offers three values, first 64.

    draw: a function that draws with matplotlib. controls: its arguments by name, each with the values to
    choose from. The first value of each is drawn first. With COURSE_STATIC_VIEWS=1 in the environment only
    that picture is made.
    """
    first = {name: values[0] for name, values in controls.items()}
    if os.environ.get("COURSE_STATIC_VIEWS") == "1":
        draw(**first)
        plt.show()
        return
    from ipywidgets import SelectionSlider, interact

    def slider(name, values):
        options = sorted(values) if all(isinstance(value, (int, float)) for value in values) else values
        return SelectionSlider(options=options, value=values[0], description=name, continuous_update=False)

    def redraw(**chosen):
        draw(**chosen)
        plt.show()

    interact(redraw, **{name: slider(name, values) for name, values in controls.items()})
