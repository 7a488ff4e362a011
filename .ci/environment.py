"""Make .venv and install requirements.txt into it, unless that is already done.

    python3 .ci/environment.py               what `make environment` runs
    python3 .ci/environment.py constraints   what `make constraints` runs

The file .venv/course-state says how far the last run came. It holds "installing" from the first
change to the last, then the digest of what is installed.

Only the standard library and the syntax of Python 3.6 are used here: an old Python has to get as
far as the sentence that says it is too old.
"""

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

OLDEST = (3, 11)
NEWEST = (3, 13)  # a newer one may work, but torch and its like come late to a new Python

NEEDED = "about 2 GB"  # where torch comes with libraries for graphics cards, some GB more

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
REQUIREMENTS = "requirements.txt"
CONSTRAINTS = "constraints.txt"
VENV = ".venv"
VENV_PYTHON = os.path.join(VENV, "bin", "python")
STATE = os.path.join(VENV, "course-state")
JUPYTER_CONFIG = os.path.join(".ci", "jupyter_config.py")
JUPYTER_READS = ("jupyter_nbconvert_config.py", "jupyter_server_config.py")  # in .venv/etc/jupyter
INSTALLING = "installing"


class CannotGoOn(Exception):
    """Its text is for the person at the keyboard: what is wrong, and what to do next."""


def make_environment():
    """Leave a .venv that holds the packages of requirements.txt. When it already does, change nothing."""
    version = venv_version()
    if is_done(version):
        if OLDEST <= sys.version_info[:2] != version:
            print(f"Using .venv, made with Python {dotted(version)}. To change that, delete .venv first.")
        return
    with one_at_a_time():
        version = venv_version()
        if is_done(version):  # by the run that this one waited for
            return
        if version is None or version < OLDEST or read_state() == INSTALLING:
            check_this_python()
            build_venv()
        install_packages()
        configure_jupyter()
        write_state(digest(venv_version()))


def is_done(version):
    return version is not None and read_state() == digest(version)


def venv_version():
    """The version of .venv's Python, as a pair, or None when that Python or its pip does not run."""
    # Without its pyvenv.cfg it would be the machine's own Python, and pip would install there.
    probe = "import sys, pip; assert sys.prefix != sys.base_prefix; print(*sys.version_info[:2])"
    try:
        answer = subprocess.check_output([VENV_PYTHON, "-I", "-c", probe], stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return None
    major, minor = answer.split()
    return int(major), int(minor)


def digest(version):
    """One line that changes when the Python or one of the files changes."""
    parts = [dotted(version).encode()]
    for name in (REQUIREMENTS, CONSTRAINTS, JUPYTER_CONFIG):
        with open(name, "rb") as file:
            parts.append(hashlib.sha256(file.read()).digest())
    return hashlib.sha256(b"".join(parts)).hexdigest()


def dotted(version):
    return ".".join(str(number) for number in version[:2])


def read_state():
    """What the last run left behind, or None in a .venv that was made by hand."""
    try:
        with open(STATE) as file:
            return file.read()
    except OSError:
        return None


def write_state(text):
    """Write the state in one step, so that a kill cannot leave half of it. None removes it."""
    with plain_sentence_if_not_writable():
        if text is None:
            os.remove(STATE)
            return
        with open(STATE + ".new", "w") as file:
            file.write(text)
        os.replace(STATE + ".new", STATE)


@contextlib.contextmanager
def plain_sentence_if_not_writable():
    try:
        yield
    except OSError as error:
        raise CannotGoOn(
            f"The folder .venv cannot be written ({error.strerror}: {error.filename}). "
            "Delete .venv, or make the folder of the course writable, then run the same command again."
        ) from None


@contextlib.contextmanager
def one_at_a_time():
    """Hold a lock, so that `make test` in a second terminal waits for the first `make lab`."""
    with open(os.path.abspath(__file__)) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another run is installing into .venv. Waiting for it.", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:
            pass  # some network folders know no locks
        # pip inherits the lock: when only this process is killed, the next run waits for pip to end.
        os.set_inheritable(lock.fileno(), True)
        yield


def check_this_python():
    """Refuse a Python that cannot make the environment, before anything is created."""
    this = dotted(sys.version_info)
    if sys.version_info[:2] < OLDEST:
        raise CannotGoOn(
            f"The course needs Python {dotted(OLDEST)} or newer, and this is Python {this}. "
            "Install a newer one and name it, for example: make lab PYTHON=python3.12"
        )
    if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
        raise CannotGoOn(
            f"Python {this} ({sys.executable}) cannot make environments: its venv module is missing. "
            f"On Debian and Ubuntu, run as root: apt install python{this}-venv"
        )


def build_venv():
    """Make .venv from nothing. The state stays readable throughout."""
    print(f"Making .venv with Python {dotted(sys.version_info)}.", flush=True)
    with plain_sentence_if_not_writable():
        os.makedirs(VENV, exist_ok=True)
    write_state(INSTALLING)
    with plain_sentence_if_not_writable():
        # `venv --clear` would remove the state first, and a kill right after would go unnoticed.
        for entry in list(os.scandir(VENV)):
            if entry.path == STATE:
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.remove(entry.path)
    # In an activated .venv, sys.executable has just been deleted. This one is behind it.
    python = getattr(sys, "_base_executable", sys.executable)
    if call([python, "-m", "venv", VENV]) != 0:
        refuse_full_disk()
        raise CannotGoOn(
            "The environment .venv could not be made; Python says why above. "
            "Mend that, then run the same command again."
        )


def refuse_full_disk():
    """Say so if that is why something failed: Python's venv module does not, and pip says it among much else."""
    free = shutil.disk_usage(VENV).free // 10**6
    if free < 50:
        raise CannotGoOn(
            f"The disk that holds .venv is full: {free} MB are free, and .venv needs {NEEDED}. "
            "Make room, then run the same command again."
        )


def install_packages():
    before = read_state()
    write_state(INSTALLING)
    print("Installing the packages of requirements.txt into .venv. The first time takes minutes.", flush=True)
    code = call([VENV_PYTHON, "-m", "pip", "install", "--requirement", REQUIREMENTS])
    if code == 0:
        return
    if code > 0:
        write_state(before)  # pip gave up by itself and undid its changes, so the old .venv still works
    refuse_full_disk()
    advice = ""
    if sys.version_info[:2] > NEWEST:
        advice = (
            f" The course was tried with Python {dotted(OLDEST)} to {dotted(NEWEST)}; "
            "if you have one of them, name it, for example: make lab PYTHON=python3.12"
        )
    raise CannotGoOn(
        "The packages could not be installed; pip says why above. "
        "Check the network connection, then run the same command again." + advice
    )


def configure_jupyter():
    """Exported notebooks of this .venv ask no server: see .ci/jupyter_config.py."""
    folder = os.path.join(VENV, "etc", "jupyter")
    with plain_sentence_if_not_writable():
        os.makedirs(folder, exist_ok=True)
        for name in JUPYTER_READS:
            shutil.copy(JUPYTER_CONFIG, os.path.join(folder, name))


def call(command):
    """Run a command that inherits the lock, and return its exit code (below 0: killed by a signal)."""
    return subprocess.call(command, close_fds=False)


def write_constraints():
    """Resolve requirements.txt anew, without installing it, and write what it brings along."""
    check_this_python()
    if sys.version_info[:2] != OLDEST:
        raise CannotGoOn(
            f"constraints.txt serves every Python from {dotted(OLDEST)} on, so only {dotted(OLDEST)} may "
            f"resolve it, and this is {dotted(sys.version_info)}. "
            f"Name the other: make constraints PYTHON=python{dotted(OLDEST)}"
        )
    with open(REQUIREMENTS) as file:
        lines = [line for line in file if not line.startswith("-c")]
    direct = {normal(line.split("==")[0]) for line in lines if "==" in line}
    resolved = {normal(package["name"]): package for package in resolve(lines)}

    # Each platform has its own build of torch, and each build brings other packages.
    left_out = direct | closure("torch", resolved)
    kept = [package for name, package in sorted(resolved.items()) if name not in left_out]
    with open(CONSTRAINTS, "w") as file:
        file.write(
            "# The versions of what requirements.txt brings along.\n"
            f"# Made by `make constraints` with Python {dotted(OLDEST)}; not edited by hand.\n"
            "# torch and what it brings are left out: they differ from platform to platform.\n"
        )
        for package in kept:
            version = package["version"].split("+")[0]  # "2.0+cpu" is one machine's build of 2.0
            file.write(f"{package['name']}=={version}\n")
    print(f"constraints.txt: {len(kept)} packages.")


def resolve(lines):
    """The metadata of every package that pip would install for these lines of a requirements file."""
    print("Resolving requirements.txt. This takes a minute.", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        requirements, report = os.path.join(folder, REQUIREMENTS), os.path.join(folder, "report.json")
        with open(requirements, "w") as file:
            file.writelines(lines)
        # A pip of its own, because the one in .venv may be missing or bound to the old constraints.
        venv = os.path.join(folder, VENV)
        pip = [os.path.join(venv, "bin", "python"), "-m", "pip", "install", "--requirement", requirements]
        pip += ["--dry-run", "--ignore-installed", "--quiet", "--report", report]
        # For 3.11.0, whichever 3.11 runs here: some packages refuse its first releases.
        pip += ["--python-version", dotted(OLDEST), "--only-binary", ":all:", "--target", folder]
        if call([sys.executable, "-m", "venv", venv]) != 0 or call(pip) != 0:
            raise CannotGoOn("requirements.txt could not be resolved; pip says why above.")
        with open(report) as file:
            return [item["metadata"] for item in json.load(file)["install"]]


def closure(name, resolved):
    """The names of a package and of everything it brings along, on this platform or another."""
    found, waiting = set(), [name]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for requirement in resolved.get(name, {}).get("requires_dist", []):
            if not re.search(r"\bextra\s*==", requirement):
                waiting.append(normal(re.match(r"[\w.-]+", requirement).group()))
    return found


def normal(name):
    """PEP 503: `Jinja2`, `jinja2` and `JINJA2` are one package."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


if __name__ == "__main__":
    os.chdir(ROOT)
    try:
        if sys.argv[1:] == ["constraints"]:
            write_constraints()
        else:
            make_environment()
    except CannotGoOn as sentence:
        sys.exit(f"\n{sentence}")
    except KeyboardInterrupt:
        sys.exit("\nStopped. The next run mends what this one left half done.")
