"""The code is valid for every Python that the course supports. CI runs the oldest and the newest of them."""

import ast
import sys
import warnings
from pathlib import Path

import pytest

import course
import environment

ROOT = Path(__file__).parent.parent
VERSIONS = [(3, minor) for minor in range(environment.OLDEST[1], environment.NEWEST[1] + 1)]


def complaints(version, texts):
    """What this version of Python says of the syntax, and the one that runs here of what it compiles."""
    found, version = [], min(version, sys.version_info[:2])
    for place, text in texts.items():
        try:
            ast.parse(text, place, feature_version=version)
            with warnings.catch_warnings(action="error"):  # an escape that means nothing
                compile(text, place, "exec")
        except (SyntaxError, Warning) as error:
            found.append(f"{place}: {error}")
    return found


@pytest.mark.slow
def test_every_file_and_every_cell_is_valid():
    files = [*ROOT.glob("*.py")]
    files += [file for folder in (".ci", "utils", "tests") for file in (ROOT / folder).rglob("*.py")]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in files}
    for path in course.paths():
        code = [cell for cell in course.read(path).cells if cell.cell_type == "code"]
        texts |= {f"{path.name}, cell {cell.id}": cell.source for cell in code}
    assert {"utils/start.py", ".ci/course.py"} <= texts.keys()
    assert [line for version in VERSIONS for line in complaints(version, texts)] == []


def test_what_is_not_valid_is_found():
    wrong = {"a": "x = (", "b": "type X = int", "c": "x = '\\d'", "d": "x = 1"}
    assert [line[0] for line in complaints(VERSIONS[0], wrong)] == ["a", "b", "c"]


def test_ruff_checks_for_the_oldest():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'target-version = "py{}{}"'.format(*VERSIONS[0]) in text
