"""The code is valid for every Python that the course supports, whichever of them runs here."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import course
import environment

ROOT = Path(__file__).parent.parent
VERSIONS = [(3, minor) for minor in range(environment.OLDEST[1], environment.NEWEST[1] + 1)]
# In a Python of its own: compile every text, and take a warning (an escape that means nothing) for an error.
COMPILE = """
import json, sys, warnings
warnings.simplefilter("error")
for place, source in json.load(sys.stdin).items():
    try:
        compile(source, place, "exec")
    except (SyntaxError, Warning) as error:
        print(f"{place}: {error}")
"""


def sources():
    """All Python of the course: place to text."""
    files = [*ROOT.glob("*.py")]
    for folder in (".ci", "utils", "tests"):
        files += sorted((ROOT / folder).rglob("*.py"))
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in files}
    for path in course.paths():
        for cell in course.read(path).cells:
            if cell.cell_type == "code":
                texts[f"{path.name}, cell {cell.id}"] = cell.source
    return texts


def interpreter(version):
    """A Python of this version that runs here, or None."""
    if sys.version_info[:2] == version:
        return sys.executable
    name = f"python{version[0]}.{version[1]}"
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [*home.glob(f"versions/{version[0]}.{version[1]}.*/bin/python"), shutil.which(name)]
    for candidate in filter(None, map(str, filter(None, found))):
        probe = [candidate, "-I", "-c", "import sys; print(*sys.version_info[:2])"]
        answer = subprocess.run(probe, capture_output=True, text=True)
        if answer.stdout.split() == [str(number) for number in version]:
            return candidate
    return None


def complaints(version, texts):
    """What this version of Python says against these texts."""
    python = interpreter(version)
    if python:
        command = [python, "-I", "-c", COMPILE]
        ran = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True)
        return ran.stdout.splitlines()
    found = []
    for place, text in texts.items():
        try:
            ast.parse(text, place, feature_version=min(version, sys.version_info[:2]))
        except SyntaxError as error:
            found.append(f"{place}: {error}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: f"{version[0]}.{version[1]}")
def test_every_file_and_every_cell_is_valid(version):
    texts = sources()
    assert {"utils/start.py", ".ci/course.py"} <= texts.keys()
    assert complaints(version, texts) == []


def test_what_is_not_valid_is_found():
    oldest = VERSIONS[0]
    assert len(complaints(oldest, {"a": "x = (", "b": "type X = int", "c": "x = 1"})) == 2


def test_ruff_checks_for_the_oldest():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'target-version = "py{}{}"'.format(*VERSIONS[0]) in text
