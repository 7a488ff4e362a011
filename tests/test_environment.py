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
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import environment

ROOT = Path(__file__).resolve().parents[1]
THIS = environment.dotted(sys.version_info)

# ---------------------------------------------------- a machine on which making an environment costs nothing

# Takes the place of Python's venv module. The Python of its .venv is a script, and the uv that pip installs is, too.
# Each writes down that it was called; `kill` ends environment.py, `die` the script alone.
FAKE_VENV = """
import os, shutil, subprocess
shutil.rmtree(".venv")
shutil.copytree("fake/bin", ".venv/bin")
os.remove(".venv/bin/uv")
subprocess.call(["fake/log", "venv", str(os.getppid())])
"""
FAKE_SCRIPTS = {
    "log": """#!/bin/sh
        printf "%s " "$1" >> log
        case "$FAKE" in
            "kill $1") kill -KILL $2 ;;
            "die $1") kill -KILL $PPID ;;
            "refuse $1") echo "ERROR: no network" >&2; exit 1 ;;
            "hold $1") until [ -e go-on ]; do sleep 0.05; done ;;
        esac""",
    "bin/python": f"""#!/bin/sh
        case "$*" in
            *"pip install"*) fake/log pip $PPID && cp fake/bin/uv .venv/bin ;;
            *"pip config"*) ;;
            *) echo {THIS} ;;
        esac""",
    "bin/uv": """#!/bin/sh
        case "$1" in
            venv) fake/log search $PPID && rm .venv/bin/uv ;;
            pip) fake/log uv $PPID ;;
        esac""",
}


@pytest.fixture
def checkout(tmp_path):
    """What makes .venv, at a path that is hard to quote, with no package to install."""
    folder = tmp_path / "l'été à Köln"
    (folder / ".ci").mkdir(parents=True)
    for name in (".ci/environment.py", ".ci/jupyter_config.py", "Makefile"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "requirements.txt").write_text("-c constraints.txt\n")
    (folder / "constraints.txt").write_text("")
    return folder


@pytest.fixture
def fake(checkout):
    """The checkout, with a venv module, a pip and a uv that only write down that they were called."""
    for name, text in FAKE_SCRIPTS.items():
        write_script(checkout / "fake" / name, text)
    (checkout / "fake/venv.py").write_text(FAKE_VENV)
    return checkout


def write_script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def start(folder, how="", before="pass", **variables):
    """Start environment.py. `how` tells the fakes what to do; `before` is run first in the same process."""
    script = str(folder / ".ci/environment.py")
    command = [
        sys.executable,
        "-c",
        f"import runpy; {before}; runpy.run_path({script!r}, run_name='__main__')",
    ]
    env = os.environ | {"PYTHONPATH": str(folder / "fake"), "FAKE": how} | variables
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(folder, how="", before="pass", **variables):
    """Run environment.py to its end: its exit code, what it printed, and what it called."""
    process = start(folder, how, before, **variables)
    out, err = process.communicate()
    log = folder / "log"
    called = log.read_text().strip() if log.exists() else ""
    log.unlink(missing_ok=True)
    assert "Traceback" not in err
    return process.returncode, out + err, called


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)


DID_NOTHING = (0, "", "")
ANEW = "venv pip uv"
OLD_PYTHON = "import sys; sys.version_info = (3, 10, 13)"


# ------------------------------------------------------------------ when .venv is made, mended and left alone


@pytest.mark.parametrize("name", ["requirements.txt", "constraints.txt", ".ci/jupyter_config.py"])
def test_second_run_does_nothing_and_a_changed_file_is_installed_in_place(fake, name):
    assert run(fake)[::2] == (0, ANEW)
    assert run(fake) == DID_NOTHING
    with (fake / name).open("a") as file:
        file.write("# another line\n")
    assert run(fake)[::2] == (0, "uv")
    assert run(fake) == DID_NOTHING
    other = f"import sys; sys.version_info = (3, {14 if sys.version_info[1] < 14 else 13}, 0)"
    assert f"made with Python {THIS}" in run(fake, before=other)[1]
    config = (fake / ".ci/jupyter_config.py").read_text()
    assert (fake / ".venv/etc/jupyter/jupyter_server_config.py").read_text() == config


@pytest.mark.parametrize(
    "stood, how, code, called, mended",
    [
        (False, "kill venv", -signal.SIGKILL, "venv", ANEW),
        (False, "kill pip", -signal.SIGKILL, "venv pip", ANEW),
        (False, "kill uv", -signal.SIGKILL, "venv pip uv", ANEW),
        (False, "refuse pip", 1, "venv pip", ANEW),
        (False, "refuse uv", 1, "venv pip uv", ANEW),
        (True, "kill uv", -signal.SIGKILL, "uv", ANEW),
        (True, "die uv", 1, "uv", ANEW),
        (True, "refuse uv", 1, "uv", "uv"),  # it has changed nothing
    ],
)
def test_what_a_killed_or_failed_run_leaves_is_mended(fake, stood, how, code, called, mended):
    if stood:
        run(fake)
        (fake / "constraints.txt").write_text("# changed\n")
    ended, text, was = run(fake, how)
    assert (ended, was) == (code, called)
    assert code < 0 or text.endswith("Check the network connection, then run the same command again.\n")
    (fake / ".venv/half a package").touch()
    assert run(fake)[::2] == (0, mended)
    assert (fake / ".venv/half a package").exists() == (mended != ANEW)
    assert run(fake) == DID_NOTHING


@pytest.mark.parametrize(
    "spoil",
    [
        "rm .venv/course-stamp",
        "rm .venv/bin/python",
        "rm -r .venv/bin",
        "echo 'echo 3.99' > .venv/bin/python",
    ],
)
def test_a_venv_that_is_not_whole_is_made_anew(fake, spoil):
    run(fake)
    subprocess.run(spoil, shell=True, cwd=fake, check=True)
    assert run(fake)[::2] == (0, ANEW)


def test_what_a_link_leads_to_is_left_alone(fake):
    (fake / "theirs").mkdir()
    (fake / "theirs/file").touch()
    (fake / ".venv").symlink_to("theirs")
    assert run(fake)[::2] == (0, ANEW)
    assert os.listdir(fake / "theirs") == ["file"]


def test_a_second_run_waits_for_the_first(fake):
    log = fake / "log"
    first = start(fake, "hold uv")
    wait_until(lambda: log.exists() and "uv" in log.read_text(), seconds=30)
    second = start(fake)
    said = second.stdout.readline()
    (fake / "go-on").touch()
    first.communicate()
    second.communicate()
    assert "Waiting" in said
    assert (first.returncode, second.returncode) == (0, 0)
    assert log.read_text().strip() == ANEW


@pytest.mark.slow
def test_the_real_venv_pip_and_uv(checkout, tmp_path):
    """Kill them in the middle, let the next run mend it, then use what came from where pip's settings lead."""
    pytest.importorskip("uv", reason="this environment is not from make, so there is no uv to install")
    name = environment.UV_PINNED.replace("==", "-")
    with zipfile.ZipFile(tmp_path / f"{name}-py3-none-any.whl", "w") as wheel:
        for file in importlib.metadata.files("uv"):
            wheel.write(file.locate(), str(file).replace("../../../bin", f"{name}.data/scripts"))
    with zipfile.ZipFile(tmp_path / "tiny-1.0-py3-none-any.whl", "w") as wheel:
        tag = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr("tiny.py", "answer = 42")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", tag)
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    (checkout / "requirements.txt").write_text("-c constraints.txt\ntiny==1.0\n")
    settings = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}

    killed = start(checkout, **settings)
    wait_until((checkout / ".venv/bin/python").exists, seconds=30)  # venv is at work, and pip not there yet
    killed.kill()
    killed.communicate()
    code, text, _ = run(checkout, **settings)
    assert code == 0, text
    use = [".venv/bin/python", "-c", "import pip, tiny; print(tiny.answer)"]  # pip, for %pip in notebooks
    assert subprocess.check_output(use, cwd=checkout, text=True) == "42\n"
    assert run(checkout) == DID_NOTHING


# ------------------------------------------------------------------ what uv is told


def test_uv_gets_the_settings_of_pip(monkeypatch, tmp_path):
    """A variable wins over the section [install], and that over [global]. What is set for uv stays."""
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://a/simple\nextra-index-url =\n    https://b/simple\n    https://c/simple\n"
        "cert = /global.pem\nproxy = http://global\n[install]\ncert = /install.pem\nproxy = http://install\n"
    )
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_", "SSL_", "ALL_PROXY"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_FIND_LINKS", "/one /two")
    monkeypatch.setenv("PIP_PROXY", "http://variable")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://mine/simple")
    monkeypatch.setattr(environment, "PYTHON", sys.executable)
    said = environment.uv_settings()
    assert {name: said[name] for name in said if os.environ.get(name) != said[name]} == {
        "UV_INDEX": "https://b/simple https://c/simple",
        "UV_FIND_LINKS": "/one,/two",
        "SSL_CERT_FILE": "/install.pem",
        "ALL_PROXY": "http://variable",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_PYTHON": sys.executable,
    }
    assert said["UV_DEFAULT_INDEX"] == "https://mine/simple"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the usual index has the small build")
@pytest.mark.parametrize(
    "usual, auto, chosen, backend",
    [
        ("2.0+cpu", "2.0+cu1", None, {}),  # pip's settings lead to a build
        ("2.0", "2.0+cpu", None, {"UV_TORCH_BACKEND": "auto"}),
        ("2.0", "", None, {}),  # PyTorch's index does not answer
        ("2.0", "2.0+cpu", "cu1", {}),  # the user has chosen
    ],
)
def test_which_build_of_torch(usual, auto, chosen, backend, monkeypatch, tmp_path, capsys):
    answer = f'[ "$UV_TORCH_BACKEND" ] && echo "{auto}" || echo "{usual}"'
    write_script(tmp_path / "uv", f"#!/bin/sh\n{answer}\n")
    (tmp_path / "requirements.txt").write_text("torch==2.0  # tensors\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(environment, "UV", str(tmp_path / "uv"))
    monkeypatch.setattr(environment, "uv_settings", lambda: dict(os.environ))
    monkeypatch.delenv("UV_TORCH_BACKEND", raising=False)
    if chosen:
        monkeypatch.setenv("UV_TORCH_BACKEND", chosen)
    assert environment.torch_backend() == backend
    assert bool(capsys.readouterr().out) == (auto == "")


# ------------------------------------------------------------------ what is refused, in plain sentences


@pytest.mark.parametrize("version", ["(3, 7, 1)", "(3, 10, 13)", "(3, 15, 0)"])
def test_a_python_that_does_not_fit_finds_another_or_is_told_which_to_install(fake, version):
    before = f"import sys; sys.version_info = {version}"
    for how, called in {"refuse pip": "venv pip", "refuse search": "venv pip search"}.items():
        code, text, was = run(fake, how, before)
        assert (code, was) == (1, called)
        assert re.search(r"\n.* Python 3\.11 to 3\.14.* make lab PYTHON=python3\.1\d\n$", text)
    assert run(fake, before=before)[::2] == (0, "venv pip search pip uv")
    assert run(fake, before=before) == DID_NOTHING


@pytest.mark.parametrize("module", ["ensurepip", "venv"])
@pytest.mark.parametrize(
    "before, advice", [("import sys", "apt install"), (OLD_PYTHON, "Python 3.11 to 3.14")]
)
def test_a_python_without_venv_is_refused_before_anything_is_made(fake, module, before, advice):
    files = sorted(fake.rglob("*"))
    code, text, called = run(fake, before=f"{before}; sys.modules[{module!r}] = None")
    assert (code, called) == (1, "")
    assert advice in text and len(text.strip().splitlines()) == 1
    assert sorted(fake.rglob("*")) == files


def test_a_venv_that_cannot_be_written_is_refused(fake):
    (fake / ".venv").write_text("a file where the folder should be")
    code, text, called = run(fake)
    assert (code, called) == (1, "")
    assert text.strip().splitlines()[-1].startswith("The folder .venv cannot be written")


def test_environment_is_read_by_an_old_python_and_needs_no_package():
    tree = ast.parse((ROOT / ".ci/environment.py").read_text(), feature_version=(3, 6))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {alias.name.split(".")[0] for node in imports for alias in node.names} <= sys.stdlib_module_names


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


@pytest.mark.slow
def test_make_lab_opens_the_first_notebook(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    if Path(sys.prefix) != ROOT / ".venv":
        pytest.skip("these tests do not run in the .venv of this checkout, so make lab would make another")
    if environment.read_stamp() != environment.digest(environment.venv_version()):
        pytest.skip("the .venv of this checkout is not from make, so make lab would install into it")

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for name in ("CONFIG", "DATA", "RUNTIME"):  # not this person's settings, workspaces and servers
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name))
    command = ["make", "lab", f"PYTHON={sys.executable}", f"ARGS=--port={port} --no-browser"]
    log = tmp_path / "log"
    with log.open("w") as file:
        lab = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, process_group=0)

    def listens():
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_until(lambda: listens() or lab.poll() is not None, seconds=90)
        address = rf"http://127\.0\.0\.1:{port}(/lab/tree/notebooks/01_tokenization\.ipynb)\?token=(\w+)\n"
        found = re.search(address, log.read_text())
        assert found, log.read_text()
        path, token = found.groups()

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


TESTS = [
    f"make {target} 1" for target in ("site-environment", "validate", "test", "test-portable", "rehearse")
]
INSTALLS = ["apt-get update noninteractive", "apt-get install noninteractive"]


@pytest.mark.parametrize(
    "machine, code, called",
    [
        ({}, 0, INSTALLS + TESTS),
        *(({"HAS": name}, 0, TESTS) for name in ("chromium", "chromium-browser", "google-chrome")),
        ({"ID": "1000"}, 0, TESTS),  # it may install nothing
        ({"APT": "100"}, 0, INSTALLS[:1] + TESTS),  # the tests will miss the browser
        ({"HAS": "chromium", "MAKE": "2"}, 2, TESTS[:1]),
    ],
)
def test_ci_installs_a_missing_chromium_and_runs_everything(machine, code, called, tmp_path):
    """Where nothing but stand-ins is installed."""
    for name, text in {
        "id": "echo ${ID:-0}",
        "apt-get": 'echo "apt-get $1 $DEBIAN_FRONTEND" >> "$LOG"; exit ${APT:-0}',
        "make": 'echo "make $1 $COURSE_REQUIRE_BROWSER" >> "$LOG"; exit ${MAKE:-0}',
        machine.get("HAS", "another"): "",
    }.items():
        write_script(tmp_path / "bin" / name, f"#!/bin/sh\n{text}\n")
    (tmp_path / "bin/dirname").symlink_to(shutil.which("dirname"))
    log = tmp_path / "log"
    variables = {"PATH": str(tmp_path / "bin"), "LOG": str(log)} | machine
    ran = subprocess.run([shutil.which("bash"), ROOT / ".ci/run"], env=variables, stdin=subprocess.DEVNULL)
    assert (ran.returncode, log.read_text().splitlines()) == (code, called)


# ------------------------------------------------------------------ the lists of packages


def lines_of(name):
    return [line for line in (ROOT / name).read_text().splitlines() if line and not line.startswith("#")]


def pinned(lines):
    return {canonicalize_name(line.split("==")[0]) for line in lines}


def direct():
    return [line for line in lines_of("requirements.txt") if line != "-c constraints.txt"]


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


def test_every_requirement_is_pinned_and_has_its_reason():
    assert "-c constraints.txt" in lines_of("requirements.txt")
    assert len(direct()) > 20
    for line in direct():
        assert re.fullmatch(r"[\w.-]+==[\w.]+ +# \w.{8,}", line), line


def test_constraints_hold_what_is_brought_along_for_every_platform():
    """When this fails after a change to requirements.txt, run `make constraints`."""
    lines = lines_of("constraints.txt")
    for line in lines:
        assert re.fullmatch(r"[\w.-]+==[\w.]+( ; .+)?", line), line  # "+cpu" would name one machine's build
    assert len(pinned(lines)) == len(lines)  # one version each, for every Python
    assert not [line for line in lines if re.match("torch|triton|nvidia|cuda", line)]
    assert pinned(lines) & pinned(direct()) == set()
    assert brought_along(pinned(direct())) - pinned(direct()) <= pinned(lines)
