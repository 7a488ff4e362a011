"""The engine of the checks: it runs an attempt, compares what comes back, and says what was seen.

`judge` runs a learner's code on a few inputs (`run_attempt`), reads what it returns, and compares it with the right
answer and with what each known misconception would give. What it says is a `Verdict`. The words of the misconceptions
stand in misconceptions.toml.
"""

import copy
import functools
import html
import importlib
import inspect
import json
import sys
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from .answers import Unreadable, agrees, kind_of, output_and_weights, what_differs
from .hints import in_short, right_so_far
from .running import COURSE, is_stub, run_attempt, steady, untouched, why_not_run
from .symptoms import of_error

# exercise -> its home and, for each misconception, what the learner did, why it matters and where to read.
WORDS = tomllib.loads((Path(__file__).parent / "misconceptions.toml").read_text(encoding="utf-8"))
NOT_ATTEMPTED = "not attempted yet"
IN_FLOAT64 = "Right in float32. The same inputs came again in float64, as numbers of 64 bits. "
# Colours for a light and a dark page alike (Okabe and Ito 2008); a sign and a word say the same.
LOOK = {"passed": ("✓", "#009E73"), "not yet": ("✗", "#D55E00"), NOT_ATTEMPTED: ("○", "#808080")}


# ------------------------------------------------------------------------------------------------ the verdict


@dataclass(frozen=True)
class Verdict:
    """What a check says: `passed`, the identifier of the `misconception` (or None), and a `message`.

    `look` is where to look, a notebook's number and a heading in it (or None).
    """

    exercise: str
    passed: bool
    misconception: str | None
    message: str
    look: tuple | None = None

    def _head(self):
        """Return sign, words and colour of the first line."""
        state = "passed" if self.passed else NOT_ATTEMPTED if self.message == NOT_ATTEMPTED else "not yet"
        words = f"{self.exercise}: {state}" + (f" ({self.misconception})" if self.misconception else "")
        return LOOK[state][0], words, LOOK[state][1]

    def _place(self):
        """Return in words where to look."""
        return f"notebook {self.look[0]}, section “{self.look[1]}”"

    def __repr__(self):
        sign, words, _ = self._head()
        told = [] if self.message == NOT_ATTEMPTED else [self.message]
        told += [f"Where to look: {self._place()}."] if self.look else []
        return "\n".join([f"{sign} {words}", *told])

    def _repr_html_(self):
        sign, words, colour = self._head()
        told = [] if self.message == NOT_ATTEMPTED else html.escape(self.message).split("\n")
        if self.look:
            place, address = html.escape(self._place()), address_of(*self.look)
            link = f'<a href="{html.escape(address)}">{place}</a>' if address else place
            told.append(f"Where to look: {link}.")
        return boxed(colour, "<br>".join([f"<b>{sign} {html.escape(words)}</b>", *told]))


def boxed(colour, words):
    """Return a line or more of HTML in a box of this colour."""
    style = f"border-left: 6px solid {colour}; background: {colour}22; padding: 8px 12px; max-width: 50em"
    return f'<div style="{style}">{words}</div>'


@functools.cache
def address_of(number, heading):
    """Return the address of the cell with this heading in the notebook with this number, or None.

    JupyterLab opens a notebook beside this one at a cell. Colab does not know the notebooks beside this one: there
    the address is that of the published course, if there is one.
    """
    for path in (COURSE / "notebooks").glob(f"{number}_*.ipynb"):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            lines = "".join(cell["source"]).splitlines() if cell["cell_type"] == "markdown" else []
            if not any(line.startswith("#") and line.lstrip("#") == f" {heading}" for line in lines):
                continue
            if "google.colab" not in sys.modules:
                return f"{path.name}#cell-id={cell['id']}"
            settings = tomllib.loads((COURSE / "pyproject.toml").read_text(encoding="utf-8"))
            owner = settings["tool"]["course"]["repository"]
            if not owner.startswith("-"):  # as the placeholder does
                colab = f"https://colab.research.google.com/github/{owner}/blob/main/notebooks"
                return f"{colab}/{path.name}#scrollTo={cell['id']}"
    return None


def refused(exercise, seen, name=None, hint=""):
    """Return the `Verdict` of a wrong attempt: what was seen, what misconception it is and why, where to look.

    A name without words in misconceptions.toml is left out: the learner still hears what was seen. Without a name,
    or with that of a symptom, the `hint` says what is right so far.
    """
    own = WORDS.get(exercise, {})
    told = WORDS.get("shared", {}).get(name, {}) | own.get(name, {})
    if name in WORDS.get("symptoms", {}):  # the hint says more than its words
        told = {"did": "", "why": ""} | WORDS["symptoms"][name] | told
    elif not {"did", "why"} <= told.keys():
        name, told = None, {}
    else:
        hint = ""
    said = "\n".join(filter(None, [" ".join(filter(None, [told.get("did"), told.get("why")])), hint]))
    home = own.get("home")
    look = told.get("look", home)
    if home and look[0] > home[0]:  # words that several exercises share: no pointer to a later notebook
        look = None
    return Verdict(exercise, False, name, "\n".join(filter(None, [seen, said])), look and tuple(look))


class NotAttempted(Exception):
    """The attempt raises NotImplementedError: it is still a stub."""


def safely(check):
    """Make a check that never raises, and whose numbers are the same whatever dtype and seed the notebook has set."""
    exercise = check.__name__.removeprefix("check_")

    @functools.wraps(check)
    def checked(attempt):
        try:
            with steady():
                if untouched(attempt):
                    raise NotAttempted
                verdict = check(attempt)
                PASSED.update([exercise] * verdict.passed)
                return verdict
        except NotAttempted:
            return Verdict(exercise, False, None, NOT_ATTEMPTED)
        except Unreadable as unreadable:
            return refused(exercise, str(unreadable), unreadable.name)
        except Exception as error:  # whatever was handed in: no traceback of the course
            return refused(exercise, f"Your code cannot be checked: {type(error).__name__}.")

    return checked


PASSED = set()  # the exercises that have passed since the kernel started; stored nowhere else


@dataclass(frozen=True)
class Progress:
    """How many exercises of a notebook have `passed` since the kernel started, and which are `open`."""

    passed: tuple
    open: tuple

    def __repr__(self):
        line = (
            f"{len(self.passed)} of {len(self.passed + self.open)} exercises passed since the kernel started."
        )
        return f"{line} Open: {', '.join(self.open)}." if self.open else line

    def _repr_html_(self):
        return boxed(LOOK[NOT_ATTEMPTED if self.open else "passed"][1], repr(self))


def progress(number):
    """Return the `Progress` in the notebook with this number, such as "02" or 2; a ValueError if there is none."""
    name = f"notebook_{number:0>2}"
    if not (Path(__file__).parent / f"{name}.py").exists():
        raise ValueError(f"There are no exercises of a notebook {number}. Give its number, such as 02.")
    checks = vars(importlib.import_module(f".{name}", __package__))
    names = [name.removeprefix("check_") for name in checks if name.startswith("check_")]
    return Progress(
        tuple(name for name in names if name in PASSED), tuple(name for name in names if name not in PASSED)
    )


# ------------------------------------------------------------------------------------------------ the judgement


def judge(
    exercise,
    attempt,
    trials,
    right,
    mistakes,
    read=output_and_weights,
    signs=None,
    call=None,
    shown=lambda *inputs: inputs,
    by_chance=False,
):
    """Run the attempt on the trials, a list of tuples of inputs, and return a `Verdict`.

    `right(*inputs)` gives the answer, `mistakes` maps an identifier to functions of the same inputs that give what
    this misconception would. `signs` are misconceptions that no formula can foresee: an identifier to a function of
    (inputs, answer) that says whether the answer shows it. `read` turns what came back into an answer (or raises
    `Unreadable`). `call` is what is run, if it is not the attempt itself, and `shown(*inputs)` are then the inputs
    that the learner's own code gets. An answer that
    differs from call to call has a name, if it is not made `by_chance` on purpose.
    """
    if not callable(attempt):
        return refused(exercise, f"A function or a class is checked, but this is {kind_of(attempt)}.")
    ran = run_attempt(call or attempt, trials)
    if is_stub(ran.error):
        raise NotAttempted
    told = [compared(inputs, result, right, read) for inputs, result in ran.results]
    wrong = [one for one in told if one.seen]
    name, one = fitting(told, mistakes, signs or {}) if wrong else (None, None)
    if name:
        return refused(exercise, tried(attempt, shown(*one.inputs)) + one.seen, name)
    if ran.changed:
        return refused(exercise, f"After your code ran, {ran.changed}", "changes_its_input")
    if wrong or ran.timed_out or ran.error is not None:
        hint, symptom = right_so_far(told, trials)
        name = next((one.name for one in wrong if one.name), symptom if wrong else None)
        seen, inputs = (wrong[0].seen, wrong[0].inputs) if wrong else (why_not_run(ran), ran.failed)
        if wrong and not name and not by_chance and answers_differ(call or attempt, inputs, read):
            name = "differs_from_call_to_call"
        if not name and (name := of_error(ran.error)):
            seen, inputs = why_not_run(ran), ran.failed
        elif not wrong:
            name = symptom
        return refused(exercise, tried(attempt, inputs and shown(*inputs)) + seen, name, hint)
    if found := wrong_in_float64(call or attempt, told, read):
        return refused(exercise, *found)
    return Verdict(exercise, True, None, f"Your answer was right on all {len(trials)} test inputs.")


def wrong_in_float64(function, told, read):
    """Return a sentence and a name if what was right on all inputs is not right on the same ones in float64.

    float64 is the default then, as in notebook 05. An answer in float32 is right too, if its numbers are.
    """
    pairs = [(one, in_float64(one.inputs)) for one in told]
    pairs = [(one, inputs) for one, inputs in pairs if inputs is not one.inputs]
    ran = run_attempt(function, [inputs for _, inputs in pairs], torch.float64)
    if ran.timed_out:
        return IN_FLOAT64 + why_not_run(ran), None
    if ran.error:
        return IN_FLOAT64 + why_not_run(ran), of_error(ran.error) or "right_in_float32_only"
    if ran.changed:
        return f"{IN_FLOAT64}After your code ran, {ran.changed}", "changes_its_input"
    for (one, _), (_, result) in zip(pairs, ran.results, strict=True):
        if seen := compared(one.inputs, result, lambda *_, one=one: one.expected, read).seen:
            return IN_FLOAT64 + seen, "right_in_float32_only"
    return None


def in_float64(value):
    """Return tensors and modules of float32 in float64, also those in a tuple; all else as it is."""
    if isinstance(value, tuple):
        parts = tuple(map(in_float64, value))
        return value if all(a is b for a, b in zip(value, parts, strict=True)) else parts
    if isinstance(value, torch.nn.Module):
        return copy.deepcopy(value).double()
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def answers_differ(function, inputs, read):
    """Say whether the same inputs get different answers."""
    with suppress(Exception):  # it cannot be read
        first, *others = [read(result) for _, result in run_attempt(function, [inputs] * 3).results]
        return not all(agrees(other, first) for other in others)
    return False


class Compared(NamedTuple):
    """One trial: its inputs, what is wrong with the result (or None), and if it could be read, what was compared."""

    inputs: tuple
    seen: str | None
    answer: dict | None = None
    expected: dict | None = None
    name: str | None = None  # of what cannot be read


def compared(inputs, result, right, read):
    """Return the result of one trial as a `Compared`."""
    try:
        answer, expected = read(result), right(*inputs)
        seen = None if agrees(answer, expected) else what_differs(answer, expected)
        return Compared(inputs, seen, answer, expected)
    except Unreadable as unreadable:
        return Compared(inputs, str(unreadable), name=unreadable.name)
    except Exception as error:  # whatever came back: no traceback of the course
        return Compared(
            inputs, f"Your result is {kind_of(result)} and cannot be read: {type(error).__name__}."
        )


def fitting(told, mistakes, signs):
    """Return the misconception that the answers show, and the first `Compared` that shows it; or None twice.

    It is the first with a formula that explains every answer, or whose formulas do together; else that of a sign.
    """
    read = [one for one in told if one.answer is not None]
    wrong = [one for one in read if one.seen]
    for one in wrong:
        if {"output", "weights"} <= one.answer.keys() and agrees(exchanged(one.answer), one.expected):
            return "weights_first", one
    fits = {}
    for name, likes in mistakes.items() if wrong else ():
        fits[name] = fits_of(read, likes)
        if any(explains(read, fit) for fit in fits[name]):
            return name, wrong[0]
    for name, each in fits.items():  # or each answer by another formula of this name
        if each and explains(read, [either(of_one) for of_one in zip(*each, strict=True)]):
            return name, wrong[0]
    for one in wrong:
        for name, shows in signs.items():
            if is_seen(shows, one):
                return name, one
    return None, None


def fits_of(read, likes):
    """Return for each formula of a misconception which answers it would give; nothing if it cannot be this one."""
    said = {}
    for place in sorted(range(len(read)), key=lambda place: not read[place].seen):
        said[place] = [would_give(read[place], like) for like in likes]
        if read[place].seen and not {True, None} & {*said[place]}:
            return []
    return list(zip(*(said[place] for place in range(len(read))), strict=True))


def either(fits):
    """Return whether one of several formulas gives an answer; None if none says anything."""
    return True if True in fits else False if False in fits else None


def is_seen(shows, one):
    """Say whether an answer shows what this sign looks for."""
    with suppress(Exception):  # this answer is not what the sign looks at
        return bool(shows(one.inputs, one.answer))
    return False


def explains(read, fit):
    """Say whether a formula gives the wrong answers, and contradicts none, nor one that is right."""
    return False not in fit and any(one.seen and one_fit for one, one_fit in zip(read, fit, strict=True))


def would_give(one, like):
    """Say whether a formula gives the answer of a `Compared`; None if it says nothing there."""
    with suppress(Exception):  # this misconception cannot happen on these inputs
        foreseen = like(*one.inputs)
        if agrees(one.answer, foreseen):
            return True
        return None if one.seen and agrees(one.answer, foreseen | overflown(foreseen, one)) else False
    return None


def overflown(foreseen, one):
    """Return what is foreseen, with nan or infinity where the answer has them: nothing else can be seen there."""
    return {
        name: torch.where(mine.isfinite(), foreseen[name].to(mine), mine)
        for name, mine in one.answer.items()
        if isinstance(mine, torch.Tensor)
        and not mine.isfinite().all()
        and name in foreseen.keys() & one.expected.keys()
        and foreseen[name].shape == mine.shape
        and one.expected[name].dtype != torch.bool
    }


def exchanged(answer):
    """Return an answer with output and weights in each other's place."""
    return answer | {"output": answer["weights"], "weights": answer["output"]}


def tried(attempt, inputs):
    """Return a sentence with the inputs that are short, by the names that the learner gave them, or nothing."""
    names = [""] * len(inputs or ())
    with suppress(Exception):  # no signature
        function = attempt.forward if isinstance(attempt, type) else attempt
        named = [part for part in inspect.signature(function).parameters.values() if part.name != "self"]
        named = [part.name for part in named if part.kind < part.VAR_POSITIONAL]
        names = [f"{name} = " for name in named[: len(names)]] if len(named) >= len(names) else names
    told = [
        (name + text, value)
        for name, value in zip(names, inputs or (), strict=True)
        if (text := in_short(value))
    ]
    tensors = [value for value in inputs or () if isinstance(value, torch.Tensor)]
    if any(not in_short(value) for value in tensors):  # one tensor of many says little
        told = [(text, value) for text, value in told if not isinstance(value, torch.Tensor)]
    told = [text for text, _ in told]
    return f"Tried with {', '.join(told)}. " if told and len(", ".join(told)) < 120 else ""
