"""The parts of `make rehearse` that decide what passes there."""

import os
import subprocess
from pathlib import Path

import nbformat
import pytest
from local_hub import LocalHub
from random_checkpoints import make_checkpoint

import course
import rehearsal_colab as colab
import rehearsal_models as models
import rehearse
from rehearsal_stage import CannotRehearse, Played, Rehearsal, clean_environment, play

ROOT = Path(__file__).parent.parent


def git(folder, *arguments):
    who = {f"GIT_{role}_{what}": "test" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    command = ["git", "-C", str(folder), *arguments]
    done = subprocess.run(command, env=os.environ | who, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def checkout(tmp_path):
    """A small git checkout with an ignored file and a history of two commits."""
    folder = tmp_path / "mein Kurs é"
    folder.mkdir()
    git(folder, "init", "--quiet")
    for text in ("old", "new"):
        (folder / "lesson.txt").write_text(text)
        (folder / ".gitignore").write_text("junk\n")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", text)
    (folder / "junk").write_text("x")
    return folder


def cloned(bare, folder):
    """The files of a clone made as the set-up cell makes it: name to text."""
    command = ["git", "clone", "--quiet", "--depth", "1", bare.as_uri(), str(folder)]
    subprocess.run(command, check=True)
    return {file.name: file.read_text() for file in folder.iterdir() if file.is_file()}


def test_clean_checkout_is_rehearsed_as_committed(checkout, tmp_path):
    bare, state = colab.snapshot(checkout, tmp_path)
    assert cloned(bare, tmp_path / "clone") == {"lesson.txt": "new", ".gitignore": "junk\n"}
    assert state == f"commit {git(checkout, 'rev-parse', '--short', 'HEAD').strip()}"


def test_changes_are_rehearsed_too_and_leave_the_checkout_alone(checkout, tmp_path):
    (checkout / "lesson.txt").write_text("newer")
    (checkout / "added.txt").write_text("added")
    before = git(checkout, "status", "--porcelain"), git(checkout, "count-objects")
    bare, state = colab.snapshot(checkout, tmp_path)
    found = cloned(bare, tmp_path / "clone")
    assert found == {"lesson.txt": "newer", "added.txt": "added", ".gitignore": "junk\n"}
    assert state.endswith("and 2 files that differ from it")
    assert (git(checkout, "status", "--porcelain"), git(checkout, "count-objects")) == before


def test_shallow_checkout_will_do(checkout, tmp_path):
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth", "1", checkout.as_uri(), str(shallow))
    (tmp_path / "work").mkdir()
    bare, _ = colab.snapshot(shallow, tmp_path / "work")
    assert cloned(bare, tmp_path / "clone")["lesson.txt"] == "new"


def test_folder_without_git_is_named_in_a_sentence(tmp_path):
    with pytest.raises(CannotRehearse, match="needs a clone made with git"):
        colab.snapshot(tmp_path, tmp_path)


def pin(package):
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    return next(line.split()[0].lower() for line in text.splitlines() if line.startswith(f"{package}=="))


def test_only_what_colab_lacks_may_be_installed_and_nothing_may_be_replaced():
    before = ["pandas==2.2.3", "torch==2.13.0+cpu"]
    good = sorted([*before, pin("bertviz"), pin("XStatic-jQuery").replace("-", "_")])
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
    def said(error, trace="", seconds=1.0):
        played = Played([seconds], 1, error, trace, "cell x")
        return colab.plain(played, "bertviz")

    assert said("ImportError: Colab could not install bertviz==1.4.1. Check the network.") == []
    assert colab.plain(Played([0.1]), "bertviz") == ["the set-up cell says nothing"]
    assert "does not name bertviz" in said("ImportError: Something is missing.")[0]
    assert "is long" in said("ImportError: No bertviz. One. Two. Three.")[0]
    assert "CalledProcessError" in said("X: bertviz", "CalledProcessError: Command '['pip']'")[0]
    assert "seconds" in said("X: bertviz", seconds=9.0)[0]


def test_kernel_plays_up_to_the_first_error_and_names_its_place(tmp_path):
    cells = [
        nbformat.v4.new_markdown_cell("# title"),
        nbformat.v4.new_code_cell("import os\nprint(os.environ['WORD'], os.path.basename(os.getcwd()))"),
        nbformat.v4.new_code_cell("1 / 0", id="wrong"),
        nbformat.v4.new_code_cell("print('after')"),
    ]
    played = play(cells, clean_environment() | {"WORD": "hello"}, tmp_path)
    assert played.shown == f"hello {tmp_path.name}\n"
    assert played.error == "ZeroDivisionError: division by zero" and played.errors == 1
    assert played.told("07.ipynb").startswith(
        "07.ipynb, cell wrong (number 3 from the top): ZeroDivisionError"
    )
    assert "1 / 0" in played.trace and "\x1b" not in played.trace


def test_dead_kernel_is_a_failure(tmp_path):
    cell = nbformat.v4.new_code_cell("import os\nos._exit(1)", id="deadly")
    played = play([cell], clean_environment(), tmp_path)
    assert played.error.startswith("DeadKernelError") and "cell deadly" in played.place


@pytest.mark.parametrize(
    "troubles, code, last", [([], 0, "2 passed, 0 failed"), (["x"], 1, "1 passed, 1 failed")]
)
def test_last_line_counts_and_failures_end_with_1(troubles, code, last, monkeypatch, capsys):
    results = [Rehearsal("Colab", "01.ipynb"), Rehearsal("Colab", "02.ipynb", troubles=troubles)]
    monkeypatch.setattr(rehearse, "rehearse", lambda parts, paths: results)
    assert rehearse.main(["colab", "01"]) == code
    assert capsys.readouterr().out.splitlines()[-1] == last


def test_unknown_notebook_is_named():
    with pytest.raises(CannotRehearse, match="99"):
        rehearse.main(["99"])


def test_colab_stand_in_holds_nothing_that_colab_lacks():
    from utils.start import COLAB_LACKS, NOTEBOOKS_USE

    holds = {colab.name(line.replace(".*", "")) for line in colab.COLAB_HOLDS + colab.COLAB_HOLDS_ALONE}
    lacks = {colab.name(package) for package in COLAB_LACKS}
    assert not holds & colab.COLAB_LACKS
    assert lacks <= colab.COLAB_LACKS
    assert {colab.name(package) for package in NOTEBOOKS_USE} <= holds | lacks


@pytest.mark.slow
def test_first_notebook_runs_with_a_model_of_the_hub_and_not_without(tmp_path):
    """As `make rehearse` does it for every notebook, here with thin layers."""
    first, owner = course.paths()[0], models.OWNERS[models.ORIGINAL]
    thin = make_checkpoint(models.ORIGINAL, tmp_path / "thin", hidden_size=96, intermediate_size=96)
    with LocalHub({owner: thin}, moved={models.ORIGINAL: owner}) as hub:
        assert models.downloaded(first, hub, tmp_path / "cache").troubles == []
        silent = models.environment(models.ORIGINAL, hub.url, tmp_path / "empty") | {"HF_HUB_OFFLINE": "1"}
        played = play(course.read(first).cells, silent, course.NOTEBOOKS)
    assert "CheckpointError: bert-base-uncased is not complete in the cache" in played.error
