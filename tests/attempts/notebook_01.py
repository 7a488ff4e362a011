"""Attempts at the exercises of notebook 01."""

import itertools
import re
from collections import Counter, defaultdict
from itertools import combinations, pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from .tables import fresh, peer, right, wrong


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
    best = most_frequent(words)

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


def merge_arrays(words):
    kinds = sorted({piece for word in words for piece in word})
    table = np.zeros((len(kinds), len(kinds)), dtype=int)
    for word in words:
        places = [kinds.index(piece) for piece in word]
        np.add.at(table, (places[:-1], places[1:]), 1)
    best = [kinds[place] for place in np.unravel_index(table.argmax(), table.shape)]
    return tuple(map(tuple, merged_by(best, words)))


def of_the_paper(words):
    pairs = defaultdict(int)
    for symbols in words:
        for i in range(len(symbols) - 1):
            pairs[symbols[i], symbols[i + 1]] += 1
    best = max(pairs, key=pairs.get)
    p = re.compile(r"(?<!\S)" + re.escape(" ".join(best)) + r"(?!\S)")
    return [p.sub("".join(best), " ".join(word)).split() for word in words]


peer("merge_pair", of_the_paper)  # Sennrich et al. 2016, algorithm 1
fresh(
    "merge_pair", ([list("abab"), ["b", "a"], ["c", "ab"], ["d"]],), ([list("xxx"), list("yx"), ["xx", "y"]],)
)
right("merge_pair", of_the_paper, merge_recursive, merge_delete, merge_arrays)
right("merge_pair", lambda words: merged_by(most_frequent(words), words))


def first_of(pairs):
    return lambda words: merged_by(Counter(pairs(words)).most_common(1)[0][0], words)


def with_pair(merge):
    return lambda words: merge(words, *most_frequent(words))


def gathered(hit):
    def attempt(words):
        counts, found = Counter(pair for word in words for pair in pairwise(word)), []
        for first, *others in words:
            found.append([first])
            for piece in others:
                found[-1].append(found[-1].pop() + piece if hit(counts, found[-1][-1], piece) else piece)
        return found

    return attempt


def turned(words):
    return [[piece[::-1] for piece in word[::-1]] for word in words]


wrong(
    "merge_pair",
    pieces_broken=with_pair(lambda ws, a, b: [" ".join(w).replace(f"{a} {b}", a + b).split() for w in ws]),
    pairs_with_the_same_letters=gathered(
        lambda counts, a, b: a + b == Counter(map("".join, counts.elements())).most_common(1)[0][0]
    ),
    second_piece_stays=with_pair(
        lambda ws, a, b: [[x + b * (w[i : i + 2] == [a, b]) for i, x in enumerate(w)] for w in ws]
    ),
    first_place_only=with_pair(
        lambda ws, a, b: [f" {' '.join(w)} ".replace(f" {a} {b} ", f" {a + b} ", 1).split() for w in ws]
    ),
    changes_its_input=lambda ws: ws.__setitem__(slice(None), merge_delete(ws)) or ws,
    from_right_to_left=with_pair(lambda ws, a, b: turned(merged_by((b[::-1], a[::-1]), turned(ws)))),
    several_pairs=gathered(lambda counts, a, b: counts[a, b] >= 2),
    words_counted_once=lambda ws: merged_by(most_frequent([list(w) for w in {tuple(w) for w in ws}]), ws),
    across_words=first_of(lambda ws: pairwise(itertools.chain(*ws))),
    words_left_out=lambda ws: [w for w in merge_delete(ws) if "".join(most_frequent(ws)) in w],
    single_pieces_counted=lambda ws: merged_by([*dict(Counter(itertools.chain(*ws)).most_common(2))], ws),
    order_ignored=first_of(lambda ws: [tuple(sorted(p)) for w in ws for p in pairwise(w)]),
    not_by_count=lambda ws: merged_by(max({p for w in ws for p in pairwise(w)}), ws),
    rarest_pair=lambda ws: merged_by(Counter(p for w in ws for p in pairwise(w)).most_common()[-1][0], ws),
    pair_returned=lambda ws: "".join(most_frequent(ws)),
    words_as_texts=lambda ws: [" ".join(w) for w in merge_delete(ws)],
    counted_once_in_a_word=first_of(lambda ws: [p for w in ws for p in set(pairwise(w))]),
    merged_in_the_wrong_order=with_pair(lambda ws, a, b: merged_by((a, b), ws, b + a)),
    pieces_merged_alone=with_pair(lambda ws, a, b: merged_by((a, b), ws, (a, b))),
    pairs_left_out=first_of(lambda ws: [(w[i], w[i + 1]) for w in ws for i in range(0, len(w) - 1, 2)]),
    not_neighbours=first_of(lambda ws: [p for w in ws for p in combinations(w, 2)]),
    nothing_merged=lambda ws: [list(w) for w in ws],
)


def pad_loops(sequences, pad_id):
    longest = max(len(row) for row in sequences)
    ids, mask = [], []
    for row in sequences:
        ids.append(row + [pad_id] * (longest - len(row)))
        mask.append([1] * len(row) + [0] * (longest - len(row)))
    return torch.tensor(ids), torch.tensor(mask)


def pad_framework(sequences, pad_id):
    rows = [torch.tensor(row) for row in sequences]
    ids = pad_sequence(rows, batch_first=True, padding_value=pad_id)
    return ids, torch.arange(ids.shape[1]) < torch.tensor([len(row) for row in rows])[:, None]


def columns(rows, value):
    return torch.tensor([*itertools.zip_longest(*rows, fillvalue=value)])


def ones(sequences):
    return [[1] * len(row) for row in sequences]


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
    return {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}


peer("pad_batch", pad_framework)
fresh("pad_batch", ([[5], [6, 7], [8, 9, 5, 4]], 8), ([[3, 3], [3, 1, 2]], 0))
right("pad_batch", pad_loops, pad_framework, pad_function, pad_numpy)
right("pad_batch", lambda s, p: (columns(s, p).T, columns(ones(s), 0).T))


def with_mask(mask):
    return lambda s, p: (pad_loops(s, p)[0], mask(pad_loops(s, p)[0], torch.tensor([[*map(len, s)]]).T, p))


wrong(
    "pad_batch",
    numbers_to_add=with_mask(lambda ids, n, pad: (torch.arange(ids.shape[1]) < n).double().log()),
    mask_inverted=with_mask(lambda ids, n, pad: torch.arange(ids.shape[1]) >= n),
    mask_of_another_length=with_mask(lambda ids, n, pad: torch.arange(ids.shape[1]) <= n),
    mask_of_ones=with_mask(lambda ids, n, pad: torch.ones_like(ids)),
    mask_of_one_text=with_mask(lambda ids, n, pad: (torch.arange(ids.shape[1]) < n[0]).expand(ids.shape)),
    mask_from_zero=with_mask(lambda ids, n, pad: (ids > 0).int()),
    mask_from_pad_id=with_mask(lambda ids, n, pad: ids.ne(pad).long()),
    mask_filled_with_pad_id=lambda s, p: (pad_loops(s, p)[0], columns(ones(s), p).T),
    mask_first=lambda s, p: pad_loops(s, p)[::-1],
    pads_in_front=lambda s, p: tuple(part.flip(1) for part in pad_loops([row[::-1] for row in s], p)),
    pads_on_both_sides=lambda s, p: pad_function([[p, *row] for row in s], p),
    cut_to_shortest=lambda s, p: pad_numpy(list(zip(*zip(*s, strict=False), strict=True)), p),
    cut_to_another=lambda s, p: pad_numpy([row[: len(s[0])] for row in s], p),
    pad_id_ignored=lambda s, p: (pad_sequence([torch.tensor(row) for row in s], True), pad_loops(s, p)[1]),
    longer_than_longest=lambda s, p: tuple(F.pad(part, (0, 9), value=p) for part in pad_loops(s, p)),
    axes_exchanged=lambda s, p: (columns(s, p), columns(ones(s), 0)),
    order_changed=lambda s, p: pad_loops(sorted(s, key=len, reverse=True), p),
    changes_its_input=lambda s, p: (pad_numpy(s, p), [row.append(p) for row in s])[0],
)


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


right(
    "sentence_b_start",
    *(b_start_try, b_start_while),
    lambda kinds: next(iter(torch.tensor(kinds).nonzero()), None),
    lambda kinds: next((i for i, (a, b) in enumerate(pairwise(kinds), 1) if a != b), None),
    lambda kinds: next((place for place, kind in enumerate(kinds) if kind), None),
    lambda kinds: len(list(itertools.takewhile(lambda kind: kind == 0, kinds))) if any(kinds) else None,
    lambda kinds: int((torch.tensor(kinds).cumsum(0) == 0).sum()) if 1 in kinds else None,
    lambda kinds: kinds.index(1) if 1 in kinds else None,
    lambda kinds: int(np.argmax(kinds)) if max(kinds) else None,
)
peer("sentence_b_start", lambda kinds: None if (place := "".join(map(str, kinds)).find("1")) < 0 else place)
fresh("sentence_b_start", ([0, 0, 1],), ([0],), ([0, 0, 0, 0, 0, 1, 1, 0],))


def where_b_is(place):
    return lambda kinds: place(kinds) if 1 in kinds else None


wrong(
    "sentence_b_start",
    counts_zeros=where_b_is(lambda kinds: len(kinds) - sum(kinds)),
    counted_from_one=where_b_is(lambda kinds: next(i for i, kind in enumerate(kinds, start=1) if kind)),
    counted_from_the_end=where_b_is(lambda kinds: len(kinds) - kinds.index(1)),
    half_the_length=where_b_is(lambda kinds: int(len(kinds) / 2)),
    starts_at_separator=where_b_is(lambda kinds: list(pairwise(kinds)).index((0, 1))),
    finds_b_where_none_is=lambda kinds: torch.tensor(kinds).argmax().item(),
    misses_b=lambda kinds: kinds[:-1].index(1) if 1 in kinds[:-1] else None,
    end_of_b=where_b_is(lambda kinds: max(i for i, kind in enumerate(kinds) if kind)),
    counts_ones=lambda kinds: sum(kinds) or None,
    after_last_zero=where_b_is(lambda kinds: max(i for i, kind in enumerate(kinds) if not kind) + 1),
    not_in_the_list=lambda kinds: kinds.index(1),
    changes_its_input=lambda kinds: next((i for i in range(len(kinds)) if kinds.pop(0) == 1), None),
)
