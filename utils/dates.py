"""The task that the encoder-decoder learns: from "the 5th of March 2021" to "2021-03-05", one id a
character."""

import datetime
import os
import random
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from tqdm.auto import tqdm

from .decoder import END, PAD, START, greedy_decode
from .guards import require_size
from .threads import one_thread

# -------------------------------------------------------------------------------------------------- the pairs

MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
          "November", "December"]  # fmt: skip

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
    model has seen none of the dates that it is tested on, in whatever form. The same seed gives the same
    pairs.

    Raises `TypeError` or `ValueError` if the count is no whole number from 1 up.
    """
    require_size("count", count)
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


# ----------------------------------------------------------------------------------------------- text and ids

VOCABULARY = ["[PAD]", "[START]", "[END]", *"0123456789abcdefghijklmnopqrstuvwxyz ,-"]

ID_OF = {token: number for number, token in enumerate(VOCABULARY)}


def encode_text(text):
    """Return the ids of a text: one for each character, between [START] and [END]. Capitals become small.

    Raises `TypeError` or `ValueError` if it is no text, or holds a character that is not in VOCABULARY.
    """
    require_text(text, VOCABULARY)
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
    require_texts(texts)
    ids = [torch.tensor(encode_text(text)) for text in texts]
    ids = pad_sequence(ids, batch_first=True, padding_value=PAD)  # (batch, seq)
    return ids, (ids != PAD).long()


# ----------------------------------------------------------------------------------------------- the training

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


@one_thread()
def train(model, pairs, steps=600, batch_size=32, learning_rate=8e-3, seed=0):
    """Train an `EncoderDecoder` on pairs of texts, and return the loss of each step, in nats.

    Adam (Kingma & Ba 2015) with the betas of Vaswani et al. 2017; the learning rate rises to `learning_rate`,
    then falls to 0. On one machine, equal weights, pairs and seeds give equal losses. The model is left in
    eval mode. A bar shows the progress, but not with COURSE_STATIC_VIEWS=1 in the environment.

    Raises `TypeError` or `ValueError` if there are no pairs, no steps, or a text cannot be encoded.
    """
    require_training(pairs, steps, batch_size)
    torch.manual_seed(seed)  # for dropout
    rng = random.Random(seed)  # for the batches
    # fused: all weights in one call
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, betas=(0.9, 0.98), fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, steps, cycle_momentum=False)
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


# --------------------------------------------------------------------------------------------------- the test


@one_thread()
def translate(model, texts):
    """Return what the model writes for each text, decoded greedily."""
    return [decode_ids(ids) for ids in greedy_decode(model, *pad_texts(texts)).target_ids]


def exact_match(model, pairs):
    """Return the share of pairs, 0 to 1, whose target the model writes without a mistake."""
    written = translate(model, [source for source, _ in pairs])
    matches = [text == target for text, (_, target) in zip(written, pairs, strict=True)]
    return sum(matches) / len(matches)


# ------------------------------------------------------------------------------------------ what is refused


def require_texts(texts):
    """Refuse one text in place of several, and none."""
    if isinstance(texts, str):
        raise TypeError(f"The texts are one text, {texts!r}. Give a list, if only of this one.")
    if len(texts) == 0:
        raise ValueError("There are no texts. Give a list of one or more.")


def require_text(text, vocabulary):
    """Refuse what is no text, and characters that are not in the vocabulary."""
    if not isinstance(text, str):
        raise TypeError(f"The text is of the type {type(text).__name__}. Give a string.")
    if unknown := sorted(set(text.lower()) - set(vocabulary)):
        raise ValueError(
            f"The text {text!r} holds {', '.join(map(repr, unknown))}, which the vocabulary lacks. "
            "Write the date in words: with letters a to z, digits, spaces, commas and hyphens."
        )


def require_training(pairs, steps, batch_size):
    """Refuse a training without pairs, steps or batch."""
    require_size("steps", steps)
    require_size("batch_size", batch_size)
    if not pairs:
        raise ValueError("There are no pairs to train on. make_dates() makes some.")
