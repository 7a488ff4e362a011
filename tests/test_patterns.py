"""The patterns of the heads room, against attention that is worked by hand."""

import math

import pandas as pd
import pytest
import torch

from utils.patterns import best_heads, pattern_targets, score_patterns, weight_on

# "cat" stands in both sentences, "the" twice in the first.
TOKENS = ["[CLS]", "the", "cat", "saw", "the", "dog", "[SEP]", "cat", "sleeps", "[SEP]"]
START = 7
COUNT = len(TOKENS)


def looks_at(keys):
    """One layer with one head, whose query i gives all its weight to keys[i]."""
    return torch.eye(COUNT, dtype=torch.float64)[list(keys)][None, None]  # (1, 1, query, key)


def random_attention(layers=3, heads=4, count=COUNT):
    torch.manual_seed(0)
    return [
        torch.softmax(3 * torch.randn(1, heads, count, count, dtype=torch.float64), -1) for _ in range(layers)
    ]


def places(pattern, start=START):
    """The targets of a pattern as (query, key)."""
    return {tuple(place) for place in pattern_targets(TOKENS, start)[pattern].nonzero().tolist()}


# --- targets, written out by hand ---


def test_delimiters_are_targets_of_every_query():
    assert places("delimiter") == {(query, key) for query in range(10) for key in (0, 6, 9)}


def test_next_and_previous_end_at_the_edges():
    assert places("next") == {(i, i + 1) for i in range(9)}
    assert places("previous") == {(i, i - 1) for i in range(1, 10)}


def test_identical_is_a_word_itself_and_its_copies_without_delimiters():
    itself = {(i, i) for i in (1, 2, 3, 4, 5, 7, 8)}
    assert places("identical") == itself | {(1, 4), (4, 1), (2, 7), (7, 2)}


def test_patterns_of_a_pair_cross_and_leave_the_delimiters_out():
    assert places("identical across") == {(2, 7), (7, 2)}
    a, b = (1, 2, 3, 4, 5), (7, 8)
    assert places("other sentence") == {(i, j) for i in a for j in b} | {(j, i) for i in a for j in b}


def test_without_sentence_b_the_patterns_of_a_pair_are_left_out():
    assert list(pattern_targets(TOKENS)) == ["delimiter", "next", "previous", "identical"]
    assert list(score_patterns(random_attention(), TOKENS)) == ["delimiter", "next", "previous", "identical"]
    with_pair = pattern_targets(TOKENS, START)
    assert all(torch.equal(there, with_pair[name]) for name, there in pattern_targets(TOKENS).items())


# --- scores of heads whose score is known ---


@pytest.mark.parametrize(
    "pattern, keys",
    [
        ("delimiter", [0, 6, 9, 0, 6, 9, 0, 6, 9, 0]),
        ("next", [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]),  # the last query has no next token: it may look anywhere
        ("previous", [5, 0, 1, 2, 3, 4, 5, 6, 7, 8]),  # as the first, which has no previous one
        ("identical", [0, 4, 7, 3, 1, 5, 0, 2, 8, 0]),
        ("identical across", [0, 0, 7, 0, 0, 0, 0, 2, 0, 0]),
        ("other sentence", [0, 7, 8, 7, 8, 7, 0, 1, 5, 0]),
    ],
)
def test_a_head_that_does_nothing_else_scores_one(pattern, keys):
    scores = score_patterns([looks_at(keys)], TOKENS, START)
    assert scores.loc["1-1", pattern] == 1.0


def test_scores_of_the_previous_head_in_the_other_patterns():
    """It looks at [CLS] from 0 and 1, at [SEP] from 7; from 7 "cat" to [SEP], never across to a word."""
    scores = score_patterns([looks_at([0, 0, 1, 2, 3, 4, 5, 6, 7, 8])], TOKENS, START).loc["1-1"]
    assert scores["delimiter"] == pytest.approx(3 / 10)
    assert scores[["next", "identical", "identical across", "other sentence"]].tolist() == [0, 0, 0, 0]


def test_weights_on_several_targets_are_added_and_queries_without_one_do_not_count():
    weights = torch.tensor([[0.2, 0.3, 0.5], [0.1, 0.2, 0.7], [0.6, 0.4, 0.0]])
    targets = torch.tensor([[True, True, False], [False, False, False], [False, True, False]])
    assert weight_on(weights, targets).item() == pytest.approx((0.5 + 0.4) / 2)


def test_even_attention_scores_the_share_of_keys_that_are_targets():
    even = [torch.full((1, 1, COUNT, COUNT), 0.1, dtype=torch.float64)]
    scores = score_patterns(even, TOKENS, START).loc["1-1"]
    by_hand = {
        "delimiter": 0.3,
        "next": 0.1,
        "previous": 0.1,
        "identical": (4 * 2 + 3 * 1) / 7 / 10,
        "identical across": 0.1,
        "other sentence": (5 * 2 + 2 * 5) / 7 / 10,
    }
    assert scores.to_dict() == pytest.approx(by_hand)


def test_scores_equal_plain_loops():
    attentions = random_attention()
    scores = score_patterns(attentions, TOKENS, START)
    for pattern, there in pattern_targets(TOKENS, START).items():
        for layer, layer_weights in enumerate(attentions):
            for head, rows in enumerate(layer_weights[0].tolist()):
                sums = [
                    sum(weight for weight, hit in zip(row, hits, strict=True) if hit)
                    for row, hits in zip(rows, there.tolist(), strict=True)
                    if any(hits)
                ]
                expected = sum(sums) / len(sums)
                assert scores.loc[f"{layer + 1}-{head + 1}", pattern] == pytest.approx(expected)


# --- invariants ---


def test_reversed_text_swaps_next_and_previous():
    attentions = random_attention()
    backwards = score_patterns([layer.flip(-1, -2) for layer in attentions], TOKENS[::-1])
    scores = score_patterns(attentions, TOKENS)
    swapped = scores.rename(columns={"next": "previous", "previous": "next"})[scores.columns]
    pd.testing.assert_frame_equal(backwards, swapped)


def test_swapped_sentences_keep_the_patterns_of_a_pair():
    order = [7, 8, 9, 0, 1, 2, 3, 4, 5, 6]
    attentions = random_attention()
    swapped = score_patterns(
        [layer[..., order, :][..., order] for layer in attentions], [TOKENS[i] for i in order], 3
    )
    kept = ["delimiter", "identical", "identical across", "other sentence"]
    pd.testing.assert_frame_equal(swapped[kept], score_patterns(attentions, TOKENS, START)[kept])


def test_scores_are_shares_and_are_float64_of_any_dtype():
    attentions = [layer.to(torch.bfloat16).requires_grad_() for layer in random_attention()]
    scores = score_patterns(attentions, TOKENS, START)
    assert (scores.dtypes == "float64").all()
    assert ((scores >= 0) & (scores <= 1.02)).all(axis=None)


def test_pattern_without_a_target_is_nan_and_has_no_best_head():
    tokens = ["[CLS]", "one", "[SEP]", "two", "[SEP]"]
    scores = score_patterns(random_attention(count=5), tokens, 3)
    assert scores["identical across"].isna().all() and scores.drop(columns="identical across").notna().all(
        axis=None
    )
    assert "identical across" not in set(best_heads(scores)["pattern"])
    assert math.isnan(weight_on(torch.ones(2, 2), torch.zeros(2, 2, dtype=torch.bool)).item())


# --- the best heads ---


def test_best_heads_are_sorted_and_their_indices_find_them():
    attentions = random_attention(layers=2, heads=12)
    scores = score_patterns(attentions, TOKENS, START)
    found = best_heads(scores, count=4)
    assert list(found) == ["pattern", "rank", "head", "layer index", "head index", "score"]
    assert found.groupby("pattern", sort=False)["rank"].apply(list).tolist() == [[1, 2, 3, 4]] * 6
    for row in found.itertuples(index=False):
        pattern, rank, name, layer, head, score = row
        assert name == f"{layer + 1}-{head + 1}"
        assert score == sorted(scores[pattern], reverse=True)[rank - 1]
        weights = attentions[layer][0, head]
        assert weight_on(weights, pattern_targets(TOKENS, START)[pattern]).item() == pytest.approx(score)


def test_more_heads_than_there_are_gives_all():
    assert len(best_heads(score_patterns(random_attention(2, 3), TOKENS), count=99)) == 6 * 4


# --- bad input ---


@pytest.mark.parametrize("tokens", ["[CLS] a [SEP]", []])
def test_tokens_must_be_a_list(tokens):
    with pytest.raises(TypeError, match="tokens must be a list of strings"):
        pattern_targets(tokens)


@pytest.mark.parametrize("start", [0, 10, 11, -3, 1.5, "7"])
def test_sentence_b_must_start_inside(start):
    with pytest.raises(ValueError, match=f"sentence_b_start is {start}, but .* between 1 and 9"):
        pattern_targets(TOKENS, start)


@pytest.mark.parametrize(
    "attentions",
    [
        random_attention(count=9),  # of another text
        [torch.cat([layer, layer]) for layer in random_attention()],  # a batch of two
        [layer[0] for layer in random_attention()],  # without the axis of the batch
        [layer[..., :9] for layer in random_attention()],  # fewer keys than queries
        [*random_attention(1, 4), *random_attention(1, 3)],  # layers that differ
        (),  # what a model returns without eager
    ],
    ids=["other text", "batch", "three axes", "not square", "layers differ", "empty"],
)
def test_attention_that_does_not_fit_the_tokens_is_refused(attentions):
    with pytest.raises(ValueError, match=r"10 tokens need \(1, heads, 10, 10\).*eager"):
        score_patterns(attentions, TOKENS)


def test_targets_of_another_size_are_refused():
    with pytest.raises(ValueError, match=r"weights has the shape \(2, 3, 3\) and targets \(4, 4\)"):
        weight_on(torch.ones(2, 3, 3), torch.ones(4, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match="targets"):
        weight_on(torch.ones(3, 3), torch.ones(1, 3, dtype=torch.bool))  # it would broadcast
