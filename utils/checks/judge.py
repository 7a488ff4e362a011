"""The engine of the checks: it runs an attempt, compares what comes back, and says what was seen.

`judge` runs a learner's code on a few inputs (`run_attempt`), reads what it returns, and compares it with the right
answer and with what each known misconception would give. What it says is a `Verdict`. The words of the misconceptions
stand in misconceptions.toml.
"""

import contextvars
import ctypes
import dis
import functools
import html
import importlib
import inspect
import json
import linecache
import random
import re
import sys
import threading
import tomllib
import traceback
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from .answers import Unreadable, agrees, first_difference, kind_of, output_and_weights, what_differs
from .hints import in_short, right_so_far

# exercise -> its home and, for each misconception, what the learner did, why it matters and where to read.
WORDS = tomllib.loads((Path(__file__).parent / "misconceptions.toml").read_text(encoding="utf-8"))
COURSE = Path(__file__).parents[2]

LIMIT = 10.0  # seconds that an attempt may take
NOT_ATTEMPTED = "not attempted yet"
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

    A name without words in misconceptions.toml is left out: the learner still hears what was seen. Without a name
    the `hint` says what is right so far.
    """
    own = WORDS.get(exercise, {})
    told = WORDS.get("shared", {}).get(name, {}) | own.get(name, {})
    if not {"did", "why"} <= told.keys():
        name, told = None, {}
    said = f"{told['did']} {told['why']}" if told else hint
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
            return refused(exercise, str(unreadable))
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
    """Return the `Progress` in the notebook with this number, such as "02"."""
    checks = vars(importlib.import_module(f".notebook_{number}", __package__))
    names = [name.removeprefix("check_") for name in checks if name.startswith("check_")]
    return Progress(
        tuple(name for name in names if name in PASSED), tuple(name for name in names if name not in PASSED)
    )


# ------------------------------------------------------------------------------------------------ the judgement


def judge(exercise, attempt, trials, right, mistakes, read=output_and_weights, signs=None, call=None):
    """Run the attempt on the trials, a list of tuples of inputs, and return a `Verdict`.

    `right(*inputs)` gives the answer, `mistakes` maps an identifier to functions of the same inputs that give what
    this misconception would. `signs` are misconceptions that no formula can foresee: an identifier to a function of
    (inputs, answer) that says whether the answer shows it. `read` turns what came back into an answer (or raises
    `Unreadable`). `call` is what is run, if it is not the attempt itself.
    """
    if not callable(attempt):
        return refused(exercise, f"A function or a class is checked, but this is {kind_of(attempt)}.")
    ran = run_attempt(call or attempt, trials)
    if isinstance(ran.error, NotImplementedError):
        raise NotAttempted
    told = [compared(inputs, result, right, read) for inputs, result in ran.results]
    wrong = [one for one in told if one.seen]
    name, shown = fitting(told, mistakes, signs or {}) if wrong else (None, None)
    if name:
        return refused(exercise, tried(attempt, shown.inputs) + shown.seen, name)
    if ran.changed:
        return refused(exercise, f"After your code ran, {ran.changed}", "changes_its_input")
    if wrong or ran.timed_out or ran.error is not None:
        seen, inputs = (wrong[0].seen, wrong[0].inputs) if wrong else (why_not_run(ran), ran.failed)
        return refused(exercise, tried(attempt, inputs) + seen, None, right_so_far(told, trials))
    return Verdict(exercise, True, None, f"Your answer was right on all {len(trials)} test inputs.")


class Compared(NamedTuple):
    """One trial: its inputs, what is wrong with the result (or None), and if it could be read, what was compared."""

    inputs: tuple
    seen: str | None
    answer: dict | None = None
    expected: dict | None = None


def compared(inputs, result, right, read):
    """Return the result of one trial as a `Compared`."""
    try:
        answer, expected = read(result), right(*inputs)
        seen = None if agrees(answer, expected) else what_differs(answer, expected)
        return Compared(inputs, seen, answer, expected)
    except Unreadable as unreadable:
        return Compared(inputs, str(unreadable))
    except Exception as error:  # whatever came back: no traceback of the course
        return Compared(
            inputs, f"Your result is {kind_of(result)} and cannot be read: {type(error).__name__}."
        )


def fitting(told, mistakes, signs):
    """Return the misconception that the answers show, and the first `Compared` that shows it; or None twice.

    One that explains every answer comes first; then one that fits a wrong answer and is not contradicted by a right
    one, where it would give another; then any that fits.
    """
    read = [one for one in told if one.answer is not None]
    for one in read:
        if (
            one.seen
            and {"output", "weights"} <= one.answer.keys()
            and agrees(exchanged(one.answer), one.expected)
        ):
            return "weights_first", one
    fits, contradicted = {}, set()
    for name, likes in mistakes.items():
        fits[name] = [would_give(one, likes) for one in read]
        pairs = list(zip(read, fits[name], strict=True))
        if any(one.seen for one in read) and all(fit if one.seen else fit is not False for one, fit in pairs):
            return name, next(one for one in read if one.seen)
        if any(fit is False and not one.seen for one, fit in pairs):
            contradicted.add(name)
    for left_out in (contradicted, set()):
        for place, one in enumerate(read):
            for name, all_of in fits.items():
                if one.seen and all_of[place] and name not in left_out:
                    return name, one
            for name, shows in signs.items():
                with suppress(Exception):  # this answer is not what the sign looks at
                    if one.seen and shows(one.inputs, one.answer):
                        return name, one
    return None, None


def would_give(one, likes):
    """Say whether one of these formulas gives the answer of a `Compared`; None if none can be computed there."""
    fits = None
    for like in likes:
        with suppress(Exception):  # this misconception cannot happen on these inputs
            fits = agrees(one.answer, like(*one.inputs))
            if fits:
                break
    return fits


def exchanged(answer):
    """Return an answer with output and weights in each other's place."""
    return answer | {"output": answer["weights"], "weights": answer["output"]}


def tried(attempt, inputs):
    """Return a sentence with the inputs that are short, by the names that the learner gave them, or nothing."""
    names = [""] * len(inputs or ())
    with suppress(Exception):  # no signature
        function = attempt.forward if isinstance(attempt, type) else attempt
        named = [part.name for part in inspect.signature(function).parameters.values() if part.name != "self"]
        names = [f"{name} = " for name in named[: len(names)]] if len(named) >= len(names) else names
    told = [name + text for name, value in zip(names, inputs or (), strict=True) if (text := in_short(value))]
    return f"Tried with {', '.join(told)}. " if told and len(", ".join(told)) < 120 else ""


# ------------------------------------------------------------------------------------------- running an attempt


class Stopped(BaseException):
    """Thrown into the thread of an attempt that takes too long."""


class Ran(NamedTuple):
    """What running an attempt gave: (inputs, result) of each trial that ended well, and what went wrong."""

    results: list
    error: BaseException | None
    timed_out: bool
    changed: str | None
    failed: tuple | None  # the inputs of the error


@contextmanager
def steady():
    """In this `with` block random numbers and the default dtype are the same each time; then all is as before."""
    dtype, python, numpy = torch.get_default_dtype(), random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            random.setstate(python)
            np.random.set_state(numpy)


def run_attempt(function, trials):
    """Call the function on each trial, in a thread that is stopped after LIMIT seconds. Return a `Ran`.

    A thread works on every system, in a notebook, and beside other threads; no signal handler is touched. What
    cannot be stopped from outside (a long call into C) is left behind and ends with the process.
    """
    results, errors, changed = [], [], []

    def one(inputs):
        given = [copied(value) for value in inputs]
        try:
            results.append((inputs, kept(function(*given))))
        except Stopped:
            raise
        except BaseException as error:  # the other trials may still show what is wrong
            errors.append((error, inputs))
        changed.extend(filter(None, map(what_changed, given, inputs)))

    def work():
        with suppress(Stopped):
            for inputs in trials:
                one(inputs)

    with steady():
        # In a copy of this context, so that what the attempt prints lands under the cell that asked.
        thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True)
        thread.start()
        try:
            thread.join(LIMIT)
        finally:
            timed_out = thread.is_alive()
            stop_thread(thread)
    error, failed = errors[0] if errors and not timed_out else (None, None)
    return Ran(list(results), error, timed_out, changed[0] if changed else None, failed)


def stop_thread(thread):
    """Throw `Stopped` into a thread that still runs: many times, as an `except` around all may swallow it.

    A loop that swallows every one goes on until the process ends. The verdict does not wait for it.
    """
    for _ in range(50):
        if not thread.is_alive():
            return
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Stopped))
        thread.join(0.02)


def copied(value):
    """Return a copy of an input that the attempt may spoil. Modules and functions are given as they are."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, list | tuple):
        return type(value)(copied(part) for part in value)
    return set(value) if isinstance(value, set) else value


def kept(value):
    """Return a result as it is now, with every tensor copied: a later call may write into it."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if type(value) in (list, tuple):
        return type(value)(kept(part) for part in value)
    return value


def what_changed(now, before):
    """Return a sentence if an input is not what it was, else None."""
    if isinstance(before, torch.Tensor):
        if now.shape != before.shape or now.dtype != before.dtype:
            return f"an input of the shape {tuple(before.shape)} has now the shape {tuple(now.shape)}."
        if not torch.equal(now, before):
            place, after, old = first_difference(now, before)
            return f"an input was {old} at {place} and is now {after}."
    elif isinstance(before, list | tuple):
        if len(now) != len(before):
            return f"an input had {len(before)} entries and has now {len(now)}."
        return next((seen for seen in map(what_changed, now, before) if seen), None)
    elif isinstance(before, set) and now != before:
        return "an input is not what it was."
    return None


# What is left of a stub in the compiled code. `pass`, `...` and a docstring leave nothing.
STUB_STEPS = {"RESUME", "NOP", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE"}
RAISE_STEPS = STUB_STEPS | {"LOAD_GLOBAL", "PUSH_NULL", "PRECALL", "CALL", "RAISE_VARARGS"}


def untouched(attempt):
    """Say whether an attempt is still the stub: it returns None or `...`, or raises NotImplementedError, no more."""
    if attempt is None or attempt is ...:
        return True
    function = getattr(attempt, "forward", attempt) if isinstance(attempt, type) else attempt
    if function is nn.Module.forward:
        return True
    if not hasattr(function, "__code__"):
        return False
    steps = list(dis.get_instructions(function))
    if function.__code__.co_names == ("NotImplementedError",):
        return all(step.opname in RAISE_STEPS for step in steps)
    returned = [step.argval for step in steps if step.opname in ("LOAD_CONST", "RETURN_CONST")]
    bare = all(step.opname in STUB_STEPS for step in steps)
    return bare and all(value in (None, ...) for value in returned)


def why_not_run(ran):
    """Return a sentence about an attempt that took too long or raised an error."""
    if ran.timed_out:
        return f"Your code was still running after {LIMIT:g} seconds and was stopped. Does one of its loops never end?"
    error = ran.error
    said = re.sub(r" at 0x[0-9a-fA-F]+", "", " ".join(str(error).split()))[:300]
    message = f"Your code raised {type(error).__name__}" + (f": {said}" if said else ".")
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not of_a_library(Path(frame.filename)):
            line = linecache.getline(frame.filename, frame.lineno or 0).strip()
            return f"{message}\nIt happened in line {frame.lineno} of your cell" + (
                f": {line}" if line else "."
            )
    return message


def of_a_library(file):
    """Say whether a file belongs to the course, to PyTorch or to another package, not to the learner."""
    ours, torch_folder = COURSE / "utils", Path(torch.__file__).parent
    return ours in file.parents or torch_folder in file.parents or "site-packages" in file.parts
