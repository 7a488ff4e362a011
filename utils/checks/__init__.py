"""Exercises that name the mistake: `check_<exercise>(attempt)` says what is wrong with a learner's code.

A check runs the attempt on a few trials and compares it with the solution, which a test holds equal to PyTorch's,
transformers' or hand-worked answers. If they differ, it names the mistake whose edit of the solution answers alike
(exercise.py). It never raises, also where the code raises, runs for ever or changes its inputs.

Each `check_...` that is defined in a notebook_NN.py is found here; its rows of words and edits stand in the .toml.
"""

import importlib

from .verdict import progress
from .words import FOLDER

__all__ = ["progress"]

for _path in sorted(FOLDER.glob("notebook_*.py")):
    _found = vars(importlib.import_module(f".{_path.stem}", __package__))
    globals().update({name: check for name, check in _found.items() if name.startswith("check_")})
