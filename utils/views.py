"""The views room: bertviz's views as pages that need no network, each with a static picture of the same lines.

bertviz (https://github.com/jessevig/bertviz, Apache 2.0) draws with two JavaScript libraries that its own pages fetch
from a server. Here its drawing code runs unchanged inside one self-contained page: d3 and jQuery are in the page, and
the weights are packed as one byte each. The page is shown in a frame, so it works wherever a notebook can show HTML.
Behind the frame lies a PNG. It is what a reader sees where no script runs.
"""

import base64
import html
import io
import json
import os
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import metadata
from pathlib import Path

import torch
from PIL import Image

SMOOTH_TOKENS = 128  # a browser draws tokens² lines per head; up to here it stays quick
MOST_TOKENS = 256  # beyond this a browser tab may freeze, and unsaved work with it


@dataclass
class View:
    """An interactive page and its static twin. A notebook shows it when it is the last line of a cell.

    With COURSE_STATIC_VIEWS=1 in the environment only the twin and the text are emitted.
    """

    text: str  # one line that says what is drawn
    html: str  # the whole interactive page
    height: int  # of the page, in pixels
    draw: Callable  # () -> a matplotlib Figure, the static twin

    @cached_property
    def png(self) -> bytes:
        """The static twin as a PNG: two pixels for one of the page keep lines sharp, 256 colours keep it small."""
        drawn, small = io.BytesIO(), io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a sign that the font lacks is drawn as a box, without a warning
            self.draw().savefig(drawn, dpi=200, facecolor="white")
        picture = (
            Image.open(drawn)
            .convert("RGB")
            .quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        )
        picture.save(small, "PNG", optimize=True)
        return small.getvalue()

    def save(self, path) -> Path:
        """Write the interactive page to a file that any browser opens, and return its path."""
        path = Path(path)
        path.write_text(self.html, encoding="utf-8")
        return path

    def __repr__(self):
        return self.text

    def _repr_mimebundle_(self, include=None, exclude=None):
        picture = base64.b64encode(self.png).decode("ascii")
        width, height = (
            int.from_bytes(self.png[at : at + 4], "big") // 2 for at in (16, 20)
        )  # from the PNG header
        data = {"text/plain": self.text, "image/png": picture}
        if os.environ.get("COURSE_STATIC_VIEWS") != "1":
            data["text/html"] = _frame(self, picture, width)
        return data, {"image/png": {"width": width, "height": height}}


@dataclass
class Panel:
    """What the menu of a view offers at a time: the weights from one list of tokens to another, or to itself."""

    name: str
    weights: torch.Tensor  # (layers, heads, query, key)
    query_tokens: list[str]
    key_tokens: list[str]


def head_view(
    attention: Sequence[torch.Tensor] | None = None,
    tokens: Sequence[str] | None = None,
    sentence_b_start: int | None = None,
    layer: int | None = None,
    heads: Sequence[int] | None = None,
    *,
    encoder_attention: Sequence[torch.Tensor] | None = None,
    decoder_attention: Sequence[torch.Tensor] | None = None,
    cross_attention: Sequence[torch.Tensor] | None = None,
    encoder_tokens: Sequence[str] | None = None,
    decoder_tokens: Sequence[str] | None = None,
) -> View:
    """bertviz's head view: a line from each query token (left) to each key token (right), a colour for each head.

    attention: one tensor a layer, each (1, heads, query, key), as in `outputs.attentions`; every weight from 0 to 1.
    tokens: the text of each position, for example from `tokenizer.convert_ids_to_tokens(input_ids[0])`.
    sentence_b_start: index of the first token of sentence B; adds a menu that shows A or B alone, or A to B.
    layer, heads: which layer (0-based) and which heads (0-based) are shown first; default layer 0 and all heads.

    An encoder-decoder has other arguments in place of attention, tokens and sentence_b_start: encoder_attention, from
    encoder_tokens to themselves; decoder_attention, from decoder_tokens to themselves; cross_attention, from
    decoder_tokens (left) to encoder_tokens (right). Give one, two or all three, with equal numbers of layers and heads.
    A menu of the page chooses between them. The static twin has no menu, so it shows all of them side by side.

    A weight is drawn within 0.002 of its value. Raises ValueError or TypeError when the arguments do not fit together.
    """
    stacks = {
        "encoder_attention": encoder_attention,
        "decoder_attention": decoder_attention,
        "cross_attention": cross_attention,
        "encoder_tokens": encoder_tokens,
        "decoder_tokens": decoder_tokens,
    }
    if all(value is None for value in stacks.values()):
        panels = [_panel("All", "attention", attention, tokens=tokens)]
    else:
        _check_no_other(stacks, attention=attention, tokens=tokens, sentence_b_start=sentence_b_start)
        panels = _encoder_decoder_panels(**stacks)
    _warn_if_slow(panels)
    num_layers, num_heads = panels[0].weights.shape[:2]
    layer = 0 if layer is None else _check_index("layer", layer, num_layers)
    heads = (
        list(range(num_heads))
        if heads is None
        else [_check_index("heads", h, num_heads) for h in _as_list(heads)]
    )
    if not heads:
        raise ValueError("heads is empty, so there is nothing to draw. Leave it out to see every head.")
    choices = [_pack(panel) for panel in panels]
    if sentence_b_start is not None:
        tokens = panels[0].query_tokens
        choices += _sentence_choices(tokens, _check_sentence_b_start(sentence_b_start, len(tokens)))
    data = {
        "attention": choices,
        "default_filter": "0",
        "root_div_id": "view",
        "layer": layer,
        "heads": heads,
        "include_layers": list(range(num_layers)),
    }
    which = (
        f"all {num_heads} heads"
        if len(heads) == num_heads
        else f"heads of index {', '.join(map(str, heads))}"
    )
    text = f"Head view: {_sizes(panels)} tokens, layer {layer + 1} of {num_layers} (index {layer}), {which}"
    menus = _menu("layer", "Layer (index)") + (
        _menu("filter", "Attention", choices) if len(choices) > 1 else ""
    )
    return View(
        text=text,
        html=_page("head_view.js", title=text, menus=menus, data=data),
        height=round(22.5 * _most_tokens(panels)) + 90,
        draw=lambda: _draw_heads(panels, layer, heads),
    )


def _panel(name: str, argument: str, attention, **tokens) -> Panel:
    """A panel from the arguments of a view: one list of tokens, or that of the queries and that of the keys."""
    weights = _check_attention(attention, argument)
    tokens = {key: _check_tokens(names, key, argument) for key, names in tokens.items()}
    _check_token_count(weights, tokens, argument)
    lists = list(tokens.values())
    return Panel(name, weights, lists[0], lists[-1])


def _encoder_decoder_panels(
    encoder_attention, decoder_attention, cross_attention, encoder_tokens, decoder_tokens
) -> list[Panel]:
    encoder, decoder = {"encoder_tokens": encoder_tokens}, {"decoder_tokens": decoder_tokens}
    given = (
        ("Encoder", encoder_attention, encoder),
        ("Decoder", decoder_attention, decoder),
        ("Cross", cross_attention, decoder | encoder),
    )
    panels = [
        _panel(name, f"{name.lower()}_attention", attention, **tokens)
        for name, attention, tokens in given
        if attention is not None
    ]
    _check_same_heads(panels)
    return panels


def _most_tokens(panels: list[Panel]) -> int:
    """The tokens of the longest list: so many lines of text the view is high."""
    return max(max(panel.weights.shape[2:]) for panel in panels)


def _sizes(panels: list[Panel]) -> str:
    """How many tokens there are, for the text: "20", or for an encoder-decoder "decoder 12 × 12, cross 12 × 20"."""
    if panels[0].name == "All":
        return str(len(panels[0].query_tokens))
    return ", ".join("{} {} × {}".format(p.name.lower(), *p.weights.shape[2:]) for p in panels)


# --- the page ---------------------------------------------------------------------------------------------------


def _page(script: str, title: str, menus: str, data: dict, background: str = "white") -> str:
    """Fill view.html. The text of tokens enters only as JSON, in which `<` cannot end a script."""
    parts = {
        "title": html.escape(title),
        "menus": menus,
        "background": background,
        "data": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        "jquery": _library("XStatic-jQuery", "xstatic/pkg/jquery/data/jquery.min.js"),
        "d3": _library("mpld3", "mpld3/js/d3.v5.min.js"),
        "bertviz": _bertviz(script),
    }
    page = Path(__file__).with_name("view.html").read_text(encoding="utf-8")
    return re.sub(
        r"\{\{(\w+)\}\}", lambda place: parts[place[1]], page
    )  # one pass: no part is searched again


def _bertviz(script: str) -> str:
    """bertviz's drawing code, without the addresses it would fetch its libraries from."""
    code = _library("bertviz", f"bertviz/{script}").replace("PYTHON_PARAMS", "window.bertviz_params")
    return re.sub(r"require\.config\(.*?\}\);", "", code, count=1, flags=re.DOTALL)


@lru_cache
def _library(package: str, path: str) -> str:
    """A JavaScript file of an installed package, without indentation and without lines that only comment."""
    try:
        file = Path(metadata.distribution(package).locate_file(path))
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except (metadata.PackageNotFoundError, OSError):
        raise ImportError(
            f"The views need {path} of the package {package}. Run `pip install {package}`."
        ) from None
    return "\n".join(line for line in lines if line and not re.match(r"\* |\*$|// (?!http)", line))


def _menu(name: str, label: str, choices: Sequence[dict] = ()) -> str:
    options = "".join(
        f'<option value="{i}">{html.escape(choice["name"])}</option>' for i, choice in enumerate(choices)
    )
    return f'<label>{label}: <select id="{name}">{options}</select></label>'


def _frame(view: View, picture: str, width: int) -> str:
    """The page in a frame that covers its static twin, which shows when no frame or no script is allowed."""
    page = view.html.replace("&", "&amp;").replace("'", "&#39;")
    text = html.escape(view.text)
    return (
        f'<div style="display:grid;min-height:{view.height}px">'
        f'<img style="grid-area:1/1;max-width:100%" width="{width}" alt="{text}" src="data:image/png;base64,{picture}">'
        f'<iframe style="grid-area:1/1;width:100%;height:100%;border:0" title="{text}" sandbox="allow-scripts" '
        f"srcdoc='{page}'></iframe></div>"
    )


def _pack(panel: Panel) -> dict:
    """A panel for the page, with its weights as one byte each: 0.0 is 0, 1.0 is 255."""
    levels = (panel.weights.double() * 255).round().to(torch.uint8).cpu()
    return {
        "name": panel.name,
        "left_text": panel.query_tokens,
        "right_text": panel.key_tokens,
        "shape": list(levels.shape),
        "weights": base64.b64encode(bytes(levels.flatten().tolist())).decode("ascii"),
    }


def _sentence_choices(tokens: list[str], start: int) -> list[dict]:
    """The four parts of a pair, cut out of the first panel in the page, so that no weight is stored twice."""
    spans = {"A": [0, start], "B": [start, len(tokens)]}
    return [
        {
            "name": f"Sentence {query} -> Sentence {key}",
            "left_text": tokens[slice(*spans[query])],
            "right_text": tokens[slice(*spans[key])],
            "rows": spans[query],
            "columns": spans[key],
        }
        for query, key in ("AA", "BB", "AB", "BA")
    ]


# --- the static twins -------------------------------------------------------------------------------------------


def _draw_heads(panels: list[Panel], layer: int, heads: list[int]):
    """The chosen heads of one layer as lines, panel beside panel."""
    from matplotlib.figure import Figure

    rows, row = _most_tokens(panels) + 2.5, 0.225  # inches; 100 pixels of the page are one inch
    figure = Figure(figsize=(3.5 * len(panels), row * rows))
    for place, panel in enumerate(panels):
        left, width = place / len(panels), 1 / len(panels)
        axes = figure.add_axes((left, 0, width, 1), xlim=(0, 350), ylim=(rows - 2.5, -2.5))
        axes.set_axis_off()
        _draw_lines(axes, panel.weights[layer, heads], heads)
        for x, align, tokens in ((108, "right", panel.query_tokens), (242, "left", panel.key_tokens)):
            for y, token in enumerate(tokens):
                axes.text(x, y, _printable(token), ha=align, va="center", fontsize=10, parse_math=False)
        for x, align, name in ((108, "right", "query"), (242, "left", "key")):
            axes.text(x, -1, name, ha=align, va="center", fontsize=9, style="italic", color="dimgray")
        if panel.name != "All":
            axes.text(175, -1, panel.name, ha="center", va="center", fontsize=10, weight="bold")
    return figure


def _draw_lines(axes, weights: torch.Tensor, heads: list[int]) -> None:
    """weights (heads, query, key) as lines. As in bertviz, a line's opacity is its weight over the number of heads."""
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection

    for place, (head, weight) in enumerate(zip(heads, weights.float().cpu(), strict=True)):
        red, green, blue = colormaps["tab10"](head % 10)[:3]  # the ten colours that d3 gives bertviz
        seen = (weight > 0.002).nonzero().tolist()
        lines = [[(115, query), (235, key)] for query, key in seen]
        colours = [(red, green, blue, min(1.0, weight[q, k].item() / len(heads))) for q, k in seen]
        axes.add_collection(LineCollection(lines, colors=colours, linewidths=1.5))
        if len(heads) <= 16:  # more squares than these do not fit in one row
            x = 175 + 20 * (place - (len(heads) - 1) / 2)
            square = {"boxstyle": "square,pad=0.3", "facecolor": (red, green, blue), "edgecolor": "white"}
            axes.text(x, -2, head, ha="center", va="center", fontsize=8, color="white", bbox=square)


def _printable(token: str) -> str:
    """Signs that would break a line or draw nothing are shown by their code."""
    return "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in token)


# --- what is refused --------------------------------------------------------------------------------------------


def _check_no_other(stacks: dict, **single) -> None:
    """Refuse the arguments of a single stack beside those of an encoder-decoder, and tokens without attention."""
    if mixed := [name for name, value in single.items() if value is not None]:
        given = [name for name, value in stacks.items() if value is not None]
        raise ValueError(
            f"{', '.join(mixed)} is for a single stack, {', '.join(given)} for an encoder-decoder. "
            "Give the arguments of one kind."
        )
    if all(value is None for name, value in stacks.items() if name.endswith("_attention")):
        raise ValueError(NO_WEIGHTS)


NO_WEIGHTS = (
    "The model returned no attention weights. "
    'Load it with attn_implementation="eager" and call it with output_attentions=True.'
)


def _check_attention(attention, name: str) -> torch.Tensor:
    """One tensor (layers, heads, query, key) out of one (1, heads, query, key) a layer."""
    if attention is None or len(attention) == 0 or any(layer is None for layer in attention):
        raise ValueError(NO_WEIGHTS)
    if not all(isinstance(layer, torch.Tensor) for layer in attention):
        raise TypeError(f"{name} holds one tensor a layer: pass outputs.{name}s as it is.")
    shapes = [tuple(layer.shape) for layer in attention]
    if len(shapes[0]) != 4:
        raise ValueError(
            f"A layer of {name} has the shape {shapes[0]}; it must be (1, heads, query, key). "
            f"Pass outputs.{name}s as it is."
        )
    if len(set(shapes)) > 1:
        other = next(shape for shape in shapes if shape != shapes[0])
        raise ValueError(f"Every layer must have the same shape, but {name} holds {shapes[0]} and {other}.")
    if shapes[0][0] != 1:
        raise ValueError(
            f"{name} holds a batch of {shapes[0][0]} texts, and a view shows one. "
            f"For the first, pass [layer[:1] for layer in {name}] and cut its padding off."
        )
    weights = torch.cat([layer.detach() for layer in attention])  # (layers, heads, query, key)
    if not ((weights > -0.001) & (weights < 1.001)).all():  # also False for NaN
        raise ValueError(
            f"{name} holds NaN or numbers outside 0 to 1, so these are not attention weights. "
            "Pass the weights after softmax."
        )
    return weights.clamp(0, 1)


def _check_tokens(tokens, name: str, attention_name: str) -> list[str]:
    if tokens is None or isinstance(tokens, str) or not all(isinstance(token, str) for token in tokens):
        raise TypeError(
            f"{attention_name} needs {name}: a list of strings, one for each position. "
            "tokenizer.convert_ids_to_tokens(input_ids[0]) makes it."
        )
    return list(tokens)


def _check_token_count(weights: torch.Tensor, tokens: dict[str, list[str]], name: str) -> None:
    """`tokens` holds, by the names of the arguments, the one list or that of the queries and that of the keys."""
    counts = [len(names) for names in tokens.values()]
    if tuple(weights.shape[2:]) != (counts[0], counts[-1]):
        there = " and ".join(f"{len(names)} {argument}" for argument, names in tokens.items())
        raise ValueError(
            f"{name} has {weights.shape[2]} query and {weights.shape[3]} key positions, but there are {there}. "
            "Take both from the same input, with its special tokens."
        )
    if max(counts) > MOST_TOKENS:
        shorter = " and ".join(f"{argument}[:{SMOOTH_TOKENS}]" for argument in tokens)
        raise ValueError(
            f"{max(counts)} tokens would freeze the browser; at most {MOST_TOKENS} are drawn. "
            f"Cut the text, or pass [layer[..., :{SMOOTH_TOKENS}, :{SMOOTH_TOKENS}] for layer in {name}] "
            f"and {shorter}."
        )


def _warn_if_slow(panels: list[Panel]) -> None:
    count = _most_tokens(panels)
    if count > SMOOTH_TOKENS:
        lines = max(panel.weights[0, 0].numel() for panel in panels)
        warnings.warn(
            f"{count} tokens make {lines:,} lines a head: the view will be slow. "
            f"Up to {SMOOTH_TOKENS} tokens it is quick, so cut the text if you can.",
            stacklevel=3,
        )


def _check_same_heads(panels: list[Panel]) -> None:
    """The page has one menu of layers and one row of heads for all panels."""
    first = panels[0]
    for panel in panels[1:]:
        if panel.weights.shape[:2] != first.weights.shape[:2]:
            sizes = [f"{p.name.lower()}_attention {tuple(p.weights.shape[:2])}" for p in (first, panel)]
            raise ValueError(
                f"(layers, heads) of {' and of '.join(sizes)} differ, but a view has one choice of them for all. "
                "Draw each in a view of its own."
            )


def _check_index(name: str, index, count: int) -> int:
    if isinstance(index, bool) or not hasattr(index, "__index__"):
        raise TypeError(f"{name} takes whole numbers, not {index!r}. Indices are 0-based.")
    if not 0 <= index < count:
        what = "layers" if name == "layer" else "heads"
        raise ValueError(
            f"{name}: index {index} is out of range. The model has {count} {what}, with indices 0 to {count - 1}."
        )
    return int(index)


def _as_list(heads) -> list:
    return [heads] if hasattr(heads, "__index__") else list(heads)


def _check_sentence_b_start(start, count: int) -> int:
    if isinstance(start, bool) or not hasattr(start, "__index__"):
        raise TypeError(f"sentence_b_start takes a whole number, not {start!r}.")
    if not 0 < start < count:
        raise ValueError(
            f"sentence_b_start is {int(start)}, but sentence B must start between 1 and {count - 1}. "
            "Leave it out when there is no sentence B."
        )
    return int(start)
