"""The exercises in the notebooks: each folded solution passes its check, and each stub says "not attempted yet"."""

import ast
import math
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import course
from utils import checks
from utils.checks.judge import NOT_ATTEMPTED

CHECKED = re.compile(r"^(check_\w+)\((\w+)\)$")
PARTS = re.compile(
    r"<details><summary>Hint</summary>\n\n(.+?)\n\n</details>\n+"
    r"<details><summary>Solution</summary>\n\n(.+?)\n\n</details>",
    re.DOTALL,
)


def exercises(path):
    """Return (task, stub, help, name of the check, name of the attempt) of each checked exercise."""
    cells, found = course.read(path).cells, []
    for place, cell in enumerate(cells):
        last = cell.source.rstrip().splitlines()[-1] if cell.source.strip() else ""
        if cell.cell_type == "code" and (asked := CHECKED.match(last)):
            found.append((cells[place - 1].source, cell.source, cells[place + 1].source, *asked.groups()))
    return found


PER_NOTEBOOK = {path.name[:2]: exercises(path) for path in course.paths()}
each_exercise = pytest.mark.parametrize(
    "task, stub, help_, check, name",
    [
        pytest.param(*exercise, id=f"{number}-{exercise[3]}")
        for number, found in PER_NOTEBOOK.items()
        for exercise in found
    ],
)


def run(source):
    """Run code with the names that every notebook of exercises imports, and return its names."""
    names = {"torch": torch, "math": math, "F": F, "nn": nn, "np": np}
    exec(compile(source, "<exercise>", "exec"), names)
    return names


def solution_of(help_):
    blocks = re.findall(r"```python\n(.+?)\n```", PARTS.search(help_)[2], re.DOTALL)
    assert len(blocks) == 1, "a solution is one block of code"
    return blocks[0]


def signatures(source):
    """Return what a piece of code defines at its top, and the arguments of each function in it."""
    tree = ast.parse(source)
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return names, [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.arguments)]


def test_each_notebook_has_two_to_five_exercises_and_every_check_is_used_once():
    assert all(2 <= len(found) <= 5 for found in PER_NOTEBOOK.values())
    used = [exercise[3] for found in PER_NOTEBOOK.values() for exercise in found]
    assert sorted(used) == sorted(name for name in vars(checks) if name.startswith("check_"))


@each_exercise
def test_task_stub_hint_and_solution_belong_together(task, stub, help_, check, name):
    assert re.search(r"\*\*Difficulty:\*\* (●○○|●●○|●●●) \([\w ]+\) · \*\*Time:\*\* \d+ minutes", task)
    assert name in task and len(task) > 150, "the task says what to write"
    hint, solution = PARTS.search(help_)[1], solution_of(help_)
    assert len(hint) > 40 and "def " not in hint
    assert signatures(solution)[0] == [name] and signatures(solution) == signatures(stub)
    (definition,) = [node for node in ast.parse(stub).body if getattr(node, "name", None) == name]
    assert ast.get_docstring(definition)
    code = stub.rstrip().rsplit("\n", 1)[0]
    assert getattr(checks, check)(run(code)[name]).message == NOT_ATTEMPTED


@each_exercise
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_solution_passes(task, stub, help_, check, name, dtype):
    """Also where the notebook has set another default, as 05 does."""
    torch.set_default_dtype(dtype)
    try:
        verdict = getattr(checks, check)(run(solution_of(help_))[name])
    finally:
        torch.set_default_dtype(torch.float32)
    assert verdict.passed, verdict
