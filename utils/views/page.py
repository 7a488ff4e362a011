"""The page of a view, which needs no network, and the frame that shows it before its static picture.

bertviz (https://github.com/jessevig/bertviz, Apache 2.0) draws with two JavaScript libraries that its own pages fetch
from a server. Here its drawing code runs unchanged inside one self-contained page, `page.html`: d3 and jQuery are in
the page, and the numbers are packed as bytes.
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

import torch

from . import ink
from .panels import read_sentence_b_start

SHADES = {"light": "white", "dark": "black"}  # display_mode and the ground that bertviz draws on


@dataclass
class View:
    """An interactive page and its static picture. A notebook shows it when it is the last line of a cell.

    With COURSE_STATIC_VIEWS=1 in the environment only the picture and the text are emitted.
    """

    text: str  # one line that says what is drawn
    html: str  # the whole interactive page
    height: int  # of the page, in pixels
    draw: Callable  # () -> the static picture, a `Sheet`
    width: int | None = None  # of a page that shrinks as a whole where there is less room, in pixels

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


def make_page(kind, title, menus, data, display_mode):
    """Return page.html, filled. The text of tokens enters only as JSON, in which `<` cannot end a script."""
    if display_mode not in SHADES:
        raise ValueError(f'display_mode is "light" or "dark", not {display_mode!r}.')
    if len(data["attention"]) > 1:
        menus += menu("filter", "Attention", data["attention"])
    data |= {
        "kind": kind,
        "colours": ink.COLOURS,
        "strength": ink.STRENGTH,
        "default_filter": "0",
        "root_div_id": "view",
        "display_mode": display_mode,
    }
    parts = {
        "title": html.escape(title),
        "mode": display_mode,
        "menus": menus,
        "background": SHADES[display_mode],
        "data": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        "jquery": _library("XStatic-jQuery", "xstatic/pkg/jquery/data/jquery.min.js"),
        "d3": _library("mpld3", "mpld3/js/d3.v5.min.js"),
        "common": _own("common.js"),
        "bertviz": _bertviz(f"{kind}_view.js"),
        "own": _own(f"{kind}.js"),
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


@lru_cache
def _own(name):
    """Return a file of this folder."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _bertviz(script):
    """Return bertviz's drawing code, open at its end: `own` follows in the same function, and starts the drawing.

    A function that `own` defines anew replaces bertviz's of that name. Left out are the addresses that bertviz would
    fetch its libraries from.
    """
    code = _library("bertviz", f"bertviz/{script}").replace("PYTHON_PARAMS", "window.bertviz_params")
    code = re.sub(r"require\.config\(.*?\}\);", "", code, count=1, flags=re.DOTALL)
    code = re.sub(r"initialize\(\);\n(render(Vis)?\(\);\n)?", "", code, count=1)
    return re.sub(r"(render\(\);\n)?\}\);\s*$", "", code)


@lru_cache
def _library(package, path):
    """Return a JavaScript file of an installed package, without indentation and without lines that only comment."""
    try:
        file = Path(metadata.distribution(package).locate_file(path))
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except (metadata.PackageNotFoundError, OSError):
        message = f"The views need {path} of the package {package}. Run `pip install {package}`."
        raise ImportError(message) from None
    return "\n".join(line for line in lines if line and not re.match(r"\* |\*$|// (?!http)", line))


def _frame(view, picture, width):
    """Return the page in a frame that covers its static picture, which shows when no frame or no script is allowed."""
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
    levels = (panel.weights.double() * 255).round().to(torch.uint8).cpu()
    return {
        "name": panel.name,
        "left_text": panel.query_tokens,
        "right_text": panel.key_tokens,
        "shape": list(levels.shape),
        "weights": base64.b64encode(bytes(levels.flatten().tolist())).decode("ascii"),
    }


def floats(numbers):
    """Return the numbers as float32 in base64, low byte first."""
    return base64.b64encode(numbers.float().numpy().astype("<f4").tobytes()).decode("ascii")
