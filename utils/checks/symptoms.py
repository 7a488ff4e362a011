"""What a mistake is like, where no formula of a check fits: the error that the code raises, or how an answer differs.

These serve every exercise. Each name has its words in misconceptions.toml, under [symptoms]; what they say is true of
any code that shows the symptom, whatever its cause.
"""

import re
from itertools import combinations

import torch

from .answers import close

# The name of an error that tells its cause: (type or types, a pattern in its text, name). The first that fits counts.
ERRORS = [
    (TypeError, r"NoneType", "none_not_handled"),
    (AttributeError, r"'NoneType' object", "none_not_handled"),
    (ValueError, r"is not in (list|tuple)", "not_in_the_list"),
    (RuntimeError, r"view size is not compatible", "view_of_what_does_not_lie_together"),
    (RuntimeError, r"is invalid for input of size|don't add up to|shape '.*' is invalid", "sizes_do_not_fit"),
    (RuntimeError, r"split_with_sizes|split expects", "sizes_do_not_fit"),
    (
        RuntimeError,
        r"cannot be multiplied|Expected size for first two dim|size mismatch",
        "product_does_not_fit",
    ),
    (RuntimeError, r"inconsistent tensor size|vector \+ matrix @ vector", "product_does_not_fit"),
    (
        RuntimeError,
        r"must be at least .*D|expected .*D tensors?, but|must be matrices",
        "product_does_not_fit",
    ),
    (RuntimeError, r"einsum\(\)", "einsum_does_not_fit"),
    (RuntimeError, r"all dimensions of input must be of equal length", "one_diagonal_through_all"),
    (
        RuntimeError,
        r"must match the size|must match the existing size|not broadcastable",
        "shapes_do_not_meet",
    ),
    (RuntimeError, r"stack expects each tensor", "unequal_parts"),
    (RuntimeError, r"Sizes of tensors must match", "shapes_do_not_meet"),
    (RuntimeError, r"doesn't match the broadcast shape", "shapes_do_not_meet"),
    (ValueError, r"expected sequence of length|inhomogeneous shape", "unequal_parts"),
    (ValueError, r"could not be broadcast", "shapes_do_not_meet"),
    (IndexError, r"Dimension out of range", "axis_is_not_there"),
    (RuntimeError, r"number of dimensions in the tensor input does not match", "axis_is_not_there"),
    (IndexError, r"too many indices", "axis_is_not_there"),
    (IndexError, r"out of (range|bounds)", "place_is_not_there"),
    (RuntimeError, r"index .* is out of bounds", "place_is_not_there"),
    (RuntimeError, r"Boolean value of Tensor", "many_numbers_as_one_truth"),
    (ValueError, r"truth value of an array", "many_numbers_as_one_truth"),
    (RuntimeError, r"a Tensor with \d+ elements cannot be converted", "many_numbers_as_one"),
    (TypeError, r"only (integer tensors of a single element|length-1|0-dim)", "many_numbers_as_one"),
    (RuntimeError, r"leaf Variable that requires grad|leaf variable", "gradients_are_recorded"),
    (RuntimeError, r"requires grad\. Use", "gradients_are_recorded"),
    (
        RuntimeError,
        r"(same|scalar) (data)?type|same dtype|can't be cast to|dtypes? (to|match)|expected dtype|mixed dtype",
        "two_dtypes",
    ),
    (IndexError, r"tensors used as indices must be", "two_dtypes"),
    ((TypeError, RuntimeError), r"boolean negative|Negation, the `-`", "minus_before_truth"),
    ((TypeError, RuntimeError), r"boolean subtract|Subtraction, the `-`", "true_minus_false"),
    (RuntimeError, r"not implemented for '|only supported for", "wrong_dtype_for_this"),
    (RuntimeError, r"[Ii]nput dtype should be|could not infer output dtype", "wrong_dtype_for_this"),
    (TypeError, r"ufunc .* not supported", "wrong_dtype_for_this"),
    (TypeError, r"positional argument|unexpected keyword argument|missing \d+ required", "arguments_differ"),
    (
        TypeError,
        r"is not subscriptable|object is not iterable|has no len|can only concatenate",
        "one_thing_taken_for_many",
    ),
    (TypeError, r"not callable", "not_a_function"),
    (AttributeError, r"torch\.return_types", "pair_used_as_tensor"),
    (AttributeError, r"before Module\.__init__", "no_super_init"),
    (AttributeError, r"has no attribute", "no_such_name"),
    (NameError, r"", "no_such_name"),
    (ValueError, r"only one element tensors can be converted", "many_numbers_as_one"),
    (TypeError, r"'torch\.return_types", "pair_used_as_tensor"),
    (KeyError, r"", "place_is_not_there"),
    (OverflowError, r"math range", "overflow_on_large_scores"),
    (RecursionError, r"", "calls_itself_for_ever"),
    (ZeroDivisionError, r"", "divided_by_zero"),
]


def of_error(error):
    """Return the name of an error that tells its cause, or None."""
    text = " ".join(str(error).split())
    return next(
        (name for kind, said, name in ERRORS if isinstance(error, kind) and re.search(said, text)), None
    )


# ---------------------------------------------------------------------------------- how an answer differs

OTHER_ORDER = "The numbers are right, but stand in another order: look at the axes, and at what is sorted."


def of_answer(mine, value):
    """Return the name of how a wrong answer differs from the right one, and a sentence with its numbers; or None twice.

    The sentence is empty where the words of the name say all.
    """
    if isinstance(mine, list) and isinstance(value, list):
        return of_list(mine, value)
    if isinstance(mine, int | float) and isinstance(value, int | float) and value:
        if (isinstance(value, int) and value < 100) or not 0.01 <= abs(mine / value) < 1000:
            return None, ""
        return "all_scaled", f"Your number is {mine / value:.2f} times the right one."
    if not isinstance(mine, torch.Tensor) or not isinstance(value, torch.Tensor):
        return None, ""
    truth = value.dtype == torch.bool
    mine, value = mine.to(torch.float64), value.to(torch.float64)
    for one, other in combinations(range(mine.dim()), 2):
        if same(mine.transpose(one, other), value):
            return "axes_turned", f"It would be right with its axes {one} and {other} exchanged."
    if mine.shape != value.shape:
        return of_shape(mine, value)
    if not truth and (found := of_all_numbers(mine, value)):
        return found
    return of_places(mine, value, truth)


def of_list(mine, value):
    """Return the name of how a list differs from the right one."""
    if len(value) == len(mine) + 1 and mine in (value[1:], value[:-1]):
        return "one_too_few", ""
    if len(mine) == len(value) + 1 and value in (mine[1:], mine[:-1]):
        return "one_too_many", ""
    if mine == value[::-1]:
        return "runs_backwards", ""
    return (None, "") if mine == value or sorted(mine) != sorted(value) else ("another_order", OTHER_ORDER)


def of_shape(mine, value):
    """Return the name of how a tensor of another shape differs from the right one."""
    if same(mine.squeeze(), value.squeeze()):
        return "axis_of_length_one", ""
    if mine.dim() == value.dim() == 1:
        return of_list(mine.tolist(), value.tolist())
    if mine.numel() == value.numel() and same(mine.flatten(), value.flatten()):
        return "other_axes", "Only the axes differ."
    if 0 < mine.dim() < value.dim():
        for axis in range(value.dim()):
            if any(same(mine, part) for part in value.unbind(axis)):
                return "one_part_only", ""
    return None, ""


def of_all_numbers(mine, value):
    """Return a name and a sentence if all numbers differ from the right ones in the same way, or None."""
    if value.numel() < 3 or not mine.isfinite().all() or not value.isfinite().all() or not value.any():
        return None
    factor = (mine * value).sum() / value.square().sum()
    if factor.abs() > 0.005 and same(mine, factor * value):
        if (factor + 1).abs() < 1e-4:
            return "only_the_sign", "Only the sign is wrong."
        return (
            "all_scaled",
            f"Each number is {factor:.2f} times the right one: look at what you multiply or divide by.",
        )
    added = (mine - value).mean()
    if added.abs() > 0.005 and same(mine, value + added):
        way = "large" if added > 0 else "small"
        return "all_moved", f"Each number is {added.abs():.2f} too {way}: look at what you add."
    if value.dim() > 1 and value.shape[-1] > 2 and value.any(dim=-1).all():
        factors = (mine * value).sum(dim=-1, keepdim=True) / value.square().sum(dim=-1, keepdim=True)
        if (factors.abs() > 0.005).all() and same(mine, factors * value):
            said = "Each row is the right one times a number of its own: look at what a row is divided by."
            return "rows_scaled", said
    if same(mine.flatten().sort().values, value.flatten().sort().values):
        if any(same(mine.flip(axis), value) for axis in range(mine.dim())):
            return "runs_backwards", ""
        return "another_order", OTHER_ORDER
    return None


def of_places(mine, value, truth):
    """Return the name of where numbers are wrong: in some rows, columns or sentences; or moved by one place."""
    if not truth and mine.numel() > 2 and (mine == mine.flatten()[0]).all():
        return "one_number_everywhere", ""
    if not truth and mine.any() and any(same(mine, value.round(decimals=digits)) for digits in (1, 2, 3)):
        return "rounded", ""
    if not truth and mine.isfinite().all() and torch.allclose(mine, value, rtol=2e-3, atol=1e-3):
        return "nearly_right", ""
    if truth and same(mine, 1 - value):
        return "truth_inverted", ""
    for axis in range(mine.dim()):
        if (size := mine.shape[axis] - 1) > 1 and not truth and mine.isfinite().all():
            for a, b in ((0, 1), (1, 0)):
                part = mine.narrow(axis, a, size)
                if same(part, value.narrow(axis, b, size)) and not (part == part.flatten()[0]).all():
                    return "moved_by_one", ""
    right = close(mine, value)
    for axis, word in ((-2, "row"), (-1, "column"), (0, "sentence")):
        if mine.dim() < (3 if axis == 0 else 2):
            continue
        whole = right.transpose(axis, 0).flatten(1).all(dim=1)
        if whole.any() and not whole.all():
            wrong, name = (~whole).nonzero().flatten().tolist(), f"some_{word}s_wrong"
            if whole.sum() == 1:  # the first row is right in many ways
                name = None if word != "sentence" else name
                return name, f"Only {word} {int(whole.nonzero()[0])} is right, counted from 0."
            if len(wrong) == 1:
                return name, f"Only {word} {wrong[0]} is wrong, counted from 0."
            name = None if word != "sentence" else name
            return name, f"Wrong are the {word}s {', '.join(map(str, wrong))}, counted from 0."
    return None, ""


def same(mine, value):
    """Say whether two tensors are the same."""
    return mine.shape == value.shape and bool(close(mine, value).all())
