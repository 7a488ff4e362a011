"""The ink of the views: twelve colours, and how opaque a weight is drawn. The page gets all of it in its data.

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
INKS = tuple({"b": "black", "w": "white"}[ink] for ink in "wbbwwwbwbbwb")  # of text on them
LINE = 2  # the width of a line, in pixels of the page
FAINTEST = 1 / 512  # what is less opaque is not drawn: a canvas would not show it


def colour(index):
    """Return the colour of a head, or of a layer in the model view."""
    return COLOURS[index % len(COLOURS)]


def opening_strength(heads):
    """Return the strength that lines of so many heads open with; a control multiplies it by a quarter to four."""
    return 1 if heads == 1 else 0.5


def opacity(weight, strength=1):
    """Return how opaque a line is: weight^(1 / strength). 0 is not seen, 1 in full, whatever the strength.

    One head: the weight itself. Several: its square, so that the many weak lines do not hide the strong ones.
    """
    return weight ** (1 / strength)
