"""The ink of the views: twelve colours, and how opaque a weight is drawn. The page gets all of it in its data.

No two of the colours are nearer than 17 in CIELAB, seen with normal colour vision or with none of the red, the green or
the blue cones (Machado et al. 2009). Each has a contrast of 3 : 1 or more against its ground: white, or GROUND.
"""

# On white, in the dark, and text on the first; on the second it is black. The hues of query, value and key come last.
TWELVE = (
    ("#7800fc", "#9446fc", "white"),  # violet
    ("#c0000c", "#f1655a", "white"),  # red
    ("#60606c", "#888995", "white"),  # slate
    ("#f0489c", "#fe89ca", "black"),  # pink
    ("#a89048", "#e1cb99", "black"),  # sand
    ("#9c3c3c", "#a86263", "white"),  # brown
    ("#e400fc", "#fa4bfa", "black"),  # magenta
    ("#309cd8", "#8cd5ff", "black"),  # sky
    ("#9c3c9c", "#9b5fa0", "white"),  # plum
    ("#cc8400", "#d6a243", "black"),  # orange
    ("#6c9c6c", "#84b395", "black"),  # green
    ("#0060cc", "#1b7ace", "white"),  # blue
)
COLOURS, DARK, INKS = zip(*TWELVE, strict=True)
ALONE, ALONE_DARK = "#b8651b", "#f4a655"  # of one head: the arrows of attention in the drawings
GROUND = "#161b22"  # of a page in the dark: that of the drawings
LINE = 2  # the width of a line, in pixels of the page
MOST = 4  # that of one in a head view that is not see-through at all
THIN, FIRM = 1.2, 0.6  # the least width and opacity of the lines of a chosen token
LEAST = 0.005  # a smaller weight is 0.00 in digits
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
