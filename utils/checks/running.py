"""Running an attempt: on copies of the inputs, in a thread that is stopped, and telling a stub and an error apart."""

import contextvars
import ctypes
import dis
import linecache
import random
import re
import threading
import traceback
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from .answers import first_difference

COURSE = Path(__file__).parents[2]
LIMIT = 10.0  # seconds that an attempt may take


class Stopped(SystemExit):
    """Thrown into the thread of an attempt that takes too long."""


class Ran(NamedTuple):
    """What running an attempt gave: (inputs, result) of each trial that ended well, and what went wrong."""

    results: list
    error: BaseException | None
    timed_out: bool
    changed: str | None
    failed: tuple | None  # the inputs of the error


@contextmanager
def steady(default=torch.float32):
    """In this `with` block random numbers and the default dtype are the same each time; then all is as before."""
    before, python, numpy = torch.get_default_dtype(), random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        torch.set_default_dtype(default)
        try:
            yield
        finally:
            torch.set_default_dtype(before)
            random.setstate(python)
            np.random.set_state(numpy)


def run_attempt(function, trials, dtype=torch.float32):
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

    with steady(dtype):
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
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list | tuple):
        return type(value)(copied(part) for part in value)
    return set(value) if isinstance(value, set) else value


def kept(value):
    """Return a result as it is now, with every tensor copied: a later call may write into it."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, np.ndarray):
        return value.copy()
    if type(value) in (list, tuple):
        return type(value)(kept(part) for part in value)
    return value


def is_stub(error):
    """Say whether an error is a NotImplementedError of a `raise` in the learner's own code, not one of PyTorch."""
    if not isinstance(error, NotImplementedError):
        return False
    last = error.__traceback__
    while last.tb_next:
        last = last.tb_next
    code = last.tb_frame.f_code
    raises = code.co_code[last.tb_lasti] == dis.opmap["RAISE_VARARGS"]
    return raises and not of_a_library(Path(code.co_filename))


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
    elif isinstance(before, np.ndarray):
        if now.shape != before.shape or not np.array_equal(now, before):
            return f"an array of {before.size} values that was given is not what it was."
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
