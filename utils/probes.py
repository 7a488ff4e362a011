"""Probes into the model that writes: texts to try it on, heads taken out, a path cut, what a head says.

The texts: `read_prose`, `repeated_tokens` and `name_prompts`. What is seen on the way: `watched`. What is
done to a `Llama`: `heads_heard`, `heads_removed`, `path_cut`. What is measured: `losses`,
`logit_difference`, `contributions`. Last tokens that can be run again: `last_tokens`.
"""

import itertools
import random
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from torch.nn import functional as F

from .guards import require_head_pairs

PROSE = Path(__file__).parent / "prose.txt"

# ---------------------------------------------------------------------------------------------------- texts


def read_prose(tokenizer, length):
    """Return the beginnings of the twelve texts, (12, length): stories, letters, reports, each one paragraph.

    They were written for this course, so no model of before had read them. Raises `ValueError` if one of them
    has fewer tokens.
    """
    paragraphs = PROSE.read_text(encoding="utf-8").strip().split("\n\n")
    rows = [tokenizer(text)["input_ids"][:length] for text in paragraphs]
    if (shortest := min(map(len, rows))) < length:
        raise ValueError(f"The shortest of the texts has {shortest} tokens. Ask for at most so many.")
    return torch.tensor(rows)


def repeated_tokens(count, length, seed, first=0):
    """Return random tokens that stand twice, (count, 1 + 2 · length), behind one `first` token.

    Nothing but the repetition can be known of them. They are drawn from the ids 1,000 to 39,999.
    """
    draw = random.Random(seed)
    rows = [[draw.randrange(1000, 40_000) for _ in range(length)] for _ in range(count)]
    return torch.tensor([[first, *row, *row] for row in rows])


NAMES = "Mary John Tom James Anna Paul Mark Sarah David Laura Peter Emma Jack Kate Adam Lucy Alice Henry"
NAMES = f"{NAMES} Simon Rose".split()  # each of these names is one token
PLACES = ["store", "park", "school", "office", "station", "garden"]
THINGS = ["drink", "book", "ball", "letter", "present", "flower"]
TEMPLATES = [
    "When {A} and {B} went to the {place}, {S} gave a {thing} to",
    "After {A} and {B} came back from the {place}, {S} handed a {thing} to",
    "Then, {A} and {B} had a long talk at the {place}, and {S} gave a {thing} to",
    "While {A} and {B} were at the {place}, {S} decided to give a {thing} to",
]


class NamePrompts(NamedTuple):
    """Prompts that ask for a name: two people, one of whom gives something to the other."""

    texts: list  # as read
    input_ids: torch.Tensor  # (prompts, seq), filled up behind `last` with 0, which no token before it sees
    last: torch.Tensor  # (prompts,): the place of the last token, behind which the name must follow
    right: torch.Tensor  # (prompts,): the id of the other person, who receives
    wrong: torch.Tensor  # (prompts,): the id of the person who gives, and who is named twice
    right_at: torch.Tensor  # (prompts,): where the right name stands
    again_at: torch.Tensor  # (prompts,): where the wrong name stands a second time
    group: torch.Tensor  # (prompts,): the number of the four prompts that differ only in who is who


def name_prompts(tokenizer, groups, seed):
    """Return `NamePrompts`, four for each of the groups: a pair of names in both orders and both roles.

    So each name is the right one as often as it is the wrong one, and as often named first: what the model
    thinks of a name by itself cancels out (Wang et al. 2022, https://arxiv.org/abs/2211.00593, ask so too).
    """
    draw, rows = random.Random(seed), []
    for group in range(groups):
        pair, template = draw.sample(NAMES, 2), TEMPLATES[group % len(TEMPLATES)]
        words = {"place": draw.choice(PLACES), "thing": draw.choice(THINGS)}
        for (one, two), giver in itertools.product([pair, pair[::-1]], pair):
            text = template.format(A=one, B=two, S=giver, **words)
            other = two if giver == one else one
            rows.append((group, text, *(tokenizer(" " + name)["input_ids"][0] for name in (other, giver))))
    group, texts, right, wrong = zip(*rows, strict=True)
    ids = [tokenizer(text)["input_ids"] for text in texts]
    last = torch.tensor([len(row) - 1 for row in ids])
    input_ids = torch.tensor([row + [0] * (max(last) - len(row) + 1) for row in ids])
    right, wrong, group = map(torch.tensor, (right, wrong, group))
    places = torch.arange(input_ids.shape[1])
    right_at = (input_ids == right[:, None]).int().argmax(dim=1)
    again_at = torch.where(input_ids == wrong[:, None], places, -1).argmax(dim=1)
    return NamePrompts(list(texts), input_ids, last, right, wrong, right_at, again_at, group)


# ------------------------------------------------------------------------------------------------ measures


@torch.no_grad()
def run_blocks(model, hidden_state, first=0, end=None):
    """Return what the blocks from `first` to before `end` make of the hidden state that enters `first`.

    So what comes before a change is computed once: `run_blocks(model, model.embeddings(input_ids), 0, 16)`.
    """
    for block in model.blocks[first:end]:
        hidden_state = block(hidden_state)[0]
    return hidden_state


@torch.no_grad()
def logits_of(model, hidden_state):
    """Return the logits, (..., vocab_size), of what the last block puts out, (..., hidden_size)."""
    return model.norm(hidden_state) @ (model.output or model.embeddings).weight.T


@torch.no_grad()
def losses(model, input_ids, first=0, hidden_state=None):
    """Return the loss of each token behind place `first`, in nats, (batch, seq - 1 - first).

    hidden_state: what the last block puts out, (batch, seq, hidden_size), where that is known already.
    """
    if hidden_state is None:
        hidden_state = run_blocks(model, model.embeddings(input_ids))
    rows = zip(hidden_state[:, first:-1], input_ids[:, first + 1 :], strict=True)  # one by one: less memory
    return torch.stack([F.cross_entropy(logits_of(model, row), ids, reduction="none") for row, ids in rows])


def name_logits(model, hidden_state, prompts):
    """Return the logits behind the last token of each prompt, (prompts, vocab_size).

    hidden_state: what the last block puts out, (prompts, seq, hidden_size), before the norm.
    """
    return logits_of(model, hidden_state[torch.arange(len(prompts.last)), prompts.last])


def logit_difference(logits, prompts):
    """Return the right name's logit minus the wrong one's, (prompts,). Above 0, the right one is likelier."""
    rows = torch.arange(len(logits))
    return logits[rows, prompts.right] - logits[rows, prompts.wrong]


# --------------------------------------------------------------------------------------------------- heads


@contextmanager
def hooked(hooks):
    """Remove these hooks behind the `with` block, also after an error."""
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def heads_heard(model):
    """In this `with` block, keep what all heads of a `Llama` put out, before they are mixed.

    Yields a list. Each run adds a tensor for each layer to it, (batch, seq, heads, head_dim).
    """
    heard, count = [], model.config.num_attention_heads

    def hear(module, args):
        heard.append(args[0].unflatten(-1, (count, -1)))

    hooks = [block.attention.output.register_forward_pre_hook(hear) for block in model.blocks]
    with hooked(hooks):
        yield heard


class Watched(NamedTuple):
    """What a `Llama` computes on its way through texts of one length."""

    hidden_states: list  # the embeddings, then what each block puts out: each (batch, new, hidden_size)
    attentions: list  # the weights of each block: each (batch, heads, new, all so far)
    past: list  # the keys and values of each block: each (batch, kv_heads, all so far, head_dim)
    heard: list  # what the heads of each block put out, before they are mixed: (batch, new, heads, head_dim)


@torch.no_grad()
def watched(model, input_ids, past=None):
    """Return a `Watched` of these tokens, (batch, new), behind those of `past`, as `Llama` takes it.

    There are no logits: to compute them is a fifth of the work.
    """
    hidden_states, attentions, presents = [model.embeddings(input_ids)], [], []
    with heads_heard(model) as heard:
        for number, block in enumerate(model.blocks):
            hidden_state, attn_weights, present = block(hidden_states[-1], past and past[number])
            hidden_states.append(hidden_state)
            attentions.append(attn_weights)
            presents.append(present)
    return Watched(hidden_states, attentions, presents, heard)


def head_means(heard, last=None):
    """Return what each head puts out on average, (layers, heads, head_dim): to stand where it is taken out.

    heard: as from `watched`. The mean is over all places, or over one place of each text, `last`, (batch,).
    """
    if last is not None:
        heard = [found[torch.arange(len(last)), last, None] for found in heard]  # (batch, 1, heads, head_dim)
    return torch.stack([found.mean(dim=(0, 1)) for found in heard])


@contextmanager
def heads_removed(model, heads, means=None):
    """In this `with` block, these heads of a `Llama`, pairs (layer, head), put out 0, or their means.

    means: (layers, heads, head_dim), as from `head_means`. Behind the block, the model is as before. Raises
    `TypeError` or `ValueError` if heads are no such pairs, or the model has no such head.
    """
    require_head_pairs(heads, model.config)
    count = model.config.num_attention_heads

    def replace(layer, head):
        def hook(module, args):
            found = args[0].unflatten(-1, (count, -1)).clone()  # (batch, seq, heads, head_dim)
            found[:, :, head] = 0 if means is None else means[layer, head]
            return (found.flatten(2),)

        return model.blocks[layer].attention.output.register_forward_pre_hook(hook)

    with hooked([replace(layer, head) for layer, head in heads]):
        yield


@contextmanager
def path_cut(model, source, layers, into="key"):
    """In this `with` block, what the head `source` wrote is taken out of the keys of some later layers only.

    source: a pair (layer, head). layers: the later layers that cannot read it. into: "key", "query" or
    "value". Raises `TypeError` or `ValueError` if there is no such head.
    """
    require_head_pairs([source], model.config)
    (layer, head), seen, hooks = source, {}, []
    output, head_dim = model.blocks[layer].attention.output, model.config.head_dim
    part = slice(head * head_dim, (head + 1) * head_dim)

    def note(module, args):
        seen["written"] = args[0][..., part] @ output.weight[:, part].T  # (batch, seq, hidden_size)

    def cut(block):
        def enter(module, args):
            seen[block] = block.attention_norm(args[0] - seen["written"])

        hooks.append(block.register_forward_pre_hook(enter))
        reader = getattr(block.attention, into)
        hooks.append(reader.register_forward_pre_hook(lambda module, args: (seen[block],)))

    hooks.append(output.register_forward_pre_hook(note))
    for later in layers:
        cut(model.blocks[later])
    with hooked(hooks):
        yield


@torch.no_grad()
def contributions(model, prompts, seen):
    """Return what each head adds directly to the logit difference of each prompt, (prompts, layers, heads).

    seen: `watched(model, prompts.input_ids)`. What a head writes into the last token goes through the last
    norm and the table of tokens. The norm's divisor is taken as it is; so with what feed-forward networks and
    the embedding add, the parts sum to the difference. What a head does by way of later layers is not in it.
    """
    rows = torch.arange(len(prompts.last))
    last_state = seen.hidden_states[-1][rows, prompts.last]  # (prompts, hidden_size)
    size = torch.sqrt(last_state.square().mean(dim=-1, keepdim=True) + model.norm.eps)
    table = (model.output or model.embeddings).weight  # (vocab_size, hidden_size)
    direction = (table[prompts.right] - table[prompts.wrong]) * model.norm.weight / size  # a row a prompt
    parts = []
    for block, found in zip(model.blocks, seen.heard, strict=True):
        towards = (direction @ block.attention.output.weight).unflatten(-1, found.shape[2:])
        parts.append((found[rows, prompts.last] * towards).sum(dim=-1))  # (prompts, heads)
    return torch.stack(parts, dim=1)


class LastToken:
    """Name prompts of one length: all that is needed to run their last token again, from any layer.

    `right`, `wrong` and `right_at` are those of `NamePrompts`, in its order. Before the last token: `past`,
    the keys and values of each block. At the last token: `states`, what enters each block and leaves the
    last, (rows, 1, hidden_size); `put_out`, of each block what its heads put out, (rows, 1, heads, head_dim);
    and `look`, the weights on the right name, (rows, layers, heads).
    """

    def __init__(self, model, prompts, last):
        rows = prompts.last == last
        ids, self.right, self.wrong = prompts.input_ids[rows], prompts.right[rows], prompts.wrong[rows]
        giver = (ids[::2] != ids[1::2]).any(dim=0).int().argmax()  # two in a row are the same up to here
        past = watched(model, ids[::2, :giver]).past
        past = [[each.repeat_interleave(2, dim=0) for each in both] for both in past]
        seen, self.right_at = watched(model, ids[:, giver : last + 1], past), prompts.right_at[rows]
        self.past = [[each[:, :, :last] for each in both] for both in seen.past]
        self.states = [state[:, -1:] for state in seen.hidden_states]
        self.put_out = [found[:, -1:] for found in seen.heard]
        weights = [each[:, :, -1] for each in seen.attentions]  # each (rows, heads, last + 1)
        self.look = torch.stack(weights, dim=1)[torch.arange(len(ids)), ..., self.right_at]


def last_tokens(model, prompts):
    """Return a `LastToken` for each length of the prompts, the shortest first."""
    return [LastToken(model, prompts, last) for last in prompts.last.unique().tolist()]
