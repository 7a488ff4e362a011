"""Reading what an attempt returned, comparing it with an expected answer, and saying in words where it differs.

An answer is a dict: its parts by name, each a tensor of float64 or a list of texts. A reader makes one of whatever
came back, or raises `Unreadable`.
"""

import inspect
import math
from numbers import Real

import numpy as np
import torch

# The part of an answer that names a head, told in other words than numbers at a place.
LAYER_HEAD = "layer, head"


class Unreadable(Exception):
    """The attempt, or what it returned, cannot be read; the text says why. It may have the `name` of a mistake."""

    def __init__(self, text, name=None):
        super().__init__(text)
        self.name = name


def unlike(value, otherwise=None):
    """Return the name of what is not of the kind that is asked for."""
    kinds = {type(None): "nothing_returned", np.ndarray: "not_a_tensor", list: "not_a_tensor"}
    return kinds.get(type(value), otherwise)


def kind_of(value):
    """Return in words what a value is that cannot be read."""
    if value is None:
        return "None (is a `return` missing?)"
    if isinstance(value, torch.Tensor) and value.is_complex():
        return f"a tensor of {value.dtype}"
    if inspect.iscoroutine(value):
        value.close()  # else Python warns that nobody waited for it
        return "a coroutine: `async` in front of `def` makes one"
    if inspect.isgenerator(value):
        return "a generator: `yield` makes one, where `return` gives the value"
    kinds = {torch.Tensor: "one tensor", np.ndarray: "a NumPy array", list: "a list", tuple: "a tuple"}
    if type(value) in (bool, int, float):
        return str(value)
    return kinds.get(type(value), f"of the type {type(value).__name__}")


def read_tensor(value, what="result", lists=False):
    """Return a tensor of float64, or raise `Unreadable`; with `lists`, of a number, an array or a list too."""
    if isinstance(value, torch.Tensor) and not value.is_complex():
        return value.detach().to_dense().to("cpu", torch.float64)
    if isinstance(value, torch.Tensor):
        raise Unreadable(f"Your {what} is {kind_of(value)}. Real numbers are expected.", "not_numbers")
    if lists and isinstance(value, np.ndarray | np.generic | Real | list | tuple):
        try:
            if isinstance(value, list | tuple) and any(isinstance(part, torch.Tensor) for part in value):
                return torch.stack([read_tensor(part, what, lists) for part in value])
            if np.asarray(value).dtype.kind not in "US":  # texts are no numbers
                return torch.as_tensor(np.asarray(value, dtype=np.float64))
        except (ValueError, TypeError, RuntimeError):
            pass
    if isinstance(value, tuple) and value:
        said = f"You returned {several(value)}. Return one tensor, the {what}: one of them, or all in one by torch.stack."
        raise Unreadable(said, "too_much_returned")
    expected = "" if value is None else ". Numbers are expected." if lists else ". A tensor is expected."
    if isinstance(value, np.ndarray) and not lists:
        expected = ". Return a tensor: torch.from_numpy makes one of it."
    elif isinstance(value, list) and not lists:
        expected = ". Return a tensor: torch.tensor makes one of numbers, torch.stack one of tensors."
    name = "nothing_returned" if value is None else "not_numbers" if lists else unlike(value, "not_a_tensor")
    mine = "Your result" if what == "result" else f"Your answer for {what}"
    raise Unreadable(f"{mine} is {kind_of(value)}{expected}", name)


def several(values):
    """Return in words what a tuple is."""
    tensors = all(isinstance(value, torch.Tensor) for value in values)
    if len(values) == 2:
        return "a pair" + " of tensors" * tensors
    return f"{len(values)} {'tensors' if tensors else 'things'}"


def output_and_weights(raw):
    """Read an output, alone or followed by the weights: a tuple, or a list of two tensors."""
    if type(raw) is list and len(raw) == 2 and all(isinstance(part, torch.Tensor) for part in raw):
        raw = tuple(raw)
    if isinstance(raw, tuple) and raw:
        answer = {"output": read_tensor(raw[0], "output")}
        if len(raw) > 1 and isinstance(raw[1], torch.Tensor):
            answer["weights"] = read_tensor(raw[1], "weights")
        return answer
    return {"output": read_tensor(raw)}


def alone(name):
    """Return a reader of one tensor."""
    return lambda raw: {name: read_tensor(raw, name)}


def scalar(name):
    """Return a reader of one number, plain or in a tensor."""
    return lambda raw: {name: read_tensor(raw, name, lists=True).squeeze()}


def parts_of(*names):
    """Return a reader of several tensors: a tuple or list in this order, or a dict with these names."""

    def read(raw):
        if hasattr(raw, "keys") and set(names) <= set(raw.keys()):
            raw = [raw[name] for name in names]
        if not isinstance(raw, tuple | list) or len(raw) != len(names):
            said = f"has {len(raw)} parts" if isinstance(raw, tuple | list) else f"is {kind_of(raw)}"
            name = "nothing_returned" if raw is None else "other_number_of_parts"
            raise Unreadable(f"Your result {said}. Expected are {len(names)}: {', '.join(names)}.", name)
        return {name: read_tensor(part, name) for name, part in zip(names, raw, strict=True)}

    return read


def whole_numbers(name, lists=True):
    """Return a reader of whole numbers: a list, a tuple or a tensor. Without `lists`, a tensor of whole numbers."""

    def read(raw):
        if isinstance(raw, tuple | list) and any(isinstance(part, torch.Tensor) for part in raw):
            if any(part.numel() != 1 for part in raw if isinstance(part, torch.Tensor)):
                said = f"You returned {several(raw)}. Expected are whole numbers, the {name}."
                raise Unreadable(said, "too_much_returned")
            raw = [part.item() if isinstance(part, torch.Tensor) else part for part in raw] if lists else raw
        numbers = read_tensor(raw, name, lists)
        if len(broken := numbers[(numbers != numbers.round()) | numbers.isinf()]):
            said = f"Your result holds {broken[0]:.2f}. Whole numbers are expected."
            raise Unreadable(said, "not_whole_numbers")
        if not lists and (raw.is_floating_point() or raw.dtype == torch.bool):
            said = f"Your {name} are a tensor of {raw.dtype}. Whole numbers are expected: torch.long."
            raise Unreadable(said, "not_whole_numbers")
        return {name: numbers}

    return read


def agrees(answer, expected):
    """Say whether two answers are equal, to 4 decimals. Weights may be missing, or a mean of heads."""
    for name, value in expected.items():
        mine = answer.get(name)
        if mine is None and name in ("weights", "the second tensor"):
            continue
        if not isinstance(value, torch.Tensor):
            if mine != value:
                return False
        elif mine.shape != value.shape:
            if name != "weights":
                return False
        elif not close(mine, value).all():
            return False
    return True


def close(mine, value):
    """Say for each number whether it is the same, to 4 decimals."""
    mine, value = mine.to(torch.float64), value.to(torch.float64)
    return torch.isclose(mine, value, rtol=1e-4, atol=2e-5, equal_nan=True)


def overflown(foreseen, told):
    """Return what is foreseen, with nan or infinity where the answer of a trial has them."""
    return foreseen | {
        name: torch.where(mine.isfinite(), foreseen[name].to(mine), mine)
        for name, mine in told.answer.items()
        if isinstance(mine, torch.Tensor)
        and not mine.isfinite().all()
        and name in foreseen.keys() & told.expected.keys()
        and foreseen[name].shape == mine.shape
        and told.expected[name].dtype != torch.bool
    }


def has_no_number(answer, expected):
    """Say whether an answer is nan everywhere, where numbers are expected."""
    mine, right = (
        [part for part in one.values() if isinstance(part, torch.Tensor) and part.numel()]
        for one in (answer, expected)
    )
    return bool(mine) and all(p.isnan().all() for p in mine) and not any(p.isnan().all() for p in right)


def what_differs(answer, expected):
    """Return a sentence about the first part of an answer that differs, with a number from it."""
    for name, value in expected.items():
        mine = answer.get(name)
        if not isinstance(value, torch.Tensor) and mine != value:
            return f"Your answer for {name} is {mine!r}; right is {value!r}."
        if not isinstance(value, torch.Tensor) or mine is None or agrees({name: mine}, {name: value}):
            continue
        if name == LAYER_HEAD:
            found = [int(n) if n == round(n) else round(n, 2) for n in mine.flatten().tolist()]
            if mine.shape != value.shape:
                found = found[0] if len(found) == 1 else mine.int().tolist() or "0 heads"
                return f"Your answer is {found}; two numbers are expected, the layer and the head."
            right = tuple(int(n) for n in value)
            return f"Your answer is {tuple(found)}, the right one is {right} (counted from 0)."
        if mine.shape != value.shape:
            return f"The shape of your {name} is {tuple(mine.shape)}; {tuple(value.shape)} is expected."
        place, found, right = first_difference(mine, value)
        if value.dtype == torch.bool:
            return f"At {place} your {name} is {found}; expected is {right}."
        broken = mine.isnan().sum().item()
        nan = f" {broken} of your {mine.numel()} numbers are nan." if broken > value.isnan().sum() else ""
        at = f"The number at {place} of your {name}" if place else f"Your {name}"
        return f"{at} is {found}; expected is {right}.{nan}{row_sums(answer)}"
    return "Your answer differs."


def row_sums(answer):
    """Return a sentence about the first row of weights that does not sum to 1, or nothing."""
    weights = answer.get("weights", answer.get("table of weights"))
    if weights is None or weights.dim() == 0 or not weights.isfinite().all():
        return ""
    sums = weights.sum(dim=-1).flatten()
    wrong = sums[(sums - 1).abs() > 0.01]
    return f" A row of your weights sums to {wrong[0]:.2f}." if len(wrong) else ""


def first_difference(mine, value):
    """Return the first place where two tensors differ by half of the most, and what stands there, in words."""
    truth = {"1": "True", "0": "False"} if value.dtype == torch.bool else {}
    mine, value = mine.to(torch.float64), value.to(torch.float64)
    apart = (mine - value).abs().nan_to_num(math.inf, math.inf)
    apart = apart.masked_fill((mine == value) | (mine.isnan() & value.isnan()), 0)
    largest = apart.max()
    place = tuple((apart >= (largest if largest == math.inf else largest / 2)).nonzero()[0].tolist())
    texts = [in_words(numbers[place].item(), 2) for numbers in (mine, value)]
    if texts[0] == texts[1]:
        texts = [in_words(numbers[place].item(), 3) for numbers in (mine, value)]
    if texts[0] == texts[1]:
        texts[1] += f" and a little {'more' if value[place] > mine[place] else 'less'}"
    return list(place), *(truth.get(text, text) for text in texts)


def in_words(number, decimals):
    """Return a number with few decimals, a whole one without, and a very large one as a power of ten."""
    if 1e12 < abs(number) < math.inf:
        return f"{number:.1e}"
    if abs(number) < math.inf and abs(number - round(number)) < 1e-5:
        return str(round(number))
    return f"{number:.{decimals}f}"
