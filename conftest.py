"""The environment of every test, and of the kernels that nbval starts."""

import os

import jupyter_client
import nbval.kernel

from runner import own_sockets

# The notebooks are stored with the views' static pictures, because interactive views never print the same twice.
os.environ["COURSE_STATIC_VIEWS"] = "1"

# The stored outputs are those of the course's own checkpoint, not of one that the learner has chosen.
os.environ.pop("COURSE_CHECKPOINT", None)

# The tests run in more processes than there are cores, so each process computes with one thread.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Else nbval's kernels now and then take each other's ports: see .ci/runner.py.
nbval.kernel.KernelManager = lambda **named: jupyter_client.KernelManager(**named, **own_sockets())
