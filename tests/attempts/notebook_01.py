"""Attempts at the exercises of notebook 01."""

import numpy as np
import torch
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


right("wordpiece", wordpiece_loops, wordpiece_recursive, wordpiece_shrinking)


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


right("pad_batch", pad_loops, pad_full, pad_framework)
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
    lambda s, p: (pad_loops(s, p)[0], torch.ones_like(pad_loops(s, p)[0])),
)

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


right(
    "sentence_b_start",
    b_start_loop,
    b_start_tensor,
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
unlisted(
    "sentence_b_start",
    lambda kinds: kinds.index(1),
    lambda kinds: len(kinds) - 1 - kinds[::-1].index(1) if 1 in kinds else None,
    lambda kinds: str(kinds.index(1)) if 1 in kinds else None,
)
