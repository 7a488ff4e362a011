"""The static pictures of the three views, from tensors and tokens: what the page shows when it opens.

Each function draws at the places of the page, in its pixels, and returns a `Sheet`, which becomes a PNG, SVG or PDF.
"""

from dataclasses import replace
from math import ceil, log2, tanh

import numpy as np

from .ink import ALONE, FIRM, INKS, LEAST, LINE, MOST, THIN, colour, opacity, opening_strength
from .panels import choose, most_tokens
from .sheets import Box, Cells, Fan, Grid, Sheet, Text

# The head view: the height of a token's row, the text's size, and where its first letters stand.
HEIGHT, SIZE, BASE = 22.5, 15, 16.5
# The model view: the width of the numbers before its rows, and of what stands beside its grid.
AXIS, SIDE = 38, 340
# The width of the one panel, or of each of several, and how much of it lies on either side of the lines.
ONE, MANY = (500, 178), (310, 92)
SQUARE, GAP = 24, 2
# The neuron view's columns, from left to right: where each begins, and how wide a vector is drawn.
QUERY, KEY, PRODUCT, SCORE, SOFTMAX, VECTOR = 145, 382.5, 607.5, 833.5, 983.5, 200
WORD = 82  # the room of a word beside the vectors
ROW, TOP = 26, 42  # the height of a token's row in the neuron view, and of the headings above
CONNECTOR, BLUE, ORANGE = "#0000ff", (12, 54, 216), (255, 99, 24)
NAMED = {"query": "#8a4a0c", "key": "#184f87"}  # the words, as in the drawings
CHIPS = {"query": "#f4a655", "key": "#4a8dd3"}  # behind a chosen token; behind the one that gets most


def draw_heads(panels, layer, heads, token=None):
    """Draw the chosen heads of one layer as lines, panel beside panel, below a numbered square for every head.

    token: index of the query token in the first panel whose lines and weights are shown alone; None: those of all.
    """
    width, side = ONE if len(panels) == 1 else MANY
    count = most_tokens(panels)
    squares, top = _draw_squares(panels[0].levels.shape[1], heads, width * len(panels))
    sharpness = 30 / HEIGHT  # a token is a whole number of pixels high
    sheet = Sheet(width * len(panels), top + 28 + HEIGHT * count, sharpness)
    sheet.add(Text(4, 15, f"Layer {layer}", SIZE), *squares)
    for place, panel in enumerate(panels):
        left, right = place * width + side, (place + 1) * width - side
        chosen = choose(panel, [layer], heads).weights[0]
        opacities = opacity(chosen, opening_strength(len(heads)))
        colours, first = [colour(head) for head in heads] if len(heads) > 1 else [ALONE], top + 24
        fan = Fan(opacities, colours, left, right, first + HEIGHT / 2, HEIGHT, LINE, MOST)
        sheet.add(*([fan] if token is None or place else _draw_token(fan, chosen, token, panel, side)))
        query = (left - 7.5, "right", "query", panel.query_tokens)
        for x, anchor, heading, tokens in (query, (right + 7.5, "left", "key", panel.key_tokens)):
            sheet.add(Text(x, top + 15, heading, 14, anchor, "bold", NAMED[heading]))
            rows = ((text, first + BASE + HEIGHT * row) for row, text in enumerate(tokens))
            sheet.add(*(Text(x, y, text, SIZE, anchor, room=side - 10) for text, y in rows))
        if len(panels) > 1:
            sheet.add(Text((left + right) / 2, top + 15, panel.name, 14, "center", "bold"))
    return sheet


def _draw_token(fan, weights, token, panel, side):
    """Return what a head view shows of one query token: its lines, as wide as their mean weights, and these in digits.

    weights: (heads, query, key). Those of one head are bars, too. side: the room beside the lines.
    """
    mean, shapes, top = weights[:, token].mean(axis=0), [], fan.top - HEIGHT / 2
    for key in np.flatnonzero(mean >= LEAST):
        one, each = np.zeros_like(weights), weights[:, token, key]
        through, most = (1 - each).prod(), 1 - FIRM  # of all heads together: what shines through, and may
        one[:, token, key] = each if through <= most else 1 - (1 - each) ** (np.log(most) / np.log(through))
        shapes.append(replace(fan, opacities=one, width=max(THIN, 2 * MOST * mean[key]), most=0))
    words = panel.query_tokens[token], *panel.key_tokens
    query, *keys = (min(side - 10, Text(0, 0, word, SIZE).width) for word in words)
    best, bars = mean.argmax(), fan.right + max(keys) + 20
    query_chip = fan.left - 13.5 - query, top + HEIGHT * token + 1.5, query + 12
    key_chip = fan.right + 1.5, top + HEIGHT * best + 1.5, keys[best] + 12
    shapes += [Box(*query_chip, HEIGHT - 3, CHIPS["query"]), Box(*key_chip, HEIGHT - 3, CHIPS["key"])]
    for row, weight in enumerate(mean.tolist()):
        y, x = top + HEIGHT * row, fan.right + side - 42
        if len(weights) == 1:
            wide = max(0, fan.right + side - 40 - bars) * weight * (weight >= LEAST)
            shapes.append(Box(bars, y + 3, wide, HEIGHT - 6, fan.colours[0]))
            x = bars + wide + 6 * (wide > 0)
        if weight >= LEAST:
            shapes.append(Text(x, y + BASE, f"{weight:.2f}", 13))
    return shapes


def _draw_squares(count, heads, width):
    """Return a square with its number for each head, filled for those in `heads`, and where what is below begins."""
    shapes, in_a_row = [], int(width // (SQUARE + GAP))
    for head in range(count):
        x, y = (SQUARE + GAP) * (head % in_a_row) + 2, 24 + (SQUARE + GAP) * (head // in_a_row)
        alone = len(heads) == 1 and head in heads
        shapes.append(Box(x, y, SQUARE, SQUARE - 2, ALONE if alone else colour(head)))
        if head not in heads:
            shapes.append(Box(x + 2, y + 2, SQUARE - 4, SQUARE - 6, "white"))
        ink = "black" if alone else INKS[head % len(INKS)]
        style = {"colour": ink, "style": "bold"} if head in heads else {}
        shapes.append(Text(x + SQUARE / 2, y + 15, str(head), 12, "center", **style))
    return shapes, 24 + (SQUARE + GAP) * -(-count // in_a_row) + 4


def is_compact(layers, total_heads, tokens):
    """Whether a model view opens small, so that its grid stands on one screen."""
    return layers * (tokens * 84 / total_heads + 10) > 960


def grid_cell(layers, total_heads, tokens, compact):
    """Return (width, height, step, bin) of a small picture, as `layOut` of model.js on a page of 1,100 pixels.

    step: the height of a token; bin: how many tokens make one line, where more would lie within two pixels.
    """
    step, width = 84 / total_heads, (1084 - AXIS - SIDE) // total_heads
    height = tokens * step + 10
    if compact:
        height = min(height, max(18, min(760 // layers, 200)))
        width = min(width, max(44, round(2.2 * height)))
        step = (height - (4 if height < 40 else 10)) / tokens
    return width, height, step, max(1, ceil(2 / step))


def draw_grid(panel, layers, heads, total_heads):
    """Draw every head as a small picture of its lines: a row for each layer, a column for each head.

    layers, heads: the indices that name the rows and columns of panel.levels (layers, heads, query, key).
    total_heads: how many small pictures fit side by side.
    """
    tokens = max(panel.levels.shape[2:])
    compact = is_compact(len(layers), total_heads, tokens)
    width, height, step, several = grid_cell(len(layers), total_heads, tokens, compact)
    top, step_of_lines = 32, step * several
    line = min(LINE, max(1, step_of_lines))
    # A row is a whole number of pixels high: of more than the page has, where it is small.
    sharpness = ceil(step_of_lines * (1 if step_of_lines > 4 else 1.5)) / step_of_lines
    sheet = Sheet(AXIS + width * len(heads), top + height * len(layers), sharpness)
    opacities = _together(opacity(panel.weights), several, min(1, 0.6 * step / line))
    fans = []
    for row, layer in enumerate(layers):
        middle = top + height * row + (height - step * tokens) / 2 + step_of_lines / 2
        for column in range(len(heads)):
            left = AXIS + width * column + 5
            one = opacities[row, column, None]
            fans.append(Fan(one, [colour(layer)], left, left + width - 14, middle, step_of_lines, line))
        sheet.add(Text(AXIS - 4, top + height * (row + 0.5) + 5, str(layer), 13, "right"))
    sheet.add(Grid(fans))
    for column, head in enumerate(heads):
        sheet.add(Text(AXIS + width * (column + 0.5), top - 4, str(head), 13, "center"))
    sheet.add(Text(0, 12, "Head →, layer ↓", 12))
    return sheet


def _together(opacities, several, thin):
    """Return the opacities of lines of which so many queries, and so many keys, are drawn as one, and paler by `thin`."""
    if thin == 1:
        return opacities
    ends = [(0, 0), (0, 0), *((0, -size % several) for size in opacities.shape[2:])]
    padded = np.pad(opacities, ends)
    rows, columns = (size // several for size in padded.shape[2:])
    blocks = padded.reshape(*padded.shape[:2], rows, several, columns, several)
    return 1 - (1 - thin * blocks).prod(axis=(3, 5))


def draw_text(panel, text, layer, head, token, where, prompt_length, surprise):
    """Draw a text in which the tokens that one of them attends to are shaded by its weights.

    text: of each token, with a space before it or an end of line after it. layer, head: places in panel.levels; None
    is the mean of the heads. surprise: in bits, for each token, or None.
    """
    levels = panel.levels[layer, :, token] if head is None else panel.levels[layer, [head], token]
    weights = replace(panel, levels=levels).weights.mean(axis=0)  # (key,)
    marked = set()
    for index in np.argsort(-weights, kind="stable")[:6].tolist():
        near = [other for other in (index - 1, index + 1) if other in marked]
        if all(len(text[min(index, other)].strip()) > 3 for other in near):  # else digits would touch
            marked.add(index)
    sheet, shapes, x, y = Sheet(900, 0, 1.5), [], 8.0, 58.0
    for index, (part, weight) in enumerate(zip(text, weights.tolist(), strict=True)):
        word = part.strip() or "␣"
        wide = Text(0, 0, word, SIZE)
        width = wide.width
        x += 5 * part.startswith(" ")
        if x + width > 884 and x > 8:
            x, y = 8.0, y + 32
        if index == prompt_length:
            shapes.append(Text(x, y, "▸", SIZE, colour="#c0000c"))
            x += 16
        shapes.append(Box(x - 1, y - 15, width + 2, 20, "#0060cc", 0.85 * opacity(weight)))
        if surprise and surprise[index]:
            shapes.append(Box(x - 1, y + 6, width + 2, 3, "#c0000c", min(1, surprise[index] / 12)))
        if index == token:
            shapes += _frame(x - 2, y - 16, width + 4, 22, 2, "#cc8400")
        ink = "white" if opacity(weight) > 0.62 else "#202020"
        shapes.append(Text(x, y, word, SIZE, colour=ink, room=876))
        if index in marked and weight >= 0.005:
            shapes.append(Text(x, y - 17, f"{weight:.2f}", 9))
        x += min(width, 876) + 2
        if part.endswith("\n"):
            x, y = 8.0, y + 32
    sheet.height = y + 20
    sheet.add(Text(8, 18, f"{where[0].upper()}{where[1:]}", 13), *shapes)
    return sheet


def draw_neurons(panel, named_layer, head, chosen, decimals):
    """Draw one head's way from vectors to weights, for one chosen query token: q, k, q × k, the score, softmax.

    panel: a `NeuronPanel`. Blue cells are positive, orange ones negative, and the paler the nearer to 0.
    """
    stack, query_tokens, key_tokens = panel.stack, panel.query_tokens, panel.key_tokens
    layer = stack.layers.index(named_layer)
    # (tokens, head_dim)
    query, key = stack.query[layer, head], stack.key[layer, stack.key_of(head)]
    query, key = query.float().numpy(), key.float().numpy()
    scores, weights = (numbers[chosen].numpy() for numbers in stack.attend(layer, head))  # (key,)
    rows = max(len(query_tokens), len(key_tokens))
    sheet = Sheet(1112, TOP + ROW * rows + 8, 2)
    sheet.add(Text(2, 18, f"L{named_layer}H{head}", 13))
    if stack.name != "All":
        sheet.add(Text(2, 36, stack.name, 11))
    sheet.add(Text(SCORE - 7, 18, "q ∙ k", 16), Text(SCORE - 7, 36, stack.formula(layer), 11))
    sheet.add(Text(SOFTMAX - 58.5, 18, "Softmax", 16))
    width = VECTOR / query.shape[1]  # of a cell
    ticks = range(0, query.shape[1], 2 ** max(0, ceil(log2(21 / width))))  # no two numbers touch
    for x, name in ((QUERY, "Query q"), (KEY, "Key k"), (PRODUCT, "q × k (elementwise)")):
        sheet.add(Text(x + VECTOR / 2, 18, name, 16, "center"))
        sheet.add(*(Text(x + (tick + 0.5) * width, 37, str(tick), 10, "center") for tick in ticks))
    for row, token in enumerate(query_tokens):
        y, style = TOP + ROW * row, {}
        if row == chosen:
            sheet.add(Box(0, y - 1, 120, ROW, "#e5e5e5"))
            style = {"style": "bold", "colour": "black"}
        sheet.add(Text(110, y + 15, token, SIZE, "right", room=WORD, **style))
        sheet.add(*_draw_vector(QUERY, y, query[row], border=21))
    for row, token in enumerate(key_tokens):
        y = TOP + ROW * row
        sheet.add(*_draw_vector(KEY, y, key[row]))
        if stack.is_masked(layer, head, chosen, row):
            sheet.add(Text(PRODUCT + VECTOR / 2, y + 16, "masked", 12, "center", colour="dimgray"))
        else:
            sheet.add(*_draw_vector(PRODUCT, y, query[chosen] * key[row]), *_draw_score(y, scores[row]))
        sheet.add(Text(SOFTMAX - 5.5, y + 16, f"{weights[row]:.{decimals}f}", 12, "right"))
        sheet.add(Box(SOFTMAX, y - 1, 120, ROW, "#478be8", float(weights[row])))
        sheet.add(Text(SOFTMAX + 8, y + 15, token, SIZE, room=WORD))
    sheet.add(*_connect(chosen, weights))
    return sheet


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
    """Return a score as a square and in at most five signs, as `short` of the page."""
    colour = "#{:02x}{:02x}{:02x}".format(*(BLUE if score >= 0 else ORANGE))
    edges = _frame(SCORE, y, 22, 22, 1.2, colour, max(tanh(abs(score) / 2), 0.35))
    short = f"{round(float(score), 2) + 0:.2f}" if abs(score) < 99.995 else f"{score:.0f}"
    square = Box(SCORE, y, 22, 22, colour, tanh(abs(score) / 4))
    return square, *edges, Text(SCORE + 28, y + 16, short, 12)


def _draw_vector(x, y, numbers, border=20):
    """Return numbers as a strip of cells, with bertviz's colours: the opacity of a cell is tanh(|number| / 4)."""
    numbers = numbers[:, None]  # (head_dim, 1)
    strong = np.tanh(np.abs(numbers) / 4)
    colours = strong * np.where(numbers >= 0, BLUE, ORANGE) / 255 + (1 - strong)  # (head_dim, 3), over white
    return *_frame(x - 1, y, VECTOR + 2, border, 1, "#eeeeee"), Cells(x, y, VECTOR, 20, colours)
