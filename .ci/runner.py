"""Runs the cells of a notebook in a fresh kernel, for everything here that executes notebooks.

Over TCP, jupyter_client looks for free ports and lets go of them before the kernel takes them. Of kernels
that start at the same moment, now and then two get the same port, and one of them dies. So the kernels of
this machine and those who talk to them meet at files instead, where the system has such sockets.
"""

import itertools
import os
import tempfile
from pathlib import Path

import jupyter_client
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


def execute(notebook, first="", folder: Path = NOTEBOOKS, kernels: Path | None = None, process=None, **more):
    """Run the cells of a notebook in a fresh kernel and keep their outputs in it. `first` is run before them.

    The kernel starts in `folder`. `kernels` holds the description of a kernel named "colab"; without it, the
    kernel is that of the Python that runs this. `process` is for the kernel's process (env, stdout, stderr);
    what else is given is for nbclient.
    """
    manager = jupyter_client.AsyncKernelManager(
        kernel_name="colab" if kernels else "python3", **own_sockets()
    )
    if kernels:
        manager.kernel_spec_manager = KernelSpecManager(
            kernel_dirs=[str(kernels)], ensure_native_kernel=False
        )
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=SECONDS_FOR_A_CELL,
        startup_timeout=SECONDS_FOR_A_CELL,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
        **more,
    )
    if first:
        client.on_notebook_start = lambda **_: client.kc.execute(first, silent=True, store_history=False)
    client.execute(cleanup_kc=True, **process or {})
