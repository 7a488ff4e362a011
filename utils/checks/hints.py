"""What a check says of a mistake without a name: the input, what is right so far, and what to look at."""

import re
from itertools import combinations

import torch

from .answers import LAYER_HEAD, agrees, close


def in_short(value):
    """Return an input in a few letters if it is a number, a text, or a short list or tensor; else nothing."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            rounded = value.to(torch.float64).round(decimals=2)
            value = rounded if close(value, rounded).all() else value
        value = value.tolist() if value.numel() <= 16 else None
    if not isinstance(value, bool | int | float | str | list):
        return ""
    text = repr(value) if isinstance(value, str) else re.sub(r"(\d)\.0\b", r"\1", repr(value))
    return "" if len(text) > 60 or re.search(r"\d\.\d{3}|tensor\(| at 0x", text) else text


def right_so_far(told, trials):
    """Return what is right in an attempt whose mistake has no name, and what to look at, in a sentence or two.

    `told` holds what the engine saw of each trial that ended without an error: the `inputs`, and of a wrong answer
    also what was `seen`, the `answer` and the `expected`.
    """
    right, wrong = [one for one in told if not one.seen], [one for one in told if one.seen]
    plain = [inputs for inputs in trials if len(inputs) < max(map(len, trials))]  # no mask was given
    facts, clue = [], ""
    if plain and len(plain) == sum(len(one.inputs) == len(plain[0]) for one in right):
        facts, clue = ["every answer without a mask"], "Look at the lines that use the mask."
    elif right:
        facts = [f"the answer to {len(right)} of {len(trials)} inputs"]
    if wrong and wrong[0].answer:
        more, other = near(wrong[0].answer, wrong[0].expected)
        facts, clue = facts + more, clue or other
    return " ".join(filter(None, [f"Right so far: {', '.join(facts)}." if facts else "", clue]))


def near(answer, expected):
    """Return what is right in one wrong answer, a list of words, and a sentence on what to look at, or nothing."""
    facts, found = [], None
    for name, value in expected.items():
        mine = answer.get(name)
        if not isinstance(mine, torch.Tensor) or not isinstance(value, torch.Tensor):
            continue
        if mine.shape == value.shape and agrees({name: mine}, {name: value}):
            facts.append(f"the {name}")
        elif found is None:
            found = alike(mine, value, name)
    more, clue = found or ([], "")
    if not clue and facts == ["the weights"]:
        clue = "Look at what the weights are applied to."
    return facts + more, clue


def alike(mine, value, name):
    """Return in what a wrong tensor is like the right one, as `near` does."""
    if name == LAYER_HEAD and mine.shape == value.shape:
        same = close(mine, value).tolist()
        return [part for part, right in zip(("the layer", "the head"), same, strict=True) if right], ""
    for one, other in combinations(range(mine.dim()), 2):
        exchanged = mine.transpose(one, other)
        if exchanged.shape == value.shape and close(exchanged, value).all():
            return ["the numbers"], f"It would be right with its axes {one} and {other} exchanged."
    if mine.shape != value.shape:
        if mine.numel() == value.numel() and close(mine.flatten(), value.flatten()).all():
            return ["the numbers, in their order"], "Only the axes differ."
        return [], ""
    same, truth = close(mine, value), value.dtype == torch.bool
    facts = [f"the shape of your {name}"] if value.dim() else []
    clue = ("" if truth else changed_alike(mine, value.to(torch.float64))) or only_some(same)
    if value.dim() and not truth and sums_to_one(value) and sums_to_one(mine):
        facts.append("each row sums to 1")
        clue = clue or "Look at the scores, before they become weights."
    if not clue and same.to(torch.float64).mean() >= 0.5:
        facts.append(f"{int(same.sum())} of {same.numel()} {'places' if truth else 'numbers'}")
    return facts, clue


def sums_to_one(rows):
    """Say whether rows are shares of one whole."""
    return bool(((rows.sum(dim=-1) - 1).abs() < 1e-4).all()) and bool((rows >= 0).all())


def changed_alike(mine, value):
    """Return a sentence if all numbers differ from the right ones in the same way, or nothing."""
    if value.numel() < 3 or not mine.isfinite().all() or not value.isfinite().all() or not value.any():
        return ""
    factor = (mine * value).sum() / value.square().sum()
    if factor.abs() > 0.005 and close(mine, factor * value).all():
        if (factor + 1).abs() < 1e-4:
            return "Only the sign is wrong."
        return f"Each number is {factor:.2f} times the right one: look at what you multiply or divide by."
    added = (mine - value).mean()
    if added.abs() > 0.005 and close(mine, value + added).all():
        return (
            f"Each number is {added.abs():.2f} too {'large' if added > 0 else 'small'}: look at what you add."
        )
    if value.dim() > 1 and value.shape[-1] > 2 and value.any(dim=-1).all():
        factors = (mine * value).sum(dim=-1, keepdim=True) / value.square().sum(dim=-1, keepdim=True)
        if (factors.abs() > 0.005).all() and close(mine, factors * value).all():
            return "Each row is the right one times a number of its own: look at what a row is divided by."
    if close(mine.flatten().sort().values, value.flatten().sort().values).all():
        return "The numbers are the right ones, in another order: look at the axes."
    return ""


def only_some(same):
    """Return a sentence if whole rows, columns or sentences are right and the others are not, or nothing."""
    for axis, word in ((-2, "row"), (-1, "column"), (0, "sentence")):
        if same.dim() < (3 if axis == 0 else 2):
            continue
        right = same.transpose(axis, 0).flatten(1).all(dim=1)
        if right.any() and not right.all():
            if right.sum() == 1:
                return f"Only {word} {int(right.nonzero()[0])} is right, counted from 0."
            wrong = (~right).nonzero().flatten().tolist()
            if len(wrong) == 1:
                return f"Only {word} {wrong[0]} is wrong, counted from 0."
            return f"Wrong are the {word}s {', '.join(map(str, wrong))}, counted from 0."
    return ""
