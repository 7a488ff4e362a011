"""The treebank: sentences whose grammatical links are known, read from a file in CoNLL-U.

The format: https://universaldependencies.org/format.html. The file of the course is TREEBANK. Links of
pronouns stand in its last column, as Antecedent=ID: the word of the same sentence that is meant.
"""

from graphlib import CycleError, TopologicalSorter
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import conllu
import numpy as np
from conllu.exceptions import ParseException

TREEBANK = Path(__file__).parent / "treebank.conllu"
# What only adds to a phrase. Sentences that differ in nothing else are of one pattern.
ADDED = ("det", "amod", "advmod", "nummod", "aux", "nmod:poss", "case", "obl", "punct")


class Sentence(NamedTuple):
    """One sentence of a treebank. Words are counted from 0. Each list has one entry a word."""

    words: list[str]
    upos: list[str]  # the part of speech, such as NOUN
    heads: list[int]  # the place of each word's grammatical head, -1 for the root
    relations: list[str]  # the relation of each word to its head, such as nsubj
    antecedents: list[int | None]  # the place of the word that a pronoun stands for


def read_treebank(path):
    """Return the sentences of a CoNLL-U file.

    Its syntactic words count: of "2-3 don't", the words 2 "do" and 3 "n't". Empty nodes ("5.1") are left out.

    Raises `ValueError`, with the number of the line, if the file is no UTF-8 or no CoNLL-U, or if the heads
    of a sentence form no tree.
    """
    sentences = []
    for blank, block in groupby(enumerate(_lines(path), start=1), key=lambda entry: not entry[1].strip()):
        tokens = [] if blank else [(number, _token(line, number)) for number, line in block if line[0] != "#"]
        if tokens:
            sentences.append(_sentence(tokens))
    if not sentences:
        raise ValueError(f"{path} holds no sentence. Give a file in CoNLL-U.")
    return sentences


def _lines(path):
    """Return the lines of a file in UTF-8."""
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


def _token(line, number):
    """Return one line of a file as conllu reads it. What conllu would let pass is refused before."""
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


def _sentence(block):
    """Return a sentence from (number of the line, token) of its lines."""
    # Lines of multiword tokens (2-3) and of empty nodes (5.1) have no head of their own.
    lines = [(number, token) for number, token in block if not isinstance(token["id"], tuple)]
    if not lines:
        raise _wrong(block[0][0], "begins a sentence without words", "Number its words 1, 2, 3")
    for place, (number, token) in enumerate(lines, start=1):
        _require_link(number, token, place, len(lines))
    _require_tree(lines)
    return Sentence(
        words=[token["form"] for _, token in lines],
        upos=[token["upos"] for _, token in lines],
        heads=[token["head"] - 1 for _, token in lines],
        relations=[token["deprel"] for _, token in lines],
        antecedents=[_antecedent(number, token, len(lines)) for number, token in lines],
    )


def _require_link(number, token, place, count):
    """Refuse a word that is not numbered by its place, has no other
    word (or 0) as its head, or no relation to it."""
    if token["id"] != place:
        raise _wrong(number, f"has the ID {token['id']}", f"Here it must be {place}: words count 1, 2, 3")
    if token["head"] is None or not 0 <= token["head"] <= count or token["head"] == place:
        head = "_" if token["head"] is None else token["head"]
        raise _wrong(number, f"has the HEAD {head}", f"It must be another word, 1 to {count}, or 0")
    if token["deprel"] == "_":
        raise _wrong(number, "has no DEPREL", "Give the relation of the word to its head")


def _require_tree(lines):
    """Refuse a sentence in which words lead in a circle, from head to head, or with two roots."""
    try:
        TopologicalSorter({token["id"]: [token["head"]] for _, token in lines}).prepare()
    except CycleError as error:
        number = lines[min(error.args[1]) - 1][0]
        raise _wrong(number, "leads in a circle from head to head", "One word must have the HEAD 0") from None
    for number in [number for number, token in lines if token["head"] == 0][1:]:
        raise _wrong(number, "is the second with the HEAD 0", "A sentence has one root")


def _antecedent(number, token, count):
    """Return the place of the word that a pronoun stands for, counted from 0, or None."""
    value = (token["misc"] or {}).get("Antecedent")
    if value is None:
        return None
    if not value.isdecimal() or not 1 <= int(value) <= count or int(value) == token["id"]:
        raise _wrong(number, f"has Antecedent={value}", f"It must be the ID of another word, 1 to {count}")
    return int(value) - 1


def _wrong(number, what, advice):
    """Return the error about one line of a file."""
    return ValueError(f"Line {number} {what}. {advice}.")


def as_sentences(treebank):
    """Return the sentences of a treebank, which is the path of a file or a list from `read_treebank`."""
    if not isinstance(treebank, (list, tuple)):
        return read_treebank(treebank)
    if not treebank or not all(isinstance(sentence, Sentence) for sentence in treebank):
        raise TypeError(
            "The treebank is a list, but not one of sentences. read_treebank() makes one from a file."
        )
    return list(treebank)


def pattern_of(sentence):
    """Return the relations of a sentence in their order, without those that only add to a phrase."""
    return tuple(relation for relation in sentence.relations if relation not in ADDED)


def patterns_of(sentences):
    """Return a number for each sentence, (sentences,). Those of one pattern have the same number."""
    patterns = [pattern_of(sentence) for sentence in sentences]
    number = {pattern: count for count, pattern in enumerate(dict.fromkeys(patterns))}
    return np.array([number[pattern] for pattern in patterns])
