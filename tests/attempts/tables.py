"""The tables of attempts, and the functions that fill them."""

RIGHT, WRONG, PEER, FRESH = {}, {}, {}, {}


def right(exercise, *attempts):
    """Add attempts that must pass."""
    RIGHT.setdefault(exercise, []).extend(attempts)


def wrong(exercise, *named, **attempts):
    """Add attempts that must be refused and named: one a name, written otherwise than the edits of its row."""
    for name, attempt in attempts.items() if not named else ((named[0], one) for one in named[1:]):
        WRONG.setdefault((exercise, name), []).append(attempt)


def peer(exercise, function):
    """Say what PyTorch, transformers or a hand-worked value gives on a trial.

    The function gets the trial's inputs and returns what a right attempt would. Where a class is asked for, it gets
    the solution's module in front of them.
    """
    PEER[exercise] = function


def fresh(exercise, *trials):
    """Give inputs that the check does not use, where adding noise to its own makes no new ones."""
    FRESH[exercise] = list(trials)
