"""The exercises of notebook 07: patterns measured, and a head that shows one in every text."""

from contextlib import nullcontext, suppress

import torch

from .answers import LAYER_HEAD, alone, whole_numbers
from .exercise import Exercise
from .shared import SHAPES_OF_SHARES, made_attentions


def separator_share(attentions, tokens):
    separators = [place for place, token in enumerate(tokens) if token == "[SEP]"]
    words = [place for place, token in enumerate(tokens) if token not in ("[CLS]", "[SEP]")]
    weights = torch.cat(attentions)  # (layers, heads, query, key)
    on_keys = weights[..., separators]
    shares = on_keys.sum(dim=-1)[..., words]  # (layers, heads, words)
    table = shares.mean(dim=-1)  # (layers, heads)
    return table


SEPARATED = [
    "[CLS] leaves [ [SEP] autumn . leaves [SEP]",
    "[CLS] [MASK] sep [SEP] or [SEP] . [MASK] [SEP]",
    "[CLS] sep ##s and cls [SEP]",
]

check_separator_share = Exercise(
    separator_share,
    lambda: [
        (made_attentions(2 + i % 2, 3 - i % 2, len(text.split()), i), text.split())
        for i, text in enumerate(SEPARATED)
    ],
    alone("share"),
    SHAPES_OF_SHARES,
)


def same_word_share(attentions, tokens):
    same = torch.tensor([[one == other for other in tokens] for one in tokens])  # (query, key)
    same = same & ~torch.eye(len(tokens), dtype=torch.bool)
    weights = torch.cat(attentions)  # (layers, heads, query, key)
    on_keys = weights * same
    shares = on_keys.sum(dim=-1)[..., same.any(dim=-1)]  # (layers, heads, words that come again)
    table = shares.mean(dim=-1)  # (layers, heads)
    return table


REPEATED = ["in autumn leaves fall autumn in autumn", "a leaf falls a fall leaf"]

check_same_word_share = Exercise(
    same_word_share,
    lambda: [
        (made_attentions(2 + i, 3 - i, len(text.split()), i), text.split()) for i, text in enumerate(REPEATED)
    ],
    alone("share"),
    SHAPES_OF_SHARES,
)


def steady_head(scores, even):
    leads = scores - even[:, None, None]  # (texts, layers, heads)
    table = leads.amin(dim=0)  # (layers, heads)
    layer, head = divmod(table.argmax().item(), table.shape[1])
    return layer, head


class SteadyHead(Exercise):
    """A search that starts at 0 finds no head where none leads: that is an answer of no numbers."""

    def call(self, function, scores, even):
        none_leads = (scores - even[:, None, None]).amin(dim=0).max() < 0
        found = None
        with suppress(UnboundLocalError) if none_leads else nullcontext():
            found = function(scores, even)
        return [] if found is None and none_leads else found


# Texts, layers and heads. In the first batch they are as many, so `even` fits each axis.
SCORES = [(4, 4, 4), (3, 5, 3), (5, 4, 3), (2, 6, 2), (3, 3, 5), (2, 3, 4)]
STARTS = 26, 54, 6, 34, 66, 63  # with these each mistake names other heads


def steady_trials():
    trials = []
    for (texts, layers, heads), start in zip(SCORES, STARTS, strict=True):
        count = torch.arange(texts * layers * heads).view(texts, layers, heads)
        scores = ((count + 17) * (count + start) * 7 + count // 3) % 1009 / 1000
        even = torch.tensor([0.55, 0.1, 0.35, 0.05, 0.45])[:texts]
        trials.append((scores / (1 + (heads == 2)), even))  # in one batch no head leads in all texts
    return trials


check_steady_head = SteadyHead(steady_head, steady_trials, whole_numbers(LAYER_HEAD))
