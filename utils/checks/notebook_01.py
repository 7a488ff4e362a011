"""The checks of notebook 01: pieces of a word, padding, two sentences."""

import torch
from torch.nn.utils.rnn import pad_sequence

from .answers import Unreadable, kind_of, parts_of, whole_numbers
from .judge import judge, safely

ENTRIES = "air airs speed ##peed ##speed a ##i ##r s ##s un able ##able ##aff ##a ##f ##ff ##b ##l ##e p"


@safely
def check_wordpiece(attempt):
    """Check `attempt(word, vocabulary)`: the pieces of one word, a list of texts. Peer: the library tokenizers."""
    from tokenizers.models import WordPiece

    entries = ENTRIES.split()
    library = WordPiece({entry: place for place, entry in enumerate([*entries, "[UNK]"])}, unk_token="[UNK]")

    def right(word, _):
        return {"pieces": [token.value for token in library.tokenize(word)]}

    def like(**changed):
        return lambda word, vocabulary: {"pieces": pieces_of(word, vocabulary, **changed)}

    mistakes = {
        "shortest_match_first": [like(shortest=True)],
        "no_continuation_prefix": [like(write=""), like(look="", write=""), like(look="")],
        "partial_word_not_unknown": [
            like(lost=["[UNK]"]),
            like(lost=["##[UNK]"]),
            like(lost=[]),
            like(lost="skip"),
        ],
    }

    def read(raw):
        if not isinstance(raw, list | tuple) or not all(isinstance(piece, str) for piece in raw):
            raise Unreadable(f"Your result is {kind_of(raw)}. A list of texts is expected.")
        return {"pieces": list(raw)}

    trials = [(word, set(entries)) for word in ("airspeed", "unaffable", "air", "airx", "unaffix", "xair")]
    return judge("wordpiece", attempt, trials, right, mistakes, read)


def pieces_of(word, known, shortest=False, look="##", write="##", lost=None):
    """Return the pieces of a word as a misconception would have them.

    `look` and `write` stand in front of later pieces, in the vocabulary and in the result. Where no piece fits, the
    word is unknown if `lost` is None; else `lost` is added to what was found, or for "skip" one letter is left out.
    """
    found, start = [], 0
    while start < len(word):
        ends = range(start + 1, len(word) + 1)
        for end in ends if shortest else reversed(ends):
            if (look if start else "") + word[start:end] in known:
                found.append((write if start else "") + word[start:end])
                start = end
                break
        else:
            if lost is None:
                return ["[UNK]"]
            if lost != "skip":
                return found + lost
            found.append("[UNK]")
            start += 1
    return found


@safely
def check_pad_batch(attempt):
    """Check `attempt(sequences, pad_id)`: input_ids and attention_mask, (batch, seq). Peer: pad_sequence of PyTorch."""
    trials = [
        ([[101, 7, 8, 102], [101, 102], [101, 9, 102]], 0),
        ([[5, 6], [7, 8, 9, 4, 3]], 1),
        ([[5, 6, 2], [7, 8, 9]], 4),
    ]

    def padded(sequences, pad_id, side="right", keep=1):
        def filled(rows, filling):
            return pad_sequence(rows, batch_first=True, padding_value=filling, padding_side=side)

        rows = [torch.tensor(row) for row in sequences]
        ones = [torch.full((len(row),), keep) for row in sequences]
        return {"input_ids": filled(rows, pad_id), "attention_mask": filled(ones, 1 - keep)}

    def cut(sequences, pad_id):
        shortest = min(map(len, sequences))
        return padded([row[:shortest] for row in sequences], pad_id)

    mistakes = {
        "mask_inverted": [lambda s, p: padded(s, p, keep=0)],
        "pads_in_front": [lambda s, p: padded(s, p, side="left")],
        "cut_to_shortest": [cut],
        "pad_id_ignored": [lambda s, p: padded(s, 0)],
    }
    return judge("pad_batch", attempt, trials, padded, mistakes, parts_of("input_ids", "attention_mask"))


@safely
def check_sentence_b_start(attempt):
    """Check `attempt(token_type_ids)`: the place of the first 1 in a list, or None if there is no sentence B."""
    rows = [[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1, 0, 0], [0, 0, 0, 1, 0, 0], [0, 0, 0, 0], [0, 1, 0]]
    answers = {tuple(row): place for row, place in zip(rows, [3, 4, 3, None, 1], strict=True)}

    def right(row):
        return {"place": answers[tuple(row)]}

    def where_b_is(place):
        def found(row):
            if 1 not in row:
                raise ValueError("not foreseen")
            return {"place": place(row)}

        return found

    mistakes = {
        "counts_zeros": [where_b_is(lambda row: row.count(0))],
        "counted_from_one": [where_b_is(lambda row: answers[tuple(row)] + 1)],
        "starts_at_separator": [where_b_is(lambda row: answers[tuple(row)] - 1)],
    }
    signs = {"finds_b_where_none_is": lambda inputs, found: 1 not in inputs[0] and found["place"] is not None}

    def read(raw):
        if raw is None:
            return {"place": None}
        place = whole_numbers("place")(raw)["place"]
        if place.numel() != 1:
            raise Unreadable(f"Your result holds {place.numel()} numbers. One is expected, or None.")
        return {"place": int(place.item())}

    return judge("sentence_b_start", attempt, [(row,) for row in rows], right, mistakes, read, signs)
