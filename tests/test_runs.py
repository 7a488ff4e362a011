"""The results that notebooks 11 to 15 read from files are those of the notebooks' own definitions."""

import functools
import json
from itertools import product

import pytest

import longer_runs
import more_texts
import timings
import writer_costs


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


TIMES, COSTS = read(timings.STORED), read(writer_costs.STORED)
TEXTS, TEXTS_15 = read(more_texts.STORED), read(more_texts.STORED_15)
of_11 = functools.cache(lambda: timings.definitions(timings.NOTEBOOK, timings.CELLS))
of_12 = functools.cache(longer_runs.definitions)
RUNS = {(run["training"], run["seed"]): run for run in read(longer_runs.STORED)}


def test_times_are_as_the_text_says():
    """ "The projections grow about with the first power of n, both attentions about with the second." """
    assert "PyTorch" in TIMES["machine"] and "/" not in TIMES["machine"]
    rows = [TIMES["seconds"][name] for name in of_11()["functions"]]
    slopes = [of_11()["fit_slope"](list(map(int, row)), row.values())[0] for row in rows]
    assert slopes == pytest.approx([1, 2, 2], abs=0.45), "was the machine quiet? run `make timings` again"


def test_bytes_are_those_that_the_allocator_counts_here():
    """Sizes of a kernel's own tiles differ from one kind of processor to another; a table does not."""
    found = timings.memory(of_11(), [512])
    for name, row in TIMES["bytes"].items():
        assert found[name]["512"] == pytest.approx(row["512"], rel=0.3), name
        assert [int(length) for length in row] == timings.LENGTHS
        table = 2 * 4096**2 * 4  # of two heads, 4 bytes a number
        assert (row["4096"] > table) == (name in ("by hand", "nn.MultiheadAttention"))


def test_every_training_is_stored_to_its_end_once_with_every_seed():
    assert RUNS.keys() == set(product(longer_runs.TRAININGS, longer_runs.SEEDS))
    assert len(RUNS) == len(read(longer_runs.STORED))
    for (training, _), run in RUNS.items():
        assert len(run["loss"]) == longer_runs.TRAININGS[training][1] // longer_runs.EVERY + 1


@pytest.mark.slow
@pytest.mark.parametrize("training", longer_runs.TRAININGS)
def test_each_training_begins_as_stored(training):
    seed = list(longer_runs.TRAININGS).index(training)  # each training with another one
    begun = longer_runs.run(of_12(), training, seed, steps=50)["loss"]
    assert begun == pytest.approx(RUNS[training, seed]["loss"][:2], abs=0.01)


@pytest.mark.slow
def test_a_training_ends_as_stored():
    made, kept = longer_runs.run(of_12(), "graded, 300 steps", 0), RUNS["graded, 300 steps", 0]
    assert made["shifted"] == pytest.approx(kept["shifted"], abs=0.1)
    assert made["accuracy"] == pytest.approx(kept["accuracy"], abs=0.1)
    assert made["cut"] == pytest.approx(kept["cut"], abs=0.15)


@pytest.mark.slow
def test_blocks_at_the_stored_offsets_are_new_copied_and_of_other_tokens_than_those_in_front():
    for offset in of_12()["OFFSETS"]:
        ids, start = of_12()["shifted_blocks"](offset)
        for row, first in zip(ids.tolist(), start.tolist(), strict=True):
            front, block, again = row[:offset], row[offset:first], row[first:]
            assert block == again and len(set(front + block)) == len(front) + 8


@pytest.mark.slow
def test_stored_costs_are_measured_alike_here():
    made, kept = writer_costs.rounding(1, texts=2), COSTS["rounding"][1]
    for name in ("before", "after"):
        assert made[name] == pytest.approx(kept[name][:2], abs=0.02)
    assert made["size"] == pytest.approx(kept["size"], abs=1e-3)
    quick = {length: row["without"] / row["with"] for length, row in COSTS["cache"].items()}
    assert 1 < quick["16"] < quick["64"] and list(quick) == list(map(str, writer_costs.LENGTHS))
    made = writer_costs.cache(8)
    assert made["with"] < made["without"]


def test_all_texts_are_stored():
    assert all(len(of_texts) == 12 for both in TEXTS["hidden"].values() for of_texts in both)
    assert all(len(loss) == 12 for loss in TEXTS["windows"].values())
    assert all(len(shares) == 24 for shares in TEXTS["copying"].values())
    removed = [run for runs in TEXTS["names"]["removed"].values() for run in runs.values()]
    assert all(len(run["difference"]) == 50 for run in removed)
    assert all(len(means) == more_texts.DRAWS for means in TEXTS["names"]["random"].values())
    assert len(TEXTS_15["lines"]) == len(TEXTS_15["heads"]) == 83


@pytest.mark.slow
def test_a_part_of_each_run_is_as_stored():
    """Fewer texts, sequences and prompts: the first are the same. The rest is run again in the notebooks."""
    notebook = more_texts.definitions(more_texts.NOTEBOOK, more_texts.CELLS)
    for name, loss in more_texts.windows(notebook, slice(1, 2)).items():
        assert loss[0] == pytest.approx(TEXTS["windows"][name][1], abs=0.02)
    for name, shares in more_texts.copying(notebook, count=2, draws=1).items():
        assert shares == pytest.approx(TEXTS["copying"][name][:2], abs=0.05), name
    for name, runs in more_texts.names(notebook, groups=3, draws=1)["removed"].items():
        kept = TEXTS["names"]["removed"][name]["mean"]["difference"][:3]
        assert runs["mean"]["difference"] == pytest.approx(kept, abs=0.05), name
