"""The exercises of notebook 01: the most frequent pair, padding, two sentences."""

from collections import Counter
from itertools import combinations, pairwise  # noqa: F401  # the first for an edit

import torch

from .answers import Unreadable, kind_of, parts_of, unlike, whole_numbers
from .exercise import Exercise


def merge_pair(words):
    pairs = Counter(pair for word in words for pair in pairwise(word))
    left, right = max(pairs, key=pairs.get)
    merged = []
    for word in words:
        pieces = []
        for piece in word:
            if pieces[-1:] == [left] and piece == right:
                pieces[-1] = left + right
            else:
                pieces.append(piece)
        merged.append(pieces)
    return merged


TEXTS = [  # two blanks between words, one between pieces; in each, one pair is ahead
    "t o  l o  s l o w  l o t",
    "p q  q p  q p  p q  ab c  a bc  ab c  a bc  c a b  x c a  c a",  # ab + c and a + bc have the same letters
    "c b a a a a a a  a a a  b a  b a",  # ahead also where pairs may not overlap, but not by words
    "t s  re s t  e s t  t e s  e s  re s  e st  e ts",  # "re s" holds the letters "e s"
    "o n e  n o n  o n  tw in  tw in  tw in  tw in  t win",  # one word four times, one pair in three words
    "a x b  a y b  a z b  c d  c d",  # a and b are no neighbours
    "a x a b  a b",  # a also stands before another piece
    "c d  c d  c d  a a b  a a b  a b  a b",  # a pair of equal pieces overlaps the best one
    "u t  s e s  e  s  e  s  e  t o  t o  t o t",  # across the words, another pair is ahead
]


def joined(pairs):
    """Return the counts of pairs, those of the same letters together: for edits."""
    return {one: sum(pairs[other] for other in pairs if "".join(other) == "".join(one)) for one in pairs}


def read_words(raw):
    """Read a list of words: how many, and the pieces of each."""
    if not isinstance(raw, list | tuple | str):
        said = f"Your result is {kind_of(raw)}. A list of words is expected, each a list of pieces."
        raise Unreadable(said, unlike(raw, "not_a_list"))
    words = [list(word) if isinstance(word, list | tuple) else word for word in raw]
    return {"the number of words": len(words)} | {f"word {i}": word for i, word in enumerate(words)}


check_merge_pair = Exercise(
    merge_pair, lambda: [([word.split() for word in text.split("  ")],) for text in TEXTS], read_words
)


def pad_batch(sequences, pad_id):
    longest = max(len(row) for row in sequences)
    input_ids = [row + [pad_id] * (longest - len(row)) for row in sequences]
    attention_mask = [[1] * len(row) + [0] * (longest - len(row)) for row in sequences]
    return torch.tensor(input_ids), torch.tensor(attention_mask)


def pad_batch_trials():
    # The first has another number of texts than of ids, a real id of 0, and a pad_id that is neither 0 nor 1. In the
    # fourth the texts hold the pad_id, as those of a model that pads with its end token do.
    return [
        ([[101, 0, 102], [101, 7, 0, 8, 102], [101, 102]], 3),
        ([[101, 7, 8, 102], [101, 102], [101, 9, 102]], 0),
        ([[7, 8, 9, 4, 3], [5, 6]], 1),
        ([[4, 5, 6], [5, 7]], 5),
        ([[5, 6, 2], [7, 8, 9]], 4),
        ([[4, 5, 6]], 2),
    ]


def read_batch(raw):
    """Read the ids, whole numbers, and the mask."""
    names = "input_ids", "attention_mask"
    answer = parts_of(*names)(raw)
    ids = raw[names[0]] if hasattr(raw, "keys") else raw[0]
    return answer | whole_numbers(names[0], lists=False)(ids)


check_pad_batch = Exercise(
    pad_batch,
    pad_batch_trials,
    read_batch,
    {"longer_than_longest": lambda inputs, answer: answer["input_ids"].shape[1] > max(map(len, inputs[0]))},
)


def sentence_b_start(token_type_ids):
    return token_type_ids.index(1) if 1 in token_type_ids else None


# In the first row all that can be counted or found is another number.
ROWS = [0] * 6 + [1] * 4 + [0] * 7, [0, 0, 0, 1, 1, 1], [0] * 4, [0, 0, 0, 0, 1], [0, 1, 1, 0, 0, 0, 0]


def read_start(raw):
    """Read a place, one whole number, or None."""
    if raw is None:
        return {"place": None}
    if isinstance(raw, bool):
        said = f"Your result is {raw}. A place is expected, a whole number, or None."
        raise Unreadable(said, "truth_returned")
    place = whole_numbers("place")(raw)["place"]
    if place.numel() != 1:
        said = f"Your result holds {place.numel()} numbers. One is expected, or None."
        raise Unreadable(said, "several_numbers")
    return {"place": int(place.item())}


check_sentence_b_start = Exercise(
    sentence_b_start,
    lambda: [(row,) for row in ROWS],
    read_start,
    {
        "finds_b_where_none_is": lambda inputs, found: 1 not in inputs[0] and found["place"] is not None,
        "misses_b": lambda inputs, found: 1 in inputs[0] and found["place"] is None,
    },
)
