"""What a mistake is like where no edit of the solution fits: the error that the code raises, or how an answer differs.

These serve every exercise. The words stand in shared.toml, under [symptoms], with the patterns of the errors: they are
true of any code that shows the symptom, whatever its cause.
"""

import re
from itertools import combinations

import torch

from .answers import close
from .words import rows, table


def of_error(error):
    """Return the name of an error that tells its cause: of the first row with a pattern "Kind: text" that fits."""
    text = " ".join(str(error).split())
    kinds = "|".join(f"{kind.__name__}: {text}" for kind in type(error).__mro__)
    told = ((name, pattern) for name, row in rows(table()["symptoms"]).items() for pattern in row.edits)
    return next((name for name, pattern in told if re.search(pattern, kinds)), None)


OTHER_ORDER = "The numbers are right, but stand in another order: look at the axes, and at what is sorted."
NOTHING = None, ""


def of_answer(mine, value):
    """Return the name of how a wrong answer differs from the right one, and a sentence with its numbers; or NOTHING."""
    if isinstance(mine, list) and isinstance(value, list):
        return of_list(mine, value)
    if all(isinstance(one, torch.Tensor) and one.dim() == 0 for one in (mine, value)):
        mine, value = mine.item(), value.item()
    if isinstance(mine, int | float) and isinstance(value, int | float) and value:
        share, told = mine / value, f"Your number is {mine / value:.2f} times the right one."
        counted = isinstance(value, int) and value < 100
        says_little = counted or " 1.00 times" in told or not 0.01 <= abs(share) < 1000
        return NOTHING if says_little else ("all_scaled", told)
    if not isinstance(mine, torch.Tensor) or not isinstance(value, torch.Tensor):
        return NOTHING
    truth, mine, value = value.dtype == torch.bool, mine.to(torch.float64), value.to(torch.float64)
    for one, other in combinations(range(mine.dim()), 2):
        if same(mine.transpose(one, other), value):
            return "axes_turned", f"It would be right with its axes {one} and {other} exchanged."
    if mine.shape != value.shape:
        return of_shape(mine, value)
    return (not truth and of_all_numbers(mine, value)) or of_places(mine, value, truth)


def of_list(mine, value):
    """Return the name of how a list differs from the right one."""
    if len(value) == len(mine) + 1 and mine in (value[1:], value[:-1]):
        return "one_too_few", ""
    if len(mine) == len(value) + 1 and value in (mine[1:], mine[:-1]):
        return "one_too_many", ""
    if mine == value[::-1]:
        return "runs_backwards", ""
    return NOTHING if mine == value or sorted(mine) != sorted(value) else ("another_order", OTHER_ORDER)


def of_shape(mine, value):
    """Return the name of how a tensor of another shape differs from the right one."""
    if same(mine.squeeze(), value.squeeze()):
        return "axis_of_length_one", ""
    if mine.dim() == value.dim() == 1:
        return of_list(mine.tolist(), value.tolist())
    if same(mine.flatten(), value.flatten()):
        return "other_axes", "Only the axes differ."
    parts = (part for axis in range(value.dim()) for part in value.unbind(axis))
    return ("one_part_only", "") if mine.dim() > 0 and any(same(mine, part) for part in parts) else NOTHING


def of_all_numbers(mine, value):
    """Return a name and a sentence if all numbers differ from the right ones in the same way, or None."""
    if value.numel() < 3 or not mine.isfinite().all() or not value.isfinite().all() or not value.any():
        return None
    factor, added = (mine * value).sum() / value.square().sum(), (mine - value).mean()
    if factor.abs() > 0.005 and (factor - 1).abs() > 0.005 and same(mine, factor * value):
        if (factor + 1).abs() < 1e-4:
            return "only_the_sign", "Only the sign is wrong."
        said = f"Each number is {factor:.2f} times the right one: look at what you multiply or divide by."
        return "all_scaled", said
    if added.abs() > 0.005 and same(mine, value + added):
        way = "large" if added > 0 else "small"
        return "all_moved", f"Each number is {added.abs():.2f} too {way}: look at what you add."
    if value.dim() > 1 and value.shape[-1] > 2 and value.any(dim=-1).all():
        factors = (mine * value).sum(dim=-1, keepdim=True) / value.square().sum(dim=-1, keepdim=True)
        if (factors.abs() > 0.005).all() and same(mine, factors * value):
            said = "Each row is the right one times a number of its own: look at what a row is multiplied or divided by."
            return "rows_scaled", said
    if same(mine.flatten().sort().values, value.flatten().sort().values):
        backwards = any(same(mine.flip(axis), value) for axis in range(mine.dim()))
        return ("runs_backwards", "") if backwards else ("another_order", OTHER_ORDER)
    return None


def of_places(mine, value, truth):
    """Return the name of where numbers are wrong: in some rows, columns or sentences; or moved by one place."""
    if truth and same(mine, 1 - value):
        return "truth_inverted", ""
    if not truth and mine.numel() > 2 and (mine == mine.flatten()[0]).all():
        return "one_number_everywhere", ""
    if not truth and mine.any() and any(same(mine, value.round(decimals=digits)) for digits in (1, 2, 3)):
        return "rounded", ""
    if not truth and mine.isfinite().all():
        if torch.allclose(mine, value, rtol=2e-3, atol=1e-3):
            return "nearly_right", ""
        for axis, (a, b) in ((axis, ends) for axis in range(mine.dim()) for ends in ((0, 1), (1, 0))):
            size = mine.shape[axis] - 1
            part = mine.narrow(axis, a, max(size, 0))
            if size > 1 and same(part, value.narrow(axis, b, size)) and not (part == part.flatten()[0]).all():
                return "moved_by_one", ""
    return of_rows(close(mine, value))


def of_rows(right):
    """Return the name of where numbers are wrong, if whole rows, columns or sentences are right."""
    for axis, word in ((-2, "row"), (-1, "column"), (0, "sentence")):
        if right.dim() < (3 if axis == 0 else 2):
            continue
        whole = right.transpose(axis, 0).flatten(1).all(dim=1)
        if whole.any() and not whole.all():
            wrong, name = (~whole).nonzero().flatten().tolist(), f"some_{word}s_wrong"
            if len(wrong) == 1 and whole.sum() > 1:
                return name, f"Only {word} {wrong[0]} is wrong, counted from 0."
            name = name if word == "sentence" else None  # the first row is right in many ways
            if whole.sum() == 1:
                return name, f"Only {word} {int(whole.nonzero()[0])} is right, counted from 0."
            return name, f"Wrong are the {word}s {', '.join(map(str, wrong))}, counted from 0."
    return NOTHING


def same(mine, value):
    """Say whether two tensors are the same."""
    return mine.shape == value.shape and bool(close(mine, value).all())
