"""What learners might write: right and wrong attempts at every exercise, one file for each notebook.

They are written differently on purpose: loops, einsum, batched, the framework's own function, numpy. They know
nothing of the checks. Each file fills the tables.
"""

import importlib
from pathlib import Path

from .tables import FRESH, PEER, RIGHT, WRONG  # noqa: F401

for _path in sorted(Path(__file__).parent.glob("notebook_*.py")):
    importlib.import_module(f".{_path.stem}", __package__)
