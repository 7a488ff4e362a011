"""The static pictures of the three views, from tensors and tokens.

Each function draws what bertviz draws in the page, at the same places: one unit of the axes is one pixel there, and
100 pixels are one inch. They return a matplotlib Figure; `View.png` makes a PNG of it.
"""

from math import ceil, log2

import torch

FONT_SIZE = {"fontsize": 10, "parse_math": False, "va": "center"}
# The neuron view's columns, from left to right: where each begins, and how wide a vector is drawn.
QUERY, KEY, PRODUCT, SCORE, SOFTMAX, VECTOR = 145, 382.5, 607.5, 833.5, 934, 200
ROW, TOP = 26, 42  # the height of a token's row in the neuron view, and of the headings above


def draw_heads(panels, layer, heads):
    """Draw the chosen heads of one layer as lines, panel beside panel."""
    rows = max(max(panel.weights.shape[2:]) for panel in panels) + 2.5
    figure = _figure(350 * len(panels), 22.5 * rows)
    for place, panel in enumerate(panels):
        left, width = place / len(panels), 1 / len(panels)
        axes = figure.add_axes((left, 0, width, 1), xlim=(0, 350), ylim=(rows - 2.5, -2.5))
        axes.set_axis_off()
        _draw_lines(axes, panel.weights[layer, heads], heads)
        for x, align, tokens in ((108, "right", panel.query_tokens), (242, "left", panel.key_tokens)):
            for y, token in enumerate(tokens):
                axes.text(x, y, printable(token), ha=align, **FONT_SIZE)
        for x, align, name in ((108, "right", "query"), (242, "left", "key")):
            axes.text(x, -1, name, ha=align, va="center", fontsize=9, style="italic", color="dimgray")
        if panel.name != "All":
            axes.text(175, -1, panel.name, ha="center", va="center", fontsize=10, weight="bold")
    return figure


def _draw_lines(axes, weights, heads):
    """Draw weights (heads, query, key) as lines, as bertviz does: opacity is the weight over the number of heads."""
    for place, (head, weight) in enumerate(zip(heads, weights.float().cpu(), strict=True)):
        colour = _colour(head)
        seen = (weight > 0.002).nonzero().tolist()
        lines = [[(115, query), (235, key)] for query, key in seen]
        opacities = [min(1.0, weight[q, k].item() / len(heads)) for q, k in seen]
        axes.add_collection(_lines(lines, colour, opacities, 1.5))
        if len(heads) <= 16:  # more squares than these do not fit in one row
            x = 175 + 20 * (place - (len(heads) - 1) / 2)
            square = {"boxstyle": "square,pad=0.3", "facecolor": colour, "edgecolor": "white"}
            axes.text(x, -2, head, ha="center", va="center", fontsize=8, color="white", bbox=square)


def draw_grid(panel, layers, heads, total_heads):
    """Draw every head as a small picture of its lines: a row for each layer, a column for each head.

    layers, heads: the indices that name the rows and columns of panel.weights (layers, heads, query, key).
    total_heads: how many small pictures fit side by side.
    """
    step, width = 84 / total_heads, 932 / total_heads  # the height of a token, the width of a small picture
    height = step * max(panel.weights.shape[2:]) + 10
    figure = _figure(970, 38 + height * len(layers))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, 970), ylim=(38 + height * len(layers), 0))
    axes.set_axis_off()
    for row, layer in enumerate(layers):
        for column, weight in enumerate(panel.weights[row].float().cpu()):  # (query, key)
            left, top = 38 + width * column + 5, 38 + height * row + 5
            seen = (weight > 0.03).nonzero().tolist()  # a fainter line would not be seen at this size
            right = left + width - 14
            lines = [[(left, top + (q + 0.5) * step), (right, top + (k + 0.5) * step)] for q, k in seen]
            axes.add_collection(_lines(lines, _colour(layer), [weight[q, k].item() for q, k in seen], 1.0))
        axes.text(33, 38 + height * (row + 0.5), layer, ha="right", **FONT_SIZE)
    for column, head in enumerate(heads):
        axes.text(38 + width * (column + 0.5), 29, head, ha="center", **FONT_SIZE)
    middle = {"ha": "center", "va": "center", "fontsize": 10, "weight": "bold"}
    axes.text(38 + width * len(heads) / 2, 9, "head (index)", **middle)
    axes.text(8, 38 + height * len(layers) / 2, "layer (index)", rotation=90, **middle)
    return figure


def draw_neurons(stack, layer, head, query_tokens, key_tokens, chosen):
    """Draw one head's way from vectors to weights, for one chosen query token: q, k, q × k, the score, softmax.

    stack: a `capture.Stack`. Blue cells are positive, orange ones negative, and the paler the nearer to 0.
    """
    query, key = stack.query[layer, head].float(), stack.key[layer, head].float()  # (tokens, head_dim)
    scores, weights = (numbers[chosen] for numbers in stack.attend(layer, head))  # (key,)
    product, rows = query[chosen] * key, max(len(query_tokens), len(key_tokens))
    figure = _figure(1112, TOP + ROW * rows + 10)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, 1112), ylim=(TOP + ROW * rows + 10, 0))
    axes.set_axis_off()
    small = {"va": "center", "fontsize": 8}
    axes.text(115, 13, f"layer {layer}, head {head}", ha="right", fontsize=9.5, va="center")
    axes.text(115, 33, "(index)" if stack.name == "All" else f"(index), {stack.name}", ha="right", **small)
    for x, name in ((QUERY, "query q"), (KEY, "key k"), (PRODUCT, "q × k (each number)")):
        axes.text(x + VECTOR / 2, 13, name, ha="center", va="center", fontsize=11)
        for index, place in _ticks(query.shape[1]):
            axes.text(x + place, 33, index, ha="center", **small)
    axes.text(SCORE, 13, "q·k", ha="left", va="center", fontsize=11)
    axes.text(SCORE, 33, _formula(stack, layer), ha="left", **small)
    axes.text(SOFTMAX + 6, 13, "softmax", ha="left", va="center", fontsize=11)
    middles = [TOP + ROW * row + 10 for row in range(rows)]
    for row, (y, token) in enumerate(zip(middles, query_tokens, strict=False)):
        highlight = {"facecolor": "#e5e5e5", "edgecolor": "none", "pad": 2} if row == chosen else None
        axes.text(115, y, printable(token), ha="right", bbox=highlight, **FONT_SIZE)
    for row, (y, token) in enumerate(zip(middles, key_tokens, strict=False)):
        _draw_vector(axes, KEY, y, key[row])
        if stack.is_masked(layer, head, chosen, row):
            axes.text(
                PRODUCT + VECTOR / 2, y, "masked", ha="center", fontsize=9, va="center", color="dimgray"
            )
        else:
            _draw_vector(axes, PRODUCT, y, product[row])
            _draw_vector(axes, SCORE, y, scores[row : row + 1], width=20)
            axes.text(SCORE + 26, y, f"{scores[row]:.2f}", ha="left", fontsize=9, va="center")
        axes.text(SOFTMAX + 40, y, f"{weights[row]:.3f}", ha="right", fontsize=9, va="center")
        axes.add_patch(_box(SOFTMAX + 50, y - 11, 120, 22, facecolor="#478be8", alpha=weights[row].item()))
        axes.text(SOFTMAX + 54, y, printable(token), ha="left", **FONT_SIZE)
    _draw_vector(axes, QUERY, middles[chosen], query[chosen])
    elbow = (QUERY + VECTOR + KEY) / 2
    start = [(QUERY + VECTOR, middles[chosen]), (elbow, middles[chosen])]
    lines = [[*start, (elbow, y), (KEY, y)] for y in middles[: len(key_tokens)]]
    axes.add_collection(_lines(lines, (0, 0, 1), torch.tanh(1.8 * weights).tolist(), 1.5))
    return figure


def _ticks(head_dim):
    """Return the dimensions that are numbered above a vector, with the middles of their cells."""
    width = VECTOR / head_dim
    step = 2 ** max(0, ceil(log2(21 / width)))  # no two numbers touch
    return [(index, (index + 0.5) * width) for index in range(0, head_dim, step)]


def _formula(stack, layer):
    """Return what is done to q·k before softmax, in a few signs, as `formula` of the page."""
    return " ".join(
        part
        for part in (
            f"× {stack.scale[layer]:.3g}" if stack.has_own_scale else f"/ √{stack.query.shape[-1]}",
            f"within ±{stack.softcap:g}" if stack.softcap else "",
            "+ bias" if stack.has_bias else "",
        )
        if part
    )


def _draw_vector(axes, x, y, numbers, width=VECTOR):
    """Draw numbers as a strip of cells, with bertviz's colours: the opacity of a cell is tanh(|number| / 4)."""
    blue, orange = torch.tensor([12, 54, 216]) / 255, torch.tensor([255, 99, 24]) / 255
    numbers = numbers.float().cpu()[:, None]  # (head_dim, 1)
    opacity = torch.tanh(numbers.abs() / 4)
    colours = opacity * torch.where(numbers >= 0, blue, orange) + (1 - opacity)  # (head_dim, 3), over white
    extent = (x, x + width, y + 10, y - 10)
    axes.imshow(colours[None].numpy(), extent=extent, aspect="auto", interpolation="nearest")
    axes.add_patch(_box(x, y - 10, width, 20, fill=False, edgecolor="#bbbbbb", linewidth=0.5))


def _figure(width, height):
    from matplotlib.figure import Figure

    return Figure(figsize=(width / 100, height / 100))


def _box(x, y, width, height, **style):
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), width, height, **style)


def _lines(lines, colour, opacities, width):
    from matplotlib.collections import LineCollection

    return LineCollection(lines, colors=[(*colour, opacity) for opacity in opacities], linewidths=width)


def _colour(index):
    """Return one of the ten colours that d3 gives bertviz: by head in the head view, by layer in the model view."""
    from matplotlib import colormaps

    return colormaps["tab10"](index % 10)[:3]


def printable(token):
    """Return the token with the code of each sign that would break a line or draw nothing."""
    return "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in token)
