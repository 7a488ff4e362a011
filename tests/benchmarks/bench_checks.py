"""What the checks say of machine-made mutants of all right attempts: accepted, named, or not.

It prints a table and fails nothing. Run it by `make bench ARGS=checks`, or with names of exercises. An
accepted mutant is listed if its answers on fresh inputs are not those of the solution.
"""

import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / ".ci")]

from mutants import mutants  # noqa: E402
from summary import record  # noqa: E402
from test_checks import CHECKS, with_fresh_trials  # noqa: E402

from utils.checks import running  # noqa: E402
from utils.checks.words import is_symptom  # noqa: E402


def main(exercises):
    """Print a row for each exercise."""
    running.LIMIT = 2  # some mutants never end
    print(f"{'exercise':32} mutants accepted by edit by symptom no name seconds")
    total = [0] * 5
    for exercise in exercises or CHECKS:
        counts, start = [0] * 5, time.process_time()
        for text, mutant in mutants(exercise):
            verdict = CHECKS[exercise](mutant)
            name = verdict.misconception
            kind = 1 if verdict.passed else 4 if not name else 3 if is_symptom(name) else 2
            counts[0], counts[kind] = counts[0] + 1, counts[kind] + 1
            if verdict.passed and not with_fresh_trials(exercise)(mutant).passed:
                print(f"    accepted, and wrong on fresh inputs: {text}")
        total = [a + b for a, b in zip(total, counts, strict=True)]
        cells = "".join(f"{count:9}" for count in counts)
        print(f"{exercise:30}{cells}{time.process_time() - start:9.1f}", flush=True)
    record("mutants of right attempts", f"{total[0]}", f"{total[1]} accepted, {total[2]} named", "", None)


if __name__ == "__main__":
    main(sys.argv[1:])
