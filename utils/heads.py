"""What each head does, measured on sentences whose links are known.

The measure is that of Clark et al. 2019 (https://arxiv.org/abs/1906.04341): each word guesses that its
grammatical head is the other word with the strongest attention. The share of right guesses is its accuracy.
"""

import functools
import os
from contextlib import contextmanager
from copy import deepcopy
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from tqdm.auto import tqdm

from .guards import require_head_pairs, require_numbers, require_size
from .treebank import TREEBANK, as_sentences, patterns_of

DIRECTIONS = ("dependent to head", "head to dependent")
NOUNS = ("NOUN", "PROPN")
RESAMPLES = 1000  # of the bootstrap
MOST_WEIGHTS = 2**23  # attention weights of one batch: 64 MB in float64


# -------------------------------------------------------------------------------- attention from word to word


def merge_pieces(attn_weights, word_of_token, num_words):
    """Turn attention between tokens into attention between words.

    attn_weights: (batch, heads, query, key). word_of_token: (batch, tokens), the word of each token counted
    from 0, or -1 for [CLS], [SEP] and pads. Returns (batch, heads, words, words).

    Attention *to* a split word is the sum over its pieces, attention *from* it their mean. So what a word
    gives still sums to 1, but for the share that [CLS] and [SEP] get (Clark et al. 2019, section 4.1).
    """
    pieces = F.one_hot(word_of_token + 1, num_words + 1)[..., 1:]  # (batch, tokens, words)
    pieces = pieces.to(attn_weights.dtype)[:, None]  # (batch, 1, tokens, words)
    share = pieces / pieces.sum(dim=2, keepdim=True).clamp(min=1)
    to_words = attn_weights @ pieces  # (batch, heads, query, words)
    return share.transpose(2, 3) @ to_words  # (batch, heads, words, words)


def word_attention(model, tokenizer, sentences):
    """Run the model over sentences of similar length, batch by batch, with a progress bar.

    Yields the places of a batch's sentences, and the attention between their words, (layers, batch, heads,
    words, words). Sentences that do not fit into the model are skipped, and their number is printed.
    Raises `TypeError` or `ValueError` if the model or the tokenizer cannot be measured.
    """
    encoded = _encode(model, tokenizer, sentences)
    count = model.config.num_hidden_layers * model.config.num_attention_heads
    bar = tqdm(total=len(encoded), desc="sentences", disable=os.environ.get("COURSE_STATIC_VIEWS") == "1")
    with bar, torch.no_grad():
        while encoded:  # the longest first: what is too large for the memory is too large at once
            length = len(encoded[-1][1])
            size = max(1, min(64, MOST_WEIGHTS // (count * length**2)))
            batch, encoded = encoded[-size:], encoded[:-size]
            yield [place for place, _, _ in batch], _attend(model, tokenizer, batch)
            bar.update(len(batch))


def _encode(model, tokenizer, sentences):
    """Return (place, ids, word of each token) of each sentence that fits into the model, the longest last."""
    if not getattr(tokenizer, "is_fast", False):
        raise TypeError("This tokenizer does not say of which word a token is. Load it with AutoTokenizer.")
    if model.training:
        raise ValueError("The model is in train mode, so dropout changes its attention. Call model.eval().")
    limit = min(model.config.max_position_embeddings, tokenizer.model_max_length)
    encoded, too_long, lost = [], 0, 0
    for place, sentence in enumerate(sentences):
        entry = tokenizer(sentence.words, is_split_into_words=True, verbose=False)
        words = [-1 if word is None else word for word in entry.word_ids()]
        if len(words) > limit:
            too_long += 1
        elif len(set(words) - {-1}) < len(sentence.words):
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


def _attend(model, tokenizer, batch):
    """Return the attention between the words of a batch, (layers, batch, heads, words, words)."""
    inputs = tokenizer.pad({"input_ids": [ids for _, ids, _ in batch]}, return_tensors="pt")
    attentions = model(**inputs.to(model.device), output_attentions=True).attentions
    if not attentions or attentions[0] is None:
        raise ValueError('The model returned no attention weights. Load it with attn_implementation="eager".')
    require_numbers(attentions)
    words = [torch.tensor(words) for _, _, words in batch]
    word_of_token = pad_sequence(words, batch_first=True, padding_value=-1)  # (batch, tokens)
    num_words = word_of_token.max().item() + 1
    places = word_of_token.to(attentions[0].device)
    return torch.stack([merge_pieces(layer, places, num_words).cpu() for layer in attentions])


# -------------------------------------------------------------------------------------------------- the links


class Links(NamedTuple):
    """Every link of a treebank between a word and its head, and which heads of the model found it."""

    relation: np.ndarray  # (links,), text
    sentence: np.ndarray  # (links,), the place of its sentence
    pattern: np.ndarray  # (links,), the number of its sentence's pattern (`patterns_of`)
    offset: np.ndarray  # (links,), how many words right of the dependent its head stands; negative: left
    hits: np.ndarray  # (links, directions, layers, heads), bool


def measure_links(model, tokenizer, treebank=TREEBANK):
    """Let each head of a BERT guess the grammatical head of each word, and note which guesses are right.

    A guess in the direction "dependent to head": the word that the dependent attends to most. In the
    direction "head to dependent": the word that attends most to the dependent. The word itself, [CLS] and
    [SEP] are no candidates. Punctuation is a candidate, but guesses nothing, nor does a root.

    treebank: the path of a CoNLL-U file, or what `read_treebank` returns. On the same treebank and in
    float64, the result is the same on every CPU.

    Raises `TypeError` or `ValueError` if treebank, model or tokenizer cannot be read or measured.
    """
    sentences, found = as_sentences(treebank), []
    patterns = patterns_of(sentences)
    for places, attended in word_attention(model, tokenizer, sentences):
        for row, place in enumerate(places):
            heads, relations = sentences[place].heads, sentences[place].relations
            hits = _hits(attended[:, row], heads).numpy()
            found += [
                (relation, place, patterns[place], head - word, hits[..., word])
                for word, (head, relation) in enumerate(zip(heads, relations, strict=True))
                if head >= 0 and relation.split(":")[0] != "punct"
            ]
    if not found:
        raise ValueError("The treebank holds no link between two words. Give one with trees.")
    found.sort(key=lambda link: link[1])  # by sentence
    return Links(*(np.array(column) for column in zip(*found, strict=True)))


def _hits(weights, heads):
    """Return whether each guess is right, (directions, layers, heads, words).

    weights: (layers, heads, words, words), perhaps with pads. heads: the place of each word's head.
    """
    count = len(heads)
    itself = torch.eye(count, dtype=torch.bool)
    weights = weights[..., :count, :count].masked_fill(itself, -1)  # (layers, heads, words, words)
    both = torch.stack([weights, weights.mT])  # (directions, layers, heads, word, candidate)
    return both.argmax(dim=-1) == torch.tensor(heads)


# ------------------------------------------------------------------------------------------------- the scores


def score_heads(model, tokenizer, treebank=TREEBANK, min_pairs=10, seed=0):
    """Return which head of a BERT finds which grammatical relation, and how well, as `score_links`.

    model: a BERT in eval mode that was loaded with attn_implementation="eager". tokenizer: its tokenizer.
    treebank: the path of any CoNLL-U file. Sentences over the model's limit are skipped aloud.

    Raises `ValueError` or `TypeError` if the file cannot be read as CoNLL-U (with the number of the line) or
    the model returns no attention.
    """
    require_size("min_pairs", min_pairs)
    require_size("seed", seed, smallest=0)
    links = measure_links(model, tokenizer, treebank)
    table = score_links(links, min_pairs, seed)
    if rare := sorted(set(links.relation.tolist()) - set(table["relation"])):
        print(f"Left out, with fewer than {min_pairs} pairs in a half: {', '.join(rare)}.")
    return table


def score_links(links, min_pairs=10, seed=0):
    """Choose the best head of each relation on one half of the patterns, and score it on the other half.

    Columns, with shares from 0 to 1 rounded to 3 decimals:

    - relation, direction
    - pairs, patterns: how many pairs of words it was scored on, in sentences of how many patterns
    - best: the name of the best head; layer, head: its place, counted from 0
    - accuracy: its share of right guesses; low, high: its 95 % interval (`share_interval`)
    - offset: the best guess of the kind "always the word so many places to the right" (left, if negative),
      chosen on the same half as the head; offset_accuracy: its share
    - lead_low, lead_high: the 95 % interval of accuracy minus offset_accuracy, of the same drawn patterns
    - chosen_at: the accuracy of the head on the half it was chosen on

    The better direction of a relation, by chosen_at, comes first. So `drop_duplicates("relation")` leaves one
    line for each, and the choice is still made without the scored half. Relations with fewer than min_pairs
    pairs in one of the halves are left out. The seed deals the patterns into halves. Fewer than 6 patterns
    are no evidence of a lead: 5 are all in favour by luck once in 32 times.

    Raises `ValueError` if no relation is left, and `TypeError` or `ValueError` if min_pairs is no whole
    number from 1 up, or seed none from 0 up.
    """
    require_size("min_pairs", min_pairs)
    require_size("seed", seed, smallest=0)
    chooses, rows = choosing_half(links.pattern, seed), []
    for relation in np.unique(links.relation).tolist():
        mine = links.relation == relation
        choosing, scored = (Links(*(column[mine & half] for column in links)) for half in (chooses, ~chooses))
        if min(len(choosing.relation), len(scored.relation)) >= min_pairs:
            rows += [_score(choosing, scored, direction, seed) for direction in range(len(DIRECTIONS))]
    if not rows:
        raise ValueError(
            f"No relation has {min_pairs} pairs in each half. Give more sentences, or a smaller min_pairs."
        )
    table = pd.DataFrame(rows).sort_values(
        ["pairs", "relation", "chosen_at"], ascending=[False, True, False], kind="stable", ignore_index=True
    )
    return table.round(3)


def _score(choosing, scored, direction, seed):
    """Return a row of the table: what the links of one half choose, scored on the other."""
    layer, head, chosen_at = best_head(choosing.hits[:, direction])
    offset = best_offset(choosing.offset)
    hits, rule_hits = scored.hits[:, direction, layer, head], scored.offset == offset  # each (pairs,)
    low, high = share_interval(hits, scored.pattern, seed)
    lead_low, lead_high = bootstrap_interval(hits.astype(int) - rule_hits, scored.pattern, seed)
    return {
        "relation": scored.relation[0],
        "direction": DIRECTIONS[direction],
        "pairs": len(hits),
        "patterns": len(np.unique(scored.pattern)),
        "best": head_name(layer, head),
        "layer": layer,
        "head": head,
        "accuracy": hits.mean(),
        "low": low,
        "high": high,
        "offset": offset,
        "offset_accuracy": rule_hits.mean(),
        "lead_low": lead_low,
        "lead_high": lead_high,
        "chosen_at": chosen_at,
    }


def choosing_half(pattern, seed=0):
    """Return True for what lies in the half that chooses: half of the patterns, dealt at random.

    pattern: (links,), the number of the pattern of each link. Each falls whole into one half.
    """
    numbers = np.unique(pattern)
    return np.isin(pattern, np.random.default_rng(seed).permutation(numbers)[: len(numbers) // 2])


def best_head(hits):
    """Return the layer and the head with the most hits, and its share. hits: (pairs, layers, heads)."""
    shares = hits.mean(axis=0)  # (layers, heads)
    layer, head = np.unravel_index(shares.argmax(), shares.shape)
    return int(layer), int(head), shares[layer, head]


def best_offset(offsets):
    """Return the most frequent offset, the nearest of those that are equally frequent."""
    values, counts = np.unique(offsets, return_counts=True)
    return int(min(zip(-counts, abs(values), values, strict=True))[2])


def bootstrap_interval(values, group, seed=0):
    """Return the 95 % interval of the mean over pairs, from draws of as many groups, with replacement.

    Groups are drawn, not pairs, because what has a group in common is no independent evidence (Efron 1979).
    Here a group is a pattern: sentences of one pattern have nearly one fate. values: (pairs,), hits or
    differences of hits. group: (pairs,), the number of each pair's group.
    """
    _, group = np.unique(group, return_inverse=True)
    summed, total = np.bincount(group, weights=values), np.bincount(group)  # each (groups,)
    counts = _draw(len(total), seed)
    return tuple(np.quantile(counts @ summed / (counts @ total), [0.025, 0.975]).tolist())


@functools.lru_cache(maxsize=4)  # one relation asks for the same draws again and again
def _draw(groups, seed):
    """Return how often each group is drawn, (draws, groups), when as many are drawn with replacement."""
    drawn = np.random.default_rng(seed).integers(groups, size=(RESAMPLES, groups))
    return np.array([np.bincount(row, minlength=groups) for row in drawn], dtype=float)


def share_interval(hits, group, seed=0):
    """Return the 95 % interval of a share of hits: by bootstrap, or exactly where draws have nothing to vary.

    Of n groups that are all right, the accuracy may be as low as p with p ** n = 0.025 (Clopper and Pearson
    1934). All wrong: turned round.
    """
    surprise = 0.025 ** (1 / len(np.unique(group)))
    if hits[0] in (0, 1) and (hits == hits[0]).all():
        return (surprise, 1.0) if hits[0] == 1 else (0.0, 1 - surprise)
    return bootstrap_interval(hits, group, seed)


def rank_correlation(a, b):
    """Return Spearman's: the correlation of the ranks, from -1 to 1. a, b: numbers, as many of each."""
    return pd.Series(np.ravel(a)).rank().corr(pd.Series(np.ravel(b)).rank())


def head_name(layer, head):
    """Return the name of a head: 2, 0 is "L2H0"."""
    return f"L{layer}H{head}"


def accuracy_of_heads(links, relation):
    """Return the accuracy of every head for one relation, (directions, layers, heads), on all sentences.

    These are numbers to look at. To say how good the best head is, use `score_links`: the best of many on the
    same sentences looks better than it is. Raises `ValueError` if no link has this relation.
    """
    mine = links.relation == relation
    if not mine.any():
        known = ", ".join(sorted(set(links.relation.tolist())))
        raise ValueError(f"The treebank holds no relation {relation!r}. It has: {known}.")
    return links.hits[mine].mean(axis=0)


# ----------------------------------------------------------------------------------------------- the pronouns


class Pronouns(NamedTuple):
    """Every pronoun that has a choice of nouns and a right one, and what led to it."""

    pattern: np.ndarray  # (pronouns,), the number of its sentence's pattern
    rules: pd.DataFrame  # a column for each rule without a model: 0, 1, or its chance where it draws
    hits: np.ndarray  # (pronouns, layers, heads), bool


def measure_pronouns(model, tokenizer, treebank=TREEBANK):
    """Let each head guess which noun a pronoun stands for: the candidate that the pronoun attends to most.

    Candidates are the nouns and names (UPOS NOUN and PROPN) before the pronoun. Pronouns count if they have
    Antecedent=ID in the last column of the treebank, and two candidates or more, one of which is right.
    Returns `Pronouns`. Raises what `measure_links` does, and `ValueError` without such pronouns.
    """
    sentences = [sentence for sentence in as_sentences(treebank) if any(_pronouns(sentence))]
    if not sentences:
        raise ValueError("The treebank marks no pronouns. Mark them in its last column, as Antecedent=ID.")
    found, patterns = [], patterns_of(sentences)
    for places, attended in word_attention(model, tokenizer, sentences):
        for row, place in enumerate(places):
            for word, antecedent, candidates in _pronouns(sentences[place]):
                weights = attended[:, row, :, word, candidates]  # (layers, heads, candidates)
                hits = weights.argmax(dim=-1) == candidates.index(antecedent)  # (layers, heads)
                rules = candidates[-1] == antecedent, candidates[0] == antecedent, 1 / len(candidates)
                found.append((place, rules, hits.numpy()))
    found.sort(key=lambda pronoun: pronoun[0])
    places, rules, hits = (np.array(column) for column in zip(*found, strict=True))
    rules = pd.DataFrame(rules, columns=["nearest noun", "first noun", "chance"])
    return Pronouns(patterns[places], rules, hits)


def score_pronouns(pronouns, seed=0):
    """Return how often the best head leads from a pronoun to the noun it stands for, beside simpler rules.

    pronouns: what `measure_pronouns` returns. The head is chosen on one half of the patterns, all rules are
    scored on the other half. Columns: rule; best: the head's name; pairs; accuracy; low, high: its 95 %
    interval; near: accuracy where the nearest candidate is right; far: where it is not.
    Raises `ValueError` if there are fewer than two patterns, `TypeError` or `ValueError` for a wrong seed.
    """
    require_size("seed", seed, smallest=0)
    patterns, hits, chooses = pronouns.pattern, pronouns.hits, choosing_half(pronouns.pattern, seed)
    if not chooses.any():
        raise ValueError("All pronouns are of one pattern, which cannot be halved. Give more sentences.")
    layer, head, _ = best_head(hits[chooses])
    rules = {"best head": hits[:, layer, head].astype(float)} | dict(pronouns.rules)
    near, rows = rules["nearest noun"][~chooses] == 1, []
    for rule, right in rules.items():
        scored, best = np.asarray(right)[~chooses], head_name(layer, head) if rule == "best head" else ""
        of_all = len(scored), scored.mean(), *share_interval(scored, patterns[~chooses], seed)
        rows.append([rule, best, *of_all, scored[near].mean(), scored[~near].mean()])
    columns = ["rule", "best", "pairs", "accuracy", "low", "high", "near", "far"]
    return pd.DataFrame(rows, columns=columns).round(3)


def _pronouns(sentence):
    """Yield (word, antecedent, candidates) of each pronoun that has a choice, and a right one."""
    for word, antecedent in enumerate(sentence.antecedents):
        candidates = [place for place in range(word) if sentence.upos[place] in NOUNS]
        if len(candidates) > 1 and antecedent in candidates:
            yield word, antecedent, candidates


# ---------------------------------------------------------------------------------------------- interventions


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
    """Let a BERT compute without some of its heads in this `with` block. Behind it, the model is as before.

    heads: pairs (layer, head), counted from 0. What a head found is set to 0 before the output projection.
    That is as if the columns of the projection that read this head were 0 (Michel et al. 2019,
    https://arxiv.org/abs/1905.10650). The weights of `attentions` are still returned: the head looks, but
    nobody hears what it saw.

    Raises `TypeError` or `ValueError` if heads are no such pairs, or the model has no such head.
    """
    config, removed = model.config, {}
    require_head_pairs(heads, config)
    for layer, head in heads:
        removed.setdefault(layer, []).append(head)
    head_dim = config.hidden_size // config.num_attention_heads
    projections = [layer.attention.output.dense for layer in model.base_model.encoder.layer]
    handles = [
        projections[layer].register_forward_pre_hook(zero_heads(found, head_dim))
        for layer, found in removed.items()
    ]
    try:
        yield model
    finally:
        for handle in handles:
            handle.remove()


def with_random_weights(model, seed=0):
    """Return a model of the same shape whose weights were drawn at random, as BERT's are before its training.

    Normal numbers with the config's initializer_range; biases 0, layer norms 1. NumPy draws them: PyTorch's
    generator differs from one kind of CPU to another.
    """
    rng, untrained = np.random.default_rng(seed), deepcopy(model)
    for name, weights in untrained.named_parameters():
        if weights.ndim > 1:
            drawn = rng.standard_normal(tuple(weights.shape), dtype=np.float32)
            weights.data.copy_(torch.from_numpy(drawn) * model.config.initializer_range)
        else:
            weights.data.fill_(1 if name.endswith("LayerNorm.weight") else 0)
    return untrained
