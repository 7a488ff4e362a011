"""The exercises of notebook 12: a score for induction, a model without some heads, and one path that is cut."""

import math
from contextlib import suppress
from itertools import product  # noqa: F401  # for an edit

import torch
import torch.nn.functional as F
from torch import nn

from .answers import Unreadable, alone, kind_of, read_tensor
from .exercise import Exercise
from .modules import changed  # noqa: F401  # for an edit
from .notebook_04 import MultiHeadAttention
from .shared import fill_weights, made_numbers


def induction_score(attn_weights, input_ids):
    before = (input_ids[:, None] == input_ids).tril(diagonal=-1)  # (query, key): the same token, earlier
    behind = F.pad(before, (1, 0))[:, :-1]  # (query, key): one place further right
    on_keys = attn_weights * behind
    shares = on_keys.sum(dim=-1)  # (layers, heads, query)
    table = shares[..., before.any(dim=-1)].mean(dim=-1)  # (layers, heads)
    return table


REPEATS = [[3, 5, 9, 7, 3, 5, 3, 8, 7], [4, 4, 6, 4, 6, 6, 8], [0, 1, 2, 3, 0, 1, 2, 3]]
CALLER = "what the caller gets where `run` raises an error"


def induction_trials():
    trials = []
    for start, ids in enumerate(REPEATS):
        layers, heads, seq = 2 + start % 2, 3 - start % 2, len(ids)
        scores = made_numbers(layers, heads, seq, seq, start=start)
        hidden = ~torch.ones(seq, seq, dtype=torch.bool).tril()
        scores = scores.masked_fill(hidden, -math.inf)
        scores[0, 0, ids.index(ids[0], 1), 1:] = -math.inf  # of what it may copy, this query gets nothing
        trials.append((scores.softmax(dim=-1), torch.tensor(ids)))
    return trials


check_induction_score = Exercise(induction_score, induction_trials, alone("score"))


def without_head(model, heads, head_dim, run):
    kept = {name: weight.clone() for name, weight in model.state_dict().items()}
    try:
        with torch.no_grad():
            for layer, head in heads:
                weight = model.attentions[layer].output.weight
                part = slice(head * head_dim, (head + 1) * head_dim)
                weight[:, part] = 0
        return run()
    finally:
        model.load_state_dict(kept)


class Attention(MultiHeadAttention):
    """Causal attention, and its output alone."""

    def forward(self, hidden_state):
        seen = torch.ones(hidden_state.shape[1], hidden_state.shape[1], dtype=torch.bool).tril()
        return super().forward(hidden_state, seen)[0]


class Uncalled(Attention):
    """Attention of which the layers alone may be used."""

    def forward(self, *given):
        raise RuntimeError("Do not call the attention: make the weights from its layers `query` and `key`.")


class Attentions(nn.Module):
    """Layers of attention, each with a residual connection."""

    def __init__(self, layers, num_heads, head_dim):
        super().__init__()
        self.attentions = nn.ModuleList(Attention(num_heads * head_dim, num_heads) for _ in range(layers))

    def forward(self, hidden_state):
        for attention in self.attentions:
            hidden_state = hidden_state + attention(hidden_state)
        return hidden_state


class Planned(Exception):
    """What `run` raises in one of the trials."""


class WithoutHead(Exercise):
    """Each attempt gets a fresh model, and a `run` that counts its calls, or raises an error."""

    def call(self, function, sizes, heads, fails):
        """Return what comes back, how often `run` was called, and what is seen of the model afterwards."""
        dtype = torch.float64 if sizes[0] == 3 else torch.float32
        model = fill_weights(Attentions(*sizes)).to(dtype)
        state = made_numbers(2, 4, sizes[1] * sizes[2]).to(dtype) / 2
        before, runs, output, told = dict(model.named_parameters()), [], None, "the error"

        @torch.no_grad()
        def run():
            runs.append(fails)
            if fails:
                raise Planned
            return model(state)

        with suppress(Planned):
            output, told = function(model, heads, sizes[2], run), "a result"
        after, seen = dict(model.named_parameters()), {CALLER: told} if fails else {}
        for kind, of_output in (("output.weight", True), ("other weights", False)):
            parts = [part for name, part in after.items() if name.endswith("output.weight") == of_output]
            seen[f"{kind} after the call"] = torch.cat([part.detach().double().flatten() for part in parts])
        with torch.no_grad():  # a hook that is left behind shows here
            seen["output of the model after the call"] = model(state).double()
        same = all(part is before.get(name) for name, part in after.items())
        kept = ("new", "the same")[same] + " objects"
        kept += ", frozen" * (not all(part.requires_grad for part in after.values()))
        return output, runs, seen | {"the parameters after the call": kept}

    def shown(self, sizes, heads, fails):
        return None, heads, sizes[2], None


def read_model(done):
    """Read the output, what the caller learnt, and the model afterwards."""
    output, runs, seen = done
    if not runs:
        said = f"`run` was called 0 times. Your result is {kind_of(output)}."
        raise Unreadable(said, "run_not_called")
    if isinstance(output, list):
        raise Unreadable(
            "Your result is a list. Expected is what `run()` gives, called once, with all the heads out."
        )
    return seen if runs[0] else {"output": read_tensor(output)} | seen


def without_head_trials():
    whole = [((2, 4, 2), [(1, 2)]), ((2, 3, 3), [(0, 1), (1, 2)]), ((3, 2, 2), [(2, 0), (2, 1), (0, 1)])]
    return [(*trial, False) for trial in whole] + [((2, 3, 2), [(0, 1)], True)]


check_without_head = WithoutHead(without_head, without_head_trials, read_model)


def path_cut(attention, norm, hidden_state, written, num_heads):
    query = attention.query(norm(hidden_state))
    key = attention.key(norm(hidden_state - written))
    query, key = (x.unflatten(-1, (num_heads, -1)).transpose(1, 2) for x in (query, key))
    attn_scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (batch, heads, query, key)
    seen = torch.ones(attn_scores.shape[-2:], dtype=torch.bool).tril()  # (query, key)
    attn_scores = attn_scores.masked_fill(~seen, -math.inf)
    attn_weights = attn_scores.softmax(dim=-1)
    return attn_weights


def whole(attention, norm, hidden_state, num_heads):
    """Return the weights where no path is cut: for edits."""
    return path_cut(attention, norm, hidden_state, 0, num_heads)


def path_cut_trials():
    trials = []
    for start, (batch, seq, num_heads, head_dim) in enumerate([(2, 5, 2, 3), (1, 4, 3, 2), (2, 3, 4, 4)]):
        shape = batch, seq, num_heads * head_dim
        attention = fill_weights(Uncalled(shape[-1], num_heads)).requires_grad_(False)
        norm = nn.LayerNorm(shape[-1], eps=0.1).requires_grad_(False)
        norm.weight.copy_(made_numbers(shape[-1], start=9))
        norm.bias.copy_(made_numbers(shape[-1], start=6))
        states = made_numbers(*shape, start=start), made_numbers(*shape, start=start + 4, step=23) * 0.8
        trials.append((attention, norm, *states, num_heads))
    return trials


check_path_cut = Exercise(path_cut, path_cut_trials, alone("table of weights"))
