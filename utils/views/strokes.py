"""Lines of attention on a picture, composed as the canvas of a page composes them, but in floating point and together.

A line as opaque as a, where it covers the part c of a pixel, lets 1 - a·c of what lies beneath shine through. Lines of
one colour may come in any order, so a pixel needs only the product over them: a sum of logarithms. And all lines with
the same key - query are parallel and, in one column of pixels, stand a whole number of pixels apart. So one profile of
coverage serves them all, and the sums of a column are a matrix product: profiles times logarithms.
"""

from contextlib import contextmanager
from functools import cache

import numpy as np
import torch

# log(1 - a·c) is no product of a part from a and a part from c, but within 0.01 a mix of these three, by a.
CURVES = (0.4, 0.9, 0.996)


def draw_fan(image, opacities, colours, left, right, top, step, width):
    """Draw a line from each query, at the left, to each key, at the right, a colour for each head, on the image.

    image: (rows, columns, 3), from 0 to 1, changed in place. opacities: (heads, query, key), from 0 to 1. colours: one
    (red, green, blue) a head; a later head is drawn over an earlier one. The rest is in pixels of the image: the ends
    of the lines, the middle of the first token, how far each token is below the last (a whole number), a line's width.
    """
    logs, row, column = _sum_logs(opacities, left, right, top, step, width)
    # What lies outside the image is not drawn.
    above, before = max(0, -row), max(0, -column)
    rows, columns = min(logs.shape[1], len(image) - row), min(logs.shape[2], image.shape[1] - column)
    place = image[row + above : row + rows, column + before : column + columns]
    for colour, log in zip(colours, logs[:, above:rows, before:columns], strict=True):
        through = np.exp(log)[..., None]
        place *= through
        place += (1 - through) * np.asarray(colour, np.float32)


def draw_box(image, x, y, width, height, colour, opacity=1.0):
    """Fill a rectangle of the image, its edges shared out among the pixels that they cross."""
    down, across = (
        np.clip(np.minimum(np.arange(size) + 1, start + length) - np.maximum(np.arange(size), start), 0, 1)
        for start, length, size in ((y, height, image.shape[0]), (x, width, image.shape[1]))
    )
    rows, columns = (slice(*(np.flatnonzero(part)[[0, -1]] + (0, 1))) if part.any() else slice(0) for part in (down, across))
    seen = (opacity * down[rows, None] * across[columns])[..., None].astype(np.float32)
    image[rows, columns] += seen * (np.asarray(colour, np.float32) - image[rows, columns])


def _sum_logs(opacities, left, right, top, step, width):
    """Return the sums, (heads, rows, columns), and the image's row and column at which they begin."""
    heads, queries, keys = opacities.shape
    offsets = np.arange(1 - queries, keys)  # key - query
    slope = offsets * step / (right - left)
    tilt = np.hypot(1, slope)  # 1 / the cosine of a line's angle
    reach = (width / 2 + 0.5) * tilt  # up and down in a column
    # A profile is cut into blocks of a step each. `which` and `part` say for each block whose it is, and which of them.
    blocks = np.ceil(2 * reach / step).astype(int) + 1
    which = np.repeat(np.arange(len(offsets)), blocks)
    part = np.concatenate([np.arange(count) for count in blocks])

    edge = int(np.ceil(width / 2)) + 1
    first, last = int(left) - edge, int(right) + edge + 1
    along = np.arange(first, last)[:, None] + 0.5 - left  # (columns, 1), from the left end to the middle of a column
    middle = top + slope * along  # (columns, offsets): of the line from query 0
    block = (np.floor((middle - reach) / step).astype(int))[:, which] + part  # (columns, blocks)
    profiles = _coverage(block * step - middle[:, which], along, step, tilt[which], slope[which], right - left, width)

    row = int(np.floor((top - edge) / step))
    count = max(queries, keys) + 2
    pad = queries + keys + blocks.max() + 2
    logs = torch.zeros(len(along), step, count * heads)
    shares = _shares()[np.round(opacities * 255).astype(int)]  # (heads, query, key, curves)
    for curve, share in zip(CURVES, np.moveaxis(shares, -1, 0), strict=True):
        lines = np.zeros((len(offsets), queries + 2 * pad, heads), np.float32)  # by offset, then by query
        for place, offset in enumerate(offsets):
            found = share.diagonal(offset, 1, 2).T
            start = pad + max(0, -offset)
            lines[place, start : start + len(found)] = found
        windows = np.lib.stride_tricks.sliding_window_view(lines.reshape(len(offsets), -1), count * heads, axis=1)
        curved = torch.from_numpy(np.log1p(-curve * profiles))
        with _one_thread():
            for column in range(len(along)):
                picked = windows[which, (pad + row - block[column]) * heads]  # (blocks, rows x heads)
                logs[column].addmm_(curved[column], torch.from_numpy(picked))
    logs = logs.numpy().reshape(len(along), step, count, heads)
    return logs.transpose(3, 2, 1, 0).reshape(heads, count * step, len(along)), row * step, first


def _coverage(above, along, step, tilt, slope, length, width):
    """Return how much of each pixel of a block a line covers: (columns, step, blocks).

    A line is a rectangle, whose edges fade over one pixel. above: from the line's middle to the top of the block.
    """
    above, along, tilt, slope = (part.astype(np.float32) for part in (above, along, tilt, slope))
    down = above[:, None, :] + (np.arange(step, dtype=np.float32) + 0.5)[:, None]
    across = width / 2 + 0.5 - np.abs(down / tilt)
    ends = length / 2 * tilt + 0.5 - np.abs(down * slope / tilt + (along[..., None] - length / 2) * tilt)
    return np.clip(across, 0, 1) * np.clip(ends, 0, 1)


@cache
def _shares():
    """Return for each opacity, 0/255 to 255/255, how much of each of the CURVES makes log(1 - opacity · coverage)."""
    coverage = np.linspace(0, 1, 65)[:, None]
    curves, wanted = (np.log1p(-np.asarray(a) * coverage) for a in (CURVES, np.minimum(np.arange(256) / 255, CURVES[-1])))
    return np.linalg.lstsq(curves, wanted, rcond=None)[0].T.astype(np.float32)


@contextmanager
def _one_thread():
    """Many small products are not worth waking other threads for each."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
