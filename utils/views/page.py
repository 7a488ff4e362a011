"""The page of a view, which needs no network, and the frame that shows it before its static picture.

The page is one file, `page.html`, with its numbers packed as bytes and its drawing code in it. Of bertviz
(https://github.com/jessevig/bertviz, Apache 2.0) it holds the code of the neuron view, which draws with d3: a function
of `neuron.js` takes the place of bertviz's function of that name. The other views are drawn by files of this folder.
"""

import base64
import html
import json
import os
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import metadata
from pathlib import Path

import numpy as np

from . import ink

# The files of a page's code beside common.js. That of the neuron view runs in bertviz's, which comes with the data.
CODE = {"head": ("lines", "head"), "model": ("lines", "model"), "text": ("text",), "neuron": ("vectors",)}
# Of a page's numbers: none needs an escape in JSON or HTML.
SIGNS = np.array([sign for sign in range(33, 127) if chr(sign) not in "\"&'<\\"][:85], np.uint8)
# What the frame of a page does: it tells the page the ground of the notebook, and takes the height that the page tells.
# Where no CSS says which scheme it is, the ground is what is painted behind the frame.
ONLOAD = (
    "const ground=(at)=>{if(!at)return 'light';const [r,g,b,a=1]=getComputedStyle(at).backgroundColor.match(/[\\d.]+/g);"
    "return a<0.5?ground(at.parentElement):r*0.3+g*0.6+b*0.1<128?'dark':'light'};"
    "const tell=()=>{const scheme=getComputedStyle(this).colorScheme;"
    "this.contentWindow.postMessage(scheme==='normal'?ground(this):scheme,'*')};"
    "window.addEventListener('message',({source,data})=>{if(source===this.contentWindow&&data.height)"
    "{this.parentNode.style.minHeight=data.height+'px';"
    "if(this.previousElementSibling)this.previousElementSibling.style.display='none'}});tell();"
    "new MutationObserver((_,it)=>this.isConnected?tell():it.disconnect()).observe(document.body,{attributes:true})"
)


@dataclass
class View:
    """An interactive page and its static picture. A notebook shows it when it is the last line of a cell.

    With COURSE_STATIC_VIEWS=1 in the environment only the picture and the text are emitted. `data` is `html`, as what
    bertviz returns has it.
    """

    text: str  # one line that says what is drawn
    html: str  # the whole interactive page
    height: int  # of the page, in pixels
    draw: Callable  # () -> the static picture, a `Sheet`
    picture: bool = True  # whether the output holds it

    @property
    def data(self):
        return self.html

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
            why = f"The view cannot be written to {path} ({error.strerror}). Give a path in another folder."
            raise OSError(why) from None
        return path

    def __repr__(self):
        return self.text

    def _repr_mimebundle_(self, include=None, exclude=None):
        data, static = {"text/plain": self.text}, os.environ.get("COURSE_STATIC_VIEWS") == "1"
        if not static:
            return data | {"text/html": _frame(self)}, {}
        if not self.picture:
            return data, {}
        data["image/png"] = base64.b64encode(self.png).decode("ascii")
        return data, {"image/png": self.sheet.shown}


def make_page(kind, title, menus, data):
    """Return page.html, filled. The text of tokens enters only as JSON, in which `<` cannot end a script."""
    if len(data["attention"]) > 1:
        names = {place: choice["name"] for place, choice in enumerate(data["attention"])}
        menus = menu("filter", "Attention", names) + menus
    colours, inks = {"light": ink.COLOURS, "dark": ink.DARK}, {"light": ink.INKS, "dark": ["black"]}
    data |= {"colours": colours, "inks": inks, "strengths": [ink.opening_strength(heads) for heads in (1, 2)]}
    data |= {"alone": {"light": [ink.ALONE], "dark": [ink.ALONE_DARK]}}
    data |= {"line": ink.LINE, "most": ink.MOST, "least": ink.LEAST, "faintest": ink.FAINTEST}
    data |= {"thin": ink.THIN, "firm": ink.FIRM}
    if kind == "neuron":
        data["script"] = _neuron_script()
    parts = {
        "title": html.escape(title),
        "ground": ink.GROUND,
        "menus": menus,
        "data": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        "code": "\n".join(_own(f"{name}.js") for name in ("common", *CODE[kind])),
    }
    page = _own("page.html")
    # In one pass, so that no part is searched again.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], page)


def menu(name, label, choices=None):
    """Return the HTML of a menu. choices: what is read for each value; of some menus they come from the page's code."""
    names = (choices or {}).items()
    options = "".join(f'<option value="{value}">{html.escape(text)}</option>' for value, text in names)
    return f'<label>{label}: <select id="{name}">{options}</select></label>'


def make_controls(panels, *more):
    """Return the HTML of what changes the drawing. more: further pairs of the id and the label of a box to tick.

    panels: what is drawn, each with its `query_tokens`, `key_tokens` and `sides`.
    """
    ticks, special = dict(more), {}
    for panel in panels:
        for side, tokens in (("left", panel.query_tokens), ("right", panel.key_tokens)):
            special |= {tokens[index]: side for index in panel.sides.get(f"{side}_special", ())}
    if "log" not in ticks and any(name.endswith("_words") for panel in panels for name in panel.sides):
        ticks["words"] = "Words"
    if special:
        ticks["hide"] = f"Hide {', '.join(special)}"
    ticks |= {"first": "Hide first token", "rescale": "Rescale the rest"}
    strength = '<label>Line strength: <input type="range" id="strength" min="-2" max="2" step="0.25" value="0"></label>'
    box = '<label><input type="checkbox" id="{}"> {}</label>'
    return strength + "".join(box.format(name, html.escape(text)) for name, text in ticks.items())


@lru_cache
def _own(name):
    """Return a file of this folder, without indentation and comments."""
    return _without_comments(Path(__file__).with_name(name).read_text(encoding="utf-8"))


@lru_cache
def _neuron_script():
    """Return d3 and bertviz's code of the neuron view with ours at the end of its one function, deflated.

    Of two functions of one name the later counts, which is ours. Left out are the addresses that bertviz would fetch
    its libraries from.
    """
    code = _without_comments(_library("bertviz", "bertviz/neuron_view.js"))
    code = re.sub(r"require\.config\(.*?\}\);", "", code, count=1, flags=re.DOTALL)
    code = re.sub(r"const ([A-Z_]+) =", r"let \1 =", code)  # sizes that may depend on the page's width
    code = re.sub(r"initialize\(\);\n", "", code, count=1)
    code = re.sub(r"render\(\);\n\}\);\s*$", "", code)
    script = "\n".join([_library("mpld3", "mpld3/js/d3.v5.min.js"), code, _own("neuron.js"), "});"])
    return deflate(np.frombuffer(script.encode(), np.uint8), zlib.Z_DEFAULT_STRATEGY)


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


def _frame(view):
    """Return the page in a frame that covers its static picture, which shows when no frame or no script is allowed.

    The frame tells the page whether the notebook is dark: at first, and when another theme is chosen, of which
    JupyterLab and VS Code make a note at the body of the notebook. The page tells the frame how high it is.
    """
    page = view.html.replace("&", "&amp;").replace("'", "&#39;")
    text, picture = html.escape(view.text), ""
    if view.picture:
        data, width = base64.b64encode(view.png).decode("ascii"), view.sheet.shown["width"]
        style = "grid-area:1/1;max-width:100%"
        picture = f'<img style="{style}" width="{width}" alt="{text}" src="data:image/png;base64,{data}">'
    return (
        f'<div style="display:grid;min-height:{view.height}px">{picture}'
        f'<iframe style="grid-area:1/1;width:100%;height:100%;border:0" title="{text}" sandbox="allow-scripts" '
        f"onload=\"{ONLOAD}\" srcdoc='{page}'></iframe></div>"
    )


def deflate(numbers, strategy=zlib.Z_RLE):
    """Return an array's bytes, deflated: first the first byte of each number, low byte first, and so on.

    They are text in which five of 85 SIGNS are four bytes, behind a sign that says how many bytes are left over.
    Numbers that repeat no others are shorter by Z_RLE, and quicker; what repeats itself is shorter without.
    """
    size = numbers.dtype.itemsize
    planes = numbers.astype(numbers.dtype.newbyteorder("<")).reshape(-1).view(np.uint8).reshape(-1, size).T
    packer = zlib.compressobj(strategy=strategy)
    packed = packer.compress(planes.tobytes()) + packer.flush()
    over = -len(packed) % 4
    words = np.frombuffer(packed + bytes(over), ">u4").astype(np.uint32)
    digits = words[:, None] // 85 ** np.arange(4, -1, -1, dtype=np.uint32) % 85
    return str(over) + SIGNS[digits].tobytes().decode("ascii")


def make_choices(panels):
    """Return what the menu of attention offers: the panels, and the parts of a pair."""
    choices = []
    for panel in panels:
        packed = {"name": panel.name, "left_text": panel.query_tokens, "right_text": panel.key_tokens}
        packed |= {"shape": list(panel.levels.shape), "weights": deflate(panel.levels)}
        choices.append(packed | panel.sides)
    if panels[0].sentence_b_start is not None:
        choices += sentence_choices(panels[0].query_tokens, panels[0].sentence_b_start)
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
