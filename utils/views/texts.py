"""The text view's numbers: for each query its strongest keys, and how surprising each token was."""

import math

import numpy as np
import torch

from .page import deflate
from .panels import read_tokens
from .tokens import MARKS, NEW_LINES, prettify, word_numbers

MOST_TOKENS = 512
ALL_TOKENS = 128  # up to so many every weight is kept
MOST_NUMBERS = 3_600_000  # weights that a page holds: about 9 MB
NEXT = 5  # what the model would have written: so many tokens


def keep_strongest(panel):
    """Return of each query the strongest keys, their levels, and which share of all weight they have, on average.

    Keys and levels are (layers, heads, query, kept), in the order of the text. Keys are None where all are kept.
    """
    layers, heads, queries, keys = panel.levels.shape
    if keys <= ALL_TOKENS:
        return None, panel.levels, 1.0
    kept = int(np.clip(MOST_NUMBERS // (layers * heads * queries), 16, 64))
    best = np.empty((layers, heads, queries, kept), np.int32)
    held, whole = 0.0, 1e-9  # sums of squares: of weights
    for into, levels in zip(best, panel.levels, strict=True):
        # The level and, below it, the key, in one number: so the strongest bring their keys along.
        both = levels.astype(np.int32) << 16 | np.arange(keys, dtype=np.int32)
        both.partition(keys - kept, axis=-1)
        chosen = both[..., keys - kept :]
        into[:] = (chosen & 0xFFFF) << 16 | chosen >> 16
        held += _sum_squares(into & 0xFFFF)
        whole += _sum_squares(levels)
    best.sort(axis=-1)
    return (best >> 16).astype(np.uint16), best.astype(np.uint16), float(held / whole)


def _sum_squares(levels):
    return np.square(levels, dtype=np.float32).sum(dtype=np.float64)


def pack_text(panel, tokens):
    """Return a panel for the page, and the share of weight in it.

    Each key is packed as its distance from the one before, so that they are shorter.
    """
    keys, levels, share = keep_strongest(panel)
    packed = {
        "name": "All",
        "left_text": panel.query_tokens,
        "shape": list(panel.levels.shape),
        "kept": levels.shape[-1],
        "levels": deflate(levels),
        "text": running_text(tokens),
    }
    if keys is not None:
        packed["keys"] = deflate(np.diff(keys, axis=-1, prepend=np.uint16(0)))
    return packed | panel.sides, share


def running_text(tokens):
    """Return the text of each token as it stands in a text: with a space before it, or with a new line."""
    shown, words = prettify(tokens), word_numbers(tokens)
    marked = any(token.startswith(MARKS) for token in tokens)
    text = []
    for index, (token, plain) in enumerate(zip(tokens, shown, strict=True)):
        if NEW_LINES.fullmatch(token):
            text.append("⏎\n" * max(1, token.count("Ċ")))
        elif marked:
            text.append(" " * token.startswith(MARKS) + plain)
        else:
            joined = words is not None and index and words[index] == words[index - 1]
            text.append(plain.removeprefix("##") if joined else " " * bool(index) + plain)
    return text


def read_prediction(logits, probabilities, input_ids, vocabulary, tokens):
    """Return for each token its surprise in bits (None for the first), and for each place what would have come next.

    logits, probabilities: (tokens, vocabulary), or with a batch of one before it; not both. The second result is a
    list for each place of the `NEXT` likeliest tokens with their probabilities. Both are None without a prediction.
    """
    if logits is None and probabilities is None:
        return None, None
    if logits is not None and probabilities is not None:
        raise ValueError("Give logits or probabilities, not both: each says what the other does.")
    name = "logits" if logits is not None else "probabilities"
    given = torch.as_tensor(logits if logits is not None else probabilities).detach().cpu().float()
    given = given[0] if given.dim() == 3 and len(given) == 1 else given
    if given.dim() != 2 or len(given) != len(tokens):
        raise ValueError(
            f"{name} has the shape {tuple(given.shape)}, but there are {len(tokens)} tokens: "
            "give (tokens, vocabulary), as in outputs.logits[0]."
        )
    if input_ids is None:
        raise ValueError(f"{name} says how likely each id was: give input_ids too, the ids of the tokens.")
    ids = torch.as_tensor(input_ids).detach().cpu().reshape(-1).long()
    if len(ids) != len(tokens) or not ((ids >= 0) & (ids < given.shape[1])).all():
        raise ValueError(f"input_ids: {len(ids)} ids for {len(tokens)} tokens and {given.shape[1]} {name}.")
    log_probs = given.log_softmax(-1) if logits is not None else given.clamp(min=0).log()
    if not log_probs.exp().sum(-1).sub(1).abs().max() < 0.01:  # also for NaN
        raise ValueError("probabilities do not add up to 1 in each row. Give those after softmax, or logits.")
    surprise = -log_probs[:-1].gather(1, ids[1:, None])[:, 0] / math.log(2)
    best = log_probs.topk(min(NEXT, given.shape[1]), dim=-1)
    texts = _names(best.indices, vocabulary)
    nexts = [
        [[text, round(probability, 4)] for text, probability in zip(row, values, strict=True)]
        for row, values in zip(texts, best.values.exp().tolist(), strict=True)
    ]
    bits = [None, *(round(min(bits, 999.0), 2) for bits in surprise.tolist())]
    return bits, nexts


def _names(ids, vocabulary):
    """Return the texts of ids (places, next). vocabulary: a tokenizer, or the text of each id."""
    rows = ids.tolist()
    if vocabulary is None:
        raise ValueError("To name what comes next: give vocabulary, the tokenizer or the text of each id.")
    if hasattr(vocabulary, "convert_ids_to_tokens"):
        texts = [vocabulary.convert_ids_to_tokens(row) for row in rows]
    else:
        name = getattr(vocabulary, "id_to_token", None) or vocabulary.__getitem__
        texts = [[name(one) for one in row] for row in rows]
    return [prettify(read_tokens(row, "vocabulary", "text_view")) for row in texts]
