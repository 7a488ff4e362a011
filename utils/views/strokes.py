"""Lines of attention on a picture, composed as the canvas of a page composes them, but in floating point and together.

A line as opaque as a, where it covers the part c of a pixel, lets 1 - a·c of what lies beneath shine through. Lines of
one colour may come in any order, so a pixel needs only the product over them: a sum of logarithms. And all lines with
the same key - query are parallel and, in one column of pixels, stand a whole number of pixels apart. So one profile of
coverage serves them all, and the sums of a column are a matrix product: profiles times logarithms.

A page draws the faint lines of all heads first. Here those are drawn together, and each colour has its share of their
ink. Of the others there are seldom many: a row of weights adds up to 1. They are drawn one by one.
"""

from functools import cache

import numpy as np
import torch

from ..threads import one_thread

# log(1 - a·c) is no product of a part from a and a part from c, but within 0.01 a mix of these three, by a.
CURVES = (0.4, 0.9, 0.996)
NEAR = 1_000_000  # numbers
FAINT = 0.12


@one_thread()  # many small products are not worth waking other threads for each
def draw_fan(image, opacities, colours, left, right, top, step, width, most=0):
    """Draw a line from each query, at the left, to each key, at the right, a colour for each head, on the image.

    image: (rows, columns, 3), from 0 to 1, changed in place. opacities: (heads, query, key), from 0 to 1. colours: one
    (red, green, blue) a head. The rest is in pixels of the image: the ends of the lines, the middle of the first token,
    how far each token is below the last (a whole number), a line's width; most: that of a line as opaque as 1, if larger.
    """
    place = left, right, top, step, width
    colours = torch.tensor(np.asarray(colours), dtype=torch.float32, device="cpu")
    faint = np.where(opacities < FAINT, opacities, 0)
    if faint.any():
        logs, row, column = _sum_logs(faint, *place)
        total = logs.sum(-1, keepdim=True).clamp_(max=-1e-9)  # (columns, step, tokens, 1)
        through = total.exp()
        _place(image, torch.cat([through, logs @ colours * ((1 - through) / total)], dim=-1), row, column)
    _draw_each(image, np.where(opacities < FAINT, 0, opacities), colours.numpy(), *place, most)


def _draw_each(image, opacities, colours, left, right, top, step, width, most):
    """Draw lines as `draw_fan`, but one by one, the faintest first."""
    edge, pixels = int(np.ceil(max(width, most) / 2)) + 1, image.reshape(-1, 3)
    columns = np.arange(max(0, int(left) - edge), min(image.shape[1], int(right) + edge + 1))[:, None]

    @cache
    def profile(offset, width):
        """Return the pixels (rows, columns) of a line from query 0 to key `offset`, and how much of each it covers."""
        along, slope = columns + 0.5 - left, np.full(columns.shape, offset * step / (right - left))
        middle, tilt = top + slope * along, np.hypot(1, slope)
        reach = (width / 2 + 0.5) * tilt  # up and down in a column
        first = np.floor(middle - reach).astype(int)
        rows = first + np.arange(int(2 * reach.max()) + 2)
        cover = _coverage(first - middle, along, rows.shape[1], tilt, slope, right - left, width)
        cover = cover.squeeze(-1).numpy()
        seen = cover > 0
        return rows[seen], np.broadcast_to(columns, rows.shape)[seen], cover[seen, None]

    heads, queries, keys = found = opacities.nonzero()
    opacities = opacities[found].astype(np.float32)
    for line in np.argsort(opacities, kind="stable"):
        wide = max(width, round(4 * most * opacities[line]) / 4)  # of few widths, so that it can be cached
        rows, across, cover = profile(keys[line] - queries[line], wide)
        rows = rows + step * queries[line]
        inside = (rows >= 0) & (rows < len(image))
        place = (rows * image.shape[1] + across)[inside]
        below = pixels[place]
        pixels[place] = below + opacities[line] * cover[inside] * (colours[heads[line]] - below)


@one_thread()
def draw_grid(image, opacities, colours, offsets, *place):
    """Draw the lines of many heads, each in a small picture of its own and in one colour.

    opacities: (pictures, query, key). colours: (pictures, 3). offsets: by how many whole pixels each picture lies
    below and beside the first: (pictures, 2). place: of the first, as in `draw_fan`.
    """
    logs, row, column = _sum_logs(opacities, *place)
    through = logs.exp_()
    colours = torch.tensor(np.asarray(colours), dtype=torch.float32, device="cpu")
    for picture, (down, beside) in enumerate(offsets):
        own = through[..., picture, None]
        _place(image, torch.cat([own, (1 - own) * colours[picture]], dim=-1), row + down, column + beside)


def _place(image, mixed, row, column):
    """Put on the image, below and beside this pixel, how much of it shines through and what lies over it.

    mixed: (columns, step, tokens, 4). What lies outside of the image is not drawn.
    """
    mixed = mixed.permute(2, 1, 0, 3).flatten(0, 1)  # (rows, columns, 4)
    above, before = max(0, -row), max(0, -column)
    rows, columns = min(len(mixed), len(image) - row), min(mixed.shape[1], image.shape[1] - column)
    if rows > above and columns > before:
        place = torch.from_numpy(image)[row + above : row + rows, column + before : column + columns]
        mixed = mixed[above:rows, before:columns]
        place.mul_(mixed[..., :1]).add_(mixed[..., 1:])


def draw_cells(image, x, y, width, height, colours, opacity=1):
    """Draw a row of equal rectangles on the image, side by side. colours: (cells, 3).

    Their edges are shared out among the pixels that they cross.
    """
    rows, down = _overlap(y, height, 1, len(image))
    columns, across = _overlap(x, width, len(colours), image.shape[1])
    ink = across @ np.asarray(colours, np.float32) - image[rows, columns] * across.sum(1)[:, None]
    image[rows, columns] += opacity * down[..., None] * ink


def _overlap(start, length, parts, size):
    """Return the pixels in which a stretch lies, and how much of each is in each of its equal parts."""
    first = max(0, int(np.floor(start)))
    last = max(first, min(size, int(np.ceil(start + length))))
    pixels = np.arange(first, last, dtype=np.float32)[:, None]
    edges = (start + length * np.arange(parts + 1) / parts).astype(np.float32)
    inside = np.minimum(pixels + 1, edges[1:]) - np.maximum(pixels, edges[:-1])
    return slice(first, last), inside.clip(0)


def _sum_logs(opacities, left, right, top, step, width):
    """Return the sums for each head, (columns, step, tokens, heads), and the row and column where they begin."""
    heads, queries, keys = opacities.shape
    edge = int(np.ceil(width / 2)) + 1
    first, row = int(left) - edge, int(np.floor((top - edge) / step))
    # (columns, 1): to the middle of a column.
    along = np.arange(first, int(right) + edge + 1)[:, None] + 0.5 - left
    count = max(queries, keys) + 2  # rows of tokens
    steepest = np.hypot(1, max(queries, keys) * step / (right - left))
    pad = queries + keys + int((width + 1) * steepest / step) + 4
    curve, offset, lines = _sort_lines(opacities, pad)

    slope = offset * step / (right - left)
    tilt = np.hypot(1, slope)  # 1 / the cosine of a line's angle
    reach = (width / 2 + 0.5) * tilt  # up and down in a column
    # A profile is cut into blocks of a step each: so many at most, and fewer in most columns.
    most = int(np.ceil(2 * reach.max(initial=0) / step)) + 1
    windows = np.lib.stride_tricks.sliding_window_view(lines, count * heads, axis=1)
    logs = torch.empty(len(along), step, count * heads, dtype=torch.float32, device="cpu")
    # So many columns at once that their numbers stay near to hand.
    at_once = 1 + NEAR // (1 + len(slope) * most * (count * heads + 4 * step))
    for now in (slice(start, start + at_once) for start in range(0, len(along), at_once)):
        middle = top + slope * along[now]  # (columns, slopes): of the line from query 0
        block = np.floor((middle - reach) / step).astype(int)[..., None] + np.arange(most)
        above = block * step - middle[..., None]  # (columns, slopes, most)
        met, block, above = (each.reshape(len(middle), -1) for each in (above < reach[:, None], block, above))
        # The blocks that a profile meets come first, and stay.
        chosen = np.argsort(~met, axis=1, kind="stable")[:, : met.sum(1).max()]
        block, above = (np.take_along_axis(each, chosen, axis=1) for each in (block, above))
        whose = chosen // most  # (columns, blocks)
        profiles = _coverage(above, along[now], step, tilt[whose], slope[whose], right - left, width)
        profiles.mul_(torch.from_numpy(-curve[whose])[:, None]).log1p_()
        # Each block meets as many rows of tokens as there are, beginning with this place among its lines.
        picked = windows[whose, (pad + row - block) * heads]  # (columns, blocks, rows x heads)
        torch.bmm(profiles, torch.from_numpy(picked), out=logs[now])
    return logs.view(len(along), step, count, heads), row * step, first


def _sort_lines(opacities, pad):
    """Return the lines by curve and by key - query: (slopes, queries x heads), with a pad of zeros at either end.

    What belongs to no line is left out: so first come the curve and the key - query of each slope.
    """
    heads, queries, keys = opacities.shape
    # (curves, heads, query, key)
    shares = np.stack([np.interp(opacities, np.arange(256) / 255, share) for share in _shares()])
    shares = shares.astype(np.float32)
    curves = np.repeat(CURVES, queries + keys - 1)
    offsets = np.tile(np.arange(1 - queries, keys), len(CURVES))
    lines = np.zeros((len(CURVES), queries + keys - 1, queries + 2 * pad, heads), np.float32)
    for place, offset in enumerate(range(1 - queries, keys)):
        found = shares.diagonal(offset, 2, 3).swapaxes(1, 2)
        start = pad + max(0, -offset)
        lines[:, place, start : start + found.shape[1]] = found
    lines = lines.reshape(len(offsets), -1)
    used = lines.any(axis=1)
    return curves[used].astype(np.float32), offsets[used], lines[used]


def _coverage(above, along, step, tilt, slope, length, width):
    """Return how much of each pixel of a block a line covers: (columns, step, blocks).

    A line is a rectangle, whose edges fade over one pixel. above: from the line's middle to the top of the block.
    """
    above, along, tilt, slope = (torch.from_numpy(part).float() for part in (above, along, tilt, slope))
    tilt, slope = tilt[:, None], slope[:, None]  # (columns, 1, blocks)
    down = above[:, None] + torch.from_numpy(np.arange(0.5, step, dtype=np.float32))[:, None]
    across = (width / 2 + 0.5 - (down / tilt).abs_()).clamp_(0, 1)
    middle = along[..., None] - length / 2
    if middle.abs().max() > length / 2 - width / 2 - 1:  # else no line ends here
        ends = length / 2 * tilt + 0.5 - (down * (slope / tilt) + middle * tilt).abs_()
        across.mul_(ends.clamp_(0, 1))
    return across


@cache
def _shares():
    """Return how much of each of the CURVES an opacity takes, for 0/255 to 255/255: (curves, opacities)."""
    coverage = np.linspace(0, 1, 65)[:, None]
    opacities = np.minimum(np.arange(256) / 255, CURVES[-1])
    curves, wanted = (np.log1p(-np.asarray(which) * coverage) for which in (CURVES, opacities))
    # Least squares.
    shares = np.linalg.solve(*(np.einsum("ci,cj->ij", curves, other) for other in (curves, wanted)))
    # The faint ones, which are nearly all, take the first alone.
    faint = opacities < CURVES[0]
    shares[:, faint] = wanted[-1, faint] / curves[-1, :1] * np.eye(len(CURVES))[:, :1]
    return shares
