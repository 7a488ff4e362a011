"""Each notebook from a cold kernel: seconds, peak memory of the
kernel, size of the file; and the first head view.

A copy of each notebook is executed as a learner's "Run All" does it, with live views. It prints a table and
fails nothing. Run it by `make bench`, or alone: `python tests/benchmarks/bench_course.py`.
"""

import os
import sys
import time
from pathlib import Path

import nbformat
from summary import record

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / ".ci"))

import runner  # noqa: E402

MOST_SECONDS, MOST_GIGABYTES, MOST_BYTES = 60, 1.5, 1_000_000
FIRST_VIEW_SECONDS = 15
# Asks the kernel itself, in kilobytes on Linux and in bytes on macOS; Windows has no such number.
PEAK = "import resource, sys; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, sys.platform)"


def run(path):
    """Execute a copy of a notebook, and return seconds in all, seconds
    until the first head view, and gigabytes."""
    notebook = nbformat.read(path, as_version=4)
    if sys.platform != "win32":
        notebook.cells.append(nbformat.v4.new_code_cell(PEAK))
    found = {"view": None}

    def look(cell, cell_index, execute_reply):
        shown = [output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", [])]
        if found["view"] is None and any(text.startswith("Head view") for text in shown):
            found["view"] = time.perf_counter() - start

    start = time.perf_counter()
    runner.execute(notebook, on_cell_executed=look)
    found["seconds"] = time.perf_counter() - start
    size, platform = (
        "".join(output.text for output in notebook.cells[-1].outputs).split()
        if sys.platform != "win32"
        else ("nan", "")
    )
    found["gigabytes"] = float(size) / (2**30 if platform == "darwin" else 2**20)
    return found


def main():
    os.environ.pop("COURSE_STATIC_VIEWS", None)
    print(f"{'notebook':34}{'seconds':>9}{'peak GB':>9}{'file':>11}")
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        found, size = run(path), path.stat().st_size
        print(f"{path.stem:34}{found['seconds']:9.1f}{found['gigabytes']:9.2f}{size:11,}", flush=True)
        small = found["gigabytes"] < MOST_GIGABYTES or found["gigabytes"] != found["gigabytes"]
        record(
            f"notebook {path.stem[:2]}",
            f"{found['seconds']:.1f} s, {found['gigabytes']:.2f} GB, {size:,} bytes",
            "",
            f"{MOST_SECONDS} s, {MOST_GIGABYTES} GB, {MOST_BYTES:,} bytes",
            found["seconds"] < MOST_SECONDS and small and size < MOST_BYTES,
        )
        if path.name.startswith("06"):
            print(f"{'':34}{found['view']:9.1f} s from a cold kernel to the first head view")
            record(
                "cold kernel to first head view",
                f"{found['view']:.1f} s",
                "",
                f"{FIRST_VIEW_SECONDS} s",
                found["view"] < FIRST_VIEW_SECONDS,
            )


if __name__ == "__main__":
    main()
