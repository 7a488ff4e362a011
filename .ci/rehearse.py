"""Rehearses the course where it is used, for real: in Colab, and with another model than its own.

    python .ci/rehearse.py [colab] [models] [NN ...]     both parts and every notebook, or only those named

Colab: an environment that holds what Colab holds, and not what it lacks; the module `google.colab`; a notebook alone in
an empty folder; the address of the course redirected to a copy on this disk. Each notebook gets such a machine of its
own, runs there from its set-up cell to its end, and may install what Colab lacks and nothing else. A second start
installs nothing. Two more runs have no network: they must end in plain sentences.

Models: COURSE_CHECKPOINT=bert-base-uncased, from a hub on loopback that serves a checkpoint of that shape with random
weights; then from the cache, with the hub gone.

The environment of Colab is kept in .rehearsal, so that only the first run builds it.
"""

import sys
import tempfile
import time
from pathlib import Path

import course
from rehearsal_colab import rehearse_colab, snapshot
from rehearsal_models import rehearse_models
from rehearsal_stage import CannotRehearse, Rehearsal

PARTS = ("colab", "models")


def rehearse(parts: list[str], paths: list[Path]) -> list[Rehearsal]:
    results = []
    if "colab" in parts:
        with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
            bare, state = snapshot(course.ROOT, Path(folder))
            print(f"Rehearsing {state}.", flush=True)
            results += rehearse_colab(paths, bare)
    if "models" in parts:
        results += rehearse_models(paths)
    return results


def main(arguments: list[str]) -> int:
    parts = [part for part in PARTS if part in arguments] or list(PARTS)
    numbers = [argument for argument in arguments if argument not in PARTS]
    paths = [path for path in course.paths() if not numbers or path.name[:2] in numbers]
    if len(paths) < len(set(numbers)) or not paths:
        raise CannotRehearse(f"There is no notebook for one of these numbers: {' '.join(numbers)}.")
    begin = time.perf_counter()
    results = rehearse(parts, paths)
    failed = [result for result in results if result.troubles]
    print(f"\nThe rehearsal took {(time.perf_counter() - begin) / 60:.0f} minutes.")
    for result in failed:
        print(f"FAILED {result.where}: {result.notebook}: {result.troubles[0].splitlines()[0]}")
    print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except CannotRehearse as sentence:
        sys.exit(f"\n{sentence}")
    except KeyboardInterrupt:
        sys.exit("\nStopped.")
