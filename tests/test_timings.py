"""The stored times and bytes of notebook 11 are those of its own definitions, from a quiet machine."""

import json

import pytest

import timings

STORED = json.loads(timings.STORED.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def notebook():
    return timings.definitions(timings.NOTEBOOK, timings.CELLS)


def slope(notebook, row):
    return notebook["fit_slope"]([int(length) for length in row], row.values())[0]


def test_times_are_as_the_text_says(notebook):
    """ "The projections grow about with the first power of n, both attentions about with the second." """
    assert "PyTorch" in STORED["machine"] and "/" not in STORED["machine"]
    slopes = [slope(notebook, STORED["seconds"][name]) for name in notebook["functions"]]
    assert slopes == pytest.approx([1, 2, 2], abs=0.45), "was the machine quiet? run `make timings` again"


def test_bytes_are_those_that_the_allocator_counts_here(notebook):
    """Sizes of a kernel's own tiles differ from one kind of processor to another; a table does not."""
    found = timings.memory(notebook, [512])
    for name, row in STORED["bytes"].items():
        assert found[name]["512"] == pytest.approx(row["512"], rel=0.3), name
        assert [int(length) for length in row] == timings.LENGTHS
        table = 2 * 4096**2 * 4  # of two heads, 4 bytes a number
        assert (row["4096"] > table) == (name in ("by hand", "nn.MultiheadAttention"))
