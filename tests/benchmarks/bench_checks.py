"""The confusion table of the exercises' checks: what each mistake is called, in all of tests/attempts.

It prints a table and fails nothing. Run it by `make bench`, or alone: `python
tests/benchmarks/bench_checks.py`.
"""

import statistics
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from attempts import COMBINED, RIGHT, UNLISTED, WRONG  # noqa: E402
from summary import record  # noqa: E402

from utils import checks  # noqa: E402

seconds = []


def given(exercise, attempt):
    """Return what a check says in one word: the identifier, "passed", or "no name"."""
    start = time.perf_counter()
    verdict = getattr(checks, f"check_{exercise}")(attempt)
    seconds.append(time.perf_counter() - start)
    return "passed" if verdict.passed else verdict.misconception or "no name"


def listing(counts):
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


def main():
    given("attention", RIGHT["attention"][0])  # loads PyTorch and transformers, outside the time
    given("shift_right", RIGHT["shift_right"][0])
    seconds.clear()
    total, each = Counter(), {}
    print("Rows: what an attempt truly is. Columns: attempts, how many got this very name, other names.")
    for exercise, attempts in RIGHT.items():
        print(f"\n{exercise}")
        before = total.copy()
        rows = [("right", "passed", attempts)]
        rows += [(name, name, wrong) for (home, name), wrong in WRONG.items() if home == exercise]
        rows += [("without a name", "no name", UNLISTED[exercise])]
        for row, own, tried in rows:
            counts = Counter(given(exercise, attempt) for attempt in tried)
            others = Counter({name: count for name, count in counts.items() if name != own})
            print(f"  {row:32}{len(tried):4}{counts[own]:4}  {listing(others)}".rstrip())
            kind = {"right": "right", "without a name": "unlisted"}.get(row, "wrong")
            total[kind] += len(tried)
            total[kind, "own"] += counts[own]
            total[kind, "passed"] += counts["passed"]
        for (home, names), tried in COMBINED.items():
            if home == exercise:
                counts = Counter(given(exercise, attempt) for attempt in tried)
                print(f"  several: {' + '.join(names)}\n{'':34}{len(tried):4}      {listing(counts)}")
                total["combined"] += len(tried)
                total["combined", "passed"] += counts["passed"]
        each[exercise] = total - before

    print(f"\n{'':32}right  passed   wrong  refused  named   unlisted  refused")
    for exercise, of in each.items():
        refused = [of[kind] - of[kind, "passed"] for kind in ("wrong", "unlisted")]
        counts = (of["right"], of["right", "passed"], of["wrong"], refused[0], of["wrong", "own"])
        print(f"{exercise:32}" + "".join(f"{count:5}   " for count in (*counts, of["unlisted"], refused[1])))
    print(f"\nright attempts that pass      {total['right', 'passed']} of {total['right']}")
    print(f"wrong attempts refused        {total['wrong'] - total['wrong', 'passed']} of {total['wrong']}")
    print(f"wrong attempts named          {total['wrong', 'own']} of {total['wrong']}", end="")
    print(f" ({total['wrong', 'own'] / total['wrong']:.1%})")
    print(f"unlisted refused, no name     {total['unlisted', 'own']} of {total['unlisted']}")
    print(
        f"several mistakes refused      {total['combined'] - total['combined', 'passed']}"
        f" of {total['combined']}"
    )
    named = total["wrong", "own"] / total["wrong"]
    record("wrong attempts named", f"{named:.1%}", f"of {total['wrong']}", "95 %", named >= 0.95)
    median, most = statistics.median(seconds) * 1e3, max(seconds)
    print(f"one check takes               {median:.0f} ms (median), {most:.2f} s at most")


if __name__ == "__main__":
    main()
