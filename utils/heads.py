"""The heads room: what each head does, measured on sentences whose links are known.

The measure is that of Clark et al. 2019 (https://arxiv.org/abs/1906.04341). Each word guesses its grammatical head:
it is the other word with the strongest attention. The share of right guesses is a head's accuracy for a relation.

A treebank is a file in CoNLL-U (https://universaldependencies.org/format.html). The one of the course is TREEBANK.
Links of pronouns stand in its last column, as Antecedent=ID: the word of the same sentence that is meant.

At the end of the file stand the patterns, which need no grammar: how much a head attends to delimiters, to the next or
the previous token, to the same token, to the other sentence.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

import conllu
import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from conllu.exceptions import ParseException
from tqdm.auto import tqdm

TREEBANK = Path(__file__).parent / "treebank.conllu"
DIRECTIONS = ("dependent to head", "head to dependent")
NOUNS = ("NOUN", "PROPN")
RESAMPLES = 1000  # of the bootstrap
MOST_WEIGHTS = 2**23  # attention weights of one batch: 64 MB in float64


# --------------------------------------------------------------------------------------------- the treebank


class Sentence(NamedTuple):
    """One sentence of a treebank. Words are counted from 0. Each list has one entry a word."""

    words: list[str]
    upos: list[str]  # the part of speech, such as NOUN
    heads: list[int]  # the place of each word's grammatical head, -1 for the root
    relations: list[str]  # the relation of each word to its head, such as nsubj
    antecedents: list[int | None]  # the place of the word that a pronoun stands for


def read_treebank(path: str | Path) -> list[Sentence]:
    """Return the sentences of a CoNLL-U file.

    Its syntactic words count: of "2-3 don't", the words 2 "do" and 3 "n't". Empty nodes ("5.1") are left out.

    Raises `ValueError`, with the number of the line, if the file is no UTF-8 or no CoNLL-U, or if the heads of a
    sentence form no tree.
    """
    sentences, block = [], []
    for number, line in enumerate([*_lines(path), ""], start=1):
        if line.strip():
            if not line.startswith("#"):
                block.append((number, _parsed(line, number)))
        elif block:
            sentences.append(_sentence(block))
            block = []
    if not sentences:
        raise ValueError(f"{path} holds no sentence. Give a file in CoNLL-U.")
    return sentences


def _lines(path) -> list[str]:
    if not isinstance(path, (str, Path)):
        raise TypeError(
            f"The treebank is of the type {type(path).__name__}. Give the path of a CoNLL-U file."
        )
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}). Check the path.") from None
    try:
        # Not splitlines(): that also splits at signs that may stand within a word.
        return data.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        number = data[: error.start].count(b"\n") + 1
        raise _wrong(number, "is no UTF-8", "Save the file in that encoding") from None


def _parsed(line: str, number: int) -> conllu.Token:
    """One line of a file as conllu reads it. What conllu would let pass is refused before."""
    columns = line.split("\t")
    if len(columns) != 10 or not all(columns):
        filled = len([column for column in columns if column])
        raise _wrong(number, f"has {filled} filled columns", "CoNLL-U has 10, with a tab between two of them")
    if "  " in line:
        raise _wrong(number, "has two spaces in a row", "In CoNLL-U a tab stands between two columns")
    try:
        return conllu.parse(line)[0][0]
    except ParseException as error:
        column = "ID" if "'id'" in str(error) else "HEAD" if "'head'" in str(error) else "a column"
        value = columns[0] if column == "ID" else columns[6]
        raise _wrong(number, f"has {value!r} as {column}", "It must be a number") from None


def _sentence(block: list[tuple[int, conllu.Token]]) -> Sentence:
    """A sentence from its lines. Lines of multiword tokens (2-3) and of empty nodes (5.1) have no head of their own."""
    lines = [(number, token) for number, token in block if not isinstance(token["id"], tuple)]
    if not lines:
        raise _wrong(block[0][0], "begins a sentence without words", "Number its words 1, 2, 3")
    for place, (number, token) in enumerate(lines, start=1):
        if token["id"] != place:
            raise _wrong(number, f"has the ID {token['id']}", f"Here it must be {place}: words count 1, 2, 3")
        if token["head"] is None or not 0 <= token["head"] <= len(lines) or token["head"] == place:
            head = "_" if token["head"] is None else token["head"]
            raise _wrong(number, f"has the HEAD {head}", f"It must be another word, 1 to {len(lines)}, or 0")
        if token["deprel"] == "_":
            raise _wrong(number, "has no DEPREL", "Give the relation of the word to its head")
    _check_tree(lines)
    return Sentence(
        words=[token["form"] for _, token in lines],
        upos=[token["upos"] for _, token in lines],
        heads=[token["head"] - 1 for _, token in lines],
        relations=[token["deprel"] for _, token in lines],
        antecedents=[_antecedent(number, token, len(lines)) for number, token in lines],
    )


def _check_tree(lines) -> None:
    """Refuse a sentence in which a word does not lead to the root, from head to head."""
    heads = [0] + [token["head"] for _, token in lines]
    reaches_root = {0}
    for place, (number, _) in enumerate(lines, start=1):
        path = []
        while place not in reaches_root:
            if place in path:
                raise _wrong(number, "leads in a circle from head to head", "One word must have the HEAD 0")
            path.append(place)
            place = heads[place]
        reaches_root.update(path)


def _antecedent(number, token, count) -> int | None:
    value = (token["misc"] or {}).get("Antecedent")
    if value is None:
        return None
    if not value.isdecimal() or not 1 <= int(value) <= count or int(value) == token["id"]:
        raise _wrong(number, f"has Antecedent={value}", f"It must be the ID of another word, 1 to {count}")
    return int(value) - 1


def _wrong(number: int, what: str, advice: str) -> ValueError:
    return ValueError(f"Line {number} {what}. {advice}.")


# ------------------------------------------------------------------------------- attention from word to word


def merge_pieces(attn_weights, word_of_token, num_words):
    """Turn attention between tokens into attention between words.

    attn_weights: (batch, heads, query, key). word_of_token: (batch, tokens), the word of each token counted from 0,
    or -1 for [CLS], [SEP] and pads. Returns (batch, heads, words, words).

    Attention *to* a split word is the sum over its pieces, attention *from* it their mean. So what a word gives
    still sums to 1, but for the share that [CLS] and [SEP] get (Clark et al. 2019, section 4.1).
    """
    pieces = F.one_hot(word_of_token + 1, num_words + 1)[..., 1:]  # (batch, tokens, words)
    pieces = pieces.to(attn_weights.dtype)[:, None]  # (batch, 1, tokens, words)
    share = pieces / pieces.sum(dim=2, keepdim=True).clamp(min=1)
    to_words = attn_weights @ pieces  # (batch, heads, query, words)
    return share.transpose(2, 3) @ to_words  # (batch, heads, words, words)


def word_attention(
    model, tokenizer, sentences: Sequence[Sentence]
) -> Iterator[tuple[list[int], list[torch.Tensor]]]:
    """Run the model over sentences of similar length, batch by batch, with a progress bar.

    Yields the places of a batch's sentences, and for each layer the attention between their words,
    (batch, heads, words, words). Sentences that do not fit into the model are skipped, and their number is printed.
    """
    encoded = _encoded(model, tokenizer, sentences)
    count = model.config.num_hidden_layers * model.config.num_attention_heads
    bar = tqdm(total=len(encoded), desc="sentences", disable=os.environ.get("COURSE_STATIC_VIEWS") == "1")
    with bar, torch.no_grad():
        while encoded:
            length = len(
                encoded[-1][1]
            )  # the longest first: what is too large for the memory is too large at once
            size = max(1, min(64, MOST_WEIGHTS // (count * length**2)))
            batch, encoded = encoded[-size:], encoded[:-size]
            places = [place for place, _, _ in batch]
            inputs = tokenizer.pad({"input_ids": [ids for _, ids, _ in batch]}, return_tensors="pt")
            attentions = model(**inputs.to(model.device), output_attentions=True).attentions
            if not attentions or attentions[0] is None:
                raise ValueError(
                    'The model returned no attention weights. Load it with attn_implementation="eager".'
                )
            check_numbers(attentions)
            word_of_token = torch.full(inputs["input_ids"].shape, -1, device=model.device)  # (batch, tokens)
            for row, (_, _, words) in zip(word_of_token, batch, strict=True):
                row[: len(words)] = torch.tensor([-1 if word is None else word for word in words])
            num_words = max(len(sentences[place].words) for place in places)
            yield places, [merge_pieces(layer, word_of_token, num_words).cpu() for layer in attentions]
            bar.update(len(batch))


def check_numbers(attentions) -> None:
    """Refuse NaN. A comparison with it is False, so every head would seem to guess, and wrongly."""
    if any(layer.isnan().any() for layer in attentions):
        raise ValueError("The model's attention weights hold NaN. Load the model's weights again.")


def _encoded(model, tokenizer, sentences) -> list[tuple[int, list[int], list[int | None]]]:
    """(place, ids, word of each token) of each sentence that fits into the model, the longest last."""
    if not getattr(tokenizer, "is_fast", False):
        raise TypeError(
            "The tokenizer does not know which token belongs to which word. Load it with AutoTokenizer."
        )
    if model.training:
        raise ValueError("The model is in train mode, so dropout changes its attention. Call model.eval().")
    limit = min(model.config.max_position_embeddings, tokenizer.model_max_length)
    encoded, too_long, lost = [], 0, 0
    for place, sentence in enumerate(sentences):
        entry = tokenizer(sentence.words, is_split_into_words=True, verbose=False)
        words = entry.word_ids()
        if len(words) > limit:
            too_long += 1
        elif len(set(words) - {None}) < len(sentence.words):
            lost += 1
        else:
            encoded.append((place, entry["input_ids"], words))
    if too_long:
        print(f"Skipped {too_long} of {len(sentences)} sentences: more than the model's {limit} tokens.")
    if lost:
        print(f"Skipped {lost} of {len(sentences)} sentences: the tokenizer makes no token of a word.")
    if not encoded:
        raise ValueError("No sentence of the treebank fits into the model.")
    return sorted(encoded, key=lambda entry: len(entry[1]))


# ------------------------------------------------------------------------------------------------- the links


class Links(NamedTuple):
    """Every link of a treebank between a word and its head, and which heads of the model found it."""

    relation: np.ndarray  # (links,), text
    sentence: np.ndarray  # (links,), the place of its sentence
    offset: np.ndarray  # (links,), how many words right of the dependent its head stands; negative: left
    hits: np.ndarray  # (links, directions, layers, heads), bool


def measure_links(model, tokenizer, treebank: str | Path | Sequence[Sentence] = TREEBANK) -> Links:
    """Let each head of a BERT guess the grammatical head of each word, and note which guesses are right.

    A guess in the direction "dependent to head": the word that the dependent attends to most. In the direction
    "head to dependent": the word that attends most to the dependent. The word itself, [CLS] and [SEP] are no
    candidates. Punctuation is a candidate, but has no guess of its own, nor has the root of a sentence.

    treebank: the path of a CoNLL-U file, or what `read_treebank` returns. On the same treebank and in float64, the
    result is the same on every CPU.
    """
    sentences = _sentences(treebank)
    parts = []
    for places, layers in word_attention(model, tokenizer, sentences):
        batch = [sentences[place] for place in places]
        links = [
            (row, place, word, head, relation)
            for row, (place, sentence) in enumerate(zip(places, batch, strict=True))
            for word, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True))
            if head >= 0 and relation.split(":")[0] != "punct"
        ]
        if not links:
            continue
        rows, of, words, heads, relations = zip(*links, strict=True)
        rows, words, heads = (torch.tensor(numbers) for numbers in (rows, words, heads))
        no_words = _no_words(batch, layers[0].shape[-1])[rows]  # (links, words)
        no_words[torch.arange(len(words)), words] = True  # nor is the word itself a candidate
        hits = torch.stack([_hits(layer, rows, words, heads, no_words) for layer in layers], dim=2)
        parts.append((np.array(relations), np.array(of), (heads - words).numpy(), hits.numpy()))
    if not parts:
        raise ValueError("The treebank holds no link between two words. Give one with trees.")
    links = Links(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    order = np.argsort(links.sentence, kind="stable")
    return Links(*(column[order] for column in links))


def _hits(weights, rows, words, heads, forbidden):
    """Whether each head's guess is right, (links, directions, heads), from one layer's (batch, heads, words, words)."""
    from_word = weights[rows, :, words]  # (links, heads, words)
    to_word = weights[rows, :, :, words]  # (links, heads, words)
    both = torch.stack([from_word, to_word], dim=1)  # (links, directions, heads, words)
    guesses = both.masked_fill(forbidden[:, None, None], -1).argmax(dim=-1)  # (links, directions, heads)
    return guesses == heads[:, None, None]


def _no_words(batch, num_words):
    """(batch, words), True where a shorter sentence has no word."""
    lengths = torch.tensor([len(sentence.words) for sentence in batch])
    return torch.arange(num_words) >= lengths[:, None]


def _sentences(treebank) -> list[Sentence]:
    if isinstance(treebank, (list, tuple)):
        if not treebank or not all(isinstance(sentence, Sentence) for sentence in treebank):
            raise TypeError(
                "The treebank is a list, but not one of sentences. read_treebank() makes one from a file."
            )
        return list(treebank)
    return read_treebank(treebank)


# ------------------------------------------------------------------------------------------------ the scores


def score_heads(model, tokenizer, treebank=TREEBANK, min_pairs=10, seed=0) -> pd.DataFrame:
    """Return which head of a BERT finds which grammatical relation, and how well. See `score_links` for the columns.

    model: a BERT in eval mode that was loaded with attn_implementation="eager". tokenizer: its tokenizer.
    treebank: the path of any CoNLL-U file. Sentences over the model's limit are skipped, and their number is printed.

    Raises `ValueError` or `TypeError` if the file cannot be read as CoNLL-U (with the number of the line) or the
    model returns no attention.
    """
    _check_scoring(min_pairs, seed)
    return score_links(measure_links(model, tokenizer, treebank), min_pairs, seed)


def score_links(links: Links, min_pairs=10, seed=0) -> pd.DataFrame:
    """Choose the best head of each relation on one half of the sentences, and score it on the other half.

    Columns, with shares from 0 to 1 rounded to 3 decimals:

    - relation, direction
    - pairs: how many pairs of words it was scored on
    - best: the name of the best head, counted from 1; layer, head: the same counted from 0
    - accuracy: its share of right guesses; low, high: its 95 % interval, by bootstrap over sentences
    - offset: the best guess of the kind "always the word so many places to the right" (left, if negative), chosen
      on the same half as the head; offset_accuracy: its share
    - chosen_at: the accuracy of the head on the half it was chosen on

    The better direction of a relation, by chosen_at, comes first. So `drop_duplicates("relation")` leaves one line for
    each, and the choice is still made without the scored half. Relations with fewer than min_pairs pairs in one of the
    halves are left out, and named in a printed sentence. The seed deals the sentences into halves.
    """
    _check_scoring(min_pairs, seed)
    chooses = choosing_half(links.sentence, seed)
    rows, rare = [], []
    for relation in sorted(set(links.relation.tolist())):
        mine = links.relation == relation
        if min((mine & chooses).sum(), (mine & ~chooses).sum()) < min_pairs:
            rare.append(relation)
            continue
        offset = best_offset(links.offset[mine & chooses])
        for index, direction in enumerate(DIRECTIONS):
            chosen_at = links.hits[mine & chooses, index].mean(axis=0)  # (layers, heads)
            layer, head = np.unravel_index(chosen_at.argmax(), chosen_at.shape)
            hits = links.hits[mine & ~chooses, index, layer, head]  # (pairs,)
            low, high = bootstrap_interval(hits, links.sentence[mine & ~chooses], seed)
            rows.append(
                {
                    "relation": relation,
                    "direction": direction,
                    "pairs": len(hits),
                    "best": head_name(layer, head),
                    "layer": int(layer),
                    "head": int(head),
                    "accuracy": hits.mean(),
                    "low": low,
                    "high": high,
                    "offset": offset,
                    "offset_accuracy": (links.offset[mine & ~chooses] == offset).mean(),
                    "chosen_at": chosen_at[layer, head],
                }
            )
    if rare:
        print(f"Left out, with fewer than {min_pairs} pairs in a half: {', '.join(rare)}.")
    if not rows:
        raise ValueError(
            f"No relation has {min_pairs} pairs in each half. Give more sentences, or a smaller min_pairs."
        )
    table = pd.DataFrame(rows).sort_values(
        ["pairs", "relation", "chosen_at"], ascending=[False, True, False], kind="stable", ignore_index=True
    )
    return table.round(3)


def choosing_half(sentence: np.ndarray, seed=0) -> np.ndarray:
    """Deal sentences into two halves at random. Returns True for what lies in the half that chooses.

    sentence: (links,), the place of each link's sentence. All links of one sentence fall into the same half.
    """
    places = np.unique(sentence)
    dealt = np.random.default_rng(seed).permutation(places)
    return np.isin(sentence, dealt[: len(places) // 2])


def best_offset(offsets: np.ndarray) -> int:
    """Return the most frequent offset, the nearest of those that are equally frequent."""
    values, counts = np.unique(offsets, return_counts=True)
    return int(min(zip(-counts, abs(values), values, strict=True))[2])


def bootstrap_interval(hits: np.ndarray, sentence: np.ndarray, seed=0) -> tuple[float, float]:
    """Return the 95 % interval of a share of hits, from draws of as many sentences, with replacement.

    Sentences are drawn, not pairs, because the pairs of one sentence are no independent evidence (Efron 1979).
    hits: (pairs,), bool. sentence: (pairs,), the place of each pair's sentence.
    """
    _, group = np.unique(sentence, return_inverse=True)
    right, total = np.bincount(group, weights=hits), np.bincount(group)  # each (sentences,)
    drawn = np.random.default_rng(seed).integers(len(total), size=(RESAMPLES, len(total)))
    low, high = np.quantile(right[drawn].sum(axis=1) / total[drawn].sum(axis=1), [0.025, 0.975])
    return float(low), float(high)


def head_name(layer, head) -> str:
    """Return the name of a head as in the literature: 2, 0 is "3-1"."""
    return f"{layer + 1}-{head + 1}"


def accuracy_of_heads(links: Links, relation: str) -> np.ndarray:
    """Return the accuracy of every head for one relation, (directions, layers, heads), on all sentences.

    These are numbers to look at. To say how good the best head is, use `score_links`: the best of many on the same
    sentences looks better than it is.
    """
    mine = links.relation == relation
    if not mine.any():
        known = ", ".join(sorted(set(links.relation.tolist())))
        raise ValueError(f"The treebank holds no relation {relation!r}. It has: {known}.")
    return links.hits[mine].mean(axis=0)


# ---------------------------------------------------------------------------------------------- the pronouns


def score_pronouns(model, tokenizer, treebank=TREEBANK, seed=0) -> pd.DataFrame:
    """Return how often the best head leads from a pronoun to the noun it stands for, beside simpler rules.

    Candidates are the nouns and names (UPOS NOUN and PROPN) before the pronoun. The guess of a head is the candidate
    that the pronoun attends to most. Pronouns count if they have Antecedent=ID in the last column of the treebank, and
    two candidates or more, one of which is right. The head is chosen on one half of the sentences, all rules are scored
    on the other half.

    Columns: rule; best, layer, head as in `score_links`; pairs; accuracy; low, high: its 95 % interval; near: accuracy
    where the nearest candidate is right; far: accuracy where it is not. Raises `ValueError` if there are no such
    pronouns, else as `score_heads`.
    """
    _check_scoring(1, seed)
    sentences = [sentence for sentence in _sentences(treebank) if any(_pronouns(sentence))]
    if len(sentences) < 2:
        raise ValueError(
            "The treebank holds no pronouns to choose for. Mark them in its last column, as Antecedent=ID."
        )
    places, rules, hits = (
        [],
        [],
        [],
    )  # of each pronoun: its sentence, whether each rule is right, whether each head is
    for batch, layers in word_attention(model, tokenizer, sentences):
        for row, place in enumerate(batch):
            for word, antecedent, candidates in _pronouns(sentences[place]):
                weights = torch.stack(
                    [layer[row, :, word, candidates] for layer in layers]
                )  # (layers, heads, candidates)
                hits.append(
                    (weights.argmax(dim=-1) == candidates.index(antecedent)).numpy()
                )  # (layers, heads)
                rules.append((candidates[-1] == antecedent, candidates[0] == antecedent, 1 / len(candidates)))
                places.append(place)
    order = np.argsort(places, kind="stable")
    places, rules, hits = (np.array(column)[order] for column in (places, rules, hits))
    chooses = choosing_half(places, seed)
    layer, head = np.unravel_index(hits[chooses].mean(axis=0).argmax(), hits.shape[1:])
    columns = {
        "best head": hits[:, layer, head],
        "nearest noun": rules[:, 0],
        "first noun": rules[:, 1],
        "chance": rules[:, 2],
    }
    near, rows = rules[~chooses, 0] == 1, []
    for rule, column in columns.items():
        scored = column[~chooses].astype(float)
        low, high = bootstrap_interval(scored, places[~chooses], seed)
        rows.append(
            {
                "rule": rule,
                "best": head_name(layer, head) if rule == "best head" else "",
                "layer": int(layer) if rule == "best head" else "",
                "head": int(head) if rule == "best head" else "",
                "pairs": len(scored),
                "accuracy": scored.mean(),
                "low": low,
                "high": high,
                "near": scored[near].mean() if near.any() else np.nan,
                "far": scored[~near].mean() if not near.all() else np.nan,
            }
        )
    return pd.DataFrame(rows).round(3)


def _pronouns(sentence: Sentence) -> Iterator[tuple[int, int, list[int]]]:
    """(word, antecedent, candidates) of each pronoun that has a choice, and a right one."""
    for word, antecedent in enumerate(sentence.antecedents):
        candidates = [place for place in range(word) if sentence.upos[place] in NOUNS]
        if len(candidates) > 1 and antecedent in candidates:
            yield word, antecedent, candidates


# --------------------------------------------------------------------------------------------- interventions


def zero_heads(heads, head_dim):
    """Return a hook for an output projection: it sets what these heads found to 0, before heads are mixed.

    heads: whole numbers, counted from 0. head_dim: the width of a head.
    """

    def hook(module, inputs):
        merged = inputs[0].clone()  # (batch, query, heads * head_dim)
        for head in heads:
            merged[..., head * head_dim : (head + 1) * head_dim] = 0
        return (merged,)

    return hook


@contextmanager
def without_heads(model, heads):
    """In this `with` block, a BERT computes without some of its heads. Behind it, the model is as before.

    heads: pairs (layer, head), counted from 0. What a head found is set to 0 before the output projection. That is as
    if the columns of the projection that read this head were 0 (Michel et al. 2019, https://arxiv.org/abs/1905.10650).
    The weights of `attentions` are still returned: the head looks, but nobody hears what it saw.

    Raises `TypeError` or `ValueError` if heads are no such pairs, or the model has no such head.
    """
    config, removed = model.config, {}
    for layer, head in _checked_heads(heads, config):
        removed.setdefault(layer, []).append(head)
    head_dim = config.hidden_size // config.num_attention_heads
    handles = [
        model.base_model.encoder.layer[layer].attention.output.dense.register_forward_pre_hook(
            zero_heads(found, head_dim)
        )
        for layer, found in removed.items()
    ]
    try:
        yield model
    finally:
        for handle in handles:
            handle.remove()


def random_twin(model, seed=0):
    """Return a model of the same shape whose weights were drawn at random, as BERT's are before its training.

    Normal numbers with the config's initializer_range; biases 0, layer norms 1. NumPy draws them, because PyTorch's
    generator differs a little from one kind of CPU to another.
    """
    rng, twin = np.random.default_rng(seed), deepcopy(model)
    for name, weights in twin.named_parameters():
        if weights.ndim > 1:
            drawn = rng.normal(scale=model.config.initializer_range, size=tuple(weights.shape))
            weights.data.copy_(torch.from_numpy(drawn))
        else:
            weights.data.fill_(1 if name.endswith("LayerNorm.weight") else 0)
    return twin


# -------------------------------------------------------------------------- what is refused, in plain words


def _check_scoring(min_pairs, seed) -> None:
    for name, value, least in (("min_pairs", min_pairs, 1), ("seed", seed, 0)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} is {value!r}. Give a whole number.")
        if value < least:
            raise ValueError(f"{name} is {value}. Give {least} or more.")


def _checked_heads(heads, config) -> list[tuple[int, int]]:
    try:
        pairs = [(layer, head) for layer, head in heads]
        whole = all(isinstance(number, (int, np.integer)) for pair in pairs for number in pair)
    except (TypeError, ValueError):
        whole = False
    if not whole:
        raise TypeError(
            f"heads is {heads!r}. Give a list of pairs (layer, head), such as [(2, 0)] for head 3-1."
        )
    layers, count = config.num_hidden_layers, config.num_attention_heads
    for layer, head in pairs:
        if not (0 <= layer < layers and 0 <= head < count):
            raise ValueError(
                f"There is no head ({layer}, {head}): layers go from 0 to {layers - 1}, heads from 0 to {count - 1}."
            )
    return pairs


# ------------------------------------------------------------------------------------- patterns without a treebank


def pattern_targets(tokens, sentence_b_start=None):
    """For each pattern, which keys are targets of which queries: a dict of bool tensors (query, key).

    "delimiter": the key is [CLS] or [SEP]. "next", "previous": the key stands one place after or before the query.
    "identical": the key has the query's text (so each word is a target of itself); no delimiters.
    With sentence_b_start, the index of the first token of sentence B, there are two more. "identical across": as
    "identical", in the other sentence. "other sentence": every word of the other sentence; no delimiters.

    tokens: the text of each position of one input, with its special tokens and without padding.
    Raises TypeError when tokens is a string or empty, ValueError when sentence B would be empty.
    """
    count = len(tokens)
    if isinstance(tokens, str) or count == 0:
        raise TypeError("tokens must be a list of strings, one for each position.")
    if sentence_b_start is not None and sentence_b_start not in range(1, count):
        raise ValueError(
            f"sentence_b_start is {sentence_b_start}, but sentence B must start between 1 and {count - 1}. "
            "Leave it out when there is no sentence B."
        )
    query, key = torch.arange(count)[:, None], torch.arange(count)  # (query, 1) and (key,)
    delimiter = torch.tensor([token in ("[CLS]", "[SEP]") for token in tokens])  # (key,)
    same_text = torch.tensor([[one == other for other in tokens] for one in tokens])  # (query, key)
    targets = {
        "delimiter": delimiter.repeat(count, 1),
        "next": key == query + 1,
        "previous": key == query - 1,
        "identical": same_text & ~delimiter,
    }
    if sentence_b_start is not None:
        crosses = (query < sentence_b_start) != (key < sentence_b_start)
        targets["identical across"] = targets["identical"] & crosses
        targets["other sentence"] = crosses & ~delimiter & ~delimiter[:, None]
    return targets


def weight_on(weights, targets):
    """The weight on the targets, added up for each query, as a mean over the queries that have a target.

    weights: (layers, heads, query, key), or any shape that ends in (query, key). targets: bool (query, key).
    Returns the leading axes, (layers, heads); NaN when no query has a target. Raises ValueError when the shapes differ.
    """
    if weights.shape[-2:] != targets.shape:
        raise ValueError(
            f"weights has the shape {tuple(weights.shape)} and targets {tuple(targets.shape)}. "
            "The last two axes of weights, (query, key), must be those of targets."
        )
    on_targets = (weights * targets).sum(dim=-1)  # (layers, heads, query)
    return on_targets[..., targets.any(dim=-1)].mean(dim=-1)  # (layers, heads)


def score_patterns(attentions, tokens, sentence_b_start=None):
    """How much of its attention each head gives to each pattern: a row for each head, a column for each pattern.

    Returns a DataFrame.
    attentions: one tensor a layer, each (1, heads, query, key), as in `outputs.attentions` of one text.
    tokens, sentence_b_start: as in pattern_targets. Without sentence_b_start the two patterns of a pair are left out.
    The index names heads as in prose: "1-3" is layer 1, head 3. Scores are from 0 to 1; a head that spreads its
    attention evenly scores the share of keys that are targets. A pattern without a target in this text is NaN.
    Raises ValueError or TypeError when the arguments do not fit together.
    """
    targets = pattern_targets(tokens, sentence_b_start)
    count = len(tokens)
    shapes = sorted({tuple(layer.shape) for layer in attentions})
    if len(shapes) != 1 or len(shapes[0]) != 4 or shapes[0][0] != 1 or shapes[0][2:] != (count, count):
        raise ValueError(
            f"attentions holds the shapes {shapes}, but {count} tokens need (1, heads, {count}, {count}) in each "
            'layer. Pass outputs.attentions of one text, from a model loaded with attn_implementation="eager".'
        )
    check_numbers(attentions)
    weights = [layer.detach().cpu().double() for layer in attentions]  # each (1, heads, query, key)
    weights = torch.cat(weights)  # (layers, heads, query, key)
    layers, heads = weights.shape[:2]
    names = [f"{layer + 1}-{head + 1}" for layer in range(layers) for head in range(heads)]
    columns = {pattern: weight_on(weights, there).flatten() for pattern, there in targets.items()}
    return pd.DataFrame(columns, index=pd.Index(names, name="head"))


def best_heads(scores, count=3):
    """The best heads for each pattern: a DataFrame of pattern, rank, head, layer index, head index and score.

    scores: a DataFrame from score_patterns, or a mean of several such tables.
    count: how many heads a pattern, best first.
    The indices are 0-based. A pattern that is NaN has no rows.
    """
    rows = []
    for pattern in scores:
        for rank, (name, score) in enumerate(scores[pattern].dropna().nlargest(count).items(), start=1):
            layer, head = (int(number) - 1 for number in name.split("-"))
            rows.append((pattern, rank, name, layer, head, score))
    return pd.DataFrame(rows, columns=["pattern", "rank", "head", "layer index", "head index", "score"])
