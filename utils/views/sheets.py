"""A drawing as a list of shapes in pixels of the page, and the files that it becomes: PNG, SVG and PDF.

Each shape knows two ways to be drawn: `paint` into an image, by `strokes`, and `plot` on a plot of matplotlib, which
writes the files that hold lines and not pixels. matplotlib is imported only for these: its import takes over a second,
and its pixels up to three times as long as `strokes`.
"""

import io
import os
import re
import warnings
import zlib
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from math import inf
from pathlib import Path

import numpy as np
from PIL import Image, ImageColor, ImageDraw, ImageFont

from .ink import FAINTEST
from .strokes import draw_cells, draw_fan, draw_grid

DOTS = 100  # pixels of the page for an inch; a point of type is 1/72 inch
MARGIN = 8  # pixels of the page around a PNG, as a page has them
FINE = 4  # letters are drawn so many times larger than they are shown
# A PNG is made smaller in one of two ways, and no colour moves by more than an eye can see beside it. Of FEW colours,
# shades of some inks, 256 can stand for all. Where inks mix there are more: then each part of a colour goes in STEPS.
FEW = 5000
# Fonts that hold more than Latin letters, by their file names.
SCRIPTS = "Noto|CJK|wqy|Droid|Unifont|FreeSans|Lohit|Emoji|Symbola|Hiragino|PingFang|Gothic|msyh|Nirmala"
STEPS = [max(0, 255 - round((255 - level) / 4) * 4) for level in range(256)]


@dataclass
class Sheet:
    """Shapes on a white ground, the first beneath the others, and texts above all of them."""

    width: float
    height: float
    sharpness: float  # pixels of the PNG for one of the page
    shapes: list = field(default_factory=list)

    def add(self, *shapes):
        self.shapes += shapes

    @property
    def shown(self):
        """How wide and how high the PNG is shown, in pixels of the page."""
        return {"width": round(self.width) + 2 * MARGIN, "height": round(self.height) + 2 * MARGIN}

    def png(self):
        """Return the drawing as a PNG, with a margin."""
        size = [round(side * self.sharpness) for side in (self.height, self.width)]
        image = np.ones((*size, 3), np.float32)
        texts = [shape for shape in self.shapes if isinstance(shape, Text)]
        for shape in self.shapes:
            if not isinstance(shape, Text):
                shape.paint(image, self.sharpness)
        image *= 255
        image += 0.5
        picture = Image.fromarray(image.astype(np.uint8))
        for text in texts:
            text.paint(picture, self.sharpness)
        margin = round(MARGIN * self.sharpness)
        paper = Image.new("RGB", [side + 2 * margin for side in picture.size], "white")
        paper.paste(picture, (margin, margin))
        if colours := paper.getcolors(FEW):
            paper, effort = _with_few(paper, colours), {"compress_level": 4}
        else:  # half the time of level 4, for the same size
            paper, effort = paper.point(STEPS * 3), {"compress_type": zlib.Z_RLE}
        file = io.BytesIO()
        file.name = "view.png"  # by its name PIL loads what writes this format alone
        paper.save(file, **effort)
        return file.getvalue()

    def vector(self, kind):
        """Return the drawing as a file whose lines and letters stay sharp at any size. kind: "svg" or "pdf"."""
        from matplotlib import rc_context
        from matplotlib.figure import Figure

        figure = Figure(figsize=(self.width / DOTS, self.height / DOTS))
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, self.width), ylim=(self.height, 0))
        axes.set_axis_off()
        for order, shape in enumerate(self.shapes):
            shape.plot(axes, order)
        file = io.BytesIO()
        # Letters stay letters, which can be searched. Without a date the same drawing gives the same bytes.
        dated = {"Date": None} if kind == "svg" else {"CreationDate": None}
        with (
            rc_context({"svg.fonttype": "none", "svg.hashsalt": "", "pdf.fonttype": 42}),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")  # a sign that the font lacks is drawn as a box, without a warning
            figure.savefig(file, format=kind, metadata=dated)
        return file.getvalue()


def _with_few(picture, colours):
    """Return the picture with 256 colours, the most frequent of `colours` (counts and colours) as it is."""
    colours = np.array([colour for _, colour in sorted(colours, reverse=True)], np.uint8)
    few = Image.fromarray(colours[None]).quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=0)
    chosen, palette = np.asarray(few)[0], few.getpalette()
    palette[3 * chosen[0] : 3 * chosen[0] + 3] = colours[0].tolist()
    # Which of the 256 stands for a colour, of all that there may be.
    places = np.zeros(1 << 24, np.uint8)
    places[_numbers_of(colours)] = chosen
    found = Image.fromarray(places[_numbers_of(np.asarray(picture))], "P")
    found.putpalette(palette)
    return found


def _numbers_of(colours):
    red, green, blue = np.moveaxis(colours.astype(np.int32), -1, 0)
    return red << 16 | green << 8 | blue


@dataclass
class Fan:
    """A line from each query, at the left, to each key, at the right, for each head."""

    opacities: np.ndarray  # (heads, query, key)
    colours: list[str]  # one for each head
    left: float
    right: float
    top: float  # the middle of the first token
    step: float  # from a token to the next; times the sharpness of the sheet a whole number
    width: float
    most: float = 0  # the width of a line as opaque as 1, if larger: the others have their share of it

    def paint(self, image, sharpness):
        colours, most = [_rgb(colour) for colour in self.colours], self.most * sharpness
        draw_fan(image, self.seen, colours, *self.place(sharpness), most)

    @property
    def seen(self):
        return np.where(self.opacities < FAINTEST, 0, self.opacities)

    def place(self, sharpness):
        left, right, top, width = (side * sharpness for side in (self.left, self.right, self.top, self.width))
        return left, right, top, round(self.step * sharpness), width

    def plot(self, axes, order):
        from matplotlib.collections import LineCollection

        for colour, opacities in zip(self.colours, self.opacities, strict=True):
            seen = np.argwhere(opacities >= FAINTEST)
            lines = [[(self.left, query), (self.right, key)] for query, key in self.top + self.step * seen]
            inks = [(*_rgb(colour), opacities[query, key]) for query, key in seen]
            wide = [_points(max(self.width, self.most * opacity)) for *_, opacity in inks]
            style = {"linewidths": wide, "capstyle": "butt", "zorder": order}
            axes.add_collection(LineCollection(lines, colors=inks, **style), autolim=False)


@dataclass
class Grid:
    """Fans of one head and of equal size, drawn together in a fraction of the time."""

    fans: list[Fan]

    def paint(self, image, sharpness):
        first = self.fans[0]
        offsets = [
            [round((fan.top - first.top) * sharpness), round((fan.left - first.left) * sharpness)]
            for fan in self.fans
        ]
        seen = np.concatenate([fan.seen for fan in self.fans])
        draw_grid(image, seen, [_rgb(fan.colours[0]) for fan in self.fans], offsets, *first.place(sharpness))

    def plot(self, axes, order):
        for fan in self.fans:
            fan.plot(axes, order)


@dataclass
class Box:
    """A filled rectangle."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    opacity: float = 1

    def paint(self, image, sharpness):
        place = (side * sharpness for side in (self.x, self.y, self.width, self.height))
        draw_cells(image, *place, [_rgb(self.colour)], self.opacity)

    def plot(self, axes, order):
        from matplotlib.patches import Rectangle

        style = {"facecolor": (*_rgb(self.colour), self.opacity), "linewidth": 0, "zorder": order}
        axes.add_patch(Rectangle((self.x, self.y), self.width, self.height, **style))


@dataclass
class Cells:
    """A row of rectangles of equal size, side by side."""

    x: float
    y: float
    width: float  # of the row
    height: float
    colours: np.ndarray  # (cells, 3), from 0 to 1

    def paint(self, image, sharpness):
        place = (side * sharpness for side in (self.x, self.y, self.width, self.height))
        draw_cells(image, *place, self.colours)

    def plot(self, axes, order):
        each = self.width / len(self.colours)
        places = [(self.x + each * cell, each) for cell in range(len(self.colours))]
        style = {"facecolors": self.colours.clip(0, 1), "linewidth": 0, "zorder": order}
        axes.broken_barh(places, (self.y, self.height), **style)


@dataclass
class Text:
    """A line of text: x is its left end, its middle or its right end, y the line that letters stand on."""

    x: float
    y: float
    text: str
    size: float  # in pixels of the page
    anchor: str = "left"  # or "center" or "right"
    style: str = ""  # or "bold" or "italic"
    colour: str = "#202020"
    room: float = inf  # a text that is wider is drawn smaller

    def paint(self, picture, sharpness):
        """Draw larger and shrink: so letters stand where they should, and not at the next whole pixel."""
        scale, anchor = FINE * sharpness, self.anchor[0].replace("c", "m") + "s"
        font, x, y = _font(self.style, self.fitted * scale, self.text), self.x * scale, self.y * scale
        left, top, right, bottom = font.getbbox(self.shown, anchor=anchor)
        column, row = (int(start // FINE) * FINE for start in (x + left, y + top))
        width, height = (-int(-end // FINE) * FINE for end in (x + right - column, y + bottom - row))
        mask = Image.new("L", (width, height))
        ImageDraw.Draw(mask).text((x - column, y - row), self.shown, 255, font, anchor)
        if width and height:
            picture.paste(self.colour, (column // FINE, row // FINE), mask.reduce(FINE))

    def plot(self, axes, order):
        style = {"weight": "bold"} if self.style == "bold" else {"style": self.style or "normal"}
        style |= {"ha": self.anchor, "size": _points(self.fitted), "color": self.colour}
        axes.text(self.x, self.y, self.shown, parse_math=False, zorder=1e6, **style)

    @property
    def width(self):
        return _font(self.style, self.size, self.text).getlength(self.shown)

    @property
    def fitted(self):
        """The size at which the text is no wider than its room."""
        if len(self.shown) * self.size <= self.room:  # letters are hardly wider than high
            return self.size
        return self.size * min(1, self.room / max(1, self.width))

    @property
    def shown(self):
        """The text with the code of each sign that would break a line, draw nothing, or draw an empty box."""
        file = _file(self.style, self.text)
        seen = {sign: sign.isprintable() and _has(file, sign) for sign in self.text}
        return "".join(sign if seen[sign] else f"\\u{ord(sign):04x}" for sign in self.text)


def _rgb(colour):
    return tuple(part / 255 for part in ImageColor.getrgb(colour))


def _points(pixels):
    return pixels * 72 / DOTS


@cache
def _font(style, size, text=""):
    """Return a font that has the signs of a text."""
    return ImageFont.truetype(_file(style, text), size)


@cache
def _file(style, text):
    """Return a font file with the signs of a text: one that matplotlib brings, else the best that is installed."""
    ending = {"bold": "-Bold", "italic": "-Oblique"}.get(style, "")
    folder = Path(find_spec("matplotlib").submodule_search_locations[0], "mpl-data/fonts/ttf")
    own = str(folder / f"DejaVuSans{ending}.ttf")
    if all(_has(own, sign) for sign in text):
        return own
    return max([own, *_installed()], key=lambda file: sum(_has(file, sign) for sign in text))


@cache
def _installed():
    """Return the font files of this machine whose names say that they hold many scripts."""
    home, windows = Path.home(), os.environ.get("WINDIR", "C:/Windows")
    folders = ["/usr/share/fonts", "/usr/local/share/fonts", home / ".fonts", home / ".local/share/fonts"]
    folders += ["/System/Library/Fonts", "/Library/Fonts", home / "Library/Fonts", f"{windows}/Fonts"]
    files = [file for folder in folders for file in sorted(Path(folder).rglob("*.[to]t[cf]"))]
    return [file for file in files if re.search(SCRIPTS, file.name, re.I) and _opens(file)]


def _opens(file):
    try:
        return bool(ImageFont.truetype(file, 20))
    except OSError:  # as fonts of coloured pixels, which have one size
        return False


@cache
def _has(file, sign):
    """Whether a font has a sign: else it draws the box that it draws for a sign that no font has."""
    if ord(sign) < 0x250 or not sign.isprintable():
        return True
    font = ImageFont.truetype(file, 20)
    return bytes(font.getmask(sign)) != bytes(font.getmask("\U0010fffe"))
