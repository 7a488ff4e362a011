"""The tables of attempts, and the functions that fill them."""

RIGHT, WRONG, UNLISTED, COMBINED = {}, {}, {}, {}


def right(exercise, *attempts):
    """Add attempts that must pass."""
    RIGHT.setdefault(exercise, []).extend(attempts)


def wrong(exercise, misconception, *attempts):
    """Add attempts that must be refused, and named."""
    WRONG.setdefault((exercise, misconception), []).extend(attempts)


def unlisted(exercise, *attempts):
    """Add attempts with a mistake that needs no name of its own: refused, whatever they are called."""
    UNLISTED.setdefault(exercise, []).extend(attempts)


def combined(exercise, misconceptions, *attempts):
    """Add attempts with several mistakes at once: refused, with one of these names or without."""
    COMBINED.setdefault((exercise, misconceptions), []).extend(attempts)
