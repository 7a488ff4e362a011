"""The stored results of notebook 12's longer runs are those of its own definitions."""

import json
from itertools import product

import pytest

import longer_runs

STORED = json.loads(longer_runs.STORED.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def notebook():
    return longer_runs.definitions()


def stored(training, seed):
    (found,) = (run for run in STORED if (run["training"], run["seed"]) == (training, seed))
    return found


def test_every_training_is_stored_to_its_end_with_every_seed():
    assert len(STORED) == len(longer_runs.TRAININGS) * len(longer_runs.SEEDS)
    for training, seed in product(longer_runs.TRAININGS, longer_runs.SEEDS):
        steps = longer_runs.TRAININGS[training][1]
        assert len(stored(training, seed)["loss"]) == steps // longer_runs.EVERY + 1


@pytest.mark.slow
@pytest.mark.parametrize("training", longer_runs.TRAININGS)
def test_each_training_begins_as_stored(notebook, training):
    seed = list(longer_runs.TRAININGS).index(training)  # each training with another one
    begun = longer_runs.run(notebook, training, seed, steps=50)["loss"]
    assert begun == pytest.approx(stored(training, seed)["loss"][:2], abs=0.01)


@pytest.mark.slow
def test_a_training_ends_as_stored(notebook):
    made, kept = longer_runs.run(notebook, "graded, 300 steps", 0), stored("graded, 300 steps", 0)
    assert made["shifted"] == pytest.approx(kept["shifted"], abs=0.1)
    assert made["accuracy"] == pytest.approx(kept["accuracy"], abs=0.1)
    assert made["cut"] == pytest.approx(kept["cut"], abs=0.15)


@pytest.mark.slow
def test_blocks_at_the_stored_offsets_are_new_copied_and_of_other_tokens_than_those_in_front(notebook):
    for offset in notebook["OFFSETS"]:
        ids, start = notebook["shifted_blocks"](offset)
        for row, first in zip(ids.tolist(), start.tolist(), strict=True):
            front, block, again = row[:offset], row[offset:first], row[first:]
            assert block == again and len(set(front + block)) == len(front) + 8
