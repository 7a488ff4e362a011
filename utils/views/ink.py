"""The ink of the views: twelve colours, and how opaque a weight is drawn. The page gets both in its data.

No two of the colours are nearer than 18 in CIELAB, seen with normal colour vision or with none of the red, the green or
the blue cones (Machado et al. 2009). Each has a contrast of 3 : 1 or more against white and against black.
"""

COLOURS = (
    "#0060cc",  # blue
    "#cc8400",  # orange
    "#6c9c6c",  # green
    "#c0000c",  # red
    "#7800fc",  # violet
    "#9c3c3c",  # brown
    "#f0489c",  # pink
    "#60606c",  # slate
    "#a89048",  # sand
    "#309cd8",  # sky
    "#9c3c9c",  # plum
    "#e400fc",  # magenta
)
STRENGTH = 1  # with which a page opens; its control goes from a quarter to four
LINE = 2  # the width of a line, in pixels of the page


def colour(index):
    """Return the colour of a head, or of a layer in the model view."""
    return COLOURS[index % len(COLOURS)]


def opacity(weight, strength=STRENGTH):
    """Return how opaque a line is: weight^(1 / strength), so that 0 is not seen and 1 is seen in full."""
    return weight ** (1 / strength)
