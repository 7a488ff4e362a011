"""The keeper of the notebooks: publishing an address, navigation, re-execution as committed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import course

ROOT = Path(__file__).parent.parent


@pytest.fixture
def copy(tmp_path):
    """A copy of the course in which commands may write."""
    ignore = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
    for name in (".ci", "notebooks", "utils", "images"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignore)
    for name in ("README.md", "pyproject.toml", "requirements.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def call(folder, *arguments):
    return subprocess.run(
        [sys.executable, str(folder / ".ci" / "course.py"), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
    )


def texts(folder):
    files = [folder / "README.md", folder / "pyproject.toml", *(folder / "notebooks").glob("*.ipynb")]
    return {file.name: file.read_text(encoding="utf-8") for file in files}


def test_placeholder_can_be_registered_by_nobody():
    """A GitHub name has letters, digits and single hyphens, and begins and ends with none."""
    address = "-owner-/attention-course"
    assert not re.fullmatch(r"[A-Za-z\d](?:-?[A-Za-z\d])*/[\w.-]+", address)
    if course.repository().startswith("-"):
        assert course.repository() == address


def test_publish_rewrites_every_address_and_nothing_else(copy):
    before = texts(copy)
    ran = call(copy, "publish", "ada-l/attention")
    assert ran.returncode == 0, ran.stderr
    after = texts(copy)
    for name, text in after.items():
        assert course.repository() not in text
        assert text.replace("ada-l/attention", course.repository()) == before[name]
        assert "ada-l/attention" in text
    assert after["README.md"].count("git clone https://github.com/ada-l/attention ") == 2
    assert "(https://mybinder.org/v2/gh/ada-l/attention/main?urlpath=" in after["README.md"]
    assert "/hub/user-redirect/git-pull?repo=https://github.com/ada-l/attention&branch=" in after["README.md"]
    again = call(copy, "publish", "ada-l/attention")
    assert again.returncode == 0 and texts(copy) == after


def test_publish_takes_the_address_of_origin(copy):
    for address in ("https://github.com/ada-l/attention.git", "git@github.com:ada-l/attention.git"):
        subprocess.run(["git", "init", "-q"], cwd=copy)
        subprocess.run(["git", "remote", "remove", "origin"], cwd=copy, capture_output=True)
        subprocess.run(["git", "remote", "add", "origin", address], cwd=copy)
        assert call(copy, "publish").returncode == 0
        assert "/github/ada-l/attention/blob/" in texts(copy)["01_tokenization.ipynb"]


@pytest.mark.parametrize("address", ["attention", "https://github.com/ada/x", "a b/c", ""])
def test_publish_refuses_what_is_no_address(copy, address):
    before = texts(copy)
    ran = call(copy, "publish", address)
    assert ran.returncode != 0 and "owner/name" in ran.stderr and "Traceback" not in ran.stderr
    assert texts(copy) == before


def test_execution_keeps_outputs_and_no_trace_of_the_machine(copy):
    """A small notebook, run as `make notebooks` runs the course."""
    for path in (copy / "notebooks").glob("*.ipynb"):
        path.unlink()
    cells = [
        nbformat.v4.new_markdown_cell("", id="navigation-top"),
        nbformat.v4.new_markdown_cell(
            "# Try it\n\n**You will be able to**\n- run it\n\n**Time:** about 1 minutes", id="title"
        ),
        nbformat.v4.new_code_cell("", id="set-up"),
        nbformat.v4.new_code_cell(
            "import os\nprint(os.environ['COURSE_STATIC_VIEWS'], os.path.basename(os.getcwd()))"
        ),
        nbformat.v4.new_markdown_cell("", id="navigation-bottom"),
    ]
    path = copy / "notebooks" / "01_try.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    keeper = copy / ".ci" / "course.py"
    keeper.write_text(re.sub(r"PICTURES = \{.*?\}", "PICTURES = {}", keeper.read_text(encoding="utf-8")))
    ran = call(copy, "notebooks")
    assert ran.returncode == 0, ran.stderr
    done = nbformat.read(path, as_version=4)
    code = [cell for cell in done.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == [1, 2]
    assert code[1].outputs[0].text == "1 notebooks\n"
    assert all(cell.metadata == {} for cell in code)
    assert done.metadata.language_info == {"name": "python"}
    first = path.read_bytes()
    call(copy, "notebooks")
    assert path.read_bytes() == first
