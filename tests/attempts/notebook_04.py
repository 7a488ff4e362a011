"""Attempts at the exercises of notebook 04."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .attention import causal, masked
from .tables import peer, right, wrong

# ------------------------------------------------------------------------------------------------ split_heads


def split_loops(projected, num_heads):
    size = projected.shape[-1] // num_heads
    return torch.stack([projected[:, :, h * size : (h + 1) * size] for h in range(num_heads)], dim=1)


right(
    "split_heads",
    split_loops,
    lambda x, n: x.view(*x.shape[:2], n, -1).transpose(1, 2),
    lambda x, n: x.unflatten(-1, (n, -1)).permute(0, 2, 1, 3),
    lambda x, n: torch.from_numpy(x.numpy().reshape(len(x), x.shape[1], n, -1).swapaxes(1, 2)),
    lambda x, n: x.unfold(-1, x.shape[-1] // n, x.shape[-1] // n).swapaxes(1, 2),
    lambda x, n: torch.stack(x.split(x.shape[-1] // n, dim=2)).movedim(0, 1),
)
peer("split_heads", lambda x, n: torch.stack(torch.tensor_split(x, n, -1), 1))
wrong(
    "split_heads",
    view_without_transpose=lambda x, n: torch.stack([part.reshape(n, part.shape[0], -1) for part in x]),
    transposed_before_cut=lambda x, n: x.transpose(1, 2).reshape(len(x), n, x.shape[1], -1),
    heads_interleaved=lambda x, n: torch.stack([x[..., head::n] for head in range(n)], dim=1),
    heads_not_in_front=lambda x, n: x.view(*x.shape[:2], n, x.shape[2] // n),
    heads_before_batch=lambda x, n: torch.stack(x.split(x.shape[2] // n, dim=-1)),
    head_axes_exchanged=lambda x, n: x.transpose(1, 2).unflatten(1, (n, -1)),
    sizes_exchanged=lambda x, n: x.view(*x.shape[:2], -1, n).transpose(1, 2),
    tokens_cut=lambda x, n: torch.stack(x.split(-(-x.shape[1] // n), 1), 1),
    heads_in_another_order=lambda x, n: split_loops(x, n).flip(1),
    cut_and_put_together=lambda x, n: torch.cat(x.chunk(n, -1), 1),
    heads_overlap=lambda x, n: x.unfold(-1, x.shape[-1] // n, 1)[:, :, :n].swapaxes(1, 2),
    one_head_only=lambda x, n: x[..., : x.shape[-1] // n],
)

# --------------------------------------------------------------------------------------- multi_head_attention


class Heads(nn.Module):
    """All heads at once. A subclass changes one step."""

    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        for name in ("query", "key", "value", "output"):
            setattr(self, name, nn.Linear(hidden_size, hidden_size))

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.num_heads, -1).transpose(1, 2)

    def merge(self, x):
        return x.transpose(1, 2).flatten(2)

    def scale(self, query):
        return math.sqrt(query.shape[-1])

    def mask(self, scores, mask):
        return masked(scores, mask)

    def weigh(self, scores, mask):
        return self.mask(scores, mask).softmax(-1)

    def project(self, x):
        return self.query(x), self.key(x), self.value(x)

    def last(self, merged, x):
        return self.output(merged)

    def forward(self, hidden_state, mask=None):
        query, key, value = map(self.split, self.project(hidden_state))
        weights = self.weigh(query @ key.mT / self.scale(query), mask)
        return self.last(self.merge(weights @ value), hidden_state), weights


def stepped(base=Heads, **steps):
    return type("Stepped", (base,), steps)


def with_layers(layers, **steps):
    """Heads whose linear layers are made by `layers(hidden_size, num_heads)`: (name, takes, makes) each."""

    class Other(Heads):
        def __init__(self, hidden_size, num_heads):
            super().__init__(hidden_size, num_heads)
            for name, takes, makes in layers(hidden_size, num_heads):
                setattr(self, name, nn.Linear(takes, makes))

    return stepped(Other, **steps)


def returning(change):
    return stepped(forward=lambda self, *given: change(Heads.forward(self, *given)))


def filled(number):
    return stepped(mask=lambda self, scores, mask: masked(scores, mask, number))


def late(self, scores, mask):
    return scores.softmax(-1) if mask is None else scores.softmax(-1) * mask


def again(self, scores, mask):
    return F.normalize(late(self, scores, mask), p=1, dim=-1)


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
        return framework(self, hidden_state, mask, average_attn_weights=True)  # weights are a mean over heads


class OneHead(nn.Module):
    def __init__(self, hidden_size, head_dim):
        super().__init__()
        self.query = nn.Linear(hidden_size, head_dim)
        self.key = nn.Linear(hidden_size, head_dim)
        self.value = nn.Linear(hidden_size, head_dim)

    def forward(self, hidden_state, mask=None):
        query, key, value = self.query(hidden_state), self.key(hidden_state), self.value(hidden_state)
        return masked(query @ key.mT / math.sqrt(query.shape[-1]), mask).softmax(dim=-1) @ value


class HeadsList(nn.Module):
    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.heads = nn.ModuleList(OneHead(hidden_size, hidden_size // num_heads) for _ in range(num_heads))
        self.output = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_state, mask=None):
        return self.output(torch.cat([head(hidden_state, mask) for head in self.heads], dim=-1))


class ManyHeads(HeadsList):
    """Each head in a container that is called in order by hand."""

    def __init__(self, hidden_size, num_heads):
        super().__init__(hidden_size, num_heads)
        self.heads = nn.Sequential(*self.heads)


class OutputInTerms(Heads):
    """The output projection as a sum of one term for each head, as the notebook shows."""

    def forward(self, hidden_state, mask=None):
        query, key, value = (self.split(part(hidden_state)) for part in (self.query, self.key, self.value))
        scores = self.mask(query / self.scale(query) @ key.mT, mask)
        per_head = torch.exp(scores - scores.logsumexp(-1, keepdim=True)) @ value
        columns = self.output.weight.chunk(self.num_heads, dim=1)
        return sum(per_head[:, h] @ columns[h].T for h in range(self.num_heads)) + self.output.bias


class NoBias(Heads):
    def __init__(self, hidden_size, num_heads):
        super().__init__(hidden_size, num_heads)
        for name in ("query", "key", "value", "output"):
            setattr(self, name, nn.Linear(hidden_size, hidden_size, bias=False))


class Fused(Heads):
    def forward(self, hidden_state, mask=None):
        mask = None if mask is None else torch.zeros(mask.shape).masked_fill(~mask, -math.inf)
        found = F.scaled_dot_product_attention(*map(self.split, self.project(hidden_state)), mask)
        return self.output(self.merge(found))


class LoopOfHeads(Heads):
    def forward(self, hidden_state, mask=None):
        size, outputs = hidden_state.shape[-1] // self.num_heads, []
        query, key, value = self.project(hidden_state)
        for head in range(self.num_heads):
            part = slice(head * size, head * size + size)
            scores = query[..., part] @ key[..., part].mT / size**0.5
            outputs.append(masked(scores, mask).softmax(-1) @ value[..., part])
        return self.output(torch.cat(outputs, dim=-1))


right("multi_head_attention", Heads, HeadsEinsum, HeadsFramework, HeadsList, NoBias, ManyHeads)
right(
    "multi_head_attention",
    *(OutputInTerms, Fused, LoopOfHeads, returning(list), returning(lambda both: both[:1]), filled(-1e9)),
    filled(torch.finfo(torch.float32).min),
)


def framework(module, hidden_state, mask=None, average_attn_weights=False):
    """Return what nn.MultiheadAttention computes with the weights of a solution."""
    layers = module.query, module.key, module.value
    own = nn.MultiheadAttention(hidden_state.shape[-1], module.num_heads, batch_first=True).eval()
    own.in_proj_weight.data = torch.cat([layer.weight for layer in layers])
    own.in_proj_bias.data = torch.cat([layer.bias for layer in layers])
    own.out_proj = module.output
    mask = None if mask is None else ~mask  # there True means: may not be attended to
    return own(*[hidden_state] * 3, attn_mask=mask, average_attn_weights=average_attn_weights)


peer("multi_head_attention", framework)


class PlainList(HeadsList):
    def __init__(self, hidden_size, num_heads):
        super().__init__(hidden_size, num_heads)
        self.heads = list(self._modules.pop("heads"))


class WideHeads(HeadsList):
    def __init__(self, hidden_size, num_heads):
        super().__init__(hidden_size, num_heads)
        self.heads = nn.ModuleList(OneHead(hidden_size, hidden_size) for _ in range(num_heads))
        self.output = nn.Linear(hidden_size * num_heads, hidden_size)


class MaskUsedUp(HeadsList):
    def forward(self, hidden_state, mask=None):
        masks = [mask, *[None] * (len(self.heads) - 1)]
        outputs = [head(hidden_state, one) for head, one in zip(self.heads, masks, strict=True)]
        return self.output(torch.cat(outputs, dim=-1))


SMALL = lambda hidden, heads: [(name, hidden, hidden // heads) for name in ("query", "key", "value")]  # noqa: E731
SLICES = lambda hidden, heads: [(name, *[hidden // heads] * 2) for name in ("query", "key", "value")]  # noqa: E731
wrong(
    "multi_head_attention",
    heads_in_plain_list=PlainList,
    heads_too_wide=WideHeads,
    mask_only_for_one_head=MaskUsedUp,
    mask_times_infinity=stepped(mask=lambda self, s, m: s if m is None else s + (1 - m.float()) * -math.inf),
    weights_first=returning(lambda both: both[::-1]),
    value_ignored=returning(lambda both: both[1]),
    heads_get_slices=with_layers(SLICES),
    sizes_of_one_model=with_layers(lambda *_: [(name, 6, 6) for name in ("query", "key", "value", "output")]),
    one_layer_twice=stepped(
        __init__=lambda s, *n: [Heads.__init__(s, *n), setattr(s, "key", s.query)].clear()
    ),
    heads_share_weights=with_layers(
        SMALL, split=lambda self, x: x[:, None].expand(-1, self.num_heads, -1, -1)
    ),
    heads_summed_not_concatenated=with_layers(
        lambda hidden, heads: [("output", hidden // heads, hidden)], merge=lambda self, x: x.mean(dim=1)
    ),
    view_without_transpose=stepped(split=lambda self, x: x.view(len(x), self.num_heads, x.shape[1], -1)),
    transposed_before_cut=stepped(split=lambda self, x: x.mT.reshape(len(x), self.num_heads, x.shape[1], -1)),
    heads_over_tokens=stepped(
        split=lambda self, x: x.view(*x.shape[:2], self.num_heads, -1),
        merge=lambda self, x: x.reshape(*x.shape[:2], -1),
        weigh=lambda self, scores, mask: scores.softmax(-1),
    ),
    merge_without_transpose=stepped(merge=lambda self, x: x.reshape(x.shape[0], x.shape[2], -1)),
    heads_interleaved=stepped(
        split=lambda self, x: x.view(*x.shape[:2], -1, self.num_heads).permute(0, 3, 1, 2)
    ),
    not_split=stepped(split=lambda self, x: x[:, None]),
    heads_in_another_order=stepped(merge=lambda self, x: torch.cat(x.unbind(1)[::-1], -1)),
    scaled_by_hidden_size=stepped(scale=lambda self, query: math.sqrt(self.query.out_features)),
    scaled_by_num_heads=stepped(scale=lambda self, query: math.sqrt(query.shape[1])),
    scaled_by_sequence_length=stepped(scale=lambda self, query: math.sqrt(query.shape[2])),
    no_scaling=stepped(scale=lambda self, query: 1),
    scaled_by_d=stepped(scale=lambda self, query: query.shape[-1]),
    multiplied_by_root=stepped(scale=lambda self, query: query.shape[-1] ** -0.5),
    multiplied_by_d=stepped(scale=lambda self, query: 1 / query.shape[-1]),
    scaled_by_a_constant=stepped(scale=lambda self, query: 8),
    no_softmax=stepped(weigh=lambda self, scores, mask: masked(scores, mask, 0)),
    softmax_twice=stepped(weigh=lambda self, scores, mask: masked(scores, mask).softmax(-1).softmax(-1)),
    softmax_over_queries=stepped(weigh=lambda self, scores, mask: masked(scores, mask).softmax(2)),
    softmax_over_batch=stepped(weigh=lambda self, scores, mask: masked(scores, mask).softmax(1)),
    overflow_on_large_scores=stepped(
        weigh=lambda self, s, mask: masked(s, mask).exp() / masked(s, mask).exp().sum(-1)[..., None]
    ),
    each_score_alone=stepped(weigh=lambda self, scores, mask: torch.sigmoid(masked(scores, mask))),
    scores_changed=stepped(weigh=lambda self, scores, mask: masked(scores.clamp(min=0), mask).softmax(-1)),
    causal_mask_added=stepped(weigh=lambda self, scores, mask: causal(masked(scores, mask))),
    query_key_swapped=stepped(project=lambda self, x: (self.key(x), self.query(x), self.value(x))),
    layers_mixed_up=stepped(project=lambda self, x: (self.query(x), self.value(x), self.key(x))),
    query_unused=stepped(project=lambda self, x: (x, self.key(x), self.value(x))),
    key_unused=stepped(project=lambda self, x: (self.query(x), x, self.value(x))),
    value_unused=stepped(project=lambda self, x: (self.query(x), self.key(x), x)),
    layers_unused=stepped(project=lambda self, x: (x, x, self.value(x))),
    bias_forgotten=stepped(
        project=lambda self, x: [x @ layer.weight.T for layer in (self.query, self.key, self.value)]
    ),
    matrix_not_transposed=stepped(
        last=lambda self, merged, x: merged @ self.output.weight + self.output.bias
    ),
    projected_twice=stepped(last=lambda self, merged, x: self.output(self.output(merged))),
    residual_added=stepped(last=lambda self, merged, x: self.output(merged) + x),
    no_output_projection=stepped(last=lambda self, merged, x: merged),
    mask_ignored=stepped(mask=lambda self, scores, mask: scores),
    mask_inverted=stepped(mask=lambda self, scores, mask: scores if mask is None else masked(scores, ~mask)),
    mask_turned=stepped(mask=lambda self, scores, mask: scores if mask is None else masked(scores, mask.T)),
    mask_of_one_query=stepped(
        mask=lambda self, scores, mask: scores if mask is None else masked(scores, mask[0])
    ),
    mask_after_softmax=stepped(weigh=late),
    renormalised_after_softmax=stepped(weigh=again),
    mask_not_minus_infinity=filled(-1.0),
    changes_its_input=stepped(
        mask=lambda self, scores, mask: (
            scores if mask is None else scores.masked_fill(mask.logical_not_(), -math.inf)
        )
    ),
)
