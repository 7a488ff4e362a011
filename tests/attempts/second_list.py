"""A second list of mistakes, written without the formulas of the checks in view: one for each name that it found."""

# ruff: noqa: B006, E741, RUF059  # short names, as learners take them

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from .tables import wrong


def pieces(word, vocabulary, lower=False, pre="##", first="", unk=["[UNK]"], maxlen=None, minlen=1):
    p, s = ([], 0)
    while s < len(word):
        e = len(word) if not maxlen else min(len(word), s + maxlen)
        while e > s and (pre if s else first) + word[s:e] not in vocabulary:
            e -= 1
        if e == s:
            return unk
        p.append((pre if s else first) + word[s:e])
        s = e
    return p


def padded(s, p, dt=torch.long, mdt=torch.long, L=None):
    L = L or max(map(len, s))
    ids = torch.full((len(s), L), p, dtype=dt)
    m = torch.zeros(len(s), L, dtype=mdt)
    for i, r in enumerate(s):
        ids[i, : len(r)] = torch.tensor(r[:L])
        m[i, : len(r)] = 1
    return (ids, m)


def attention(q, k, v, sc=None, dim=-1, f=None):
    s = q @ k.mT / (sc or math.sqrt(q.shape[-1]))
    s = f(s) if f else s
    a = s.softmax(dim)
    return a @ v


def head_of(x, l, h, n=None, q=None, k=None, sc=None):
    d = l.attention_head_size
    sl = slice(h * d, (h + 1) * d)
    q = (l.query if q is None else q)(x)[..., sl]
    k = (l.key if k is None else k)(x)[..., sl]
    return (q @ k.mT / (sc or math.sqrt(d))).softmax(-1)


def triangle(n):
    return torch.ones(n, n, dtype=torch.bool).tril()


def rows(n):
    return torch.arange(n)[:, None]


def columns(n):
    return torch.arange(n)[None]


def masked_attention(q, k, v, mask=None, fill=-math.inf, f=None, zero=True, pre=None):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        s = s.masked_fill(~mask, fill)
    a = s.softmax(-1)
    if mask is not None and zero:
        a = a.masked_fill(~mask.any(-1, keepdim=True), 0)
    return a @ v


class Heads(nn.Module):
    def __init__(self, h, n):
        super().__init__()
        self.h, self.n = (h, n)
        self.query, self.key, self.value, self.output = (nn.Linear(h, h) for _ in range(4))

    def sp(self, x):
        return x.view(*x.shape[:2], self.n, -1).transpose(1, 2)

    def parts(self, x):
        return (self.sp(self.query(x)), self.sp(self.key(x)), self.sp(self.value(x)))

    def join(self, o):
        return self.output(o.transpose(1, 2).flatten(2))

    def forward(self, x, mask=None):
        q, k, v = self.parts(x)
        return self.join(F.scaled_dot_product_attention(q, k, v, attn_mask=mask))


def heads_with(**d):
    return type("M", (Heads,), d)


def mean_of(x):
    return x.mean(-1, keepdim=True)


def variance_of(x):
    return x.var(-1, keepdim=True, unbiased=False)


def positions(x, base=10000.0, f=lambda i, d: 2 * (i // 2) / d, s=math.sin, c=math.cos, st=0, mul=1):
    B, S, D = x.shape
    return torch.tensor(
        [[(s if i % 2 == 0 else c)(mul * (p + st) / base ** f(i, D)) for i in range(D)] for p in range(S)],
        dtype=x.dtype,
    )


class Layer(nn.Module):
    def __init__(self, attention, feed_forward, hidden_size, dropout):
        super().__init__()
        self.attention, self.feed_forward = (attention, feed_forward)
        self.attention_norm = nn.LayerNorm(hidden_size)
        self.feed_forward_norm = nn.LayerNorm(hidden_size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = self.attention_norm(x + self.dropout(self.attention(x)))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))


def layer_with(**d):
    return type("E", (Layer,), d)


joined = torch.cat


def diagonal(a, o=-1):
    return joined(a).diagonal(o, dim1=-2, dim2=-1)


def place(t):
    return divmod(t.argmax().item(), t.shape[1])


def separators(t):
    return [i for i, x in enumerate(t) if x == "[SEP]"]


def same_word(a, t, self_=False, f=None, qs=None):
    W = joined(a)
    out = []
    for q in range(len(t)):
        ks = [k for k in range(len(t)) if t[k] == t[q] and (self_ or k != q)]
        if ks:
            out.append(W[:, :, q, ks].sum(-1))
    return torch.stack(out).mean(0) if f is None else f(torch.stack(out))


def greedy(n, s, e, m, pick=lambda z: z[-1].argmax(), inc=False, stop=True, rng=None):
    ids = [s]
    for _ in range(m if rng is None else rng(m)):
        t = int(pick(n(ids)))
        ids.append(t)
        if stop and t == e:
            break
    return ids if inc else ids[1:]


class Cross(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(h, h) for _ in range(3))

    def forward(self, hidden_state, memory):
        return F.scaled_dot_product_attention(self.query(hidden_state), self.key(memory), self.value(memory))


def cross_with(f):
    return type("C", (Cross,), {"forward": f})


def unit(n):
    return torch.eye(n, dtype=torch.bool)


def best(hits, ch, a=None, b=None):
    c = ch if a is None else a
    s = hits[c].mean(0)
    l, h = divmod(int(s.argmax()), s.shape[1])
    return (l, h, float(hits[~ch if b is None else b][:, l, h].mean()))


def interval(hh, rh, se, dr, lo=2.5, hi=97.5, rep=True, n=None, seed=0, agg=None):
    rng = np.random.default_rng(seed)
    u = np.unique(se)
    g = [np.flatnonzero(se == x) for x in u]
    o = []
    for _ in range(dr):
        i = rng.choice(len(u), n or len(u), replace=rep)
        r = np.concatenate([g[j] for j in i])
        o.append(hh[r].mean() - rh[r].mean())
    return (np.percentile(o, lo), np.percentile(o, hi)) if agg is None else agg(np.array(o))


def flops(n, d, f, h, g, q=1, kv=None, o=1, t=4, ff=4, extra=0):
    kv = d // h * g if kv is None else kv
    return 2 * n * d * (q * d + 2 * kv + o * d) + t * n * n * d + ff * n * d * f + extra


def step(top, total, output, scores, value, new=None, sh=None):
    n = torch.maximum(top, scores.amax(-1, keepdim=True))
    s = (top - n).exp()
    w_ = (scores - n).exp()
    return (n, total * s + w_.sum(-1, keepdim=True), output * s + w_ @ value)


def cache(L, n, g, d, b, w_, k=None):
    return 2 * L * (n if w_ is None else min(n, w_) if k is None else k(n, w_)) * g * d * b


def induction(W, ids, off=1, red=lambda o: torch.stack(o).mean(0), past=True):
    o = []
    t = ids.tolist()
    for q in range(len(t)):
        p = [j for j in range(q) if t[j] == t[q]]
        if p:
            o.append(W[:, :, q, [j + off for j in p]].sum(-1))
    return red(o)


def without(model, heads, d, run, f=None, restore=True, order=None, fin=True):
    ws = {l: model.attentions[l].output.weight for l, _ in heads}
    sv = {l: x.detach().clone() for l, x in ws.items()}
    try:
        with torch.no_grad():
            for l, h in heads:
                (f or (lambda m, h: m.output.weight[:, h * d : (h + 1) * d].zero_()))(model.attentions[l], h)
        return run()
    finally:
        if restore:
            with torch.no_grad():
                for l, x in ws.items():
                    x.copy_(sv[l])


def path_weights(q, k, n, causal=True, sc=None):
    b, s, d = q.shape
    q, k = (x.view(b, s, n, -1).transpose(1, 2) for x in (q, k))
    S = q @ k.mT / (sc or math.sqrt(d // n))
    if causal:
        S = S.masked_fill(~triangle(s), -math.inf)
    return S.softmax(-1)


def head_weights(weigh, divisor=lambda d: math.sqrt(d)):

    def attempt(x, layer, head):
        d = layer.attention_head_size
        query, key = (part(x)[..., head * d : (head + 1) * d] for part in (layer.query, layer.key))
        return weigh(query @ key.mT / divisor(d))

    return attempt


def only_without_mask(change):

    def attempt(query, key, value, mask=None):
        if mask is not None:
            return F.scaled_dot_product_attention(query, key, value, mask)
        return change(query @ key.mT / math.sqrt(query.shape[-1])) @ value

    return attempt


def heads(weigh):

    def forward(self, x, mask=None):
        q, k, v = self.parts(x)
        s = q @ k.mT
        return self.join(weigh(s if mask is None else s.masked_fill(~mask, -math.inf), q.shape[-1]) @ v)

    return heads_with(forward=forward)


def cross(weigh):
    return cross_with(lambda s, h, m: weigh(s.query(h) @ s.key(m).mT, h.shape[-1]) @ s.value(m))


def without_queries(model, heads, d, run):
    saved = {l: model.attentions[l].query.weight.detach().clone() for l, _ in heads}
    try:
        with torch.no_grad():
            for l, h in heads:
                model.attentions[l].query.weight[h * d : (h + 1) * d] = 0
        return run()
    finally:
        for l, old in saved.items():
            model.attentions[l].query.weight.data.copy_(old)


def window_by_slices(seq_len, size):
    mask = torch.zeros(seq_len, seq_len, dtype=torch.bool)
    for row in range(seq_len):
        mask[row, row + 1 - size : row + 1] = True
    return mask


def each_sentence_once(head_hits, rule_hits, sentence, draws):
    random, places = (np.random.default_rng(0), np.unique(sentence))
    found = []
    for _ in range(draws):
        rows = np.isin(sentence, random.choice(places, len(places)))
        found.append(head_hits[rows].mean() - rule_hits[rows].mean())
    return (np.quantile(found, 0.025), np.quantile(found, 0.975))


wrong(
    "wordpiece",
    "prefix_behind",
    lambda a, b: [x[2:] + "##" if x.startswith("##") else x for x in pieces(a, b)],
)
wrong("wordpiece", "longest_piece_limited", lambda a, b: pieces(a, b, maxlen=4))
wrong("wordpiece", "first_piece_only", lambda a, b: pieces(a, b)[:1])
wrong("wordpiece", "letter_by_letter", lambda a, b: [a] if a in b else [a[0]] + ["##" + c for c in a[1:]])
wrong("wordpiece", "prefix_not_needed", lambda a, b: pieces(a, b | {"##" + entry for entry in b}))
wrong(
    "pad_batch",
    "mask_of_another_length",
    lambda s, p: (
        padded(s, p)[0],
        (torch.arange(padded(s, p)[0].shape[1])[None] <= torch.tensor([len(r) for r in s])[:, None]).long(),
    ),
)
wrong("pad_batch", "cut_to_another", lambda s, p: padded([r[: len(s[0])] for r in s], p, L=len(s[0])))
wrong("pad_batch", "mask_of_one_text", lambda s, p: (padded(s, p)[0], padded(s, p)[1][:1].expand(len(s), -1)))
wrong("pad_batch", "pads_on_both_sides", lambda s, p: padded([[p, *row] for row in s], p))
wrong("sentence_b_start", "half_the_length", lambda t: len(t) // 2 if 1 in t else None)
wrong("sentence_b_start", "counted_from_the_end", lambda t: 1 if 1 in t else None)
wrong("sentence_b_start", "not_in_the_list", lambda t: t.index(1))
wrong("softmax", "softmax_twice", lambda s: torch.softmax(torch.softmax(s, -1), -1))
wrong("softmax", "scaled_first", lambda s: (s / math.sqrt(s.shape[-1])).softmax(-1))
wrong("softmax", "divided_not_subtracted", lambda s: (s / s.abs().amax(-1, keepdim=True)).softmax(-1))
wrong("attention", "scores_changed", lambda q, k, v: attention(q, k, v, f=torch.relu))
wrong(
    "attention", "causal_mask_added", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
)
wrong("attention", "each_score_alone", lambda q, k, v: (q @ k.mT / math.sqrt(q.shape[-1])).sigmoid() @ v)
wrong("attention", "softmax_twice", lambda q, k, v: attention(q, k, v, f=lambda s: s.softmax(-1)))
wrong("attention", "other_divisor", lambda q, k, v: attention(q, k, v, math.log(q.shape[-1])))
wrong(
    "attention", "all_keys_alike", lambda q, k, v: v.mean(-2, keepdim=True).expand(*q.shape[:-1], v.shape[-1])
)
wrong(
    "attention", "largest_score_only", lambda q, k, v: F.one_hot((q @ k.mT).argmax(-1), k.shape[-2]).to(v) @ v
)
wrong(
    "weights_of_head",
    "applied_to_values",
    lambda x, l, h: head_of(x, l, h) @ l.value(x)[..., h * 3 : h * 3 + 3],
)
wrong(
    "weights_of_head",
    "slice_at_the_wrong_place",
    lambda x, l, h: (lambda q, k, d: (q[..., h : h + d] @ k[..., h : h + d].mT / math.sqrt(d)).softmax(-1))(
        l.query(x), l.key(x), l.attention_head_size
    ),
)
wrong(
    "weights_of_head",
    "causal_mask_added",
    head_weights(lambda s: s.masked_fill(torch.ones_like(s).triu(1).bool(), -math.inf).softmax(-1)),
)
wrong("weights_of_head", "each_score_alone", head_weights(torch.sigmoid))
wrong("weights_of_head", "other_divisor", head_weights(lambda s: s.softmax(-1), lambda d: d / 2))
wrong(
    "weights_of_head",
    "scaled_after_softmax",
    head_weights(lambda s: s.softmax(-1) / math.sqrt(3), lambda d: 1),
)
wrong("weights_of_head", "scores_changed", head_weights(lambda s: s.relu().softmax(-1)))
wrong("weights_of_head", "sign_turned", head_weights(lambda s: (-s).softmax(-1)))
wrong("weights_of_head", "softmax_twice", head_weights(lambda s: s.softmax(-1).softmax(-1)))
wrong("causal_mask", "only_one_before", lambda n: torch.eye(n).roll(-1, 1).bool().tril())
wrong("causal_mask", "upper_without_diagonal_allowed", lambda n: ~torch.eye(n, dtype=torch.bool))
wrong("causal_mask", "row_left_out", lambda n: triangle(n) & (rows(n) > 0))
wrong("causal_mask", "axes_in_front", lambda n: triangle(n)[None, None])
wrong("padding_mask", "pads_moved", lambda m: m.bool()[:, None, None].roll(1, -1))
wrong("window_mask", "one_place_only", lambda n, s: rows(n) - columns(n) == s - 1)
wrong("window_mask", "every_nth_token", lambda n, s: triangle(n) & ((rows(n) - columns(n)) % s == 0))
wrong(
    "window_mask", "axes_in_front", lambda n, s: ((rows(n) >= columns(n)) & (rows(n) - columns(n) < s))[None]
)
wrong("window_mask", "slice_from_below_zero", window_by_slices)
wrong(
    "scaled_dot_product_attention",
    "mask_on_values",
    lambda q, k, v, mask=None: (
        masked_attention(q, k, v) if mask is None else masked_attention(q, k, v) * mask.any(-1, keepdim=True)
    ),
)
wrong(
    "scaled_dot_product_attention",
    "scaled_otherwise_with_a_mask",
    lambda q, k, v, mask=None: (
        masked_attention(q, k, v)
        if mask is None
        else masked_attention(q * math.sqrt(q.shape[-1]), k, v, mask)
    ),
)
wrong(
    "scaled_dot_product_attention",
    "causal_instead_of_mask",
    lambda q, k, v, mask=None: (
        masked_attention(q, k, v) if mask is None else F.scaled_dot_product_attention(q, k, v, is_causal=True)
    ),
)
wrong(
    "scaled_dot_product_attention",
    "mask_of_one_query",
    lambda q, k, v, mask=None: (
        masked_attention(q, k, v) if mask is None else masked_attention(q, k, v, mask[..., :1, :])
    ),
)
wrong(
    "scaled_dot_product_attention",
    "all_keys_alike",
    only_without_mask(lambda s: torch.full_like(s, 1 / s.shape[-1])),
)
wrong(
    "scaled_dot_product_attention",
    "causal_mask_added",
    only_without_mask(lambda s: s.masked_fill(torch.ones_like(s).triu(1).bool(), -math.inf).softmax(-1)),
)
wrong("scaled_dot_product_attention", "each_score_alone", only_without_mask(torch.sigmoid))
wrong(
    "scaled_dot_product_attention",
    "largest_score_only",
    only_without_mask(lambda s: F.one_hot(s.argmax(-1), s.shape[-1]).to(s)),
)
wrong("scaled_dot_product_attention", "scores_changed", only_without_mask(lambda s: s.abs().softmax(-1)))
wrong("scaled_dot_product_attention", "softmax_twice", only_without_mask(lambda s: s.softmax(-1).softmax(-1)))
wrong(
    "scaled_dot_product_attention",
    "other_divisor",
    lambda q, k, v, mask=None: F.scaled_dot_product_attention(q, k, v, mask, scale=2 / q.shape[-1]),
)
wrong("split_heads", "one_head_only", lambda p, n: p[..., : p.shape[-1] // n])
wrong("split_heads", "cut_and_put_together", lambda p, n: torch.cat(p.chunk(n, -1), 1))
wrong("split_heads", "heads_in_another_order", lambda p, n: torch.stack(p.chunk(n, -1)[::-1], 1))
wrong("multi_head_attention", "projected_twice", heads_with(join=lambda s, o: s.output(Heads.join(s, o))))
wrong(
    "multi_head_attention",
    "bias_forgotten",
    heads_with(parts=lambda s, x: (s.sp(s.query(x)), s.sp(s.key(x)), s.sp(x @ s.value.weight.T))),
)
wrong(
    "multi_head_attention",
    "heads_in_another_order",
    heads_with(join=lambda s, o: s.output(o.flip(1).transpose(1, 2).flatten(2))),
)
wrong(
    "multi_head_attention",
    "scaled_after_softmax",
    heads_with(parts=lambda s, x: (lambda q, k, v: (q, k, v / math.sqrt(s.h // s.n)))(*Heads.parts(s, x))),
)
wrong(
    "multi_head_attention",
    "matrix_not_transposed",
    heads_with(join=lambda s, o: o.transpose(1, 2).flatten(2) @ s.output.weight + s.output.bias),
)
wrong("multi_head_attention", "each_score_alone", heads(lambda s, d: (s / math.sqrt(d)).sigmoid()))
wrong(
    "multi_head_attention",
    "mask_of_one_query",
    heads_with(forward=lambda s, x, mask=None: Heads.forward(s, x, None if mask is None else mask[:1])),
)
wrong("multi_head_attention", "other_divisor", heads(lambda s, d: (s / (2 * d)).softmax(-1)))
wrong("multi_head_attention", "scaled_by_a_constant", heads(lambda s, d: (s / 8).softmax(-1)))
wrong(
    "multi_head_attention", "scores_changed", heads(lambda s, d: (s / math.sqrt(d)).clamp(-1, 1).softmax(-1))
)
wrong(
    "layer_norm",
    "not_the_variance",
    lambda x, W, b, e: (x - mean_of(x)) / ((x - mean_of(x)).abs().mean(-1, keepdim=True) + e) * W + b,
)
wrong(
    "layer_norm",
    "centre_is_no_mean",
    lambda x, W, b, e: (x - x.median(-1, keepdim=True).values) / torch.sqrt(variance_of(x) + e) * W + b,
)
wrong(
    "layer_norm",
    "eps_changed",
    lambda x, W, b, e: (x - mean_of(x)) / torch.sqrt((variance_of(x) - e).abs()) * W + b,
)
wrong(
    "layer_norm",
    "scale_or_shift_changed",
    lambda x, W, b, e: (x - mean_of(x)) / torch.sqrt(variance_of(x) + e) * W - b,
)
wrong("position_encoding", "place_as_number", lambda x: x + torch.arange(x.shape[1])[:, None])
wrong("position_encoding", "counted_backwards", lambda x: x + positions(x).flip(0))
wrong("position_encoding", "multiplied", lambda x: x * positions(x))
wrong("position_encoding", "laid_beside", lambda x: torch.cat([x, positions(x).expand_as(x)], -1))
wrong("position_encoding", "averaged", lambda x: (x + positions(x)) / 2)
wrong("position_encoding", "fixed_width", lambda x: x + positions(x, f=lambda i, d: 2 * (i // 2) / 768))
wrong(
    "position_encoding",
    "exponent_from_behind",
    lambda x: x + positions(x, f=lambda i, d: 2 * ((d - 1 - i) // 2) / d),
)
wrong(
    "position_encoding",
    "brackets_missing",
    lambda x: x + positions(x, f=lambda i, d: 2 * (i // 2) - math.log(d, 10000)),
)
wrong(
    "encoder_layer",
    "norm_eps",
    type(
        "E",
        (Layer,),
        {
            "__init__": lambda s, a, f, h, d: (
                Layer.__init__(s, a, f, h, d),
                setattr(s, "attention_norm", nn.LayerNorm(h, d)),
                None,
            )[-1]
        },
    ),
)
wrong(
    "encoder_layer",
    "something_twice",
    layer_with(
        forward=lambda s, x: (
            lambda h: s.feed_forward_norm(h + s.dropout(s.feed_forward(s.feed_forward(h))))
        )(s.attention_norm(x + s.dropout(s.attention(x))))
    ),
)
wrong(
    "encoder_layer",
    "residual_changed",
    layer_with(
        forward=lambda s, x: (lambda h: s.feed_forward_norm(h - s.dropout(s.feed_forward(h))))(
            s.attention_norm(x + s.dropout(s.attention(x)))
        )
    ),
)
wrong("previous_token_head", "other_than_mean", lambda a: place(diagonal(a).prod(-1)))
wrong("previous_token_head", "one_number_twice", lambda a: (place(diagonal(a).mean(-1))[0],) * 2)
wrong(
    "previous_token_head",
    "second_best",
    lambda a: divmod(diagonal(a).mean(-1).flatten().topk(2).indices[1].item(), a[0].shape[1]),
)
wrong("previous_token_head", "never_compared", lambda a: (len(a) - 1, a[0].shape[1] - 1))
wrong(
    "strongest_head", "both_directions", lambda a, q, k: place(joined(a)[:, :, q, k] + joined(a)[:, :, k, q])
)
wrong("strongest_head", "one_number_twice", lambda a, q, k: (place(joined(a)[:, :, q, k])[0],) * 2)
wrong(
    "strongest_head",
    "second_best",
    lambda a, q, k: divmod(joined(a)[:, :, q, k].flatten().topk(2).indices[1].item(), a[0].shape[1]),
)
wrong("strongest_head", "never_compared", lambda a, q, k: (len(a) - 1, a[0].shape[1] - 1))
wrong("working_share", "other_keys_left_out", lambda a: joined(a)[..., 2:].sum(-1).mean(-1))
wrong(
    "working_share",
    "itself_left_out",
    lambda a: (joined(a) * (1 - torch.eye(a[0].shape[-1])))[..., 1:-1].sum(-1).mean(-1),
)
wrong("working_share", "other_than_mean", lambda a: joined(a)[..., 1:-1].sum(-1).amax(-1))
wrong(
    "working_share",
    "ratio_to_the_rest",
    lambda a: joined(a)[..., 1:-1].sum(-1).mean(-1) / joined(a)[..., [0, -1]].sum(-1).mean(-1),
)
wrong(
    "working_share",
    "hits_counted",
    lambda a: (lambda most: ((most > 0) & (most < a[0].shape[-1] - 1)).float().mean(-1))(
        joined(a).argmax(-1)
    ),
)
wrong(
    "separator_share",
    "neighbour_of_separator",
    lambda a, t: joined(a)[..., [i - 1 for i in separators(t)]].sum(-1).mean(-1),
)
wrong(
    "separator_share", "other_than_mean", lambda a, t: joined(a)[..., separators(t)].sum(-1).median(-1).values
)
wrong(
    "separator_share",
    "itself_left_out",
    lambda a, t: (joined(a) * (1 - torch.eye(len(t))))[..., separators(t)].sum(-1).mean(-1),
)
wrong(
    "separator_share",
    "ratio_to_the_rest",
    lambda a, t: (lambda r: r / (1 - r))(joined(a)[..., separators(t)].sum(-1).mean(-1)),
)
wrong(
    "separator_share",
    "hits_counted",
    lambda a, t: torch.isin(joined(a).argmax(-1), torch.tensor(separators(t))).float().mean(-1),
)
wrong("same_word_share", "other_than_mean", lambda a, t: same_word(a, t, f=lambda o: o.amax(0)))
wrong("same_word_share", "queries_left_out", lambda a, t: same_word(a, t, f=lambda o: o[:-1].mean(0)))
wrong("same_word_share", "neighbours_counted", lambda a, t: diagonal(a).mean(-1))
wrong(
    "same_word_share",
    "hits_counted",
    lambda a, t: torch.stack(
        [
            sum(
                (joined(a)[:, :, q].argmax(-1) == k).float() for k in range(len(t)) if k != q and t[k] == t[q]
            )
            for q in range(len(t))
            if t.count(t[q]) > 1
        ]
    ).mean(0),
)
wrong(
    "same_word_share",
    "largest_instead_of_sum",
    lambda a, t: torch.stack(
        [
            joined(a)[:, :, q, [k for k in range(len(t)) if k != q and t[k] == t[q]]].amax(-1)
            for q in range(len(t))
            if t.count(t[q]) > 1
        ]
    ).mean(0),
)
wrong("best_head", "one_number_twice", lambda s: (place(s)[0],) * 2)
wrong("best_head", "second_best", lambda s: divmod(s.flatten().topk(2).indices[1].item(), s.shape[1]))
wrong("best_head", "never_compared", lambda s: (s.amax(1).argmax().item(), s.amax(0).argmin().item()))
wrong("query_key_product", "sign_lost", lambda q, k: ((q * k).abs(), k @ q / math.sqrt(len(q))))
wrong("query_key_product", "exponential_taken", lambda q, k: (q * k, (k @ q / math.sqrt(len(q))).exp()))
wrong("query_key_product", "keys_alone", lambda q, k: (k * k, (k * k).sum(-1) / math.sqrt(len(q))))
wrong("query_key_product", "lengths_taken_out", lambda q, k: (q * k, F.cosine_similarity(q[None], k)))
wrong("query_key_product", "mean_not_sum", lambda q, k: (q * k, (q * k).amax(-1)))
wrong("query_key_product", "other_divisor", lambda q, k: (q * k, k @ q / (2 * len(q))))
wrong("query_key_product", "sign_turned", lambda q, k: (q * k, -(k @ q) / math.sqrt(len(q))))
wrong("weights_of_token", "largest_score_only", lambda q, k: (k @ q).argmax())
wrong("weights_of_token", "each_score_alone", lambda q, k: (k @ q / math.sqrt(len(q))).sigmoid())
wrong("weights_of_token", "sign_turned", lambda q, k: (-(k @ q) / math.sqrt(len(q))).softmax(0))
wrong("weights_of_token", "axis_left_over", lambda q, k: (k @ q / math.sqrt(len(q))).softmax(0)[:, None])
wrong(
    "weights_of_token",
    "overflow_on_large_scores",
    lambda q, k: (lambda e: e / e.sum())((k @ q / math.sqrt(len(q))).exp()),
)
wrong(
    "weights_of_token",
    "scores_changed",
    lambda q, k: (lambda s: (s / s.max()).softmax(0))(k @ q / math.sqrt(len(q))),
)
wrong("weights_of_token", "logarithm", lambda q, k: (k @ q / math.sqrt(len(q))).log_softmax(0))
wrong("weights_of_token", "other_divisor", lambda q, k: (k @ q / math.sqrt(len(q) - 1)).softmax(0))
wrong(
    "strongest_neurons",
    "difference_not_product",
    lambda q, k, c: (q - k).abs().topk(c, largest=False).indices.tolist(),
)
wrong("shift_right", "start_added", lambda l, s: l + s)
wrong(
    "shift_right",
    "pads_replaced",
    lambda l, s: F.pad(l, (1, 0), value=s)[:, :-1].masked_fill(F.pad(l, (1, 0), value=s)[:, :-1] == 0, s),
)
wrong(
    "shift_right", "turned_round", lambda l, s: joined([torch.full_like(l[:, :1], s), l.flip(1)[:, :-1]], 1)
)
wrong(
    "shift_right", "rows_joined", lambda l, s: joined([torch.full_like(l[:, :1], s), l[:, :-1]], 1).flatten()
)
wrong("shift_right", "one_row_only", lambda l, s: joined([torch.full_like(l[:1, :1], s), l[:1, :-1]], 1))
wrong(
    "greedy_decode",
    "second_most_likely",
    lambda n, s, e, m: greedy(n, s, e, m, pick=lambda z: z[-1].topk(2).indices[1]),
)
wrong("greedy_decode", "last_one_only", lambda n, s, e, m: greedy(n, s, e, m)[-1])
wrong("greedy_decode", "start_fixed", lambda n, s, e, m: greedy(n, 0, e, m))
wrong("greedy_decode", "repeats_dropped", lambda n, s, e, m: list(dict.fromkeys(greedy(n, s, e, m))))
wrong("greedy_decode", "sorted", lambda n, s, e, m: sorted(greedy(n, s, e, m)))
wrong(
    "cross_attention",
    "bias_forgotten",
    cross_with(lambda s, h, m: F.scaled_dot_product_attention(s.query(h), s.key(m), m @ s.value.weight.T)),
)
wrong(
    "cross_attention",
    "part_of_memory",
    cross_with(lambda s, h, m: Cross.forward(s, h, m.mean(1, keepdim=True))),
)
wrong(
    "cross_attention",
    "output_changed",
    cross_with(lambda s, h, m: F.layer_norm(Cross.forward(s, h, m), h.shape[-1:])),
)
wrong("cross_attention", "each_score_alone", cross(lambda s, d: (s / math.sqrt(d)).sigmoid()))
wrong(
    "cross_attention",
    "matrix_not_transposed",
    cross_with(
        lambda s, h, m: F.scaled_dot_product_attention(
            h @ s.query.weight + s.query.bias,
            m @ s.key.weight + s.key.bias,
            m @ s.value.weight + s.value.bias,
        )
    ),
)
wrong("cross_attention", "other_divisor", cross(lambda s, d: (s / (2 * d)).softmax(-1)))
wrong(
    "cross_attention",
    "scaled_after_softmax",
    cross(lambda s, d: (s / math.sqrt(d)).softmax(-1) / math.sqrt(d)),
)
wrong("cross_attention", "scaled_by_a_constant", cross(lambda s, d: (s / 8).softmax(-1)))
wrong("cross_attention", "scores_changed", cross(lambda s, d: (s / math.sqrt(d)).relu().softmax(-1)))
wrong("cross_attention", "sign_turned", cross(lambda s, d: (-s / math.sqrt(d)).softmax(-1)))
wrong("cross_attention", "softmax_twice", cross(lambda s, d: (s / math.sqrt(d)).softmax(-1).softmax(-1)))
wrong("guesses", "mean_over_heads", lambda W: W.mean(1).masked_fill(unit(W.shape[-1]), -1).argmax(-2))
wrong("guesses", "itself_made_smaller", lambda W: (W - 0.1 * torch.eye(W.shape[-1])).argmax(-2))
wrong("guesses", "neighbour", lambda W: (torch.arange(W.shape[-1]) - 1).expand(W.shape[:-1]))
wrong("guesses", "one_side_only", lambda W: W.tril(-1).argmax(-2))
wrong("guesses", "both_directions", lambda W: (W + W.mT).masked_fill(unit(W.shape[-1]), -1).argmax(-2))
wrong("guesses", "most_looked_at", lambda W: W.masked_fill(unit(W.shape[-1]), -1).sum(-2).argmax(-1))
wrong(
    "guesses",
    "places_shifted",
    lambda W: (
        lambda n: torch.stack(
            [torch.cat([W[..., :c, c], W[..., c + 1 :, c]], -1).argmax(-1) for c in range(n)], -1
        )
    )(W.shape[-1]),
)
wrong(
    "guesses",
    "other_diagonal",
    lambda W: W.masked_fill(torch.eye(*W.shape[:2], dtype=torch.bool)[..., None, None], -1).argmax(-2),
)
wrong("held_out_best", "share_as_percent", lambda h, c: (*best(h, c)[:2], 100 * best(h, c)[2]))
wrong("held_out_best", "parts_in_another_order", lambda h, c: (best(h, c)[2], *best(h, c)[:2]))
wrong(
    "held_out_best",
    "one_layer_only",
    lambda h, c: (
        h.shape[1] - 1,
        int(h[c][:, -1].mean(0).argmax()),
        float(h[~c][:, -1, int(h[c][:, -1].mean(0).argmax())].mean()),
    ),
)
wrong("held_out_best", "one_number_twice", lambda h, c: (best(h, c)[0], best(h, c)[0], best(h, c)[2]))
wrong("held_out_best", "truth_used_as_place", lambda h, c: best(h, c, b=1 - c.astype(int)))
wrong("held_out_best", "halves_by_place", lambda h, c: best(h, np.arange(len(h)) < c.sum()))
wrong(
    "held_out_best",
    "difference_of_halves",
    lambda h, c: (*best(h, c)[:2], best(h, c)[2] - best(h, c, b=c)[2]),
)
wrong("held_out_best", "share_of_misses", lambda h, c: (*best(h, c)[:2], 1 - best(h, c)[2]))
wrong(
    "held_out_best",
    "layer_and_head_apart",
    lambda h, c: (
        lambda t: (lambda l, k: (l, k, float(h[~c][:, l, k].mean())))(
            int(t.mean(1).argmax()), int(t.mean(0).argmax())
        )
    )(h[c].mean(0)),
)
wrong(
    "held_out_best",
    "mean_of_halves",
    lambda h, c: (*best(h, c)[:2], (best(h, c)[2] + best(h, c, b=c)[2]) / 2),
)
wrong(
    "held_out_best",
    "second_best",
    lambda h, c: (lambda l, k: (int(l), int(k), float(h[~c][:, l, k].mean())))(
        *divmod(h[c].mean(0).ravel().argsort()[-2], h.shape[2])
    ),
)
wrong("paired_interval", "interval_as_percent", lambda *a: tuple(100 * x for x in interval(*a)))
wrong("paired_interval", "one_draw_for_all", lambda a, b, c, d: interval(a, b, c, 1))
wrong(
    "paired_interval",
    "sums_not_shares",
    lambda hh, rh, se, dr: (
        lambda rng, u, g: tuple(
            np.percentile(
                [
                    (lambda r: hh[r].sum() - rh[r].sum())(
                        np.concatenate([g[j] for j in rng.integers(len(u), size=len(u))])
                    )
                    for _ in range(2000)
                ],
                [2.5, 97.5],
            )
        )
    )(np.random.default_rng(0), np.unique(se), [np.flatnonzero(se == x) for x in np.unique(se)]),
)
wrong(
    "paired_interval",
    "ratio_not_difference",
    lambda hh, rh, se, dr: (
        lambda rng, u, g: tuple(
            np.percentile(
                [
                    (lambda r: hh[r].mean() / rh[r].mean())(
                        np.concatenate([g[j] for j in rng.integers(len(u), size=len(u))])
                    )
                    for _ in range(2000)
                ],
                [2.5, 97.5],
            )
        )
    )(np.random.default_rng(0), np.unique(se), [np.flatnonzero(se == x) for x in np.unique(se)]),
)
wrong("paired_interval", "one_end_only", lambda *a: (interval(*a)[0], a[0].mean() - a[1].mean()))
wrong("paired_interval", "drawn_once_each", each_sentence_once)
wrong("layer_flops", "one_head_of_keys", lambda n, d, f, h, g: flops(n, d, f, h, g, kv=d // h))
wrong("layer_flops", "feed_forward_counted_otherwise", lambda n, d, f, h, g: flops(n, d, f, h, g, ff=6))
wrong(
    "layer_flops",
    "projections_counted_otherwise",
    lambda n, d, f, h, g: flops(n, d, f, h, g) - 2 * n * d * d * 2 + 4 * d * d,
)
wrong("layer_flops", "table_without_square", lambda n, d, f, h, g: flops(n, d, f, h, g, t=0) + 4 * n * d)
wrong("layer_flops", "more_than_products", lambda n, d, f, h, g: flops(n, d, f, h, g) + h * n * n)
wrong("layer_flops", "parameters_counted", lambda n, d, f, h, g: 2 * d * d + 2 * d * (d // h * g) + 2 * d * f)
wrong("layer_flops", "unit_changed", lambda n, d, f, h, g: flops(n, d, f, h, g) / 1000000000.0)
wrong("layer_flops", "heads_exchanged", lambda n, d, f, h, g: flops(n, d, f, g, h))
wrong("layer_flops", "all_counted_several_times", lambda n, d, f, h, g: 3 * flops(n, d, f, h, g))
wrong("layer_flops", "table_counted_otherwise", lambda n, d, f, h, g: flops(n, d, f, h, g, t=8))
wrong(
    "online_step",
    "new_part_forgotten",
    lambda t, s, o, c, v: (lambda r: (r[0], s * (t - r[0]).exp(), r[2]))(step(t, s, o, c, v)),
)
wrong(
    "online_step", "order_of_parts", lambda t, s, o, c, v: (lambda r: (r[2], r[0], r[1]))(step(t, s, o, c, v))
)
wrong(
    "online_step",
    "sum_of_maxima",
    lambda t, s, o, c, v: (lambda r: (t + c.amax(-1, keepdim=True), r[1], r[2]))(step(t, s, o, c, v)),
)
wrong(
    "online_step",
    "minimum_instead",
    lambda t, s, o, c, v: (
        lambda n: (
            n,
            s * (t - n).exp() + (c - n).exp().sum(-1, keepdim=True),
            o * (t - n).exp() + (c - n).exp() @ v,
        )
    )(torch.minimum(t, c.amin(-1, keepdim=True))),
)
wrong(
    "online_step",
    "new_part_shrunk_too",
    lambda t, s, o, c, v: (
        lambda n: (
            n,
            (s + (c - n).exp().sum(-1, keepdim=True)) * (t - n).exp(),
            (o + (c - n).exp() @ v) * (t - n).exp(),
        )
    )(torch.maximum(t, c.amax(-1, keepdim=True))),
)
wrong(
    "online_step",
    "other_base",
    lambda t, s, o, c, v: (
        lambda n: (
            n,
            s * 2 ** (t - n) + (2 ** (c - n)).sum(-1, keepdim=True),
            o * 2 ** (t - n) + 2 ** (c - n) @ v,
        )
    )(torch.maximum(t, c.amax(-1, keepdim=True))),
)
wrong(
    "online_step",
    "mean_not_sum",
    lambda t, s, o, c, v: (
        lambda r, n: (r[0], s * (t - n).exp() + (c - n).exp().mean(-1, keepdim=True), r[2])
    )(step(t, s, o, c, v), step(t, s, o, c, v)[0]),
)
wrong(
    "online_step",
    "shrunk_by_the_sum",
    lambda t, s, o, c, v: (lambda r, f: (r[0], r[1], r[2] + o * f * f - o * f))(
        step(t, s, o, c, v), (t - step(t, s, o, c, v)[0]).exp()
    ),
)
wrong("cache_bytes", "layers_twice", lambda L, n, g, d, b, w_: L * cache(L, n, g, d, b, w_))
wrong("cache_bytes", "other_unit", lambda L, n, g, d, b, w_: cache(L, n, g, d, b, w_) / 2**20)
wrong(
    "cache_bytes",
    "square_of_the_length",
    lambda L, n, g, d, b, w_: cache(L, n, g, d, b, w_) * min(n, w_ or n),
)
wrong("cache_bytes", "nothing_without_a_window", lambda L, n, g, d, b, w_: cache(L, n, g, d, b, w_ or 0))
wrong("cache_bytes", "fixed_bytes", lambda L, n, g, d, b, w_: cache(L, n, g, d, 2, w_))
wrong("cache_bytes", "counted_several_times", lambda L, n, g, d, b, w_: 2 * cache(L, n, g, d, b, w_))
wrong("cache_bytes", "divided_by_bytes", lambda L, n, g, d, b, w_: cache(L, n, g, d, 1, w_) // b)
wrong("cache_bytes", "longer_of_both", lambda L, n, g, d, b, w_: cache(L, n, g, d, b, w_, k=max))
wrong(
    "cache_bytes",
    "rest_of_a_division",
    lambda L, n, g, d, b, w_: cache(L, n, g, d, b, w_, k=lambda n, w: n % w),
)
wrong(
    "cache_bytes",
    "length_forgotten",
    lambda L, n, g, d, b, w_: (
        cache(L, n, g, d, b, w_, k=lambda n, w: 1) if w_ else cache(L, 1, g, d, b, None)
    ),
)
wrong("cache_bytes", "window_added", lambda L, n, g, d, b, w_: cache(L, n, g, d, b, None) * (w_ or n) // 1)
wrong("cache_bytes", "none_not_handled", lambda L, n, g, d, b, w_: 2 * L * min(n, w_) * g * d * b)
wrong(
    "induction_score", "other_than_mean", lambda W, i: induction(W, i, red=lambda o: torch.stack(o).amax(0))
)
wrong("induction_score", "queries_left_out", lambda W, i: induction(W, i, red=lambda o: o[-1]))
wrong("induction_score", "mean_over_heads", lambda W, i: induction(W, i).mean(1))
wrong(
    "induction_score",
    "fixed_distance",
    lambda W, i: W.diagonal(-(len(i) // 2) + 1, dim1=-2, dim2=-1).mean(-1),
)
wrong(
    "induction_score",
    "next_query_read",
    lambda W, i: torch.stack(
        [
            W[:, :, q + 1, [j + 1 for j in range(q) if i[j] == i[q]]].sum(-1)
            for q in range(len(i) - 1)
            if i[q] in i[:q]
        ]
    ).mean(0),
)
wrong(
    "induction_score",
    "all_earlier_places",
    lambda W, i: torch.stack([W[:, :, q, :q].sum(-1) for q in range(len(i)) if i[q] in i[:q]]).mean(0),
)
wrong("induction_score", "hits_counted", lambda W, i: induction((W.amax(-1, keepdim=True) == W).double(), i))
wrong(
    "without_head",
    "columns_of_another_slice",
    lambda m, hs, d, run: without(
        m, hs, d, run, lambda a, h: a.output.weight[:, h * d : (h + 1) * d + 1].zero_()
    ),
)
wrong(
    "without_head",
    "not_set_to_zero",
    lambda m, hs, d, run: without(
        m, hs, d, run, lambda a, h: a.output.weight[:, h * d : (h + 1) * d].fill_(1)
    ),
)
wrong("without_head", "difference_returned", lambda m, hs, d, run: run() - without(m, hs, d, run))
wrong("without_head", "query_or_key_cleared", lambda m, hs, d, run: without_queries(m, hs, d, run))
wrong("path_cut", "half_cut", lambda a, nm, x, wr, n: path_weights(a.query(nm(x)), a.key(nm(x - wr / 2)), n))
wrong(
    "path_cut",
    "mean_over_heads",
    lambda a, nm, x, wr, n: path_weights(a.query(nm(x)), a.key(nm(x - wr)), n).mean(1),
)
wrong(
    "path_cut",
    "excludes_itself",
    lambda a, nm, x, wr, n: (lambda W: W)(path_weights(a.query(nm(x)), a.key(nm(x - wr)), n, False).tril(-1)),
)
wrong(
    "path_cut",
    "difference_returned",
    lambda a, nm, x, wr, n: (
        path_weights(a.query(nm(x)), a.key(nm(x)), n) - path_weights(a.query(nm(x)), a.key(nm(x - wr)), n)
    ),
)
wrong(
    "path_cut",
    "mask_after_softmax",
    lambda a, nm, x, wr, n: path_weights(a.query(nm(x)), a.key(nm(x - wr)), n, False).tril(),
)
wrong(
    "path_cut",
    "other_divisor",
    lambda a, nm, x, wr, n: path_weights(a.query(nm(x)), a.key(nm(x - wr)), n, sc=math.sqrt(n)),
)
wrong(
    "path_cut",
    "scaled_by_d",
    lambda a, nm, x, wr, n: path_weights(a.query(nm(x)), a.key(nm(x - wr)), n, sc=x.shape[-1] // n),
)
wrong("path_cut", "not_split", lambda a, nm, x, wr, n: path_weights(a.query(nm(x)), a.key(nm(x - wr)), 1))
wrong(
    "path_cut",
    "mask_not_minus_infinity",
    lambda a, nm, x, wr, n: (
        lambda b, s, d: (lambda q, k: (q @ k.mT / math.sqrt(d // n)).tril().softmax(-1))(
            *(z.view(b, s, n, -1).transpose(1, 2) for z in (a.query(nm(x)), a.key(nm(x - wr))))
        )
    )(*x.shape),
)
wrong(
    "path_cut", "norm_twice", lambda a, nm, x, wr, n: path_weights(a.query(nm(x)), a.key(nm(nm(x - wr))), n)
)
wrong(
    "path_cut",
    "heads_interleaved",
    lambda a, nm, x, wr, n: (
        lambda q, k: (
            (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~triangle(x.shape[1]), -math.inf).softmax(-1)
        )
    )(*(z.unflatten(-1, (-1, n)).permute(0, 3, 1, 2) for z in (a.query(nm(x)), a.key(nm(x - wr))))),
)
