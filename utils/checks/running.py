"""Running an attempt: on copies of the inputs, in a thread that is stopped, and telling a stub and an error apart."""

import ast
import contextvars
import ctypes
import functools
import inspect
import linecache
import os
import random
import re
import textwrap
import threading
import time
import traceback
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from .answers import first_difference
from .words import COURSE

LIMIT = 10.0  # seconds of computing that an attempt may take
PATIENCE = 3  # so many times the limit may pass on the clock: it may wait for other programs, or sleep
MEMORY = 0.75  # GiB that an attempt may take
MOST = 2  # GiB that Linux gives to an attempt at all: one call can take them before the watch looks
TOO_LONG = """Your code was still running after {:g} seconds of computing and was stopped. \
Does one of its loops never end? If none does, it is too slow: what is the same in each step of a loop \
can be computed once, in front of it."""
TOO_LARGE = """Your code had taken {:g} GiB of memory and was stopped. \
Does a list grow in a loop that never ends, or does one call make a very large tensor?"""


class Ran(NamedTuple):
    """What running an attempt gave: (place of a trial, result) of each that ended well, and what went wrong."""

    results: list
    error: BaseException | None
    stopped: str | None  # why it was
    changed: str | None
    failed: int | None  # the place of the trial that raised the error


class MaskAsWeights(TorchFunctionMode):
    """Gives `mask.float()` 64 bits, so that it meets weights of float64: of 0 and 1 nothing is lost."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        if function not in (torch.Tensor.float, torch.Tensor.to, torch.Tensor.type):
            return made
        return made if args[0].is_floating_point() or made.dtype != torch.float32 else made.to(torch.float64)


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
    """Call the function on each trial, in a thread that is stopped after LIMIT seconds. Return a `Ran`."""
    results, errors, changed, stopping = [], [], [], threading.Event()

    def work():
        with suppress(SystemExit), MaskAsWeights() if dtype == torch.float64 else nullcontext():
            for place, inputs in enumerate(trials):
                given = [copied(value) for value in inputs]
                try:
                    results.append((place, copied(function(*given))))
                except BaseException as error:  # the other trials may still show what is wrong
                    errors.append((error, place))
                    if stopping.is_set() or isinstance(error, MemoryError):
                        return
                changed.extend(filter(None, map(what_changed, given, inputs)))

    with steady(dtype), memory_ends(int(MOST * 2**30)):
        # In a copy of this context, so that what the attempt prints lands under the cell that asked.
        thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True)
        thread.start()
        try:
            stopped = wait_for(thread)
        finally:
            stopping.set()
            stop_thread(thread)
    error, failed = errors[0] if errors and not stopped else (None, None)
    return Ran(list(results), error, stopped, changed[0] if changed else None, failed)


def wait_for(thread):
    """Return None when a thread has ended, or why it must: for its seconds, also by the clock, or for its memory."""
    start, before, used = time.monotonic(), memory(), None
    with suppress(AttributeError, OSError):
        used = time.pthread_getcpuclockid(thread.ident)
    while time.monotonic() - start < LIMIT * PATIENCE:
        thread.join(min(0.02, LIMIT))
        if not thread.is_alive():
            return None
        if memory() - before > MEMORY * 2**30:
            return TOO_LARGE.format(MEMORY)
        with suppress(OSError):  # it has ended
            if used is not None and time.clock_gettime(used) > LIMIT:
                break
    return TOO_LONG.format(LIMIT)


def memory():
    """Return how many bytes this process holds: the kernel of JupyterLab brings psutil; elsewhere it may be missing."""
    with suppress(ImportError):
        return process(os.getpid()).memory_info().rss
    return 0


@functools.cache
def process(number):
    """Return psutil's view of a process: to make one takes longer than to ask it."""
    import psutil

    return psutil.Process(number)


@contextmanager
def memory_ends(growth):
    """In this `with` block Linux gives the process so many bytes more, and Python raises MemoryError where a call asks
    for others: list(range(10**9)) cannot be stopped, and would end the process. Other systems have no such limit."""
    try:
        from resource import RLIM_INFINITY, RLIMIT_DATA, getrlimit, setrlimit

        most, before = process(os.getpid()).memory_info().data + growth, getrlimit(RLIMIT_DATA)
    except (ImportError, AttributeError):
        before = None
    if before is None or before[0] != RLIM_INFINITY:  # a limit that somebody else has set stays
        yield
        return
    setrlimit(RLIMIT_DATA, (most, before[1]))
    try:
        yield
    finally:
        setrlimit(RLIMIT_DATA, before)


def stop_thread(thread):
    """Throw SystemExit into a thread, often: an `except` may swallow one. What goes on ends with the process."""
    for _ in range(50):
        if not thread.is_alive():
            return
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
        thread.join(0.02)


def copied(value):
    """Return a copy of an input or a result, which later code may spoil. Modules and functions stay as they are."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, np.ndarray | set):
        return value.copy()
    return type(value)(map(copied, value)) if type(value) in (list, tuple) else value


def what_changed(now, before):
    """Return a sentence if an input is not what it was, else None."""
    if isinstance(before, torch.Tensor):
        if now.shape != before.shape or now.dtype != before.dtype:
            return f"an input of the shape {tuple(before.shape)} has now the shape {tuple(now.shape)}."
        if ((now != before) & ~(now.isnan() & before.isnan())).any():
            place, after, old = first_difference(now, before)
            return f"an input was {old} at {place} and is now {after}."
    elif isinstance(before, list | tuple):
        if len(now) != len(before):
            return f"an input had {len(before)} entries and has now {len(now)}."
        return next(filter(None, map(what_changed, now, before)), None)
    elif isinstance(before, str | int) and now != before:
        return f"an input held {before!r} where it holds {now!r} now."
    elif isinstance(before, np.ndarray | set) and not np.array_equal(now, before):
        return f"an input of {len(before)} entries is not what it was."
    return None


def untouched(attempt):
    """Say whether an attempt is still the stub: a body of a docstring, `...`, `pass`, and NotImplementedError."""
    if attempt is None or attempt is ...:
        return True
    function = getattr(attempt, "forward", attempt) if isinstance(attempt, type) else attempt
    if function is nn.Module.forward:  # a slip in its name, or in the margin, is no stub
        return not any(map(inspect.isfunction, vars(attempt).values()))
    if not inspect.isfunction(function):
        return False
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return False
    (first, *others) = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)] or [None]
    return first is not None and not others and all(map(says_nothing, first.body))


def says_nothing(step):
    """Say whether a line of code is one of a stub."""
    if isinstance(step, ast.Raise):
        return ast.unparse(step).startswith("raise NotImplementedError")
    value = getattr(step, "value", None)
    empty = value is None or (isinstance(value, ast.Constant) and value.value in (None, ...))
    told = isinstance(step, ast.Expr) and isinstance(value, ast.Constant)  # a docstring
    return isinstance(step, ast.Pass) or told or (isinstance(step, ast.Return) and empty)


def is_stub(error):
    """Say whether an error is a NotImplementedError of a `raise` in the learner's own code, not one of PyTorch."""
    if not isinstance(error, NotImplementedError):
        return False
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return "raise" in (frame.line or "raise") and not of_a_library(Path(frame.filename))


def why_not_run(ran):
    """Return a sentence about an attempt that was stopped or raised an error."""
    if ran.stopped:
        return ran.stopped
    error = ran.error
    said = re.sub(r" at 0x[0-9a-fA-F]+", "", " ".join((tried(str, error) or "").split()))[:300]
    message = f"Your code raised {type(error).__name__}" + (f": {said}" if said else ".")
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not of_a_library(Path(frame.filename)):
            line = linecache.getline(frame.filename, frame.lineno or 0).strip()
            told = f": {line}" if line else "."
            return f"{message}\nIt happened in line {frame.lineno} of your cell{told}"
    return message


def tried(run, *inputs):
    """Return what a function returns, or None where it raises."""
    with suppress(Exception):
        return run(*inputs)
    return None


def of_a_library(file):
    """Say whether a file belongs to the course, to Python or to another package, not to the learner."""
    folders = COURSE / "utils", Path(torch.__file__).parent, Path(os.__file__).parent
    return any(folder in file.parents for folder in folders) or "site-packages" in file.parts
