"""What learners might write: right and wrong attempts at every exercise, one file for each notebook.

They are written differently on purpose: loops, einsum, batched, the framework's own function, numpy. They know
nothing of the checks.
"""

# ruff: noqa: F401  # each file fills the tables
from . import (
    notebook_01,
    notebook_02,
    notebook_03,
    notebook_04,
    notebook_05,
    notebook_06,
    notebook_07,
    notebook_08,
    notebook_09,
    notebook_10,
    notebook_11,
    notebook_12,
    notebook_13,
)
from .tables import FRESH, PEER, RIGHT, WRONG
