"""What the rehearsals share: a kernel that plays the cells of a notebook, and the table of what came of them."""

import os
import re
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import runner

AT_A_TIME = 2  # notebooks


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
    """Run code cells in a fresh kernel, in this folder and environment, up to the first error (or beyond it)."""
    import nbformat
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    notebook, played = nbformat.v4.new_notebook(cells=cells), Played()
    begun, ended = {}, {}  # number of a cell: when
    with tempfile.TemporaryFile("w+") as said:  # what the kernel's process says outside its cells
        lost = []
        try:
            runner.execute(
                notebook,
                folder=folder,
                kernels=kernels,
                process={"env": env, "stdout": said, "stderr": said},
                allow_errors=go_on,
                on_cell_execute=lambda cell, cell_index: begun.update({cell_index: time.perf_counter()}),
                on_cell_executed=lambda cell_index, **_: ended.update({cell_index: time.perf_counter()}),
            )
        except CellExecutionError:
            pass  # it stands among the outputs
        except (DeadKernelError, CellTimeoutError) as error:
            said.seek(0)
            lost = [(f"{type(error).__name__}: {str(error).strip().splitlines()[0]}", said.read())]
    for index in begun:
        cell = notebook.cells[index]
        played.seconds.append(ended.get(index, time.perf_counter()) - begun[index])
        errors = [] if index in ended else lost
        for output in cell.outputs:
            played.shown += output.get("text", "") + output.get("data", {}).get("text/plain", "")
            if output.output_type == "error":
                errors.append((f"{output.ename}: {output.evalue}", "\n".join(output.traceback)))
        if errors and not played.errors:
            played.error, played.trace = errors[0][0], without_colours(errors[0][1])
            played.place = f"cell {cell.id} (number {index + 1} from the top)"
        played.errors += len(errors)
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
