"""`.ci/environment.py`, which makes .venv."""

import ast
import os
import shutil
import subprocess
import sys
import time

import pytest

import course
import environment

# A uv that writes down what it was called for, and with which settings; $FAKE says what goes wrong.
FAKE_UV = f"""#!/bin/sh
case "$*" in
    --version) echo uv {environment.UV_PINNED}; exit ;;
    venv*) did=venv; rm -rf .venv; mkdir -p .venv/bin; touch .venv/bin/python ;;
    *--no-deps*) did=models ;;
    *) did=install ;;
esac
printf "%s " $did >> log; env > env-$did; echo "$*" > args-$did
case "$FAKE" in
    "kill $did") kill -KILL $PPID ;;
    "die $did") kill -KILL $$ ;;
    "refuse $did") echo "error: no network" >&2; exit 1 ;;
    "refuse auto") [ "$UV_TORCH_BACKEND" != auto ] ;;
    "hold $did") until [ -e go-on ]; do sleep 0.05; done ;;
esac
"""
INSTALL, ANEW, DID_NOTHING = "install models", "venv install models", (0, "", "")


@pytest.fixture
def fake(tmp_path):
    """What makes .venv, at a path that is hard to quote, with a uv that installs nothing."""
    folder = tmp_path / "l'été à Köln"
    for name in (*environment.COURSE, environment.DEV, ".ci/environment.py", "Makefile"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(course.ROOT / name, folder / name)
    (folder / ".uv/bin").mkdir(parents=True)
    python = "#!/bin/sh\n[ ! -e pip-config ] || cat pip-config\n"
    for name, text in {"uv": FAKE_UV, "python": python}.items():
        (folder / ".uv/bin" / name).write_text(text)
        (folder / ".uv/bin" / name).chmod(0o755)
    return folder


def start(folder, how="", *what, version=tuple(sys.version_info), **variables):
    """Start environment.py, in a Python that takes itself for this version."""
    script = str(folder / ".ci/environment.py")
    code = f"import runpy, sys; sys.version_info = {version}; sys.argv = {[script, *what]}; "
    command = [sys.executable, "-c", code + f"runpy.run_path({script!r}, run_name='__main__')"]
    env = os.environ | {"FAKE": how} | variables
    return subprocess.Popen(command, env=env, stdout=-1, stderr=-1, text=True, process_group=0)


def run(folder, *how, **more):
    """Run environment.py to its end: its exit code, what it printed, and what it called."""
    process = start(folder, *how, **more)
    out, err = process.communicate()
    log = folder / "log"
    called = log.read_text().strip() if log.exists() else ""
    log.unlink(missing_ok=True)
    assert "Traceback" not in err
    return process.returncode, out + err, called


def test_second_run_does_nothing_and_a_changed_file_is_installed_in_place(fake):
    assert run(fake)[::2] == (0, ANEW) and environment.DEV not in (fake / "args-install").read_text()
    assert run(fake, "", "dev")[::2] == (0, INSTALL)
    assert environment.DEV in (fake / "args-install").read_text()
    assert run(fake, "", "dev") == run(fake) == DID_NOTHING
    (fake / environment.DEV).write_text("# changed\n")
    assert run(fake) == DID_NOTHING and run(fake, "", "dev")[::2] == (0, INSTALL)
    for name in environment.COURSE:
        (fake / name).write_text("# changed\n")
        assert run(fake)[::2] == (0, INSTALL) and run(fake) == DID_NOTHING
    assert (fake / ".venv/etc/jupyter/jupyter_config.py").read_text() == "# changed\n"


TWICE = "install install" if sys.platform == "linux" else "install"
LEFT = [
    *((False, f"kill {name}", -9, ANEW[: ANEW.index(name) + len(name)], ANEW) for name in ANEW.split()),
    (False, "refuse venv", 1, "venv", ANEW),
    (False, "refuse auto", 0, f"venv {TWICE} models", None),  # PyTorch's own index does not answer
    (False, "refuse models", 1, ANEW, ANEW),
    (True, "kill install", -9, "install", ANEW),
    (True, "die install", 1, "install", ANEW),
    (True, "kill models", -9, INSTALL, ANEW),
    (True, "refuse install", 1, "install install", INSTALL),  # it has changed nothing
]


@pytest.mark.parametrize("stood, how, code, called, mended", LEFT)
def test_what_a_killed_or_failed_run_leaves_is_mended(fake, stood, how, code, called, mended):
    if stood:
        run(fake)
        (fake / "constraints.txt").write_text("# changed\n")
    ended, text, was = run(fake, how)
    assert (ended, was) == (code, called)
    assert code < 1 or text.endswith("Mend it, then run this again.\n")
    if mended:
        (fake / ".venv/half a package").touch()
        assert run(fake)[::2] == (0, mended) and (fake / ".venv/half a package").exists() == (mended != ANEW)
    assert run(fake) == DID_NOTHING


LINK = "rm -r ../.venv; ln -s ../.uv ../.venv"


@pytest.mark.parametrize("spoil", ["rm course-stamp", "rm bin/python", "echo 0.1 > course-stamp", LINK])
def test_a_venv_that_is_not_whole_is_made_anew_and_what_a_link_leads_to_is_left_alone(fake, spoil):
    run(fake)
    subprocess.run(spoil, shell=True, cwd=fake / ".venv", check=True)
    assert run(fake)[::2] == (0, ANEW) and (fake / ".uv/bin/uv").exists()


def test_a_second_run_waits_for_the_first(fake):
    first = start(fake, "hold install")
    end = time.monotonic() + 300
    while not (fake / "args-install").exists() and time.monotonic() < end:
        time.sleep(0.01)
    second = start(fake)
    assert "Another run" in second.stdout.readline()
    (fake / "go-on").touch()
    assert [first.communicate() and first.returncode, second.communicate() and second.returncode] == [0, 0]
    assert (fake / "log").read_text().split().count("venv") == 1  # what the first has made is not made anew


def test_uv_gets_the_settings_of_pip_and_its_own_win(fake, monkeypatch):
    """A variable wins over the section [install], and that over [global], as in pip."""
    lines = [":env:.find-links='/one /two'", ":env:.proxy='http://variable'", "global.cert='/global.pem'"]
    lines += [r"global.extra-index-url='https://b\nhttps://c'", "global.proxy='http://global'"]
    lines += ["global.index-url='https://a'", "install.cert='/install.pem'", "install.timeout='9'"]
    (fake / "pip-config").write_text("\n".join(lines) + "\n")
    told = {"UV_FIND_LINKS": "/one,/two", "UV_INDEX": "https://b https://c", "ALL_PROXY": "http://variable"}
    told |= {"SSL_CERT_FILE": "/install.pem", "UV_INDEX_STRATEGY": "unsafe-best-match"}
    for name in told:
        monkeypatch.delenv(name, raising=False)
    mine = {"UV_DEFAULT_INDEX": "https://mine", "UV_TORCH_BACKEND": "cu1"}
    run(fake, **mine)
    said = (fake / "env-install").read_text().splitlines()
    assert {f"{name}={value}" for name, value in (told | mine).items()} <= set(said)


@pytest.mark.parametrize("version", [(3, 7, 1), (3, 10, 13), (3, 15, 0)])
def test_a_python_that_does_not_fit_finds_another_or_is_told_which_to_name(fake, version):
    code, text, called = run(fake, "refuse venv", version=version)
    assert (code, called) == (1, "venv") and "Python from 3.11 to 3.14 (make lab PYTHON=" in text
    assert run(fake, version=version)[::2] == (0, ANEW)
    assert ">=3.11,<=3.14.99" in (fake / "args-venv").read_text()


def test_environment_is_read_by_an_old_python_and_needs_no_package():
    tree = ast.parse((course.ROOT / ".ci/environment.py").read_text(), feature_version=(3, 6))
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert set(names) <= sys.stdlib_module_names
