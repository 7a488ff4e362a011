"""The static pictures: lines composed as a canvas composes them, numbers where the page draws them, files."""

import io
import itertools
import re
from importlib import metadata
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from PIL import Image, ImageColor, ImageOps
from view_samples import HOSTILE, Words, apart, names, neurons, pair, small_bert, stacks, weights, written

from utils.views import head_view, model_view, neuron_view, sheets, text_view
from utils.views.ink import ALONE
from utils.views.pictures import grid_cell
from utils.views.sheets import Box, Cells, Fan, Grid, Text, _font
from utils.views.strokes import draw_cells, draw_fan

KEY, VIOLET, RED = "#0060cc", "#7800fc", "#c0000c"  # of keys, and the first two of the twelve inks


def over_white(colour, opacity):
    """The colour (0 to 255) that a reader sees of something so opaque on white."""
    return opacity * np.array(ImageColor.getrgb(colour)) + 255 * (1 - opacity)


def image(view):
    """The picture without its margin, which is white."""
    whole, margin = Image.open(io.BytesIO(view.png)).convert("RGB"), round(8 * view.sheet.sharpness)
    assert (np.asarray(whole)[:, :margin] == 255).all() and (np.asarray(whole)[-margin:] == 255).all()
    return ImageOps.expand(whole, -margin)


def pixel(picture, view, x, y):
    """The colour at a place that is given in pixels of the page."""
    return np.array(picture.getpixel((int(x * view.sheet.sharpness), int(y * view.sheet.sharpness))))


def shapes(view, kind):
    each = [shape.fans if isinstance(shape, Grid) else [shape] for shape in view.sheet.shapes]
    return [shape for shape in itertools.chain(*each) if isinstance(shape, kind)]


def blank(view):
    """White paper for the picture of a view."""
    sides = [round(side * view.sheet.sharpness) for side in (view.sheet.height, view.sheet.width)]
    return np.ones((*sides, 3), np.float32)


# --- lines
def one_by_one(image, opacities, colours, left, right, top, step, width, most=0, fine=8):
    """Lines drawn by what source-over means, the faint ones first, each with its part of a pixel."""
    rows, columns = image.shape[:2]
    y, x = (np.mgrid[: rows * fine, : columns * fine] + 0.5) / fine
    for line in np.argsort(opacities, axis=None, kind="stable"):
        head, query, key = np.unravel_index(line, opacities.shape)
        start, down = np.array([left, top + step * query]), step * (key - query)
        length = np.hypot(right - left, down)
        cosine, sine = (right - left) / length, down / length
        along = cosine * (x - start[0]) + sine * (y - start[1])
        across = cosine * (y - start[1]) - sine * (x - start[0])
        wide = max(width, most * opacities[head, query, key])
        inside = (np.abs(across) <= wide / 2) & (along >= 0) & (along <= length)
        covered = inside.reshape(rows, fine, columns, fine).mean(axis=(1, 3))[..., None]
        image += opacities[head, query, key] * covered * (colours[head] - image)


FANS = {
    "faint": (np.full((2, 3, 4), 0.05), (10.3, 60.8, 9.4, 12, 3.2)),
    "strong": (np.linspace(0.3, 1, 24).reshape(2, 3, 4), (10, 60, 8.5, 12, 4)),
    "steep": (weights(1, 3, 6)[0][0].numpy() ** 2, (12.5, 30, 6, 11, 2)),
    "wide": (np.linspace(0, 1, 24).reshape(2, 3, 4), (10, 60, 8.5, 12, 2, 6)),
    "one line": (np.array([[[0.0, 0.9], [0.0, 0.0]]]), (8, 50, 7, 20, 4)),
    "past the edges": (np.full((1, 5, 5), 0.4), (-20, 90, -8, 20, 4)),
    "nothing": (np.zeros((1, 2, 2)), (10, 60, 8, 12, 4)),
}


@pytest.mark.parametrize("kind", FANS)
def test_lines_are_composed_from_faint_to_strong_as_far_as_they_cover_a_pixel(kind):
    opacities, place = FANS[kind]
    colours = [(0.0, 0.4, 0.8), (0.8, 0.5, 0.0), (0.3, 0.0, 0.6)][: len(opacities)]
    own, expected = np.ones((70, 72, 3), np.float32), np.ones((70, 72, 3))
    threads = torch.get_num_threads()
    draw_fan(own, opacities, colours, *place)
    one_by_one(expected, opacities, np.array(colours), *place)
    assert torch.get_num_threads() == threads
    apart = 255 * np.abs(own - expected)
    assert apart.mean() < 0.5 and apart.max() < 40  # at the corners of a line, whose edges fade over a pixel
    assert np.abs(255 * (own - expected).mean(axis=(0, 1))).max() < 0.35  # nowhere more ink, or less


def test_boxes_and_cells_fill_the_parts_of_pixels_that_they_cover():
    drawn = np.ones((6, 8, 3), np.float32)
    draw_cells(drawn, 1.25, 2, 2, 1.5, [(0, 0, 0)], opacity=0.5)
    expected = np.outer([0, 0, 1, 0.5, 0, 0], [0, 0.75, 1, 0.25, 0, 0, 0, 0])
    assert np.allclose(1 - drawn, 0.5 * expected[..., None])
    drawn = np.ones((2, 8, 3), np.float32)
    draw_cells(drawn, 1, 0, 6, 1, [(0, 0, 0), (1, 0, 0), (1, 1, 1), (0, 0, 1)])
    red = [1, 0, 0.5, 1, 1, 0.5, 0, 1]  # cells of one pixel and a half
    assert np.allclose(drawn[0, :, 0], red) and (drawn[1] == 1).all()
    draw_cells(drawn, -5, -5, 3, 3, [(0, 0, 0)])  # outside
    assert np.allclose(drawn[0, :, 0], red)


# --- the head view
def levels(attention):
    """Weights as a page has them."""
    return ((attention.double().sqrt() * 4095).round().numpy() / 4095) ** 2


def test_head_view_draws_every_weight_panel_beside_panel():
    """One head: as opaque as the weight. Several: as its square."""
    given, sides = stacks(), {"encoder": ("in", "in"), "decoder": ("out", "out"), "cross": ("out", "in")}
    for heads, power in ([0, 2], 2), ([1], 1):
        view = head_view(**given, layer=1, heads=heads)
        fans, texts = shapes(view, Fan), shapes(view, Text)
        places = [view.sheet.width * third / 3 for third in range(3)]
        assert [fan.left - fans[0].left for fan in fans] == pytest.approx(places)
        for fan, (name, words) in zip(fans, sides.items(), strict=True):
            expected = levels(given[f"{name}_attention"][1][0, heads]) ** power
            assert np.allclose(fan.opacities, expected)
            assert [text.text for text in texts].count(name.title()) == 1
            for word, count, x in zip(words, expected.shape[1:], (fan.left, fan.right), strict=True):
                near = [text for text in texts if abs(text.x - x) < 10 and text.size == 15]
                assert [text.text for text in near] == names(count, word)
                middles = [text.y - 4 for text in near]  # of the letters, more or less
                assert middles == pytest.approx([fan.top + 22.5 * i for i in range(count)], abs=2)


@pytest.mark.parametrize("heads", [[13], [3, 13]])
def test_a_line_has_the_colour_of_its_head_as_faint_as_its_opacity(heads):
    """One weight among zeros, seen in the middle of its line. Ink 13 is ink 1 again."""
    for weight in (0.6, 0.15):
        one = torch.zeros(1, 14, 4, 4)
        one[0, 13, 1, 3] = weight
        view = head_view([one], names(4), heads=heads)
        (fan,) = shapes(view, Fan)
        seen = pixel(image(view), view, (fan.left + fan.right) / 2, fan.top + 2 * fan.step)
        assert np.abs(seen - over_white(RED if heads[1:] else ALONE, weight ** len(heads))).max() < 4


def test_a_head_has_a_square_with_its_number_and_squares_wrap():
    view = head_view(weights(1, 40), names(4), layer=0, heads=[1, 30])
    picture, texts = image(view), shapes(view, Text)
    squares = [text for text in texts if text.text.isdigit()]
    assert [text.text for text in squares] == [*map(str, range(40))] and len({text.y for text in squares}) > 1
    for head, text in enumerate(squares):
        assert 0 < text.x < view.sheet.width
        edge, inside = (pixel(picture, view, text.x - x, text.y - 4) for x in (11, 8.6))
        assert np.abs(edge - 255).max() > 100 and (inside == 255).all() == (head not in (1, 30))
    assert any(text.text.startswith("Layer") and "0" in text.text for text in texts)


# --- the model view
@pytest.mark.parametrize(("some", "head_numbers"), [(range(3), range(8)), ([1], [0, 1, 3, 4, 5, 6, 7, 2])])
def test_model_view_draws_every_weight_of_what_is_included(some, head_numbers):
    """84 pixels / heads for a token, as in bertviz's model_view.js; 5 around a small picture."""
    attention = weights(layers=3, heads=8)
    view = model_view(attention, names(4), include_layers=some, include_heads=head_numbers)
    width = (1084 - 38 - 340) // 8
    cells = itertools.product(enumerate(some), enumerate(head_numbers))
    for ((row, layer), (column, head)), fan in zip(cells, shapes(view, Fan), strict=True):
        assert np.allclose(fan.opacities, levels(attention[layer][:, head]))
        left = 38 + width * column + 5
        assert (fan.left, fan.right, fan.step) == pytest.approx((left, left + width - 14, 84 / 8))
        assert fan.top == pytest.approx(32 + row * (4 * 84 / 8 + 10) + 5 + 84 / 16)
        assert fan.colours == [(VIOLET, RED, "#60606c")[layer]]
        assert fan.step * view.sheet.sharpness == pytest.approx(round(fan.step * view.sheet.sharpness))


def test_small_pictures_that_are_drawn_together_are_those_drawn_one_by_one():
    view = model_view(weights(3, 5, 9), names(9))
    (grid,) = [shape for shape in view.sheet.shapes if isinstance(shape, Grid)]
    own, expected = blank(view), blank(view)
    grid.paint(own, view.sheet.sharpness)
    for fan in grid.fans:
        fan.paint(expected, view.sheet.sharpness)
    assert 255 * np.abs(own - expected).mean() < 1.5  # whose corners are parts of pixels apart


def test_in_a_compact_grid_lines_of_a_pixel_are_one_as_opaque_as_they_are_together():
    attention = weights(30, 2, 60)
    view = model_view(attention, names(60))
    fan = shapes(view, Fan)[0]
    _, height, step, several = grid_cell(30, 2, 60, True)
    assert view.sheet.height < 800 and height == 25 and several > 1
    thin, first = min(1, 0.6 * step / fan.width), levels(attention[0][0, 0])
    expected = 1 - np.prod(1 - thin * first[:several, several : 2 * several])
    assert fan.opacities[0, 0, 1] == pytest.approx(expected) and fan.step == pytest.approx(several * step)


# --- the neuron view
@pytest.fixture(scope="module")
def by_hand():
    """A neuron view with token 3 of 5 chosen, and its query and key by hand, each (tokens, head_dim)."""
    model = small_bert().double()
    with torch.no_grad():
        states = model(**Words()("w5 w6 w7"), output_hidden_states=True).hidden_states[1][0]
        attention = model.encoder.layer[1].attention.self  # head 2 of width 6 begins at 12
        query, key = (part(states)[:, 12:18] for part in (attention.query, attention.key))
    return neuron_view(model, Words(), "w5 w6 w7", layer=1, head=2, token=3), query, key


def colours_of_bertviz():
    """Those of its neuron view on white, by name."""
    script = metadata.distribution("bertviz").locate_file("bertviz/neuron_view.js").read_text("utf-8")
    light = script.partition("'light': {")[2].partition("}")[0]
    return dict(re.findall(r"'(\w+)': [\"']([#\w]+)[\"']", light))


def test_cells_have_bertvizs_colours(by_hand):
    """In its page a cell is as opaque as tanh(|number| / 4), in one colour from 0 on and in another below."""
    view, query, key = by_hand
    expected = [*query, *(row for token in zip(key, query[3] * key, strict=True) for row in token)]
    picture, colours = image(view), colours_of_bertviz()
    for strip, numbers in zip(shapes(view, Cells), expected, strict=True):
        for index, number in enumerate(numbers.tolist()):
            x = strip.x + strip.width * (index + 0.5) / len(numbers)
            colour = over_white(colours["pos" if number >= 0 else "neg"], np.tanh(abs(number) / 4))
            assert np.abs(pixel(picture, view, x, strip.y + 10) - colour).max() < 8, (index, number)


def test_scores_and_softmax_are_shown_in_digits_and_as_bertvizs_shades(by_hand):
    """The square of a score is as opaque as a cell."""
    view, query, key = by_hand
    scores = key @ query[3] / 6**0.5
    weights = torch.softmax(scores, dim=0).tolist()
    squares = [box.opacity for box in shapes(view, Box) if box.width == box.height == 22]
    assert squares == pytest.approx(torch.tanh(scores.abs() / 4).tolist(), abs=1e-5)
    texts = sorted(((text.y - 42) // 26, text.x, text.text) for text in shapes(view, Text))
    rows = [[text for row_of, _, text in texts if row_of == row] for row in range(5)]
    words = ("w0", "w5", "w6", "w7", "w1")
    for row, word, score, weight in zip(rows, words, scores.tolist(), weights, strict=True):
        assert row == [word, f"{score:.2f}", f"{weight:.3f}", word]
    shade = colours_of_bertviz()["text_highlight_right"]
    shades = [box.opacity for box in shapes(view, Box) if box.colour == shade]
    assert shades == pytest.approx(weights, abs=1e-5)
    view = neuron_view(small_bert(is_decoder=True), Words(), "w5 w6", token=1)
    assert [text.text for text in shapes(view, Text)].count("masked") == 2


def test_neuron_view_joins_the_chosen_query_to_every_key_as_strongly_as_its_weight(by_hand):
    """bertviz draws its lines in blue with the opacity tanh(1.8 × weight)."""
    view, query, key = by_hand
    connector = ImageColor.getrgb(colours_of_bertviz()["connector"])
    parts = [box for box in shapes(view, Box) if ImageColor.getrgb(box.colour) == connector]
    expected = torch.tanh(1.8 * torch.softmax(key @ query[3] / 6**0.5, dim=0)).tolist()
    assert [part.opacity for part in parts[:5]] == [1] * 5  # from the token to its query, and around it
    middles = [strip.y + 13 for strip in shapes(view, Cells)]
    for i, strong in enumerate(expected):
        own = parts[5 + 14 * i : 19 + 14 * i]  # three lines, three across, and two frames of four sides
        assert [part.opacity for part in own] == pytest.approx([strong] * 14, abs=1e-5)
        first, down, last = own[:3]
        assert first.y + 1 == middles[3] and last.y + 1 == middles[i]  # from the query's row to the key's
        assert first.x + first.width >= down.x and last.x <= down.x + down.width
        ends = sorted([first.y + first.height, last.y + last.height])
        assert down.height == pytest.approx(max(0, ends[1] - ends[0] - 2))


def test_text_view_is_shaded_by_the_weights_of_the_chosen_token():
    attention, tokens, told = written()
    view = text_view(attention, tokens, 4, layer=1, head=2, token=6, **told)
    boxes = [box for box in shapes(view, Box) if box.colour == KEY]
    assert [box.opacity for box in boxes] == pytest.approx((0.85 * levels(attention[1][0, 2, 6])).tolist())
    words = [text.text for text in shapes(view, Text) if text.size == 15]
    assert words == [f"word{i % 7}" for i in range(4)] + ["▸"] + [f"word{i % 7}" for i in range(4, 9)]
    mean = text_view(attention, tokens, layer=1, token=6)
    boxes = [box.opacity for box in shapes(mean, Box) if box.colour == KEY]
    assert boxes == pytest.approx((0.85 * levels(attention[1][0, :, 6]).mean(0)).tolist())


# --- all of them

LONG = {"inputs": {"input_ids": torch.arange(3)[None]}, "tokens": ["understanding", "x" * 40, "a"]}
PICTURES = {
    "head": lambda: head_view(weights(), names(4)),
    "many heads": lambda: head_view(weights(heads=30), names(4)),
    "hostile": lambda: head_view(weights(1, 1, len(HOSTILE)), HOSTILE),
    "encoder-decoder": lambda: head_view(**stacks()),
    "model": lambda: model_view(weights(), names(4)),
    "neuron": lambda: neuron_view(small_bert(), Words(), "w5 w6 w7"),
    "text": lambda: text_view(*written(40)[:2]),
    "long words": lambda: head_view(weights(), ["Donaudampfschifffahrt", "x" * 40, "a", "b"]),
    "long words of neurons": lambda: neuron_view(small_bert(), **LONG, token=0),
}


def box_of(text):
    """Where a text stands: left, top, right, bottom."""
    anchor = {"left": "ls", "center": "ms", "right": "rs"}[text.anchor]
    left, top, right, bottom = _font(text.style, text.fitted, text.text).getbbox(text.shown, anchor=anchor)
    return text.x + left, text.y + top, text.x + right, text.y + bottom


@pytest.mark.parametrize("kind", [kind for kind in PICTURES if kind != "hostile"])
def test_texts_are_painted_where_they_stand_none_over_another_or_past_the_edge(kind):
    """Each is dark there, and without texts the picture is not."""
    view = PICTURES[kind]()
    view.sheet.shapes = shapes(view, Text)
    picture, found = np.array(image(view).convert("L")), [(text, box_of(text)) for text in view.sheet.shapes]
    assert found
    for (one, a), (other, b) in itertools.combinations(found, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], f"{one.text} covers {other.text}"
    for text, (left, top, right, bottom) in found:
        assert left >= 0 and top >= 0 and right <= view.sheet.width and bottom <= view.sheet.height, text.text
        left, top, right, bottom = (round(side * view.sheet.sharpness) for side in (left, top, right, bottom))
        assert (picture[top:bottom, left:right] < 200).any() or text.colour == "white", text.text
        picture[top - 2 : bottom + 2, max(0, left - 2) : right + 2] = 255
    assert picture.min() > 200


def test_headings_stand_over_what_they_name():
    view = PICTURES["head"]()
    at = {text.text: text for text in shapes(view, Text)}
    (fan,) = shapes(view, Fan)
    assert at["query"].x < fan.left < fan.right < at["key"].x and at["query"].y < fan.top
    view = PICTURES["model"]()
    fans, texts = shapes(view, Fan), [text for text in shapes(view, Text) if text.text.isdigit()]
    for head in range(3):
        over = next(text for text in texts if text.text == str(head) and text.y < fans[0].top)
        assert over.x == pytest.approx((fans[head].left + fans[head].right) / 2, abs=3)
    beside = [(text.text, text.y - 5) for text in texts if text.x < fans[0].left]
    for layer in range(2):
        assert (str(layer), pytest.approx(fans[3 * layer].top + 1.5 * fans[0].step, abs=3)) in beside


def test_letters_beyond_latin_are_drawn_by_a_font_that_has_them_or_named_by_their_codes(monkeypatch):
    """DejaVu Sans has Greek and Arabic, and no Chinese."""
    for word in ("λόγος", "كتاب"):
        assert Text(0, 0, word, 15).shown == word
    sheets._file.cache_clear()
    monkeypatch.setattr(sheets, "_installed", list)
    assert Text(0, 0, "a中", 15).shown == "a\\u4e2d" and Text(0, 0, "🤖", 15).shown == "\\u1f916"
    own, other = sheets._file("", "a"), Path("chinese.ttf")
    sheets._file.cache_clear()
    monkeypatch.setattr(sheets, "_installed", lambda: [other])
    monkeypatch.setattr(sheets, "_has", lambda file, sign: file == other or sign < "\u4e00")
    assert (sheets._file("", "中"), sheets._file("", "abc")) == (other, own)
    assert Text(0, 0, "中", 15).shown == "中"
    sheets._file.cache_clear()


def test_colours_of_a_png_are_those_that_were_composed():
    """Whether 256 colours are enough or not: no pale line grey, none broken."""
    torch.manual_seed(1)
    attention = [torch.randn(1, 12, 13, 13).mul(2).softmax(-1) for _ in range(12)]
    for make, heads in ((head_view, {}), (head_view, {"heads": [4]}), (model_view, {})):
        view = make(attention, names(13), **heads)
        view.sheet.shapes = shapes(view, Fan)
        composed = blank(view)
        for fan in view.sheet.shapes:
            fan.paint(composed, view.sheet.sharpness)
        found = apart(composed, np.asarray(image(view)) / 255)
        assert found.mean() < 0.8 and found.max() < 8 and len(view.png) < 400_000


@pytest.mark.browser
@pytest.mark.parametrize("kind", ["heads", "head, token", "head, dense", "model", "model, compact", "neuron"])
def test_picture_shows_what_the_page_shows(kind, tmp_path, chromium):
    """Lines and tokens of the real model, and 10,000 lines: on average less than 1 apart (CIE76)."""
    attention, tokens, _ = pair()
    torch.manual_seed(0)
    dense = [torch.randn(1, 12, 100, 100).mul(2).softmax(-1)]
    light = {"display_mode": "light"}
    view = {
        "heads": lambda: head_view(attention, tokens, **light),
        "head, token": lambda: head_view(attention, tokens, heads=[2], token=tokens[2], **light),
        "head, dense": lambda: head_view(dense, names(100), heads=[4], **light),
        "model": lambda: model_view(attention, tokens, **light),
        "model, compact": lambda: model_view(attention * 5, tokens, **light),
        "neuron": lambda: neurons(layer=2, head=1, token=3, **light),
    }[kind]()
    if kind != "model, compact":  # there a token would not be a whole number of pixels high
        view.sheet.sharpness = 2  # a whole number, so that the page's canvas too has whole pixels
    sharpness = view.sheet.sharpness
    width = 1100 if kind.startswith("model") else round(view.sheet.width) + 16
    page = chromium.new_page(viewport={"width": width, "height": 1500}, device_scale_factor=sharpness)
    page.goto(view.save(tmp_path / "view.html").as_uri())
    page.wait_for_selector("html.drawn")
    page.add_style_tag(content="g:not(.now, .best) > .chip { display: none }")  # what the mouse finds
    centre = "all => all.map(one => [one.textContent, one.offsetLeft + one.offsetWidth / 2])"
    numbers = [[text.text, text.x] for text in shapes(view, Text) if text.anchor == "center"]
    if kind.startswith("model"):
        assert page.eval_on_selector_all("#columns span", centre) == numbers and len(numbers) == 12
    drawing = page.locator("#grid" if kind.startswith("model") else "#vis")
    shown = np.array(Image.open(io.BytesIO(drawing.screenshot())).convert("RGB")) / 255
    below = shapes(view, Fan)[0].top - 22.5 / 2 - 24 if kind.startswith("head") else 0  # menus and squares
    picture = np.array(image(view))[round(sharpness * below) :] / 255
    height, width = np.minimum(shown.shape, picture.shape)[:2]
    found = apart(shown[:height, :width], picture[:height, :width]).mean()
    # A canvas keeps its colours in 255 steps, in which the pale lines of a compact grid lose a little.
    assert height > 500 and found < (4 if kind == "model, compact" else 1)


# --- files
def test_save_writes_what_the_suffix_says(tmp_path):
    view = head_view(weights(heads=2), ["é", "<b>", "c", "中"], heads=[0, 1])
    assert view.save(tmp_path / "view.html").read_text(encoding="utf-8") == view.html
    assert view.save(tmp_path / "view.PNG").read_bytes() == view.png
    assert view.save(str(tmp_path / "view.pdf")).read_bytes().startswith(b"%PDF")
    drawing = ElementTree.parse(view.save(tmp_path / "view.svg"))
    size = [float(drawing.getroot().get(side).removesuffix("pt")) / 0.72 for side in ("width", "height")]
    assert size == pytest.approx([view.sheet.width, view.sheet.height], abs=0.1)  # 100: an inch, 72 points
    texts = [part.text for part in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert {"é", "<b>", "c", "query", "key", "0", "1"} <= set(texts)
    paths = list(drawing.iter("{http://www.w3.org/2000/svg}path"))
    for head, colour in enumerate((VIOLET, RED)):
        drawn = {}
        for path in paths:
            if opacity := re.search(rf"stroke: {colour}; stroke-opacity: ([\d.]+)", path.get("style", "")):
                left, query, right, key = (float(at) / 0.72 for at in re.findall(r"[\d.]+", path.get("d")))
                assert (left, right) == pytest.approx((178, 322))
                drawn[(query - 89.25) / 22.5, (key - 89.25) / 22.5] = float(opacity[1])
        seen = (expected := levels(weights(heads=2)[0][0, head]) ** 2) >= 1 / 512
        assert sorted(drawn) == pytest.approx(np.argwhere(seen), abs=1e-5)
        assert [drawn[place] for place in sorted(drawn)] == pytest.approx(expected[seen], abs=1e-5)


def test_save_refuses_another_suffix_by_name(tmp_path):
    for name in ("view.txt", "view", "view.html.gz", ".html"):
        with pytest.raises(ValueError, match=rf"\.html.*\.png.*\.svg.*\.pdf.*'{re.escape(name)}'"):
            head_view(weights(), names(4)).save(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["svg", "pdf"])
@pytest.mark.parametrize("view", ["hostile", "neuron"])
def test_same_view_gives_the_same_file(view, kind):
    assert PICTURES[view]().sheet.vector(kind) == PICTURES[view]().sheet.vector(kind)
