"""The environment of every test, and of the kernels that nbval starts."""

import os
import sys
from unittest.mock import patch

# jsonschema, which nbformat imports, would build a grammar of web addresses: 2 seconds in each process.
sys.modules["rfc3987_syntax"] = None
pytest_plugins = ["nbval.plugin"]

import jupyter_client
import nbval.kernel
import nbval.plugin
import pytest
from jupyter_client.provisioning import local_provisioner

import course
import forked
import runner

# The notebooks are stored with the views' static pictures, because interactive views never print the same
# twice.
os.environ["COURSE_STATIC_VIEWS"] = "1"

# The stored outputs are those of the course's own models, not of some that the learner has chosen.
os.environ.pop("COURSE_CHECKPOINT", None)
os.environ.pop("COURSE_WRITER", None)

# Workers are more processes than there are cores, so each of them computes with one thread. Without workers
# there is a thread for each core. One that waits for another stays awake for microseconds only: no longer,
# or on a busy machine it would take the core from those that work; no shorter, or all would take longer.
WORKER = "PYTEST_XDIST_WORKER" in os.environ
if WORKER:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GOMP_SPINCOUNT", "20000")


class KernelManager(jupyter_client.KernelManager):
    """What nbval starts its kernels with, in place of jupyter_client's.

    Else they now and then take each other's ports; and each imports the same libraries, for 4 seconds. So a
    worker that runs several notebooks forks their kernels from one process that has imported them. In the
    rehearsals, and without workers, each kernel imports for itself.
    """

    def __init__(self, **named):
        super().__init__(**named, **runner.own_sockets())

    def start_kernel(self, **named):
        starting = forked if WORKER and sys.platform == "linux" else local_provisioner
        with patch.object(local_provisioner, "launch_kernel", starting.launch_kernel):
            super().start_kernel(**named)


nbval.kernel.KernelManager = KernelManager


def pytest_configure(config):
    """Let matplotlib look for fonts once, before the workers start: one
    that takes long says so among the outputs.

    And be patient: on a loaded machine a kernel may take more than nbval's minute to start.
    """
    config.option.nbval_kernel_startup_timeout = runner.SECONDS_FOR_A_CELL
    if not hasattr(config, "workerinput"):
        import matplotlib.font_manager  # noqa: F401


# What takes longest begins first, and the short files fill the gaps: no core waits for another at the end.
LONGEST = ("test_browser", "test_checks", "09_", "test_site", "10_", "test_llama", "13_", "12_", "test_runs")


def pytest_collection_modifyitems(items):
    """On a loaded machine an output may come more than nbval's five seconds after the cell has ended."""
    items.sort(key=lambda item: [not item.path.name.startswith(name) for name in LONGEST])
    for item in items:
        if isinstance(item, nbval.plugin.IPyNbCell):
            item.output_timeout = 120


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """After the stub of an exercise its folded solution has to pass: in
    the notebook's kernel, as a learner finds it.

    It works on a copy of the notebook's names, so that the cells behind it see what they would see without
    it.
    """
    yield
    if not isinstance(item, nbval.plugin.IPyNbCell):
        return
    if asked := course.exercises(item.parent.nb.cells).get(item.cell.id):
        code = f"""{course.hint_and_solution(asked.help)[1]}

from utils.checks.verdict import PASSED
before = set(PASSED)
verdict = {asked.check}({asked.name})
PASSED.intersection_update(before)
assert verdict.passed, verdict
"""
        reply = item.parent.kernel.kc.execute_interactive(
            f"exec({code!r}, dict(globals()))",
            silent=True,
            allow_stdin=False,
            timeout=runner.SECONDS_FOR_A_CELL,
            output_hook=lambda message: None,
        )
        if reply["content"]["status"] != "ok":
            item.raise_cell_error("The folded solution does not pass its check.", reply["content"]["evalue"])
