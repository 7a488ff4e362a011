"""The checks of notebook 07: patterns measured, and the head that shows one best."""

import torch

from .answers import LAYER_HEAD, alone, whole_numbers
from .judge import judge, safely
from .shared import planted, shares_of_keys, wrong_places


@safely
def check_separator_share(attempt):
    """Check `attempt(attentions, tokens)`: for each head the share of its weight that goes to all [SEP] tokens.

    `attentions` is a tuple of (1, heads, query, key); the result is (layers, heads).
    """
    pair = ["[CLS]", "leaves", "fall", "[SEP]", "autumn", "comes", "[SEP]"]
    trials = [
        (planted(2, 3, 7, {}), pair),
        (planted(3, 2, 5, {}, start=3), ["[CLS]", "a", "[SEP]", "b", "[SEP]"]),
    ]

    def at(tokens):
        return [place for place, token in enumerate(tokens) if token == "[SEP]"]

    def answer(share):
        return {"share": share}

    def right(attentions, tokens):
        others = [place for place in range(len(tokens)) if place not in at(tokens)]
        return answer(1 - shares_of_keys(attentions, others))  # each row sums to 1

    mistakes = {
        "only_first_separator": [lambda a, t: answer(shares_of_keys(a, at(t)[:1]))],
        "separators_as_queries": [
            lambda a, t: answer(torch.cat(a)[:, :, at(t)].sum(dim=-2).mean(dim=-1)),
            lambda a, t: answer(torch.cat(a)[:, :, at(t)].sum(dim=-1).mean(dim=-1)),
            lambda a, t: answer(torch.cat(a)[:, :, at(t)].mean(dim=(-2, -1))),
        ],
        "mean_over_keys": [lambda a, t: answer(shares_of_keys(a, at(t)) / len(at(t)))],
        "sum_over_queries": [lambda a, t: answer(shares_of_keys(a, at(t)) * len(t))],
    }
    return judge("separator_share", attempt, trials, right, mistakes, alone("share"))


@safely
def check_same_word_share(attempt):
    """Check `attempt(attentions, tokens)`: for each head the share that goes to other places of the same word.

    It is a mean over those queries whose word stands in the text more than once. No special tokens are among them.
    `attentions` is a tuple of (1, heads, query, key); the result is (layers, heads).
    """
    trials = [
        (planted(2, 3, 7, {}), ["in", "autumn", "leaves", "fall", "autumn", "in", "autumn"]),
        (planted(3, 2, 5, {}, start=5), ["a", "b", "c", "a", "d"]),
    ]

    def computed(itself=False, every=False, mean=False):
        def compute(attentions, tokens):
            weights, found = torch.cat(attentions), []
            for query, word in enumerate(tokens):
                same = [k for k, other in enumerate(tokens) if other == word and (itself or k != query)]
                if tokens.count(word) > 1 or every:
                    row = weights[:, :, query, same].sum(dim=-1)  # (layers, heads)
                    found.append(row / max(len(same), 1) if mean else row)
            return {"share": torch.stack(found).mean(dim=0)}

        return compute

    mistakes = {
        "includes_itself": [computed(itself=True), computed(itself=True, every=True)],
        "all_queries_counted": [computed(every=True)],
        "mean_over_keys": [computed(mean=True)],
    }
    return judge("same_word_share", attempt, trials, computed(), mistakes, alone("share"))


@safely
def check_best_head(attempt):
    """Check `attempt(scores)`: from one number a head, (layers, heads), the (layer, head) of the largest."""
    first = torch.tensor([[0.1, 0.2, 0.3, 0.15], [0.25, 0.05, 0.4, 0.9], [0.35, 0.12, 0.45, 0.22]])
    second = torch.tensor(
        [[0.5, 0.1, 0.3], [0.2, 0.6, 0.7], [0.25, 0.15, 0.05], [0.8, 0.4, 0.35], [0.3, 0.2, 0.1]]
    )
    largest = {first.shape: (1, 3), second.shape: (3, 0)}
    smallest = {first.shape: (1, 1), second.shape: (2, 2)}

    def right(scores):
        return {LAYER_HEAD: torch.tensor(largest[scores.shape])}

    mistakes = wrong_places(right) | {
        "weakest_instead": [lambda scores: {LAYER_HEAD: torch.tensor(smallest[scores.shape])}],
        "flat_index": [lambda scores: {LAYER_HEAD: scores.argmax()}],
    }
    return judge("best_head", attempt, [(first,), (second,)], right, mistakes, whole_numbers(LAYER_HEAD))
