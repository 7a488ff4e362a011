"""How a table of refusals becomes a test."""

import re

import pytest


def refusals(*table):
    """Return a test of rows (what, call, error, words): words as they stand, or as a pattern."""

    @pytest.mark.parametrize("call, error, words", [row[1:] for row in table], ids=[row[0] for row in table])
    def test(call, error, words):
        with pytest.raises(error) as caught:
            call()
        assert words in str(caught.value) or re.search(words, str(caught.value)), caught.value

    return test
