"""The setup room: what is missing is installed in Colab and named elsewhere."""

import ast
import os
import subprocess
import sys
import types
from importlib import metadata
from pathlib import Path

import pytest

import course
from utils import start

ROOT = Path(__file__).parent.parent


@pytest.fixture
def calls(monkeypatch):
    """Commands that would run, instead of running them; each package counts as installed after its command."""
    asked = []

    def run(command, **options):
        asked.append(command)
        return types.SimpleNamespace(returncode=run.returncode)

    run.returncode = 0
    monkeypatch.setattr(start.subprocess, "run", run)
    asked_and_run = types.SimpleNamespace(asked=asked, run=run)
    return asked_and_run


def lacking(monkeypatch, *packages, calls=None):
    real = start._installed

    def installed(name):
        done = calls is not None and any(
            part.startswith(name + "==") for command in calls.asked for part in command
        )
        return done or (name not in packages and real(name))

    monkeypatch.setattr(start, "_installed", installed)


def test_nothing_is_done_where_everything_is_there(calls):
    start.prepare()
    assert calls.asked == []


def test_outside_colab_it_names_what_is_missing_and_installs_nothing(monkeypatch, calls):
    lacking(monkeypatch, "bertviz", "mpld3")
    with pytest.raises(ImportError, match=r"needs bertviz, mpld3.*make lab"):
        start.prepare()
    assert calls.asked == []


def test_colab_gets_what_it_lacks_once_in_the_pinned_version_and_nothing_else(monkeypatch, calls):
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    lacking(monkeypatch, "bertviz", "XStatic-jQuery", calls=calls)
    start.prepare()
    (command,) = calls.asked
    assert "--no-deps" in command
    assert [part.split("==")[0] for part in command if "==" in part] == ["bertviz", "XStatic-jQuery"]
    pinned = start.REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    assert all(any(line.split()[:1] == [part] for line in pinned) for part in command if "==" in part)
    start.prepare()
    assert len(calls.asked) == 1


def test_colab_without_a_network_gets_a_plain_sentence(monkeypatch, calls):
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    lacking(monkeypatch, "mpld3")
    calls.run.returncode = 1
    with pytest.raises(ImportError, match=r"could not install mpld3==.*network"):
        start.prepare()


def test_jupyter_shows_the_sentence_alone(monkeypatch, calls):
    lacking(monkeypatch, "conllu")
    with pytest.raises(start.PackagesMissing) as caught:
        start.prepare()
    (line,) = caught.value._render_traceback_()
    assert line == f"PackagesMissing: {caught.value}" and "The course needs conllu" in line


def test_colab_gets_whatever_the_rooms_and_the_notebooks_import():
    """All that they import and Colab does not have, by the name that it is imported with."""
    colab_has = {"torch", "numpy", "transformers", "tokenizers", "huggingface_hub", "safetensors"}
    colab_has |= {"pandas", "matplotlib", "PIL", "IPython", "ipywidgets", "tqdm"}
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "utils").glob("*.py")]
    for path in course.paths():
        sources += [cell.source for cell in course.read(path).cells if cell.cell_type == "code"]
    imported = set()
    for node in (node for source in sources for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            imported.add(node.module.split(".")[0])
    others = imported - colab_has - set(sys.stdlib_module_names) - {"utils"}
    packages = metadata.packages_distributions()
    installed = {name for module in others for name in packages[module]}
    assert {"conllu", "SciencePlots"} <= installed <= set(start.COLAB_LACKS)


def test_set_up_cell_of_colab_says_plainly_that_it_cannot_fetch_the_course(tmp_path):
    """In a process of its own, whose git finds nothing at the address of the course."""
    fake = "import sys, types\nsys.modules['google.colab'] = types.ModuleType('google.colab')\n"
    settings = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{(tmp_path / 'nothing').as_uri()}.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/",
    }
    folder = tmp_path / "content"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", fake + course.set_up()],
        cwd=folder,
        env=os.environ | settings,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert (
        done.stderr.strip().splitlines()[-1].startswith("ConnectionError: Colab could not fetch the course. ")
    )
    assert "CalledProcessError" not in done.stderr
    assert not list(folder.iterdir())


def test_every_package_that_colab_lacks_is_pinned():
    text = start.REQUIREMENTS.read_text(encoding="utf-8")
    assert all(f"\n{name}==" in text for name in start.COLAB_LACKS)
