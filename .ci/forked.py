"""Kernels that are forked. In a module of its own, which imports little: each fork imports it anew."""

import functools
import multiprocessing
import os
import runpy
import sys
import threading
import time


def launch_kernel(command: list[str], cwd=None, env=None, **_) -> multiprocessing.Process:
    """The process of a kernel, from one that has imported what takes 4 seconds. It is asked as a Popen is."""
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["transformers.models.bert.modeling_bert"])
    process = forks.Process(target=be_a_kernel, args=(command, cwd, env))
    process.start()
    while os.getpgid(process.pid) != process.pid:  # a signal to the kernel's group would be one to ours
        time.sleep(0.01)
    process.stdin = process.stdout = process.stderr = None
    process.poll, process.wait = lambda: process.exitcode, process.join
    process.send_signal = functools.partial(os.kill, process.pid)
    return process


def be_a_kernel(command: list[str], folder: str, settings: dict[str, str]) -> None:
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(settings, JPY_PARENT_PID=str(os.getppid()))
    tests = multiprocessing.parent_process()  # not the one that it was forked from
    threading.Thread(target=lambda: os._exit(tests.join() or 1), daemon=True).start()  # it ends with them
    sys.argv = command[2:]  # without python -m
    runpy.run_module(sys.argv[0], run_name="__main__")
