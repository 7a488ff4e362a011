"""A machine like Colab's, and what a notebook of the course does there."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import course
from rehearsal_stage import HEADER, CannotRehearse, Played, Rehearsal, at_a_time, clean_environment, play

ROOT = course.ROOT
sys.path.append(str(ROOT))

from utils.start import COLAB_LACKS, _pinned  # noqa: E402

KEPT = ROOT / ".rehearsal"

# What Colab holds, by its own list of August 2026. Without a Python 3.13, this machine's Python and torch stand in.
COLAB_PYTHON = "3.13"
COLAB_HOLDS = [
    "torch==2.11.*; python_version >= '3.13'",
    "torch==2.13.0; python_version < '3.13'",
    "numpy==2.1.3",
    "transformers==5.15.0",
    "huggingface_hub==1.27.0",
    "tokenizers==0.22.2",
    "pandas==2.2.3",
    "matplotlib==3.10.0",
    "pillow==11.3.0",
    "ipython==7.34.0",
    "ipykernel==6.17.1",
    "tqdm==4.67.3",
]
# These would bring JupyterLab along, which Colab does not have.
COLAB_HOLDS_ALONE = [
    "ipywidgets==7.7.1",
    "widgetsnbextension==3.6.*",
    "jupyterlab_widgets==1.1.*",
    "ipython_genutils",
]
# Nor does it have these, which the notebooks can do without.
COLAB_LACKS_TOO = ["boto3", "jupyterlab", "nbval", "latex2mathml"]

TRIES_WITHOUT_NETWORK = 3  # pip alone tries five times more, longer and longer, while the learner waits

# Colab's kernel is started in this way, so that `google.colab` is there before the first cell.
LAUNCHER = (
    "import google.colab\nfrom ipykernel.kernelapp import launch_new_instance\n\nlaunch_new_instance()\n"
)


def colab_packages() -> Path:
    """The folder of the packages that Colab holds, in an environment that is built when it is not there yet."""
    key = "\n".join([COLAB_PYTHON, *COLAB_HOLDS, "alone", *COLAB_HOLDS_ALONE])
    folder = KEPT / f"colab-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    python, done = folder / "bin" / "python", folder / "done"
    if not done.is_file():
        print("Building an environment that holds what Colab holds, the first time.", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        KEPT.mkdir(exist_ok=True)
        (KEPT / ".gitignore").write_text("*\n", encoding="utf-8")
        make = ("venv", "--seed", "--clear", str(folder), "--python")
        if uv(*make, COLAB_PYTHON).returncode:
            must_work(uv(*make, sys.executable))
        install = ("pip", "install", "--python", str(python))
        must_work(uv(*install, *COLAB_HOLDS))
        must_work(uv(*install, "--no-deps", *COLAB_HOLDS_ALONE))
        # Else the first notebook would say that matplotlib builds its font cache.
        env = clean_environment() | {"MPLCONFIGDIR": str(folder / "matplotlib")}
        subprocess.run([str(python), "-c", "import matplotlib.font_manager"], env=env, check=True)
        done.touch()
    packages = next((folder / "lib").glob("python3.*")) / "site-packages"
    unwanted = set(map(name, COLAB_LACKS + COLAB_LACKS_TOO)) & {name(line) for line in freeze(python)}
    assert not unwanted, f"Colab does not have {unwanted}"
    return packages


def python_of(packages: Path) -> Path:
    return packages.parents[2] / "bin" / "python"


def uv(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / ".ci" / "environment.py"), "uv", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def must_work(ran: subprocess.CompletedProcess) -> None:
    if ran.returncode:
        raise CannotRehearse(
            f"{ran.stdout}\nThe environment could not be built; the reason stands above. "
            "Check the network connection, then run the same command again."
        )


def freeze(python: Path) -> list[str]:
    """The packages that a Python sees, as name==version."""
    command = [str(python), "-m", "pip", "list", "--format=json"]
    env = clean_environment()
    listed = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return sorted(f"{package['name'].lower()}=={package['version']}" for package in json.loads(listed.stdout))


def name(line: str) -> str:
    """PEP 503: the package of a line such as XStatic_jQuery==3.7.1."""
    return re.sub(r"[-_.]+", "-", line.split("==")[0]).lower()


class ColabMachine:
    """A fresh machine: an environment upon the packages of Colab, an empty folder, and the kernel of Colab."""

    def __init__(self, folder: Path, packages: Path, bare: Path):
        self.folder, self.content, self.kernels = folder, folder / "content", folder / "kernels"
        self.python, self.log = folder / "env" / "bin" / "python", folder / "pip.log"
        make = [str(python_of(packages)), "-m", "venv", "--without-pip", str(folder / "env")]
        subprocess.run(make, check=True, env=clean_environment())
        own = next((folder / "env" / "lib").glob("python3.*")) / "site-packages"
        (own / "colab.pth").write_text(f"{packages}\n", encoding="utf-8")  # pip stands there, too
        (own / "google" / "colab").mkdir(parents=True)
        (own / "google" / "colab" / "__init__.py").touch()
        (own / "colab_kernel_launcher.py").write_text(LAUNCHER, encoding="utf-8")
        self.content.mkdir()
        spec = {
            "argv": [str(self.python), "-m", "colab_kernel_launcher", "-f", "{connection_file}"],
            "display_name": "Colab",
            "language": "python",
        }
        (self.kernels / "colab").mkdir(parents=True)
        (self.kernels / "colab" / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
        self.environment = clean_environment() | {
            "HF_HOME": str(folder / "hf"),
            "IPYTHONDIR": str(folder / "ipython"),
            "MPLCONFIGDIR": str(packages.parents[2] / "matplotlib"),
            "PIP_LOG": str(self.log),  # pip writes there whenever it is called
            **self.redirected_to(bare),
        }

    def redirected_to(self, bare: Path) -> dict[str, str]:
        """What makes git take the course from this folder."""
        return {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.{bare.as_uri()}.insteadOf",
            "GIT_CONFIG_VALUE_0": f"https://github.com/{course.repository()}",
        }

    def play(self, cells: list, **more) -> Played:
        return play(cells, self.environment, self.content, self.kernels, **more)

    def calls_of_pip(self) -> bytes:
        return self.log.read_bytes() if self.log.is_file() else b""


def set_up_cell():
    import nbformat

    return nbformat.v4.new_code_cell(course.set_up())


def in_colab(path: Path, packages: Path, bare: Path) -> Rehearsal:
    """A notebook, opened alone on a fresh machine, run to its end, and started once more."""
    rehearsal = Rehearsal("Colab", path.name)
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        machine = ColabMachine(Path(folder), packages, bare)
        opened = Path(shutil.copy(path, machine.content))
        before = freeze(machine.python)
        played = machine.play(course.read(opened).cells)
        if played.error:
            rehearsal.troubles.append(played.told(path.name))
        rehearsal.installed, troubles = changes(before, freeze(machine.python))
        rehearsal.troubles += troubles
        if not played.error:
            rehearsal.troubles += second_start(machine)
    return rehearsal


def changes(before: list[str], after: list[str]) -> tuple[list[str], list[str]]:
    """What was installed, and what is wrong with that."""
    troubles = [f"{line} was replaced or removed" for line in before if line not in after]
    had = {name(line) for line in before}
    installed = [line for line in after if name(line) not in had]
    pins = {f"{name(line)}=={line.split('==')[1]}" for line in _pinned(COLAB_LACKS)}
    for line in installed:
        if name(line) not in map(name, COLAB_LACKS):
            troubles.append(f"{line} was installed, which is not in COLAB_LACKS of utils/start.py")
        elif f"{name(line)}=={line.split('==')[1]}" not in pins:
            troubles.append(f"{line} was installed, which is not the version that the course pins")
    return installed, troubles


def second_start(machine: ColabMachine) -> list[str]:
    """After a restart, the set-up cell twice: without a call of pip."""
    before = machine.calls_of_pip()
    played = machine.play([set_up_cell(), set_up_cell()])
    troubles = []
    if played.error:
        troubles.append(f"started again, the set-up cell fails: {played.error}")
    if machine.calls_of_pip() != before:
        troubles.append("started again, the set-up cell calls pip")
    return troubles


def colab_without_course(packages: Path, bare: Path) -> Rehearsal:
    """The course cannot be cloned: a plain sentence, and nothing half done."""
    rehearsal = Rehearsal("Colab, the course out of reach", "set-up cell")
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        machine = ColabMachine(Path(folder), packages, bare)
        machine.environment |= machine.redirected_to(Path(folder) / "nothing.git")
        played = machine.play([set_up_cell()])
        rehearsal.troubles = plain(played, "could not fetch the course")
        if any(machine.content.iterdir()):
            rehearsal.troubles.append("a failed clone leaves something behind")
    print(f"    Without the course: {played.error}")
    return rehearsal


# Every proxy and every index is a port where nobody listens; no package may come from this disk.
NO_NETWORK = {
    **dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"), "http://127.0.0.1:9"),
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_EXTRA_INDEX_URL": "",
    "PIP_FIND_LINKS": "",
    "PIP_NO_CACHE_DIR": "1",
}


def colab_without_packages(packages: Path, bare: Path) -> Rehearsal:
    """No package can be fetched: a sentence that names them. With the network back, the same cell mends it."""
    rehearsal = Rehearsal("Colab, no package to be had", "set-up cell, then again")
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        machine = ColabMachine(Path(folder), packages, bare)
        usual = dict(machine.environment)
        machine.environment |= NO_NETWORK
        cells = [set_up_cell(), set_up_cell(), set_up_cell()]
        back = {variable: usual.get(variable) for variable in NO_NETWORK}
        cells[1].source = (
            "import os\n"
            f"for variable, value in {back!r}.items():\n"
            "    os.environ.pop(variable)\n"
            "    if value is not None:\n"
            "        os.environ[variable] = value"
        )
        played = machine.play(cells, go_on=True)
        rehearsal.troubles = plain(played, *COLAB_LACKS)
        tries = machine.calls_of_pip().count(b"Retrying (Retry(total=")
        if tries > TRIES_WITHOUT_NETWORK:
            rehearsal.troubles.append(f"pip tries {tries} times more, and the learner waits")
        if played.errors > 1:
            rehearsal.troubles.append("with the network back, the set-up cell still fails")
        installed = {name(line) for line in freeze(machine.python)}
        if not set(map(name, COLAB_LACKS)) <= installed:
            rehearsal.troubles.append(
                "with the network back, the set-up cell does not install what is missing"
            )
    print(f"    Without packages: {played.error}")
    return rehearsal


def plain(played: Played, *words: str) -> list[str]:
    """What is wrong with the message that a learner sees, who should see one to three plain sentences."""
    if not played.error:
        return ["the set-up cell says nothing"]
    troubles = [
        f"the message does not name {word}: {played.error}" for word in words if word not in played.error
    ]
    message = played.error.partition(": ")[2]
    if len(re.split(r"(?<=[.!?])\s+", message.strip())) > 3 or "\n" in message:
        troubles.append(f"the message is long: {message}")
    for riddle in ("subprocess.py", "CalledProcessError", "in _install", "site-packages"):
        if riddle in played.trace:
            troubles.append(f"the learner sees '{riddle}':\n{played.trace}")
    return troubles


def rehearse_colab(paths: list[Path], bare: Path) -> list[Rehearsal]:
    packages = colab_packages()
    print(f"\nColab: {', '.join(held(packages))}\n\n{HEADER}", flush=True)
    jobs = [lambda path=path: in_colab(path, packages, bare) for path in paths]
    jobs += [lambda: colab_without_course(packages, bare), lambda: colab_without_packages(packages, bare)]
    return at_a_time(jobs)


def held(packages: Path) -> list[str]:
    """The versions that matter, as they were installed."""
    shown = {name(line) for line in COLAB_HOLDS + COLAB_HOLDS_ALONE[:1]}
    python = python_of(packages)
    return [packages.parent.name, *(line for line in freeze(python) if name(line) in shown)]


# --- The course as it would be cloned


def snapshot(root: Path, folder: Path) -> tuple[Path, str]:
    """A bare repository in `folder` with one commit: the files of the checkout as they are now. And that in words.

    It reads the checkout's objects and writes none there, so a shallow checkout will do, and nothing is left behind.
    """
    bare = folder / "course.git"
    env = clean_environment() | {
        f"GIT_{who}_{what}": "rehearsal" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }

    def git(*arguments: str, **more: str) -> str:
        command = ["git", "-c", "safe.directory=*", "-C", str(root), *arguments]
        try:
            done = subprocess.run(command, env=env | more, capture_output=True, text=True)
        except OSError:
            raise CannotRehearse(
                "The rehearsal needs git, and there is none. Install it, then run this again."
            ) from None
        if done.returncode:
            reason = (done.stderr.strip() or f"git {arguments[0]}: {done.returncode}").splitlines()[-1]
            raise CannotRehearse(
                f"git could not copy the checkout ({reason}). The rehearsal needs a clone made with git."
            )
        return done.stdout.strip()

    head = git("rev-parse", "--short", "HEAD")
    before = git("rev-parse", "HEAD^{tree}")
    objects = git("rev-parse", "--path-format=absolute", "--git-path", "objects")
    git("init", "--quiet", "--bare", "--initial-branch=main", str(bare))
    (bare / "objects" / "info" / "alternates").write_text(f"{objects}\n", encoding="utf-8")
    there = {"GIT_DIR": str(bare), "GIT_WORK_TREE": str(root), "GIT_INDEX_FILE": str(bare / "index")}
    git("read-tree", before, **there)
    git("add", "--all", **there)
    tree = git("write-tree", **there)
    git("update-ref", "refs/heads/main", git("commit-tree", tree, "-m", "rehearsal", **there), **there)
    changed = git("diff-tree", "-r", "--name-only", before, tree, **there).splitlines()
    files = f"{len(changed)} file{'s' if len(changed) > 1 else ''} that differ from it"
    return bare, f"commit {head}" + (f" and {files}" if changed else "")
