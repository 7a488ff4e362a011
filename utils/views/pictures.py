"""The static pictures of the three views, from tensors and tokens: what the page shows when it opens.

Each function draws at the places of the page, in its pixels, and returns a `Sheet`, which becomes a PNG, SVG or PDF.
"""

from math import ceil, log2

import numpy as np

from .ink import LINE, colour, opacity, strength
from .sheets import Box, Cells, Fan, Sheet, Text

# The head view: the height of a token's row, the text's size, and where its first letters stand.
HEIGHT, SIZE, BASE = 22.5, 15, 15
# The width of the one panel, or of each of several, and how much of it lies on either side of the lines.
ONE, MANY = (500, 178), (370, 112)
SQUARE, GAP = 24, 2
# The neuron view's columns, from left to right: where each begins, and how wide a vector is drawn.
QUERY, KEY, PRODUCT, SCORE, SOFTMAX, VECTOR = 145, 382.5, 607.5, 833.5, 934, 200
ROW, TOP = 26, 42  # the height of a token's row in the neuron view, and of the headings above
CONNECTOR = "#0000ff"


def draw_heads(panels, layer, heads):
    """Draw the chosen heads of one layer as lines, panel beside panel, below a numbered square for every head."""
    width, side = ONE if len(panels) == 1 else MANY
    count = max(max(panel.weights.shape[2:]) for panel in panels)
    squares, top = _draw_squares(panels[0].weights.shape[1], heads, width * len(panels))
    # A token is a whole number of pixels high. Long texts get fewer of them, for the sake of time and size.
    sharpness = (32 if count <= 64 else 30) / HEIGHT
    sheet = Sheet(width * len(panels), top + 28 + HEIGHT * count, sharpness)
    sheet.add(Text(4, 15, f"Layer (index): {layer}", SIZE), *squares)
    for place, panel in enumerate(panels):
        left, right = place * width + side, (place + 1) * width - side
        opacities = opacity(_levels(panel.weights[layer, heads]), strength(len(heads)))
        lines = Fan(
            opacities, [colour(head) for head in heads], left, right, top + 24 + HEIGHT / 2, HEIGHT, LINE
        )
        sheet.add(lines)
        for x, anchor, heading, tokens in (
            (left - 7.5, "right", "query", panel.query_tokens),
            (right + 7.5, "left", "key", panel.key_tokens),
        ):
            sheet.add(Text(x, top + 15, heading, 13, anchor, "italic"))
            sheet.add(
                *(Text(x, top + 24 + BASE + HEIGHT * i, text, SIZE, anchor) for i, text in enumerate(tokens))
            )
        if len(panels) > 1:
            sheet.add(Text((left + right) / 2, top + 15, panel.name, 13, "center", "bold"))
    return sheet


def _draw_squares(count, heads, width):
    """Return a square with its number for each head, filled for those in `heads`, and where what is below begins."""
    shapes, in_a_row = [], int(width // (SQUARE + GAP))
    for head in range(count):
        x, y = (SQUARE + GAP) * (head % in_a_row) + 2, 24 + (SQUARE + GAP) * (head // in_a_row)
        shapes.append(Box(x, y, SQUARE, SQUARE - 2, colour(head)))
        if head not in heads:
            shapes.append(Box(x + 2, y + 2, SQUARE - 4, SQUARE - 6, "white"))
        style = {"colour": "white", "style": "bold"} if head in heads else {}
        shapes.append(Text(x + SQUARE / 2, y + 15, str(head), 12, "center", **style))
    return shapes, 24 + (SQUARE + GAP) * -(-count // in_a_row) + 4


def _levels(weights):
    """Return the weights as the page has them, in steps of 1/255."""
    return np.round(weights.cpu().double().numpy() * 255) / 255


def draw_grid(panel, layers, heads, total_heads):
    """Draw every head as a small picture of its lines: a row for each layer, a column for each head.

    layers, heads: the indices that name the rows and columns of panel.weights (layers, heads, query, key).
    total_heads: how many small pictures fit side by side.
    """
    step, width = 84 / total_heads, 932 / total_heads  # the height of a token, the width of a small picture
    height = step * max(panel.weights.shape[2:]) + 10
    # A token is a whole number of pixels high. More of them would take half a megabyte.
    sheet = Sheet(970, 38 + height * len(layers), ceil(step) / step)
    opacities = opacity(_levels(panel.weights))
    for row, layer in enumerate(layers):
        top = 38 + height * row + 5 + step / 2
        for column in range(len(heads)):
            left = 38 + width * column + 5
            one = opacities[row, column, None]
            sheet.add(Fan(one, [colour(layer)], left, left + width - 14, top, step, LINE))
        sheet.add(Text(33, 38 + height * (row + 0.5) + 5, str(layer), SIZE, "right"))
    for column, head in enumerate(heads):
        sheet.add(Text(38 + width * (column + 0.5), 34, str(head), SIZE, "center"))
    sheet.add(Text(38 + width * len(heads) / 2, 15, "Head (index)", SIZE, "center", "bold"))
    sheet.add(Text(15, 38 + height * len(layers) / 2, "Layer (index)", SIZE, "center", "bold", upwards=True))
    return sheet


def draw_neurons(stack, layer, head, query_tokens, key_tokens, chosen):
    """Draw one head's way from vectors to weights, for one chosen query token: q, k, q × k, the score, softmax.

    stack: a `capture.Stack`. Blue cells are positive, orange ones negative, and the paler the nearer to 0.
    """
    # (tokens, head_dim)
    query, key = (vectors[layer, head].float().numpy() for vectors in (stack.query, stack.key))
    scores, weights = (numbers[chosen].numpy() for numbers in stack.attend(layer, head))  # (key,)
    rows = max(len(query_tokens), len(key_tokens))
    sheet = Sheet(1112, TOP + ROW * rows + 10, 2)
    kind = "" if stack.name == "All" else f", {stack.name}"
    sheet.add(
        Text(115, 17, f"layer {layer}, head {head}", 13, "right"),
        Text(115, 37, f"(index){kind}", 11, "right"),
    )
    for x, name in ((QUERY, "query q"), (KEY, "key k"), (PRODUCT, "q × k (each number)")):
        sheet.add(Text(x + VECTOR / 2, 18, name, SIZE, "center"))
        sheet.add(*(Text(x + place, 37, str(index), 11, "center") for index, place in _ticks(query.shape[1])))
    sheet.add(Text(SCORE, 18, "q·k", SIZE), Text(SCORE, 37, _formula(stack, layer), 11))
    sheet.add(Text(SOFTMAX + 6, 18, "softmax", SIZE))
    middles = [TOP + ROW * row + 10 for row in range(rows)]
    sheet.add(Box(0, middles[chosen] - 11, 120, 22, "#e5e5e5"))
    sheet.add(
        *(Text(115, y + 5, token, SIZE, "right") for y, token in zip(middles, query_tokens, strict=False))
    )
    for row, (y, token) in enumerate(zip(middles, key_tokens, strict=False)):
        sheet.add(*_draw_vector(KEY, y, key[row]))
        if stack.is_masked(layer, head, chosen, row):
            sheet.add(Text(PRODUCT + VECTOR / 2, y + 5, "masked", 13, "center", colour="dimgray"))
        else:
            sheet.add(*_draw_vector(PRODUCT, y, query[chosen] * key[row]))
            sheet.add(*_draw_vector(SCORE, y, scores[row : row + 1], width=20))
            sheet.add(Text(SCORE + 26, y + 5, f"{scores[row]:.2f}", 13))
        sheet.add(Text(SOFTMAX + 40, y + 5, f"{weights[row]:.3f}", 13, "right"))
        sheet.add(Box(SOFTMAX + 50, y - 11, 120, 22, "#478be8", float(weights[row])))
        sheet.add(Text(SOFTMAX + 54, y + 5, token, SIZE))
    sheet.add(*_draw_vector(QUERY, middles[chosen], query[chosen]))
    for y, weight in zip(middles, weights, strict=False):
        sheet.add(*_join(QUERY + VECTOR + 1, middles[chosen], KEY - 1, y, float(np.tanh(1.8 * weight))))
    return sheet


def _ticks(head_dim):
    """Return the dimensions that are numbered above a vector, with the middles of their cells."""
    width = VECTOR / head_dim
    step = 2 ** max(0, ceil(log2(21 / width)))  # no two numbers touch
    return [(index, (index + 0.5) * width) for index in range(0, head_dim, step)]


def _formula(stack, layer):
    """Return what is done to q·k before softmax, in a few signs, as `formula` of the page."""
    scaled = f"× {stack.scale[layer]:.3g}" if stack.has_own_scale else f"/ √{stack.query.shape[-1]}"
    capped = f"within ±{stack.softcap:g}" if stack.softcap else ""
    return " ".join(part for part in (scaled, capped, "+ bias" if stack.has_bias else "") if part)


def _join(x, y, end, beside, strong):
    """Return the three parts of a line from (x, y) to (end, beside): across, down or up, and across."""
    middle, half = (x + end) / 2, LINE / 2
    up, down = sorted((y, beside))
    style = {"colour": CONNECTOR, "opacity": strong}
    return (
        Box(x, y - half, middle + half - x, LINE, **style),
        Box(middle - half, up + half, LINE, max(0, down - up - LINE), **style),
        Box(
            middle + half if y == beside else middle - half, beside - half, end - middle + half, LINE, **style
        ),
    )


def _draw_vector(x, y, numbers, width=VECTOR):
    """Return numbers as a strip of cells, with bertviz's colours: the opacity of a cell is tanh(|number| / 4)."""
    blue, orange = np.array([12, 54, 216]) / 255, np.array([255, 99, 24]) / 255
    numbers = numbers[:, None]  # (head_dim, 1)
    strong = np.tanh(np.abs(numbers) / 4)
    colours = strong * np.where(numbers >= 0, blue, orange) + (1 - strong)  # (head_dim, 3), over white
    return Box(x - 0.5, y - 10.5, width + 1, 21, "#bbbbbb"), Cells(x, y - 10, width, 20, colours)
