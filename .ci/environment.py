"""Make .venv and let uv install requirements.txt into it, unless that is already done.

    python3 .ci/environment.py          what `make environment` runs
    python3 .ci/environment.py uv ...   uv itself, with the settings of pip, for .venv

The file .venv/course-stamp says what is installed. It is empty while anything changes, and a .venv without
it is made anew: no installer mends the half that a killed one left behind.

Only the standard library and the syntax of Python 3.6 are used here: an old Python has to get as far as
looking for a newer one, and as the sentence that says it is too old.
"""

import ast
import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys

OLDEST = (3, 11)
NEWEST = (3, 14)  # torch has no wheels for a newer one
UV_PINNED = "uv==0.13.9"

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
PYTHON, UV = os.path.join(VENV, "bin", "python"), os.path.join(VENV, "bin", "uv")
STAMP = os.path.join(VENV, "course-stamp")
JUPYTER_CONFIG = os.path.join(".ci", "jupyter_config.py")

# What uv, which does not read pip's settings, calls them.
UV_NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_OFFLINE",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "ALL_PROXY",
}


def make_environment():
    """Leave a .venv that holds the packages of requirements.txt. When it already does, change nothing."""
    version = venv_version()
    if read_stamp() == digest(version):
        if fits(sys.version_info) and dotted(sys.version_info) != version:
            print(f"Using .venv, made with Python {version}. To change that, delete .venv first.")
        return
    with one_at_a_time():
        version, stamp = venv_version(), read_stamp()
        if stamp == digest(version):  # by the run that this one waited for
            return
        if not version or not stamp.startswith(f"{version} {UV_PINNED} "):
            make_venv()
            version, stamp = venv_version(), ""
        write_stamp("")
        print("Installing requirements.txt into .venv with uv. The first time takes a minute.", flush=True)
        install = ["pip", "install", "-r", "requirements.txt"]
        if sys.dont_write_bytecode:  # else each import compiles what it needs, and that is a fifth of all
            install.append("--compile-bytecode")
        code = uv(*install, **torch_backend())
        if code > 0 and free_space() > 50:
            write_stamp(stamp)  # uv gave up before it changed anything
        stop_if(code, "The packages could not be installed; uv says why above. Check the network connection")
        for name in ("jupyter_nbconvert_config.py", "jupyter_server_config.py"):
            os.makedirs(os.path.join(VENV, "etc", "jupyter"), exist_ok=True)
            shutil.copy(JUPYTER_CONFIG, os.path.join(VENV, "etc", "jupyter", name))
        write_stamp(digest(version))


def venv_version():
    """The version of .venv's Python, or nothing when that Python or its pip does not run."""
    # Without pyvenv.cfg it would be the machine's own Python, and the packages would go there.
    probe = "import sys, pip; assert sys.prefix != sys.base_prefix; print('%d.%d' % sys.version_info[:2])"
    try:
        return (
            subprocess.check_output([PYTHON, "-I", "-c", probe], stderr=subprocess.DEVNULL).decode().strip()
        )
    except (OSError, subprocess.CalledProcessError):
        return ""


def digest(version):
    """What the stamp says when everything is installed."""
    content = hashlib.sha256()
    for name in ("requirements.txt", "constraints.txt", JUPYTER_CONFIG):
        with open(name, "rb") as file:
            content.update(hashlib.sha256(file.read()).digest())
    return f"{version} {UV_PINNED} {content.hexdigest()}"


def read_stamp():
    try:
        with open(STAMP) as file:
            return file.read()
    except OSError:
        return ""


def write_stamp(text):
    os.makedirs(VENV, exist_ok=True)
    with open(STAMP, "w") as file:
        file.write(text)


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
        # uv inherits the lock: when only this process is killed, the next run waits for uv to end.
        os.set_inheritable(lock.fileno(), True)
        yield


def make_venv():
    """Make .venv from nothing, with uv in it. Where this Python does not fit, uv looks for another one."""
    this, oldest, newest = map(dotted, (sys.version_info, OLDEST, NEWEST))
    no_other = (
        f"\nThe course needs Python {oldest} to {newest}, this is Python {this}, and no other was found. "
        "Install one and name it, for example: make lab PYTHON=python3.12"
    )
    if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
        no_venv = (
            f"\nPython {this} ({sys.executable}) cannot make environments: its venv module is missing. "
            f"On Debian and Ubuntu, run as root: apt install python{this}-venv"
        )
        sys.exit(no_venv if fits(sys.version_info) else no_other)
    if os.path.islink(VENV):
        os.remove(VENV)  # what it leads to belongs to somebody else
    write_stamp("")
    print(f"Making .venv with Python {this}.", flush=True)
    # In an activated .venv, sys.executable is about to be deleted. This one is behind it.
    code = call([getattr(sys, "_base_executable", sys.executable), "-m", "venv", "--clear", VENV])
    stop_if(code, "The environment .venv could not be made; Python says why above. Mend that")
    install_uv = [PYTHON, "-m", "pip", "install", "--quiet", UV_PINNED]
    if not fits(sys.version_info):
        print(f"Python {this} does not fit. Looking for another one, here and in the network.", flush=True)
        if call(install_uv) or uv("venv", "--clear", "--seed", "--python", f">={oldest},<={newest}.99", VENV):
            sys.exit(no_other)
    stop_if(call(install_uv), "uv could not be installed; pip says why above. Check the network connection")


def stop_if(code, sentence):
    """End if a command has failed. uv names a full disk among much else, and Python's venv module does not."""
    if code and free_space() < 50:
        sentence = f"The disk that holds .venv is full: {free_space()} MB are free, of 2 GB needed. Make room"
    if code:
        sys.exit(f"\n{sentence}, then run the same command again.")


def free_space():
    """In MB, where .venv stands."""
    return shutil.disk_usage(VENV).free // 10**6


def call(command, **more):
    """Run a command that inherits the lock, and return its exit code (below 0: killed by a signal)."""
    return subprocess.call(command, close_fds=False, **more)


def uv(*arguments, **settings):
    return call([UV, *arguments], env=dict(uv_settings(), **settings))


def uv_settings():
    """The variables with which uv does for .venv what pip would do. Those that the user has set stay."""
    found = {"UV_INDEX_STRATEGY": "unsafe-best-match"}  # pip's: the best of all indexes
    lines = subprocess.check_output([PYTHON, "-m", "pip", "config", "list"]).decode().splitlines()
    for level in ("global.", "install.", ":env:."):  # as in pip, the later one wins
        for name, value in (line[len(level) :].split("=", 1) for line in lines if line.startswith(level)):
            if name in UV_NAMES:
                separator = "," if name == "find-links" else " "
                found[UV_NAMES[name]] = separator.join(ast.literal_eval(value).split())
    return dict(dict(found, **os.environ), UV_PYTHON=PYTHON)


def torch_backend():
    """What makes uv take the build of PyTorch that fits: without a graphics card it is 2 GB smaller."""
    with open("requirements.txt") as file:
        torch = [line for line in file if line.startswith("torch==")]
    if "UV_TORCH_BACKEND" in os.environ or not torch or sys.platform != "linux":
        return {}
    env = dict(uv_settings(), UV_HTTP_RETRIES="1", UV_HTTP_CONNECT_TIMEOUT="5")
    command = [UV, "pip", "compile", "--quiet", "--no-deps", "-"]
    # The machine's own settings may lead to such a build, as in 2.13.0+cpu; else PyTorch's index has it.
    for settings in ({}, {"UV_TORCH_BACKEND": "auto"}):
        env.update(settings)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        if b"+" in subprocess.run(command, env=env, input=torch[0].encode(), **pipes).stdout:
            return settings
    print("PyTorch's own index does not answer. The build of the usual one takes some GB more.", flush=True)
    return {}


def fits(version):
    return OLDEST <= version[:2] <= NEWEST


def dotted(version):
    return ".".join(str(number) for number in version[:2])


if __name__ == "__main__":
    os.chdir(ROOT)
    try:
        if sys.argv[1:2] == ["uv"]:
            if not os.path.exists(UV):
                make_venv()
            sys.exit(uv(*sys.argv[2:]))
        make_environment()
    except OSError as error:
        sys.exit(
            f"\nThe folder .venv cannot be written ({error.strerror}: {error.filename}). "
            "Delete .venv, or make the folder of the course writable, then run the same command again."
        )
    except KeyboardInterrupt:
        sys.exit("\nStopped. The next run mends what this one left half done.")
