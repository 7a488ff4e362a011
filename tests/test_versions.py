"""The code is valid for every Python that the course supports. CI runs the oldest and the newest of them."""

import ast
import warnings

import pytest

import course
import environment


@pytest.mark.slow
def test_every_file_and_every_cell_is_valid_for_the_oldest_and_compiles_here_without_a_warning():
    files = [*course.ROOT.glob("*.py")]
    files += [file for folder in (".ci", "utils", "tests") for file in (course.ROOT / folder).rglob("*.py")]
    texts = {path.relative_to(course.ROOT).as_posix(): path.read_text(encoding="utf-8") for path in files}
    for path in course.paths():
        code = [cell for cell in course.read(path).cells if cell.cell_type == "code"]
        texts |= {f"{path.name}, cell {cell.id}": cell.source for cell in code}
    assert {"utils/start.py", ".ci/course.py"} <= texts.keys()
    for place, text in texts.items():
        ast.parse(text, place, feature_version=environment.OLDEST)
        with warnings.catch_warnings(action="error"):  # an escape that means nothing
            compile(text, place, "exec")
    text = (course.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'target-version = "py{}{}"'.format(*environment.OLDEST) in text, "ruff checks for the oldest"
