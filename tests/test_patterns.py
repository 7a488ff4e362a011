"""The patterns room, against attention that is worked by hand."""

import pytest
import torch
from refused import refusals

from utils.patterns import best_heads, pattern_targets, score_patterns, weight_on

# "cat" stands in both sentences, "the" twice in the first; the full stop is no word.
TOKENS = ["[CLS]", "the", "cat", "saw", "the", "dog", ".", "[SEP]", "cat", "sleeps", ".", "[SEP]"]
A, B = (1, 2, 3, 4, 5), (8, 9)  # the words of the two sentences
START, COUNT = 8, len(TOKENS)

# Each pattern, and its targets (query, key) among these tokens, by hand. A new pattern needs a row, no more.
EXPECTED = {
    "delimiter": {(query, key) for query in range(COUNT) for key in (0, 7, 11)},
    "next": {(i, i + 1) for i in range(COUNT - 1)},
    "previous": {(i, i - 1) for i in range(1, COUNT)},
    "identical": {(i, i) for i in A + B} | {(1, 4), (4, 1), (2, 8), (8, 2)},
    "identical across": {(2, 8), (8, 2)},
    "other sentence": {(i, j) for i in A for j in B} | {(j, i) for i in A for j in B},
}
OF_A_PAIR = {"identical across", "other sentence"}  # these need to know where sentence B starts


def random_attention(layers=3, heads=4, count=COUNT):
    torch.manual_seed(0)
    shape = (1, heads, count, count)
    return [torch.softmax(3 * torch.randn(shape, dtype=torch.float64), -1) for _ in range(layers)]


def test_targets_by_hand():
    targets = pattern_targets(TOKENS, START)
    assert {name: set(map(tuple, there.nonzero().tolist())) for name, there in targets.items()} == EXPECTED
    alone = pattern_targets(TOKENS)
    assert set(alone) == set(EXPECTED) - OF_A_PAIR
    assert all(torch.equal(there, targets[name]) for name, there in alone.items())


def test_pieces_are_words_and_marks_are_none():
    identical = pattern_targets(["[CLS]", "airs", "##peed", "42", "#", "'", "[UNK]", "[SEP]"])["identical"]
    assert identical.diagonal().tolist() == [False, True, True, True, False, False, False, False]


def test_a_score_is_what_the_targets_of_a_query_get_on_average():
    attentions = random_attention()
    scores = score_patterns(attentions, TOKENS, START)
    assert set(scores) == set(EXPECTED)
    for name, there in EXPECTED.items():
        queries, keys = zip(*there, strict=True)
        totals = torch.cat(attentions)[:, :, queries, keys].sum(dim=-1)  # (layers, heads)
        torch.testing.assert_close(scores[name], totals / len(set(queries)))


def test_pattern_without_a_target_is_left_out():
    tokens = ["[CLS]", "one", "[SEP]", "two", "[SEP]"]
    scores = score_patterns(random_attention(count=5), tokens, 3)
    held = {name for name, there in pattern_targets(tokens, 3).items() if there.any()}
    assert "identical across" not in scores and set(scores) == held
    assert all(of_heads.isfinite().all() for of_heads in scores.values())


def test_best_heads_come_in_order():
    attentions = random_attention(layers=2, heads=12)
    for name, of_heads in score_patterns(attentions, TOKENS, START).items():
        found = [of_heads[head].item() for head in best_heads(of_heads, count=4)]
        assert found == sorted(of_heads.flatten().tolist(), reverse=True)[:4]
        ((layer, head),) = best_heads(of_heads, count=1)
        weights = attentions[layer][0, head]
        assert weight_on(weights, pattern_targets(TOKENS, START)[name]).item() == pytest.approx(found[0])
        assert len(best_heads(of_heads, count=99)) == 24 and len(best_heads(of_heads)) == 3
    assert best_heads(torch.zeros(2, 3), count=4) == [(0, 0), (0, 1), (0, 2), (1, 0)]


def score(attentions):
    score_patterns(attentions, TOKENS)


FITS = random_attention()
NEEDED = rf"\(1, heads, {COUNT}, {COUNT}\).*eager"
test_what_does_not_fit_is_refused = refusals(
    ("one text", lambda: pattern_targets("[CLS] a [SEP]"), TypeError, "tokens"),
    ("no tokens", lambda: pattern_targets([]), ValueError, "no tokens"),
    ("B at 0", lambda: pattern_targets(TOKENS, 0), ValueError, "sentence_b_start is 0.* 1 and 11"),
    ("B behind the end", lambda: pattern_targets(TOKENS, COUNT), ValueError, "is 12.* 1 and 11"),
    ("half a place", lambda: pattern_targets(TOKENS, 1.5), TypeError, "sentence_b_start is 1.5"),
    ("another text", lambda: score(random_attention(count=9)), ValueError, NEEDED),
    ("a batch of two", lambda: score([torch.cat([layer, layer]) for layer in FITS]), ValueError, NEEDED),
    ("layers that differ", lambda: score([*FITS, FITS[0][:, :3]]), ValueError, NEEDED),
    ("NaN", lambda: score([layer * torch.nan for layer in FITS]), ValueError, "NaN"),
    ("weights not asked for", lambda: score(None), TypeError, "output_attentions=True"),
    ("more targets", lambda: weight_on(FITS[0], torch.eye(13) > 0), ValueError, r"1, 4, 12, 12\).*\(13, 13"),
)
