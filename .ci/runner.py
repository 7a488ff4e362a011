"""Runs the cells of a notebook in a fresh kernel, for everything here that executes notebooks.

Over TCP, jupyter_client looks for free ports and lets go of them before the kernel takes them. Of kernels
that start at the same moment, now and then two get the same port, and one of them dies. So the kernels of
this machine and those who talk to them meet at files instead, where the system has such sockets.
"""

import itertools
import os
import tempfile
from pathlib import Path

import zmq
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
SECONDS_FOR_A_CELL = 600

SOCKETS = tempfile.TemporaryDirectory(prefix="kernels-", ignore_cleanup_errors=True)
LONGEST = 100  # bytes of the path of a socket, with its number: macOS takes 103, Linux 107
KERNELS = itertools.count(1)


def own_sockets() -> dict[str, str]:
    """The settings of a kernel manager that give its kernel sockets which no other kernel has."""
    path = f"{SOCKETS.name}/{next(KERNELS)}"
    if os.name != "posix" or len(os.fsencode(path)) > LONGEST - 2:
        return {}
    return {"transport": "ipc", "ip": path}


class Client(NotebookClient):
    """Where a cell draws in a widget (`interact`), nbclient sends on the socket on which it awaits the reply.
    The sign that the reply has come can get lost there. To ask for the socket's events is to look again."""

    def process_message(self, *message):
        try:
            return super().process_message(*message)
        finally:
            self.kc.shell_channel.socket.get(zmq.EVENTS)


def execute(notebook, first="", folder: Path = NOTEBOOKS, kernels: Path | None = None, process=None, **more):
    """Run the cells of a notebook in a fresh kernel and keep their outputs in it. `first` is run before them.

    The kernel starts in `folder`. `kernels` holds the description of a kernel named "colab"; without it, the
    kernel is that of the Python that runs this. `process` is for the kernel's process (env, stdout, stderr);
    what else is given is for nbclient.
    """
    manager = AsyncKernelManager(kernel_name="colab" if kernels else "python3", **own_sockets())
    if kernels:
        described = KernelSpecManager(kernel_dirs=[str(kernels)], ensure_native_kernel=False)
        manager.kernel_spec_manager = described
    how = {"timeout": SECONDS_FOR_A_CELL, "startup_timeout": SECONDS_FOR_A_CELL, "record_timing": False}
    how |= {"coalesce_streams": True, "resources": {"metadata": {"path": str(folder)}}}
    client = Client(notebook, km=manager, **how, **more)
    if first:
        client.on_notebook_start = lambda **_: client.kc.execute(first, silent=True, store_history=False)
    client.execute(cleanup_kc=True, **process or {})
