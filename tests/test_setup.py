"""The setup room: what is missing is installed in Colab and named elsewhere."""

import sys
import types

import pytest

from utils import setup


@pytest.fixture
def calls(monkeypatch):
    """Commands that would run, instead of running them; each package counts as installed after its command."""
    asked = []

    def run(command, **options):
        asked.append(command)
        return types.SimpleNamespace(returncode=run.returncode)

    run.returncode = 0
    monkeypatch.setattr(setup.subprocess, "run", run)
    asked_and_run = types.SimpleNamespace(asked=asked, run=run)
    return asked_and_run


def lacking(monkeypatch, *packages, calls=None):
    real = setup._installed

    def installed(name):
        done = calls is not None and any(
            part.startswith(name + "==") for command in calls.asked for part in command
        )
        return done or (name not in packages and real(name))

    monkeypatch.setattr(setup, "_installed", installed)


def test_nothing_is_done_where_everything_is_there(calls):
    setup.prepare()
    assert calls.asked == []


def test_outside_colab_it_names_what_is_missing_and_installs_nothing(monkeypatch, calls):
    lacking(monkeypatch, "bertviz", "mpld3")
    with pytest.raises(ImportError, match=r"needs bertviz, mpld3.*make lab"):
        setup.prepare()
    assert calls.asked == []


def test_colab_gets_what_it_lacks_once_in_the_pinned_version_and_nothing_else(monkeypatch, calls):
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    lacking(monkeypatch, "bertviz", "XStatic-jQuery", calls=calls)
    setup.prepare()
    (command,) = calls.asked
    assert "--no-deps" in command
    assert [part.split("==")[0] for part in command if "==" in part] == ["bertviz", "XStatic-jQuery"]
    pinned = setup.REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    assert all(any(line.split()[:1] == [part] for line in pinned) for part in command if "==" in part)
    setup.prepare()
    assert len(calls.asked) == 1


def test_colab_without_a_network_gets_a_plain_sentence(monkeypatch, calls):
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    lacking(monkeypatch, "mpld3")
    calls.run.returncode = 1
    with pytest.raises(ImportError, match=r"could not install mpld3==.*network"):
        setup.prepare()


def test_every_package_that_colab_lacks_is_pinned():
    text = setup.REQUIREMENTS.read_text(encoding="utf-8")
    assert all(f"\n{name}==" in text for name in setup.COLAB_LACKS)
