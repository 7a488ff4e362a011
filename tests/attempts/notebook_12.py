"""Attempts at the exercises of notebook 12."""

import math
from contextlib import ExitStack, contextmanager

import torch
import torch.nn.functional as F

from .tables import fresh, peer, right, wrong

# --------------------------------------------------------------------------------------- a score for induction


def score_loops(attn_weights, input_ids):
    shares, seq_len = [], len(input_ids)
    for query in range(seq_len):
        keys = [place + 1 for place in range(query) if input_ids[place] == input_ids[query]]
        if keys:
            shares.append(sum(attn_weights[:, :, query, key] for key in keys))
    return torch.stack(shares).mean(dim=0)


def score_table(attn_weights, input_ids):
    before = (input_ids[:, None] == input_ids).tril(diagonal=-1)
    behind = F.pad(before, (1, 0))[:, :-1]
    shares = (attn_weights * behind).sum(dim=-1)
    return shares[..., before.any(dim=-1)].mean(dim=-1)


def score_einsum(attn_weights, input_ids):
    one_hot = F.one_hot(input_ids).to(attn_weights.dtype)
    same = torch.tril(one_hot @ one_hot.T, -1)
    counted = (same.sum(dim=1) > 0).to(attn_weights.dtype)
    moved = torch.zeros_like(same)
    moved[:, 1:] = same[:, :-1]
    return torch.einsum("lhqk,qk,q->lh", attn_weights, moved, counted) / counted.sum()


def score_places(attn_weights, input_ids):
    ids, total, queries = input_ids.tolist(), 0, set()
    for earlier in range(len(ids)):
        for query in range(earlier + 1, len(ids)):
            if ids[earlier] == ids[query]:
                total = total + attn_weights[..., query, earlier + 1]
                queries.add(query)
    return total / len(queries)


def score_rolled(attn_weights, input_ids):
    same = torch.ones_like(attn_weights[0, 0]).tril(-1).bool() & (
        input_ids.unsqueeze(0) == input_ids.unsqueeze(1)
    )
    on_next = attn_weights.roll(-1, dims=-1).masked_fill(~same, 0.0).sum(-1)  # the key behind each place
    return torch.tensor([[head[same.any(1)].mean() for head in layer] for layer in on_next])


def score_with(shift=1, choose=lambda keys: keys, reduce=sum, which="before", divide=None):
    def attempt(attn_weights, input_ids):
        ids, shares = input_ids.tolist(), []
        for query, token in enumerate(ids):
            earlier = [place for place in range(query) if ids[place] == token]
            counted = earlier or which == "all" or (which == "twice" and ids.count(token) > 1)
            if counted:
                weights = [
                    attn_weights[..., query, place + shift] for place in choose(earlier) if place + shift >= 0
                ]
                shares.append(reduce(weights) if weights else torch.zeros(attn_weights.shape[:2]))
        return sum(shares) / (divide(ids) if divide else len(shares))

    return attempt


def earlier(input_ids):
    return (input_ids[:, None] == input_ids).tril(diagonal=-1)


def score_over(together):
    """Another way to take the queries together: from (layers, heads, query)."""

    def attempt(attn_weights, input_ids):
        behind = F.pad(earlier(input_ids), (1, 0))[:, :-1]
        return together((attn_weights * behind).sum(dim=-1)[..., earlier(input_ids).any(dim=-1)])

    return attempt


def score_by_next_token(attn_weights, input_ids):
    known = (input_ids[:, None] == input_ids).tril(-1).any(dim=-1)
    targets = F.pad(input_ids[1:], (0, 1), value=-1)[:, None] == input_ids
    return (attn_weights * targets).sum(dim=-1)[..., known].mean(dim=-1)


def score_that_comes_round(attn_weights, input_ids):
    after = (input_ids[:, None] == input_ids).roll(1, dims=-1).tril()
    return (attn_weights * after).sum(dim=-1)[..., after.any(dim=-1)].mean(dim=-1)


right("induction_score", score_loops, score_table, score_einsum, score_places, score_rolled)
# Tokens, and for each query whose token stood before: the keys right behind those places. Worked by hand.
KEYS = {
    (3, 5, 9, 7, 3, 5, 3, 8, 7): {4: [1], 5: [2], 6: [1, 5], 8: [4]},
    (4, 4, 6, 4, 6, 6, 8): {1: [1], 3: [1, 2], 4: [3], 5: [3, 5]},
    (0, 1, 2, 3, 0, 1, 2, 3): {4: [1], 5: [2], 6: [3], 7: [4]},
}


def score_by_hand(attn_weights, input_ids):
    keys = KEYS[tuple(input_ids.tolist())]
    return torch.stack([attn_weights[:, :, query, of].sum(dim=-1) for query, of in keys.items()]).mean(dim=0)


peer("induction_score", score_by_hand)
fresh("induction_score", (torch.rand(2, 2, 6, 6).tril(), torch.tensor([5, 1, 5, 5, 1, 2])))

for name, attempt in {
    "earlier_place_itself": score_with(shift=0),
    "token_before_it": score_with(shift=-1),
    "first_place_only": score_with(choose=lambda places: places[:1]),
    "last_place_only": score_with(choose=lambda places: places[-1:]),
    "all_queries_counted": score_with(which="all"),
    "fixed_distance": lambda w, ids: w[
        ..., q := torch.arange(len(ids) // 2, len(ids)), q - len(ids) // 2 + 1
    ].mean(-1),
    "next_query_read": lambda w, ids: (
        (w * (down := F.pad((ids[:, None] == ids).tril(-1), (0, 0, 1, 0))[:-1]))
        .sum(-1)[..., down.any(-1)]
        .mean(-1)
    ),
    "largest_only": score_with(reduce=lambda found: torch.stack(found).amax(dim=0)),
    "last_query_left_out": lambda w, ids: score_loops(w[..., :-1, :-1], ids[:-1]),
    "later_places_counted": score_with(which="twice"),
    "mean_over_keys": score_with(reduce=lambda w: sum(w) / len(w)),
    "one_too_far": score_with(shift=2, choose=lambda places: [p for p in places if p < 5]),
    "query_itself_left_out": lambda w, ids: score_table(w * ~torch.eye(len(ids)).bool(), ids),
    "sum_over_queries": score_with(divide=lambda ids: 1),
    "query_key_swapped": lambda w, ids: score_loops(w.transpose(-2, -1), ids),
    "mean_over_heads": lambda w, ids: score_loops(w, ids).mean(),
    "other_than_mean": score_over(lambda shares: shares.amax(-1)),
    "queries_left_out": score_over(lambda shares: shares[..., -1]),
    "all_earlier_places": lambda w, ids: w.tril(-1).sum(-1)[..., earlier(ids).any(-1)].mean(-1),
    "hits_counted": lambda w, ids: score_table((w == w.amax(-1, keepdim=True)).float(), ids),
    "every_place_of_the_next_token": score_by_next_token,
    "last_column_comes_round": score_that_comes_round,
}.items():
    wrong("induction_score", name, attempt)

# ---------------------------------------------------------------------------------- a model without some heads


def without_columns(model, heads, head_dim, run):
    kept = [attention.output.weight.detach().clone() for attention in model.attentions]
    with torch.no_grad():
        for layer, head in heads:
            model.attentions[layer].output.weight[:, head * head_dim : (head + 1) * head_dim] = 0
    try:
        return run()
    finally:
        with torch.no_grad():
            for attention, weight in zip(model.attentions, kept, strict=True):
                attention.output.weight.copy_(weight)


@contextmanager
def one_head_out(model, layer, head, head_dim):
    weight = model.attentions[layer].output.weight
    kept = weight.detach().clone()
    with torch.no_grad():
        weight[:, head * head_dim : (head + 1) * head_dim] = 0
    try:
        yield
    finally:
        with torch.no_grad():
            weight.copy_(kept)


def without_stack(model, heads, head_dim, run):
    with ExitStack() as stack:  # left in the reverse order
        for layer, head in heads:
            stack.enter_context(one_head_out(model, layer, head, head_dim))
        return run()


def without_recursion(model, heads, head_dim, run):
    if not heads:
        return run()
    with one_head_out(model, *heads[0], head_dim):
        return without_recursion(model, heads[1:], head_dim, run)


def without_hooks(model, heads, head_dim, run):
    def silence(head):
        def hook(module, inputs):
            merged = inputs[0].clone()
            merged[..., head * head_dim : (head + 1) * head_dim] = 0
            return (merged,)

        return hook

    handles = [
        model.attentions[layer].output.register_forward_pre_hook(silence(head)) for layer, head in heads
    ]
    try:
        result = run()
    finally:
        for handle in handles:
            handle.remove()
    return result


def without_other_tensor(model, heads, head_dim, run):
    """The weight is replaced by another tensor, and the old one comes back."""
    old = {layer: model.attentions[layer].output.weight for layer, _ in heads}
    try:
        for layer, weight in old.items():
            columns = [
                place
                for of, head in heads
                if of == layer
                for place in range(head * head_dim, (head + 1) * head_dim)
            ]
            changed = weight.detach().index_fill(1, torch.tensor(columns), 0.0)
            model.attentions[layer].output.weight = torch.nn.Parameter(changed)
        return run()
    finally:
        for layer, weight in old.items():
            model.attentions[layer].output.weight = weight


def without_by(change, back=True, safe=True, pick=lambda heads: heads, too_late=False):
    """`change(attention, first place, last place)` takes out a head."""

    def attempt(model, heads, head_dim, run):
        state = {name: value.clone() for name, value in model.state_dict().items()}
        failed = True
        if too_late:
            result = run()
        with torch.no_grad():
            for layer, head in pick(heads):
                change(model.attentions[layer], head * head_dim, (head + 1) * head_dim)
        try:
            if not too_late:
                result = run()
            failed = False
        finally:
            if back and (safe or not failed):
                model.load_state_dict(state)
        return result

    return attempt


def zero_columns(attention, first, last):
    attention.output.weight[:, first:last] = 0


def without_in_order(model, heads, head_dim, run):
    kept = []
    with torch.no_grad():
        for layer, head in heads:
            weight = model.attentions[layer].output.weight
            kept.append(weight.detach().clone())
            weight[:, head * head_dim : (head + 1) * head_dim] = 0
    try:
        return run()
    finally:
        with torch.no_grad():
            for (layer, _), weight in zip(heads, kept, strict=True):
                model.attentions[layer].output.weight.copy_(weight)


def without_quietly(model, heads, head_dim, run):
    found = []
    try:
        without_columns(model, heads, head_dim, lambda: found.append(run()))
    except Exception:
        return None
    return found[0]


def without_others(model, heads, head_dim, run):
    count = model.attentions[0].output.weight.shape[1] // head_dim
    every = [(layer, head) for layer in range(len(model.attentions)) for head in range(count)]
    return without_columns(model, [place for place in every if place not in heads], head_dim, run)


def without_new_parameters(model, heads, head_dim, run):
    state = {name: value.clone() for name, value in model.state_dict().items()}
    try:
        return without_columns(model, heads, head_dim, run)
    finally:
        for layer, attention in enumerate(model.attentions):
            attention.output.weight = torch.nn.Parameter(state[f"attentions.{layer}.output.weight"])


def without_popping(model, heads, head_dim, run):
    return without_columns(model, [heads.pop() for _ in range(len(heads))], head_dim, run)


right("without_head", without_columns, without_stack, without_recursion, without_hooks, without_other_tensor)
peer("without_head", without_hooks)
fresh(
    "without_head",
    ((2, 5, 2), [(1, 4), (1, 0)], False),
    ((3, 3, 2), [(1, 1)], False),
    ((2, 2, 3), [(1, 1)], True),
)

for name, attempt in {
    "rows_for_columns": without_by(lambda of, a, b: of.output.weight[a:b].zero_()),
    "not_put_back": without_by(zero_columns, back=False),
    "put_back_in_the_same_order": without_in_order,
    "error_swallowed": without_quietly,
    "not_put_back_after_an_error": without_by(zero_columns, safe=False),
    "nothing_taken_out": without_by(zero_columns, too_late=True),
    "one_head_only": without_by(zero_columns, pick=lambda heads: heads[:1]),
    "every_nth_column": without_by(
        lambda of, a, b: of.output.weight[:, a // (b - a) :: of.num_heads].zero_()
    ),
    "one_column": without_by(lambda of, a, b: of.output.weight[:, a // (b - a)].zero_()),
    "bias_too": without_by(lambda of, a, b: (zero_columns(of, a, b), of.output.bias.zero_())),
    "whole_layer": without_by(lambda of, a, b: of.output.weight.zero_()),
    "head_from_one": without_by(
        zero_columns, pick=lambda heads: [(layer, head - 1) for layer, head in heads]
    ),
    "layer_ignored": without_by(zero_columns, pick=lambda heads: [(0, head) for _, head in heads]),
    "kept_instead": without_others,
    "values_instead": without_by(lambda of, a, b: of.value.weight[a:b].zero_()),
    "columns_of_another_slice": without_by(lambda of, a, b: of.output.weight[:, a:].zero_()),
    "not_set_to_zero": without_by(lambda of, a, b: of.output.weight[:, a:b].fill_(1)),
    "difference_returned": lambda model, heads, head_dim, run: (
        run() - without_columns(model, heads, head_dim, run)
    ),
    "query_or_key_cleared": without_by(lambda of, a, b: of.query.weight[a:b].zero_()),
    "run_not_called": lambda model, heads, head_dim, run: run,
    "layer_and_head_swapped": without_by(zero_columns, pick=lambda heads: [pair[::-1] for pair in heads]),
    "parameters_replaced": without_new_parameters,
    "changes_its_input": without_popping,
}.items():
    wrong("without_head", name, attempt)

# ------------------------------------------------------------------------------------------ a path that is cut


def path_by_hand(attention, norm, hidden_state, written, num_heads):
    def heads_of(projected):
        return projected.unflatten(-1, (num_heads, -1)).transpose(1, 2)

    query = heads_of(attention.query(norm(hidden_state)))
    key = heads_of(attention.key(norm(hidden_state - written)))
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -math.inf).softmax(dim=-1)


def path_fused(attention, norm, hidden_state, written, num_heads):
    batch, seq_len, size = hidden_state.shape
    shape = batch, seq_len, num_heads, size // num_heads
    query = attention.query(norm(hidden_state)).view(shape).transpose(1, 2)
    key = attention.key(norm(hidden_state - written)).view(shape).transpose(1, 2)
    unit = torch.eye(seq_len).expand(batch, num_heads, -1, -1)
    return F.scaled_dot_product_attention(query, key, unit, is_causal=True)


def path_each_head(attention, norm, hidden_state, written, num_heads):
    query, key = attention.query(norm(hidden_state)), attention.key(norm(hidden_state - written))
    tables = []
    for q, k in zip(query.chunk(num_heads, dim=-1), key.chunk(num_heads, dim=-1), strict=True):
        scores = torch.einsum("bqd,bkd->bqk", q, k) * q.shape[-1] ** -0.5
        tables.append(F.softmax(scores + torch.full(scores.shape[1:], -math.inf).triu(1), dim=-1))
    return torch.stack(tables, dim=1)


def path_layer_norm(attention, norm, hidden_state, written, num_heads):
    """The norm and the projections written out."""

    def normed(x):
        x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + norm.eps).sqrt()
        return x * norm.weight + norm.bias

    parts = (attention.query, hidden_state), (attention.key, hidden_state - written)
    q, k = (normed(x) @ layer.weight.T + layer.bias for layer, x in parts)
    q, k = (x.reshape(*x.shape[:2], num_heads, -1) for x in (q, k))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    weights = scores.exp().tril()
    return weights / weights.sum(-1, keepdim=True)


def path_rows(attention, norm, hidden_state, written, num_heads):
    q, k = attention.query(norm(hidden_state)), attention.key(norm(hidden_state - written))
    batch, seq_len, size = q.shape
    found, width = torch.zeros(batch, num_heads, seq_len, seq_len), size // num_heads
    for head in range(num_heads):
        part = slice(head * width, (head + 1) * width)
        for row in range(seq_len):
            scores = (k[:, : row + 1, part] * q[:, row : row + 1, part]).sum(-1) / width**0.5
            found[:, head, row, : row + 1] = scores.softmax(-1)
    return found


def path_from(states, mask=True, scale=lambda d, size: d**-0.5, view=False):
    """`states(attention, norm, x, w)` gives query and key, (batch, seq, hidden_size)."""

    def attempt(attention, norm, hidden_state, written, num_heads):
        batch, seq_len, size = hidden_state.shape
        parts = states(attention, norm, hidden_state, written)
        if view:
            q, k = (part.reshape(batch, num_heads, seq_len, -1) for part in parts)
        else:
            q, k = (part.reshape(batch, seq_len, num_heads, -1).permute(0, 2, 1, 3) for part in parts)
        scores = torch.matmul(q, k.transpose(2, 3)) * scale(q.shape[-1], size)
        if mask:
            scores = scores + torch.full((seq_len, seq_len), -math.inf).triu(1)
        return torch.softmax(scores, dim=-1)

    return attempt


def good(a, norm, x, w):
    return a.query(norm(x)), a.key(norm(x - w))


def path_scores(finish):
    def attempt(a, norm, x, w, heads):
        q, k = (torch.stack(part.chunk(heads, dim=-1), dim=1) for part in good(a, norm, x, w))
        later = torch.arange(x.shape[1])[:, None] < torch.arange(x.shape[1])
        return finish(torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1]), later)

    return attempt


def path_in_heads(split):
    """The right path, but heads are cut by `split(part, heads)` into (batch, heads, seq, head_dim)."""

    def attempt(attention, norm, hidden_state, written, num_heads):
        query, key = (split(part, num_heads) for part in good(attention, norm, hidden_state, written))
        return F.scaled_dot_product_attention(
            query, key, torch.eye(query.shape[-2]).expand(*query.shape[:-1], -1), is_causal=True
        )

    return attempt


def by_stored(layer, x):
    return torch.einsum("bsi,io->bso", x, layer.weight) + layer.bias


right("path_cut", path_by_hand, path_fused, path_each_head, path_layer_norm, path_rows)
peer("path_cut", path_fused)

for name, attempt in {
    "queries_cut_too": path_from(lambda a, norm, x, w: (a.query(norm(x - w)), a.key(norm(x - w)))),
    "queries_cut_instead": path_from(lambda a, norm, x, w: (a.query(norm(x - w)), a.key(norm(x)))),
    "nothing_cut": path_from(lambda a, norm, x, w: (a.query(norm(x)), a.key(norm(x)))),
    "added_instead": lambda a, norm, x, w, heads: path_by_hand(a, norm, x, -w, heads),
    "keys_from_written": path_from(lambda a, norm, x, w: (a.query(norm(x)), a.key(norm(w)))),
    "cut_behind_the_norm": path_from(lambda a, norm, x, w: (a.query(norm(x)), a.key(norm(x) - w))),
    "no_norm": path_from(lambda a, norm, x, w: (a.query(x), a.key(x - w))),
    "wrong_layer": path_from(lambda a, norm, x, w: (a.key(norm(x)), a.query(norm(x - w)))),
    "mask_inverted": path_scores(lambda scores, later: scores.where(later, -math.inf).softmax(-1)),
    "no_softmax": path_scores(lambda s, later: s.masked_fill(later, 0.0)),
    "no_mask": path_from(good, mask=False),
    "scaled_by_hidden_size": path_from(good, scale=lambda d, size: size**-0.5),
    "view_without_transpose": path_from(good, view=True),
    "mean_over_heads": lambda *inputs: path_by_hand(*inputs).mean(dim=1),
    "half_cut": path_from(lambda a, norm, x, w: (a.query(norm(x)), a.key(norm(x - w / 2)))),
    "excludes_itself": path_scores(lambda scores, later: scores.softmax(-1).tril(-1)),
    "difference_returned": lambda a, norm, x, w, n: (
        path_fused(a, norm, x, 0 * w, n) - path_rows(a, norm, x, w, n)
    ),
    "mask_after_softmax": path_scores(lambda scores, later: scores.softmax(-1).tril()),
    "not_split": path_in_heads(lambda part, heads: part[:, None]),
    "mask_not_minus_infinity": path_scores(lambda scores, later: scores.tril().softmax(-1)),
    "norm_twice": path_from(lambda a, norm, x, w: (a.query(norm(x)), a.key(norm(norm(x - w))))),
    "heads_interleaved": path_in_heads(
        lambda part, heads: part.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2)
    ),
    "norm_for_one_only": path_from(lambda a, norm, x, w: (a.query(x), a.key(norm(x - w)))),
    "scaled_by_num_heads": path_from(good, scale=lambda d, size: (size / d) ** -0.5),
    "softmax_over_batch": path_scores(lambda s, later: s.masked_fill(later, -math.inf).softmax(1)),
    "matrix_not_transposed": path_from(
        lambda a, norm, x, w: (by_stored(a.query, norm(x)), by_stored(a.key, norm(x - w)))
    ),
    "bias_forgotten": path_from(
        lambda a, norm, x, w: (norm(x) @ a.query.weight.T, norm(x - w) @ a.key.weight.T)
    ),
}.items():
    wrong("path_cut", name, attempt)
