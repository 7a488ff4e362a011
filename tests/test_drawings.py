"""The drawings and the palette: brightness apart, ink on fill, and text in its place when it is drawn."""

import itertools
import re
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
import torch
from view_samples import lab, linear, luminance

import course
from utils import plots
from utils.views.ink import ALONE, COLOURS, DARK, GROUND, INKS, opacity, opening_strength
from utils.views.pictures import CHIPS

DRAWINGS = sorted(set((course.ROOT / "images").glob("*.svg")) - {course.ROOT / "images/open-in-colab.svg"})
each_drawing = pytest.mark.parametrize("path", DRAWINGS, ids=lambda path: path.stem)
# What CONTRIBUTING.md says: class -> its fill and its edge.
ROLES = re.compile(r"^\| `\.(\w+)` \| .*\| `(fill: #\w{6}; stroke: #\w{6};)` \|$", re.M)
ROLES = dict(ROLES.findall((course.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
APART, INK = 1.4, 4.5  # fill to fill, text to fill
SMALLEST = 9.7  # pixels of a letter on the smallest screen that shows it
EDGE = 12  # pixels of white around the ink, which is 1 px less wide than the boxes of its letters


def contrast(one, other):
    """The contrast of two colours, as WCAG 2 defines it."""
    dark, light = sorted(luminance(np.array(matplotlib.colors.to_rgb(colour))) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def too_near(colours, least=APART):
    return [pair for pair in itertools.combinations(sorted(colours), 2) if contrast(*pair) < least]


def parts(path, tag):
    return ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}" + tag)


def rules(path, dark=False):
    """What a class says: on a white ground, or on a dark page."""
    said = re.findall(r"^ {4}(  )?\.([\w-]+) \{ (.*?) \}", path.read_text(encoding="utf-8"), re.M)
    return {name: rule for inner, name, rule in said if dark or not inner}


def fill(part, rules):
    """The fill of a part, as CSS has it: the last class that says one, else its own."""
    said = [re.search(r"fill: (#\w+)", rules.get(name, "")) for name in part.get("class", "").split()]
    return next((found[1] for found in reversed(said) if found), part.get("fill"))


def test_contrast_is_that_of_wcag():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)  # the known grey that just fails


def test_the_colours_of_queries_keys_and_values_are_told_apart_without_colour():
    of = {name: re.search(r"fill: (#\w+)", rule)[1] for name, rule in ROLES.items()}
    assert not too_near({of[name] for name in ("query", "key", "value", "no", "box")})
    assert not too_near({of[name] for name in ("first", "second", "third", "box")})
    page = (course.ROOT / "utils/views/page.html").read_text("utf-8")  # behind a chosen token
    assert all(f"{{ {ROLES[name]} }}" in page and of[name] == CHIPS[name] for name in CHIPS)
    assert not too_near({of["query"], of["key"]}, 1.7)


@each_drawing
def test_a_class_has_one_colour_in_all_drawings(path):
    said = {name: rule for name, rule in rules(path).items() if "fill: #" in rule and "stroke: #" in rule}
    assert said == {name: ROLES.get(name) for name in said}


@each_drawing
def test_fills_of_one_drawing_are_told_apart(path):
    assert next(parts(path, "text")).get("class") == "title"
    boxes = [part for part in parts(path, "rect") if part.get("x") and part.get("class")]
    for css in (rules(path), rules(path, dark=True)):
        assert not too_near({fill(box, css) for box in boxes})


def test_lines_of_plots_are_told_apart_without_colour():
    for colours in (plots.PALETTE.values(), plots.ROLES.values()):
        assert not too_near(colours) and all(contrast(colour, "white") > 2.9 for colour in colours)


def test_digits_in_a_table_of_weights_can_be_read():
    for part in np.split(np.linspace(0, 1, 201)[None], 3, axis=1):
        html = plots.AttentionTable(part, index=["a"], columns=range(67))._repr_html_()
        found = re.findall(r"rgb\((\d+),(\d+),(\d+)\);color:(\w+)", html)
        assert len(found) == 67
        for *rgb, ink in found:
            assert contrast([int(value) / 255 for value in rgb], ink) >= INK


# What is seen without the cones for red, green, blue, by Machado et al. (2009), table 1, severity 1.
WITHOUT = {
    "none": [[1.0, 0, 0], [0, 1, 0], [0, 0, 1]],
    "red": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "green": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "blue": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


@pytest.mark.parametrize("colours", [COLOURS, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("cones", WITHOUT)
def test_twelve_colours_are_told_apart(cones, colours):
    inks = linear(matplotlib.colors.to_rgba_array(colours)[:, :3])
    distances = torch.pdist(torch.from_numpy(lab((inks @ np.array(WITHOUT[cones]).T).clip(0, 1))))
    assert len(set(colours)) == 12 and distances.min() > (30 if cones == "none" else 17)


def test_a_weight_of_1_can_be_seen_on_either_ground_and_text_on_its_colour():
    light, dark = ([*COLOURS, ALONE], "white", [*INKS, "black"]), (DARK, GROUND, ["black"] * 12)
    for colours, ground, inks in (light, dark):
        assert all(contrast(colour, ground) >= 3 for colour in colours)
        assert all(contrast(*pair) >= INK for pair in zip(colours, inks, strict=True))
    for heads in (1, 12):
        assert opacity(1.0, opening_strength(heads)) == 1 and opacity(0.0, opening_strength(heads)) == 0
    found = [opacity(0.3), opacity(0.3, opening_strength(1)), opacity(0.3, opening_strength(12))]
    assert found == pytest.approx([0.3, 0.3, 0.09])


FIND = """() => [...document.querySelectorAll('text')].map(text => {
  const {left, top, right, bottom} = text.getBoundingClientRect(), style = getComputedStyle(text);
  const parts = document.elementsFromPoint(left + 4, (top + bottom) / 2);
  const under = parts.find(part => part.matches('rect')), hidden = parts.indexOf(text) > parts.indexOf(under);
  const fills = [text, under].map(part => getComputedStyle(part).fill.match(/\\d+/g).map(one => one / 255));
  const box = [left, top, right, bottom], turned = text.hasAttribute('transform');
  return {said: text.textContent, box, size: parseFloat(style.fontSize), turned, fills, hidden};
})"""


MARGINS = """() => [...document.querySelectorAll('rect ~ *')].map(ink => [ink, document.documentElement]
  .map(part => part.getBoundingClientRect())).map(([ink, card]) => Math.min(
    ink.left - card.left, ink.top - card.top, card.right - ink.right, card.bottom - ink.bottom))"""


@pytest.fixture(scope="module")
def page(chromium):
    return chromium.new_page()


@pytest.mark.browser
@each_drawing
def test_text_stands_on_its_canvas_alone_and_can_be_read_on_a_phone_and_in_the_dark(path, page):
    *_, width, height = map(float, ElementTree.parse(path).getroot().get("viewBox").split())
    page.set_viewport_size({"width": 900, "height": round(height)})  # else some are over nothing
    page.goto(path.as_uri(), timeout=600_000)
    page.evaluate(f"document.documentElement.style = 'width: {width}px; height: {height}px'")
    dark, texts = (page.emulate_media(color_scheme=one) or page.evaluate(FIND) for one in ("dark", "light"))
    margins = page.evaluate(MARGINS)
    assert min(margins) >= EDGE and texts != dark, f"{min(margins):.1f} px to the edge, or no dark palette"
    screen = 561 if width > 560 and path.with_stem(f"{path.stem}-narrow") in DRAWINGS else 390
    for text in texts + dark:
        assert text["size"] * screen / width >= SMALLEST, f"{text['said']} is too small"
        assert contrast(*text["fills"]) >= INK and not text["hidden"], text
    for one, other in itertools.combinations((text for text in texts if not text["turned"]), 2):
        (a, b, c, d), (e, f, g, h) = one["box"], other["box"]
        over = min(c, g) - max(a, e) > 1 and min(d, h) - max(b, f) > 3
        assert not over, f"{one['said']!r} stands over {other['said']!r}"
