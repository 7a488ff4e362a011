"""What the rehearsals share: a kernel that plays the cells of a notebook, and the table of what came of them."""

import os
import re
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

AT_A_TIME = 2  # notebooks
SECONDS_FOR_A_CELL = 600


class CannotRehearse(Exception):
    """Its text is for the person at the keyboard: what is wrong, and what to do next."""


@dataclass
class Rehearsal:
    """One run of one notebook, and what came of it."""

    where: str
    notebook: str
    seconds: float = 0.0
    installed: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    def row(self) -> str:
        verdict = "FAILED" if self.troubles else "passed"
        packages = len(self.installed) or ""
        return f"{self.where:38} {self.notebook:38} {self.seconds:>7.0f} {packages:>9}  {verdict}"


HEADER = f"{'where':38} {'notebook':38} {'seconds':>7} {'installed':>9}"


@dataclass
class Played:
    """What a kernel made of some cells: the seconds of each code cell, the first error, and how many there were."""

    seconds: list[float] = field(default_factory=list)
    errors: int = 0
    error: str = ""  # class and text of the first error, empty if there was none
    trace: str = ""  # as the learner sees it
    place: str = ""  # the cell where it happened
    shown: str = ""  # all that the cells put out as text

    def told(self, notebook: str) -> str:
        """The first error with its place, for the one who reads the log."""
        last_lines = "\n".join(self.trace.strip().splitlines()[-25:])
        return f"{notebook}, {self.place}: {self.error}\n{last_lines}"


def play(cells: list, env: dict[str, str], folder: Path, kernels: Path | None = None, go_on=False) -> Played:
    """Run code cells in a fresh kernel, in this folder and environment, up to the first error (or beyond it).

    `kernels` holds the description of the kernel; without it, the kernel is that of the Python that runs this.
    """
    import nbformat
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient
    from nbclient.exceptions import CellControlSignal, CellTimeoutError, DeadKernelError

    manager = AsyncKernelManager(kernel_name="colab" if kernels else "python3")
    if kernels:
        manager.kernel_spec_manager = KernelSpecManager(
            kernel_dirs=[str(kernels)], ensure_native_kernel=False
        )
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=SECONDS_FOR_A_CELL,
        startup_timeout=120,
        record_timing=False,
        coalesce_streams=True,
        allow_errors=True,
        resources={"metadata": {"path": str(folder)}},
    )
    played = Played()
    with (
        tempfile.TemporaryFile("w+") as said,  # what the kernel's process says outside its cells
        client.setup_kernel(env=env, stdout=said, stderr=said, cleanup_kc=True),
    ):
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type != "code":
                continue
            begin = time.perf_counter()
            found = ("", "")
            try:
                client.execute_cell(cell, index)
            except (DeadKernelError, CellTimeoutError, CellControlSignal) as error:
                said.seek(0)
                found = (f"{type(error).__name__}: {str(error).strip().splitlines()[0]}", said.read())
            played.seconds.append(time.perf_counter() - begin)
            for output in cell.outputs:
                played.shown += output.get("text", "") + output.get("data", {}).get("text/plain", "")
                if output.output_type == "error":
                    found = (f"{output.ename}: {output.evalue}", without_colours("\n".join(output.traceback)))
            if not found[0]:
                continue
            played.errors += 1
            if played.errors == 1:
                played.error, played.trace = found
                played.place = f"cell {cell.id} (number {index + 1} from the top)"
            if not go_on:
                break
    return played


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def clean_environment() -> dict[str, str]:
    """This process's environment without what chooses a model, a hub, a git folder or a Python."""
    chosen = r"(HF_|COURSE_|GIT_|PYTHON|VIRTUAL_ENV|MPLBACKEND|JUPYTER_|IPYTHONDIR)"
    return {name: value for name, value in os.environ.items() if not re.match(chosen, name)}


def at_a_time(jobs: list[Callable[[], Rehearsal]]) -> list[Rehearsal]:
    """Do the jobs, a few at a time, and say what came of each as soon as it is known."""

    def report(job: Callable[[], Rehearsal]) -> Rehearsal:
        done = job()
        print(done.row(), flush=True)
        for trouble in done.troubles:
            print(re.sub("^", "    ", trouble, flags=re.MULTILINE), flush=True)
        return done

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return list(pool.map(report, jobs))
