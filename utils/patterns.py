"""Patterns of attention, which need no grammar: how much a head attends to delimiters, to the next or the
previous token, to the same token, to the other sentence."""

import torch

from .guards import require_numbers


def require_pair(tokens, sentence_b_start):
    """Refuse tokens that are one text or none, and a sentence B, unless it is None, that would be empty."""
    if isinstance(tokens, str):
        raise TypeError("tokens is one string. Give a list of strings, one for each position.")
    count = len(tokens)
    if count == 0:
        raise ValueError("There are no tokens. Give a list of strings, one for each position.")
    if sentence_b_start is None:
        return
    if not hasattr(sentence_b_start, "__index__"):  # NumPy's and PyTorch's whole numbers have it, too
        raise TypeError(f"sentence_b_start is {sentence_b_start!r}. Give a whole number, or leave it out.")
    if sentence_b_start not in range(1, count):
        raise ValueError(
            f"sentence_b_start is {sentence_b_start}, but sentence B must start between 1 and {count - 1}. "
            "Leave it out when there is no sentence B."
        )


def require_targets(weights, targets):
    """Refuse targets that are not (query, key) as the weights are."""
    if weights.shape[-2:] != targets.shape:
        raise ValueError(
            f"weights has the shape {tuple(weights.shape)} and targets {tuple(targets.shape)}. "
            "The last two axes of weights, (query, key), must be those of targets."
        )


def require_attentions(attentions, count):
    """Refuse what is not one tensor (1, heads, count, count) a layer, and NaN."""
    if attentions is None:
        raise TypeError("attentions is None. Ask the model for them: model(..., output_attentions=True).")
    shapes = sorted({tuple(layer.shape) for layer in attentions})
    if len(shapes) != 1 or len(shapes[0]) != 4 or shapes[0][0] != 1 or shapes[0][2:] != (count, count):
        raise ValueError(
            f"attentions has the shapes {shapes}, but {count} tokens need (1, heads, {count}, {count}) in "
            'each layer. Pass outputs.attentions of one text, of a model with attn_implementation="eager".'
        )
    require_numbers(attentions)


def pattern_targets(tokens, sentence_b_start=None):
    """Return which keys are targets of which queries, for each pattern: a dict of bool tensors (query, key).

    "delimiter": the key is [CLS] or [SEP]. "next", "previous": the key stands one place after or before the
    query. "identical": the key is a word with the query's text (so each word is a target of itself). With
    sentence_b_start, the index of the first token of sentence B, there are two more. "identical across": as
    "identical", in the other sentence. "other sentence": every word of the other sentence, for a query that
    is a word. A word is a token of letters and digits, also after "##": no delimiter, and no mark such as a
    full stop.

    tokens: the text of each position of one input, with its special tokens and without padding. Raises
    `TypeError` if tokens is a string or sentence_b_start no whole number, `ValueError` if there are no tokens
    or sentence B would be empty.
    """
    require_pair(tokens, sentence_b_start)
    count = len(tokens)
    query, key = torch.arange(count)[:, None], torch.arange(count)  # (query, 1) and (key,)
    delimiter = torch.tensor([token in ("[CLS]", "[SEP]") for token in tokens])  # (key,)
    word = torch.tensor([token.strip("#").isalnum() for token in tokens])  # (key,): letters and digits alone
    same_text = torch.tensor([[one == other for other in tokens] for one in tokens])  # (query, key)
    targets = {
        "delimiter": delimiter.repeat(count, 1),
        "next": key == query + 1,
        "previous": key == query - 1,
        "identical": same_text & word,
    }
    if sentence_b_start is not None:
        crosses = (query < sentence_b_start) != (key < sentence_b_start)
        targets["identical across"] = targets["identical"] & crosses
        targets["other sentence"] = crosses & word & word[:, None]
    return targets


def weight_on(weights, targets):
    """Return the weight on the targets, added up for each query, as
    a mean over the queries that have a target.

    weights: (layers, heads, query, key), or any shape that ends in (query, key). targets: bool (query, key).
    The result has the leading axes, (layers, heads), and is NaN where no query has a target. Raises
    `ValueError` if the shapes differ.
    """
    require_targets(weights, targets)
    on_targets = (weights * targets).sum(dim=-1)  # (layers, heads, query)
    return on_targets[..., targets.any(dim=-1)].mean(dim=-1)  # (layers, heads)


def score_patterns(attentions, tokens, sentence_b_start=None):
    """Return how much of its attention each head gives to each
    pattern: a dict of tensors (layers, heads), float64.

    attentions: one tensor a layer, each (1, heads, query, key), as in `outputs.attentions` of one text.
    tokens, sentence_b_start: as in `pattern_targets`. A pattern without a target in this text is left out, as
    the two patterns of a pair are without sentence_b_start. Scores are from 0 to 1; a head that spreads its
    attention evenly scores the share of keys that are targets. Raises `ValueError` or `TypeError` if the
    arguments do not fit together.
    """
    targets = pattern_targets(tokens, sentence_b_start)
    require_attentions(attentions, len(tokens))
    weights = [layer.detach().cpu().double() for layer in attentions]  # each (1, heads, query, key)
    weights = torch.cat(weights)  # (layers, heads, query, key)
    return {pattern: weight_on(weights, there) for pattern, there in targets.items() if there.any()}


def best_heads(scores, count=3):
    """Return the heads with the highest scores, best first: a list of (layer, head).

    scores: (layers, heads), of one pattern. count: how many heads. Of equal scores the first head comes
    first.
    """
    order = scores.flatten().argsort(descending=True, stable=True)[:count]
    return [divmod(place, scores.shape[1]) for place in order.tolist()]
