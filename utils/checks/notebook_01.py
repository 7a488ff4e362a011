"""The checks of notebook 01: pieces of a word, padding, two sentences."""

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from .answers import Unreadable, kind_of, parts_of, unlike, whole_numbers
from .judge import judge, safely

ENTRIES = (
    "air airs ##air speed ##peed ##speed a ##i ##r s ##s un able ##able ##aff ##a ##f ##ff ##b ##l ##e p"
)
ENTRIES += " ti tin ##nk"
UNKNOWN = {"pieces": ["[UNK]"]}
TRIED = "air p unable airp airspeed unaffable unaffl airx airairs tink unaffix xair unspeed"
TRIED += " un" + 4 * "affable"  # longer than the list of entries


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

    def either(word, known):
        """A later piece is looked up with ## or without, and written as it was found."""
        pieces = pieces_of(word, known | {"##" + entry for entry in known})
        return [piece if piece in known or piece == "[UNK]" else piece.removeprefix("##") for piece in pieces]

    def turned(piece):
        return piece[2:] + "##" if piece.startswith("##") else piece

    def unknown(pieces):
        return lambda word, known: {
            "pieces": pieces(word) if right(word, known) == UNKNOWN else right(word, known)["pieces"]
        }

    mistakes = {
        "goes_back": [lambda word, known: {"pieces": first_that_fits(word, known)}],
        "shortest_match_first": [like(order=lambda ends: ends)],
        "only_whole_words": [lambda word, known: {"pieces": [word] if word in known else ["[UNK]"]}],
        "no_continuation_prefix": [
            like(look_later="", write_later=""),
            like(write_later=""),
            like(look_later=""),
            like(look_later="#", write_later="#"),
            like(write_later="#"),
        ],
        "prefix_not_needed": [
            lambda word, known: {"pieces": pieces_of(word, known | {"##" + entry for entry in known})},
            lambda word, known: {"pieces": either(word, known)},
        ],
        "prefix_behind": [
            lambda word, known: {"pieces": [turned(piece) for piece in right(word, known)["pieces"]]},
        ],
        "first_piece_only": [lambda word, known: {"pieces": right(word, known)["pieces"][:1]}],
        "letter_by_letter": [
            lambda word, known: {
                "pieces": [word] if word in known else [word[0], *("##" + x for x in word[1:])]
            },
            like(order=lambda ends: list(ends)[:1]),
        ],
        "longest_piece_limited": [
            like(order=lambda ends, most=most: reversed(ends[:most])) for most in (2, 3, 4)
        ],
        "one_letter_pieces_missed": [like(order=lambda ends: reversed(ends[1:]))],
        "prefix_on_first": [
            like(write="##"),
            like(look="##", write="##"),
            like(look="##", look_later="", write="##", write_later=""),
            lambda word, known: {
                "pieces": ["##" + first for first in right(word, known)["pieces"][:1]]
                + right(word, known)["pieces"][1:]
            },
        ],
        "partial_word_not_unknown": [
            like(lost=["[UNK]"]),
            like(lost=["##[UNK]"]),
            like(lost=[]),
            like(lost="skip"),
            like(lost="drop"),
        ],
        "last_letter_missed": [like(until=1), lambda word, _: UNKNOWN],
        "from_right_to_left": [lambda word, known: {"pieces": from_the_right(word, known)}],
        "removes_too_much": [
            like(cut=lambda rest, piece: rest.replace(piece, "")),
            like(cut=lambda rest, piece: rest.lstrip(piece)),
        ],
        "unknown_not_marked": [
            unknown(lambda word: []),
            unknown(lambda word: [word]),
            unknown(lambda word: [""]),
            unknown(lambda word: ["UNK"]),
            unknown(lambda word: ["[UNK]"] * len(word)),
        ],
        "not_cut": [lambda word, known: {"pieces": [word]}],
    }

    def read(raw):
        if not isinstance(raw, list | tuple) or not all(isinstance(piece, str) for piece in raw):
            name = "text_not_list" if isinstance(raw, str) else unlike(raw, "not_a_list")
            raise Unreadable(f"Your result is {kind_of(raw)}. A list of texts is expected.", name)
        return {"pieces": list(raw)}

    trials = [(word, set(entries)) for word in TRIED.split()]
    return judge("wordpiece", attempt, trials, right, mistakes, read)


def pieces_of(
    word,
    known,
    order=reversed,
    until=0,
    look="",
    look_later="##",
    write="",
    write_later="##",
    cut=lambda rest, piece: rest[len(piece) :],
    lost=None,
):
    """Return the pieces of a word as a misconception would have them.

    `order` gives the lengths of a piece in the order in which they are tried. `look` stands in front of a piece in the
    vocabulary, `write` in the result. `until` letters are left alone at the end; `cut` takes a piece off the rest.
    Where no piece fits, the word is unknown if `lost` is None; else `lost` is added to what was found, or one letter is
    left out, and marked for "skip".
    """
    found, rest = [], word
    while len(rest) > until:
        later = rest != word
        for length in order(range(1, len(rest) + 1)):
            if (look_later if later else look) + rest[:length] in known:
                found.append((write_later if later else write) + rest[:length])
                rest = cut(rest, rest[:length])
                break
        else:
            if lost is None:
                return ["[UNK]"]
            if lost not in ("skip", "drop"):
                return found + lost
            found += ["[UNK]"] * (lost == "skip")
            rest = rest[1:]
    return found or ["[UNK]"] * (lost == "drop")


def from_the_right(word, known):
    """Return the pieces of a word, where the longest one at its end is taken first."""
    if not word:
        return []
    for start in range(len(word)):
        piece = ("##" if start else "") + word[start:]
        if piece in known:
            front = from_the_right(word[:start], known)
            return front if front == ["[UNK]"] else [*front, piece]
    return ["[UNK]"]


def first_that_fits(word, known, prefix=""):
    """Return the pieces of a word, where a shorter one is tried if the rest cannot be cut behind the longest."""
    if not word:
        return []
    for end in range(len(word), 0, -1):
        if prefix + word[:end] in known and (rest := first_that_fits(word[end:], known, "##")) != ["[UNK]"]:
            return [prefix + word[:end], *rest]
    return ["[UNK]"]


NAMES = "input_ids", "attention_mask"


@safely
def check_pad_batch(attempt):
    """Check `attempt(sequences, pad_id)`: input_ids and attention_mask, (batch, seq). Peer: pad_sequence of PyTorch."""
    # The first has another number of texts than of ids, a real id of 0, and a pad_id that is neither 0 nor 1. In the
    # last the texts hold the pad_id, as those of a model that pads with its end token do.
    trials = [
        ([[101, 0, 102], [101, 7, 0, 8, 102], [101, 102]], 3),
        ([[101, 7, 8, 102], [101, 102], [101, 9, 102]], 0),
        ([[7, 8, 9, 4, 3], [5, 6]], 1),
        ([[5, 6, 2], [7, 8, 9]], 4),
        ([[4, 5, 6]], 2),
        ([[4, 5, 6], [5, 7]], 5),
    ]

    def padded(sequences, pad_id, side="right", in_mask=0):
        def filled(rows, filling):
            return pad_sequence(rows, batch_first=True, padding_value=filling, padding_side=side)

        rows = [torch.tensor(row) for row in sequences]
        return {
            "input_ids": filled(rows, pad_id),
            "attention_mask": filled([*map(torch.ones_like, rows)], in_mask),
        }

    def cut(sequences, pad_id):
        shortest = min(map(len, sequences))
        return padded([row[:shortest] for row in sequences], pad_id)

    def by_length(falling):
        return lambda s, p: padded(sorted(s, key=len, reverse=falling), p)

    def with_mask(mask):
        return lambda s, p: (lambda ids, right: {"input_ids": ids, "attention_mask": mask(ids, right)})(
            *padded(s, p).values()
        )

    mistakes = {
        "mask_of_another_length": [
            with_mask(lambda ids, right: right | right.roll(1, 1)),
            with_mask(lambda ids, right: F.pad(right, (1, 0), value=1)[:, :-1]),
            with_mask(lambda ids, right: F.pad(right, (0, 1))[:, 1:]),
        ],
        "mask_of_one_text": [
            with_mask(lambda ids, right: right[:1].expand_as(right)),
            with_mask(lambda ids, right: right[-1:].expand_as(right)),
        ],
        "mask_inverted": [with_mask(lambda ids, right: 1 - right)],
        "mask_of_ones": [with_mask(lambda ids, right: torch.ones_like(right))],
        "mask_from_zero": [with_mask(lambda ids, right: ids != 0)],
        "mask_from_pad_id": [lambda s, p: with_mask(lambda ids, right: ids != p)(s, p)],
        "mask_filled_with_pad_id": [lambda s, p: padded(s, p, in_mask=p)],
        "mask_first": [lambda s, p: dict(zip(NAMES, reversed(padded(s, p).values()), strict=True))],
        "pads_in_front": [lambda s, p: padded(s, p, side="left")],
        "cut_to_shortest": [cut],
        "cut_to_another": [
            lambda s, p, of=of: padded([row[: len(of(s))] for row in s], p)
            for of in (lambda s: s[0], lambda s: s[-1], max, min)
        ],
        "pads_on_both_sides": [lambda s, p: padded([[p, *row] for row in s], p)],
        "axes_exchanged": [lambda s, p: {name: part.T for name, part in padded(s, p).items()}],
        "order_changed": [by_length(falling=True), by_length(falling=False)],
        "pad_id_ignored": [
            lambda s, p, other=other: {"input_ids": padded(s, other)["input_ids"]}
            for other in (0, 1, -1, -100)
        ],
    }

    def too_long(inputs, answer):
        ids = answer["input_ids"]
        return ids.dim() == 2 and len(ids) == len(inputs[0]) and ids.shape[1] > max(map(len, inputs[0]))

    def read(raw):
        answer = parts_of(*NAMES)(raw)
        ids = raw[NAMES[0]] if hasattr(raw, "keys") else raw[0]
        return answer | whole_numbers(NAMES[0], lists=False)(ids)

    return judge("pad_batch", attempt, trials, padded, mistakes, read, {"longer_than_longest": too_long})


@safely
def check_sentence_b_start(attempt):
    """Check `attempt(token_type_ids)`: the place of the first 1 in a list, or None if there is no sentence B."""
    # In the first row all that can be counted or found is another number.
    rows = [
        [0] * 6 + [1] * 4 + [0] * 7,
        [0, 0, 0, 1, 1, 1],
        [0, 0, 0, 0],
        [0, 0, 0, 0, 1],
        [0, 1, 1, 0, 0, 0, 0],
    ]
    answers = {tuple(row): place for row, place in zip(rows, [6, 3, None, 4, 1], strict=True)}

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
        "counted_from_the_end": [
            where_b_is(lambda row: len(row) - answers[tuple(row)]),
            where_b_is(lambda row: answers[tuple(row)] - len(row)),
            where_b_is(lambda row: len(row) - 1 - answers[tuple(row)]),
        ],
        "half_the_length": [where_b_is(lambda row: len(row) // 2)],
        "counted_from_one": [where_b_is(lambda row: answers[tuple(row)] + 1)],
        "starts_at_separator": [where_b_is(lambda row: answers[tuple(row)] - 1)],
        "counts_ones": [where_b_is(lambda row: row.count(1))],
        "after_last_zero": [where_b_is(lambda row: len(row) - row[::-1].index(0))],
        "end_of_b": [
            where_b_is(lambda row: answers[tuple(row)] + row.count(1) - 1),
            where_b_is(lambda row: answers[tuple(row)] + row.count(1)),
            where_b_is(
                lambda row: max(place for place in range(1, len(row)) if row[place] != row[place - 1])
            ),
        ],
    }
    signs = {
        "finds_b_where_none_is": lambda inputs, found: 1 not in inputs[0] and found["place"] is not None,
        "misses_b": lambda inputs, found: 1 in inputs[0] and found["place"] is None,
    }

    def read(raw):
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

    return judge("sentence_b_start", attempt, [(row,) for row in rows], right, mistakes, read, signs)
