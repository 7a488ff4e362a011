"""The exercises in the notebooks: task, stub, hint and solution; conftest.py tries it in its notebook."""

import ast
import inspect
import linecache
import os
import re
import subprocess
import sys
import textwrap

import nbformat
import pytest
from test_definitions import definitions

import course
from utils import checks
from utils.checks.verdict import NOT_ATTEMPTED

FOUND = {path.name[:2]: course.exercises(course.read(path).cells) for path in course.paths()}
PER_NOTEBOOK = {number: list(found.values()) for number, found in FOUND.items() if found}
each_exercise = pytest.mark.parametrize(
    "task, stub, help_, check, name",
    [pytest.param(*one, id=f"{number}-{one[3]}") for number, found in PER_NOTEBOOK.items() for one in found],
)


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
    hint, solution = course.hint_and_solution(help_)
    assert len(hint) > 40 and "def " not in hint, "a hint says a way in a sentence, and shows no code"
    assert signatures(solution)[0] == [name] and signatures(solution) == signatures(stub)
    (definition,) = [node for node in ast.parse(stub).body if getattr(node, "name", None) == name]
    assert ast.get_docstring(definition)
    code = stub.rstrip().rsplit("\n", 1)[0]
    check = getattr(checks, check)
    file, names = f"<stub of {name}>", dict(vars(sys.modules[check.solution.__module__]))
    linecache.cache[file] = len(code), None, code.splitlines(keepends=True), file  # as a kernel does
    exec(compile(code, file, "exec"), names)
    assert check(names[name]).message == NOT_ATTEMPTED
    edited = definitions(textwrap.dedent(inspect.getsource(check.solution)))
    own = re.sub("^[Mm]y_?", "", name)
    mine = definitions(solution)[name].replace(f"name='{name}'", f"name='{own}'", 1)
    assert mine == edited[own], "the notebook's solution is not the one that the engine edits"


@pytest.mark.slow
def test_solution_has_to_pass_where_the_learner_stands(tmp_path):
    """What conftest.py adds to a notebook's run: a wrong solution fails, no later cell sees a right one."""
    code, text = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell
    begin = f"import sys\n\nsys.path.insert(0, {str(course.ROOT)!r})\nimport torch\n"
    begin += "from utils.checks import check_causal_mask, progress\n"
    begin += "def ones(n):\n    return torch.ones(n, n, dtype=torch.bool)"
    stub = "def my_mask(n):\n    ...\n\n\ncheck_causal_mask(my_mask)"
    for direction in ("tril", "triu"):
        hint = "<details><summary>Hint</summary>\n\nNone.\n\n</details>\n"
        solution = f"```python\ndef my_mask(n):\n    return ones(n).{direction}()\n```"
        hint += f"<details><summary>Solution</summary>\n\n{solution}\n\n</details>"
        cells = [code(begin), text("the task"), code(stub, id="attempt-causal-mask"), text(hint)]
        cells += [code('assert my_mask(2) is None and not progress("03").passed')]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / f"{direction}.ipynb")
    settings = ["-c", "pyproject.toml", "-p", "conftest", "--nbval"]
    command = [sys.executable, "-m", "pytest", *settings, tmp_path]
    around = {"cwd": course.ROOT, "env": os.environ | {"PYTHONPATH": ".ci"}}
    ran = subprocess.run(command, **around, capture_output=True, text=True)
    assert "1 failed, 5 passed" in ran.stdout, ran.stdout + ran.stderr
    assert "The folded solution does not pass its check." in ran.stdout
    assert "causal_mask: not yet (upper_instead_of_lower)" in ran.stdout
