"""The treebank room: the course's file by the rules of the format, what the reader keeps, what it refuses."""

# ruff: noqa: SIM905  (a list of words is read best as one text)

import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

import conllu
import pytest
from refused import refusals

import make_treebank
from utils.treebank import TREEBANK, Sentence, as_sentences, pattern_of, patterns_of, read_treebank

UPOS = set("ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split())
# The subtypes are those of UD English.
RELATIONS = """nsubj obj iobj csubj ccomp xcomp obl vocative expl dislocated advcl advmod discourse aux cop
    mark nmod appos nummod acl amod det clf case conj cc fixed flat list parataxis compound orphan goeswith
    reparandum punct root dep nsubj:pass aux:pass obl:agent nmod:poss acl:relcl compound:prt""".split()
DOG = """\
# text = The dog didn't bark.
1	The	the	DET	_	_	2	det	_	_
2	dog	dog	NOUN	_	_	5	nsubj	_	_
3-4	didn't	_	_	_	_	_	_	_	_
3	did	do	AUX	_	_	5	aux	_	_
4	n't	not	PART	_	_	5	advmod	_	_
5	bark	bark	VERB	_	_	0	root	_	SpaceAfter=No
5.1	loudly	loudly	ADV	_	_	_	_	5:advmod	_
6	.	.	PUNCT	_	_	5	punct	_	_

"""


def changed(number, old, new):
    """DOG with one line changed, counted from 1."""
    lines = DOG.split("\n")
    assert old in lines[number - 1]
    lines[number - 1] = lines[number - 1].replace(old, new, 1)
    return "\n".join(lines)


def meant(antecedent):
    """DOG with an antecedent of its last word."""
    return changed(9, "punct\t_\t_", f"punct\t_\tAntecedent={antecedent}")


def read(text):
    """Read a text, or bytes, as a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "some.conllu")
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_treebank(path)


def test_treebank_is_what_its_grammar_writes():
    assert TREEBANK.read_bytes() == make_treebank.treebank().encode()


def test_treebank_keeps_the_rules_and_is_read_as_by_conllu():
    parsed = conllu.parse(TREEBANK.read_text(encoding="utf-8"))
    for key in ("sent_id", "text"):
        assert len({tokens.metadata[key] for tokens in parsed}) == len(parsed), "each once"
    for tokens, sentence in zip(parsed, as_sentences(str(TREEBANK)), strict=True):
        text, surface, covered = tokens.metadata["text"], "", 0
        words = tokens.filter(id=lambda number: isinstance(number, int))
        assert all(word["upos"] in UPOS and word["deprel"] in RELATIONS for word in words), text
        assert all(word["lemma"] != "_" for word in words), text
        assert sentence.words == [word["form"] for word in words]
        assert sentence.heads == [word["head"] - 1 for word in words]
        roots = [place for place, word in enumerate(words) if word["head"] == 0]
        assert roots == [place for place, word in enumerate(words) if word["deprel"] == "root"], text
        assert len(roots) == 1, text
        for word in words:
            if antecedent := (word["misc"] or {}).get("Antecedent"):
                meant = words[int(antecedent) - 1]
                assert word["upos"] == "PRON" and meant["upos"] in ("NOUN", "PROPN"), text
        for token in tokens:
            if isinstance(token["id"], tuple):
                first, _, covered = token["id"]
                assert token["form"] == "".join(word["form"] for word in words[first - 1 : covered]), text
            elif token["id"] <= covered:
                continue
            surface += token["form"] + ("" if (token["misc"] or {}).get("SpaceAfter") == "No" else " ")
        assert surface.rstrip() == text and text[0].isupper() and text[-1] in ".?!"


def test_sentences_that_differ_in_what_is_added_are_of_one_pattern():
    relations = ["nsubj root obj", "det amod nsubj aux root advmod det obj case obl punct", "obj root nsubj"]
    plain, longer, turned = (Sentence([], [], [], text.split(), []) for text in relations)
    assert pattern_of(longer) == ("nsubj", "root", "obj")
    assert patterns_of([turned, plain, longer, turned]).tolist() == [0, 1, 1, 0]
    counts = Counter(patterns_of(read_treebank(TREEBANK)).tolist())
    assert len(counts) == 83 and max(counts.values()) == 109, "as notebook 10 prints"


def test_reading_keeps_the_words_and_leaves_out_what_has_no_head():
    (sentence,) = read(changed(6, "5\tadvmod\t_\t_", "2\tadvmod\t_\tAntecedent=1|A=b"))
    assert sentence.words == ["The", "dog", "did", "n't", "bark", "."]
    assert sentence.upos == ["DET", "NOUN", "AUX", "PART", "VERB", "PUNCT"]
    assert sentence.heads == [1, 4, 4, 1, -1, 4]
    assert sentence.relations == ["det", "nsubj", "aux", "advmod", "root", "punct"]
    assert sentence.antecedents == [None, None, None, 0, None, None]


@pytest.mark.parametrize("text", [DOG.replace("\n", "\r\n"), "\ufeff" + DOG, DOG.rstrip("\n"), "\n \n" + DOG])
def test_other_ends_of_lines_a_byte_order_mark_and_a_missing_last_line_are_read(text):
    assert read(text + "\n\n" + DOG) == read(DOG) * 2


MALFORMED = [
    ("a column too few", changed(3, "\tdog\tNOUN", "\tdog"), "Line 3 has 9 "),
    ("spaces for a tab", changed(3, "dog", "big  dog"), "Line 3 .*two spaces"),
    ("an ID in letters", changed(3, "2\t", "two\t"), "Line 3 has 'two' as ID"),
    ("an ID twice", changed(3, "2\t", "1\t"), "Line 3 has the ID 1.* 2"),
    ("no HEAD", changed(3, "\t5\t", "\t_\t"), "Line 3 has the HEAD _.* 1 to 6"),
    ("a HEAD in letters", changed(3, "\t5\t", "\tfive\t"), "Line 3 has 'five' as HEAD"),
    ("a HEAD behind the sentence", changed(3, "\t5\t", "\t7\t"), "Line 3 has the HEAD 7.* 1 to 6"),
    ("itself as HEAD", changed(3, "\t5\t", "\t2\t"), "Line 3 has the HEAD 2"),
    ("no DEPREL", changed(3, "nsubj", "_"), "Line 3 has no DEPREL"),
    ("a circle", changed(7, "\t0\troot", "\t2\tdep"), "Line 3 leads in a circle"),
    ("two roots", changed(3, "\t5\tnsubj", "\t0\tnsubj"), "Line 7 .*HEAD 0"),
    ("an antecedent behind the sentence", meant("7"), "Line 9 has Antecedent=7.* 1 to 6"),
    ("itself as antecedent", meant("6"), "Line 9 has Antecedent=6"),
    ("an antecedent in letters", meant("it"), "Line 9 has Antecedent=it"),
    ("the second sentence", DOG + changed(3, "\t5\t", "\t7\t"), "Line 13 has the HEAD 7"),
    ("nothing", "", "some.conllu"),
    ("a sentence without words", "1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n", "Line 1 "),
    ("another encoding", changed(3, "dog", "dög").encode("latin-1"), "Line 3 .*UTF-8"),
]
test_malformed_files_are_refused_with_the_number_of_the_line_and_what_is_no_treebank = refusals(
    *[(what, partial(read, text), ValueError, fact) for what, text, fact in MALFORMED],
    ("no file", lambda: read_treebank("nothing.conllu"), ValueError, r"nothing\.conllu.*No such file"),
    ("a number", lambda: as_sentences(3), TypeError, "int"),
    ("texts", lambda: as_sentences(["The dog barks."]), TypeError, "read_treebank"),
    ("an empty list", lambda: as_sentences([]), TypeError, "read_treebank"),
)
