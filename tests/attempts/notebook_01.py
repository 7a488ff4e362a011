"""Attempts at the exercises of notebook 01."""

import itertools

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from .tables import combined, right, unlisted, wrong

# -------------------------------------------------------------------------------------------------- wordpiece


def wordpiece_loops(word, vocabulary):
    pieces, start = [], 0
    while start < len(word):
        end = len(word)
        while end > start:
            piece = ("##" if start else "") + word[start:end]
            if piece in vocabulary:
                break
            end -= 1
        if end == start:
            return ["[UNK]"]
        pieces.append(piece)
        start = end
    return pieces


def wordpiece_recursive(word, vocabulary, prefix=""):
    for end in range(len(word), 0, -1):
        if prefix + word[:end] in vocabulary:
            if end == len(word):
                return [prefix + word]
            rest = wordpiece_recursive(word[end:], vocabulary, "##")
            return ["[UNK]"] if rest == ["[UNK]"] else [prefix + word[:end], *rest]
    return ["[UNK]"]


def wordpiece_shrinking(word, vocabulary):
    rest, found = word, []
    while rest:
        fits = [rest[:n] for n in range(1, len(rest) + 1) if ("##" if found else "") + rest[:n] in vocabulary]
        if not fits:
            return ["[UNK]"]
        longest = max(fits, key=len)
        found.append(("##" if found else "") + longest)
        rest = rest[len(longest) :]
    return tuple(found)


def wordpiece_sorted(word, vocabulary):
    """Try the entries themselves, the longest first."""
    rest, found = word, []
    by_length = sorted(vocabulary, key=lambda entry: len(entry.removeprefix("##")), reverse=True)
    while rest:
        prefix = "##" if found else ""
        entries = [e for e in by_length if e.startswith("##") == bool(found)]
        piece = next((e for e in entries if (prefix + rest).startswith(e)), None)
        if piece is None:
            return ["[UNK]"]
        found.append(piece)
        rest = rest[len(piece) - len(prefix) :]
    return found


def wordpiece_hashes_moved(word, vocabulary):
    """Keep the ## in the word itself."""
    found = []
    while word not in ("", "##"):
        end = len(word)
        while end and word[:end] not in vocabulary:
            end -= 1
        if not word[:end].strip("#"):
            return ["[UNK]"]
        found.append(word[:end])
        word = "##" + word[end:]
    return found


def wordpiece_library(word, vocabulary):
    from tokenizers.models import WordPiece

    entries = {entry: place for place, entry in enumerate(sorted(vocabulary | {"[UNK]"}))}
    return [token.value for token in WordPiece(entries, unk_token="[UNK]").tokenize(word)]


right(
    "wordpiece",
    wordpiece_loops,
    wordpiece_recursive,
    wordpiece_shrinking,
    wordpiece_sorted,
    wordpiece_hashes_moved,
    wordpiece_library,
)


def wordpiece_shortest(word, vocabulary):
    pieces, start = [], 0
    while start < len(word):
        for end in range(start + 1, len(word) + 1):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocabulary:
                pieces.append(piece)
                start = end
                break
        else:
            return ["[UNK]"]
    return pieces


def wordpiece_shortest_min(word, vocabulary):
    rest, found = word, []
    while rest:
        fits = [rest[:n] for n in range(1, len(rest) + 1) if ("##" if found else "") + rest[:n] in vocabulary]
        if not fits:
            return ["[UNK]"]
        found.append(("##" if found else "") + min(fits, key=len))
        rest = rest[len(min(fits, key=len)) :]
    return found


def wordpiece_plain(word, vocabulary):
    pieces = []
    while word:
        for end in range(len(word), 0, -1):
            if word[:end] in vocabulary:
                pieces.append(word[:end])
                word = word[end:]
                break
        else:
            return ["[UNK]"]
    return pieces


def wordpiece_strips(word, vocabulary):
    return [piece.removeprefix("##") for piece in wordpiece_loops(word, vocabulary)]


def wordpiece_keeps_part(word, vocabulary):
    pieces, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocabulary:
                break
        else:
            return [*pieces, "[UNK]"]
        pieces.append(piece)
        start = end
    return pieces


def wordpiece_breaks(word, vocabulary):
    pieces, start, end = [], 0, len(word)
    while start < len(word):
        while end > start and ("##" if start else "") + word[start:end] not in vocabulary:
            end -= 1
        if end == start:
            break
        pieces.append(("##" if start else "") + word[start:end])
        start, end = end, len(word)
    return pieces


def wordpiece_letter_unknown(word, vocabulary):
    pieces, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocabulary:
                pieces.append(piece)
                start = end
                break
        else:
            pieces.append("[UNK]")
            start += 1
    return pieces


wrong("wordpiece", "shortest_match_first", wordpiece_shortest, wordpiece_shortest_min)
wrong("wordpiece", "no_continuation_prefix", wordpiece_plain, wordpiece_strips)
wrong(
    "wordpiece", "partial_word_not_unknown", wordpiece_keeps_part, wordpiece_breaks, wordpiece_letter_unknown
)
unlisted(
    "wordpiece",
    lambda word, vocabulary: list(word),
    lambda word, vocabulary: wordpiece_loops(word, vocabulary)[::-1],
    lambda word, vocabulary: "".join(wordpiece_loops(word, vocabulary)),
)
wrong(
    "wordpiece",
    "no_continuation_prefix",
    lambda w, v: (
        ["[UNK]"]
        if wordpiece_loops(w, v) == ["[UNK]"]
        else [wordpiece_loops(w, v)[0], *(p[2:] for p in wordpiece_loops(w, v)[1:])]
    ),
)
wrong(
    "wordpiece",
    "partial_word_not_unknown",
    lambda w, v: [p for p in wordpiece_keeps_part(w, v) if p != "[UNK]"],
)


def wordpiece_of(shortest=1, stop=0, first="", later="##", ends=None):
    """The rule with one thing changed."""

    def attempt(word, vocabulary):
        pieces, start = [], 0
        while start < len(word) - (stop == "loop"):
            for end in range(len(word) - (stop == "end"), start + shortest - 1, -1):
                piece = (later if start else first) + word[start:end]
                if piece in vocabulary:
                    break
            else:
                return ["[UNK]"] if ends is None else ends(word)
            pieces.append(piece)
            start = end
        return pieces

    return attempt


def wordpiece_end_stays(word, vocabulary):
    pieces, start, end = [], 0, len(word)
    while start < len(word):
        while end > start and ("##" if start else "") + word[start:end] not in vocabulary:
            end -= 1
        if end == start:
            return ["[UNK]"]
        pieces.append(("##" if start else "") + word[start:end])
        start = end
    return pieces


def wordpiece_one_letter_loop(word, vocabulary):
    pieces, start = [], 0
    while start < len(word):
        end = len(word)
        while end > start + 1:
            if ("##" if start else "") + word[start:end] in vocabulary:
                break
            end -= 1
        else:
            return ["[UNK]"]
        pieces.append(("##" if start else "") + word[start:end])
        start = end
    return pieces


def wordpiece_from_the_right(word, vocabulary):
    pieces, end = [], len(word)
    while end:
        for start in range(end):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocabulary:
                break
        else:
            return ["[UNK]"]
        pieces.insert(0, piece)
        end = start
    return pieces


def wordpiece_comes_back(word, vocabulary, prefix=""):
    if not word:
        return []
    for end in range(len(word), 0, -1):
        if prefix + word[:end] in vocabulary:
            rest = wordpiece_comes_back(word[end:], vocabulary, "##")
            if rest != ["[UNK]"]:
                return [prefix + word[:end], *rest]
    return ["[UNK]"]


def wordpiece_removes(remove):
    def attempt(word, vocabulary):
        pieces = []
        while word:
            prefix = "##" if pieces else ""
            fits = [word[:n] for n in range(len(word), 0, -1) if prefix + word[:n] in vocabulary]
            if not fits:
                return ["[UNK]"]
            pieces.append(prefix + fits[0])
            word = remove(word, fits[0])
        return pieces

    return attempt


wrong("wordpiece", "one_letter_pieces_missed", wordpiece_of(shortest=2), wordpiece_one_letter_loop)
wrong("wordpiece", "last_letter_missed", wordpiece_of(stop="loop"), wordpiece_of(stop="end"))
wrong("wordpiece", "prefix_on_first", wordpiece_of(first="##"), wordpiece_of(first="##", later=""))
wrong(
    "wordpiece", "prefix_on_first", lambda w, v: ["##" + p.removeprefix("##") for p in wordpiece_loops(w, v)]
)
wrong(
    "wordpiece",
    "only_whole_words",
    wordpiece_end_stays,
    lambda w, v: [w] if w in v else ["[UNK]"],
)
wrong("wordpiece", "not_cut", lambda w, v: [w], lambda w, v: w.split())
wrong("wordpiece", "from_right_to_left", wordpiece_from_the_right)
wrong("wordpiece", "goes_back", wordpiece_comes_back)
wrong(
    "wordpiece",
    "removes_too_much",
    wordpiece_removes(lambda word, piece: word.replace(piece, "")),
    wordpiece_removes(lambda word, piece: word.lstrip(piece)),
)
wrong(
    "wordpiece",
    "unknown_not_marked",
    wordpiece_of(ends=lambda word: []),
    wordpiece_of(ends=lambda word: [word]),
    wordpiece_of(ends=lambda word: ["UNK"]),
    wordpiece_of(ends=lambda word: [""]),
)
wrong("wordpiece", "partial_word_not_unknown", lambda w, v: wordpiece_breaks(w, v) or ["[UNK]"])
wrong("wordpiece", "no_continuation_prefix", wordpiece_of(later=""))
unlisted(
    "wordpiece",
    wordpiece_of(ends=lambda word: "[UNK]"),
    wordpiece_of(ends=lambda word: None),
    lambda word, vocabulary: " ".join(wordpiece_loops(word, vocabulary)),
    lambda word, vocabulary: set(wordpiece_loops(word, vocabulary)),
)


# -------------------------------------------------------------------------------------------------- pad_batch


def pad_loops(sequences, pad_id):
    longest = max(len(row) for row in sequences)
    ids, mask = [], []
    for row in sequences:
        empty = longest - len(row)
        ids.append(row + [pad_id] * empty)
        mask.append([1] * len(row) + [0] * empty)
    return torch.tensor(ids), torch.tensor(mask)


def pad_full(sequences, pad_id):
    shape = len(sequences), max(map(len, sequences))
    ids, mask = torch.full(shape, pad_id), torch.zeros(shape, dtype=torch.long)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = torch.tensor(sequence)
        mask[row, : len(sequence)] = 1
    return {"input_ids": ids, "attention_mask": mask}


def pad_framework(sequences, pad_id):
    rows = [torch.tensor(row) for row in sequences]
    ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad_id)
    lengths = torch.tensor([len(row) for row in rows])
    return ids, torch.arange(ids.shape[1]) < lengths[:, None]


def pad_lists(sequences, pad_id):
    ids, mask = pad_loops(sequences, pad_id)
    return [ids.tolist(), mask.tolist()]


def pad_zip(sequences, pad_id):
    """Turn the table, fill the columns, and turn it back."""
    ids = list(zip(*itertools.zip_longest(*sequences, fillvalue=pad_id), strict=True))
    marks = [[1 for _ in row] for row in sequences]
    mask = list(zip(*itertools.zip_longest(*marks, fillvalue=0), strict=True))
    return torch.tensor(ids), torch.tensor(mask)


def pad_function(sequences, pad_id):
    longest = max(map(len, sequences))
    rows = [F.pad(torch.tensor(row), (0, longest - len(row)), value=pad_id) for row in sequences]
    ones = [F.pad(torch.ones(len(row), dtype=torch.long), (0, longest - len(row))) for row in sequences]
    return [torch.stack(rows), torch.stack(ones)]


def pad_compared(sequences, pad_id):
    ids = pad_loops(sequences, pad_id)[0]
    return ids, (ids != pad_id).long()


def pad_numpy(sequences, pad_id):
    ids = np.full((len(sequences), max(map(len, sequences))), pad_id)
    mask = np.zeros_like(ids)
    for i, row in enumerate(sequences):
        ids[i, : len(row)], mask[i, : len(row)] = row, 1
    return torch.from_numpy(ids), torch.from_numpy(mask)


right("pad_batch", pad_loops, pad_full, pad_framework, pad_zip, pad_function, pad_numpy)
unlisted("pad_batch", pad_lists)
wrong(
    "pad_batch",
    "mask_inverted",
    lambda s, p: (pad_loops(s, p)[0], 1 - pad_loops(s, p)[1]),
    lambda s, p: (
        pad_loops(s, p)[0],
        torch.arange(max(map(len, s))) >= torch.tensor([len(row) for row in s])[:, None],
    ),
)


def pad_left(sequences, pad_id):
    longest = max(map(len, sequences))
    ids = [[pad_id] * (longest - len(row)) + row for row in sequences]
    return torch.tensor(ids), torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in sequences])


wrong(
    "pad_batch",
    "pads_in_front",
    pad_left,
    lambda s, p: tuple(part.flip(1) for part in pad_loops([row[::-1] for row in s], p)),
)


def pad_cut(sequences, pad_id):
    n = min(map(len, sequences))
    return torch.tensor([row[:n] for row in sequences]), torch.ones(len(sequences), n)


wrong(
    "pad_batch",
    "cut_to_shortest",
    pad_cut,
    lambda s, p: (
        torch.tensor(list(zip(*s, strict=False))).T,
        torch.tensor(list(zip(*[[1] * len(row) for row in s], strict=False))).T,
    ),
)
wrong(
    "pad_batch",
    "pad_id_ignored",
    lambda s, p: pad_loops(s, 0),
    lambda s, p: (
        nn.utils.rnn.pad_sequence([torch.tensor(row) for row in s], batch_first=True),
        pad_loops(s, p)[1],
    ),
)
unlisted(
    "pad_batch",
    lambda s, p: pad_loops(s, p)[0],
    lambda s, p: (pad_loops(s, p)[0].float(), pad_loops(s, p)[1]),
    lambda s, p: (pad_loops(s, p)[0].tolist(), pad_loops(s, p)[1]),
    lambda s, p: (*pad_loops(s, p), len(s)),
    lambda s, p: (pad_loops(s, p)[0].squeeze(0), pad_loops(s, p)[1].squeeze(0)),
)


def pad_longer(sequences, pad_id, more=1):
    longest = max(map(len, sequences)) + more
    ids = [row + [pad_id] * (longest - len(row)) for row in sequences]
    mask = [[1] * len(row) + [0] * (longest - len(row)) for row in sequences]
    return torch.tensor(ids), torch.tensor(mask)


def pad_mask_of_pads(sequences, pad_id):
    longest = max(map(len, sequences))
    mask = [[1] * len(row) + [pad_id] * (longest - len(row)) for row in sequences]
    return pad_loops(sequences, pad_id)[0], torch.tensor(mask)


def pad_time_first(sequences, pad_id):
    rows = [torch.tensor(row) for row in sequences]
    ids = nn.utils.rnn.pad_sequence(rows, padding_value=pad_id)
    return ids, nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows])


wrong(
    "pad_batch",
    "mask_of_ones",
    lambda s, p: (pad_loops(s, p)[0], torch.ones_like(pad_loops(s, p)[0])),
    lambda s, p: (pad_loops(s, p)[0], torch.tensor([[1] * max(map(len, s)) for _ in s])),
)
wrong(
    "pad_batch",
    "mask_from_zero",
    lambda s, p: (pad_loops(s, p)[0], (pad_loops(s, p)[0] != 0).long()),
    lambda s, p: (pad_loops(s, p)[0], pad_loops(s, p)[0].bool()),
    lambda s, p: (pad_loops(s, p)[0], (pad_loops(s, p)[0] > 0).int()),
)
wrong("pad_batch", "mask_filled_with_pad_id", pad_mask_of_pads)
wrong(
    "pad_batch",
    "mask_first",
    lambda s, p: pad_loops(s, p)[::-1],
    lambda s, p: (pad_loops(s, p)[1], pad_loops(s, p)[0]),
)
wrong(
    "pad_batch",
    "longer_than_longest",
    pad_longer,
    lambda s, p: pad_longer(s, p, 512 - max(map(len, s))),
    lambda s, p: pad_longer(s, p, sum(map(len, s)) - max(map(len, s)) + 1),
)
wrong("pad_batch", "axes_exchanged", pad_time_first, lambda s, p: tuple(part.T for part in pad_loops(s, p)))
wrong(
    "pad_batch",
    "order_changed",
    lambda s, p: pad_loops(sorted(s, key=len, reverse=True), p),
    lambda s, p: pad_loops(sorted(s, key=len), p),
)
wrong("pad_batch", "pad_id_ignored", lambda s, p: (pad_loops(s, -100)[0], pad_loops(s, p)[1]))
unlisted(
    "pad_batch",
    lambda s, p: torch.tensor([[*row, p] for row in s]),  # rows of unequal length
)
wrong("pad_batch", "cut_to_another", lambda s, p: pad_full([row[: len(s[0])] for row in s], p))

combined(
    "pad_batch",
    ("mask_inverted", "pads_in_front"),
    lambda s, p: (pad_left(s, p)[0], 1 - pad_left(s, p)[1]),
    lambda s, p: (pad_left(s, 0)[0], pad_left(s, p)[1] == 0),
)


def pad_in_place(sequences, pad_id):
    longest = max(map(len, sequences))
    mask = [[1] * len(row) + [0] * (longest - len(row)) for row in sequences]
    for row in sequences:
        row += [pad_id] * (longest - len(row))
    return torch.tensor(sequences), torch.tensor(mask)


def pad_append(sequences, pad_id):
    lengths, longest = [len(row) for row in sequences], max(map(len, sequences))
    for row in sequences:
        while len(row) < longest:
            row.append(pad_id)
    ids = torch.tensor(sequences)
    return ids, (torch.arange(longest) < torch.tensor(lengths)[:, None]).long()


wrong("pad_batch", "changes_its_input", pad_in_place, pad_append)


# ------------------------------------------------------------------------------------------- sentence_b_start


def b_start_loop(token_type_ids):
    for place, kind in enumerate(token_type_ids):
        if kind == 1:
            return place


def b_start_tensor(token_type_ids):
    places = torch.tensor(token_type_ids).nonzero()
    return places[0] if len(places) else None


def b_start_try(token_type_ids):
    try:
        return token_type_ids.index(1)
    except ValueError:
        return None


def b_start_while(token_type_ids):
    place = 0
    while place < len(token_type_ids) and token_type_ids[place] == 0:
        place += 1
    return place if place < len(token_type_ids) else None


def b_start_change(token_type_ids):
    for place in range(1, len(token_type_ids)):
        if token_type_ids[place] != token_type_ids[place - 1]:
            return place
    return None


right(
    "sentence_b_start",
    b_start_loop,
    b_start_tensor,
    b_start_try,
    b_start_while,
    b_start_change,
    lambda kinds: next((place for place, kind in enumerate(kinds) if kind), None),
    lambda kinds: len(list(itertools.takewhile(lambda kind: kind == 0, kinds))) if any(kinds) else None,
    lambda kinds: int((torch.tensor(kinds).cumsum(0) == 0).sum()) if 1 in kinds else None,
    lambda kinds: kinds.index(1) if 1 in kinds else None,
    lambda kinds: int(np.argmax(kinds)) if max(kinds) else None,
)
wrong(
    "sentence_b_start",
    "counts_zeros",
    lambda kinds: kinds.count(0),
    lambda kinds: (torch.tensor(kinds) == 0).sum(),
    lambda kinds: len(kinds) - sum(kinds) if 1 in kinds else None,
)
wrong(
    "sentence_b_start",
    "counted_from_one",
    lambda kinds: kinds.index(1) + 1 if 1 in kinds else None,
    lambda kinds: next((place for place, kind in enumerate(kinds, start=1) if kind), None),
)
wrong(
    "sentence_b_start",
    "starts_at_separator",
    lambda kinds: kinds.index(1) - 1 if 1 in kinds else None,
    lambda kinds: next((i for i in range(len(kinds) - 1) if kinds[i] < kinds[i + 1]), None),
)
wrong(
    "sentence_b_start",
    "finds_b_where_none_is",
    lambda kinds: torch.tensor(kinds).argmax().item(),
    lambda kinds: kinds.index(1) if 1 in kinds else -1,
    lambda kinds: next((i for i, kind in enumerate(kinds) if kind), len(kinds)),
)


def b_start_pops(token_type_ids):
    for place in range(len(token_type_ids)):
        if token_type_ids.pop(0) == 1:
            return place


def b_start_not_at_end(token_type_ids):
    for place in range(len(token_type_ids) - 1):
        if token_type_ids[place] == 1:
            return place


def b_start_last_change(token_type_ids):
    found = None
    for place in range(1, len(token_type_ids)):
        if token_type_ids[place] != token_type_ids[place - 1]:
            found = place
    return found


wrong("sentence_b_start", "changes_its_input", b_start_pops)
wrong(
    "sentence_b_start",
    "misses_b",
    b_start_not_at_end,
    lambda kinds: kinds[:-1].index(1) if 1 in kinds[:-1] else None,
)
wrong(
    "sentence_b_start",
    "end_of_b",
    b_start_last_change,
    lambda kinds: len(kinds) - 1 - kinds[::-1].index(1) if 1 in kinds else None,
    lambda kinds: max((place for place, kind in enumerate(kinds) if kind), default=None),
)
wrong(
    "sentence_b_start",
    "counts_ones",
    lambda kinds: sum(kinds) or None,
    lambda kinds: kinds.count(1) if 1 in kinds else None,
)
wrong(
    "sentence_b_start",
    "after_last_zero",
    lambda kinds: len(kinds) - kinds[::-1].index(0) if 1 in kinds else None,
    lambda kinds: max(place for place, kind in enumerate(kinds) if kind == 0) + 1 if 1 in kinds else None,
)
unlisted(
    "sentence_b_start",
    lambda kinds: kinds.index(1),
    lambda kinds: str(kinds.index(1)) if 1 in kinds else None,
    lambda kinds: 1 in kinds,
    lambda kinds: [place for place, kind in enumerate(kinds) if kind],
    lambda kinds: kinds.index(0) if 1 in kinds else None,
)


# ------------------------------------------------------------------------------------- one more of each mistake


def hashes_behind(word, vocabulary):
    return [
        piece[2:] + "##" if piece.startswith("##") else piece for piece in wordpiece_loops(word, vocabulary)
    ]


def wordpiece_up_to_four(word, vocabulary):
    pieces, start = [], 0
    while start < len(word):
        ends = range(min(len(word), start + 4), start, -1)
        found = [end for end in ends if "##" * (start > 0) + word[start:end] in vocabulary]
        if not found:
            return ["[UNK]"]
        pieces.append("##" * (start > 0) + word[start : found[0]])
        start = found[0]
    return pieces


for misconception, attempt in {
    "prefix_behind": hashes_behind,
    "longest_piece_limited": wordpiece_up_to_four,
    "first_piece_only": lambda word, vocabulary: wordpiece_loops(word, vocabulary)[:1],
    "letter_by_letter": lambda word, vocabulary: (
        [word] if word in vocabulary else [word[0], *("##" + c for c in word[1:])]
    ),
    "prefix_not_needed": lambda word, vocabulary: wordpiece_loops(
        word, vocabulary | {"##" + entry for entry in vocabulary}
    ),
}.items():
    wrong("wordpiece", misconception, attempt)


def pad_mask_one_longer(sequences, pad_id):
    ids, _ = pad_loops(sequences, pad_id)
    lengths = torch.tensor([len(row) for row in sequences])
    return ids, (torch.arange(ids.shape[1]) <= lengths[:, None]).long()


def pad_mask_of_the_first(sequences, pad_id):
    ids, mask = pad_loops(sequences, pad_id)
    return ids, mask[:1].expand(len(sequences), -1)


for misconception, attempt in {
    "mask_of_another_length": pad_mask_one_longer,
    "cut_to_another": lambda rows, pad_id: pad_loops([row[: len(rows[0])] for row in rows], pad_id),
    "mask_of_one_text": pad_mask_of_the_first,
    "pads_on_both_sides": lambda rows, pad_id: pad_loops([[pad_id, *row] for row in rows], pad_id),
}.items():
    wrong("pad_batch", misconception, attempt)
for misconception, attempt in {
    "half_the_length": lambda kinds: len(kinds) // 2 if 1 in kinds else None,
    "counted_from_the_end": lambda kinds: len(kinds) - kinds.index(1) if 1 in kinds else None,
    "not_in_the_list": lambda kinds: kinds.index(1),
}.items():
    wrong("sentence_b_start", misconception, attempt)


def pieces_that_fit(word, vocabulary):
    pieces, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            if (piece := "##" * (start > 0) + word[start:end]) in vocabulary:
                pieces.append(piece)
                start = end
                break
        else:
            start += 1
    return pieces or ["[UNK]"]


wrong("wordpiece", "partial_word_not_unknown", pieces_that_fit)
wrong("pad_batch", "mask_from_pad_id", pad_compared)
wrong("pad_batch", "cut_to_another", lambda s, p: pad_loops([row[: len(max(s))] for row in s], p))
