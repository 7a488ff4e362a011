"""The static pictures of the three views, from tensors and tokens: what the page shows when it opens.

Each function draws at the places of the page, in its pixels, and returns a `Sheet`, which becomes a PNG, SVG or PDF.
"""

from math import ceil, log2, tanh

import numpy as np

from .ink import LINE, colour, opacity, opening_strength
from .panels import most_tokens
from .sheets import Box, Cells, Fan, Sheet, Text

# The head view: the height of a token's row, the text's size, and where its first letters stand.
HEIGHT, SIZE, BASE = 22.5, 15, 15
# The width of the one panel, or of each of several, and how much of it lies on either side of the lines.
ONE, MANY = (500, 178), (370, 112)
SQUARE, GAP = 24, 2
# The neuron view's columns, from left to right: where each begins, and how wide a vector is drawn.
QUERY, KEY, PRODUCT, SCORE, SOFTMAX, VECTOR = 145, 382.5, 607.5, 833.5, 983.5, 200
WORD = 82  # the room of a word beside the vectors
ROW, TOP = 26, 42  # the height of a token's row in the neuron view, and of the headings above
CONNECTOR, BLUE, ORANGE = "#0000ff", (12, 54, 216), (255, 99, 24)


def draw_heads(panels, layer, heads):
    """Draw the chosen heads of one layer as lines, panel beside panel, below a numbered square for every head."""
    width, side = ONE if len(panels) == 1 else MANY
    count = most_tokens(panels)
    squares, top = _draw_squares(panels[0].levels.shape[1], heads, width * len(panels))
    sharpness = 30 / HEIGHT  # a token is a whole number of pixels high
    sheet = Sheet(width * len(panels), top + 28 + HEIGHT * count, sharpness)
    sheet.add(Text(4, 15, f"Layer (index): {layer}", SIZE), *squares)
    for place, panel in enumerate(panels):
        left, right = place * width + side, (place + 1) * width - side
        opacities = opacity(panel.levels[layer, heads] / 255, opening_strength(len(heads)))
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
                *(
                    Text(x, top + 24 + BASE + HEIGHT * i, text, SIZE, anchor, room=side - 10)
                    for i, text in enumerate(tokens)
                )
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


def draw_grid(panel, layers, heads, total_heads):
    """Draw every head as a small picture of its lines: a row for each layer, a column for each head.

    layers, heads: the indices that name the rows and columns of panel.levels (layers, heads, query, key).
    total_heads: how many small pictures fit side by side.
    """
    step, width = 84 / total_heads, 932 / total_heads  # the height of a token, the width of a small picture
    height = step * max(panel.levels.shape[2:]) + 10
    # A token is a whole number of pixels high. More of them would take half a megabyte.
    sheet = Sheet(970, 38 + height * len(layers), ceil(step) / step)
    opacities = opacity(panel.levels / 255)
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
    rows = height * len(layers)
    sheet.add(Text(15, 38 + rows / 2, "Layer (index)", SIZE, "center", "bold", upwards=True, room=rows))
    return sheet


def draw_neurons(stack, layer, head, query_tokens, key_tokens, chosen):
    """Draw one head's way from vectors to weights, for one chosen query token: q, k, q × k, the score, softmax.

    stack: a `capture.Stack`. Blue cells are positive, orange ones negative, and the paler the nearer to 0.
    """
    # (tokens, head_dim)
    query, key = (vectors[layer, head].float().numpy() for vectors in (stack.query, stack.key))
    scores, weights = (numbers[chosen].numpy() for numbers in stack.attend(layer, head))  # (key,)
    sheet = Sheet(1112, TOP + ROW * max(len(query_tokens), len(key_tokens)) + 8, 2)
    kind = "" if stack.name == "All" else f", {stack.name}"
    sheet.add(Text(2, 18, f"layer {layer}, head {head}", 13), Text(2, 36, f"(index){kind}", 11))
    sheet.add(Text(SCORE - 7, 18, "q ∙ k", 16), Text(SCORE - 7, 36, _formula(stack, layer), 11))
    sheet.add(Text(SOFTMAX - 58.5, 18, "Softmax", 16))
    for x, name in ((QUERY, "Query q"), (KEY, "Key k"), (PRODUCT, "q × k (elementwise)")):
        sheet.add(Text(x + VECTOR / 2, 18, name, 16, "center"))
        sheet.add(*(Text(x + place, 37, str(index), 10, "center") for index, place in _ticks(query.shape[1])))
    for row, token in enumerate(query_tokens):
        y, style = TOP + ROW * row, {}
        if row == chosen:
            sheet.add(Box(0, y - 1, 120, ROW, "#e5e5e5"))
            style = {"style": "bold", "colour": "black"}
        sheet.add(
            Text(110, y + 15, token, SIZE, "right", room=WORD, **style),
            *_draw_vector(QUERY, y, query[row], border=21),
        )
    for row, token in enumerate(key_tokens):
        y = TOP + ROW * row
        sheet.add(*_draw_vector(KEY, y, key[row]))
        if stack.is_masked(layer, head, chosen, row):
            sheet.add(Text(PRODUCT + VECTOR / 2, y + 16, "masked", 12, "center", colour="dimgray"))
        else:
            sheet.add(*_draw_vector(PRODUCT, y, query[chosen] * key[row]), *_draw_score(y, scores[row]))
        sheet.add(Text(SOFTMAX - 5.5, y + 16, f"{weights[row]:.3f}", 12, "right"))
        sheet.add(Box(SOFTMAX, y - 1, 120, ROW, "#478be8", float(weights[row])))
        sheet.add(Text(SOFTMAX + 8, y + 15, token, SIZE, room=WORD))
    sheet.add(*_connect(chosen, weights))
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


def _connect(chosen, weights):
    """Return the lines from the chosen query to each key, by their weights (key,), and the frames around vectors."""
    start, end, begin, half = QUERY + VECTOR + 1, KEY - 3, TOP + ROW * chosen, LINE / 2
    elbow = (start + end) / 2 + 1
    shapes = [
        Box(120, begin + 12, 23, LINE, CONNECTOR),
        *_frame(QUERY - 1, begin, VECTOR + 2, 21, LINE, CONNECTOR),
    ]
    for row, weight in enumerate(weights.tolist()):
        y, style = TOP + ROW * row, {"colour": CONNECTOR, "opacity": tanh(1.8 * weight)}
        # Across from the query, up or down, and across to the key.
        up, down = sorted((begin, y))
        turn = elbow + half if row == chosen else elbow - half
        shapes += [
            Box(start, begin + 12, elbow + half - start, LINE, **style),
            Box(elbow - half, up + 14, LINE, max(0, down - up - LINE), **style),
            Box(turn, y + 12, end - turn, LINE, **style),
        ]
        for x, width in ((KEY + VECTOR + 1, 23), (PRODUCT + VECTOR + 2, 23), (SOFTMAX - 83, 27)):
            shapes.append(Box(x, y + 12, width, LINE, **style))
        for x in (KEY, PRODUCT):
            shapes += _frame(x - 1, y, VECTOR + 3, 21, LINE, **style)
    return shapes


def _frame(x, y, width, height, line, colour, opacity=1):
    """Return the four sides of a rectangle, drawn along its edges with a line of this width."""
    x, y, outer = x - line / 2, y - line / 2, width + line
    sides = ((x, y, outer, line), (x, y + height, outer, line), (x, y + line, line, height - line))
    return [Box(*side, colour, opacity) for side in (*sides, (x + width, y + line, line, height - line))]


def _draw_score(y, score):
    """Return a score as a square and in digits."""
    colours = BLUE if score >= 0 else ORANGE
    colour = "#{:02x}{:02x}{:02x}".format(*colours)
    edges = _frame(SCORE, y, 22, 22, 1.2, colour, max(tanh(abs(score) / 2), 0.35))
    return (
        Box(SCORE, y, 22, 22, colour, tanh(abs(score) / 4)),
        *edges,
        Text(SCORE + 28, y + 16, _short(score), 12),
    )


def _short(score):
    """Return a score in at most five signs, as `short` of the page."""
    return f"{round(float(score), 2) + 0:.2f}" if abs(score) < 99.995 else f"{score:.0f}"


def _draw_vector(x, y, numbers, border=20):
    """Return numbers as a strip of cells, with bertviz's colours: the opacity of a cell is tanh(|number| / 4)."""
    numbers = numbers[:, None]  # (head_dim, 1)
    strong = np.tanh(np.abs(numbers) / 4)
    colours = strong * np.where(numbers >= 0, BLUE, ORANGE) / 255 + (1 - strong)  # (head_dim, 3), over white
    return *_frame(x - 1, y, VECTOR + 2, border, 1, "#eeeeee"), Cells(x, y, VECTOR, 20, colours)
