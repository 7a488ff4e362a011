"""The one table that `make bench` ends with.

    python tests/benchmarks/summary.py          run every bench_*.py, then print the table
    python tests/benchmarks/summary.py views    only bench_views.py, then its part of the table

A benchmark that runs alone prints its own, longer tables. Rows reach this one through `record`.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
ROWS = "COURSE_BENCH_ROWS"  # names the file that collects the rows


def record(what: str, measured: str, peer: str, goal: str, reached: bool | None) -> None:
    """Hand a row to the table: what was measured, the number, the peer's or the ratio to it, the goal.

    `reached` is None where there is no goal. Without a table to come nothing happens.
    """
    if ROWS in os.environ:
        with open(os.environ[ROWS], "a", encoding="utf-8") as file:
            file.write(json.dumps([what, measured, peer, goal, reached]) + "\n")


def main(names: list[str]) -> None:
    scripts = [FOLDER / f"bench_{name}.py" for name in names] or sorted(FOLDER.glob("bench_*.py"))
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder, "rows")
        rows.touch()
        for script in scripts:
            print(f"== {script.stem}", flush=True)
            subprocess.run([sys.executable, script], env=os.environ | {ROWS: str(rows)}, check=True)
        found = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
    heads = ["what", "measured", "beside it", "goal"]
    widths = [max(len(row[column]) for row in [heads, *found]) for column in range(4)]
    print("\n" + "  ".join(head.ljust(width) for head, width in zip(heads, widths, strict=True)))
    for *texts, reached in found:
        said = {True: "reached", False: "MISSED", None: ""}[reached]
        print("  ".join(text.ljust(width) for text, width in zip(texts, widths, strict=True)) + f"  {said}")


if __name__ == "__main__":
    main(sys.argv[1:])
