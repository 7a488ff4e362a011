"""Attempts at the exercises of notebook 04."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .attention import masked
from .tables import combined, right, unlisted, wrong

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
    lambda x, n: torch.stack(x.chunk(n, dim=-1), dim=-1),
)
wrong(
    "split_heads",
    "heads_before_batch",
    lambda x, n: torch.stack(x.chunk(n, dim=-1)),
    lambda x, n: x.view(*x.shape[:2], n, -1).permute(2, 0, 1, 3),
)
wrong(
    "split_heads",
    "head_axes_exchanged",
    lambda x, n: split_loops(x, n).mT,
    lambda x, n: x.transpose(1, 2).unflatten(1, (n, -1)),
    lambda x, n: x.view(*x.shape[:2], n, -1).permute(0, 2, 3, 1),
)
wrong(
    "split_heads",
    "sizes_exchanged",
    lambda x, n: torch.stack(x.split(n, dim=-1), dim=1),
    lambda x, n: x.view(*x.shape[:2], -1, n).transpose(1, 2),
)
wrong(
    "split_heads",
    "tokens_cut",
    lambda x, n: torch.stack(x.chunk(n, dim=1), dim=1),
    lambda x, n: x.view(x.shape[0], n, x.shape[1] // n, x.shape[2]),
)
unlisted(
    "split_heads",
    lambda x, n: split_loops(x, n).squeeze(),
    lambda x, n: split_loops(x, 3),
    lambda x, n: x.unflatten(-1, (-1, 2)).transpose(1, 2),
    lambda x, n: x.chunk(n, dim=-1),
    lambda x, n: split_loops(x, n).tolist(),
    lambda x, n: split_loops(x, n).numpy(),
)


# --------------------------------------------------------------------------------------- multi_head_attention


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


class LeftAlone(Heads):
    """What comes out of the heads is the input once more."""

    def forward(self, hidden_state, mask=None):
        return self.output(hidden_state)


class LastTokenOnly(Heads):
    def forward(self, hidden_state, mask=None):
        return super().forward(hidden_state, mask)[0][:, -1]


class ListReturned(Heads):
    def forward(self, hidden_state, mask=None):
        return super().forward(hidden_state, mask)[0].tolist()


unlisted("multi_head_attention", OtherNames, LeftAlone, LastTokenOnly, ListReturned)
wrong("multi_head_attention", "mask_inverted", Inverted)
wrong("multi_head_attention", "heads_too_wide", WideHeads)
combined("multi_head_attention", ("view_without_transpose", "scaled_by_hidden_size"), TwoMistakes)


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
wrong("multi_head_attention", "merge_without_transpose", MergedByPermute)
wrong("multi_head_attention", "scaled_by_d", ScaleTwice)


class Steps(Heads):
    """Like `Heads`; a subclass names the layer of each part, or replaces the weights or what comes last."""

    parts = ("query", "key", "value")

    def weigh(self, query, key, mask):
        return self.mask(query @ key.mT / self.scale(query), mask).softmax(dim=-1)

    def last(self, merged, hidden_state):
        return self.output(merged)

    def forward(self, hidden_state, mask=None):
        query, key, value = (self.split(getattr(self, name)(hidden_state)) for name in self.parts)
        return self.last(self.merge(self.weigh(query, key, mask) @ value), hidden_state)


def stepped(**steps):
    return type("Stepped", (Steps,), steps)


def weighed(scores_of):
    """Weights by hand, from the scores."""

    def weigh(self, query, key, mask):
        return scores_of(query @ key.mT / math.sqrt(query.shape[-1]), mask)

    return stepped(weigh=weigh)


def after(scores, mask):
    weights = scores.softmax(-1)
    return weights if mask is None else weights * mask


def filled(number):
    return lambda scores, mask: masked(scores, mask, number).softmax(-1)


def no_mask_argument(self, scores, mask):
    return scores


class AsList(Heads):
    def forward(self, hidden_state, mask=None):
        return list(super().forward(hidden_state, mask))


class Alone(Heads):
    def forward(self, hidden_state, mask=None):
        return (super().forward(hidden_state, mask)[0],)


class NoBias(HeadsFused):
    def __init__(self, hidden_size, num_heads):
        super().__init__(hidden_size, num_heads)
        for name in ("query", "key", "value", "output"):
            setattr(self, name, nn.Linear(hidden_size, hidden_size, bias=False))


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


class PeerInside(Heads):
    def forward(self, hidden_state, mask=None):
        mask = None if mask is None else torch.zeros(mask.shape).masked_fill(~mask, -math.inf)
        parts = [self.split(part(hidden_state)) for part in (self.query, self.key, self.value)]
        return self.output(self.merge(F.scaled_dot_product_attention(*parts, mask)))


right("multi_head_attention", AsList, Alone, NoBias, ManyHeads, OutputInTerms, PeerInside, Steps)
right("multi_head_attention", weighed(filled(-1e9)), weighed(filled(torch.finfo(torch.float32).min)))


class PlainList(HeadsList):
    container = list

    def __init__(self, hidden_size, num_heads):
        super().__init__(hidden_size, num_heads)
        heads = self.container(self.heads)
        del self.heads
        self.heads = heads


class SlicedInput(HeadsList):
    def __init__(self, hidden_size, num_heads):
        super().__init__(hidden_size, num_heads)
        size = hidden_size // num_heads
        self.heads = nn.ModuleList(OneHead(size, size) for _ in range(num_heads))

    def forward(self, hidden_state, mask=None):
        pieces = hidden_state.chunk(len(self.heads), dim=-1)
        outputs = [head(piece, mask) for head, piece in zip(self.heads, pieces, strict=True)]
        return self.output(torch.cat(outputs, dim=-1))


class SlicedAndShared(Heads):
    """One small layer for the slices of all heads, as a well-known video writes it."""

    def __init__(self, hidden_size, num_heads):
        super().__init__(hidden_size, num_heads)
        size = hidden_size // num_heads
        self.query, self.key, self.value = (nn.Linear(size, size) for _ in range(3))

    def forward(self, hidden_state, mask=None):
        cut = self.split(hidden_state)
        query, key, value = self.query(cut), self.key(cut), self.value(cut)
        return self.output(self.merge(F.scaled_dot_product_attention(query, key, value, mask)))


class OneKeyForAll(Heads):
    """Keys and values of one head for all: multi-query attention."""

    def __init__(self, hidden_size, num_heads):
        super().__init__(hidden_size, num_heads)
        self.key, self.value = (nn.Linear(hidden_size, hidden_size // num_heads) for _ in range(2))

    def forward(self, hidden_state, mask=None):
        query = self.split(self.query(hidden_state))
        key, value = self.key(hidden_state)[:, None], self.value(hidden_state)[:, None]
        weights = masked(query @ key.mT / self.scale(query), mask).softmax(-1)
        return self.output(self.merge(weights @ value))


def interleaved_in(self, x):
    return x.view(*x.shape[:2], -1, self.num_heads).permute(0, 3, 1, 2)


def interleaved_out(self, x):
    return x.permute(0, 2, 3, 1).flatten(2)


class NoSplit(Steps):
    def split(self, x):
        return x[:, None]


class NoSplitFused(Heads):
    def forward(self, hidden_state, mask=None):
        parts = self.query(hidden_state), self.key(hidden_state), self.value(hidden_state)
        return self.output(F.scaled_dot_product_attention(*parts, attn_mask=mask))


def fused(scale=1.0, change=lambda mask: mask):
    """The framework's attention, given something else."""

    class Fused(Heads):
        def forward(self, hidden_state, mask=None):
            query, key, value = (self.split(p(hidden_state)) for p in (self.query, self.key, self.value))
            mask = None if mask is None else change(mask)
            return self.output(self.merge(F.scaled_dot_product_attention(query * scale, key, value, mask)))

    return Fused


def einsum_without_scale(self, hidden_state, mask=None):
    query, key, value = (
        p(hidden_state).unflatten(-1, (self.num_heads, -1)) for p in (self.query, self.key, self.value)
    )
    weights = masked(torch.einsum("bqhd,bkhd->bhqk", query, key), mask).softmax(-1)
    return self.output(torch.einsum("bhqk,bkhd->bqhd", weights, value).flatten(2))


def projected(*parts):
    """A part None stands for the input itself."""
    names = [part or "unprojected" for part in parts]
    return stepped(parts=names, unprojected=lambda self, hidden_state: hidden_state)


class WeightsFirst(Heads):
    def forward(self, hidden_state, mask=None):
        return super().forward(hidden_state, mask)[::-1]


class OnlyWeights(Heads):
    def forward(self, hidden_state, mask=None):
        return super().forward(hidden_state, mask)[1]


class WritesIntoTheMask(Heads):
    def mask(self, scores, mask):
        return scores if mask is None else scores.masked_fill(mask.logical_not_(), -math.inf)


class WithResidual(Steps):
    def last(self, merged, hidden_state):
        return hidden_state + self.output(merged)


for misconception, attempts in {
    "heads_in_plain_list": [PlainList, type("PlainTuple", (PlainList,), {"container": tuple})],
    "heads_get_slices": [SlicedInput, SlicedAndShared],
    "heads_share_weights": [OneKeyForAll],
    "heads_interleaved": [
        stepped(split=interleaved_in),
        stepped(merge=interleaved_out),
        stepped(split=interleaved_in, merge=interleaved_out),
    ],
    "not_split": [NoSplit, NoSplitFused],
    "no_scaling": [
        stepped(scale=lambda self, query: 1.0),
        type("Bare", (HeadsEinsum,), {"forward": einsum_without_scale}),
    ],
    "scaled_by_num_heads": [
        stepped(scale=lambda self, query: math.sqrt(self.num_heads)),
        stepped(scale=lambda self, query: query.shape[1]),
    ],
    "scaled_by_sequence_length": [
        stepped(scale=lambda self, query: math.sqrt(query.shape[-2])),
        stepped(scale=lambda self, query: query.shape[2]),
    ],
    "no_softmax": [
        weighed(lambda scores, mask: masked(scores, mask, 0.0)),
        stepped(weigh=lambda self, query, key, mask: query @ key.mT),
    ],
    "softmax_over_queries": [
        weighed(lambda scores, mask: masked(scores, mask).softmax(-2)),
        weighed(lambda scores, mask: masked(scores, mask).softmax(2)),
    ],
    "softmax_over_batch": [
        weighed(lambda scores, mask: masked(scores, mask).softmax(1)),
        weighed(lambda scores, mask: masked(scores, mask).softmax(0)),
    ],
    "query_key_swapped": [
        stepped(parts=("key", "query", "value")),
        weighed(lambda scores, mask: masked(scores.mT, mask).softmax(-1)),
    ],
    "layers_mixed_up": [
        stepped(parts=("query", "query", "value")),
        stepped(parts=("query", "key", "key")),
        stepped(parts=("query", "value", "value")),
        stepped(parts=("query", "value", "key")),
    ],
    "query_unused": [projected(None, "key", "value")],
    "key_unused": [projected("query", None, "value")],
    "value_unused": [projected("query", "key", None)],
    "layers_unused": [projected("query", None, None)],
    "weights_first": [WeightsFirst],
    "value_ignored": [OnlyWeights],
    "residual_added": [WithResidual],
    "multiplied_by_root": [stepped(scale=lambda self, query: query.shape[-1] ** -0.5)],
    "softmax_twice": [weighed(lambda scores, mask: masked(scores, mask).softmax(-1).softmax(-1))],
    "causal_mask_added": [
        weighed(lambda scores, mask: masked(scores, torch.ones_like(scores).tril().bool()).softmax(-1))
    ],
    "mask_ignored": [
        stepped(mask=no_mask_argument),
        fused(change=lambda mask: None),
        type("ForgetsMask", (HeadsList,), {"forward": lambda self, x, mask=None: HeadsList.forward(self, x)}),
    ],
    "mask_inverted": [
        fused(change=lambda mask: ~mask),
        weighed(lambda s, m: after(s, m) if m is None else masked(s, ~m).softmax(-1)),
    ],
    "mask_after_softmax": [weighed(after)],
    "mask_not_minus_infinity": [
        weighed(filled(0.0)),
        weighed(filled(1e-9)),
        weighed(filled(-1.0)),
        weighed(lambda scores, mask: (scores if mask is None else scores * mask).softmax(-1)),
        fused(change=lambda mask: mask.float()),
    ],
    "mask_turned": [
        fused(change=lambda mask: mask.T),
        weighed(lambda scores, mask: masked(scores, None if mask is None else mask.mT).softmax(-1)),
    ],
    "changes_its_input": [WritesIntoTheMask],
}.items():
    wrong("multi_head_attention", misconception, *attempts)


class HeadDimFixed(Steps):
    def scale(self, query):
        return math.sqrt(2)


class Overflows(Steps):
    def weigh(self, query, key, mask):
        powers = masked(query @ key.mT / self.scale(query), mask).exp()
        return powers / powers.sum(-1, keepdim=True)


class RenormalisedTooLate(Steps):
    """What is hidden has taken all the weight before it is cut away."""

    def weigh(self, query, key, mask):
        weights = (query @ key.mT / self.scale(query)).softmax(-1)
        weights = weights if mask is None else weights * mask
        return weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)


class OutputTwice(Steps):
    def last(self, merged, hidden_state):
        return self.output(self.output(merged))


class OutputBeforeMerge(Steps):
    def last(self, merged, hidden_state):
        return self.output(merged.flip(-1))


class BatchOfOne(Heads):
    def split(self, x):
        return x[:1].view(1, x.shape[1], self.num_heads, -1).transpose(1, 2)


class KeysBehind(Heads):
    def forward(self, hidden_state, mask=None):
        return super().forward(hidden_state, mask)[0], self.key(hidden_state)


unlisted("multi_head_attention", KeysBehind, HeadDimFixed, OutputTwice, OutputBeforeMerge, BatchOfOne)
wrong("multi_head_attention", "renormalised_after_softmax", RenormalisedTooLate)
wrong("multi_head_attention", "overflow_on_large_scores", Overflows)


# ------------------------------------------------------------------------------------- one more of each mistake


for misconception, attempt in {
    "one_head_only": lambda projected, num_heads: projected.chunk(num_heads, -1)[0],
    "cut_and_put_together": lambda projected, num_heads: torch.cat(projected.chunk(num_heads, -1), 1),
    "heads_in_another_order": lambda projected, num_heads: torch.stack(
        projected.chunk(num_heads, -1)[::-1], 1
    ),
}.items():
    wrong("split_heads", misconception, attempt)


def weighed_smaller(self, query, key, mask):
    return Steps.weigh(self, query, key, mask) / math.sqrt(query.shape[-1])


for misconception, attempt in {
    "projected_twice": stepped(last=lambda self, merged, x: self.output(self.output(merged))),
    "bias_forgotten": stepped(last=lambda self, merged, x: merged @ self.output.weight.T),
    "heads_in_another_order": stepped(merge=lambda self, x: x.flip(1).transpose(1, 2).flatten(2)),
    "scaled_after_softmax": stepped(weigh=weighed_smaller),
    "matrix_not_transposed": stepped(
        last=lambda self, merged, x: merged @ self.output.weight + self.output.bias
    ),
    "each_score_alone": weighed(lambda scores, mask: masked(scores, mask).sigmoid()),
    "mask_of_one_query": stepped(
        mask=lambda self, scores, mask: masked(scores, mask if mask is None else mask[:1])
    ),
    "other_divisor": stepped(scale=lambda self, query: 2 * query.shape[-1]),
    "scaled_by_a_constant": stepped(scale=lambda self, query: 8),
    "scores_changed": weighed(lambda scores, mask: masked(scores.clamp(-1, 1), mask).softmax(-1)),
}.items():
    wrong("multi_head_attention", misconception, attempt)


def heads_overlapping(projected, num_heads):
    size = projected.shape[-1] // num_heads
    return torch.stack([projected[..., head : head + size] for head in range(num_heads)], dim=1)


wrong("split_heads", "heads_overlap", heads_overlapping)
