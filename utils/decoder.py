"""The decoder, an encoder-decoder made of the course's own parts, and the task that it learns: dates.

From small to large: masked self-attention, attention to the encoder's output and a feed-forward network make a
`DecoderLayer`. Embeddings and a stack of layers make a `Decoder`. With an `Encoder` in front and a linear layer
behind it is an `EncoderDecoder`. It learns to turn "the 5th of March 2021" into "2021-03-05", one id a character.

`config` is transformers' `BertConfig` or any object with the fields in `encoder.CONFIG_FIELDS`; `DATE_CONFIG` is
the small one of the date task. Encoder and decoder share it, and no weight.
"""

import datetime
import os
import random
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from tqdm.auto import tqdm

from .attention import causal_mask, check_size, split_heads
from .encoder import (
    Embeddings,
    Encoder,
    FeedForward,
    LayerAttention,
    check_config,
    check_ids,
    encoder_mask,
)

# ---------------------------------------------------------------------------------------------- the decoder


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the encoder's output, a feed-forward network: Vaswani et al. 2017.

    Around each of the three stand a residual connection and a layer norm, placed by `norm_first` as in an
    `EncoderLayer`. The two attentions have weights of their own. The second takes its queries from the decoder,
    and its keys and values from `memory`: what the *last* layer of the encoder puts out.

    `forward(hidden_state, memory, mask=None, memory_mask=None)` takes hidden_state (batch, query, hidden_size)
    and memory (batch, key, hidden_size). The masks are bool or 0/1, and 1 means: may be attended to. `mask`
    belongs to the self-attention and broadcasts to (batch, heads, query, query), `memory_mask` to the
    cross-attention and broadcasts to (batch, heads, query, key).

    Returns output (batch, query, hidden_size), and the weights of the self-attention, (batch, heads, query,
    query), and of the cross-attention, (batch, heads, query, key). Raises what its parts raise.
    """

    def __init__(self, config, norm_first=False):
        super().__init__()
        check_config(config)
        self.norm_first = norm_first
        self.self_attention = LayerAttention(config)
        self.self_attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.cross_attention = LayerAttention(config)
        self.cross_attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_state, memory, mask=None, memory_mask=None):
        if self.norm_first:
            attended, self_weights = self.self_attention(self.self_attention_norm(hidden_state), mask)
            hidden_state = hidden_state + self.dropout(attended)
            query_state = self.cross_attention_norm(hidden_state)
            attended, cross_weights = self.cross_attention(query_state, memory_mask, memory)
            hidden_state = hidden_state + self.dropout(attended)
            output = hidden_state + self.feed_forward(self.feed_forward_norm(hidden_state))
            return output, self_weights, cross_weights
        attended, self_weights = self.self_attention(hidden_state, mask)
        hidden_state = self.self_attention_norm(hidden_state + self.dropout(attended))
        attended, cross_weights = self.cross_attention(hidden_state, memory_mask, memory)
        hidden_state = self.cross_attention_norm(hidden_state + self.dropout(attended))
        output = self.feed_forward_norm(hidden_state + self.feed_forward(hidden_state))
        return output, self_weights, cross_weights


class DecoderOutput(NamedTuple):
    """What a `Decoder` returns."""

    last_hidden_state: torch.Tensor  # (batch, query, hidden_size)
    decoder_attentions: tuple  # of each layer: (batch, heads, query, query); () with fused attention
    cross_attentions: tuple  # of each layer: (batch, heads, query, key); () with fused attention


class Decoder(nn.Module):
    """Embeddings and a stack of decoder layers. With `norm_first` a norm stands after the last one too.

    `forward(target_ids, memory, memory_mask=None)` takes target_ids (batch, query), memory (batch, key,
    hidden_size) and a memory_mask as `padding_mask` makes it, (batch, 1, 1, key). Returns a `DecoderOutput`.

    The causal mask is made here. Pads behind a target need no mask besides: no token before them may look at
    them.

    Raises `TypeError` or `ValueError` for a config that lacks fields, ids that it has no vector for, more tokens
    than positions, and a memory that does not fit.
    """

    def __init__(self, config, norm_first=False):
        super().__init__()
        check_config(config)
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(DecoderLayer(config, norm_first) for _ in range(config.num_hidden_layers))
        self.norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps) if norm_first else nn.Identity()

    def forward(self, target_ids, memory, memory_mask=None):
        check_sequence("target_ids", target_ids, self.embeddings)
        hidden_state = self.embeddings(target_ids)  # (batch, query, hidden_size)
        mask = causal_mask(target_ids.shape[1]).to(target_ids.device)
        return self.run_layers(hidden_state, memory, mask, memory_mask)

    def run_layers(self, hidden_state, memory, mask=None, memory_mask=None):
        """Return a `DecoderOutput` for tokens that are embedded already, (batch, query, hidden_size)."""
        decoder_attentions, cross_attentions = [], []
        for layer in self.layers:
            hidden_state, self_weights, cross_weights = layer(hidden_state, memory, mask, memory_mask)
            decoder_attentions.append(self_weights)
            cross_attentions.append(cross_weights)
        attentions = (decoder_attentions, cross_attentions)
        attentions = [tuple(w for w in weights if w is not None) for weights in attentions]
        return DecoderOutput(self.norm(hidden_state), *attentions)


class EncoderDecoderOutput(NamedTuple):
    """What an `EncoderDecoder` returns, under the names that transformers uses."""

    logits: torch.Tensor  # (batch, query, vocab_size): the scores of each next token, before softmax
    encoder_attentions: tuple  # of each layer: (batch, heads, key, key), the source's attention to itself
    decoder_attentions: tuple  # of each layer: (batch, heads, query, query)
    cross_attentions: tuple  # of each layer: (batch, heads, query, key)


class EncoderDecoder(nn.Module):
    """An `Encoder` reads the source, a `Decoder` writes the target: the Transformer of Vaswani et al. 2017.

    `forward(source_ids, target_ids, source_mask=None)` takes source_ids (batch, key), target_ids (batch, query)
    and source_mask (batch, key), which is what a tokenizer calls attention_mask. Returns an
    `EncoderDecoderOutput`. Its logits at place i are about token i + 1, and know of tokens 0 to i only.

    Raises `TypeError` or `ValueError` for a config that lacks fields, ids outside the vocabulary, more tokens
    than positions, a source and a target of unequal batches, and a mask that does not fit.
    """

    def __init__(self, config, norm_first=False):
        super().__init__()
        self.encoder = Encoder(config, norm_first)
        self.decoder = Decoder(config, norm_first)
        self.to_vocabulary = nn.Linear(config.hidden_size, config.vocab_size)

    def encode(self, source_ids, source_mask=None):
        """Return the `EncoderOutput` of a source, and its mask in the shape that cross-attention takes."""
        check_sequence("source_ids", source_ids, self.encoder.embeddings)
        encoded = self.encoder(source_ids, attention_mask=source_mask)
        return encoded, encoder_mask(source_mask, source_ids)  # mask (batch, 1, 1, key)

    def forward(self, source_ids, target_ids, source_mask=None):
        check_batches(source_ids, target_ids)
        encoded, memory_mask = self.encode(source_ids, source_mask)
        decoded = self.decoder(target_ids, encoded.last_hidden_state, memory_mask)
        logits = self.to_vocabulary(decoded.last_hidden_state)  # (batch, query, vocab_size)
        attentions = encoded.attentions, decoded.decoder_attentions, decoded.cross_attentions
        return EncoderDecoderOutput(logits, *attentions)


# ------------------------------------------------------------------------------------------ the task: dates

MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
FORMS = [
    "{month} {day}, {year}",
    "{month} {day} {year}",
    "{day} {month} {year}",
    "the {nth} of {month} {year}",
    "{year}, {month} {day}",
]
FIRST_DAY, LAST_DAY = datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)


def make_dates(count, seed, held_out=False):
    """Return `count` pairs of texts, such as ("Fri, the 5th of March 2021", "2021-03-05"), from 1900 to 2099.

    Every tenth day of the calendar is held out: those days come with `held_out`, and never without it. So a
    model has seen none of the dates that it is tested on, in whatever form. The same seed gives the same pairs.

    Raises `TypeError` or `ValueError` if the count is no whole number from 1 up.
    """
    check_size("count", count)
    rng, pairs = random.Random(seed), []
    while len(pairs) < count:
        number = rng.randint(FIRST_DAY.toordinal(), LAST_DAY.toordinal())
        if (number % 10 == 0) == held_out:
            day = datetime.date.fromordinal(number)
            pairs.append((write_date(day, rng), day.isoformat()))
    return pairs


def write_date(day, rng):
    """Return a `datetime.date` in words, in a form drawn from `rng`, which is a `random.Random`."""
    nth = f"{day.day}{ordinal_ending(day.day)}"
    month, weekday = MONTHS[day.month - 1], WEEKDAYS[day.weekday()]
    text = rng.choice(FORMS).format(
        year=day.year, month=rng.choice([month, month[:3]]), day=rng.choice([day.day, nth]), nth=nth
    )
    text = rng.choice([text, f"{weekday}, {text}", f"{weekday[:3]}, {text}"])
    return rng.choice([text, text.lower()])


def ordinal_ending(number):
    """Return what follows a day of the month when it is counted: 1st, 2nd, 3rd, 4th, but 11th, 12th, 13th."""
    return "th" if 10 < number < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


PAD, START, END = 0, 1, 2
VOCABULARY = ["[PAD]", "[START]", "[END]", *"0123456789abcdefghijklmnopqrstuvwxyz ,-"]
ID_OF = {token: number for number, token in enumerate(VOCABULARY)}


def encode_text(text):
    """Return the ids of a text: one for each character, between [START] and [END]. Capitals become small.

    Raises `TypeError` or `ValueError` if it is no text, or holds a character that is not in VOCABULARY.
    """
    check_text(text)
    return [START, *(ID_OF[character] for character in text.lower()), END]


def decode_ids(ids):
    """Return the text that ids stand for, up to the first [END]. `ids` is a list, or a tensor of one axis."""
    tokens = [VOCABULARY[number] for number in ids]
    if "[END]" in tokens:
        tokens = tokens[: tokens.index("[END]")]
    return "".join(token for token in tokens if token not in ("[PAD]", "[START]"))


def show_ids(ids):
    """Return the token of each id, for tables and views. A space becomes "␣", which can be seen."""
    return [VOCABULARY[number].replace(" ", "␣") for number in ids]


def pad_texts(texts):
    """Return the ids of texts, (batch, seq), padded to the longest, and their mask: 1, or 0 for a pad."""
    check_texts(texts)
    ids = [torch.tensor(encode_text(text)) for text in texts]
    ids = pad_sequence(ids, batch_first=True, padding_value=PAD)  # (batch, seq)
    return ids, (ids != PAD).long()


# --------------------------------------------------------------------------------------------- the training

DATE_CONFIG = SimpleNamespace(
    vocab_size=len(VOCABULARY),
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=128,
    max_position_embeddings=48,
    type_vocab_size=1,
    layer_norm_eps=1e-5,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


def next_token_loss(model, pairs):
    """Return the mean cross-entropy of each next token of the targets, in nats. Pads do not count.

    The decoder reads a target without its last token, and is asked for the target without its first one.
    """
    source_ids, source_mask = pad_texts([source for source, _ in pairs])  # each (batch, key)
    target_ids, _ = pad_texts([target for _, target in pairs])  # (batch, query + 1)
    logits = model(source_ids, target_ids[:, :-1], source_mask).logits  # (batch, query, vocab_size)
    labels = target_ids[:, 1:]  # (batch, query)
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD)


@contextmanager
def one_thread():
    """In this `with` block PyTorch computes in one thread.

    Tensors this small gain little from a second one, and lose much if the cores are shared: threads wait for
    one another at each operation. Also, the same sums are rounded alike on any number of cores.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@one_thread()
def train(model, pairs, steps=500, batch_size=64, learning_rate=5e-3, seed=0):
    """Train an `EncoderDecoder` on pairs of texts, and return the loss of each step, in nats.

    Adam (Kingma & Ba 2015); the learning rate rises to `learning_rate`, then falls to 0. On one machine, equal
    weights, pairs and seeds give equal losses. The model is left in eval mode. A bar shows the progress, but
    not with COURSE_STATIC_VIEWS=1 in the environment.

    Raises `TypeError` or `ValueError` if there are no pairs, no steps, or a text cannot be encoded.
    """
    check_training(pairs, steps, batch_size)
    torch.manual_seed(seed)  # for dropout
    rng = random.Random(seed)  # for the batches
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=steps)
    losses, bar = [], tqdm(range(steps), "training", disable=os.environ.get("COURSE_STATIC_VIEWS") == "1")
    model.train()
    for _ in bar:
        loss = next_token_loss(model, rng.choices(pairs, k=batch_size))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        bar.set_postfix(loss=f"{losses[-1]:.3f}", refresh=False)
    model.eval()
    return losses


# --------------------------------------------------------------------------------------------- the decoding


@contextmanager
def key_value_cache(decoder):
    """In this `with` block the decoder's attentions keep their keys and values, and compute none twice.

    No token may look at a newer one, so what was computed for it stays as it is, and the memory stays too. It
    is enough to run the layers on the newest token. One block is for one batch of one memory.

    It replaces `project` of each attention, the step that makes queries, keys and values. Raises `ValueError`
    if the decoder is in such a block already.
    """
    check_no_cache(decoder)
    for layer in decoder.layers:
        layer.self_attention.project = project_new(layer.self_attention)
        layer.cross_attention.project = project_once(layer.cross_attention)
    try:
        yield
    finally:
        for layer in decoder.layers:
            del layer.self_attention.project, layer.cross_attention.project  # that of the class is back


def project_new(attention):
    """Return a `project` for self-attention: keys and values of new tokens come behind those made before."""
    project, known = attention.project, []

    def project_and_append(hidden_state, memory):
        query, *new = project(hidden_state, memory)  # each (batch, heads, new, head_dim)
        known[:] = [torch.cat(pair, dim=2) for pair in zip(known, new, strict=True)] if known else new
        return query, *known  # key and value (batch, heads, all so far, head_dim)

    return project_and_append


def project_once(attention):
    """Return a `project` for cross-attention: keys and values of the memory are made at the first call only."""
    project, known = attention.project, []

    def project_query(hidden_state, memory):
        if not known:
            known[:] = [memory, *project(hidden_state, memory)[1:]]
        check_same_memory(memory, known[0])
        return split_heads(attention.query(hidden_state), attention.num_heads), *known[1:]

    return project_query


class Decoded(NamedTuple):
    """What `greedy_decode` returns."""

    target_ids: torch.Tensor  # (batch, 1 + steps): [START], then what was written; behind [END] only [PAD]
    logits: torch.Tensor  # (batch, steps, vocab_size): the scores that each token was chosen by


@torch.no_grad()
def greedy_decode(model, source_ids, source_mask=None, max_new_tokens=None, use_cache=True):
    """Let an `EncoderDecoder` write targets: the likeliest next token each time, until each has its [END].

    Takes source_ids (batch, key) and source_mask (batch, key). At most max_new_tokens are written, by default
    as many as there are positions. Returns `Decoded`, the same with `key_value_cache` and without.

    Raises `TypeError` or `ValueError` if the model is in train mode, ids or mask do not fit, or max_new_tokens
    is more than the positions.
    """
    check_eval_mode(model)
    max_new_tokens = choose_max_new_tokens(max_new_tokens, model.decoder)
    encoded, memory_mask = model.encode(source_ids, source_mask)
    target_ids = torch.full_like(source_ids[:, :1], START)  # (batch, 1)
    ended, steps = target_ids[:, 0] == END, []  # (batch,): none has
    with key_value_cache(model.decoder) if use_cache else nullcontext():
        while len(steps) < max_new_tokens and not ended.all():
            logits = next_logits(model, target_ids, encoded.last_hidden_state, memory_mask, use_cache)
            next_ids = logits.argmax(dim=-1).masked_fill(ended, PAD)  # (batch,)
            target_ids = torch.cat([target_ids, next_ids[:, None]], dim=1)  # (batch, 1 + steps)
            ended = ended | (next_ids == END)
            steps.append(logits)
    return Decoded(target_ids, torch.stack(steps, dim=1))


def next_logits(model, target_ids, memory, memory_mask, use_cache):
    """Return the scores of the token that follows target_ids, (batch, vocab_size).

    With `use_cache` only the newest token goes through the layers. It may attend to all, so no mask is needed.
    """
    if use_cache:
        newest = model.decoder.embeddings(target_ids)[:, -1:]  # (batch, 1, hidden_size)
        decoded = model.decoder.run_layers(newest, memory, memory_mask=memory_mask)
    else:
        decoded = model.decoder(target_ids, memory, memory_mask)
    return model.to_vocabulary(decoded.last_hidden_state[:, -1])  # (batch, vocab_size)


@one_thread()
def translate(model, texts):
    """Return what the model writes for each text, decoded greedily."""
    return [decode_ids(ids) for ids in greedy_decode(model, *pad_texts(texts)).target_ids]


def exact_match(model, pairs):
    """Return the share of pairs, 0 to 1, whose target the model writes without a mistake."""
    written = translate(model, [source for source, _ in pairs])
    matches = [text == target for text, (_, target) in zip(written, pairs, strict=True)]
    return sum(matches) / len(matches)


# ------------------------------------------------------------------------- what is refused, in plain words


def check_sequence(name, ids, embeddings):
    """Refuse, by name, ids that are not (batch, seq), not in the vocabulary, or more than the positions."""
    check_ids(name, ids, embeddings.token, "the vocabulary has {} ids", "pad_texts() makes ids that fit.")
    positions = embeddings.position.num_embeddings
    if ids.shape[1] > positions:
        raise ValueError(
            f"{name} has {ids.shape[1]} tokens a sequence, but there are only {positions} positions. "
            "Shorten it, or make a model with more max_position_embeddings."
        )


def check_batches(source_ids, target_ids):
    """Refuse a source and a target of unequal batches. What is no tensor is refused later, by its name."""
    source, target = (tuple(getattr(ids, "shape", ())) for ids in (source_ids, target_ids))
    if source and target and source[0] != target[0]:
        raise ValueError(
            f"source_ids has the shape {source} and target_ids {target}. "
            "Both need the same batch: one target for each source."
        )


def check_texts(texts):
    """Refuse one text in place of several, and none."""
    if isinstance(texts, str) or len(texts) == 0:
        raise ValueError(f"The texts are {texts!r}. Give a list of one text or more.")


def check_text(text):
    """Refuse what is no text, and characters without an id."""
    if not isinstance(text, str):
        raise TypeError(f"The text is of the type {type(text).__name__}. Give a string.")
    if unknown := sorted(set(text.lower()) - ID_OF.keys()):
        raise ValueError(
            f"The text {text!r} holds {', '.join(map(repr, unknown))}, which the vocabulary lacks. "
            "Write the date in words: with letters a to z, digits, spaces, commas and hyphens."
        )


def check_training(pairs, steps, batch_size):
    """Refuse a training without pairs, steps or batch."""
    check_size("steps", steps)
    check_size("batch_size", batch_size)
    if not pairs:
        raise ValueError("There are no pairs to train on. make_dates() makes some.")


def check_eval_mode(model):
    """Refuse a model in train mode, whose dropout would change what it writes."""
    if model.training:
        raise ValueError("The model is in train mode, so dropout changes what it writes. Call model.eval().")


def check_no_cache(decoder):
    """Refuse a decoder whose attentions keep keys and values already."""
    if any("project" in vars(layer.self_attention) for layer in decoder.layers):
        raise ValueError("This decoder is in a key_value_cache already. Leave that `with` block first.")


def check_same_memory(memory, first):
    """Refuse another memory than the one whose keys and values are kept."""
    if memory is not first:
        raise ValueError(
            f"This key_value_cache keeps the keys of one memory, {tuple(first.shape)}, and got another, "
            f"{tuple(memory.shape)}. Open a new `with` block for each source."
        )


def choose_max_new_tokens(max_new_tokens, decoder):
    """Return how many tokens may be written, by default as many as there are positions. Refuse more."""
    positions = decoder.embeddings.position.num_embeddings
    if max_new_tokens is None:
        return positions
    check_size("max_new_tokens", max_new_tokens)
    if max_new_tokens > positions:
        raise ValueError(
            f"max_new_tokens is {max_new_tokens}, but the decoder has only {positions} positions. "
            "Ask for fewer, or make a model with more max_position_embeddings."
        )
    return max_new_tokens
