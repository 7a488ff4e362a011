"""The exercises in the notebooks: each folded solution passes its check, and each stub says "not attempted yet"."""

import ast
import math
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import course
import utils

PATHS = [path for path in course.paths() if path.name[:2] <= "09"]
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


EXERCISES = [
    pytest.param(*exercise, id=f"{path.name[:2]}-{exercise[3]}")
    for path in PATHS
    for exercise in exercises(path)
]
each_exercise = pytest.mark.parametrize("task, stub, help_, check, name", EXERCISES)


def run(source):
    """Run code with the names that every notebook of exercises imports, and return its names."""
    names = {"torch": torch, "math": math, "F": F, "nn": nn}
    exec(compile(source, "<exercise>", "exec"), names)
    return names


def solution_of(help_):
    blocks = re.findall(r"```python\n(.+?)\n```", PARTS.search(help_)[2], re.DOTALL)
    assert len(blocks) == 1, "a solution is one block of code"
    return blocks[0]


def defined(source):
    return [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]


def test_every_notebook_from_01_to_09_has_two_to_five_checked_exercises():
    assert [path.name[:2] for path in PATHS] == [f"{number:02}" for number in range(1, 10)]
    counts = {path.name[:2]: len(exercises(path)) for path in PATHS}
    assert all(2 <= count <= 5 for count in counts.values()), counts


def test_no_exercise_stands_twice_and_every_check_is_used():
    used = [exercise[3] for path in PATHS for exercise in exercises(path)]
    assert sorted(used) == sorted(name for name in utils.__all__ if name.startswith("check_"))


@each_exercise
def test_task_says_difficulty_and_minutes(task, stub, help_, check, name):
    assert re.search(r"\*\*Difficulty:\*\* (●○○|●●○|●●●) \([\w ]+\) · \*\*Time:\*\* \d+ minutes", task)
    assert name in task and len(task) > 150, "the task says what to write"


@each_exercise
def test_stub_is_not_attempted_yet(task, stub, help_, check, name):
    code = stub.rstrip().rsplit("\n", 1)[0]
    assert defined(code) == [name] and ast.get_docstring(ast.parse(code).body[0])
    verdict = getattr(utils, check)(run(code)[name])
    assert (verdict.passed, verdict.misconception, verdict.message) == (False, None, "not attempted yet")


@each_exercise
def test_hint_and_solution_are_folded_and_the_solution_passes(task, stub, help_, check, name):
    hint = PARTS.search(help_)[1]
    assert len(hint) > 40 and "def " not in hint
    code = solution_of(help_)
    assert defined(code) == [name], "the solution defines what the stub defines"
    arguments = [ast.unparse(node) for node in ast.walk(ast.parse(stub)) if isinstance(node, ast.arguments)]
    assert arguments == [
        ast.unparse(node) for node in ast.walk(ast.parse(code)) if isinstance(node, ast.arguments)
    ]
    verdict = getattr(utils, check)(run(code)[name])
    assert verdict.passed, verdict


@each_exercise
def test_stored_output_is_that_of_the_stub(task, stub, help_, check, name):
    """The notebook is committed with its stubs, so a reader sees what an untouched exercise says."""
    verdict = getattr(utils, check)(None)
    outputs = [
        cell.outputs
        for path in PATHS
        for cell in course.read(path).cells
        if cell.cell_type == "code" and cell.source == stub
    ]
    shown = [output.get("data", {}) for output in outputs[0]]
    assert [data.get("text/plain") for data in shown] == [repr(verdict)]
    assert [data.get("text/html") for data in shown] == [verdict._repr_html_()]
