"""The course with other models than its own: from a hub on loopback, then from the cache with the hub gone."""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import course
from rehearsal_stage import HEADER, Rehearsal, at_a_time, clean_environment, play

sys.path.append(str(course.ROOT / "tests"))

ORIGINAL = "bert-base-uncased"
OWNERS = {name: f"google-bert/{name}" for name in (ORIGINAL, "bert-base-cased", "bert-base-chinese")}
# The notebooks that a cased and a Chinese vocabulary are rehearsed with: tokens, and the three views.
OF_OTHER_VOCABULARIES = ("01", "06", "07", "08")
WEIGHTS = "model.safetensors"


def rehearse_models(paths: list[Path]) -> list[Rehearsal]:
    from local_hub import LocalHub
    from random_checkpoints import make_checkpoint

    print(f"\nOther models, with random weights, from a hub on this machine\n\n{HEADER}", flush=True)
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        place = Path(folder)
        models = {owner: make_checkpoint(name, place / "hub" / name) for name, owner in OWNERS.items()}
        # The short names lead to the long ones, as on the real hub.
        with LocalHub(models, moved=OWNERS) as hub:
            first = at_a_time([lambda: downloaded(paths[0], hub, place / "cache")])
            jobs: list[Callable[[], Rehearsal]] = []
            for name in OWNERS:
                if name != ORIGINAL:
                    some = [path for path in paths if path.name[:2] in OF_OTHER_VOCABULARIES]
                    jobs += [
                        lambda path=path, name=name: with_model(
                            path, name, hub.url, place / f"cache-{name}-{path.stem}"
                        )
                        for path in some
                    ]
            others = at_a_time(jobs)
            gone = hub.url
        # From the last on: notebook 10 takes longest, and should not be what all the others wait for.
        cached = at_a_time(
            [lambda path=path: from_cache(path, gone, place / "cache") for path in reversed(paths)]
        )
    return first + others + cached


def environment(name: str, hub: str, cache: Path) -> dict[str, str]:
    """Ask for this model, on this hub only and directly, with a cache of its own."""
    usual = {key: value for key, value in clean_environment().items() if not key.lower().endswith("_proxy")}
    return usual | {"COURSE_CHECKPOINT": name, "HF_ENDPOINT": hub, "HF_HOME": str(cache)}


def with_model(path: Path, name: str, hub: str, cache: Path, shown: list[str] | None = None) -> Rehearsal:
    """A notebook, run to its end with this model. What it shows as text is added to `shown`."""
    rehearsal = Rehearsal(name, path.name)
    played = play(course.read(path).cells, environment(name, hub, cache), course.NOTEBOOKS)
    if played.error:
        rehearsal.troubles.append(played.told(path.name))
    if shown is not None:
        shown.append(played.shown)
    return rehearsal


def downloaded(path: Path, hub, cache: Path) -> Rehearsal:
    """The first notebook fetches the original BERT, once, into an empty cache, and shows a bar meanwhile."""
    shown = []
    rehearsal = with_model(path, ORIGINAL, hub.url, cache, shown)
    rehearsal.where += ", downloaded"
    times = sum(
        method == "GET" and place.endswith(f"{ORIGINAL}/{WEIGHTS}") for method, place, _ in hub.requests
    )
    if f"/lfs/{OWNERS[ORIGINAL]}/{WEIGHTS}" not in {place for _, place, _ in hub.requests}:
        rehearsal.troubles.append("the notebook ran without the weights of the hub")
    if times > 1:
        rehearsal.troubles.append(f"the weights were fetched {times} times")
    if WEIGHTS not in shown[0]:
        rehearsal.troubles.append("no progress bar of the download is seen")
    return rehearsal


def from_cache(path: Path, hub: str, cache: Path) -> Rehearsal:
    """A notebook with the original BERT out of the cache: nobody answers at the address of the hub."""
    shown = []
    rehearsal = with_model(path, ORIGINAL, hub, cache, shown)
    rehearsal.where += ", cached, hub gone"
    if WEIGHTS in shown[0]:
        rehearsal.troubles.append("something is downloaded, or a progress bar is seen all the same")
    return rehearsal
