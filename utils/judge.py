"""The engine of the checks: it runs an attempt, compares what comes back, and says what was seen.

`judge` runs a learner's code on a few inputs (`run_attempt`), reads what it returns, and compares it with the right
answer and with what each known misconception would give. What it says is a `Verdict`. The words of the misconceptions
stand in misconceptions.toml.
"""

import contextvars
import ctypes
import dis
import html
import linecache
import math
import random
import re
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

# The misconceptions in words: exercise -> identifier -> [what the learner did, why it matters, where to read].
KNOWN = tomllib.loads((Path(__file__).parent / "misconceptions.toml").read_text(encoding="utf-8"))

# What CONTRIBUTING.md lists: exercise -> identifier -> what the learner did, in one sentence.
MISCONCEPTIONS = {
    exercise: {name: told[0] for name, told in known.items() if name != "home"}
    for exercise, known in KNOWN.items()
}

# -------------------------------------------------------------------------------------------------- the engine

LIMIT = 10.0  # seconds that an attempt may take
NOT_ATTEMPTED = "not attempted yet"
# Colours for a light and a dark page alike (Okabe and Ito 2008); a sign and a word say the same.
LOOK = {"passed": ("✓", "#009E73"), "not yet": ("✗", "#D55E00"), NOT_ATTEMPTED: ("○", "#808080")}


@dataclass(frozen=True)
class Verdict:
    """What a check says: `passed`, the identifier of the `misconception` (or None), and a `message`."""

    exercise: str
    passed: bool
    misconception: str | None
    message: str

    def _head(self):
        """Return sign, words and colour of the first line."""
        state = "passed" if self.passed else NOT_ATTEMPTED if self.message == NOT_ATTEMPTED else "not yet"
        words = f"{self.exercise}: {state}" + (f" ({self.misconception})" if self.misconception else "")
        return LOOK[state][0], words, LOOK[state][1]

    def __repr__(self):
        sign, words, _ = self._head()
        return f"{sign} {words}" + ("" if self.message == NOT_ATTEMPTED else f"\n{self.message}")

    def _repr_html_(self):
        sign, words, colour = self._head()
        body = "" if self.message == NOT_ATTEMPTED else f"<br>{html.escape(self.message)}"
        body = body.replace("\n", "<br>")
        style = f"border-left: 6px solid {colour}; background: {colour}22; padding: 8px 12px; max-width: 50em"
        return f'<div style="{style}"><b>{sign} {html.escape(words)}</b>{body}</div>'


class Unreadable(Exception):
    """What came back cannot be read; its text says why."""


class Stopped(BaseException):
    """Thrown into the thread of an attempt that takes too long."""


class Ran(NamedTuple):
    """What running an attempt gave: (inputs, result) of each trial that ended well, and what went wrong."""

    results: list
    error: BaseException | None
    timed_out: bool
    changed: str | None


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
            errors.append(error)
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
    error = errors[0] if errors and not timed_out else None
    return Ran(list(results), error, timed_out, changed[0] if changed else None)


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
            return f"the number at {place} of an input was {old} and is now {after}."
    elif isinstance(before, list | tuple):
        if len(now) != len(before):
            return f"an input had {len(before)} entries and has now {len(now)}."
        return next((seen for seen in map(what_changed, now, before) if seen), None)
    elif isinstance(before, set) and now != before:
        return "an input is not what it was."
    return None


def judge(exercise, attempt, trials, right, mistakes, read=None, tell=None, call=None):
    """Run the attempt on the trials and return a `Verdict`.

    `right(*inputs)` gives the answer, `mistakes` maps an identifier to functions of the same inputs that give what
    this misconception would. `read` turns what came back into an answer (or raises `Unreadable`). Answers are dicts
    of tensors, or of lists. `tell(inputs, answer)` may name a misconception that no formula can foresee. `call`
    is what is run, if it is not the attempt itself.
    """
    if untouched(attempt):
        return Verdict(exercise, False, None, NOT_ATTEMPTED)
    if not callable(attempt):
        return refused(exercise, f"A function or a class is checked, but this is {kind_of(attempt)}.")
    ran = run_attempt(call or attempt, trials)
    if isinstance(ran.error, NotImplementedError):
        return Verdict(exercise, False, None, NOT_ATTEMPTED)
    problem = None
    with steady():
        for inputs, result in ran.results:
            try:
                answer = (read or output_and_weights)(result)
                expected = right(*inputs)
                if agrees(answer, expected):
                    continue
                seen = what_differs(answer, expected)
                name = fitting(inputs, answer, mistakes) or (tell and tell(inputs, answer))
            except Unreadable as unreadable:
                seen, name = str(unreadable), None
            except Exception as error:  # whatever came back: no traceback of the course
                seen, name = (
                    f"Your result is {kind_of(result)} and cannot be read: {type(error).__name__}.",
                    None,
                )
            if name:
                return named(exercise, name, seen)
            problem = problem or seen
    if ran.changed:
        return named(exercise, "changes_its_input", f"After your code ran, {ran.changed}")
    if problem or ran.timed_out or ran.error is not None:
        return refused(exercise, problem or why_not_run(ran))
    return Verdict(exercise, True, None, f"Your answer was right on all {len(trials)} test inputs.")


def built(exercise, attempt, *arguments):
    """Return the learner's module with repeatable weights in eval mode, and None; or None and a `Verdict`."""
    if untouched(attempt):
        return None, Verdict(exercise, False, None, NOT_ATTEMPTED)
    if not isinstance(attempt, type):
        return None, refused(exercise, f"Give the class itself. This is {kind_of(attempt)}.")
    if not issubclass(attempt, nn.Module):
        return None, refused(exercise, f"Your class {attempt.__name__} is no nn.Module.")
    ran = run_attempt(attempt, [arguments])
    if isinstance(ran.error, NotImplementedError):
        return None, Verdict(exercise, False, None, NOT_ATTEMPTED)
    if not ran.results:
        return None, refused(exercise, why_not_run(ran))
    try:
        return fill_weights(ran.results[0][1]).eval(), None
    except Exception as error:
        return None, refused(exercise, f"Its weights cannot be set: {type(error).__name__}.")


def fitting(inputs, answer, mistakes):
    """Return the identifier of the first misconception that would give this answer, or None."""
    for name, likes in mistakes.items():
        for like in likes:
            try:
                if agrees(answer, like(*inputs)):
                    return name
            except (RuntimeError, IndexError, ValueError):  # this misconception cannot happen on these inputs
                continue
    return None


def named(exercise, name, seen):
    """Return the `Verdict` with a misconception: what was seen, what it is, why it matters, where to look."""
    did, why, *where = KNOWN[exercise].get(name) or KNOWN["any_exercise"][name]
    return Verdict(
        exercise, False, name, f"{seen}\n{did} {why}\n{where_to_look(where or KNOWN[exercise]['home'])}"
    )


def refused(exercise, seen):
    """Return the `Verdict` for a mistake that has no name."""
    return Verdict(exercise, False, None, f"{seen}\n{where_to_look(KNOWN[exercise]['home'])}")


def where_to_look(where):
    """Return the sentence that leads to a heading of a notebook."""
    return f"Where to look: notebook {where[0]}, section “{where[1]}”."


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
    return all(step.opname in STUB_STEPS for step in steps) and all(
        value in (None, ...) for value in returned
    )


def why_not_run(ran):
    """Return a sentence about an attempt that took too long or raised an error."""
    if ran.timed_out:
        return f"Your code was still running after {LIMIT:g} seconds and was stopped. Does one of its loops never end?"
    error = ran.error
    said = re.sub(r" at 0x[0-9a-fA-F]+", "", " ".join(str(error).split()))[:300]
    message = f"Your code raised {type(error).__name__}" + (f": {said}" if said else ".")
    course, torch_folder = Path(__file__).parent, Path(torch.__file__).parent
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if (
            course not in file.parents
            and torch_folder not in file.parents
            and "site-packages" not in file.parts
        ):
            line = linecache.getline(frame.filename, frame.lineno or 0).strip()
            return (
                message
                + f"\nIt happened in line {frame.lineno} of your cell"
                + (f": {line}" if line else ".")
            )
    return message


# ---------------------------------------------------------------------------- reading and comparing answers


def kind_of(value):
    """Return in words what a value is that cannot be read."""
    return "None: is a `return` missing?" if value is None else f"of the type {type(value).__name__}"


def read_tensor(value, what="result"):
    """Return a number, list, array or tensor as a tensor of float64, or raise `Unreadable`."""
    if isinstance(value, torch.Tensor) and not value.is_complex():
        value = value.to_dense() if value.layout != torch.strided else value
        return value.detach().to("cpu", torch.float64)
    if isinstance(value, np.ndarray | np.generic | int | float | list | tuple) and not isinstance(value, str):
        try:
            if isinstance(value, list | tuple) and any(isinstance(part, torch.Tensor) for part in value):
                return torch.stack([read_tensor(part) for part in value])
            return torch.as_tensor(np.asarray(value, dtype=np.float64))
        except (ValueError, TypeError, RuntimeError):
            pass
    raise Unreadable(
        f"Your {what} is {kind_of(value)}" + ("" if value is None else ". A tensor is expected.")
    )


def output_and_weights(raw):
    """Read an output, alone or followed by the weights."""
    if isinstance(raw, tuple) and raw and isinstance(raw[0], torch.Tensor | np.ndarray):
        answer = {"output": read_tensor(raw[0])}
        if len(raw) > 1 and isinstance(raw[1], torch.Tensor):
            answer["weights"] = read_tensor(raw[1])
        return answer
    return {"output": read_tensor(raw)}


def alone(name):
    """Return a reader of one tensor; of a tuple, its last tensor (weights come behind an output)."""

    def read(raw):
        if isinstance(raw, tuple) and raw and all(isinstance(part, torch.Tensor) for part in raw):
            raw = raw[-1]
        return {name: read_tensor(raw, name)}

    return read


def parts_of(*names):
    """Return a reader of several tensors: a tuple or list in this order, or a dict with these names."""

    def read(raw):
        if hasattr(raw, "keys") and set(names) <= set(raw.keys()):
            raw = [raw[name] for name in names]
        if not isinstance(raw, tuple | list) or len(raw) != len(names):
            said = f"has {len(raw)} parts" if isinstance(raw, tuple | list) else f"is {kind_of(raw)}"
            raise Unreadable(f"Your result {said}. Expected are {len(names)}: {', '.join(names)}.")
        return {name: read_tensor(part, name) for name, part in zip(names, raw, strict=True)}

    return read


def whole_numbers(name):
    """Return a reader of whole numbers: a list, a tuple or a tensor."""

    def read(raw):
        numbers = read_tensor(raw, name)
        if not torch.equal(numbers, numbers.round()):
            raise Unreadable(f"Your result holds {numbers.flatten()[0]:.2f}. Whole numbers are expected.")
        return {name: numbers}

    return read


def agrees(answer, expected):
    """Say whether two answers are equal, to 4 decimals. Weights of another shape (a mean of heads) are let pass."""
    for name, value in expected.items():
        mine = answer.get(name)
        if mine is None and name == "weights":
            continue
        if not isinstance(value, torch.Tensor) or not isinstance(mine, torch.Tensor):
            if mine != value:
                return False
        elif mine.shape != value.shape:
            if name != "weights":
                return False
        elif not torch.allclose(mine, value.to(torch.float64), rtol=1e-4, atol=2e-5, equal_nan=True):
            return False
    return True


def what_differs(answer, expected):
    """Return a sentence about the first part of an answer that differs, with a number from it."""
    for name, value in expected.items():
        mine = answer.get(name)
        if not isinstance(value, torch.Tensor):
            if mine != value:
                return f"Your answer for {name} is {mine!r}; right is {value!r}."
        elif mine is not None and mine.shape != value.shape and name != "weights":
            if name == LAYER_HEAD:
                return f"Your answer is {mine.tolist()}; two numbers are expected, the layer and the head."
            return f"The shape of your {name} is {tuple(mine.shape)}; {tuple(value.shape)} is expected."
        elif mine is not None and not agrees({name: mine}, {name: value}):
            if name == LAYER_HEAD:
                found, right = layer_and_head(mine), layer_and_head(value)
                return f"Your answer is {found}, the right one is {right} (counted from 0)."
            place, found, right = first_difference(mine, value)
            broken = mine.isnan().sum().item()
            nan = f" {broken} of your {mine.numel()} numbers are nan." if broken > value.isnan().sum() else ""
            return f"The number at {place} of your {name} is {found}; expected is {right}.{nan}{row_sums(answer)}"
    return "Your answer differs."


LAYER_HEAD = "layer, head"


def layer_and_head(numbers):
    """Return two numbers of a tensor as a pair of whole numbers."""
    return tuple(int(value) for value in numbers)


def row_sums(answer):
    """Return a sentence about the first row of weights that does not sum to 1, or nothing."""
    weights = answer.get("weights", answer.get("row weights"))
    if weights is None or weights.dim() == 0 or not weights.isfinite().all():
        return ""
    sums = weights.sum(dim=-1).flatten()
    wrong = sums[(sums - 1).abs() > 0.01]
    return f" A row of your weights sums to {wrong[0]:.2f}." if len(wrong) else ""


def first_difference(mine, value):
    """Return the first place where two tensors differ clearly, and what stands there in each, in words.

    Clearly: by half of the largest difference. Two decimals, as more could differ between two computers; three where
    two do not show it.
    """
    mine, value = mine.to(torch.float64), value.to(torch.float64)
    apart = (mine - value).abs().nan_to_num(math.inf, math.inf)
    apart = apart.masked_fill((mine == value) | (mine.isnan() & value.isnan()), 0)
    largest = apart.max()
    place = tuple((apart >= (largest if largest == math.inf else largest / 2)).nonzero()[0].tolist())
    texts = [in_words(numbers[place].item(), 2) for numbers in (mine, value)]
    if texts[0] == texts[1]:
        texts = [in_words(numbers[place].item(), 3) for numbers in (mine, value)]
    return list(place), *texts


def in_words(number, decimals):
    """Return a number with few decimals, and a whole one without."""
    if abs(number) < math.inf and abs(number - round(number)) < 1e-5:
        return str(round(number))
    return f"{number:.{decimals}f}"


# ------------------------------------------------------------------------------------------------- test inputs


def made_numbers(*shape, start=0, step=37):
    """Return a tensor of repeatable numbers from -2 to 2. They are not random: those differ between computers."""
    count = torch.arange(math.prod(shape))
    return (((count * step + count // 7 * 5 + 11 * start) % 29 - 14) / 7.0).reshape(shape)


def fill_weights(module):
    """Give every weight of a module a repeatable number, so that each of its tensors is another one."""
    with torch.no_grad():
        for place, weight in enumerate(module.parameters()):
            weight.copy_(made_numbers(*weight.shape, start=place + 1, step=17 + 6 * (place % 3)) / 3)
    return module
