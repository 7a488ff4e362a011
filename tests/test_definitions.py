"""A concept stands in its home notebook and in utils, the same but for its refusals, and nowhere else."""

import ast
from collections import Counter

import pytest

import course


def refuses(statement):
    """Whether a statement calls a guard, and does nothing else."""
    call = getattr(statement, "value", None) if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and getattr(call.func, "id", "").startswith("require_")


def definitions(source):
    """Name and tree of every function and class at the top level, without docstrings and refusals."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            for part in ast.walk(node):
                if isinstance(part, ast.FunctionDef | ast.ClassDef):
                    start = ast.get_docstring(part) is not None
                    part.body = [line for line in part.body[start:] if not refuses(line)]
            found[node.name] = ast.dump(node)
    return found


CELLS = [(path.name[:2], cell) for path in course.paths() for cell in course.read(path).cells]
SOURCES = [(number, cell.source) for number, cell in CELLS if cell.cell_type == "code"]
TAUGHT = [(number, *defined) for number, source in SOURCES for defined in definitions(source).items()]
ROOMS = {
    name: tree
    for file in (course.ROOT / "utils").rglob("*.py")
    if "checks" not in file.parts  # which judges attempts, and teaches nothing
    for name, tree in definitions(file.read_text(encoding="utf-8")).items()
}
PAIRS = [(number, name, tree) for number, name, tree in TAUGHT if name in ROOMS]


@pytest.mark.parametrize("number, name, tree", PAIRS, ids=[name for _, name, _ in PAIRS])
def test_notebook_defines_what_utils_holds(number, name, tree):
    assert tree == ROOMS[name], f"{name} differs between notebook {number} and utils"


def test_each_concept_has_one_home_none_has_lost_it_and_no_notebook_refuses():
    homes = Counter(name for _, name, _ in PAIRS)
    assert max(homes.values()) == 1, homes.most_common(1)
    assert len(homes) >= 43, "a definition that utils holds too has left its notebook"
    for number, source in SOURCES:
        assert "guards" not in source and "require_" not in source, number
