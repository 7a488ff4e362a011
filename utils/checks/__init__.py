"""Exercises that name the mistake: `check_<exercise>(attempt)` says what is wrong with a learner's code.

An exercise is a solution, trials and edits (exercise.py). The check runs the attempt on the trials and compares what
comes back with the solution's answers, which a test holds equal to PyTorch's, transformers' or hand-worked ones. If
they differ, the edited solutions run too, and the mistake is the one whose answers are those of the attempt.

A check never raises and shows no traceback. It returns a `Verdict` also for code that raises, runs for ever, returns
something else, or changes its inputs. `progress("02")` says how many exercises of a notebook have passed since the
kernel started.

The exercises of a notebook stand in notebook_NN.py, and their rows of words and edits in notebook_NN.toml. Each
`check_...` that is defined there is found here.
"""

import importlib

from .verdict import progress
from .words import FOLDER

__all__ = ["progress"]

for _path in sorted(FOLDER.glob("notebook_*.py")):
    _found = vars(importlib.import_module(f".{_path.stem}", __package__))
    globals().update({name: check for name, check in _found.items() if name.startswith("check_")})
