"""What learners might write: right and wrong attempts at every exercise. New ones are added here and nowhere else.

`right(exercise, *attempts)` must pass, `wrong(exercise, misconception, *attempts)` must be refused and named, and
`unlisted(exercise, *attempts)`, a mistake that has no name, must be refused without one. `combined(exercise, names,
*attempts)` makes several mistakes at once: refused, with one of these names or without.
They are written differently on purpose: loops, einsum, batched, the framework's own function, numpy.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

RIGHT, WRONG, UNLISTED, COMBINED = {}, {}, {}, {}


def right(exercise, *attempts):
    RIGHT.setdefault(exercise, []).extend(attempts)


def wrong(exercise, misconception, *attempts):
    WRONG.setdefault((exercise, misconception), []).extend(attempts)


def unlisted(exercise, *attempts):
    UNLISTED.setdefault(exercise, []).extend(attempts)


def combined(exercise, misconceptions, *attempts):
    COMBINED.setdefault((exercise, misconceptions), []).extend(attempts)


# ------------------------------------------------------------------------------------------------ 01 wordpiece


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

# ------------------------------------------------------------------------------------------------ 01 pad_batch


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


right("pad_batch", pad_loops, pad_full, pad_framework, pad_lists)
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

# ----------------------------------------------------------------------------------------- 01 sentence_b_start


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

# -------------------------------------------------------------------------------------------------- 02 softmax


def softmax_loops(scores):
    weights = torch.zeros_like(scores)
    for b, table in enumerate(scores):
        for i, row in enumerate(table):
            powers = [math.exp(score - max(row)) for score in row]
            weights[b, i] = torch.tensor([power / sum(powers) for power in powers])
    return weights


def softmax_batched(scores):
    powers = (scores - scores.max(dim=-1, keepdim=True).values).exp()
    return powers / powers.sum(dim=-1, keepdim=True)


def softmax_numpy(scores):
    scores = scores.numpy()
    powers = np.exp(scores - scores.max(axis=2)[:, :, None])
    return powers / powers.sum(axis=2)[:, :, None]


right(
    "softmax",
    softmax_loops,
    softmax_batched,
    softmax_numpy,
    lambda s: s.softmax(-1),
    lambda s: (s - s.logsumexp(2, True)).exp(),
)
wrong(
    "softmax",
    "softmax_over_queries",
    lambda s: s.softmax(dim=1),
    lambda s: (s - s.amax(1, True)).exp() / (s - s.amax(1, True)).exp().sum(dim=1, keepdim=True),
)
wrong(
    "softmax",
    "softmax_over_batch",
    lambda s: s.softmax(dim=0),
    lambda s: torch.exp(s) / torch.exp(s).sum(dim=0),
)
wrong(
    "softmax",
    "one_sum_for_all",
    lambda s: s.exp() / s.exp().sum(),
    lambda s: s.flatten().softmax(0).view(s.shape),
)
wrong(
    "softmax",
    "no_exponential",
    lambda s: s / s.sum(dim=-1, keepdim=True),
    lambda s: F.normalize(s.abs(), p=1, dim=-1),
)
wrong(
    "softmax",
    "overflow_on_large_scores",
    lambda s: s.exp() / s.exp().sum(dim=-1, keepdim=True),
    lambda s: torch.stack([torch.stack([row.exp() / row.exp().sum() for row in table]) for table in s]),
)
unlisted("softmax", lambda s: s.sigmoid(), lambda s: s.softmax(-1).log(), lambda s: (2 * s).softmax(-1))


def softmax_in_place(scores):
    scores -= scores.max(dim=-1, keepdim=True).values
    return scores.exp() / scores.exp().sum(dim=-1, keepdim=True)


wrong("softmax", "changes_its_input", softmax_in_place, lambda s: s.sub_(s.amax(-1, True)).softmax(-1))

# ------------------------------------------------------- 02 attention, 03 scaled_dot_product_attention


def attention_loops(query, key, value, mask=None):
    shape = (*query.shape[:-1], value.shape[-1])
    if query.dim() > 2:
        masks = [None] * len(query) if mask is None else mask.expand(*query.shape[:-1], key.shape[-2])
        parts = zip(query, key, value, masks, strict=True)
        return torch.stack([attention_loops(*part) for part in parts])
    output = torch.zeros(shape)
    for i in range(len(query)):
        scores = [float(query[i] @ key[j]) / math.sqrt(len(key[j])) for j in range(len(key))]
        powers = [math.exp(score) for score in scores]
        if mask is not None:
            powers = [power if mask[i, j] else 0.0 for j, power in enumerate(powers)]
        for j in range(len(key)):
            if sum(powers):
                output[i] += powers[j] / sum(powers) * value[j]
    return output


def attention_einsum(query, key, value, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.nan_to_num(scores.softmax(dim=-1))
    return torch.einsum("...qk,...kv->...qv", weights, value), weights


def attention_additive(query, key, value, mask=None):
    scores = (query / query.shape[-1] ** 0.5) @ key.transpose(-2, -1)
    if mask is not None:
        scores = scores + torch.where(mask, 0.0, -math.inf)
    weights = F.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ value


def attention_numpy(query, key, value, mask=None):
    query, key, value = query.numpy(), key.numpy(), value.numpy()
    scores = query @ np.swapaxes(key, -2, -1) / np.sqrt(query.shape[-1])
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    if mask is not None:
        powers = powers * mask.numpy()
    total = powers.sum(-1, keepdims=True)
    return powers / np.where(total == 0, 1, total) @ value


def attention_framework(query, key, value, mask=None):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


for_both = [attention_loops, attention_einsum, attention_additive, attention_numpy, attention_framework]
for exercise in ("attention", "scaled_dot_product_attention"):
    right(exercise, *for_both)
right("attention", lambda q, k, v: ((q @ k.mT) / math.sqrt(k.size(-1))).softmax(-1) @ v)


def masked(scores, mask, filling=-math.inf):
    return scores if mask is None else scores.masked_fill(~mask, filling)


def settle(weights, mask):
    """No weight in a row with everything masked."""
    return weights if mask is None else weights.masked_fill(~mask.any(-1, keepdim=True), 0.0)


def both(misconception, *attempts):
    for exercise in ("attention", "scaled_dot_product_attention"):
        wrong(exercise, misconception, *attempts)


def no_scaling(query, key, value, mask=None):
    return settle(masked(query @ key.transpose(-1, -2), mask).softmax(dim=-1), mask) @ value


def no_scaling_einsum(query, key, value, mask=None):
    weights = masked(torch.einsum("...id,...jd->...ij", query, key), mask).softmax(-1)
    return torch.einsum("...ij,...jd->...id", weights, value), weights


def scaled_by_d(query, key, value, mask=None):
    return settle(masked(query @ key.mT / query.shape[-1], mask).softmax(dim=-1), mask) @ value


def scaled_twice(query, key, value, mask=None):
    root = math.sqrt(key.size(-1))
    weights = masked((query / root) @ (key / root).mT, mask).softmax(dim=-1)
    return weights @ value, weights


def scaled_by_length(query, key, value, mask=None):
    return settle(masked(query @ key.mT / math.sqrt(key.shape[-2]), mask).softmax(dim=-1), mask) @ value


def scaled_by_len(query, key, value, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", query, key)
    return masked(scores / scores.shape[-1], mask).softmax(dim=-1) @ value


def scaled_by_shape_1(query, key, value, mask=None):
    return masked(query @ key.mT / query.shape[1] ** 0.5, mask).softmax(dim=-1) @ value


both("no_scaling", no_scaling, no_scaling_einsum)
both("scaled_by_d", scaled_by_d, scaled_twice)
both("scaled_by_sequence_length", scaled_by_length, scaled_by_len, scaled_by_shape_1)


def over_axis(axis):
    def attempt(query, key, value, mask=None):
        weights = masked(query @ key.mT / math.sqrt(query.shape[-1]), mask).softmax(dim=axis)
        return weights @ value, weights

    return attempt


def queries_by_hand(query, key, value, mask=None):
    powers = masked(query @ key.mT / math.sqrt(query.shape[-1]), mask).exp()
    return powers / powers.sum(dim=-2, keepdim=True) @ value


def batch_by_hand(query, key, value, mask=None):
    powers = masked(query @ key.mT / math.sqrt(query.shape[-1]), mask).exp()
    return (powers / powers.sum(0)) @ value


both("softmax_over_queries", over_axis(-2), over_axis(1), queries_by_hand)
both("softmax_over_batch", over_axis(0), batch_by_hand, over_axis(-3))


def no_softmax(query, key, value, mask=None):
    return masked(query @ key.mT / math.sqrt(query.shape[-1]), mask) @ value


def no_softmax_einsum(query, key, value, mask=None):
    return torch.einsum("...qd,...kd,...kv->...qv", query, key, value)


def swapped(query, key, value, mask=None):
    weights = masked(key @ query.mT / math.sqrt(key.shape[-1]), mask).softmax(dim=-1)
    return weights @ value, weights


def swapped_einsum(query, key, value, mask=None):
    scores = torch.einsum("...qd,...kd->...kq", query, key) / query.shape[-1] ** 0.5
    return masked(scores, mask).softmax(-1) @ value


def swapped_framework(query, key, value, mask=None):
    return F.scaled_dot_product_attention(key, query, value, mask)


def swapped_back(query, key, value, mask=None):
    return (query @ key.mT / math.sqrt(query.shape[-1])).softmax(-1).transpose(-1, -2) @ value


both("no_softmax", no_softmax, no_softmax_einsum)
both("query_key_swapped", swapped, swapped_einsum, swapped_framework, swapped_back)
both(
    "value_ignored",
    lambda q, k, v, mask=None: attention_einsum(q, k, v, mask)[1],
    lambda q, k, v, mask=None: attention_einsum(q, k, v, mask)[1] @ k,
    lambda q, k, v, mask=None: F.scaled_dot_product_attention(q, k, q, mask),
)


def divides_in_place(query, key, value, mask=None):
    query /= math.sqrt(query.shape[-1])
    return settle(masked(query @ key.mT, mask).softmax(-1), mask) @ value


def multiplies_in_place(query, key, value, mask=None):
    scores = query @ key.mul_(key.shape[-1] ** -0.5).mT
    return settle(masked(scores, mask).softmax(-1), mask) @ value


both("changes_its_input", divides_in_place, multiplies_in_place)


def inverts_in_place(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is not None:
        scores.masked_fill_(mask.logical_not_(), -1e30)
        return scores.softmax(-1).masked_fill(mask.all(-1, keepdim=True), 0.0) @ value
    return scores.softmax(-1) @ value


wrong("scaled_dot_product_attention", "changes_its_input", inverts_in_place)


def mask_wrong(misconception, *attempts):
    wrong("scaled_dot_product_attention", misconception, *attempts)


def forgets_result(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is not None:
        scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1) @ value


mask_wrong("mask_ignored", lambda q, k, v, mask=None: F.scaled_dot_product_attention(q, k, v), forgets_result)


def inverted_fill(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask, -math.inf)
    return scores.softmax(-1) @ value


def inverted_framework(query, key, value, mask=None):
    return F.scaled_dot_product_attention(query, key, value, None if mask is None else mask.logical_not())


def inverted_large(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return (scores if mask is None else scores.masked_fill(mask == 1, -1e9)).softmax(-1) @ value


mask_wrong("mask_inverted", inverted_fill, inverted_framework, inverted_large)


def after_softmax(query, key, value, mask=None):
    weights = (query @ key.mT / math.sqrt(query.shape[-1])).softmax(-1)
    return (weights if mask is None else weights * mask) @ value


def after_softmax_fill(query, key, value, mask=None):
    weights = (query @ key.mT / math.sqrt(query.shape[-1])).softmax(-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0)
    return weights @ value, weights


mask_wrong("mask_after_softmax", after_softmax, after_softmax_fill)


def filled_with(number):
    def attempt(query, key, value, mask=None):
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        return settle(masked(scores, mask, number).softmax(-1), mask) @ value

    return attempt


def scores_times_mask(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return (scores if mask is None else scores * mask).softmax(-1) @ value


def scores_plus_mask(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = (scores if mask is None else scores + mask.float()).softmax(-1)
    return weights @ value, weights


def framework_float_mask(query, key, value, mask=None):
    return F.scaled_dot_product_attention(query, key, value, None if mask is None else mask.float())


mask_wrong(
    "mask_not_minus_infinity",
    filled_with(0.0),
    filled_with(-1),
    filled_with(1e-9),
    filled_with(-10),
    scores_times_mask,
    scores_plus_mask,
    framework_float_mask,
)
mask_wrong(
    "nan_on_masked_row",
    lambda q, k, v, mask=None: masked(q @ k.mT / math.sqrt(q.shape[-1]), mask).softmax(-1) @ v,
    lambda q, k, v, mask=None: (
        (q @ k.mT / math.sqrt(q.shape[-1]) + (0.0 if mask is None else torch.where(mask, 0.0, -math.inf)))
        .softmax(-1)
        .matmul(v)
    ),
)
mask_wrong(
    "masked_row_not_zero",
    lambda q, k, v, mask=None: masked(q @ k.mT / math.sqrt(q.shape[-1]), mask, -1e9).softmax(-1) @ v,
    lambda q, k, v, mask=None: (
        (q @ k.mT / math.sqrt(q.shape[-1]) + (0.0 if mask is None else (~mask) * -1e4)).softmax(-1) @ v
    ),
    lambda q, k, v, mask=None: (
        masked(q @ k.mT / math.sqrt(q.shape[-1]), mask, torch.finfo(torch.float32).min).softmax(-1) @ v
    ),
)


def two_mistakes(query, key, value, mask=None):
    return (query @ key.mT).softmax(dim=-2) @ value


def uniform(query, key, value, mask=None):
    return value.mean(dim=-2, keepdim=True).expand(*query.shape[:-1], -1)


def sigmoid(query, key, value, mask=None):
    return (query @ key.mT / math.sqrt(query.shape[-1])).sigmoid() @ value


def weights_first(query, key, value, mask=None):
    return attention_einsum(query, key, value, mask)[::-1]


def wrong_weights(query, key, value, mask=None):
    output, weights = attention_einsum(query, key, value, mask)
    return output, weights.log()


for exercise in ("attention", "scaled_dot_product_attention"):
    unlisted(exercise, uniform, sigmoid, wrong_weights)
    combined(exercise, ("no_scaling", "softmax_over_queries"), two_mistakes)
combined(
    "scaled_dot_product_attention",
    ("no_scaling", "mask_ignored", "mask_inverted", "mask_after_softmax"),
    lambda q, k, v, mask=None: (q @ k.mT).softmax(-1) @ v,
    lambda q, k, v, mask=None: masked(q @ k.mT, None if mask is None else ~mask).softmax(-1) @ v,
    lambda q, k, v, mask=None: after_softmax(q, k, v, None if mask is None else ~mask),
)
unlisted("scaled_dot_product_attention", lambda q, k, v, mask=None: over_axis(-2)(q, k, v, mask)[0] * 2)

# ------------------------------------------------------------------------------------------ 02 weights_of_head


def head_slice(hidden_state, layer, head):
    size = layer.query.out_features // layer.num_attention_heads
    part = slice(head * size, (head + 1) * size)
    query, key = layer.query(hidden_state)[..., part], layer.key(hidden_state)[..., part]
    return (query @ key.transpose(-1, -2) / math.sqrt(size)).softmax(dim=-1)


def head_view(hidden_state, layer, head):
    batch, seq, _ = hidden_state.shape
    shape = batch, seq, layer.num_attention_heads, -1
    query = layer.query(hidden_state).view(shape).transpose(1, 2)
    key = layer.key(hidden_state).view(shape).transpose(1, 2)
    return F.softmax(query @ key.mT * query.shape[-1] ** -0.5, dim=-1)[:, head]


def head_weights(hidden_state, layer, head):
    size = layer.attention_head_size
    rows = slice(head * size, head * size + size)
    query, key = (
        F.linear(hidden_state, part.weight[rows], part.bias[rows]) for part in (layer.query, layer.key)
    )
    return torch.einsum("bqd,bkd->bqk", query, key).div(size**0.5).softmax(-1)


def head_with(start=None, step=None, divisor=None, bias=True, stop=None):
    def attempt(hidden_state, layer, head):
        size = layer.query.out_features // layer.num_attention_heads
        part = slice(head * size, head * size + size)
        if start is not None:
            part = slice((head + start) * size, (head + start + 1) * size)
        if step:
            part = slice(head, None, layer.num_attention_heads)
        query, key = (
            F.linear(hidden_state, p.weight, p.bias if bias else None) for p in (layer.query, layer.key)
        )
        return (query[..., part] @ key[..., part].mT / (divisor or math.sqrt)(size)).softmax(-1)

    return attempt


def head_one_based_chunks(hidden_state, layer, head):
    query, key = (
        p(hidden_state).chunk(layer.num_attention_heads, dim=-1)[head - 1] for p in (layer.query, layer.key)
    )
    return (query @ key.mT / math.sqrt(query.shape[-1])).softmax(-1)


def head_interleaved_view(hidden_state, layer, head):
    parts = []
    for projection in (layer.query, layer.key):
        parts.append(projection(hidden_state).unflatten(-1, (-1, layer.num_attention_heads))[..., head])
    return (parts[0] @ parts[1].mT / math.sqrt(parts[0].shape[-1])).softmax(-1)


def head_no_bias(hidden_state, layer, head):
    size = layer.attention_head_size
    query = (hidden_state @ layer.query.weight.T)[..., head * size : (head + 1) * size]
    key = (hidden_state @ layer.key.weight.T)[..., head * size : (head + 1) * size]
    return (query @ key.mT / math.sqrt(size)).softmax(-1)


def head_root_of_hidden(hidden_state, layer, head):
    query = layer.query(hidden_state)
    scale = math.sqrt(query.shape[-1])
    query, key = (t.chunk(layer.num_attention_heads, -1)[head] for t in (query, layer.key(hidden_state)))
    return (query @ key.mT / scale).softmax(-1)


def head_without_root(hidden_state, layer, head):
    query, key = (
        p(hidden_state).chunk(layer.num_attention_heads, -1)[head] for p in (layer.query, layer.key)
    )
    return torch.softmax(torch.einsum("bqd,bkd->bqk", query, key), dim=-1)


right("weights_of_head", head_slice, head_view, head_weights)
wrong(
    "weights_of_head", "head_counted_from_one", head_with(start=-1), head_with(start=1), head_one_based_chunks
)
wrong("weights_of_head", "every_nth_number", head_with(step=True), head_interleaved_view)
wrong("weights_of_head", "bias_forgotten", head_with(bias=False), head_no_bias)
wrong(
    "weights_of_head",
    "scaled_by_hidden_size",
    head_with(divisor=lambda size: math.sqrt(3 * size)),
    head_root_of_hidden,
)
wrong(
    "weights_of_head",
    "no_scaling",
    head_with(divisor=lambda size: 1),
    head_without_root,
)
unlisted(
    "weights_of_head",
    lambda x, layer, head: head_slice(x, layer, head).mT,
    lambda x, layer, head: head_slice(x, layer, head)[0],
    head_with(bias=False, divisor=lambda size: 1),
)

# -------------------------------------------------------------------------------------------------- 03 masks


def causal_loops(seq_len):
    mask = torch.zeros(seq_len, seq_len, dtype=torch.bool)
    for query in range(seq_len):
        for key in range(query + 1):
            mask[query, key] = True
    return mask


right(
    "causal_mask",
    causal_loops,
    lambda n: torch.tril(torch.ones(n, n, dtype=torch.bool)),
    lambda n: torch.arange(n)[:, None] >= torch.arange(n),
    lambda n: ~torch.triu(torch.ones(n, n), diagonal=1).bool(),
    lambda n: torch.ones(n, n, dtype=torch.long).tril()[None, None],
    lambda n: np.tril(np.ones((n, n), dtype=bool)),
    lambda n: nn.Transformer.generate_square_subsequent_mask(n) == 0,
)
wrong(
    "causal_mask",
    "upper_instead_of_lower",
    lambda n: torch.ones(n, n, dtype=torch.bool).triu(),
    lambda n: torch.arange(n)[:, None] <= torch.arange(n),
    lambda n: causal_loops(n).T,
)
wrong(
    "causal_mask",
    "excludes_itself",
    lambda n: torch.ones(n, n, dtype=torch.bool).tril(-1),
    lambda n: torch.arange(n)[:, None] > torch.arange(n),
)
wrong(
    "causal_mask",
    "inverted",
    lambda n: torch.triu(torch.ones(n, n), diagonal=1).bool(),
    lambda n: ~causal_loops(n),
)
wrong(
    "causal_mask",
    "wrong_dtype_or_value",
    lambda n: torch.tril(torch.ones(n, n)),
    lambda n: torch.zeros(n, n).masked_fill(~causal_loops(n), -math.inf),
    lambda n: nn.Transformer.generate_square_subsequent_mask(n),
    lambda n: causal_loops(n).long() - 1,
)
wrong(
    "causal_mask",
    "not_square",
    lambda n: torch.arange(n) >= 0,
    lambda n: torch.ones(n, n + 1, dtype=torch.bool).tril(),
    lambda n: causal_loops(n)[:, :, None],
)
unlisted("causal_mask", lambda n: torch.ones(n, n, dtype=torch.bool), lambda n: causal_loops(n).flip(1))


def padding_loops(attention_mask):
    batch, key = attention_mask.shape
    mask = torch.zeros(batch, 1, key, key, dtype=torch.bool)
    for sentence in range(batch):
        for place in range(key):
            mask[sentence, 0, :, place] = attention_mask[sentence, place] == 1
    return mask


right(
    "padding_mask",
    padding_loops,
    lambda m: m[:, None, None, :].bool(),
    lambda m: m.unsqueeze(1).unsqueeze(1) == 1,
    lambda m: m.view(len(m), 1, 1, -1),
    lambda m: torch.einsum("bk,bq->bqk", m, torch.ones_like(m))[:, None] > 0,
)
wrong(
    "padding_mask",
    "inverted",
    lambda m: m[:, None, None, :] == 0,
    lambda m: ~m.bool().unsqueeze(1).unsqueeze(2),
    lambda m: 1 - m[:, None, None],
)
wrong(
    "padding_mask",
    "masks_queries_not_keys",
    lambda m: m[:, None, :, None] == 1,
    lambda m: m.bool()[:, None, :, None].expand(-1, -1, -1, m.shape[1]),
)
wrong(
    "padding_mask",
    "does_not_broadcast",
    lambda m: m == 1,
    lambda m: m[:, None, :].bool(),
    lambda m: m.bool()[:, :, None, None],
)
unlisted(
    "padding_mask",
    lambda m: (m[:, None, :, None] * m[:, None, None, :]).bool(),
    lambda m: torch.ones_like(m)[:, None, None, :].bool(),
    lambda m: (1.0 - m[:, None, None, :]) * -1e9,
)


def window_loops(seq_len, size):
    rows = [[0 <= query - key < size for key in range(seq_len)] for query in range(seq_len)]
    return torch.tensor(rows)


def distance(seq_len):
    return torch.arange(seq_len)[:, None] - torch.arange(seq_len)


right(
    "window_mask",
    window_loops,
    lambda n, size: (
        torch.ones(n, n, dtype=torch.bool).tril() & ~torch.ones(n, n, dtype=torch.bool).tril(-size)
    ),
    lambda n, size: torch.ones(n, n).tril().triu(1 - size).bool(),
    lambda n, size: (distance(n) >= 0) & (distance(n) < size),
)
wrong(
    "window_mask",
    "window_too_long",
    lambda n, size: torch.ones(n, n).tril().triu(-size).bool(),
    lambda n, size: (distance(n) >= 0) & (distance(n) <= size),
)
wrong(
    "window_mask",
    "window_too_short",
    lambda n, size: torch.ones(n, n).tril().triu(2 - size).bool(),
    lambda n, size: (distance(n) >= 0) & (distance(n) < size - 1),
)
wrong(
    "window_mask",
    "looks_ahead",
    lambda n, size: ~torch.ones(n, n, dtype=torch.bool).tril(-size),
    lambda n, size: distance(n).abs() < size,
    lambda n, size: window_loops(n, size).T,
)
unlisted(
    "window_mask",
    lambda n, size: (distance(n) > 0) & (distance(n) <= size),
    lambda n, size: torch.ones(n, n, dtype=torch.bool).tril(),
)

# ------------------------------------------------------------------------------------------------ 04 split_heads


def split_loops(projected, num_heads):
    size = projected.shape[-1] // num_heads
    return torch.stack([projected[:, :, h * size : (h + 1) * size] for h in range(num_heads)], dim=1)


right(
    "split_heads",
    split_loops,
    lambda x, n: x.view(*x.shape[:2], n, -1).transpose(1, 2),
    lambda x, n: x.unflatten(-1, (n, -1)).permute(0, 2, 1, 3),
    lambda x, n: x.numpy().reshape(len(x), x.shape[1], n, -1).swapaxes(1, 2),
)
wrong(
    "split_heads",
    "view_without_transpose",
    lambda x, n: x.view(x.shape[0], n, x.shape[1], -1),
    lambda x, n: torch.stack([part.reshape(n, part.shape[0], -1) for part in x]),
)
wrong(
    "split_heads",
    "heads_interleaved",
    lambda x, n: x.unflatten(-1, (-1, n)).permute(0, 3, 1, 2),
    lambda x, n: torch.stack([x[..., head::n] for head in range(n)], dim=1),
)
wrong(
    "split_heads",
    "heads_not_in_front",
    lambda x, n: x.view(*x.shape[:2], n, x.shape[2] // n),
    lambda x, n: torch.stack(x.chunk(n, dim=-1), dim=2),
)
unlisted(
    "split_heads",
    lambda x, n: split_loops(x, n).flip(1),
    lambda x, n: torch.stack(x.chunk(n, dim=-1)),
    lambda x, n: split_loops(x, n).mT,
)


# --------------------------------------------------------------------------------------- 04 multi_head_attention


class Heads(nn.Module):
    """All heads at once. A subclass changes one step."""

    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.output = nn.Linear(hidden_size, hidden_size)

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.num_heads, -1).transpose(1, 2)

    def merge(self, x):
        return x.transpose(1, 2).flatten(2)

    def scale(self, query):
        return math.sqrt(query.shape[-1])

    def mask(self, scores, mask):
        return masked(scores, mask)

    def forward(self, hidden_state, mask=None):
        query, key, value = (self.split(part(hidden_state)) for part in (self.query, self.key, self.value))
        weights = self.mask(query @ key.mT / self.scale(query), mask).softmax(dim=-1)
        return self.output(self.merge(weights @ value)), weights


class HeadsEinsum(Heads):
    def forward(self, hidden_state, mask=None):
        parts = [
            part(hidden_state).unflatten(-1, (self.num_heads, -1))
            for part in (self.query, self.key, self.value)
        ]
        scores = torch.einsum("bqhd,bkhd->bhqk", *parts[:2]) / math.sqrt(parts[0].shape[-1])
        weights = masked(scores, mask).softmax(-1)
        return self.output(torch.einsum("bhqk,bkhd->bqhd", weights, parts[2]).flatten(2))


class HeadsFramework(Heads):
    def forward(self, hidden_state, mask=None):
        x = hidden_state.transpose(0, 1)
        layers = [self.query, self.key, self.value]
        output, weights = F.multi_head_attention_forward(
            *(x, x, x),
            *(x.shape[-1], self.num_heads),
            torch.cat([layer.weight for layer in layers]),
            torch.cat([layer.bias for layer in layers]),
            *(None, None, False, 0.0),
            *(self.output.weight, self.output.bias),
            training=False,
            attn_mask=None if mask is None else ~mask,
        )
        return output.transpose(0, 1), weights  # weights are a mean over heads


class HeadsFused(Heads):
    def forward(self, hidden_state, mask=None):
        parts = [self.split(part(hidden_state)) for part in (self.query, self.key, self.value)]
        return self.output(self.merge(F.scaled_dot_product_attention(*parts, attn_mask=mask)))


class OneHead(nn.Module):
    def __init__(self, hidden_size, head_dim):
        super().__init__()
        self.query = nn.Linear(hidden_size, head_dim)
        self.key = nn.Linear(hidden_size, head_dim)
        self.value = nn.Linear(hidden_size, head_dim)

    def forward(self, hidden_state, mask=None):
        query, key, value = self.query(hidden_state), self.key(hidden_state), self.value(hidden_state)
        weights = masked(query @ key.mT / math.sqrt(query.shape[-1]), mask).softmax(dim=-1)
        return weights @ value


class HeadsList(nn.Module):
    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.heads = nn.ModuleList(OneHead(hidden_size, hidden_size // num_heads) for _ in range(num_heads))
        self.output = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_state, mask=None):
        return self.output(torch.cat([head(hidden_state, mask) for head in self.heads], dim=-1))


right("multi_head_attention", Heads, HeadsEinsum, HeadsFramework, HeadsFused, HeadsList)


class ViewOnly(Heads):
    def split(self, x):
        return x.view(x.shape[0], self.num_heads, x.shape[1], -1)


class ViewOnlyTwice(Heads):
    def forward(self, hidden_state, mask=None):
        b, s, h = hidden_state.shape
        parts = [
            p(hidden_state).reshape(b, self.num_heads, s, -1) for p in (self.query, self.key, self.value)
        ]
        return self.output(F.scaled_dot_product_attention(*parts, attn_mask=mask).reshape(b, s, h))


class SharedList(HeadsList):
    def __init__(self, hidden_size, num_heads):
        super().__init__(hidden_size, num_heads)
        self.heads = nn.ModuleList([OneHead(hidden_size, hidden_size // num_heads)] * num_heads)


class SharedSmall(Heads):
    def __init__(self, hidden_size, num_heads):
        super().__init__(hidden_size, num_heads)
        size = hidden_size // num_heads
        self.query, self.key, self.value = (nn.Linear(hidden_size, size) for _ in range(3))

    def split(self, x):
        return x[:, None].expand(-1, self.num_heads, -1, -1)


class SharedFirst(HeadsList):
    def forward(self, hidden_state, mask=None):
        return self.output(torch.cat([self.heads[0](hidden_state, mask) for _ in self.heads], dim=-1))


class HiddenScale(Heads):
    def scale(self, query):
        return math.sqrt(self.query.out_features)


class HiddenScaleEinsum(Heads):
    def forward(self, hidden_state, mask=None):
        parts = [
            part(hidden_state).unflatten(-1, (self.num_heads, -1))
            for part in (self.query, self.key, self.value)
        ]
        scores = torch.einsum("bqhd,bkhd->bhqk", *parts[:2]) / hidden_state.size(-1) ** 0.5
        return self.output(
            torch.einsum("bhqk,bkhd->bqhd", masked(scores, mask).softmax(-1), parts[2]).flatten(2)
        )


class NoOutput(Heads):
    def __init__(self, hidden_size, num_heads):
        super().__init__(hidden_size, num_heads)
        del self.output

    def forward(self, hidden_state, mask=None):
        parts = [self.split(part(hidden_state)) for part in (self.query, self.key, self.value)]
        return self.merge(F.scaled_dot_product_attention(*parts, attn_mask=mask))


class OutputUnused(HeadsList):
    def forward(self, hidden_state, mask=None):
        return torch.cat([head(hidden_state, mask) for head in self.heads], dim=-1)


class Summed(HeadsList):
    def __init__(self, hidden_size, num_heads):
        super().__init__(hidden_size, num_heads)
        self.output = nn.Linear(hidden_size // num_heads, hidden_size)

    def forward(self, hidden_state, mask=None):
        return self.output(sum(head(hidden_state, mask) for head in self.heads))


class MeanOfHeads(Heads):
    def __init__(self, hidden_size, num_heads):
        super().__init__(hidden_size, num_heads)
        self.output = nn.Linear(hidden_size // num_heads, hidden_size)

    def merge(self, x):
        return x.mean(dim=1)


class SummedWide(HeadsList):
    def __init__(self, hidden_size, num_heads):
        super().__init__(hidden_size, num_heads)
        self.heads = nn.ModuleList(OneHead(hidden_size, hidden_size) for _ in range(num_heads))

    def forward(self, hidden_state, mask=None):
        return self.output(torch.stack([head(hidden_state, mask) for head in self.heads]).sum(dim=0))


class MergedAsItLies(Heads):
    def merge(self, x):
        return x.reshape(x.shape[0], x.shape[2], -1)


class MergedView(Heads):
    def forward(self, hidden_state, mask=None):
        parts = [self.split(part(hidden_state)) for part in (self.query, self.key, self.value)]
        return self.output(
            F.scaled_dot_product_attention(*parts, attn_mask=mask).contiguous().view(hidden_state.shape)
        )


class MaskFirst(Heads):
    def mask(self, scores, mask):
        if mask is None:
            return scores
        return torch.cat([scores[:, :1].masked_fill(~mask, -math.inf), scores[:, 1:]], dim=1)


class MaskLast(HeadsList):
    def forward(self, hidden_state, mask=None):
        outputs = [head(hidden_state) for head in self.heads[:-1]]
        return self.output(torch.cat([*outputs, self.heads[-1](hidden_state, mask)], dim=-1))


class MaskUsedUp(HeadsList):
    def forward(self, hidden_state, mask=None):
        outputs = []
        for head in self.heads:
            outputs.append(head(hidden_state, mask))
            mask = None
        return self.output(torch.cat(outputs, dim=-1))


for misconception, attempts in {
    "view_without_transpose": [ViewOnly, ViewOnlyTwice],
    "heads_share_weights": [SharedList, SharedSmall, SharedFirst],
    "scaled_by_hidden_size": [HiddenScale, HiddenScaleEinsum],
    "no_output_projection": [NoOutput, OutputUnused],
    "heads_summed_not_concatenated": [Summed, MeanOfHeads, SummedWide],
    "merge_without_transpose": [MergedAsItLies, MergedView],
    "mask_only_for_one_head": [MaskFirst, MaskLast, MaskUsedUp],
}.items():
    wrong("multi_head_attention", misconception, *attempts)


class TwoMistakes(ViewOnly):
    def scale(self, query):
        return 1.0


class OtherNames(nn.Module):
    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.w_q = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_state, mask=None):
        return self.w_q(hidden_state)


class Inverted(Heads):
    def mask(self, scores, mask):
        return scores if mask is None else scores.masked_fill(mask, -math.inf)


class WideHeads(HeadsList):
    def __init__(self, hidden_size, num_heads):
        super().__init__(hidden_size, num_heads)
        self.heads = nn.ModuleList(OneHead(hidden_size, hidden_size) for _ in range(num_heads))
        self.output = nn.Linear(hidden_size * num_heads, hidden_size)


unlisted("multi_head_attention", OtherNames, Inverted, WideHeads)
combined("multi_head_attention", ("view_without_transpose", "scaled_by_hidden_size"), TwoMistakes)

# ----------------------------------------------------------------------------------------------- 05 layer_norm


def norm_loops(x, weight, bias, eps):
    result = torch.empty_like(x)
    for place in np.ndindex(*x.shape[:-1]):
        row = x[place].tolist()
        mean = sum(row) / len(row)
        variance = sum((number - mean) ** 2 for number in row) / len(row)
        for i, number in enumerate(row):
            result[(*place, i)] = (number - mean) / math.sqrt(variance + eps) * weight[i] + bias[i]
    return result


def norm_by(axis, keep=True):
    def attempt(x, weight, bias, eps):
        mean = x.mean(axis, keepdim=True)
        variance = ((x - mean) ** 2).mean(axis, keepdim=True)
        return weight * (x - mean) / (variance + eps).sqrt() + bias

    return attempt


def norm_module(x, weight, bias, eps):
    layer = nn.LayerNorm(x.shape[-1], eps=eps)
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    return layer(x)


def norm_numpy(x, weight, bias, eps):
    x, weight, bias = x.numpy(), weight.numpy(), bias.numpy()
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * weight + bias


def norm_unbiased(x, weight, bias, eps):
    centred = x - x.mean(-1, True)
    return centred / torch.sqrt((centred**2).sum(-1, True) / (x.shape[-1] - 1) + eps) * weight + bias


right(
    "layer_norm",
    norm_loops,
    norm_by(-1),
    norm_module,
    norm_numpy,
    lambda x, w, b, eps: F.layer_norm(x, w.shape, w, b, eps),
)
wrong(
    "layer_norm",
    "wrong_axis",
    norm_by(0),
    norm_by(1),
    norm_by(-2),
    lambda x, w, b, e: (x - x.mean()) / (x.var(correction=0) + e).sqrt() * w + b,
)
wrong(
    "layer_norm",
    "unbiased_variance",
    norm_unbiased,
    lambda x, w, b, e: (x - x.mean(-1, True)) / (x.var(-1, keepdim=True) + e).sqrt() * w + b,
)
wrong(
    "layer_norm",
    "epsilon_outside_root",
    lambda x, w, b, e: (x - x.mean(-1, True)) / (x.std(-1, keepdim=True, correction=0) + e) * w + b,
    lambda x, w, b, e: w * (x - x.mean(-1, True)) / (x.var(-1, keepdim=True, unbiased=False).sqrt() + e) + b,
)
wrong(
    "layer_norm",
    "no_scale_and_shift",
    lambda x, w, b, e: F.layer_norm(x, x.shape[-1:], eps=e),
    lambda x, w, b, e: (x - x.mean(-1, True)) / (x.var(-1, keepdim=True, correction=0) + e).sqrt(),
    lambda x, w, b, e: norm_by(-1)(x, w, 0, e),
    lambda x, w, b, e: norm_by(-1)(x, 1, b, e),
)
unlisted(
    "layer_norm",
    lambda x, w, b, e: (x - x.mean(-1, True)) / (x.var(-1, keepdim=True, correction=0) + e) * w + b,
    lambda x, w, b, e: x / (x.square().mean(-1, True) + e).sqrt() * w + b,
)
combined(
    "layer_norm",
    ("unbiased_variance", "epsilon_outside_root"),
    lambda x, w, b, e: (x - x.mean(-1, True)) / (x.std(-1, keepdim=True) + e) * w + b,
)


def norm_in_place(x, weight, bias, eps):
    x -= x.mean(-1, keepdim=True)
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight + bias


wrong("layer_norm", "changes_its_input", norm_in_place, lambda x, w, b, e: x.copy_(norm_by(-1)(x, w, b, e)))

# ---------------------------------------------------------------------------------------- 05 position_encoding


def positions_loops(x):
    result = x.clone()
    for p in range(x.shape[1]):
        for i in range(0, x.shape[2], 2):
            angle = p / 10000 ** (i / x.shape[2])
            result[:, p, i] += math.sin(angle)
            result[:, p, i + 1] += math.cos(angle)
    return result


def angles(x, first=0, speed=None):
    size = x.shape[-1]
    speed = 10000.0 ** (-torch.arange(0, size, 2) / size) if speed is None else speed
    return torch.arange(first, first + x.shape[-2])[:, None] * speed * torch.ones(size // 2)


def interleaved(angle):
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


def positions_slices(x):
    table = torch.zeros(x.shape[1:])
    speed = torch.exp(torch.arange(0, x.shape[2], 2) * (-math.log(10000.0) / x.shape[2]))
    table[:, 0::2] = torch.sin(torch.arange(x.shape[1])[:, None] * speed)
    table[:, 1::2] = torch.cos(torch.arange(x.shape[1])[:, None] * speed)
    return x + table


def positions_numpy(x):
    _, seq, size = x.shape
    i = np.arange(size)
    angle = np.arange(seq)[:, None] / np.power(10000, 2 * (i // 2) / size)
    return x.numpy() + np.where(i % 2 == 0, np.sin(angle), np.cos(angle))


right(
    "position_encoding",
    positions_loops,
    positions_slices,
    positions_numpy,
    lambda x: x + interleaved(angles(x)),
)
wrong(
    "position_encoding",
    "not_interleaved",
    lambda x: x + torch.cat([angles(x).sin(), angles(x).cos()], dim=-1),
    lambda x: x + torch.cat([angles(x).cos(), angles(x).sin()], dim=-1),
    lambda x: x + angles(x).sin().repeat_interleave(2, dim=-1),
)


def positions_every_place(x):
    size = x.shape[-1]
    angle = torch.arange(x.shape[1])[:, None] / 10000 ** (torch.arange(size) / size)
    return x + torch.where(torch.arange(size) % 2 == 0, angle.sin(), angle.cos())


wrong(
    "position_encoding",
    "degrees_or_missing_frequency",
    lambda x: x + interleaved(torch.deg2rad(angles(x))),
    lambda x: x + interleaved(angles(x) * 180 / math.pi),
    lambda x: x + interleaved(angles(x, speed=1.0)),
    positions_every_place,
)
wrong(
    "position_encoding",
    "depends_on_token",
    lambda x: x * interleaved(angles(x)),
    lambda x: x + (x[..., :1] + interleaved(angles(x))).sin(),
    lambda x: x + interleaved(angles(x)) * x.norm(dim=-1, keepdim=True),
)
wrong(
    "position_encoding",
    "positions_from_one",
    lambda x: x + interleaved(angles(x, first=1)),
    lambda x: positions_loops(torch.cat([x[:, :1], x], dim=1))[:, 1:],
)
wrong(
    "position_encoding",
    "not_added",
    lambda x: interleaved(angles(x)),
    lambda x: interleaved(angles(x)).expand(len(x), -1, -1),
    lambda x: interleaved(angles(x))[None],
)
unlisted(
    "position_encoding",
    lambda x: x + torch.arange(x.shape[1])[:, None],
    lambda x: x + torch.cat([angles(x, first=1).sin(), angles(x, first=1).cos()], dim=-1),
    lambda x: x,
)
wrong(
    "position_encoding",
    "changes_its_input",
    lambda x: x.add_(interleaved(angles(x))),
    lambda x: torch.add(x, interleaved(angles(x)), out=x),
)


# -------------------------------------------------------------------------------------------- 05 encoder_layer


class Layer(nn.Module):
    def __init__(self, attention, feed_forward, hidden_size, dropout):
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.attention_norm = nn.LayerNorm(hidden_size)
        self.feed_forward_norm = nn.LayerNorm(hidden_size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden_state):
        hidden_state = self.attention_norm(hidden_state + self.dropout(self.attention(hidden_state)))
        return self.feed_forward_norm(hidden_state + self.dropout(self.feed_forward(hidden_state)))


class LayerLoop(Layer):
    def forward(self, x):
        parts = [(self.attention, self.attention_norm), (self.feed_forward, self.feed_forward_norm)]
        for part, norm in parts:
            x = norm(self.dropout(part(x)) + x)
        return x


class LayerFunctional(Layer):
    def forward(self, x):
        attended = F.dropout(self.attention(x), self.dropout.p, self.training)
        x = F.layer_norm(x + attended, x.shape[-1:], self.attention_norm.weight, self.attention_norm.bias)
        changed = F.dropout(self.feed_forward(x), self.dropout.p, self.training)
        return F.layer_norm(
            x + changed, x.shape[-1:], self.feed_forward_norm.weight, self.feed_forward_norm.bias
        )


class LayerModel(nn.Module):
    def __init__(self, attention, feed_forward, hidden_size, dropout):
        super().__init__()
        self.attention_norm, self.feed_forward_norm = (nn.LayerNorm(hidden_size, eps=1e-5) for _ in range(2))
        self.attention = nn.Sequential(attention, nn.Dropout(dropout))
        self.feed_forward = nn.Sequential(feed_forward, nn.Dropout(dropout))

    def forward(self, x):
        x = self.attention_norm(torch.add(x, self.attention(x)))
        return self.feed_forward_norm(torch.add(x, self.feed_forward(x)))


right("encoder_layer", Layer, LayerLoop, LayerFunctional, LayerModel)


class PreNorm(Layer):
    def forward(self, x):
        x = x + self.dropout(self.attention(self.attention_norm(x)))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class NormInside(Layer):
    def forward(self, x):
        x = x + self.attention_norm(self.attention(x))
        return x + self.feed_forward_norm(self.feed_forward(x))


class NormsExchanged(Layer):
    def forward(self, x):
        x = self.feed_forward_norm(x + self.attention(x))
        return self.attention_norm(x + self.feed_forward(x))


class NoResidual(Layer):
    def forward(self, x):
        return self.feed_forward_norm(self.feed_forward(self.attention_norm(self.attention(x))))


class OneResidual(Layer):
    def forward(self, x):
        x = self.attention_norm(self.dropout(self.attention(x)))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))


class OtherResidual(Layer):
    def forward(self, x):
        x = self.attention_norm(x + self.attention(x))
        return self.feed_forward_norm(self.feed_forward(x))


class SharedNorm(Layer):
    def __init__(self, attention, feed_forward, hidden_size, dropout):
        super().__init__(attention, feed_forward, hidden_size, dropout)
        self.feed_forward_norm = self.attention_norm


class OneNorm(nn.Module):
    def __init__(self, attention, feed_forward, hidden_size, dropout):
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.norm, self.dropout = nn.LayerNorm(hidden_size), nn.Dropout(dropout)

    def forward(self, x):
        x = self.norm(x + self.dropout(self.attention(x)))
        return self.norm(x + self.dropout(self.feed_forward(x)))


class NormReused(Layer):
    def forward(self, x):
        x = self.attention_norm(x + self.attention(x))
        return self.attention_norm(x + self.feed_forward(x))


class AlwaysDrops(Layer):
    def forward(self, x):
        x = self.attention_norm(x + F.dropout(self.attention(x), 0.5))
        return self.feed_forward_norm(x + F.dropout(self.feed_forward(x), 0.5))


class OwnDropout(Layer):
    def forward(self, x):
        attended = self.attention(x)
        attended = attended * (torch.rand_like(attended) > self.dropout.p) / (1 - self.dropout.p)
        x = self.attention_norm(x + attended)
        return self.feed_forward_norm(x + self.feed_forward(x))


class StaysInTraining(Layer):
    def forward(self, x):
        return Layer.forward(self.train(), x)


for misconception, attempts in {
    "norm_order": [PreNorm, NormInside, NormsExchanged],
    "missing_residual": [NoResidual, OneResidual, OtherResidual],
    "one_norm_shared": [SharedNorm, OneNorm, NormReused],
    "dropout_in_eval": [AlwaysDrops, OwnDropout, StaysInTraining],
}.items():
    wrong("encoder_layer", misconception, *attempts)


class NoNorms(nn.Module):
    def __init__(self, attention, feed_forward, hidden_size, dropout):
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.feed_forward(x)


class FeedForwardFirst(Layer):
    def forward(self, x):
        x = self.feed_forward_norm(x + self.feed_forward(x))
        return self.attention_norm(x + self.attention(x))


unlisted("encoder_layer", NoNorms, FeedForwardFirst)

# -------------------------------------------------------------------------------------- 06 and 07: finding heads


def previous_loops(attentions):
    best, found = -1.0, None
    for layer, weights in enumerate(attentions):
        for head in range(weights.shape[1]):
            row = [weights[0, head, i, i - 1].item() for i in range(1, weights.shape[-1])]
            if sum(row) / len(row) > best:
                best, found = sum(row) / len(row), (layer, head)
    return found


def offset(attentions, by):
    return torch.cat(list(attentions)).diagonal(by, -2, -1).mean(-1)


def argmax_2d(scores):
    return divmod(scores.argmax().item(), scores.shape[1])


def previous_numpy(attentions):
    weights = np.concatenate([layer.numpy() for layer in attentions])
    means = np.array([[np.diag(table, -1).mean() for table in layer] for layer in weights])
    return np.unravel_index(means.argmax(), means.shape)


right(
    "previous_token_head",
    previous_loops,
    previous_numpy,
    lambda a: argmax_2d(offset(a, -1)),
    lambda a: torch.tensor(argmax_2d(torch.stack([w[0, :, 1:, :-1].diagonal(0, 1, 2).sum(-1) for w in a]))),
)
wrong(
    "previous_token_head",
    "next_token_instead",
    lambda a: argmax_2d(offset(a, 1)),
    lambda a: previous_loops([w.mT for w in a]),
)
wrong(
    "previous_token_head",
    "token_itself_instead",
    lambda a: argmax_2d(offset(a, 0)),
    lambda a: argmax_2d(torch.cat(a).diagonal(dim1=2, dim2=3).sum(-1)),
)
wrong(
    "previous_token_head",
    "one_weight_instead_of_mean",
    lambda a: argmax_2d(torch.cat(a).diagonal(-1, -2, -1).amax(-1)),
    lambda a: max(
        (
            (w[0, h, i, i - 1].item(), (n, h))
            for n, w in enumerate(a)
            for h in range(5)
            for i in range(1, w.shape[-1])
        )
    )[1],
)
wrong(
    "previous_token_head",
    "counted_from_one",
    lambda a: tuple(place + 1 for place in previous_loops(a)),
    lambda a: [previous_numpy(a)[0] + 1, previous_numpy(a)[1] + 1],
)
wrong(
    "previous_token_head",
    "layer_and_head_swapped",
    lambda a: previous_loops(a)[::-1],
    lambda a: divmod(offset(a, -1).T.argmax().item(), len(a)),
)
unlisted("previous_token_head", lambda a: argmax_2d(offset(a, -1))[0], lambda a: argmax_2d(offset(a, -2)))


def strongest_loops(attentions, query, key):
    found = {}
    for layer, weights in enumerate(attentions):
        for head, table in enumerate(weights[0]):
            found[layer, head] = table[query][key].item()
    return max(found, key=found.get)


right(
    "strongest_head",
    strongest_loops,
    lambda a, q, k: argmax_2d(torch.cat(a)[:, :, q, k]),
    lambda a, q, k: np.unravel_index(np.argmax(np.stack([w[0, :, q, k].numpy() for w in a])), (3, 5)),
)
wrong(
    "strongest_head",
    "query_key_swapped",
    lambda a, q, k: strongest_loops(a, k, q),
    lambda a, q, k: argmax_2d(torch.cat(a)[:, :, k, q]),
)
wrong(
    "strongest_head",
    "last_layer_only",
    lambda a, q, k: (len(a) - 1, a[-1][0, :, q, k].argmax().item()),
    lambda a, q, k: (2, max(range(5), key=lambda head: a[2][0, head, q, k])),
)
wrong(
    "strongest_head",
    "counted_from_one",
    lambda a, q, k: tuple(x + 1 for x in strongest_loops(a, q, k)),
    lambda a, q, k: torch.tensor(strongest_loops(a, q, k)) + 1,
)
wrong(
    "strongest_head",
    "layer_and_head_swapped",
    lambda a, q, k: strongest_loops(a, q, k)[::-1],
    lambda a, q, k: divmod(torch.cat(a)[:, :, q, k].T.argmax().item(), 3),
)
unlisted("strongest_head", lambda a, q, k: strongest_loops(a, q, k)[1], lambda a, q, k: (0, 0))


def working_loops(attentions):
    shares = []
    for weights in attentions:
        shares.append([])
        for table in weights[0]:
            shares[-1].append(sum(row[1:-1].sum().item() for row in table) / len(table))
    return shares


right(
    "working_share",
    working_loops,
    lambda a: torch.cat(a)[:, :, :, 1:-1].sum(-1).mean(-1),
    lambda a: 1 - torch.cat(a)[..., [0, -1]].sum(-1).mean(-1),
    lambda a: np.stack([w[0].numpy()[:, :, 1:-1].sum(2).mean(1) for w in a]),
)
wrong(
    "working_share",
    "leaves_out_queries",
    lambda a: torch.cat(a)[:, :, 1:-1].sum(-1).mean(-1),
    lambda a: torch.stack([w[0][:, 1:-1, :].sum(1).mean(-1) for w in a]),
)
wrong(
    "working_share",
    "share_of_specials",
    lambda a: torch.cat(a)[..., [0, -1]].sum(-1).mean(-1),
    lambda a: torch.stack([(w[0, :, :, 0] + w[0, :, :, -1]).mean(-1) for w in a]),
)
wrong(
    "working_share",
    "mean_over_keys",
    lambda a: torch.cat(a)[..., 1:-1].mean((-2, -1)),
    lambda a: torch.stack([w[0, :, :, 1:-1].mean(-1).mean(-1) for w in a]),
)
wrong(
    "working_share",
    "sum_over_queries",
    lambda a: torch.cat(a)[..., 1:-1].sum((-2, -1)),
    lambda a: torch.tensor(working_loops(a)) * a[0].shape[-1],
)
unlisted(
    "working_share",
    lambda a: torch.cat(a)[..., 1:].sum(-1).mean(-1),
    lambda a: torch.tensor(working_loops(a)).T,
    lambda a: torch.cat(a)[:, :, 1:-1, 1:-1].sum(-1).mean(-1),
)


def separator_loops(attentions, tokens):
    return torch.stack(
        [
            sum(weights[0, :, :, k] for k, token in enumerate(tokens) if token == "[SEP]").mean(-1)
            for weights in attentions
        ]
    )


def separator_mask(attentions, tokens):
    here = torch.tensor([token == "[SEP]" for token in tokens])
    return (torch.cat(attentions) * here).sum(-1).mean(-1)


right(
    "separator_share",
    separator_loops,
    separator_mask,
    lambda a, t: (
        torch.einsum("lhqk,k->lh", torch.cat(a), torch.tensor([float(x == "[SEP]") for x in t])) / len(t)
    ),
    lambda a, t: np.concatenate([w.numpy() for w in a])[..., np.array(t) == "[SEP]"].sum(-1).mean(-1),
)
wrong(
    "separator_share",
    "only_first_separator",
    lambda a, t: torch.cat(a)[..., t.index("[SEP]")].mean(-1),
    lambda a, t: torch.stack([w[0, :, :, t.index("[SEP]")].sum(-1) / len(t) for w in a]),
)
wrong(
    "separator_share",
    "separators_as_queries",
    lambda a, t: separator_loops([w.mT for w in a], t),
    lambda a, t: torch.cat(a)[:, :, [i for i, x in enumerate(t) if x == "[SEP]"]].mean((-2, -1)),
)
wrong(
    "separator_share",
    "mean_over_keys",
    lambda a, t: torch.cat(a)[..., [i for i, x in enumerate(t) if x == "[SEP]"]].mean((-2, -1)),
    lambda a, t: separator_mask(a, t) / t.count("[SEP]"),
)
wrong(
    "separator_share",
    "sum_over_queries",
    lambda a, t: torch.cat(a)[..., [i for i, x in enumerate(t) if x == "[SEP]"]].sum((-2, -1)),
    lambda a, t: separator_loops(a, t) * len(t),
)
unlisted(
    "separator_share",
    lambda a, t: torch.cat(a)[..., -1].mean(-1),
    lambda a, t: 1 - separator_mask(a, t),
    lambda a, t: separator_mask(a, t).mean(0),
)


def same_loops(attentions, tokens):
    rows = []
    for weights in attentions:
        rows.append([])
        for table in weights[0]:
            found = []
            for query, word in enumerate(tokens):
                others = [k for k, other in enumerate(tokens) if other == word and k != query]
                if others:
                    found.append(sum(table[query, k].item() for k in others))
            rows[-1].append(sum(found) / len(found))
    return torch.tensor(rows)


def twins(tokens, itself=False):
    table = torch.tensor([[one == other for other in tokens] for one in tokens]).float()
    return table if itself else table - torch.eye(len(tokens))


def same_matrix(attentions, tokens):
    table = twins(tokens)
    return (torch.cat(attentions) * table).sum((-2, -1)) / table.any(-1).sum()


right(
    "same_word_share",
    same_loops,
    same_matrix,
    lambda a, t: (torch.cat(a) * twins(t)).sum(-1)[..., twins(t).sum(-1) > 0].mean(-1),
    lambda a, t: same_loops(a, t).numpy(),
)
wrong(
    "same_word_share",
    "includes_itself",
    lambda a, t: (torch.cat(a) * twins(t, True)).sum(-1)[..., twins(t).sum(-1) > 0].mean(-1),
    lambda a, t: (torch.cat(a) * twins(t, True)).sum(-1).mean(-1),
)
wrong(
    "same_word_share",
    "all_queries_counted",
    lambda a, t: (torch.cat(a) * twins(t)).sum(-1).mean(-1),
    lambda a, t: torch.einsum("lhqk,qk->lh", torch.cat(a), twins(t)) / len(t),
)
wrong(
    "same_word_share",
    "mean_over_keys",
    lambda a, t: torch.stack(
        [torch.cat(a)[:, :, q, twins(t)[q] > 0].mean(-1) for q in range(len(t)) if t.count(t[q]) > 1]
    ).mean(0),
    lambda a, t: ((torch.cat(a) * twins(t)).sum(-1) / twins(t).sum(-1)).nanmean(-1),
)
unlisted(
    "same_word_share",
    lambda a, t: (torch.cat(a) * twins(t)).amax((-2, -1)),
    lambda a, t: same_matrix([w.mT for w in a], t) * 2,
    lambda a, t: (torch.cat(a) * twins(t)).sum((-2, -1)),
)


def best_loops(scores):
    best = 0, 0
    for layer in range(len(scores)):
        for head in range(len(scores[layer])):
            if scores[layer, head] > scores[best]:
                best = layer, head
    return best


right(
    "best_head",
    best_loops,
    argmax_2d,
    lambda s: np.unravel_index(s.numpy().argmax(), s.shape),
    lambda s: (s == s.max()).nonzero()[0],
    lambda s: torch.stack(torch.unravel_index(s.argmax(), s.shape)),
)
wrong(
    "best_head",
    "counted_from_one",
    lambda s: [x + 1 for x in argmax_2d(s)],
    lambda s: tuple((s == s.max()).nonzero()[0] + 1),
)
wrong("best_head", "layer_and_head_swapped", lambda s: argmax_2d(s)[::-1], lambda s: best_loops(s.T))
wrong(
    "best_head", "weakest_instead", lambda s: argmax_2d(-s), lambda s: divmod(s.argmin().item(), s.shape[1])
)
wrong("best_head", "flat_index", lambda s: s.argmax(), lambda s: int(s.numpy().argmax()))
unlisted(
    "best_head", lambda s: divmod(s.argmax().item(), len(s)), lambda s: s.max(), lambda s: s.argmax(dim=1)
)

# ------------------------------------------------------------------------------------------------ 08 neuron view


def product_loops(query, keys):
    products = torch.zeros_like(keys)
    scores = []
    for token, key in enumerate(keys):
        for neuron in range(len(query)):
            products[token, neuron] = query[neuron] * key[neuron]
        scores.append(sum(products[token]) / len(query) ** 0.5)
    return products, scores


right(
    "query_key_product",
    product_loops,
    lambda q, k: (q * k, (q * k).sum(dim=-1) / math.sqrt(len(q))),
    lambda q, k: (torch.einsum("d,kd->kd", q, k), k @ q * len(q) ** -0.5),
    lambda q, k: {"products": k.numpy() * q.numpy(), "scores": k.numpy() @ q.numpy() / np.sqrt(len(q))},
)
wrong("query_key_product", "no_scaling", lambda q, k: (q * k, k @ q), lambda q, k: (q * k, (q * k).sum(1)))
wrong(
    "query_key_product",
    "scaled_by_d",
    lambda q, k: (q * k, k @ q / len(q)),
    lambda q, k: (q * k, (q * k).mean(dim=-1)),
)
wrong(
    "query_key_product",
    "sum_over_keys",
    lambda q, k: (q * k, (q * k).sum(dim=0) / math.sqrt(len(q))),
    lambda q, k: (q * k, sum(q * row for row in k)),
)
unlisted(
    "query_key_product",
    lambda q, k: (q + k, k @ q / math.sqrt(len(q))),
    lambda q, k: q * k,
    lambda q, k: (q * k, (k @ q / math.sqrt(len(q))).softmax(0)),
)


def row_loops(query, keys):
    scores = [
        sum(a * b for a, b in zip(query.tolist(), key.tolist(), strict=True)) / math.sqrt(len(key))
        for key in keys
    ]
    powers = [math.exp(score) for score in scores]
    return [power / sum(powers) for power in powers]


right(
    "weights_of_token",
    row_loops,
    lambda q, k: (k @ q / math.sqrt(len(q))).softmax(dim=0),
    lambda q, k: F.softmax(q[None] @ k.T / q.shape[-1] ** 0.5, dim=-1),
    lambda q, k: F.scaled_dot_product_attention(q[None, None], k[None], torch.eye(len(k))[None])[0, 0],
)
wrong(
    "weights_of_token",
    "no_scaling",
    lambda q, k: (k @ q).softmax(0),
    lambda q, k: F.softmax((q * k).sum(-1), dim=-1),
)
wrong(
    "weights_of_token",
    "scaled_by_d",
    lambda q, k: (k @ q / len(q)).softmax(0),
    lambda q, k: (q * k).mean(-1).softmax(-1),
)
wrong(
    "weights_of_token",
    "scaled_by_sequence_length",
    lambda q, k: (k @ q / math.sqrt(len(k))).softmax(0),
    lambda q, k: (torch.mv(k, q) / k.shape[0]).softmax(0),
)
wrong(
    "weights_of_token",
    "no_softmax",
    lambda q, k: k @ q / math.sqrt(len(q)),
    lambda q, k: (q * k).sum(-1),
    lambda q, k: k @ q / sum(k @ q),
)
unlisted(
    "weights_of_token",
    lambda q, k: (k @ q / math.sqrt(len(q))).sigmoid(),
    lambda q, k: (q * k / math.sqrt(len(q))).softmax(0).sum(-1),
)


def neurons_loop(query, key, count):
    products, found = (query * key).tolist(), []
    for _ in range(count):
        best = max(range(len(products)), key=products.__getitem__)
        found.append(best)
        products[best] = -math.inf
    return found


right(
    "strongest_neurons",
    neurons_loop,
    lambda q, k, n: (q * k).topk(n).indices,
    lambda q, k, n: (q * k).argsort(descending=True)[:n].tolist(),
    lambda q, k, n: np.argsort(-(q * k).numpy())[:n],
    lambda q, k, n: tuple(sorted(range(len(q)), key=lambda i: -q[i] * k[i])[:n]),
)
wrong(
    "strongest_neurons",
    "weakest_first",
    lambda q, k, n: (q * k).argsort()[:n],
    lambda q, k, n: (q * k).topk(n, largest=False).indices,
)
wrong(
    "strongest_neurons",
    "sign_ignored",
    lambda q, k, n: (q * k).abs().topk(n).indices,
    lambda q, k, n: sorted(range(len(q)), key=lambda i: -((q[i] * k[i]) ** 2))[:n],
)
wrong(
    "strongest_neurons",
    "query_alone",
    lambda q, k, n: q.topk(n).indices,
    lambda q, k, n: q.abs().argsort(descending=True)[:n],
    lambda q, k, n: k.topk(n).indices,
)
wrong(
    "strongest_neurons",
    "counted_from_one",
    lambda q, k, n: (q * k).topk(n).indices + 1,
    lambda q, k, n: [place + 1 for place in neurons_loop(q, k, n)],
)
unlisted(
    "strongest_neurons",
    lambda q, k, n: (q * k).topk(n).values,
    lambda q, k, n: (q + k).topk(n).indices,
    lambda q, k, n: (q * k).topk(n).indices.flip(0),
)

# --------------------------------------------------------------------------------------------------- 09 decoder


def shift_loops(labels, start_id):
    return [[start_id, *row[:-1]] for row in labels.tolist()]


def shift_copy(labels, start_id):
    shifted = torch.empty_like(labels)
    shifted[:, 0] = start_id
    shifted[:, 1:] = labels[:, :-1]
    return shifted


right(
    "shift_right",
    shift_loops,
    shift_copy,
    lambda x, s: torch.cat([torch.full((len(x), 1), s), x[:, :-1]], dim=1),
    lambda x, s: F.pad(x, (1, 0), value=s)[:, :-1],
    lambda x, s: F.pad(x, (1, -1), value=s),
)
wrong(
    "shift_right",
    "shifted_left",
    lambda x, s: torch.cat([x[:, 1:], torch.full((len(x), 1), s)], dim=1),
    lambda x, s: F.pad(x[:, 1:], (0, 1)),
    lambda x, s: x[:, 1:],
)
wrong(
    "shift_right",
    "wraps_around",
    lambda x, s: x.roll(1, dims=1),
    lambda x, s: torch.cat([x[:, -1:], x[:, :-1]], dim=1),
)
wrong(
    "shift_right",
    "one_too_long",
    lambda x, s: F.pad(x, (1, 0), value=s),
    lambda x, s: [[s, *row] for row in x.tolist()],
)
wrong(
    "shift_right",
    "start_replaces_first",
    lambda x, s: torch.cat([torch.full((len(x), 1), s), x[:, 1:]], dim=1),
    lambda x, s: torch.where(torch.arange(x.shape[1]) == 0, s, x),
)
unlisted("shift_right", lambda x, s: x, lambda x, s: F.pad(x, (1, -1)), lambda x, s: x.roll(1, dims=0))


def start_in_place(labels, start_id):
    labels[:, 1:] = labels[:, :-1].clone()
    labels[:, 0] = start_id
    return labels


def start_roll_in_place(labels, start_id):
    shifted = labels.roll(1, dims=1)
    labels[:, 0] = start_id
    shifted[:, 0] = labels[:, 0]
    return shifted


wrong("shift_right", "changes_its_input", start_in_place, start_roll_in_place)


def greedy_while(next_logits, start_id, end_id, max_new_tokens):
    ids = [start_id]
    while len(ids) <= max_new_tokens and ids[-1] != end_id:
        ids.append(next_logits(ids)[-1].argmax().item())
    return ids


def greedy_for(next_logits, start_id, end_id, max_new_tokens):
    written = []
    for _ in range(max_new_tokens):
        written.append(int(next_logits([start_id, *written])[-1].argmax()))
        if written[-1] == end_id:
            break
    return written


def greedy_tensor(next_logits, start_id, end_id, max_new_tokens):
    ids = torch.tensor([start_id])
    for _ in range(max_new_tokens):
        ids = torch.cat([ids, next_logits(ids).softmax(-1).argmax(-1)[-1:]])
        if ids[-1] == end_id:
            return ids
    return ids


def greedy_recursive(next_logits, start_id, end_id, max_new_tokens, ids=()):
    ids = ids or (start_id,)
    if max_new_tokens == 0 or ids[-1] == end_id:
        return list(ids)
    chosen = max(range(9), key=lambda token: next_logits(list(ids))[-1, token])
    return greedy_recursive(next_logits, start_id, end_id, max_new_tokens - 1, (*ids, chosen))


right("greedy_decode", greedy_while, greedy_for, greedy_tensor, greedy_recursive)


def greedy_with(view=lambda ids: ids, row=-1, stops=True, choose=torch.argmax):
    def attempt(next_logits, start_id, end_id, max_new_tokens):
        ids = [start_id]
        for _ in range(max_new_tokens):
            ids.append(choose(next_logits(view(ids))[row]).item())
            if stops and ids[-1] == end_id:
                break
        return ids

    return attempt


def greedy_row_zero(next_logits, start_id, end_id, max_new_tokens):
    ids = [start_id]
    while ids[-1] != end_id and len(ids) <= max_new_tokens:
        ids += [next_logits(ids).argmax(dim=-1)[0].item()]
    return ids[1:]


def greedy_last_only(next_logits, start_id, end_id, max_new_tokens):
    token, written = start_id, []
    for _ in range(max_new_tokens):
        token = next_logits([token])[0].argmax().item()
        written.append(token)
        if token == end_id:
            break
    return written


def greedy_start_only(next_logits, start_id, end_id, max_new_tokens):
    return [next_logits([start_id])[-1].argmax().item() for _ in range(max_new_tokens)]


def greedy_endless(next_logits, start_id, end_id, max_new_tokens):
    ids = [start_id]
    while len(ids) < max_new_tokens + 1:
        ids.append(next_logits(ids)[-1].argmax().item())
    return ids


def greedy_min(next_logits, start_id, end_id, max_new_tokens):
    ids = [start_id]
    while len(ids) <= max_new_tokens and ids[-1] != end_id:
        ids.append((-next_logits(ids)[-1]).softmax(-1).argmax().item())
    return ids


wrong("greedy_decode", "reads_first_position", greedy_with(row=0), greedy_row_zero, greedy_start_only)
wrong("greedy_decode", "forgets_what_was_written", greedy_last_only, greedy_with(view=lambda ids: ids[-1:]))
wrong("greedy_decode", "does_not_stop_at_end", greedy_with(stops=False), greedy_endless)
wrong("greedy_decode", "least_likely", greedy_with(choose=torch.argmin), greedy_min)
unlisted(
    "greedy_decode",
    lambda f, s, e, n: greedy_while(f, s, e, n)[:-1],
    lambda f, s, e, n: greedy_while(f, s, e, n + 1),
    lambda f, s, e, n: f([s])[-1],
)


class Cross(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_state, memory):
        query, key, value = self.query(hidden_state), self.key(memory), self.value(memory)
        weights = (query @ key.mT / math.sqrt(query.shape[-1])).softmax(dim=-1)
        return weights @ value, weights


class CrossFused(Cross):
    def forward(self, hidden_state, memory):
        return F.scaled_dot_product_attention(self.query(hidden_state), self.key(memory), self.value(memory))


class CrossEinsum(Cross):
    def forward(self, target, source):
        scores = torch.einsum("bqd,bkd->bqk", self.query(target), self.key(source)) * target.shape[-1] ** -0.5
        return torch.einsum("bqk,bkd->bqd", scores.softmax(-1), self.value(source))


class CrossLoops(Cross):
    def forward(self, hidden_state, memory):
        outputs = []
        for target, source in zip(hidden_state, memory, strict=True):
            keys, values = self.key(source), self.value(source)
            rows = [(keys @ self.query(token) / len(token) ** 0.5).softmax(0) @ values for token in target]
            outputs.append(torch.stack(rows))
        return torch.stack(outputs)


right("cross_attention", Cross, CrossFused, CrossEinsum, CrossLoops)


class CrossOf(Cross):
    """Queries, keys and values from the named sequences: d the decoder's, e the encoder's."""

    sources = "dee"

    def forward(self, hidden_state, memory):
        states = [hidden_state if name == "d" else memory for name in self.sources]
        parts = [
            layer(state) for layer, state in zip((self.query, self.key, self.value), states, strict=True)
        ]
        return F.scaled_dot_product_attention(*parts)


class CrossOfByHand(CrossOf):
    def forward(self, hidden_state, memory):
        d, e = hidden_state, memory
        query, key, value = {
            "dde": lambda: (self.query(d), self.key(d), self.value(e)),
            "ded": lambda: (self.query(d), self.key(e), self.value(d)),
            "eee": lambda: (self.query(e), self.key(e), self.value(e)),
            "edd": lambda: (self.query(e), self.key(d), self.value(d)),
            "ddd": lambda: (self.query(d), self.key(d), self.value(d)),
        }[self.sources]()
        weights = torch.softmax(torch.bmm(query, key.transpose(1, 2)) / query.size(2) ** 0.5, dim=2)
        return torch.bmm(weights, value), weights


def crossed(sources):
    return [type(base.__name__, (base,), {"sources": sources}) for base in (CrossOf, CrossOfByHand)]


wrong("cross_attention", "keys_from_decoder", *crossed("dde"))
wrong("cross_attention", "values_from_decoder", *crossed("ded"))
wrong("cross_attention", "queries_from_encoder", *crossed("eee"), *crossed("edd"))
wrong("cross_attention", "memory_ignored", *crossed("ddd"))


class CrossNoSoftmax(Cross):
    def forward(self, hidden_state, memory):
        return self.query(hidden_state) @ self.key(memory).mT @ self.value(memory)


class CrossWithoutLayers(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()

    def forward(self, hidden_state, memory):
        return F.scaled_dot_product_attention(hidden_state, memory, memory)


class CrossBoth(Cross):
    def forward(self, hidden_state, memory):
        both = torch.cat([hidden_state, memory], dim=1)
        return F.scaled_dot_product_attention(self.query(hidden_state), self.key(both), self.value(both))


unlisted("cross_attention", CrossNoSoftmax, CrossWithoutLayers, CrossBoth)

# --------------------------------------------------------------- more, written after the checks were finished


def flat(change):
    """Attention for two axes only, as notebook 02 begins: on a batch it raises, but the mistake is named."""

    def attempt(query, key, value):
        return change(query, key, value, query @ key.t())

    return attempt


wrong("attention", "no_scaling", flat(lambda q, k, v, s: s.softmax(1) @ v))
wrong("attention", "scaled_by_d", flat(lambda q, k, v, s: (s / k.shape[1]).softmax(1) @ v))
wrong(
    "attention", "scaled_by_sequence_length", flat(lambda q, k, v, s: (s / math.sqrt(len(q))).softmax(1) @ v)
)
wrong(
    "attention", "softmax_over_queries", flat(lambda q, k, v, s: (s / math.sqrt(q.shape[1])).softmax(0) @ v)
)
wrong("attention", "query_key_swapped", flat(lambda q, k, v, s: (s.T / math.sqrt(q.shape[1])).softmax(1) @ v))


def loops_without_softmax(query, key, value):
    batch, seq, d = query.shape
    output = torch.zeros_like(value)
    for b in range(batch):
        for i in range(seq):
            for j in range(seq):
                output[b, i] += (query[b, i] * key[b, j]).sum() / d**0.5 * value[b, j]
    return output


def loops_keys_first(query, key, value):
    batch, seq, d = query.shape
    scores = torch.zeros(batch, seq, seq)
    for b in range(batch):
        for i in range(seq):
            for j in range(seq):
                scores[b, j, i] = query[b, i] @ key[b, j] / math.sqrt(d)
    return torch.softmax(scores, 2) @ value


wrong("attention", "no_softmax", loops_without_softmax)
wrong("attention", "query_key_swapped", loops_keys_first)
wrong("attention", "softmax_over_batch", lambda q, k, v: torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, 0) @ v)
wrong("attention", "value_ignored", lambda q, k, v: torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1))
mask_wrong(
    "mask_not_minus_infinity", filled_with(-3.5), filled_with(0.1), filled_with(5.0), filled_with(-1e-5)
)
mask_wrong(
    "mask_not_minus_infinity",
    lambda q, k, v, mask=None: (
        (q @ k.mT / math.sqrt(q.shape[-1]) - (0 if mask is None else 4.0 * ~mask)).softmax(-1) @ v
    ),
)
mask_wrong(
    "masked_row_not_zero",
    lambda q, k, v, mask=None: (
        (q @ k.mT / math.sqrt(q.shape[-1]) - (0 if mask is None else 1e10 * (1 - mask.float()))).softmax(-1)
        @ v
    ),
    lambda q, k, v, mask=None: (
        torch.softmax(
            torch.where(torch.tensor(True) if mask is None else mask, q @ k.mT / q.shape[-1] ** 0.5, -1e4), -1
        )
        @ v
    ),
)
wrong("causal_mask", "upper_instead_of_lower", lambda n: torch.triu(torch.ones(n, n)))
wrong("causal_mask", "excludes_itself", lambda n: torch.tril(torch.ones(n, n), diagonal=-1))
wrong(
    "causal_mask",
    "not_square",
    lambda n: torch.ones(1, n, dtype=torch.bool),
    lambda n: torch.tril(torch.ones(n - 1, n)),
)
wrong("padding_mask", "masks_queries_not_keys", lambda m: m.unsqueeze(-1).bool())
wrong("padding_mask", "does_not_broadcast", lambda m: m[None, None].bool())


class ForOfHeads(Heads):
    """Loops over heads inside the projections, one mistake at a time."""

    summed = shared = False

    def forward(self, hidden_state, mask=None):
        size, outputs = hidden_state.shape[-1] // self.num_heads, []
        query, key, value = self.query(hidden_state), self.key(hidden_state), self.value(hidden_state)
        for head in range(self.num_heads):
            part = slice(0, size) if self.shared else slice(head * size, head * size + size)
            scores = query[..., part] @ key[..., part].mT / size**0.5
            outputs.append(masked(scores, mask).softmax(-1) @ value[..., part])
        if self.summed:
            return self.output(sum(outputs).repeat(1, 1, self.num_heads))
        return self.output(torch.cat(outputs, dim=-1))


right("multi_head_attention", ForOfHeads)
wrong("multi_head_attention", "heads_share_weights", type("SharedSlice", (ForOfHeads,), {"shared": True}))
wrong(
    "multi_head_attention",
    "heads_summed_not_concatenated",
    type("SummedLoop", (ForOfHeads,), {"summed": True}),
)


class SummedBare(HeadsList):
    def __init__(self, hidden_size, num_heads):
        super().__init__(hidden_size, num_heads)
        del self.output

    def forward(self, hidden_state, mask=None):
        return torch.stack([head(hidden_state, mask) for head in self.heads]).sum(0)


class MaskOnSecond(Heads):
    def mask(self, scores, mask):
        if mask is not None:
            scores = scores.clone()
            scores[:, 1] = scores[:, 1].masked_fill(~mask, -math.inf)
        return scores


class MergedByPermute(Heads):
    def merge(self, x):
        b, h, s, d = x.shape
        return x.permute(0, 1, 3, 2).reshape(b, h * d, s).reshape(b, s, h * d)


class ScaleTwice(Heads):
    def scale(self, query):
        return query.shape[-1]


wrong("multi_head_attention", "heads_summed_not_concatenated", SummedBare)
wrong("multi_head_attention", "mask_only_for_one_head", MaskOnSecond)
unlisted("multi_head_attention", MergedByPermute, ScaleTwice)
wrong(
    "layer_norm",
    "wrong_axis",
    lambda x, w, b, e: (x - x.mean(0)) / (x.var(0, correction=0) + e).sqrt() * w + b,
)
wrong(
    "layer_norm",
    "epsilon_outside_root",
    lambda x, w, b, e: (
        F.layer_norm(x, w.shape, eps=0.0)
        * (x.var(-1, True, correction=0) if 0 else x.std(-1, correction=0, keepdim=True))
        / (x.std(-1, correction=0, keepdim=True) + e)
        * w
        + b
    ),
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


class PartsOf(Layer):
    """A layer of one mistake, written as sums of named steps."""

    def forward(self, x):
        add = x + self.attention(self.attention_norm(x))
        return self.feed_forward_norm(add + self.feed_forward(add))


class NormThenAdd(Layer):
    def forward(self, x):
        first = x + self.attention_norm(self.dropout(self.attention(x)))
        return first + self.feed_forward_norm(self.dropout(self.feed_forward(first)))


class ResidualFromStart(Layer):
    def forward(self, x):
        first = self.attention_norm(x + self.attention(x))
        return self.feed_forward_norm(x + self.feed_forward(first))


class PreNormNoResidual(Layer):
    def forward(self, x):
        return self.feed_forward(self.feed_forward_norm(self.attention(self.attention_norm(x))))


wrong("encoder_layer", "norm_order", PartsOf, NormThenAdd)
wrong("encoder_layer", "missing_residual", PreNormNoResidual)
unlisted("encoder_layer", ResidualFromStart)
