"""The heads room against hand-worked attention, a model whose heads are known, and plain loops; and the treebank."""

# ruff: noqa: SIM905  (a list of words is read best as one text)

import re
from copy import deepcopy
from types import SimpleNamespace

import conllu
import make_treebank
import numpy as np
import pytest
import torch

from utils import heads
from utils.heads import (
    Links,
    accuracy_of_heads,
    best_offset,
    bootstrap_interval,
    choosing_half,
    measure_links,
    merge_pieces,
    score_heads,
    score_links,
    score_pronouns,
    with_random_weights,
    without_heads,
)
from utils.treebank import Sentence, read_treebank

DEPENDENT, HEAD = 0, 1  # the two directions
UPOS = set("ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split())
RELATIONS = set(
    "nsubj obj iobj csubj ccomp xcomp obl vocative expl dislocated advcl advmod discourse aux cop mark nmod "
    "appos nummod "
    "acl amod det clf case conj cc fixed flat list parataxis compound orphan goeswith reparandum punct root dep".split()
)
SUBTYPES = {
    "nsubj:pass",
    "aux:pass",
    "obl:agent",
    "nmod:poss",
    "acl:relcl",
    "compound:prt",
}  # all of UD English

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


def write(folder, text, **encoding):
    path = folder / "some.conllu"
    path.write_text(text, **{"encoding": "utf-8", **encoding})
    return path


def changed(number, old, new):
    """DOG with one line changed, counted from 1."""
    lines = DOG.split("\n")
    assert old in lines[number - 1]
    lines[number - 1] = lines[number - 1].replace(old, new, 1)
    return "\n".join(lines)


# ---------------------------------------------------------------------------------------------- the treebank


def sentences_of_file():
    """Comments and rows of each sentence of the treebank, by a reader of this file's own."""
    text = heads.TREEBANK.read_text(encoding="utf-8")
    assert text.endswith("\n\n") and "\r" not in text
    for block in text.removesuffix("\n\n").split("\n\n"):
        lines = block.split("\n")
        rows = [line.split("\t") for line in lines if not line.startswith("#")]
        yield [line for line in lines if line.startswith("#")], rows


def test_treebank_is_what_its_grammar_writes():
    assert heads.TREEBANK.read_bytes() == make_treebank.treebank().encode()


def test_treebank_is_valid_by_the_rules_of_the_format():
    seen = set()
    for comments, rows in sentences_of_file():
        sent_id, text = (
            next(line.split(" = ", 1)[1] for line in comments if line.startswith(f"# {key} = "))
            for key in ("sent_id", "text")
        )
        assert not {sent_id, text} & seen, "each once"
        seen |= {sent_id, text}
        assert all(len(row) == 10 and all(cell.strip() == cell != "" for cell in row) for row in rows)
        words = [row for row in rows if row[0].isdecimal()]
        assert [int(row[0]) for row in words] == list(range(1, len(words) + 1))
        assert all(row[3] in UPOS and row[2] != "_" for row in words), text
        assert all(row[7] in RELATIONS | SUBTYPES for row in words), text
        assert (
            [row[7] for row in words if row[6] == "0"] == ["root"] == [r[7] for r in words if r[7] == "root"]
        )
        for row in words:  # from head to head to the root, in fewer steps than there are words
            place = row
            for _ in words:
                place = words[int(place[6]) - 1] if place[6] != "0" else place
            assert place[6] == "0", f"a circle in {text}"
            if antecedent := re.search(r"Antecedent=(\d+)", row[9]):
                assert row[3] == "PRON" and words[int(antecedent[1]) - 1][3] in ("NOUN", "PROPN"), text
        covered, surface = 0, ""
        for row in rows:
            first, _, last = row[0].partition("-")
            if last:
                assert row[1] == "".join(word[1] for word in words[int(first) - 1 : int(last)])
                assert all(cell == "_" for cell in row[2:9])
                covered = int(last)
            elif int(first) <= covered:
                continue
            surface += row[1] + ("" if "SpaceAfter=No" in row[9] else " ")
        assert surface.rstrip(" ") == text
        assert text[0].isupper() and text[-1] in ".?!"


def test_treebank_survives_a_round_trip_through_conllu():
    text = heads.TREEBANK.read_text(encoding="utf-8")
    body = re.sub(r"^# .*\n", "", text, flags=re.MULTILINE)
    assert "".join(sentence.serialize() for sentence in conllu.parse(body)) == body


def test_treebank_is_large_and_varied():
    sentences = read_treebank(heads.TREEBANK)
    assert len(sentences) >= 300
    offsets = {}
    for sentence in sentences:
        for word, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True)):
            offsets.setdefault(relation, []).append(head - word)
    shares = {
        name: offsets[name].count(best_offset(np.array(offsets[name]))) / len(offsets[name])
        for name in offsets
    }
    assert shares["nsubj"] < 0.5 and shares["obj"] < 0.55 and shares["obl"] < 0.4 and shares["advmod"] < 0.8
    frequent = [
        shares[name] for name in offsets if len(offsets[name]) >= 20 and name not in ("root", "punct")
    ]
    assert np.mean(frequent) < 0.6
    pronouns = [item for sentence in sentences for item in heads._pronouns(sentence)]
    assert len(pronouns) >= 100
    nearest = np.mean([candidates[-1] == antecedent for _, antecedent, candidates in pronouns])
    first = np.mean([candidates[0] == antecedent for _, antecedent, candidates in pronouns])
    assert nearest < 0.6 and first < 0.6, "no simple rule finds the nouns of the pronouns"


# ------------------------------------------------------------------------------------------- reading a file


def test_reading_keeps_the_words_and_leaves_out_what_has_no_head(tmp_path):
    (sentence,) = read_treebank(write(tmp_path, DOG))
    assert sentence.words == ["The", "dog", "did", "n't", "bark", "."]
    assert sentence.heads == [1, 4, 4, 4, -1, 4]
    assert sentence.relations == ["det", "nsubj", "aux", "advmod", "root", "punct"]
    assert sentence.antecedents == [None] * 6


@pytest.mark.parametrize("text", [DOG.replace("\n", "\r\n"), "\ufeff" + DOG, DOG.rstrip("\n"), "\n\n" + DOG])
def test_reading_takes_other_ends_of_lines_a_byte_order_mark_and_a_missing_last_line(tmp_path, text):
    path = tmp_path / "some.conllu"
    path.write_bytes(text.encode())
    assert len(read_treebank(path)) == 1


def test_reading_agrees_with_conllu_on_the_whole_treebank():
    parsed = conllu.parse(heads.TREEBANK.read_text(encoding="utf-8"))
    for sentence, tokens in zip(read_treebank(heads.TREEBANK), parsed, strict=True):
        words = tokens.filter(id=lambda number: isinstance(number, int))
        assert sentence.words == [token["form"] for token in words]
        assert sentence.heads == [token["head"] - 1 for token in words]


@pytest.mark.parametrize(
    "text, message",
    [
        (changed(3, "\tdog\tNOUN", "\tdog"), "Line 3 has 9 filled columns. CoNLL-U has 10"),
        (changed(3, "\tdog\tNOUN", "\tdog\t"), "Line 3 has 9 filled columns"),
        (changed(3, "dog", "big  dog"), "Line 3 has two spaces in a row"),
        (changed(3, "2\t", "two\t"), "Line 3 has 'two' as ID. It must be a number"),
        (changed(4, "3-4", "4-3"), "Line 4 has '4-3' as ID"),
        (changed(3, "2\t", "3\t"), "Line 3 has the ID 3. Here it must be 2"),
        (changed(3, "\t5\t", "\tfive\t"), "Line 3 has 'five' as HEAD. It must be a number"),
        (changed(3, "\t5\t", "\t_\t"), "Line 3 has the HEAD _. It must be another word, 1 to 6, or 0"),
        (changed(3, "\t5\t", "\t7\t"), "Line 3 has the HEAD 7. It must be another word, 1 to 6, or 0"),
        (changed(3, "\t5\t", "\t-1\t"), "Line 3 has the HEAD -1"),
        (changed(3, "\t5\t", "\t2\t"), "Line 3 has the HEAD 2"),
        (changed(3, "nsubj", "_"), "Line 3 has no DEPREL"),
        (changed(7, "\t0\troot", "\t2\tdep"), "leads in a circle from head to head"),
        (changed(3, "\t5\tnsubj\t_\t_", "\t5\tnsubj\t_\tAntecedent=9"), "Line 3 has Antecedent=9"),
        (changed(3, "\t5\tnsubj\t_\t_", "\t5\tnsubj\t_\tAntecedent=it"), "Line 3 has Antecedent=it"),
        ("# only a comment\n", "holds no sentence"),
        ("", "holds no sentence"),
        ("1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n", "Line 1 begins a sentence without words"),
    ],
)
def test_malformed_files_are_refused_with_the_number_of_the_line(tmp_path, text, message):
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        read_treebank(write(tmp_path, text))
    assert str(caught.value).count(". ") <= 1, "one or two sentences"


def test_line_numbers_count_the_sentences_before(tmp_path):
    with pytest.raises(ValueError, match=r"Line 13 has the HEAD 7"):
        read_treebank(write(tmp_path, DOG + changed(3, "\t5\t", "\t7\t")))


def test_other_encodings_and_other_paths_are_refused(tmp_path):
    with pytest.raises(ValueError, match="Line 3 is no UTF-8"):
        read_treebank(write(tmp_path, changed(3, "dog", "dög"), encoding="latin-1"))
    with pytest.raises(ValueError, match=r"cannot be read \(No such file"):
        read_treebank(tmp_path / "nothing.conllu")
    with pytest.raises(TypeError, match=r"type int\. Give the path"):
        read_treebank(3)


# ------------------------------------------------------------------------- attention between words, by hand


def test_attention_to_a_split_word_is_summed_and_from_it_averaged():
    """[CLS] a ##b c [SEP]: the words are "ab" and "c"."""
    weights = torch.tensor(
        [
            [0.2, 0.2, 0.2, 0.2, 0.2],
            [0.1, 0.2, 0.3, 0.4, 0.0],  # a
            [0.5, 0.0, 0.1, 0.2, 0.2],  # ##b
            [0.1, 0.3, 0.4, 0.1, 0.1],  # c
            [1.0, 0.0, 0.0, 0.0, 0.0],
        ]
    )
    words = merge_pieces(weights[None, None], torch.tensor([[-1, 0, 0, 1, -1]]), 2)
    # from "ab" to "ab": ((0.2 + 0.3) + (0.0 + 0.1)) / 2; from "ab" to "c": (0.4 + 0.2) / 2
    torch.testing.assert_close(words[0, 0], torch.tensor([[0.3, 0.3], [0.7, 0.1]]))


def test_rows_between_words_and_special_tokens_sum_to_1(bert):
    tokenizer, model = bert
    entry = tokenizer(["the", "airspeed", "dropped"], is_split_into_words=True, return_tensors="pt")
    word_of_token = torch.tensor([[-1 if word is None else word for word in entry.word_ids()]])
    assert entry.word_ids().count(1) == 2
    weights = model(**entry, output_attentions=True).attentions[2]
    words = merge_pieces(weights, word_of_token, 3)
    special = weights[..., 0] + weights[..., -1]  # (batch, heads, query)
    pieces = special[:, :, 2:4].mean(dim=-1)
    torch.testing.assert_close(words[:, :, 1].sum(dim=-1), 1 - pieces)


def plain_hits(tokenizer, model, sentence):
    """Hits of one sentence, by loops: {(dependent, direction, layer, head)} of all right guesses."""
    ids, word_of = [tokenizer.cls_token_id], [None]
    for place, word in enumerate(sentence.words):
        pieces = tokenizer(word, add_special_tokens=False)["input_ids"]
        ids, word_of = ids + pieces, word_of + [place] * len(pieces)
    ids, word_of = [*ids, tokenizer.sep_token_id], [*word_of, None]
    found, count = set(), len(sentence.words)
    for layer, weights in enumerate(model(torch.tensor([ids]), output_attentions=True).attentions):
        for head, table in enumerate(weights[0].tolist()):
            words = np.zeros((count, count))
            for query, row in enumerate(table):
                for key, weight in enumerate(row):
                    if word_of[query] is not None and word_of[key] is not None:
                        words[word_of[query], word_of[key]] += weight / word_of.count(word_of[query])
            np.fill_diagonal(words, -1)
            for word, gold in enumerate(sentence.heads):
                for direction, guesses in enumerate([words[word], words[:, word]]):
                    if guesses.argmax() == gold and sentence.relations[word] != "punct":
                        found.add((word, direction, layer, head))
    return found


def test_measure_agrees_with_plain_loops_on_single_sentences(bert):
    """Also that padding and batches change nothing: the loops take one sentence at a time."""
    sentences = read_treebank(heads.TREEBANK)[5::100] + read_treebank(heads.TREEBANK)[-3:]
    links = measure_links(bert[1], bert[0], sentences)
    for place, sentence in enumerate(sentences):
        dependents = [word for word, head in enumerate(sentence.heads) if head >= 0]
        dependents = [word for word in dependents if sentence.relations[word] != "punct"]
        hits = links.hits[links.sentence == place]
        assert [sentence.relations[word] for word in dependents] == links.relation[
            links.sentence == place
        ].tolist()
        found = {(dependents[word], *rest) for word, *rest in np.argwhere(hits).tolist()}
        assert found == plain_hits(*bert, sentence)


# ------------------------------------------------------------------------------- a model whose heads are known


class Puppet:
    """Stands in for a BERT. Its attention is random, but for heads that follow a relation of the treebank."""

    training, device = False, torch.device("cpu")
    config = SimpleNamespace(num_hidden_layers=2, num_attention_heads=3, max_position_embeddings=64)

    def __init__(self, tokenizer, sentences, follow=(), seed=0):
        """follow: (layer, head, direction, relation) of each head that does something."""
        self.follow, self.of = follow, {}
        self.generator = torch.Generator().manual_seed(seed)
        for sentence in sentences:
            entry = tokenizer(sentence.words, is_split_into_words=True)
            self.of[tuple(entry["input_ids"])] = (sentence, entry.word_ids())

    def __call__(self, input_ids, attention_mask, output_attentions, **rest):
        assert output_attentions
        batch, length = input_ids.shape
        shape = (2, batch, 3, length, length)
        weights = torch.rand(shape, generator=self.generator) * attention_mask[:, None, None]
        for row, (ids, mask) in enumerate(zip(input_ids, attention_mask, strict=True)):
            sentence, word_of = self.of[tuple(ids[mask.bool()].tolist())]
            for layer, head, direction, relation in self.follow:
                for word, (gold, name) in enumerate(zip(sentence.heads, sentence.relations, strict=True)):
                    if name == relation:
                        link = (word, gold) if direction == DEPENDENT else (gold, word)
                        query, key = (word_of.index(place) for place in link)
                        last = len(word_of) - 1 - word_of[::-1].index(link[1])
                        weights[layer, row, head, query, key] = 5.0
                        weights[layer, row, head, query, last] += 50.0
        weights[..., 0] += 1000.0  # [CLS] takes nearly all, as in a real BERT
        weights += 1000 * torch.eye(length)  # and so does the word itself
        return SimpleNamespace(attentions=tuple(weights / weights.sum(dim=-1, keepdim=True)))


@pytest.fixture(scope="module")
def some_sentences():
    return read_treebank(heads.TREEBANK)[::4]


def test_heads_that_follow_a_relation_are_found_by_name(bert, some_sentences):
    follow = [(1, 2, DEPENDENT, "obj"), (0, 1, HEAD, "nsubj")]
    table = score_heads(Puppet(bert[0], some_sentences, follow), bert[0], some_sentences)
    best = table.drop_duplicates("relation").set_index("relation")
    assert best.loc["obj", ["best", "layer", "head", "direction"]].tolist() == [
        "2-3",
        1,
        2,
        "dependent to head",
    ]
    assert best.loc["nsubj", ["best", "layer", "head", "direction"]].tolist() == [
        "1-2",
        0,
        1,
        "head to dependent",
    ]
    assert best.loc[["obj", "nsubj"], ["accuracy", "low", "high"]].to_numpy().tolist() == [[1.0] * 3] * 2
    assert best.loc["det", "accuracy"] < 0.4, "nobody follows it"
    assert "punct" not in best.index and "root" not in best.index


def test_no_better_than_chance_on_the_half_that_did_not_choose():
    """Random hits: the best of 72 heads looks better than chance where it is chosen, not where it is scored."""
    rng, sentences, tables = np.random.default_rng(1), np.repeat(np.arange(400), 2), []
    for seed in range(10):
        hits = rng.random((800, 2, 6, 12)) < 0.1
        links = Links(np.array(["obj"] * 800), sentences, rng.integers(1, 9, 800), hits)
        tables.append(score_links(links, seed=seed))
    sigma = (0.1 * 0.9 / 400) ** 0.5  # of one accuracy
    assert np.mean([table["chosen_at"] for table in tables]) > 0.1 + 2 * sigma
    assert abs(np.mean([table["accuracy"] for table in tables]) - 0.1) < 3 * sigma / 20**0.5
    covered = [((table["low"] <= 0.1) & (table["high"] >= 0.1)).mean() for table in tables]
    assert np.mean(covered) >= 0.8, "the interval holds the truth, about 95 times in 100"


def test_halves_are_whole_sentences_and_of_equal_size():
    sentences = np.repeat(np.arange(50), 3)
    chooses = choosing_half(sentences, seed=4)
    assert chooses.sum() == 75 and (chooses.reshape(50, 3).std(axis=1) == 0).all()
    assert (choosing_half(sentences, seed=5) != chooses).any()


def test_columns_of_the_table_by_hand(capsys):
    """Four sentences. The choosing half decides; the table tells what the other half says."""
    sentences = np.arange(4)
    chooses = choosing_half(sentences)
    offsets = np.where(chooses, -2, [1, -2, 1, -2])
    hits = np.zeros((4, 2, 1, 2), dtype=bool)
    hits[chooses, 0, 0, 1] = True  # head 1-2 is perfect where it is chosen
    hits[np.flatnonzero(~chooses)[0], 0, 0, 1] = True  # and right in one of two where it is scored
    rare = Links(np.array(["obj"] * 4), sentences, offsets, hits)
    row = score_links(rare, min_pairs=2).iloc[0]
    assert row[["best", "layer", "head", "pairs"]].tolist() == ["1-2", 0, 1, 2]
    assert row[["accuracy", "chosen_at", "low", "high"]].tolist() == [0.5, 1.0, 0.0, 1.0]
    assert row["offset"] == -2 and row["offset_accuracy"] == (offsets[~chooses] == -2).mean()
    with pytest.raises(ValueError, match="No relation has 3 pairs in each half"):
        score_links(rare, min_pairs=3)
    assert capsys.readouterr().out == "Left out, with fewer than 3 pairs in a half: obj.\n"


def test_best_offset_by_hand():
    assert best_offset(np.array([1, 1, -3, 2])) == 1
    assert best_offset(np.array([-5, -5, 4, 4, 1])) == 4, "of two that are equally frequent, the nearer"


def test_accuracy_of_heads_by_hand():
    hits = np.array([[1, 0], [1, 1], [0, 0], [1, 0]], dtype=bool).reshape(4, 1, 1, 2)
    links = Links(np.array(["a", "a", "a", "b"]), np.arange(4), np.ones(4), hits)
    np.testing.assert_allclose(accuracy_of_heads(links, "a"), [[[2 / 3, 1 / 3]]])
    with pytest.raises(ValueError, match=r"no relation 'c'. It has: a, b."):
        accuracy_of_heads(links, "c")


def test_bootstrap_agrees_with_the_binomial_interval():
    count, share = 500, 0.7
    hits = np.arange(count) < share * count
    low, high = bootstrap_interval(hits, np.arange(count))
    width = 1.96 * (share * (1 - share) / count) ** 0.5
    assert abs(low - (share - width)) < 0.006 and abs(high - (share + width)) < 0.006


def test_bootstrap_knows_that_pairs_of_one_sentence_are_not_independent():
    hits = np.repeat(np.arange(50) < 35, 10)  # each sentence has 10 pairs with one fate
    low, high = bootstrap_interval(hits, np.repeat(np.arange(50), 10))
    width = 1.96 * (0.7 * 0.3 / 50) ** 0.5
    assert abs((high - low) / 2 - width) < 0.02


def test_table_is_the_same_from_run_to_run_and_in_another_order(bert, some_sentences):
    few = some_sentences[:60]
    table = score_heads(bert[1], bert[0], few)
    assert table.equals(score_heads(bert[1], bert[0], few))
    shares = table[["accuracy", "low", "high", "offset_accuracy", "chosen_at"]].to_numpy()
    assert (shares == shares.round(3)).all() and (shares >= 0).all() and (shares <= 1).all()
    assert (table["low"] <= table["accuracy"]).all() and (table["accuracy"] <= table["high"]).all()
    assert (
        table["best"] == [f"{a + 1}-{b + 1}" for a, b in zip(table["layer"], table["head"], strict=True)]
    ).all()


def test_path_and_sentences_give_the_same(bert, tmp_path, some_sentences):
    path = write(tmp_path, DOG * 30)
    table = score_heads(bert[1], bert[0], path, min_pairs=5)
    assert table.equals(score_heads(bert[1], bert[0], str(path), min_pairs=5))
    assert sorted(set(table["relation"])) == ["advmod", "aux", "det", "nsubj"]
    assert set(table["pairs"]) == {15}


def test_long_sentences_are_counted_and_skipped_aloud(bert, capsys):
    short = Sentence(["a", "dog"], ["DET", "NOUN"], [1, -1], ["det", "root"], [None, None])
    long = Sentence(["dog"] * 511, ["NOUN"] * 511, [-1] + [0] * 510, ["root"] + ["dep"] * 510, [None] * 511)
    links = measure_links(bert[1], bert[0], [long, short, long])
    assert capsys.readouterr().out == "Skipped 2 of 3 sentences: more than the model's 512 tokens.\n"
    assert links.sentence.tolist() == [1]
    with pytest.raises(ValueError, match="No sentence of the treebank fits"):
        measure_links(bert[1], bert[0], [long])


def test_longest_sentence_that_fits_is_measured(bert):
    most = Sentence(["dog"] * 510, ["NOUN"] * 510, [-1] + [0] * 509, ["root"] + ["dep"] * 509, [None] * 510)
    assert len(measure_links(bert[1], bert[0], [most]).relation) == 509


def test_words_without_a_token_are_counted_and_skipped_aloud(bert, capsys):
    odd = Sentence(["a", "\u200b"], ["DET", "NOUN"], [1, -1], ["det", "root"], [None, None])
    short = Sentence(["a", "dog"], ["DET", "NOUN"], [1, -1], ["det", "root"], [None, None])
    measure_links(bert[1], bert[0], [odd, short])
    assert "Skipped 1 of 2 sentences: the tokenizer makes no token of a word." in capsys.readouterr().out


def test_bad_arguments_get_plain_sentences(bert, some_sentences):
    tokenizer, model = bert
    with pytest.raises(ValueError, match='Load it with attn_implementation="eager"'):
        quiet = SimpleNamespace(attentions=())
        puppet = Puppet(tokenizer, [])
        puppet.__class__ = type("Silent", (Puppet,), {"__call__": lambda self, **inputs: quiet})
        measure_links(puppet, tokenizer, some_sentences)
    with pytest.raises(ValueError, match=r"in train mode.*Call model.eval"):
        measure_links(SimpleNamespace(training=True), tokenizer, some_sentences)
    with pytest.raises(TypeError, match="Load it with AutoTokenizer"):
        measure_links(model, object(), some_sentences)
    with pytest.raises(TypeError, match="not one of sentences"):
        score_heads(model, tokenizer, ["The dog barks."])
    with pytest.raises(ValueError, match=r"min_pairs is 0\. Give 1 or more"):
        score_heads(model, tokenizer, some_sentences, min_pairs=0)
    with pytest.raises(TypeError, match=r"seed is 'a'\. Give a whole number"):
        score_heads(model, tokenizer, some_sentences, seed="a")
    with pytest.raises(ValueError, match="holds no pronouns to choose for"):
        score_pronouns(model, tokenizer, some_sentences[:5])


# ---------------------------------------------------------------------------------------------- the pronouns


def test_pronouns_by_hand(bert):
    """ "Anna told Tom that she ...": two candidates. A puppet head that follows the link is always right."""
    words = "Anna told Tom that she won a prize .".split()
    upos = "PROPN VERB PROPN SCONJ PRON VERB DET NOUN PUNCT".split()
    right = [1, -1, 1, 5, 0, 1, 7, 5, 1]  # the "head" of she is Anna, so that a puppet can follow it
    relations = ["x", "root", "x", "x", "link", "x", "x", "x", "x"]
    far = Sentence(words, upos, right, relations, [None] * 4 + [0] + [None] * 4)
    near = far._replace(words=[*words[:4], "he", *words[5:]], heads=[1, -1, 1, 5, 2, 1, 7, 5, 1])
    near = near._replace(antecedents=[None] * 4 + [2] + [None] * 4)
    sentences = [far] * 20 + [near] * 10
    puppet = Puppet(bert[0], sentences, [(1, 0, DEPENDENT, "link")])
    table = score_pronouns(puppet, bert[0], sentences).set_index("rule")
    assert table.loc["best head", ["best", "layer", "head", "accuracy", "near", "far"]].tolist() == [
        "2-1",
        1,
        0,
        1,
        1,
        1,
    ]
    assert table.loc["nearest noun", ["near", "far"]].tolist() == [1, 0]
    assert table.loc["first noun", ["near", "far"]].tolist() == [0, 1]
    assert table.loc["chance", "accuracy"] == 0.5
    assert table.loc["nearest noun", "accuracy"] + table.loc["first noun", "accuracy"] == pytest.approx(
        1, abs=0.002
    )


def test_pronouns_count_only_with_a_choice_and_a_right_candidate():
    only_one = Sentence(
        ["Tom", "saw", "himself"], ["PROPN", "VERB", "PRON"], [1, -1, 1], ["x"] * 3, [None, None, 0]
    )
    later = Sentence(
        ["She", "saw", "Anna"], ["PRON", "VERB", "PROPN"], [1, -1, 1], ["x"] * 3, [2, None, None]
    )
    assert list(heads._pronouns(only_one)) == list(heads._pronouns(later)) == []


# --------------------------------------------------------------------------------------------- interventions


def test_without_heads_equals_zeroed_columns_of_the_output_projection(bert):
    tokenizer, model = bert
    inputs = tokenizer("Time flies like an arrow.", return_tensors="pt")
    surgery = deepcopy(model)
    width = model.config.hidden_size // model.config.num_attention_heads
    for layer, head in [(2, 0), (2, 5), (4, 11)]:
        projection = surgery.encoder.layer[layer].attention.output.dense.weight
        projection.data[:, head * width : (head + 1) * width] = 0
    with torch.no_grad():
        before, expected = model(**inputs), surgery(**inputs)
        with without_heads(model, [(2, 0), (2, 5), (4, 11)]) as same:
            assert same is model
            removed = model(**inputs, output_attentions=True)
        after = model(**inputs, output_attentions=True)
    torch.testing.assert_close(removed.last_hidden_state, expected.last_hidden_state)
    assert (removed.last_hidden_state - before.last_hidden_state).abs().max() > 1e-3
    assert torch.equal(after.last_hidden_state, before.last_hidden_state), "behind the block all is as before"
    for layer in range(3):  # up to the first removed head nothing changes, not even its own weights
        assert torch.equal(removed.attentions[layer], after.attentions[layer])


def test_without_heads_mends_the_model_after_an_error_and_can_be_nested(bert):
    tokenizer, model = bert
    inputs = tokenizer("Time flies.", return_tensors="pt")
    with torch.no_grad():
        before = model(**inputs).last_hidden_state
        with without_heads(model, [(0, 0)]), without_heads(model, [(1, 1)]):
            nested = model(**inputs).last_hidden_state
        with without_heads(model, [(0, 0), (1, 1)]):
            assert torch.equal(model(**inputs).last_hidden_state, nested)
        with without_heads(model, []):
            assert torch.equal(model(**inputs).last_hidden_state, before)
        with pytest.raises(KeyError), without_heads(model, [(0, 0)]):
            raise KeyError
        assert torch.equal(model(**inputs).last_hidden_state, before)


@pytest.mark.parametrize(
    "wrong, error, message",
    [
        ([(6, 0)], ValueError, "no head (6, 0): layers go from 0 to 5, heads from 0 to 11"),
        ([(0, -1)], ValueError, "no head (0, -1)"),
        ((2, 0), TypeError, "Give a list of pairs (layer, head), such as [(2, 0)] for head 3-1"),
        (["3-1"], TypeError, "Give a list of pairs"),
        ([(1.0, 2)], TypeError, "Give a list of pairs"),
        (None, TypeError, "Give a list of pairs"),
    ],
)
def test_heads_that_are_not_there_are_refused(bert, wrong, error, message):
    with pytest.raises(error, match=re.escape(message)), without_heads(bert[1], wrong):
        pass


def test_random_twin_has_the_shape_of_the_model_and_nothing_it_learnt(bert):
    model = bert[1]
    before = {name: weights.clone() for name, weights in model.state_dict().items()}
    twin, again = with_random_weights(model, seed=3), with_random_weights(model, seed=3)
    for name, weights in twin.state_dict().items():
        assert torch.equal(weights, again.state_dict()[name]) and torch.equal(
            model.state_dict()[name], before[name]
        )
        assert weights.shape == before[name].shape and weights.dtype == before[name].dtype
        if weights.ndim > 1 and weights.is_floating_point():
            assert abs(weights.std().item() - model.config.initializer_range) < 0.002, name
    layer = twin.encoder.layer[0].attention.output
    assert torch.equal(layer.LayerNorm.weight, torch.ones_like(layer.LayerNorm.weight))
    assert layer.dense.bias.abs().max() == 0
    assert not torch.equal(
        twin.embeddings.word_embeddings.weight,
        with_random_weights(model, 4).embeddings.word_embeddings.weight,
    )


def test_trained_heads_beat_the_random_twin_and_the_offset(bert, some_sentences):
    """The claim of notebook 10 about the default model, on a quarter of the treebank."""
    found = [
        score_heads(model, bert[0], some_sentences).drop_duplicates("relation").set_index("relation")
        for model in (bert[1], with_random_weights(bert[1]))
    ]
    for relation in ("obj", "nsubj", "aux"):
        trained, random = (table.loc[relation] for table in found)
        assert trained["low"] > random["high"] and trained["accuracy"] > trained["offset_accuracy"]
