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

# Takes the place of Python's venv module. It makes a .venv whose Python is the script below.
FAKE_VENV = """
import os, shutil, signal
with open("log", "a") as log:
    log.write("venv ")
shutil.rmtree(".venv")
shutil.copytree("fake/bin", ".venv/bin")
os.remove(".venv/bin/uv")
if os.environ["FAKE"] == "kill venv":
    os.kill(os.getppid(), signal.SIGKILL)
"""

# Each writes down what is asked of it. `kill` ends environment.py, `die` only the script itself.
FAKE_SCRIPT = """#!/bin/sh
log() {
    printf "%s " "$1" >> log
    case "$FAKE" in
        "kill $1") kill -KILL $PPID ;;
        "die $1") kill -KILL $$ ;;
        "refuse $1") echo "ERROR: no network" >&2; exit 1 ;;
        "hold $1") until [ -e go-on ]; do sleep 0.05; done ;;
    esac
}
"""
FAKE_PYTHON = f"""{FAKE_SCRIPT}
case "$*" in
    *"pip install"*) log pip; cp fake/bin/uv .venv/bin/uv ;;
    *"pip config"*) ;;
    *) echo {THIS} ;;
esac
"""
FAKE_UV = f"""{FAKE_SCRIPT}
case "$1" in
    venv) log search; rm .venv/bin/uv ;;
    pip) log uv ;;
esac
"""


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
    """The checkout, with a venv module, a pip and a uv that only write down that they were called."""
    for name, text in {"venv.py": FAKE_VENV, "bin/python": FAKE_PYTHON, "bin/uv": FAKE_UV}.items():
        write_script(checkout / "fake" / name, text)
    return checkout


def write_script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def start(folder, how="", before="pass", **variables):
    """Start environment.py. `how` tells the fakes what to do; `before` is run first in the same process."""
    script = str(folder / ".ci/environment.py")
    code = f"import runpy; {before}; runpy.run_path({script!r}, run_name='__main__')"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(folder / "fake"), "FAKE": how} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder, how="", before="pass", **variables):
    """Run environment.py to its end: its exit code, what it printed, and what it called."""
    process = start(folder, how, before, **variables)
    out, err = process.communicate()
    log = folder / "log"
    called = log.read_text() if log.exists() else ""
    log.unlink(missing_ok=True)
    return process.returncode, out + err, called.strip()


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)


def change_list(folder):
    (folder / "constraints.txt").write_text("# changed\n")


def say_python(version):
    """A change to a .venv: its Python says another version."""

    def change(folder):
        python = folder / ".venv/bin/python"
        python.write_text(python.read_text().replace(f"echo {THIS}", f"echo {version}"))

    return change


DID_NOTHING = (0, "", "")
ANEW = (0, "venv pip uv")
OLD_PYTHON = "import sys; sys.version_info = (3, 10, 13)"


# ------------------------------------------------------------------ when .venv is made, mended and left alone


def test_first_run_installs_and_second_does_nothing(fake):
    assert run(fake)[::2] == ANEW
    assert run(fake) == DID_NOTHING


@pytest.mark.parametrize("name", ["requirements.txt", "constraints.txt", ".ci/jupyter_config.py"])
def test_a_changed_file_is_installed_in_place(fake, name):
    run(fake)
    with (fake / name).open("a") as file:
        file.write("# another line\n")
    assert run(fake)[::2] == (0, "uv")
    assert run(fake) == DID_NOTHING
    config = (fake / ".ci/jupyter_config.py").read_text()
    assert (fake / ".venv/etc/jupyter/jupyter_server_config.py").read_text() == config


@pytest.mark.parametrize(
    "how, called", [("kill venv", "venv"), ("kill pip", "venv pip"), ("kill uv", "venv pip uv")]
)
def test_a_killed_first_run_is_started_over(fake, how, called):
    assert run(fake, how)[::2] == (-signal.SIGKILL, called)
    left_over = fake / ".venv/lib/half/a/package.py"
    left_over.parent.mkdir(parents=True)
    left_over.touch()
    assert run(fake)[::2] == ANEW
    assert not left_over.exists()
    assert run(fake) == DID_NOTHING


@pytest.mark.parametrize("how, code", [("kill uv", -signal.SIGKILL), ("die uv", 1)])
def test_a_killed_update_is_started_over(fake, how, code):
    run(fake)
    change_list(fake)
    assert run(fake, how)[::2] == (code, "uv")
    assert run(fake)[::2] == ANEW


@pytest.mark.parametrize("how", ["refuse pip", "refuse uv"])
def test_a_failed_first_install_ends_in_a_plain_sentence_and_is_mended(fake, how):
    code, text, _ = run(fake, how)
    assert code == 1
    assert text.endswith("Check the network connection, then run the same command again.\n")
    assert "Traceback" not in text
    assert run(fake)[::2] == ANEW


def test_a_failed_update_keeps_the_old_environment(fake):
    run(fake)
    change_list(fake)
    assert run(fake, "refuse uv")[::2] == (1, "uv")
    assert run(fake)[::2] == (0, "uv")


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / ".venv/course-stamp").unlink(),
        lambda folder: (folder / ".venv/bin/python").unlink(),
        lambda folder: shutil.rmtree(folder / ".venv/bin"),
        say_python("3.99"),
    ],
    ids=["no stamp", "no Python", "no programs", "another Python"],
)
def test_a_venv_that_is_not_whole_is_made_anew(fake, change):
    run(fake)
    change(fake)
    assert run(fake, before="import os; os.environ['FAKE'] = ''")[::2] == ANEW


def test_what_a_link_leads_to_is_left_alone(fake):
    theirs = fake / "their venv"
    theirs.mkdir()
    (theirs / "file").touch()
    (fake / ".venv").symlink_to(theirs)
    assert run(fake)[::2] == ANEW
    assert [path.name for path in theirs.iterdir()] == ["file"]


def test_another_python_that_is_named_is_told_which_one_stays(fake):
    run(fake)
    code, text, called = run(
        fake, before="import sys; sys.version_info = (3, 14 - (sys.version_info[1] == 14), 0)"
    )
    assert (code, called) == (0, "")
    assert f"made with Python {THIS}" in text


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
    assert log.read_text().strip() == ANEW[1]


@pytest.mark.slow
def test_the_real_venv_pip_and_uv(checkout):
    """Kill them in the middle, let the next run mend it, then use what was installed. pip's settings are all there is."""
    try:
        uv = importlib.metadata.distribution("uv")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("these tests run in an environment that make has not made, so there is no uv to install")
    if f"uv=={uv.version}" != environment.UV_PINNED:
        pytest.skip("the uv of this environment is not the pinned one")
    links = checkout / "links"
    links.mkdir()
    with zipfile.ZipFile(links / f"uv-{uv.version}-py3-none-any.whl", "w") as wheel:
        for file in uv.files:
            name = f"uv-{uv.version}.data/scripts/{file.name}" if file.parent.name == "bin" else str(file)
            if not name.endswith((".pyc", "INSTALLER", "REQUESTED")):
                wheel.write(file.locate(), name)
    tiny = {
        "tiny.py": "answer = 42",
        "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "tiny-1.0.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(links / "tiny-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in tiny.items():
            wheel.writestr(name, text)
    (checkout / "requirements.txt").write_text("-c constraints.txt\ntiny==1.0\n")
    # pip takes white space for the end of an address.
    short = checkout.parent / "links"
    short.symlink_to(links)
    pip = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(short)}

    killed = start(checkout, **pip)
    # Then venv is at work, and pip is not there yet.
    wait_until((checkout / ".venv/bin/python").exists, seconds=30)
    killed.kill()
    killed.communicate()
    assert (checkout / ".venv/course-stamp").read_text() == ""

    code, text, _ = run(checkout, **pip)
    assert code == 0, text
    use = [".venv/bin/python", "-c", "import pip, tiny; print(tiny.answer)"]  # pip, for %pip in notebooks
    assert subprocess.check_output(use, cwd=checkout, text=True) == "42\n"
    assert run(checkout) == DID_NOTHING


# ------------------------------------------------------------------ what uv is told


def test_uv_gets_the_settings_of_pip(monkeypatch, tmp_path):
    """The variable wins over the section [install], and that over [global]. What is set for uv stays."""
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://a/simple\nextra-index-url =\n    https://b/simple\n    https://c/simple\n"
        "cert = /global.pem\nproxy = http://global\n[install]\ncert = /install.pem\nproxy = http://install\n"
    )
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_", "SSL_", "ALL_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_FIND_LINKS", "/one /two")
    monkeypatch.setenv("PIP_PROXY", "http://variable")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://mine/simple")
    monkeypatch.setattr(environment, "PYTHON", sys.executable)
    changed = {
        name: value for name, value in environment.uv_settings().items() if os.environ.get(name) != value
    }
    assert changed == {
        "UV_INDEX": "https://b/simple https://c/simple",
        "UV_FIND_LINKS": "/one,/two",
        "SSL_CERT_FILE": "/install.pem",
        "ALL_PROXY": "http://variable",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_PYTHON": sys.executable,
    }


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the usual index has the small build")
@pytest.mark.parametrize(
    "own, auto, chosen, backend",
    [
        ("2.0+cpu", "2.0+cu1", None, {}),
        ("2.0", "2.0+cpu", None, {"UV_TORCH_BACKEND": "auto"}),
        ("2.0", "", None, {}),
        ("2.0", "2.0+cpu", "cu1", {}),
    ],
    ids=["pip's settings lead to a build", "PyTorch's index answers", "it does not", "the user has chosen"],
)
def test_which_build_of_torch(own, auto, chosen, backend, monkeypatch, tmp_path, capsys):
    write_script(
        tmp_path / "uv",
        f'#!/bin/sh\ncat; echo "torch==${{UV_TORCH_BACKEND:+{auto}}}${{UV_TORCH_BACKEND:-{own}}}"\n',
    )
    (tmp_path / "requirements.txt").write_text("torch==2.0  # tensors\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(environment, "UV", str(tmp_path / "uv"))
    monkeypatch.setattr(environment, "uv_settings", lambda: dict(os.environ))
    monkeypatch.delenv("UV_TORCH_BACKEND", raising=False)
    if chosen:
        monkeypatch.setenv("UV_TORCH_BACKEND", chosen)
    assert environment.torch_backend() == backend
    assert ("several GB" in capsys.readouterr().out) == (auto == "")


# ------------------------------------------------------------------ what is refused, in plain sentences


def test_where_python_does_not_fit_uv_looks_for_another(fake):
    assert run(fake, before=OLD_PYTHON)[::2] == (0, "venv pip search pip uv")
    assert run(fake, before=OLD_PYTHON) == DID_NOTHING


@pytest.mark.parametrize("version", ["(3, 7, 1)", "(3, 10, 13)", "(3, 15, 0)"])
@pytest.mark.parametrize("how, called", [("refuse pip", "venv pip"), ("refuse search", "venv pip search")])
def test_where_there_is_no_other_the_sentence_says_which_to_install(fake, version, how, called):
    code, text, was = run(fake, how, before=f"import sys; sys.version_info = {version}")
    assert (code, was) == (1, called)
    sentence = text.strip().splitlines()[-1]
    assert "Python 3.11 to 3.14" in sentence
    assert "make lab PYTHON=python3.12" in sentence
    assert "Traceback" not in text


@pytest.mark.parametrize("module", ["ensurepip", "venv"])
@pytest.mark.parametrize(
    "before, advice", [("", "apt install python3."), (OLD_PYTHON, "Python 3.11 to 3.14")]
)
def test_a_python_without_venv_is_refused_before_anything_is_made(fake, module, before, advice):
    files = sorted(fake.rglob("*"))
    code, text, called = run(
        fake, before=f"{before}\nimport sys; sys.modules[{module!r}] = None\nimport runpy"
    )
    assert (code, called) == (1, "")
    assert advice in text
    assert len(text.strip().splitlines()) == 1
    assert sorted(fake.rglob("*")) == files


def test_a_venv_that_cannot_be_written_is_refused(fake):
    (fake / ".venv").write_text("a file where the folder should be")
    code, text, called = run(fake)
    assert (code, called) == (1, "")
    assert text.strip().splitlines()[-1].startswith("The folder .venv cannot be written")
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
