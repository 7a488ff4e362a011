"""The parts of `make rehearse` that decide what passes there, and the kernels that it and nbval start."""

import os
import re
import subprocess
from pathlib import Path

import nbformat
import nbval.kernel
import pytest

import rehearsal_colab as colab
import rehearse
from rehearsal_stage import CannotRehearse, Played, Rehearsal, clean_environment, play
from utils.start import COLAB_LACKS, WORKS_WITH

ROOT = Path(__file__).parent.parent


def git(folder, *arguments):
    who = {f"GIT_{role}_{what}": "test" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    command = ["git", "-C", str(folder), *arguments]
    done = subprocess.run(command, env=os.environ | who, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("changed", [False, True])
def test_checkout_is_rehearsed_as_it_is_and_left_alone(changed, tmp_path):
    """Cloned from a shallow checkout with an ignored file, as the set-up cell clones it."""
    origin, checkout = tmp_path / "origin", tmp_path / "mein Kurs é"
    git(tmp_path, "init", "--quiet", str(origin))
    (origin / ".gitignore").write_text("junk\n")
    for text in ("old", "new"):
        (origin / "lesson.txt").write_text(text)
        git(origin, "add", ".")
        git(origin, "commit", "--quiet", "-m", text)
    git(tmp_path, "clone", "--quiet", "--depth", "1", origin.as_uri(), str(checkout))
    (checkout / "junk").write_text("x")
    if changed:
        (checkout / "lesson.txt").write_text("newer")
        (checkout / "added.txt").write_text("added")
    before = git(checkout, "status", "--porcelain"), git(checkout, "count-objects")
    (tmp_path / "work").mkdir()
    bare, state = colab.snapshot(checkout, tmp_path / "work")
    assert (git(checkout, "status", "--porcelain"), git(checkout, "count-objects")) == before
    git(tmp_path, "clone", "--quiet", "--depth", "1", bare.as_uri(), str(tmp_path / "clone"))
    found = {file.name: file.read_text() for file in (tmp_path / "clone").iterdir() if file.is_file()}
    expected = {"lesson.txt": "newer", "added.txt": "added"} if changed else {"lesson.txt": "new"}
    assert found == expected | {".gitignore": "junk\n"}
    head = f"commit {git(checkout, 'rev-parse', '--short', 'HEAD').strip()}"
    assert state == (f"{head} and 2 files that differ from it" if changed else head)


def test_what_cannot_be_rehearsed_is_told_in_a_sentence(tmp_path):
    with pytest.raises(CannotRehearse, match="needs a clone made with git"):
        colab.snapshot(tmp_path, tmp_path)
    with pytest.raises(CannotRehearse, match="99"):
        rehearse.main(["99"])


def test_only_what_colab_lacks_may_be_installed_and_nothing_may_be_replaced():
    before = ["pandas==2.2.3", "torch==2.13.0+cpu"]
    texts = [(ROOT / f"requirements{more}.txt").read_text(encoding="utf-8") for more in ("", "-models")]
    pins = re.findall(r"^(?:bertviz|mpld3)==\S+", "".join(texts), re.MULTILINE)
    assert len(pins) == 2
    good = sorted([*before, *(pin.lower().replace("-", "_") for pin in pins)])
    assert colab.changes(before, good) == ([line for line in good if line not in before], [])
    for after, words in [
        (["pandas==3.1.1", "torch==2.13.0+cpu"], "pandas==2.2.3 was replaced"),
        (["torch==2.13.0+cpu"], "pandas==2.2.3 was replaced or removed"),
        ([*before, "jupyterlab==4.6.6"], "not in COLAB_LACKS"),
        ([*before, "bertviz==1.0"], "not the version"),
    ]:
        (trouble,) = colab.changes(before, after)[1]
        assert words in trouble


def test_plain_message_passes_and_a_riddle_does_not():
    def said(error, trace=""):
        return colab.plain(Played(1, error, trace, "cell x"), "bertviz")

    assert said("ImportError: Colab could not install bertviz==1.4.1. Check the network.") == []
    assert colab.plain(Played(), "bertviz") == ["the set-up cell says nothing"]
    assert "does not name bertviz" in said("ImportError: Something is missing.")[0]
    assert "is long" in said("ImportError: No bertviz. One. Two. Three.")[0]
    assert "CalledProcessError" in said("X: bertviz", "CalledProcessError: Command '['pip']'")[0]


@pytest.mark.slow
def test_kernel_plays_up_to_the_first_error_or_beyond_and_names_its_place(tmp_path):
    sources = ["import os\nprint(os.environ['WORD'], os.path.basename(os.getcwd()))", "1 / 0", "print(2)"]
    cells = [nbformat.v4.new_markdown_cell("# title"), *map(nbformat.v4.new_code_cell, sources)]
    cells[2].id = "wrong"
    cells[3].outputs = [nbformat.v4.new_output("stream", text="stored, and not run")]
    environment = clean_environment() | {"WORD": "hello"}
    played = play(cells, environment, tmp_path)
    assert played.shown == f"hello {tmp_path.name}\n"
    assert played.error == "ZeroDivisionError: division by zero" and played.errors == 1
    assert played.told("07.ipynb").startswith(
        "07.ipynb, cell wrong (number 3 from the top): ZeroDivisionError"
    )
    assert "1 / 0" in played.trace and "\x1b" not in played.trace
    assert play(cells, environment, tmp_path, go_on=True).shown.endswith("2\n")


@pytest.mark.slow
def test_dead_kernel_is_a_failure(tmp_path):
    cell = nbformat.v4.new_code_cell("import os\nos._exit(1)", id="deadly")
    played = play([cell], clean_environment(), tmp_path)
    assert played.error.startswith("DeadKernelError") and "cell deadly" in played.place


@pytest.mark.skipif(os.name != "posix", reason="there kernels talk over TCP")
def test_kernels_of_nbval_cannot_take_each_others_ports():
    one, other = nbval.kernel.KernelManager(), nbval.kernel.KernelManager()
    assert one.transport == other.transport == "ipc" and one.ip != other.ip and Path(one.ip).is_absolute()


@pytest.mark.parametrize(
    "troubles, code, last", [([], 0, "2 passed, 0 failed"), (["x"], 1, "1 passed, 1 failed")]
)
def test_last_line_counts_and_failures_end_with_1(troubles, code, last, monkeypatch, capsys):
    results = [Rehearsal("Colab", "01.ipynb"), Rehearsal("Colab", "02.ipynb", troubles=troubles)]
    monkeypatch.setattr(rehearse, "rehearse", lambda parts, paths: results)
    assert rehearse.main(["colab", "01"]) == code
    assert capsys.readouterr().out.splitlines()[-1] == last


def test_colab_stand_in_holds_nothing_that_colab_lacks():
    holds = {colab.name(line) for line in colab.COLAB_HOLDS + colab.COLAB_HOLDS_ALONE}
    lacks = set(map(colab.name, COLAB_LACKS))
    assert not holds & (lacks | set(colab.COLAB_LACKS_TOO))
    assert set(map(colab.name, WORKS_WITH)) <= holds | lacks
