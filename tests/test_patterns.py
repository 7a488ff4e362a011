"""The patterns room, against attention that is worked by hand."""

import math

import pandas as pd
import pytest
import torch

from utils.patterns import best_heads, pattern_targets, score_patterns, weight_on

# "cat" stands in both sentences, "the" twice in the first.
TOKENS = ["[CLS]", "the", "cat", "saw", "the", "dog", "[SEP]", "cat", "sleeps", "[SEP]"]
A, B = (1, 2, 3, 4, 5), (7, 8)  # the words of the two sentences
START, COUNT = 7, len(TOKENS)


def random_attention(layers=3, heads=4, count=COUNT):
    torch.manual_seed(0)
    shape = (1, heads, count, count)
    return [torch.softmax(3 * torch.randn(shape, dtype=torch.float64), -1) for _ in range(layers)]


def test_targets_by_hand():
    targets = pattern_targets(TOKENS, START)
    assert {name: set(map(tuple, there.nonzero().tolist())) for name, there in targets.items()} == {
        "delimiter": {(query, key) for query in range(10) for key in (0, 6, 9)},
        "next": {(i, i + 1) for i in range(9)},
        "previous": {(i, i - 1) for i in range(1, 10)},
        "identical": {(i, i) for i in A + B} | {(1, 4), (4, 1), (2, 7), (7, 2)},
        "identical across": {(2, 7), (7, 2)},
        "other sentence": {(i, j) for i in A for j in B} | {(j, i) for i in A for j in B},
    }
    alone = pattern_targets(TOKENS)
    assert list(alone) == ["delimiter", "next", "previous", "identical"]
    assert all(torch.equal(there, targets[name]) for name, there in alone.items())


def test_weights_on_several_targets_are_added_and_queries_without_one_do_not_count():
    weights = torch.tensor([[0.2, 0.3, 0.5], [0.1, 0.2, 0.7], [0.6, 0.4, 0.0]])
    targets = torch.tensor([[True, True, False], [False, False, False], [False, True, False]])
    assert weight_on(weights, targets).item() == pytest.approx((0.5 + 0.4) / 2)
    assert math.isnan(weight_on(weights, torch.zeros(3, 3, dtype=torch.bool)).item())


def test_even_attention_scores_the_share_of_keys_that_are_targets():
    even = [torch.full((1, 1, COUNT, COUNT), 0.1, dtype=torch.float64)]
    shares = [0.3, 0.1, 0.1, (4 * 2 + 3 * 1) / 7 / 10, 0.1, (5 * 2 + 2 * 5) / 7 / 10]
    assert score_patterns(even, TOKENS, START).loc["1-1"].tolist() == pytest.approx(shares)


def test_scores_equal_plain_loops():
    attentions = random_attention()
    scores = score_patterns(attentions, TOKENS, START)
    for pattern, there in pattern_targets(TOKENS, START).items():
        for layer, layer_weights in enumerate(attentions):
            for head, rows in enumerate(layer_weights[0].tolist()):
                pairs = [pair for pair in zip(rows, there.tolist(), strict=True) if any(pair[1])]
                sums = [sum(w for w, hit in zip(*pair, strict=True) if hit) for pair in pairs]
                assert scores.loc[f"{layer + 1}-{head + 1}", pattern] == pytest.approx(sum(sums) / len(sums))


def test_reversed_text_swaps_next_and_previous():
    attentions = random_attention()
    backwards = score_patterns([layer.flip(-1, -2) for layer in attentions], TOKENS[::-1])
    scores = score_patterns(attentions, TOKENS)
    swapped = scores.rename(columns={"next": "previous", "previous": "next"})[scores.columns]
    pd.testing.assert_frame_equal(backwards, swapped)


def test_swapped_sentences_keep_the_patterns_of_a_pair():
    order, attentions = [7, 8, 9, 0, 1, 2, 3, 4, 5, 6], random_attention()
    turned = [layer[..., order, :][..., order] for layer in attentions]
    kept = ["delimiter", "identical", "identical across", "other sentence"]
    swapped = score_patterns(turned, [TOKENS[i] for i in order], 3)[kept]
    pd.testing.assert_frame_equal(swapped, score_patterns(attentions, TOKENS, START)[kept])


def test_scores_are_shares_and_are_float64_of_any_dtype():
    attentions = [layer.to(torch.bfloat16).requires_grad_() for layer in random_attention()]
    scores = score_patterns(attentions, TOKENS, START)
    assert (scores.dtypes == "float64").all()
    assert ((scores >= 0) & (scores <= 1.02)).all(axis=None)


def test_pattern_without_a_target_is_nan_and_has_no_best_head():
    scores = score_patterns(random_attention(count=5), ["[CLS]", "one", "[SEP]", "two", "[SEP]"], 3)
    assert scores.isna().all().tolist() == [name == "identical across" for name in scores]
    assert scores.isna().any().sum() == 1 and "identical across" not in set(best_heads(scores)["pattern"])


def test_best_heads_come_in_order_and_their_indices_find_them():
    attentions = random_attention(layers=2, heads=12)
    scores = score_patterns(attentions, TOKENS, START)
    found = best_heads(scores, count=4)
    assert list(found) == ["pattern", "rank", "head", "layer index", "head index", "score"]
    assert found.groupby("pattern", sort=False)["rank"].apply(list).tolist() == [[1, 2, 3, 4]] * 6
    for pattern, rank, name, layer, head, score in found.itertuples(index=False):
        assert name == f"{layer + 1}-{head + 1}"
        assert score == sorted(scores[pattern], reverse=True)[rank - 1]
        weights = attentions[layer][0, head]
        assert weight_on(weights, pattern_targets(TOKENS, START)[pattern]).item() == pytest.approx(score)
    assert len(best_heads(scores, count=99)) == 6 * 24 and len(best_heads(scores)) == 6 * 3


def score(attentions):
    score_patterns(attentions, TOKENS)


def weigh(weights, targets):
    weight_on(torch.ones(weights), torch.ones(targets, dtype=torch.bool))


FITS = random_attention()
NEEDED = r"\(1, heads, 10, 10\).*eager"
REFUSED = [
    ("one text", lambda: pattern_targets("[CLS] a [SEP]"), TypeError, "tokens"),
    ("no tokens", lambda: pattern_targets([]), ValueError, "no tokens"),
    ("B at 0", lambda: pattern_targets(TOKENS, 0), ValueError, "sentence_b_start is 0.* 1 and 9"),
    ("B behind the end", lambda: pattern_targets(TOKENS, 10), ValueError, "sentence_b_start is 10.* 1 and 9"),
    ("B below 0", lambda: pattern_targets(TOKENS, -3), ValueError, "sentence_b_start is -3.* 1 and 9"),
    ("half a place", lambda: pattern_targets(TOKENS, 1.5), TypeError, "sentence_b_start is 1.5"),
    ("B as text", lambda: pattern_targets(TOKENS, "7"), TypeError, "sentence_b_start is '7'"),
    ("another text", lambda: score(random_attention(count=9)), ValueError, NEEDED),
    ("a batch of two", lambda: score([torch.cat([layer, layer]) for layer in FITS]), ValueError, NEEDED),
    ("three axes", lambda: score([layer[0] for layer in FITS]), ValueError, NEEDED),
    ("not square", lambda: score([layer[..., :9] for layer in FITS]), ValueError, NEEDED),
    ("layers that differ", lambda: score([*FITS, FITS[0][:, :3]]), ValueError, NEEDED),
    ("no weights", lambda: score(()), ValueError, NEEDED),
    ("weights not asked for", lambda: score(None), TypeError, "output_attentions=True"),
    ("more targets", lambda: weigh((2, 3, 3), (4, 4)), ValueError, r"\(2, 3, 3\).*\(4, 4\)"),
    ("fewer targets", lambda: weigh((3, 3), (1, 3)), ValueError, r"\(3, 3\).*\(1, 3\)"),
]


@pytest.mark.parametrize("what, wrong, error, fact", REFUSED)
def test_what_does_not_fit_is_refused(what, wrong, error, fact):
    with pytest.raises(error, match=fact):
        wrong()
