"""The page of a view, which needs no network, and the frame that shows it before its static picture.

bertviz (https://github.com/jessevig/bertviz, Apache 2.0) draws with two JavaScript libraries that its own pages fetch
from a server. Here its drawing code runs inside one self-contained page, `page.html`: d3 is in the page, the few calls
of jQuery are answered by `common.js`, and the numbers are packed as bytes. A function of `head.js`, `model.js` or
`neuron.js` takes the place of bertviz's function of that name: this is how lines come to lie on a canvas.
"""

import base64
import html
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import metadata
from pathlib import Path

from . import ink
from .panels import read_sentence_b_start

MODES = ("auto", "light", "dark")
SCRIPTS = {"head": ["head.js"], "model": ["model.js"], "neuron": ["vectors.js", "neuron.js"]}


@dataclass
class View:
    """An interactive page and its static picture. A notebook shows it when it is the last line of a cell.

    With COURSE_STATIC_VIEWS=1 in the environment only the picture and the text are emitted.
    """

    text: str  # one line that says what is drawn
    html: str  # the whole interactive page
    height: int  # of the page, in pixels
    draw: Callable  # () -> the static picture, a `Sheet`

    @cached_property
    def sheet(self):
        return self.draw()

    @cached_property
    def png(self):
        """The static picture."""
        return self.sheet.png()

    def save(self, path):
        """Write what the suffix of the path asks for, and return the path.

        .html is the interactive page, which any browser opens. .png, .svg and .pdf are the static picture; the lines
        and letters of the last two stay sharp at any size. Raises ValueError for another suffix, and OSError when the
        file cannot be written.
        """
        path = Path(path)
        kind = path.suffix.lower()
        if kind not in (".html", ".png", ".svg", ".pdf"):
            raise ValueError(
                f"save writes a page (.html) or a picture (.png, .svg, .pdf), as the end of the name says. "
                f"{path.name!r} ends otherwise."
            )
        make = {".html": self.html.encode, ".png": lambda: self.png}
        content = make.get(kind, lambda: self.sheet.vector(kind[1:]))()
        try:
            path.write_bytes(content)
        except OSError as error:
            raise OSError(
                f"The view cannot be written to {path} ({error.strerror}). Give a path in another folder."
            ) from None
        return path

    def __repr__(self):
        return self.text

    def _repr_mimebundle_(self, include=None, exclude=None):
        picture = base64.b64encode(self.png).decode("ascii")
        width, height = round(self.sheet.width), round(self.sheet.height)
        data = {"text/plain": self.text, "image/png": picture}
        if os.environ.get("COURSE_STATIC_VIEWS") != "1":
            data["text/html"] = _frame(self, picture, width)
        return data, {"image/png": {"width": width, "height": height}}


def make_page(kind, title, menus, data, display_mode, controls=""):
    """Return page.html, filled. The text of tokens enters only as JSON, in which `<` cannot end a script."""
    if display_mode not in MODES:
        raise ValueError(f'display_mode is "auto", "light" or "dark", not {display_mode!r}.')
    if len(data["attention"]) > 1:
        menus += menu("filter", "Attention", data["attention"])
    menus += controls
    data |= {
        "colours": ink.COLOURS,
        "strengths": [ink.opening_strength(heads) for heads in (1, 2)],
        "line": ink.LINE,
        "faintest": ink.FAINTEST,
        "display_mode": display_mode,
    }
    parts = {
        "title": html.escape(title),
        "menus": menus,
        "data": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        "d3": _library("mpld3", "mpld3/js/d3.v5.min.js"),
        "common": _own("common.js"),
        "drawing": _drawing_code(kind),
    }
    page = _own("page.html")
    # In one pass, so that no part is searched again.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], page)


def menu(name, label, choices=()):
    """Return the HTML of a menu. The options of some menus come from bertviz's own code."""
    options = "".join(
        f'<option value="{i}">{html.escape(choice["name"])}</option>' for i, choice in enumerate(choices)
    )
    return f'<label>{label}: <select id="{name}">{options}</select></label>'


def make_controls(panels, mean):
    """Return the HTML of what changes the drawing. mean: whether the means of heads and of layers can be added."""
    sides = [value for panel in panels for value in panel.sides.items()]
    special = dict.fromkeys(token for panel in panels for token in _special(panel))
    ticks = [("mean", "Means")] if mean else []
    ticks += [("words", "Words")] if any(name.endswith("_words") for name, _ in sides) else []
    ticks += [("hide", f"Hide {', '.join(special)}")] if special else []
    strength = '<label>Line strength: <input type="range" id="strength" min="-2" max="2" step="0.25" value="0"></label>'
    boxes = [
        f'<label><input type="checkbox" id="{name}"> {html.escape(label)}</label>' for name, label in ticks
    ]
    return "".join([strength, *boxes])


def _special(panel):
    """Return the text of the special tokens in a panel."""
    tokens = {"left": panel.query_tokens, "right": panel.key_tokens}
    return [tokens[side][index] for side in tokens for index in panel.sides.get(f"{side}_special", ())]


@lru_cache
def _own(name):
    """Return a file of this folder, without indentation and comments."""
    return _without_comments(Path(__file__).with_name(name).read_text(encoding="utf-8"))


@lru_cache
def _drawing_code(kind):
    """Return bertviz's drawing code with ours at the end of its one function, which starts the drawing.

    A function that ours defines takes the place of bertviz's of that name. Left out are functions that nothing calls
    then, and the addresses that bertviz would fetch its libraries from.
    """
    own = "\n".join(map(_own, SCRIPTS[kind]))
    code = _without_comments(_library("bertviz", f"bertviz/{kind}_view.js"))
    code = code.replace("PYTHON_PARAMS", "window.bertviz_params")
    code = re.sub(r"require\.config\(.*?\}\);", "", code, count=1, flags=re.DOTALL)
    code = re.sub(r"const ([A-Z_]+) =", r"let \1 =", code)  # sizes that may depend on the page's width
    code = re.sub(r"initialize\(\);\n(render(Vis)?\(\);\n)?", "", code, count=1)
    code = re.sub(r"(render\(\);\n)?\}\);\s*$", "", code)
    for name in re.findall(r"^function (\w+)", own, flags=re.MULTILINE):
        code = _without_function(code, name)
    for name in re.findall(r"^function (\w+)", code, flags=re.MULTILINE):
        if len(re.findall(rf"\b{name}\b", code + own)) == 1:
            code = _without_function(code, name)
    return f"{code}\n{own}\n}});"


def _without_function(code, name):
    """Return code without its function of this name."""
    start = code.find(f"function {name}(")
    if start < 0:
        return code
    end, depth = code.index("{", start), 0
    while True:
        depth += {"{": 1, "}": -1}.get(code[end], 0)
        end += 1
        if not depth:
            return code[:start] + code[end:]


@lru_cache
def _library(package, path):
    """Return a JavaScript file of an installed package."""
    try:
        file = Path(metadata.distribution(package).locate_file(path))
        return file.read_text(encoding="utf-8")
    except (metadata.PackageNotFoundError, OSError):
        message = f"The views need {path} of the package {package}. Run `pip install {package}`."
        raise ImportError(message) from None


def _without_comments(code):
    """Return code without indentation and comments."""
    lines = [re.sub(r"(^|\s)// (?!http).*", "", line.strip()) for line in code.splitlines()]
    return "\n".join(line for line in lines if line and not re.match(r"\* |\*$", line))


def _frame(view, picture, width):
    """Return the page in a frame that covers its static picture, which shows when no frame or no script is allowed.

    The frame tells the page whether the notebook is dark: at first, and when another theme is chosen, of which
    JupyterLab and VS Code make a note at the body of the notebook.
    """
    page = view.html.replace("&", "&amp;").replace("'", "&#39;")
    text = html.escape(view.text)
    return (
        f'<div style="display:grid;min-height:{view.height}px">'
        f'<img style="grid-area:1/1;max-width:100%" width="{width}" alt="{text}" src="data:image/png;base64,{picture}">'
        f'<iframe style="grid-area:1/1;width:100%;height:100%;border:0" title="{text}" sandbox="allow-scripts" '
        """onload="const tell=()=>this.contentWindow.postMessage(getComputedStyle(this).colorScheme,'*');tell();"""
        "new MutationObserver((_,it)=>this.isConnected?tell():it.disconnect()).observe(document.body,{attributes:true})"
        '" '
        f"srcdoc='{page}'></iframe></div>"
    )


def make_choices(panels, sentence_b_start):
    """Return what the menu of attention offers: the panels, and the parts of a pair."""
    choices = [_pack(panel) for panel in panels]
    if sentence_b_start is not None:
        tokens = panels[0].query_tokens
        choices += sentence_choices(tokens, read_sentence_b_start(sentence_b_start, len(tokens)))
    return choices


def sentence_choices(tokens, start):
    """Return the four parts of a pair, cut out of the first panel in the page, so that no weight is stored twice."""
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


def _pack(panel):
    """Return a panel for the page, with its weights as one byte each: 0.0 is 0, 1.0 is 255."""
    return {
        "name": panel.name,
        "left_text": panel.query_tokens,
        "right_text": panel.key_tokens,
        "shape": list(panel.levels.shape),
        "weights": base64.b64encode(panel.levels.tobytes()).decode("ascii"),
    } | panel.sides
