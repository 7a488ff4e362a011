"""The make targets, `.ci/environment.py` that makes .venv, `.ci/run`, and the lists of packages."""

import ast
import importlib.metadata
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile
from pathlib import Path

import pytest

import environment

ROOT = Path(__file__).resolve().parents[1]

# ---------------------------------------------------- a machine on which making an environment costs nothing

# Takes the place of Python's venv module. It makes a .venv whose Python is the script below.
FAKE_VENV = """
import os, pathlib, shutil, signal
with open("log", "a") as log:
    log.write("venv ")
os.mkdir(".venv/bin")
shutil.copy("fake/python", ".venv/bin/python")
if os.environ["FAKE"] == "kill venv":
    os.kill(os.getppid(), signal.SIGKILL)
"""

# Answers the question for its version, and writes down each call of pip.
FAKE_PYTHON = """#!/bin/sh
case "$*" in
    *"-m pip install"*)
        printf "pip " >> log
        case "$FAKE" in
            "kill pip") kill -KILL $PPID ;;
            "kill only pip") kill -KILL $$ ;;
            "refuse pip") echo "ERROR: no network" >&2; exit 1 ;;
            "hold pip") until [ -e go-on ]; do sleep 0.05; done ;;
        esac ;;
    *) echo "VERSION" ;;
esac
""".replace("VERSION", f"{sys.version_info.major} {sys.version_info.minor}")


@pytest.fixture
def checkout(tmp_path):
    """What makes .venv, at a path that is hard to quote, with no package to install."""
    folder = tmp_path / "l'été à Köln"
    (folder / ".ci").mkdir(parents=True)
    for name in ("environment.py", "jupyter_config.py"):
        shutil.copy(ROOT / ".ci" / name, folder / ".ci")
    shutil.copy(ROOT / "Makefile", folder)
    (folder / "requirements.txt").write_text("-c constraints.txt\n")
    (folder / "constraints.txt").write_text("")
    return folder


@pytest.fixture
def fake(checkout):
    """The checkout, with a venv module and a pip that only write down that they were called."""
    write_script(checkout / "fake/venv.py", FAKE_VENV)
    write_script(checkout / "fake/python", FAKE_PYTHON)
    return checkout


def write_script(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def start(folder, how="", before="pass"):
    """Start environment.py. `how` tells the fakes what to do; `before` is run first in the same process."""
    script = str(folder / ".ci/environment.py")
    code = f"import runpy; {before}; runpy.run_path({script!r}, run_name='__main__')"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(folder / "fake"), "FAKE": how, "PIP_NO_INDEX": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder, how="", before="pass"):
    """Run environment.py to its end: its exit code, what it printed, and what it called."""
    process = start(folder, how, before)
    out, err = process.communicate()
    log = folder / "log"
    called = log.read_text().split() if log.exists() else []
    log.unlink(missing_ok=True)
    return process.returncode, out + err, called


def make_it_say(folder, version):
    """Make the Python of .venv give this version."""
    python = folder / ".venv/bin/python"
    python.write_text(re.sub(r"(?<=echo \")\d+ \d+", version, python.read_text()))


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)


DID_NOTHING = (0, "", [])


# ------------------------------------------------------------------ when .venv is made, mended and left alone


def test_first_run_installs_and_second_does_nothing(fake):
    assert run(fake)[::2] == (0, ["venv", "pip"])
    assert run(fake) == DID_NOTHING


@pytest.mark.parametrize("name", ["requirements.txt", "constraints.txt"])
def test_a_changed_list_is_installed_in_place(fake, name):
    run(fake)
    with (fake / name).open("a") as file:
        file.write("# another line\n")
    assert run(fake)[::2] == (0, ["pip"])
    assert run(fake) == DID_NOTHING


@pytest.mark.parametrize("how, called", [("kill venv", ["venv"]), ("kill pip", ["venv", "pip"])])
def test_a_killed_first_run_is_started_over(fake, how, called):
    assert run(fake, how)[::2] == (-signal.SIGKILL, called)
    left_over = fake / ".venv/lib/half/a/package.py"
    left_over.parent.mkdir(parents=True)
    left_over.touch()
    assert run(fake)[::2] == (0, ["venv", "pip"])
    assert not left_over.exists()
    assert run(fake) == DID_NOTHING


def test_a_run_killed_before_its_first_word_is_started_over(fake):
    (fake / ".venv").mkdir()
    assert run(fake)[::2] == (0, ["venv", "pip"])


def test_a_killed_update_is_started_over(fake):
    run(fake)
    (fake / "constraints.txt").write_text("# changed\n")
    assert run(fake, "kill pip")[::2] == (-signal.SIGKILL, ["pip"])
    assert run(fake)[::2] == (0, ["venv", "pip"])


def test_an_update_whose_pip_was_killed_is_started_over(fake):
    run(fake)
    (fake / "constraints.txt").write_text("# changed\n")
    assert run(fake, "kill only pip")[::2] == (1, ["pip"])
    assert run(fake)[::2] == (0, ["venv", "pip"])


def test_a_failed_first_install_ends_in_a_plain_sentence_and_is_mended(fake):
    code, text, _ = run(fake, "refuse pip")
    assert code == 1
    assert text.endswith("Check the network connection, then run the same command again.\n")
    assert "Traceback" not in text
    assert run(fake)[::2] == (0, ["venv", "pip"])


def test_a_failed_update_keeps_the_old_environment(fake):
    run(fake)
    (fake / "constraints.txt").write_text("# changed\n")
    assert run(fake, "refuse pip")[::2] == (1, ["pip"])
    assert run(fake)[::2] == (0, ["pip"])


def test_an_environment_made_by_hand_is_kept(fake):
    run(fake)
    (fake / ".venv/course-state").unlink()
    assert run(fake, "refuse pip")[::2] == (1, ["pip"])
    assert run(fake)[::2] == (0, ["pip"])
    assert run(fake) == DID_NOTHING


def test_an_environment_whose_python_is_gone_is_made_anew(fake):
    run(fake)
    python = fake / ".venv/bin/python"
    python.unlink()
    python.symlink_to("/a/removed/python3")
    assert run(fake)[::2] == (0, ["venv", "pip"])


def test_an_environment_whose_python_is_too_old_is_made_anew(fake):
    run(fake)
    (fake / ".venv/course-state").unlink()
    make_it_say(fake, "3 9")
    assert run(fake)[::2] == (0, ["venv", "pip"])


def test_the_state_belongs_to_one_python(fake):
    run(fake)
    make_it_say(fake, "3 99")
    assert run(fake)[::2] == (0, ["pip"])
    note = "Using .venv, made with Python 3.99. To change that, delete .venv first.\n"
    assert run(fake) == (0, note, [])


def test_a_second_run_waits_for_the_first(fake):
    log = fake / "log"
    first = start(fake, "hold pip")
    wait_until(lambda: log.exists() and "pip" in log.read_text(), seconds=30)
    second = start(fake)
    said = second.stdout.readline()
    (fake / "go-on").touch()
    first.communicate()
    second.communicate()
    assert "Waiting" in said
    assert (first.returncode, second.returncode) == (0, 0)
    assert log.read_text().split() == ["venv", "pip"]


@pytest.mark.slow
def test_the_real_venv_and_pip(checkout):
    """Kill them in the middle, let the next run mend it, then use what was installed."""
    files = {
        "tiny.py": "answer = 42",
        "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "tiny-1.0.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(checkout / "tiny-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    (checkout / "requirements.txt").write_text("-c constraints.txt\n./tiny-1.0-py3-none-any.whl\n")

    killed = start(checkout)
    # Then venv is at work, and pip is not there yet.
    wait_until((checkout / ".venv/bin/python").exists, seconds=30)
    killed.kill()
    killed.communicate()
    assert (checkout / ".venv/course-state").read_text() == environment.INSTALLING

    code, text, _ = run(checkout)
    assert code == 0, text
    use = [".venv/bin/python", "-c", "import tiny; print(tiny.answer)"]
    assert subprocess.check_output(use, cwd=checkout, text=True) == "42\n"
    assert run(checkout) == DID_NOTHING


# ------------------------------------------------------------------ what is refused, in plain sentences


@pytest.mark.parametrize(
    "before, what, advice",
    [
        ("import sys; sys.version_info = (3, 10, 13)", "this is Python 3.10", "make lab PYTHON=python3.12"),
        ("import sys; sys.modules['ensurepip'] = None", "venv module is missing", "apt install python3."),
        ("import sys; sys.modules['venv'] = None", "venv module is missing", "apt install python3."),
    ],
)
def test_an_unfit_python_is_refused_before_anything_is_made(fake, before, what, advice):
    files = sorted(fake.rglob("*"))
    code, text, called = run(fake, before=before)
    assert (code, called) == (1, [])
    assert what in text
    assert advice in text
    assert len(text.strip().splitlines()) == 1
    assert sorted(fake.rglob("*")) == files


def test_an_old_python_is_enough_once_the_environment_stands(fake):
    run(fake)
    assert run(fake, before="import sys; sys.version_info = (3, 9, 18)") == DID_NOTHING


def test_a_venv_that_cannot_be_written_is_refused(fake):
    (fake / ".venv").write_text("a file where the folder should be")
    code, text, called = run(fake)
    assert (code, called) == (1, [])
    sentence = text.strip().splitlines()[-1]
    assert sentence.startswith("The folder .venv cannot be written")
    assert "Traceback" not in text


def test_environment_is_read_by_an_old_python_and_needs_no_package():
    tree = ast.parse((ROOT / ".ci/environment.py").read_text(), feature_version=(3, 6))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {alias.name.split(".")[0] for node in imports for alias in node.names}
    assert "subprocess" in names
    assert names <= sys.stdlib_module_names


def test_make_without_python_says_what_to_do(checkout):
    answer = make("test", "PYTHON=no-such-python", cwd=checkout)
    assert answer.returncode != 0
    assert answer.stdout == ""
    sentence, *noise = answer.stderr.strip().splitlines()
    assert sentence.startswith('No Python 3 answers to the name "no-such-python".')
    assert "make lab PYTHON=python3.12" in sentence
    assert len(noise) <= 1  # the line that make itself adds
    assert not (checkout / ".venv").exists()


# ------------------------------------------------------------------ the Makefile


def make(*arguments, cwd=ROOT, **variables):
    # Without the flags of the make that may be running these tests.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", *arguments], cwd=cwd, env=inherited | variables, capture_output=True, text=True
    )


def targets():
    return re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_make_help_lists_every_target():
    lines = make().stdout.splitlines()
    assert {line.split()[1] for line in lines} == set(targets()) - {"python"}  # a step, not a command
    assert all(re.fullmatch(r"make [a-z-]+ +\S.*", line) for line in lines)
    promised = re.findall(r"^\| `make ([a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert promised
    assert set(promised) <= set(targets())


def test_no_target_is_taken_for_a_file(checkout):
    for name in targets():
        (checkout / name).touch()
        assert "up to date" not in make("-n", name, cwd=checkout).stdout


def test_make_lab_fits_the_machine():
    no_screen = make("-n", "lab", "ARGS=--port=9999", DISPLAY="", WAYLAND_DISPLAY="").stdout
    assert ("--no-browser" in no_screen) == sys.platform.startswith("linux")
    assert ("--allow-root" in no_screen) == (os.geteuid() == 0)
    assert no_screen.rstrip().endswith("--port=9999")
    assert "--no-browser" not in make("-n", "lab", DISPLAY=":0", WAYLAND_DISPLAY="").stdout
    assert "--no-browser" not in make("-n", "lab", DISPLAY="", WAYLAND_DISPLAY="wayland-0").stdout


def test_make_publish_hands_on_the_name():
    assert make("-n", "publish", "REPO=a/b").stdout.rstrip().endswith(".ci/course.py publish a/b")
    assert make("-n", "publish").stdout.rstrip().endswith(".ci/course.py publish")


@pytest.mark.slow
def test_make_lab_opens_the_first_notebook(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    if Path(sys.prefix) != ROOT / ".venv":
        pytest.skip("these tests do not run in the .venv of this checkout, so make lab would make another")
    if not environment.is_done(sys.version_info[:2]):
        pytest.skip("the .venv of this checkout is not from make, so make lab would install into it")

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for name in ("CONFIG", "DATA", "RUNTIME"):  # not this person's settings, workspaces and servers
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name))
    command = ["make", "lab", f"PYTHON={sys.executable}", f"ARGS=--port={port} --no-browser"]
    log = tmp_path / "log"
    with log.open("w") as file:
        lab = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, process_group=0)
    try:
        address = rf"http://127\.0\.0\.1:{port}(/lab/tree/notebooks/01_tokenization\.ipynb)\?token=(\w+)\n"
        wait_until(lambda: re.search(address, log.read_text()) or lab.poll() is not None, seconds=60)
        found = re.search(address, log.read_text())
        assert found, log.read_text()
        path, token = found.groups()

        def listens():  # the address is printed a moment before
            with socket.socket() as client:
                return client.connect_ex(("127.0.0.1", port)) == 0

        wait_until(listens, seconds=30)

        def get(path):
            # No proxy stands between this machine and itself.
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"http://127.0.0.1:{port}{path}?token={token}", timeout=30) as answer:
                return answer.read().decode()

        assert "<title>JupyterLab</title>" in get("/lab")
        assert "<title>JupyterLab</title>" in get(path)
        assert json.loads(get("/api/contents/notebooks/01_tokenization.ipynb"))["type"] == "notebook"
        # "none" would ask a question at the first start.
        settings = json.loads(get("/lab/api/settings/@jupyterlab/apputils-extension:notification"))
        assert settings["schema"]["properties"]["fetchNews"]["default"] == "false"
    finally:
        os.killpg(lab.pid, signal.SIGTERM)
        lab.wait(timeout=30)


# ------------------------------------------------------------------ .ci/run


@pytest.fixture
def ci(tmp_path):
    """A function that runs .ci/run where nothing but stand-ins is installed: its exit code and its calls."""
    programs, log = tmp_path / "bin", tmp_path / "log"
    bash = shutil.which("bash")
    write_script(programs / "id", "#!/bin/sh\necho $ID")
    write_script(programs / "apt-get", '#!/bin/sh\necho "apt-get $1 $DEBIAN_FRONTEND" >> "$LOG"; exit $APT')
    write_script(programs / "make", '#!/bin/sh\necho "make $1 $COURSE_REQUIRE_BROWSER" >> "$LOG"; exit $MAKE')
    (programs / "dirname").symlink_to(shutil.which("dirname"))

    def run_ci(*installed, make=0, apt=0, user=0):
        for name in installed:
            write_script(programs / name, "#!/bin/sh\n")
        variables = {"PATH": programs, "LOG": log, "ID": str(user), "APT": str(apt), "MAKE": str(make)}
        answer = subprocess.run([bash, ROOT / ".ci/run"], env=variables, stdin=subprocess.DEVNULL)
        return answer.returncode, log.read_text().splitlines()

    return run_ci


TESTS = ["make test 1", "make test-portable 1", "make rehearse 1"]
INSTALLS = ["apt-get update noninteractive", "apt-get install noninteractive"]


def test_ci_installs_a_missing_chromium(ci):
    assert ci() == (0, INSTALLS + TESTS)


@pytest.mark.parametrize("name", ["chromium", "chromium-browser", "google-chrome"])
def test_ci_uses_the_browser_that_is_there(ci, name):
    assert ci(name) == (0, TESTS)


def test_ci_installs_nothing_when_it_may_not(ci):
    assert ci(user=1000) == (0, TESTS)


def test_ci_leaves_it_to_the_tests_to_miss_the_browser(ci):
    assert ci(apt=100) == (0, INSTALLS[:1] + TESTS)


def test_ci_fails_when_the_tests_fail(ci):
    assert ci("chromium", make=2) == (2, TESTS[:1])


# ------------------------------------------------------------------ the lists of packages


def lines_of(name):
    return [line for line in (ROOT / name).read_text().splitlines() if line and not line.startswith("#")]


def pinned(lines):
    return {environment.normal(line.split("==")[0]) for line in lines}


def direct():
    return [line for line in lines_of("requirements.txt") if line != "-c constraints.txt"]


def brought_along(*names):
    """These packages and everything they bring along, as installed here."""
    packages = importlib.metadata.distributions()
    installed = {environment.normal(each.name): {"requires_dist": each.requires or []} for each in packages}
    return set().union(*(environment.closure(name, installed) for name in names)) & set(installed)


def test_every_requirement_is_pinned_and_has_its_reason():
    assert "-c constraints.txt" in lines_of("requirements.txt")
    assert len(direct()) > 20
    for line in direct():
        assert re.fullmatch(r"[\w.-]+==[\w.]+ +# \w.{8,}", line), line


def test_constraints_pin_exactly_and_for_every_platform():
    lines = lines_of("constraints.txt")
    assert len(lines) > 50
    for line in lines:
        assert re.fullmatch(r"[\w.-]+==[\w.]+", line), line  # "+cpu" would name one machine's build


def test_constraints_hold_what_is_brought_along_and_nothing_else():
    """When this fails after a change to requirements.txt, run `make constraints`."""
    constrained = pinned(lines_of("constraints.txt"))
    of_torch = brought_along("torch")
    assert len(of_torch) > 5
    assert constrained & of_torch == set()
    assert constrained & pinned(direct()) == set()
    assert brought_along(*pinned(direct())) - of_torch - pinned(direct()) <= constrained


def test_a_build_of_torch_for_another_platform_is_left_out_with_all_it_brings():
    resolved = {
        "torch": {"requires_dist": ["Gpu_Lib==1; platform_system == 'Linux'", "extra-lib; extra == 'extra'"]},
        "gpu-lib": {"requires_dist": ["gpu-base (>=2)", "torch"]},
        "gpu-base": {},
        "extra-lib": {},
    }
    assert environment.closure("torch", resolved) == {"torch", "gpu-lib", "gpu-base"}
