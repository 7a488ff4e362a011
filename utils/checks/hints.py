"""What a check says of a mistake without a name: the input, what is right so far, and what to look at."""

import inspect
import re
from contextlib import suppress

import torch

from .answers import LAYER_HEAD, agrees, close
from .symptoms import of_answer


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


def tried_with(attempt, inputs):
    """Return a sentence with the inputs that are short, by the names that the learner gave them, or nothing."""
    names, function = [], attempt.forward if isinstance(attempt, type) else attempt
    with suppress(Exception):  # no signature
        named = inspect.signature(function).parameters.values()
        names = [f"{one.name} = " for one in named if one.name != "self" and one.kind < one.VAR_POSITIONAL]
    names = names if len(names) >= len(inputs) else [""] * len(inputs)
    told = [(name, value, in_short(value)) for name, value in zip(names, inputs, strict=False)]
    if any(isinstance(value, torch.Tensor) and not text for _, value, text in told):
        told = [one for one in told if not isinstance(one[1], torch.Tensor)]  # one tensor of many says little
    said = ", ".join(name + text for name, _, text in told if text)
    return f"Tried with {said}. " if 0 < len(said) < 120 else ""


def right_so_far(told, trials):
    """Return what is right so far and what to look at; and the name of a symptom of all wrong answers, or None."""
    right, wrong = [one for one in told if not one.seen], [one for one in told if one.seen]
    plain = [inputs for inputs in trials if len(inputs) < max(map(len, trials))]  # no mask was given
    facts, clue, name = [], "", None
    if plain and len(plain) == sum(len(one.inputs) == len(plain[0]) for one in right):
        facts, clue = ["every answer without a mask"], "Look at the lines that use the mask."
        name = "wrong_with_a_mask"
    elif right:
        facts = [f"the answer to {len(right)} of {len(trials)} inputs"]
    if wrong and all(one.answer for one in wrong):
        found = [near(one.answer, one.expected) for one in wrong]
        more, other, _ = found[0]
        facts, clue = facts + more, clue or other
        name = name or shared(found)
        name = None if right and name == "one_number_everywhere" else name
    return " ".join(filter(None, [f"Right so far: {', '.join(facts)}." if facts else "", clue])), name


def shared(found):
    """Return the name of the symptom that several wrong answers share, or None; a factor has to be the same one."""
    names = {symptom for *_, symptom in found}
    if len(names) > 1:  # where there is but one sentence or head, one part of it lacks no number
        names -= {"axis_of_length_one"}
    clues = {clue for _, clue, _ in found}
    return None if len(names) > 1 or (names == {"all_scaled"} and len(clues) > 1) else names.pop()


def near(answer, expected):
    """Return what is right in one wrong answer, a list of words; a sentence on what to look at; a symptom's name."""
    facts, found = [], None
    for name, value in expected.items():
        mine = answer.get(name)
        if mine is None or type(mine) is not type(value):
            continue
        if agrees({name: mine}, {name: value}):
            facts += [f"the {name}"] if isinstance(value, torch.Tensor) and mine.shape == value.shape else []
        elif found is None:
            found = alike(mine, value, name)
    more, clue, symptom = found or ([], "", None)
    if not clue and not symptom and facts == ["the weights"]:
        clue, symptom = (
            "Look at what the weights are applied to, and at what follows.",
            "weights_right_output_wrong",
        )
    return facts + more, clue, symptom


def alike(mine, value, name):
    """Return in what a wrong answer is like the right one, as `near` does."""
    if not isinstance(value, torch.Tensor):
        return [], *reversed(of_answer(mine, value))
    if name == LAYER_HEAD and mine.shape == value.shape:
        same = close(mine, value).tolist()
        return [part for part, right in zip(("the layer", "the head"), same, strict=True) if right], "", None
    symptom, clue = of_answer(mine, value)
    if symptom in ("axes_turned", "other_axes"):
        return ["the numbers" + ", in their order" * (symptom == "other_axes")], clue, symptom
    if mine.shape != value.shape:
        return [], clue, symptom
    same, truth = close(mine, value), value.dtype == torch.bool
    facts = [f"the shape of your {name}"] if value.dim() else []
    if value.dim() and not truth and sums_to_one(value) and sums_to_one(mine):
        facts.append("each row sums to 1")
        if not symptom and "weights" in name:
            clue, symptom = clue or "Look at the scores, before they become weights.", "wrong_scores"
    if not symptom and same.to(torch.float64).mean() >= 0.5:
        facts.append(f"{int(same.sum())} of {same.numel()} {'places' if truth else 'numbers'}")
    return facts, clue, symptom


def sums_to_one(rows):
    """Say whether rows are shares of one whole."""
    return bool(((rows.sum(dim=-1) - 1).abs() < 1e-4).all()) and bool((rows >= 0).all())
