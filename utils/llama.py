"""The model that writes: a decoder of Llama's architecture, from the course's own parts.

From small to large: `RMSNorm`, `SwiGLU` and `GroupedAttention` make a `LlamaBlock`, and a stack of blocks
between a table of tokens and a norm makes a `Llama`. `load_writer` gives it SmolLM2's weights, `from_llama`
those of any `LlamaForCausalLM`. `generate` writes.
"""

import os
from types import SimpleNamespace
from typing import NamedTuple
from unittest import mock

import torch
from torch import nn
from torch.nn import functional as F

from .attention import merge_heads, scaled_dot_product_attention, split_heads
from .compare import renamed, to_halves, to_neighbours, turned
from .gguf import make_tokenizer, packaged_file, read_gguf
from .guards import require_ids, require_llama, require_llama_config, require_weights
from .models import CheckpointError
from .positions import rotate

# --------------------------------------------------------------------------------- the parts of a block


class RMSNorm(nn.Module):
    """Each token's vector divided by its root mean square, then scaled: Zhang and Sennrich 2019.

    `x / √(mean(x²) + eps) · weight`: layer norm without mean and bias. The shape (..., hidden_size) stays.
    """

    def __init__(self, hidden_size, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(hidden_size)), eps

    def forward(self, hidden_state):
        mean_square = hidden_state.square().mean(dim=-1, keepdim=True)  # (..., 1)
        return hidden_state * torch.rsqrt(mean_square + self.eps) * self.weight


class SwiGLU(nn.Module):
    """A feed-forward network with a gate: one linear layer says how much of the other passes (Shazeer 2020).

    `forward(hidden_state)` takes and returns (..., hidden_size). The gate bends by SiLU, `x · sigmoid(x)`.
    """

    def __init__(self, config):
        super().__init__()
        self.gate = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, hidden_state):
        inner = F.silu(self.gate(hidden_state)) * self.up(hidden_state)  # (..., intermediate_size)
        return self.down(inner)  # (..., hidden_size)


class GroupedAttention(nn.Module):
    """Causal attention in which several query heads share one head of keys and values: Ainslie et al. 2023.

    `forward(hidden_state, past=None)` takes hidden_state (batch, new, hidden_size) and, from the call before,
    the keys and values of the tokens in front, each (batch, kv_heads, before, head_dim). Queries and keys are
    turned by their position. Returns output (batch, new, hidden_size), attn_weights (batch, heads, new, all
    so far), and the keys and values of all tokens so far.
    """

    def __init__(self, config):
        super().__init__()
        self.num_heads, self.num_kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.base = config.rope_parameters["rope_theta"]
        width, kv_width = self.num_heads * config.head_dim, self.num_kv_heads * config.head_dim
        self.query = nn.Linear(config.hidden_size, width, bias=False)
        self.key = nn.Linear(config.hidden_size, kv_width, bias=False)
        self.value = nn.Linear(config.hidden_size, kv_width, bias=False)
        self.output = nn.Linear(width, config.hidden_size, bias=False)

    def forward(self, hidden_state, past=None):
        start = 0 if past is None else past[0].shape[2]
        query = rotate(split_heads(self.query(hidden_state), self.num_heads), start, self.base)
        key = rotate(split_heads(self.key(hidden_state), self.num_kv_heads), start, self.base)
        value = split_heads(self.value(hidden_state), self.num_kv_heads)  # (batch, kv_heads, new, head_dim)
        if past is not None:
            key, value = torch.cat([past[0], key], dim=2), torch.cat([past[1], value], dim=2)
        group = self.num_heads // self.num_kv_heads  # query heads 0 to group - 1 share key head 0, and so on
        keys, values = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
        mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=key.device).tril(start)
        attended, attn_weights = scaled_dot_product_attention(query, keys, values, mask)
        return self.output(merge_heads(attended)), attn_weights, (key, value)


class LlamaBlock(nn.Module):
    """Attention, then a feed-forward network; a norm in front of each, and a residual connection around both.

    `forward(hidden_state, past=None)` takes and returns what `GroupedAttention` does.
    """

    def __init__(self, config):
        super().__init__()
        self.attention_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.attention = GroupedAttention(config)
        self.feed_forward_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.feed_forward = SwiGLU(config)

    def forward(self, hidden_state, past=None):
        attended, attn_weights, present = self.attention(self.attention_norm(hidden_state), past)
        hidden_state = hidden_state + attended
        return hidden_state + self.feed_forward(self.feed_forward_norm(hidden_state)), attn_weights, present


# ---------------------------------------------------------------------------------------------- the whole


class LlamaOutput(NamedTuple):
    """What a `Llama` returns, mostly under the names that transformers uses."""

    logits: torch.Tensor  # (batch, new, vocab_size): a score for each token that may come next
    hidden_states: tuple  # the embeddings, then each block's output, the last one after the norm
    attentions: tuple  # the weights of each block: each (batch, heads, new, all so far)
    past: tuple  # the keys and values of each block: each (batch, kv_heads, all so far, head_dim)


class Llama(nn.Module):
    """A decoder of Llama's architecture (Touvron et al. 2023): embeddings, blocks, a norm, and scores.

    With `tie_word_embeddings` the table that reads tokens also writes them. `forward(input_ids, past=None)`
    takes (batch, new) and, from the call before, its `past`. Returns a `LlamaOutput`. No text is padded:
    there is no mask but the causal one. Raises `TypeError` or `ValueError` for a config of something else,
    and ids that do not fit.
    """

    def __init__(self, config):
        super().__init__()
        require_llama_config(config)
        self.config = config
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.blocks = nn.ModuleList(LlamaBlock(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        tied = config.tie_word_embeddings
        self.output = None if tied else nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, input_ids, past=None):
        require_ids(
            "input_ids", input_ids, self.embeddings, "the vocabulary has {} ids", "Ask its tokenizer."
        )
        hidden_state = self.embeddings(input_ids)  # (batch, new, hidden_size)
        hidden_states, attentions, presents = [hidden_state], [], []
        for number, block in enumerate(self.blocks):
            hidden_state, attn_weights, present = block(hidden_state, past and past[number])
            hidden_states.append(hidden_state)
            attentions.append(attn_weights)
            presents.append(present)
        table = (self.output or self.embeddings).weight  # (vocab_size, hidden_size)
        hidden_states[-1] = self.norm(hidden_state)
        logits = hidden_states[-1] @ table.T  # (batch, new, vocab_size)
        return LlamaOutput(logits, tuple(hidden_states), tuple(attentions), tuple(presents))


@torch.no_grad()
def generate(model, input_ids, max_new_tokens, choose=lambda logits: logits.argmax(dim=-1), end=None):
    """Return input_ids, (batch, seq), with what the model writes behind them.

    `choose` makes of the scores of each next token, (batch, vocab_size), its id, (batch,): by default the
    likeliest. The texts of a batch are of one length; a single text stops after the token `end`.
    """
    past, newest = None, input_ids
    for _ in range(max_new_tokens):
        logits, _, _, past = model(newest, past)  # only what is new goes through the blocks
        newest = choose(logits[:, -1])[:, None]  # (batch, 1)
        input_ids = torch.cat([input_ids, newest], dim=1)
        if newest.tolist() == [[end]]:
            break
    return input_ids


# -------------------------------------------------------------------------------- the weights of others


def with_weights(config, weights):
    """Return a `Llama` that has these weights, without a copy of them."""
    # Shapes without numbers. To draw some for a table that has none would import a compiler: two seconds.
    with torch.device("meta"), mock.patch.object(nn.Embedding, "reset_parameters"):
        model = Llama(config)
    require_weights(weights, model, "LlamaForCausalLM")
    model.load_state_dict(weights, assign=True)
    return model


def from_llama(model):
    """Return the `Llama` of a `LlamaForCausalLM`. It shares all weights but those of queries and keys.

    transformers turns the halves of a head, `rotate` turns neighbours. Raises `TypeError` or `ValueError` for
    another model, for scaled rotations, biases and weights that do not fit.
    """
    require_llama(model)
    weights = renamed(model.state_dict(), source=0, target=2)
    if model.config.tie_word_embeddings:
        del weights["output.weight"]  # the table of tokens, a second time
    weights = turned(weights, to_neighbours, model.config.head_dim)
    return with_weights(model.config, weights).train(model.training)


def to_llama(model, turn=to_halves):
    """Return the `LlamaForCausalLM` of a `Llama`, in eval mode: `from_llama` undone."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = model.config if isinstance(model.config, LlamaConfig) else LlamaConfig(**vars(model.config))
    with torch.device("meta"):
        theirs = LlamaForCausalLM._from_config(config, attn_implementation="eager")
    weights = renamed(turned(model.state_dict(), turn, model.config.head_dim), source=2, target=0)
    weights.setdefault("lm_head.weight", model.embeddings.weight)
    theirs.load_state_dict(weights, assign=True)
    theirs.model.rotary_emb = type(theirs.model.rotary_emb)(config=theirs.config)  # it has no weights to load
    return theirs.eval()


def from_file(fields, tensors):
    """Return the `Llama` of a GGUF file, in eval mode. Its weights stay: llama.cpp turns neighbours."""
    of = {name.removeprefix("llama."): value for name, value in fields.items()}
    config = SimpleNamespace(  # transformers' own takes two seconds to import
        vocab_size=of["vocab_size"],
        hidden_size=of["embedding_length"],
        intermediate_size=of["feed_forward_length"],
        max_position_embeddings=of["context_length"],
        num_hidden_layers=of["block_count"],
        num_attention_heads=of["attention.head_count"],
        num_key_value_heads=of["attention.head_count_kv"],
        head_dim=of["rope.dimension_count"],
        rms_norm_eps=of["attention.layer_norm_rms_epsilon"],
        rope_parameters={"rope_type": "default", "rope_theta": of["rope.freq_base"]},
        tie_word_embeddings="output.weight" not in tensors,
        eos_token_id=fields["tokenizer.ggml.eos_token_id"],
    )
    return with_weights(config, renamed(tensors, source=1, target=2)).eval().requires_grad_(False)


def load_writer():
    """Return `(model, tokenizer)`: a `Llama` in eval mode and float32, and a tokenizer of transformers.

    By default the packaged SmolLM2-135M-Instruct. The environment variable COURSE_WRITER names another model
    of Llama's architecture, on the hub or in a folder. Raises `CheckpointError` for what cannot be used.
    """
    wanted = os.path.expanduser(os.environ.get("COURSE_WRITER", "").strip())
    if not wanted:
        fields, tensors = read_gguf(packaged_file())
        return from_file(fields, tensors), make_tokenizer(fields)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        if (os.path.isabs(wanted) or os.path.isdir(wanted)) and not os.path.isfile(f"{wanted}/config.json"):
            raise ValueError("No folder of this name holds a config.json")
        how = {"dtype": torch.float32, "output_loading_info": True}
        model, report = AutoModelForCausalLM.from_pretrained(wanted, **how)
        if report["missing_keys"]:
            raise ValueError(f"It lacks weights: {', '.join(sorted(report['missing_keys'])[:3])}.")
        return from_llama(model.eval()).requires_grad_(False), AutoTokenizer.from_pretrained(wanted)
    except Exception as error:  # a network, a hub, a disk, a file, another architecture
        reason = str(error).strip().partition("\n")[0].rstrip(".:")
        said = f"{wanted} cannot be the model that writes. {reason}. Choose another, or unset COURSE_WRITER"
        raise CheckpointError(f"{said} to use the packaged one.") from None
