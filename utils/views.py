"""The views room: bertviz's three views as pages that need no network, each with a static picture of the same.

bertviz (https://github.com/jessevig/bertviz, Apache 2.0) draws with two JavaScript libraries that its own pages fetch
from a server. Here its drawing code runs unchanged inside one self-contained page: d3 and jQuery are in the page, and
the numbers are packed as bytes. `view.html` is that page. It is shown in a frame, so it works wherever a notebook can
show HTML. Behind the frame lies a PNG, drawn by the room `twins`. It is what a reader sees where no script runs.
"""

import base64
import html
import inspect
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

from . import twins

SMOOTH_TOKENS = 128  # a browser draws tokens² lines per head; up to here it stays quick
MOST_TOKENS = 256  # beyond this a browser tab may freeze, and unsaved work with it
MOST_GRID_LINES = 400_000  # of the model view, which draws every head at once
MOST_NEURON_TOKENS = 128
SHADES = {"light": "white", "dark": "black"}  # display_mode and the ground that bertviz draws on


@dataclass
class View:
    """An interactive page and its static twin. A notebook shows it when it is the last line of a cell.

    With COURSE_STATIC_VIEWS=1 in the environment only the twin and the text are emitted.
    """

    text: str  # one line that says what is drawn
    html: str  # the whole interactive page
    height: int  # of the page, in pixels
    draw: Callable  # () -> a matplotlib Figure, the static twin
    sharpness: float = 2  # pixels of the twin for one of the page
    width: int | None = None  # of a page that shrinks as a whole where there is less room, in pixels

    @cached_property
    def png(self) -> bytes:
        """The static twin as a PNG: more pixels than the page has keep lines sharp, 256 colours keep it small."""
        drawn, small = io.BytesIO(), io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a sign that the font lacks is drawn as a box, without a warning
            self.draw().savefig(drawn, dpi=100 * self.sharpness, facecolor="white")
        picture = (
            Image.open(drawn)
            .convert("RGB")
            .quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        )
        picture.save(small, "PNG", optimize=True)
        return small.getvalue()

    def save(self, path) -> Path:
        """Write the interactive page to a file that any browser opens, and return its path.

        Raises OSError when the file cannot be written.
        """
        path = Path(path)
        try:
            path.write_text(self.html, encoding="utf-8")
        except OSError as error:
            raise OSError(
                f"The page cannot be written to {path} ({error.strerror}). Give a path in another folder."
            ) from None
        return path

    def __repr__(self):
        return self.text

    def _repr_mimebundle_(self, include=None, exclude=None):
        picture = base64.b64encode(self.png).decode("ascii")
        width, height = (
            round(int.from_bytes(self.png[at : at + 4], "big") / self.sharpness) for at in (16, 20)
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
    display_mode: str = "light",
) -> View:
    """bertviz's head view: a line from each query token (left) to each key token (right), a colour for each head.

    attention: one tensor a layer, each (1, heads, query, key), as in `outputs.attentions`; every weight from 0 to 1.
    tokens: the text of each position, for example from `tokenizer.convert_ids_to_tokens(input_ids[0])`.
    sentence_b_start: index of the first token of sentence B; adds a menu that shows A or B alone, or A to B.
    layer, heads: which layer (0-based) and which heads (0-based) are shown first; default layer 0 and all heads.
    display_mode: "light" or "dark", the ground of the page. The static twin is always light.

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
    heads = _check_indices("heads", heads, num_heads)
    choices = _choices(panels, sentence_b_start)
    data = {
        "attention": choices,
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
    return View(
        text=text,
        html=_page("head", text, _menu("layer", "Layer (index)"), data, display_mode),
        height=round(22.5 * _most_tokens(panels)) + 90,
        draw=lambda: twins.draw_heads(panels, layer, heads),
    )


def model_view(
    attention: Sequence[torch.Tensor],
    tokens: Sequence[str],
    sentence_b_start: int | None = None,
    include_layers: Sequence[int] | None = None,
    include_heads: Sequence[int] | None = None,
    display_mode: str = "light",
) -> View:
    """bertviz's model view: every layer and head at once, each as a small picture that opens when it is clicked.

    attention, tokens, sentence_b_start, display_mode: as in `head_view`.
    include_layers, include_heads: the indices (0-based) of the rows and columns to draw; default all.

    A weight is drawn within 0.002 of its value. Raises ValueError or TypeError when the arguments do not fit together,
    and when there are more lines than a browser can draw.
    """
    panel = _panel("All", "attention", attention, tokens=tokens)
    num_layers, num_heads = panel.weights.shape[:2]
    layers = _check_indices("include_layers", include_layers, num_layers)
    heads = _check_indices("include_heads", include_heads, num_heads)
    panel = Panel("All", panel.weights[layers][:, heads], panel.query_tokens, panel.key_tokens)
    _check_grid_lines(panel)
    total = max(
        len(heads), min(num_heads, 6)
    )  # so many small pictures fit side by side, which sets their size
    data = {
        "attention": _choices([panel], sentence_b_start),
        "include_layers": layers,
        "include_heads": heads,
        "total_heads": total,
    }
    text = f"Model view: {len(panel.query_tokens)} tokens, {_some(layers, num_layers, 'layers')}, " + _some(
        heads, num_heads, "heads"
    )
    return View(
        text=text,
        html=_page("model", text, "", data, display_mode),
        height=_height_of_grid(panel, total) + 60,
        width=986,
        draw=lambda: twins.draw_grid(panel, layers, heads, total),
        sharpness=1.25,  # it is full of lines, and twice the pixels would take half a megabyte
    )


def neuron_view(
    model: torch.nn.Module,
    tokenizer: Callable,
    sentence_a: str,
    sentence_b: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    display_mode: str = "light",
    token: int | None = None,
) -> View:
    """bertviz's neuron view: how the query and key vectors of one head make its attention weights, number by number.

    model: a `BertModel` of transformers that is already loaded, or the course's `Encoder`: any model whose attention
    layers hold linear layers named `query` and `key`. It is run once, in evaluation mode; no weight is copied.
    tokenizer: the tokenizer of that model. sentence_a, sentence_b: one text, or a pair, which adds the A/B menu.
    layer, head: what is shown first (0-based), default 0 and 0. display_mode: as in `head_view`.
    token: index (0-based) of the query token that the static twin shows, default the first after [CLS]. When it is
    given, the page too opens with this token chosen.

    The vectors are in the page as float32, and the page computes the weights from them: softmax(q·k/√d). Raises
    ValueError or TypeError when the arguments do not fit together, and when the model's weights are not made this way.
    """
    inputs = _tokenize(model, tokenizer, sentence_a, sentence_b)
    ids = inputs["input_ids"][0].tolist()
    tokens = _check_tokens(tokenizer.convert_ids_to_tokens(ids), "tokens", "neuron_view")
    query, key = _vectors(model, inputs)  # each (layers, heads, tokens, head_dim)
    num_layers, num_heads = query.shape[:2]
    layer = 0 if layer is None else _check_index("layer", layer, num_layers)
    head = 0 if head is None else _check_index("head", head, num_heads)
    chosen = min(1, len(tokens) - 1) if token is None else _check_index("token", token, len(tokens))
    names = {"name": "All", "left_text": tokens, "right_text": tokens}
    choices = [names | {"shape": list(query.shape), "queries": _floats(query), "keys": _floats(key)}]
    if sentence_b is not None:
        choices += _sentence_choices(tokens, inputs["token_type_ids"][0].tolist().index(1))
    data = {
        "attention": choices,
        "layer": layer,
        "head": head,
        "bidirectional": True,
        "chosen": token,
    }
    text = (
        f"Neuron view: {len(tokens)} tokens, layer {layer + 1} of {num_layers} (index {layer}), "
        f"head {head + 1} of {num_heads} (index {head}), query {tokens[chosen]!r} (index {chosen}) in the picture"
    )
    menus = _menu("layer", "Layer (index)") + _menu("att_head", "Head (index)")
    return View(
        text=text,
        html=_page("neuron", text, menus, data, display_mode),
        height=26 * len(tokens) + 160,
        width=1046,
        draw=lambda: twins.draw_neurons(query[layer, head], key[layer, head], tokens, chosen),
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


def _some(indices: list[int], count: int, what: str) -> str:
    """For the text: "all 6 layers", or "layers of index 0, 2"."""
    return (
        f"all {count} {what}" if len(indices) == count else f"{what} of index {', '.join(map(str, indices))}"
    )


def _height_of_grid(panel: Panel, total_heads: int) -> int:
    """The height that bertviz's model view takes, in pixels: of the grid, or of the picture that opens on a click."""
    count = _most_tokens([panel])
    return round(max(panel.weights.shape[0] * (count * 84 / total_heads + 10) + 38, count * 18 + 55))


# --- the vectors of the neuron view -----------------------------------------------------------------------------


def _tokenize(model, tokenizer, sentence_a, sentence_b) -> dict[str, torch.Tensor]:
    """What the tokenizer makes of the texts, where the model is."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(
            f"model must be a loaded model, for example a BertModel, not {type(model).__name__}. "
            "The order is neuron_view(model, tokenizer, sentence_a)."
        )
    for name, sentence in (("sentence_a", sentence_a), ("sentence_b", sentence_b)):
        if not isinstance(sentence, str) and not (name == "sentence_b" and sentence is None):
            raise TypeError(f"{name} must be a text, not {type(sentence).__name__}.")
        if sentence is not None and not sentence.strip():
            raise ValueError(f"{name} is empty, so there is nothing to draw. Give a text, or leave it out.")
    inputs = tokenizer(sentence_a, sentence_b, return_tensors="pt")
    count = inputs["input_ids"].shape[1]
    if count > MOST_NEURON_TOKENS:
        raise ValueError(
            f"{count} tokens would freeze the browser; the neuron view draws at most {MOST_NEURON_TOKENS}. "
            "Cut the text."
        )
    if sentence_b is not None and 1 not in inputs.get("token_type_ids", torch.zeros(1, 1)):
        raise ValueError("The tokenizer does not mark sentence B in token_type_ids. Leave sentence_b out.")
    device = next((weight.device for weight in model.parameters()), "cpu")
    return {name: tensor.to(device) for name, tensor in inputs.items()}


def _vectors(model: torch.nn.Module, inputs: dict) -> tuple[torch.Tensor, torch.Tensor]:
    """The query and key vectors of every head, each (layers, heads, tokens, head_dim), caught while the model runs."""
    caught = {"query": [], "key": []}
    hooks, num_heads = [], None
    for path, part in model.named_modules():
        parent, _, name = path.rpartition(".")
        if name in caught and isinstance(part, torch.nn.Linear):
            layer = model.get_submodule(parent)
            num_heads = getattr(layer, "num_attention_heads", None) or getattr(layer, "num_heads", None)
            hooks.append(part.register_forward_hook(lambda _, __, out, into=caught[name]: into.append(out)))
    modes = [(part, part.training) for part in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            outputs = model(**inputs, **_ask_for_attention(model))
    finally:
        for part, training in modes:
            part.training = training
        for hook in hooks:
            hook.remove()
    shapes = {tuple(vector.shape) for vectors in caught.values() for vector in vectors}
    if not num_heads or len(shapes) != 1 or len(caught["query"]) != len(caught["key"]):
        raise TypeError(
            f"neuron_view finds no linear layers named query and key, of one size, in {type(model).__name__}. "
            "Pass a BertModel of transformers or the course's Encoder."
        )
    query, key = (  # (layers, 1, tokens, hidden_size) to (layers, heads, tokens, head_dim)
        torch.stack(vectors).unflatten(-1, (num_heads, -1)).squeeze(1).transpose(1, 2).cpu()
        for vectors in caught.values()
    )
    _check_made_by_softmax(query, key, getattr(outputs, "attentions", None))
    return query, key


def _ask_for_attention(model: torch.nn.Module) -> dict[str, bool]:
    """A model of transformers returns its weights when asked. The course's Encoder always does, and cannot be asked."""
    known = inspect.signature(model.forward).parameters.values()
    asked = any(word.name == "output_attentions" or word.kind == word.VAR_KEYWORD for word in known)
    return {"output_attentions": True} if asked else {}


def _check_made_by_softmax(query: torch.Tensor, key: torch.Tensor, attentions) -> None:
    """The page computes softmax(q·k/√d). Refuse a model that adds something else to its scores."""
    scores = query.double() @ key.double().transpose(-2, -1) / query.shape[-1] ** 0.5
    weights = torch.softmax(scores, dim=-1)  # (layers, heads, query, key)
    if not weights.isfinite().all():
        raise ValueError("The query and key vectors hold NaN or infinity. Load the model's weights again.")
    if attentions:
        apart = (torch.cat(list(attentions)).cpu().double() - weights).abs().max().item()
        tolerance = 0.001 if query.dtype in (torch.float32, torch.float64) else 0.05
        if apart > tolerance:
            raise ValueError(
                f"The model's attention weights differ from softmax(q·k/√d) by up to {apart:.3f}, so this view would "
                "show numbers that are not the model's. It adds something to its scores, such as relative positions."
            )


# --- the page ---------------------------------------------------------------------------------------------------


def _page(kind: str, title: str, menus: str, data: dict, display_mode: str) -> str:
    """Fill view.html. The text of tokens enters only as JSON, in which `<` cannot end a script."""
    if display_mode not in SHADES:
        raise ValueError(f'display_mode is "light" or "dark", not {display_mode!r}.')
    if len(data["attention"]) > 1:
        menus += _menu("filter", "Attention", data["attention"])
    data |= {"kind": kind, "default_filter": "0", "root_div_id": "view", "display_mode": display_mode}
    parts = {
        "title": html.escape(title),
        "mode": display_mode,
        "menus": menus,
        "background": SHADES[display_mode],
        "data": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        "jquery": _library("XStatic-jQuery", "xstatic/pkg/jquery/data/jquery.min.js"),
        "d3": _library("mpld3", "mpld3/js/d3.v5.min.js"),
        "bertviz": _bertviz(f"{kind}_view.js"),
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
    room = f"min-height:{view.height}px"
    if view.width:
        room = f"aspect-ratio:{view.width}/{view.height};max-height:{view.height}px"
    return (
        f'<div style="display:grid;{room}">'
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


def _floats(numbers: torch.Tensor) -> str:
    """The numbers as float32 in base64, low byte first."""
    return base64.b64encode(numbers.float().numpy().astype("<f4").tobytes()).decode("ascii")


def _choices(panels: list[Panel], sentence_b_start: int | None) -> list[dict]:
    """What the menu of attention offers: the panels, and the parts of a pair."""
    choices = [_pack(panel) for panel in panels]
    if sentence_b_start is not None:
        tokens = panels[0].query_tokens
        choices += _sentence_choices(tokens, _check_sentence_b_start(sentence_b_start, len(tokens)))
    return choices


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
    # A weight of 1 may be rounded upwards: in bfloat16 to 1.008.
    slack = max(0.001, torch.finfo(weights.dtype).eps) if weights.is_floating_point() else 0.001
    if not ((weights >= -slack) & (weights <= 1 + slack)).all():  # also False for NaN
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
        what = next(what for what in ("layer", "head", "token") if what in name) + "s"
        there = "The text" if what == "tokens" else "The model"
        raise ValueError(
            f"{name}: index {index} is out of range. {there} has {count} {what}, with indices 0 to {count - 1}."
        )
    return int(index)


def _check_indices(name: str, indices, count: int) -> list[int]:
    """A list of indices, each once. None means all, and a single number means a list of one."""
    if indices is None:
        return list(range(count))
    indices = [indices] if hasattr(indices, "__index__") else list(indices)
    if not indices:
        raise ValueError(f"{name} is empty, so there is nothing to draw. Leave it out to see all.")
    return list(dict.fromkeys(_check_index(name, index, count) for index in indices))


def _check_grid_lines(panel: Panel) -> None:
    """The model view draws a line for every weight of every head that is included."""
    lines = panel.weights.numel()
    if lines > MOST_GRID_LINES:
        layers, heads = panel.weights.shape[:2]
        raise ValueError(
            f"{layers} layers of {heads} heads make {lines:,} lines, which would freeze the browser; at most "
            f"{MOST_GRID_LINES:,} are drawn. Choose fewer with include_layers and include_heads, or cut the text."
        )


def _check_sentence_b_start(start, count: int) -> int:
    if isinstance(start, bool) or not hasattr(start, "__index__"):
        raise TypeError(f"sentence_b_start takes a whole number, not {start!r}.")
    if not 0 < start < count:
        raise ValueError(
            f"sentence_b_start is {int(start)}, but sentence B must start between 1 and {count - 1}. "
            "Leave it out when there is no sentence B."
        )
    return int(start)
