"""The stored results of the larger runs of notebooks 14 and 15 are those of their own definitions."""

import json

import pytest

import more_texts

STORED = json.loads(more_texts.STORED.read_text(encoding="utf-8"))
STORED_15 = json.loads(more_texts.STORED_15.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def notebook():
    return more_texts.definitions(more_texts.NOTEBOOK, more_texts.CELLS)


def test_everything_is_stored():
    assert all(len(of_texts) == 12 for both in STORED["hidden"].values() for of_texts in both)
    assert all(len(loss) == 12 for loss in STORED["windows"].values())
    assert all(len(shares) == 24 for shares in STORED["copying"].values())
    removed = [run for runs in STORED["names"]["removed"].values() for run in runs.values()]
    assert all(len(run["difference"]) == 50 for run in removed)
    assert all(len(means) == more_texts.DRAWS for means in STORED["names"]["random"].values())
    assert len(STORED_15["lines"]) == len(STORED_15["heads"]) == 83


@pytest.mark.slow
def test_a_part_of_each_run_is_as_stored(notebook):
    """Fewer texts, sequences and prompts: the first ones are the same.

    What hides tokens, and what notebook 15 shows, is run again in the notebooks themselves.
    """
    for name, loss in more_texts.windows(notebook, slice(1, 2)).items():
        assert loss[0] == pytest.approx(STORED["windows"][name][1], abs=0.02)
    made = more_texts.copying(notebook, count=4, draws=1)
    for name, shares in made.items():
        assert shares == pytest.approx(STORED["copying"][name][:4], abs=0.05), name
    made = more_texts.names(notebook, groups=8, draws=1)["removed"]
    for name, runs in made.items():
        kept = STORED["names"]["removed"][name]["mean"]["difference"][:8]
        assert runs["mean"]["difference"] == pytest.approx(kept, abs=0.05), name
