"""Attempts at the exercises of notebook 12."""

import copy
import math
from contextlib import ExitStack, suppress

import torch
import torch.nn.functional as F

from .tables import fresh, peer, right, wrong


def earlier(input_ids):
    return (input_ids[:, None] == input_ids).tril(diagonal=-1)


def score_table(attn_weights, input_ids):
    shares = (attn_weights * F.pad(earlier(input_ids), (1, 0))[:, :-1]).sum(dim=-1)
    return shares[..., earlier(input_ids).any(dim=-1)].mean(dim=-1)


def score_einsum(attn_weights, input_ids):
    one_hot = F.one_hot(input_ids).to(attn_weights.dtype)
    same = torch.tril(one_hot @ one_hot.T, -1)
    counted = (same.sum(dim=1) > 0).to(attn_weights.dtype)
    return torch.einsum("lhqk,qk,q->lh", attn_weights[..., 1:], same[:, :-1], counted) / counted.sum()


def score_rolled(attn_weights, input_ids):
    same = earlier(input_ids)
    on_next = attn_weights.roll(-1, dims=-1).masked_fill(~same, 0.0).sum(-1)  # the key behind each place
    return torch.tensor([[head[same.any(1)].mean() for head in layer] for layer in on_next])


def score_with(shift=1, choose=lambda keys: keys, reduce=sum, least=2, divide=len):
    def attempt(attn_weights, input_ids):
        ids, shares = input_ids.tolist(), []
        for query, token in enumerate(ids):
            keys = [place + shift for place in range(query) if ids[place] == token]
            if keys or least == 0 or (least == 1 and ids.count(token) > 1):
                weights = [attn_weights[..., query, key] for key in choose(keys) if key >= 0]
                shares.append(reduce(weights) if weights else torch.zeros(attn_weights.shape[:2]))
        return sum(shares) / divide(shares)

    return attempt


def score_over(together):
    return lambda w, ids: together((w[..., 1:] * earlier(ids)[:, :-1]).sum(-1)[..., earlier(ids).any(-1)])


def score_at(keys):
    return lambda w, ids: (w * keys(ids, ids[:, None] == ids)).sum(-1)[..., earlier(ids).any(-1)].mean(-1)


def score_round(w, ids):
    after = (ids[:, None] == ids).roll(1, -1).tril()
    return (w * after).sum(-1)[..., after.any(-1)].mean(-1)


right("induction_score", score_with(), score_table, score_einsum, score_rolled)
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
wrong(
    "induction_score",
    earlier_place_itself=score_with(shift=0),
    token_before_it=score_with(shift=-1),
    first_place_only=score_with(choose=lambda places: places[:1]),
    last_place_only=score_with(choose=lambda places: places[-1:]),
    all_queries_counted=score_with(least=0),
    fixed_distance=lambda w, ids: w[..., (q := torch.arange(len(ids) // 2, len(ids))), q - q[0] + 1].mean(-1),
    next_query_read=lambda w, ids: (
        (w[..., 1:, :] * earlier(ids).roll(1, -1)[:-1]).sum(-1)[..., earlier(ids)[:-1].any(-1)].mean(-1)
    ),
    largest_only=score_with(reduce=lambda found: torch.stack(found).amax(dim=0)),
    last_query_left_out=lambda w, ids: score_table(w[..., :-1, :-1], ids[:-1]),
    later_places_counted=score_with(least=1),
    mean_over_keys=score_with(reduce=lambda w: sum(w) / len(w)),
    one_too_far=score_with(shift=2, choose=lambda places: [p for p in places if p < 7]),
    query_itself_left_out=lambda w, ids: score_table(w * ~torch.eye(len(ids)).bool(), ids),
    sum_over_queries=score_with(divide=lambda shares: 1),
    query_key_swapped=lambda w, ids: score_table(w.transpose(-2, -1), ids),
    mean_over_heads=lambda w, ids: score_table(w, ids).mean(),
    other_than_mean=score_over(lambda shares: shares.amax(-1)),
    queries_left_out=score_over(lambda shares: shares[..., -1]),
    all_earlier_places=score_at(lambda ids, same: (same | True).tril(-1)),
    hits_counted=lambda w, ids: score_table((w == w.amax(-1, keepdim=True)).float(), ids),
    every_place_of_the_next_token=score_at(lambda ids, same: F.pad(same, (0, 0, 0, 1))[1:]),
    last_column_comes_round=score_round,
)


def head_columns(head, head_dim):
    return slice(head * head_dim, (head + 1) * head_dim)


def without_stack(model, heads, head_dim, run):
    with ExitStack() as stack:  # left in the reverse order
        for layer, head in heads:
            weight = model.attentions[layer].output.weight.data
            stack.callback(weight.copy_, weight.clone())
            weight[:, head_columns(head, head_dim)] = 0
        return run()


def without_hooks(model, heads, head_dim, run):
    def silence(head):
        zeros = lambda x: x.index_fill(-1, torch.arange(x.shape[-1])[head_columns(head, head_dim)], 0)  # noqa: E731
        return lambda module, inputs: (zeros(inputs[0]),)

    with ExitStack() as stack:
        for place, head in heads:
            stack.callback(model.attentions[place].output.register_forward_pre_hook(silence(head)).remove)
        return run()


def without_other_tensor(model, heads, head_dim, run):
    with ExitStack() as stack:
        for layer, head in heads:
            output = model.attentions[layer].output
            stack.callback(setattr, output, "weight", output.weight)
            output.weight = torch.nn.Parameter(output.weight.detach().clone())
            output.weight.data[:, head_columns(head, head_dim)] = 0
        return run()


def without_by(change, back=ExitStack.callback, pick=lambda heads: heads):
    def attempt(model, heads, head_dim, run):
        state = {name: value.clone() for name, value in model.state_dict().items()}
        with ExitStack() as stack, torch.no_grad():
            for layer, head in pick(heads):
                change(model.attentions[layer], head * head_dim, (head + 1) * head_dim)
            back(stack, model.load_state_dict, state)
            return run()

    return attempt


def zero_columns(attention, first, last):
    attention.output.weight[:, first:last] = 0


without_columns = without_by(zero_columns)


def without_in_order(model, heads, head_dim, run):
    kept = []
    with ExitStack() as stack:
        stack.callback(lambda: [weight.copy_(before) for weight, before in kept])
        for layer, head in heads:
            weight = model.attentions[layer].output.weight.data
            kept.append((weight, weight.clone()))
            weight[:, head_columns(head, head_dim)] = 0
        return run()


def without_late(model, *rest):
    state = copy.deepcopy(model.state_dict())
    result = without_by(zero_columns, back=lambda *_: None)(model, *rest)
    model.load_state_dict(state)
    return result


def without_quietly(*inputs):
    with suppress(Exception):
        return without_columns(*inputs)


def without_others(model, heads, head_dim, run):
    every = [(layer, head) for layer, of in enumerate(model.attentions) for head in range(of.num_heads)]
    return without_columns(model, [place for place in every if place not in heads], head_dim, run)


def without_new_parameters(model, *rest):
    with ExitStack() as stack:
        for of in model.attentions:
            stack.callback(
                setattr, of.output, "weight", torch.nn.Parameter(of.output.weight.detach().clone())
            )
        return without_columns(model, *rest)


right("without_head", without_columns, without_stack, without_hooks, without_other_tensor)
peer("without_head", without_hooks)
fresh(
    "without_head",
    ((2, 5, 2), [(1, 4), (1, 0)], False),
    ((3, 3, 2), [(1, 1)], False),
    ((2, 2, 3), [(1, 1)], True),
)
wrong(
    "without_head",
    rows_for_columns=without_by(lambda of, a, b: of.output.weight[a:b].zero_()),
    not_put_back=without_by(zero_columns, back=lambda *_: None),
    put_back_in_the_same_order=without_in_order,
    error_swallowed=without_quietly,
    not_put_back_after_an_error=without_late,
    nothing_taken_out=lambda model, *rest: (rest[-1](), without_columns(model, *rest))[0],
    one_head_only=without_by(zero_columns, pick=lambda heads: heads[:1]),
    every_nth_column=without_by(lambda of, a, b: of.output.weight[:, a // (b - a) :: of.num_heads].zero_()),
    one_column=without_by(lambda of, a, b: of.output.weight[:, a // (b - a)].zero_()),
    bias_too=without_by(lambda of, a, b: (zero_columns(of, a, b), of.output.bias.zero_())),
    whole_layer=without_by(lambda of, a, b: of.output.weight.zero_()),
    head_from_one=without_by(zero_columns, pick=lambda heads: [(layer, head - 1) for layer, head in heads]),
    layer_ignored=without_by(zero_columns, pick=lambda heads: [(0, head) for _, head in heads]),
    kept_instead=without_others,
    values_instead=without_by(lambda of, a, b: of.value.weight[a:b].zero_()),
    columns_of_another_slice=without_by(lambda of, a, b: of.output.weight[:, a:].zero_()),
    not_set_to_zero=without_by(lambda of, a, b: of.output.weight[:, a:b].fill_(1)),
    difference_returned=lambda *given: given[-1]() - without_columns(*given),
    query_or_key_cleared=without_by(lambda of, a, b: of.query.weight[a:b].zero_()),
    run_not_called=lambda model, heads, head_dim, run: run,
    layer_and_head_swapped=without_by(zero_columns, pick=lambda heads: [pair[::-1] for pair in heads]),
    parameters_replaced=without_new_parameters,
    changes_its_input=lambda model, heads, *rest: (without_columns(model, heads, *rest), heads.pop())[0],
)


def good(a, norm, x, w):
    return a.query(norm(x)), a.key(norm(x - w))


def in_heads(part, heads):
    return part.unflatten(-1, (heads, -1)).transpose(1, 2)


def path_fused(attention, norm, hidden_state, written, num_heads):
    query, key = (in_heads(part, num_heads) for part in good(attention, norm, hidden_state, written))
    unit = torch.eye(hidden_state.shape[1]).expand(*query.shape[:-1], -1)
    return F.scaled_dot_product_attention(query, key, unit, is_causal=True)


def path_layer_norm(attention, norm, hidden_state, written, num_heads):
    def normed(x):
        x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + norm.eps).sqrt()
        return x * norm.weight + norm.bias

    parts = (attention.query, hidden_state), (attention.key, hidden_state - written)
    q, k = (normed(x) @ layer.weight.T + layer.bias for layer, x in parts)
    q, k = (x.reshape(*x.shape[:2], num_heads, -1) for x in (q, k))
    weights = (torch.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5).exp().tril()
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


def softmax(scores, later):
    return scores.masked_fill(later, -math.inf).softmax(-1)


def path(states=good, split=in_heads, scale=lambda d, size: d**-0.5, finish=softmax):
    def attempt(attention, norm, hidden_state, written, num_heads):
        q, k = (split(part, num_heads) for part in states(attention, norm, hidden_state, written))
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * scale(q.shape[-1], hidden_state.shape[-1])
        return finish(scores, torch.ones(scores.shape[-2:]).triu(1).bool())

    return attempt


def added(scores, later):
    return F.softmax(scores + torch.full(scores.shape[-2:], -math.inf).triu(1), dim=-1)


right("path_cut", path(), path_fused, path_layer_norm, path_rows)
right("path_cut", path(split=lambda part, n: torch.stack(part.chunk(n, dim=-1), dim=1), finish=added))
peer("path_cut", path_fused)
wrong(
    "path_cut",
    values_for_keys=path(lambda a, norm, x, w: (a.query(norm(x)), a.value(norm(x - w)))),
    heads_not_in_front=path(split=lambda part, heads: part.unflatten(-1, (heads, -1))),
    queries_cut_too=path(lambda a, norm, x, w: (a.query(norm(x - w)), a.key(norm(x - w)))),
    queries_cut_instead=path(lambda a, norm, x, w: (a.query(norm(x - w)), a.key(norm(x)))),
    nothing_cut=path(lambda a, norm, x, w: (a.query(norm(x)), a.key(norm(x)))),
    added_instead=lambda a, norm, x, w, heads: path()(a, norm, x, -w, heads),
    keys_from_written=path(lambda a, norm, x, w: (a.query(norm(x)), a.key(norm(w)))),
    cut_behind_the_norm=path(lambda a, norm, x, w: (a.query(norm(x)), a.key(norm(x) - w))),
    no_norm=path(lambda a, norm, x, w: (a.query(x), a.key(x - w))),
    wrong_layer=path(lambda a, norm, x, w: (a.key(norm(x)), a.query(norm(x - w)))),
    mask_inverted=path(finish=lambda scores, later: scores.where(later, -math.inf).softmax(-1)),
    no_softmax=path(finish=lambda s, later: s.masked_fill(later, 0.0)),
    no_mask=path(finish=lambda scores, later: scores.softmax(-1)),
    scaled_by_hidden_size=path(scale=lambda d, size: size**-0.5),
    view_without_transpose=path(split=lambda part, n: part.reshape(len(part), n, part.shape[1], -1)),
    mean_over_heads=lambda *inputs: path()(*inputs).mean(dim=1),
    half_cut=path(lambda a, norm, x, w: (a.query(norm(x)), a.key(norm(x - w / 2)))),
    excludes_itself=path(finish=lambda scores, later: scores.softmax(-1).tril(-1)),
    difference_returned=lambda *given: (
        path(lambda a, norm, x, w: good(a, norm, x, 0))(*given) - path_rows(*given)
    ),
    mask_after_softmax=path(finish=lambda scores, later: scores.softmax(-1).tril()),
    not_split=path(split=lambda part, heads: part[:, None]),
    mask_not_minus_infinity=path(finish=lambda scores, later: scores.tril().softmax(-1)),
    norm_twice=path(lambda a, norm, x, w: (a.query(norm(x)), a.key(norm(norm(x - w))))),
    heads_interleaved=path(split=lambda part, heads: part.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2)),
    norm_for_one_only=path(lambda a, norm, x, w: (a.query(x), a.key(norm(x - w)))),
    scaled_by_num_heads=path(scale=lambda d, size: (size / d) ** -0.5),
    softmax_over_batch=path(finish=lambda s, later: s.masked_fill(later, -math.inf).softmax(1)),
    matrix_not_transposed=path(
        lambda a, norm, x, w: [norm(y) @ of.weight + of.bias for of, y in ((a.query, x), (a.key, x - w))]
    ),
    bias_forgotten=path(
        lambda a, norm, x, w: [F.linear(norm(y), of.weight) for of, y in ((a.query, x), (a.key, x - w))]
    ),
)
