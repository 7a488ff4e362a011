"""Attempts at the exercises of notebook 01."""

import itertools
import re
from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from .tables import fresh, peer, right, wrong

# ------------------------------------------------------------------------------------------------- merge_pair


def most_frequent(words):
    return Counter(pair for word in words for pair in pairwise(word)).most_common(1)[0][0]


def merged_by(pair, words, joined=None):
    found = []
    for word in words:
        pieces, i = [], 0
        while i < len(word):
            hit = tuple(word[i : i + 2]) == tuple(pair)
            pieces.append((joined or "".join(pair)) if hit else word[i])
            i += 1 + hit
        found.append(pieces)
    return found


def merge_recursive(words):
    counts = defaultdict(int)
    for word in words:
        for i in range(len(word) - 1):
            counts[word[i], word[i + 1]] += 1
    best = sorted(counts.items(), key=lambda item: -item[1])[0][0]

    def merged(word):
        if tuple(word[:2]) == best:
            return [word[0] + word[1], *merged(word[2:])]
        return [word[0], *merged(word[1:])] if word else []

    return [merged(word) for word in words]


def merge_delete(words):
    (a, b), words = most_frequent(words), [list(word) for word in words]
    for word in words:
        for i in range(len(word)):
            if word[i : i + 2] == [a, b]:
                word[i : i + 2] = [a + b]
    return words


def merge_iterator(words):
    a, b = most_frequent(words)

    def pieces(word):
        rest = iter(range(len(word)))
        for i in rest:
            hit = word[i : i + 2] == [a, b]
            yield a + b if hit else word[i]
            next(rest) if hit else None

    return tuple(tuple(pieces(word)) for word in words)


def merge_arrays(words):
    kinds = sorted({piece for word in words for piece in word})
    table = np.zeros((len(kinds), len(kinds)), dtype=int)
    for word in words:
        places = [kinds.index(piece) for piece in word]
        np.add.at(table, (places[:-1], places[1:]), 1)
    return merged_by([kinds[place] for place in np.unravel_index(table.argmax(), table.shape)], words)


def of_the_paper(words):
    """The code of Sennrich et al. 2016, algorithm 1, for a list of words."""
    pairs = defaultdict(int)
    for symbols in words:
        for i in range(len(symbols) - 1):
            pairs[symbols[i], symbols[i + 1]] += 1
    best = max(pairs, key=pairs.get)
    p = re.compile(r"(?<!\S)" + re.escape(" ".join(best)) + r"(?!\S)")
    return [p.sub("".join(best), " ".join(word)).split() for word in words]


peer("merge_pair", of_the_paper)
fresh(
    "merge_pair", ([list("abab"), ["b", "a"], ["c", "ab"], ["d"]],), ([list("xxx"), list("yx"), ["xx", "y"]],)
)
right("merge_pair", of_the_paper, merge_recursive, merge_delete, merge_iterator, merge_arrays)
right("merge_pair", lambda words: merged_by(most_frequent(words), words))


def without_lookaround(words):
    a, b = most_frequent(words)
    return [" ".join(word).replace(a + " " + b, a + b).split(" ") for word in words]


def as_the_notebook_counts(words):
    counts = Counter(one + other for word in words for one, other in pairwise(word))
    best, found = counts.most_common(1)[0][0], []
    for word in words:
        found.append([])
        for piece in word:
            hit = found[-1] and found[-1][-1] + piece == best
            found[-1].append(found[-1].pop() + piece if hit else piece)
    return found


def no_step_behind(words):
    a, b = most_frequent(words)
    return [
        [x + b if x == a and word[i : i + 1] == [b] else x for i, x in enumerate(word, 1)] for word in words
    ]


def one_place(words):
    a, b = most_frequent(words)
    words = [list(word) for word in words]
    for word in words:
        place = next((i for i, pair in enumerate(pairwise(word)) if pair == (a, b)), None)
        if place is not None:
            word[place : place + 2] = [a + b]
    return words


def merge_in_place(words):
    a, b = most_frequent(words)
    for word in words:
        for i in range(len(word)):
            if word[i : i + 2] == [a, b]:
                word[i] += word.pop(i + 1)
    return words


def from_behind(words):
    a, b = most_frequent(words)
    return [
        [piece[::-1] for piece in word[::-1]] for word in merged_by((b[::-1], a[::-1]), reversed_all(words))
    ]


def reversed_all(words):
    return [[piece[::-1] for piece in word[::-1]] for word in words]


def all_that_come_twice(words):
    counts = Counter(pair for word in words for pair in pairwise(word))
    found = []
    for word in words:
        found.append([])
        for piece in word:
            hit = found[-1] and counts[found[-1][-1], piece] >= 2
            found[-1].append(found[-1].pop() + piece if hit else piece)
    return found


def first_of(words, pairs):
    return merged_by(Counter(pairs).most_common(1)[0][0], words)


for name, attempt in {
    "pieces_broken": without_lookaround,
    "pairs_with_the_same_letters": as_the_notebook_counts,
    "second_piece_stays": no_step_behind,
    "first_place_only": one_place,
    "changes_its_input": merge_in_place,
    "from_right_to_left": from_behind,
    "several_pairs": all_that_come_twice,
    "words_counted_once": lambda ws: merged_by(most_frequent([list(w) for w in {tuple(w) for w in ws}]), ws),
    "across_words": lambda ws: first_of(ws, pairwise(itertools.chain(*ws))),
    "words_left_out": lambda ws: [w for w in merge_delete(ws) if "".join(most_frequent(ws)) in w],
    "single_pieces_counted": lambda ws: merged_by(
        [p for p, _ in Counter(itertools.chain(*ws)).most_common(2)], ws
    ),
    "order_ignored": lambda ws: first_of(ws, [tuple(sorted(p)) for w in ws for p in pairwise(w)]),
    "not_by_count": lambda ws: merged_by(max({p for w in ws for p in pairwise(w)}), ws),
    "rarest_pair": lambda ws: merged_by(Counter(p for w in ws for p in pairwise(w)).most_common()[-1][0], ws),
    "pair_returned": lambda ws: "".join(most_frequent(ws)),
    "words_as_texts": lambda ws: [" ".join(w) for w in merge_delete(ws)],
    "counted_once_in_a_word": lambda ws: first_of(ws, [p for w in ws for p in set(pairwise(w))]),
    "merged_in_the_wrong_order": lambda ws: merged_by(
        most_frequent(ws), ws, "".join(most_frequent(ws)[::-1])
    ),
    "pieces_merged_alone": lambda ws: merged_by(most_frequent(ws), ws, most_frequent(ws)),
    "every_second_pair": lambda ws: first_of(
        ws, [(w[i], w[i + 1]) for w in ws for i in range(0, len(w) - 1, 2)]
    ),
    "nothing_merged": lambda ws: [list(w) for w in ws],
}.items():
    wrong("merge_pair", name, attempt)

# -------------------------------------------------------------------------------------------------- pad_batch


def pad_loops(sequences, pad_id):
    longest = max(len(row) for row in sequences)
    ids, mask = [], []
    for row in sequences:
        ids.append(row + [pad_id] * (longest - len(row)))
        mask.append([1] * len(row) + [0] * (longest - len(row)))
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
    ids = pad_sequence(rows, batch_first=True, padding_value=pad_id)
    lengths = torch.tensor([len(row) for row in rows])
    return ids, torch.arange(ids.shape[1]) < lengths[:, None]


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


def pad_numpy(sequences, pad_id):
    ids = np.full((len(sequences), max(map(len, sequences))), pad_id)
    mask = np.zeros_like(ids)
    for i, row in enumerate(sequences):
        ids[i, : len(row)], mask[i, : len(row)] = row, 1
    return torch.from_numpy(ids), torch.from_numpy(mask)


peer("pad_batch", pad_framework)
fresh("pad_batch", ([[5], [6, 7], [8, 9, 5, 4]], 8), ([[3, 3], [3, 1, 2]], 0))
right("pad_batch", pad_loops, pad_full, pad_framework, pad_zip, pad_function, pad_numpy)


def with_mask(mask):
    return lambda s, p: (pad_loops(s, p)[0], mask(pad_loops(s, p)[0], torch.tensor([len(row) for row in s])))


def pad_time_first(sequences, pad_id):
    rows = [torch.tensor(row) for row in sequences]
    return pad_sequence(rows, padding_value=pad_id), pad_sequence([torch.ones_like(row) for row in rows])


def pad_append(sequences, pad_id):
    lengths, longest = torch.tensor([len(row) for row in sequences]), max(map(len, sequences))
    for row in sequences:
        while len(row) < longest:
            row.append(pad_id)
    return torch.tensor(sequences), (torch.arange(longest) < lengths[:, None]).long()


for name, attempt in {
    "mask_inverted": with_mask(lambda ids, lengths: torch.arange(ids.shape[1]) >= lengths[:, None]),
    "mask_of_another_length": with_mask(lambda ids, lengths: torch.arange(ids.shape[1]) <= lengths[:, None]),
    "mask_of_ones": with_mask(lambda ids, lengths: torch.ones_like(ids)),
    "mask_of_one_text": with_mask(
        lambda ids, lengths: (torch.arange(ids.shape[1]) < lengths[0]).expand(ids.shape)
    ),
    "mask_from_zero": with_mask(lambda ids, lengths: (ids > 0).int()),
    "mask_from_pad_id": lambda s, p: with_mask(lambda ids, lengths: ids.ne(p).long())(s, p),
    "mask_filled_with_pad_id": lambda s, p: (
        pad_full(s, p)["input_ids"],
        pad_function([[1] * len(r) for r in s], p)[0],
    ),
    "mask_first": lambda s, p: pad_loops(s, p)[::-1],
    "pads_in_front": lambda s, p: tuple(part.flip(1) for part in pad_loops([row[::-1] for row in s], p)),
    "pads_on_both_sides": lambda s, p: pad_function([[p, *row] for row in s], p),
    "cut_to_shortest": lambda s, p: pad_full(list(zip(*zip(*s, strict=False), strict=True)), p),
    "cut_to_another": lambda s, p: pad_full([row[: len(s[0])] for row in s], p),
    "pad_id_ignored": lambda s, p: (pad_sequence([torch.tensor(row) for row in s], True), pad_loops(s, p)[1]),
    "longer_than_longest": lambda s, p: tuple(F.pad(part, (0, 9), value=p) for part in pad_loops(s, p)),
    "axes_exchanged": pad_time_first,
    "order_changed": lambda s, p: pad_loops(sorted(s, key=len, reverse=True), p),
    "changes_its_input": pad_append,
}.items():
    wrong("pad_batch", name, attempt)

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


right("sentence_b_start", b_start_loop, b_start_tensor, b_start_try, b_start_while, b_start_change)
right(
    "sentence_b_start",
    lambda kinds: next((place for place, kind in enumerate(kinds) if kind), None),
    lambda kinds: len(list(itertools.takewhile(lambda kind: kind == 0, kinds))) if any(kinds) else None,
    lambda kinds: int((torch.tensor(kinds).cumsum(0) == 0).sum()) if 1 in kinds else None,
    lambda kinds: kinds.index(1) if 1 in kinds else None,
    lambda kinds: int(np.argmax(kinds)) if max(kinds) else None,
)
peer("sentence_b_start", lambda kinds: None if (place := "".join(map(str, kinds)).find("1")) < 0 else place)
fresh("sentence_b_start", ([0, 0, 1],), ([0],), ([0, 0, 0, 0, 0, 1, 1, 0],))


def b_start_pops(token_type_ids):
    for place in range(len(token_type_ids)):
        if token_type_ids.pop(0) == 1:
            return place


for name, attempt in {
    "counts_zeros": lambda kinds: len(kinds) - sum(kinds) if 1 in kinds else None,
    "counted_from_one": lambda kinds: next(
        (place for place, kind in enumerate(kinds, start=1) if kind), None
    ),
    "counted_from_the_end": lambda kinds: len(kinds) - kinds.index(1) if 1 in kinds else None,
    "half_the_length": lambda kinds: int(len(kinds) / 2) if 1 in kinds else None,
    "starts_at_separator": lambda kinds: next(
        (i for i, pair in enumerate(pairwise(kinds)) if pair == (0, 1)), None
    ),
    "finds_b_where_none_is": lambda kinds: torch.tensor(kinds).argmax().item(),
    "misses_b": lambda kinds: kinds[:-1].index(1) if 1 in kinds[:-1] else None,
    "end_of_b": lambda kinds: max((place for place, kind in enumerate(kinds) if kind), default=None),
    "counts_ones": lambda kinds: sum(kinds) or None,
    "after_last_zero": lambda kinds: (
        max(i for i, kind in enumerate(kinds) if not kind) + 1 if 1 in kinds else None
    ),
    "not_in_the_list": lambda kinds: kinds.index(1),
    "changes_its_input": b_start_pops,
}.items():
    wrong("sentence_b_start", name, attempt)
