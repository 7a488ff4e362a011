"""The static pictures of the views: each number is drawn as bertviz draws it, and no text covers another."""

import io
import itertools
import re
from importlib import metadata

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from PIL import Image
from view_samples import HOSTILE, Words, data_of, names, small_bert, stacks, vectors, weights

from utils.views import head_view, model_view, neuron_view

# The first two of d3.schemeCategory10: heads 0 and 1, 10 and 11 in the head view, layers 0 and 1 in the model view.
BLUE, ORANGE = "#1f77b4", "#ff7f0e"


def over_white(colour, opacity):
    """The colour (0 to 255) that a reader sees of something so opaque on white."""
    return 255 * (opacity * torch.tensor(to_rgb(colour)) + 1 - opacity)


def image(view):
    return Image.open(io.BytesIO(view.png)).convert("RGB")


def pixel(picture, view, x, y):
    """The colour at a place that is given in pixels of the page."""
    place = (round(x * view.sharpness), round(y * view.sharpness))
    return torch.tensor(picture.getpixel(place), dtype=torch.float32)


def drawn(lines, to_index, size):
    """The opacities of a head's lines, as a matrix (query, key)."""
    found = torch.zeros(size)
    for segment, colour in zip(lines.get_segments(), lines.get_colors(), strict=True):
        found[to_index(segment[0][1]), to_index(segment[-1][1])] = colour[3]
    return found


# --- the head view


def test_head_view_draws_every_weight_over_the_number_of_heads_panel_beside_panel():
    given = stacks()
    view = head_view(**given, layer=1, heads=[0, 2])
    axes = view.draw().axes
    assert image(view).width == 3 * image(head_view(weights(), names(4))).width
    assert [ax.get_position().x0 for ax in axes] == pytest.approx([0, 1 / 3, 2 / 3])
    sides = {"encoder": ("in", "in"), "decoder": ("out", "out"), "cross": ("out", "in")}
    for ax, (name, (left, right)) in zip(axes, sides.items(), strict=True):
        for lines, expected in zip(ax.collections, given[f"{name}_attention"][1][0, [0, 2]] / 2, strict=True):
            torch.testing.assert_close(drawn(lines, round, expected.shape), expected, atol=1e-6, rtol=0)
        (start, end), *_ = lines.get_segments()
        texts = [(text.get_text(), *text.get_position()) for text in ax.texts]
        assert [text for text, *_ in texts].count(name.title()) == 1
        for word, count, x in zip((left, right), expected.shape, (start[0], end[0]), strict=True):
            near = [(text, y) for text, at, y in texts if abs(at - x) < 10 and y >= 0]
            assert near == [(f"{word}{i}", i) for i in range(count)]


def test_a_line_has_the_colour_of_its_head_as_faint_as_its_weight():
    """One weight among zeros, seen in the middle of its line."""
    one = torch.zeros(1, 12, 4, 4)
    one[0, 11, 1, 3] = 0.6
    for heads, opacity in ([11], 0.6), ([3, 11], 0.3):
        view = head_view([one], names(4), heads=heads)
        (lines,) = [lines for lines in view.draw().axes[0].collections if len(lines.get_segments())]
        (line,) = lines.get_segments()
        place = lines.axes.transData.transform(line.mean(axis=0))  # in hundredths of an inch, from below
        seen = pixel(image(view), view, place[0], image(view).height / view.sharpness - place[1])
        assert (seen - over_white(ORANGE, opacity)).abs().max() < 12
        assert abs(line[1][0] - line[0][0]) == pytest.approx(115, abs=10)


def test_picture_grows_by_as_much_as_the_page_for_each_token():
    views = [head_view(weights(tokens=count), names(count)) for count in (4, 8)]
    heights = [image(view).height / view.sharpness for view in views]
    assert heights[1] - heights[0] == pytest.approx(views[1].height - views[0].height, abs=1)


# --- the model view


def test_model_view_draws_every_weight_that_can_be_seen():
    attention = weights(layers=2, heads=3)
    (axes,) = model_view(attention, names(4), include_heads=[0, 2]).draw().axes
    cells = [(layer, head) for layer in (0, 1) for head in (0, 2)]
    for (layer, head), lines in zip(cells, axes.collections, strict=True):
        expected = attention[layer][0, head]
        top = min(y for segment in lines.get_segments() for _, y in segment)
        size = max(y for segment in lines.get_segments() for _, y in segment) - top
        found = drawn(lines, lambda y, top=top, size=size: round(3 * (y - top) / size), (4, 4))
        seen = torch.where(expected > 0.03, expected, 0)
        torch.testing.assert_close(found, seen, atol=1e-6, rtol=0)
        assert lines.get_colors()[0][:3] == pytest.approx(to_rgb((BLUE, ORANGE)[layer]))


def test_model_view_has_the_lines_where_bertviz_has_them():
    """By its model_view.js: 970 pixels, 38 of them for names; 84 / heads for a token; 5 around a small picture."""
    attention = [torch.eye(4).expand(1, 8, 4, 4)] * 3
    (axes,) = model_view(attention, names(4)).draw().axes
    width, token = (970 - 38) / 8, 84 / 8
    for place, lines in enumerate(axes.collections):
        left, top = 38 + place % 8 * width + 5, 38 + place // 8 * (4 * token + 10) + 5
        for row, segment in enumerate(lines.get_segments()):
            y = top + (row + 0.5) * token
            assert segment == pytest.approx(torch.tensor([[left, y], [left + width - 14, y]]).numpy(), abs=1)


# --- the neuron view


@pytest.fixture(scope="module")
def neurons():
    """A neuron view with token 3 of 5 chosen, and its query and key vectors, each (tokens, head_dim)."""
    view = neuron_view(small_bert(), Words(), "w5 w6 w7", layer=1, head=2, token=3)
    query, key = vectors(data_of(view)["attention"][0])
    return view, query[1, 2], key[1, 2]


def colours_of_bertviz():
    """Those of its neuron view on white, by name."""
    script = (
        metadata.distribution("bertviz").locate_file("bertviz/neuron_view.js").read_text(encoding="utf-8")
    )
    return dict(
        re.findall(r"'(\w+)': [\"']([#\w]+)[\"']", script.partition("'light': {")[2].partition("}")[0])
    )


def test_cells_have_bertvizs_colours(neurons):
    """In its page a cell is as opaque as tanh(|number| / 4), in one colour from 0 on and in another below."""
    view, query, key = neurons
    (axes,) = view.draw().axes
    scores = (key @ query[3] / 6**0.5)[:, None]
    expected = [row for token in zip(key, query[3] * key, scores, strict=True) for row in token] + [query[3]]
    assert torch.cat([row.sign() for row in expected]).unique().tolist() == [-1, 1]
    picture, colours = image(view), colours_of_bertviz()
    for strip, numbers in zip(axes.images, expected, strict=True):
        left, right, *ends = strip.get_extent()
        for index, number in enumerate(numbers):
            x = left + (right - left) * (index + 0.5) / len(numbers)
            colour = over_white(colours["pos" if number >= 0 else "neg"], torch.tanh(number.abs() / 4))
            assert (pixel(picture, view, x, sum(ends) / 2) - colour).abs().max() < 12, (index, number)


def test_softmax_is_shown_in_digits_and_as_bertvizs_shades(neurons):
    view, query, key = neurons
    (axes,) = view.draw().axes
    scores = (key @ query[3] / 6**0.5).tolist()
    weights = torch.softmax(torch.tensor(scores), dim=0).tolist()
    rows = {}
    for text in axes.texts:
        rows.setdefault(text.get_position()[1], []).append((text.get_position()[0], text.get_text()))
    rows = [[text for _, text in sorted(rows[y])] for y in sorted(rows)[2:]]  # below the headings
    for row, word, score, weight in zip(rows, ("w0", "w5", "w6", "w7", "w1"), scores, weights, strict=True):
        assert row == [word, f"{score:.2f}", f"{weight:.3f}", word]
    shade = to_rgb(colours_of_bertviz()["text_highlight_right"])
    for box, weight in zip((box for box in axes.patches if box.get_fill()), weights, strict=True):
        assert box.get_facecolor() == pytest.approx((*shade, weight))


def test_neuron_view_joins_the_chosen_query_to_every_key_as_strongly_as_its_weight(neurons):
    """bertviz draws its lines in blue with the opacity tanh(1.8 × weight)."""
    view, query, key = neurons
    (lines,) = view.draw().axes[0].collections
    expected = torch.tanh(1.8 * torch.softmax(key @ query[3] / 6**0.5, dim=0))
    assert lines.get_colors()[:, 3] == pytest.approx(expected.tolist(), abs=1e-6)
    assert {tuple(colour) for colour in lines.get_colors()[:, :3]} == {
        to_rgb(colours_of_bertviz()["connector"])
    }
    starts, ends = zip(*((line[0][1], line[-1][1]) for line in lines.get_segments()), strict=True)
    assert set(starts) == {ends[3]} and list(ends) == sorted(set(ends))


# --- all of them

PICTURES = {
    "head": lambda: head_view(weights(), names(4)),
    "encoder-decoder": lambda: head_view(**stacks()),
    "model": lambda: model_view(weights(), names(4)),
    "neuron": lambda: neuron_view(small_bert(), Words(), "w5 w6 w7"),
}


def boxes(figure):
    """Where each text of a picture stands, by itself: (text, box)."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    return [(text.get_text(), text.get_window_extent(renderer)) for ax in figure.axes for text in ax.texts]


@pytest.mark.parametrize("kind", PICTURES)
def test_no_text_covers_another_or_leaves_the_picture(kind):
    figure = PICTURES[kind]().draw()
    found = boxes(figure)
    assert found and all(figure.bbox.fully_contains(*corner) for _, box in found for corner in box.corners())
    for (one, box), (other, its) in itertools.combinations(found, 2):
        assert not box.overlaps(its), f"{one} covers {other}"


def middle(box):
    return ((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2)


def test_headings_stand_over_what_they_name():
    figure = PICTURES["head"]().draw()
    at = {text: middle(box) for text, box in boxes(figure)}
    (line, *_), ends = figure.axes[0].collections[0].get_segments(), figure.axes[0].transData
    (left, _), (right, _) = ends.transform(line)
    assert (at["0"][0] + at["2"][0]) / 2 == pytest.approx((left + right) / 2, abs=2) and at["0"][0] < at["1"][
        0
    ]
    assert at["query"][0] < left < at["0"][0] < at["2"][0] < right < at["key"][0]

    figure = PICTURES["neuron"]().draw()
    at = {text: middle(box) for text, box in boxes(figure)}
    columns = sorted({tuple(strip.get_extent()[:2]) for strip in figure.axes[0].images})
    for heading, (left, right) in zip(("query q", "key k", "q × k (each number)"), columns, strict=False):
        assert at[heading][0] == pytest.approx((left + right) / 2, abs=2)
    (_, end), box = columns[3], next(box for box in figure.axes[0].patches if box.get_fill())
    assert columns[3][0] < at["q·k"][0] < end + 40 < at["softmax"][0] < box.get_x() + box.get_width()

    figure = PICTURES["model"]().draw()
    found = [(text, *middle(box)) for text, box in boxes(figure)]
    names_of_heads, names_of_layers = found[2:5], found[:2]
    (_, x, above), (_, aside, y) = found[5:]
    assert [text for text, *_ in found] == ["0", "1", "0", "1", "2", "head (index)", "layer (index)"]
    assert x == pytest.approx(names_of_heads[1][1], abs=2) and above > names_of_heads[1][2]
    assert (
        y == pytest.approx(sum(y for *_, y in names_of_layers) / 2, abs=2) and aside < names_of_layers[0][1]
    )
    for place, lines in enumerate(figure.axes[0].collections):
        box = lines.get_datalim(figure.axes[0].transData).transformed(figure.axes[0].transData)
        assert middle(box)[0] == pytest.approx(names_of_heads[place % 3][1], abs=3)
        assert middle(box)[1] == pytest.approx(names_of_layers[place // 3][2], abs=3)


@pytest.mark.filterwarnings("error")
def test_signs_that_fonts_lack_and_signs_of_formulas_are_drawn_without_a_complaint():
    assert image(head_view(weights(1, 1, len(HOSTILE)), HOSTILE)).height > 100
