"""The environment of every test, and of the kernels that nbval starts."""

import os

import jupyter_client
import nbval.kernel
import nbval.plugin

from runner import own_sockets

# The notebooks are stored with the views' static pictures, because interactive views never print the same twice.
os.environ["COURSE_STATIC_VIEWS"] = "1"

# The stored outputs are those of the course's own checkpoint, not of one that the learner has chosen.
os.environ.pop("COURSE_CHECKPOINT", None)

# The tests run in more processes than there are cores, so each process computes with one thread.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Else nbval's kernels now and then take each other's ports: see .ci/runner.py.
nbval.kernel.KernelManager = lambda **named: jupyter_client.KernelManager(**named, **own_sockets())


def pytest_configure(config):
    """Let matplotlib look for fonts once, before the workers start: one that takes long says so among the outputs."""
    if not hasattr(config, "workerinput"):
        import matplotlib.font_manager  # noqa: F401


def pytest_collection_modifyitems(items):
    """On a loaded machine an output may come more than nbval's five seconds after the cell has ended."""
    for item in items:
        if isinstance(item, nbval.plugin.IPyNbCell):
            item.output_timeout = 120
