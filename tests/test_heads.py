"""The heads room against hand-worked attention, plain loops, and a model whose heads are known."""

from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from refused import refusals
from transformers import BertConfig, BertModel
from view_samples import load

from utils import heads as room
from utils.heads import DIRECTIONS, Links, measure_links, score_links, score_pronouns, without_heads
from utils.treebank import TREEBANK, Sentence, read_treebank

DEPENDENT, HEAD = 0, 1  # the two directions


def sentence(text, heads, relations=None, upos=None, **antecedents):
    """A sentence from texts; heads are places of words."""
    words = text.split()
    relations, upos = relations or "dep " * len(words), upos or "NOUN " * len(words)
    return Sentence(words, upos.split(), heads, relations.split(), [antecedents.get(word) for word in words])


A_DOG = sentence("a dog", [1, -1], "det root")
SHE = sentence("Anna told Tom she won", [1, -1, 1, 4, 1], None, "PROPN VERB PROPN PRON VERB", she=0)


def right_guesses(tokenizer, model, sentence):
    """Which heads find the head of each word, as products of matrices: (words, directions, layers, heads)."""
    entry = tokenizer(sentence.words, is_split_into_words=True, return_tensors="pt")
    places = np.arange(len(sentence.words))
    piece = np.array([[word == place for word in entry.word_ids()] for place in places], float)
    tables = torch.cat(model(**entry, output_attentions=True).attentions).detach().numpy()
    words = piece / piece.sum(axis=1, keepdims=True) @ tables @ piece.T
    words[..., places, places] = -1
    return np.moveaxis(np.stack([words.argmax(-1), words.argmax(-2)]) == sentence.heads, -1, 0)


def test_measure_agrees_with_products_of_matrices_on_single_sentences(bert):
    sentences = read_treebank(TREEBANK)[5::100] + read_treebank(TREEBANK)[-3:]
    links = measure_links(bert[1], bert[0], sentences)
    assert (np.diff(links.sentence) >= 0).all()
    for place, tree in enumerate(sentences):
        mine = links.sentence == place
        asked = [word for word, name in enumerate(tree.relations) if name not in ("root", "punct")]
        assert links.relation[mine].tolist() == [tree.relations[word] for word in asked]
        assert links.offset[mine].tolist() == [tree.heads[word] - word for word in asked]
        assert np.array_equal(links.hits[mine], right_guesses(*bert, tree)[asked])


class Puppet:
    """Stands in for a BERT. Its attention is random, but for heads that follow a relation of the treebank."""

    training, device = False, torch.device("cpu")
    config = SimpleNamespace(num_hidden_layers=2, num_attention_heads=3, max_position_embeddings=64)

    def __init__(self, tokenizer, sentences, follow=()):
        """follow: (layer, head, direction, relation) of each head that does something."""
        self.follow, self.of = follow, {}
        self.generator = torch.Generator().manual_seed(0)
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


def test_heads_that_follow_a_relation_are_found_by_name(bert):
    sentences = read_treebank(TREEBANK)[::4]
    follow = [(1, 2, DEPENDENT, "obj"), (0, 1, HEAD, "nsubj")]
    table = room.score_heads(Puppet(bert[0], sentences, follow), bert[0], sentences)
    best = table.drop_duplicates("relation").set_index("relation")
    names = best[["best", "layer", "head", "direction"]]
    assert names.loc["obj"].tolist() == ["L1H2", 1, 2, "dependent to head"]
    assert names.loc["nsubj"].tolist() == ["L0H1", 0, 1, "head to dependent"]
    assert (best.loc[["obj", "nsubj"], ["accuracy", "high"]] == 1).all(axis=None)
    assert best.loc["det", "accuracy"] < 0.4, "nobody follows it"
    assert not {"punct", "root"} & set(best.index)
    order = list(zip(-table["pairs"], table["relation"], -table["chosen_at"], strict=True))
    assert order == sorted(order)
    shares = table[["accuracy", "low", "high", "offset_accuracy", "chosen_at"]].to_numpy()
    assert (shares == shares.round(3)).all() and (shares >= 0).all() and (shares <= 1).all()
    assert (table["low"] <= table["accuracy"]).all() and (table["accuracy"] <= table["high"]).all()


def test_no_better_than_chance_on_the_half_that_did_not_choose():
    rng, patterns, tables = np.random.default_rng(1), np.repeat(np.arange(400), 2), []
    for seed in range(10):
        hits = rng.random((800, 2, 6, 12)) < 0.1
        links = Links(np.array(["obj"] * 800), np.arange(800), patterns, rng.integers(1, 9, 800), hits)
        tables.append(score_links(links, seed=seed))
    patterns = np.repeat(np.arange(50), 3)  # halves are whole patterns, and of equal number
    chooses = room.choosing_half(patterns, seed=4)
    assert chooses.sum() == 75 and (chooses.reshape(50, 3).std(axis=1) == 0).all()
    assert (room.choosing_half(patterns, seed=5) != chooses).any()
    sigma = (0.1 * 0.9 / 400) ** 0.5  # of one accuracy
    assert np.mean([table["chosen_at"] for table in tables]) > 0.1 + 2 * sigma
    assert abs(np.mean([table["accuracy"] for table in tables]) - 0.1) < 3 * sigma / 20**0.5
    covered = [((table["low"] <= 0.1) & (table["high"] >= 0.1)).mean() for table in tables]
    assert np.mean(covered) >= 0.8, "the interval holds the truth, about 95 times in 100"


def test_columns_of_the_table_by_hand():
    patterns = np.arange(4)
    chooses = room.choosing_half(patterns)
    offsets = np.where(chooses, -2, [1, -2, 1, -2])
    hits = np.zeros((4, 2, 1, 2), dtype=bool)
    hits[chooses, 0, 0, 1] = True  # L0H1 is perfect where it is chosen
    hits[np.flatnonzero(~chooses)[0], 0, 0, 1] = True  # and right in one of two where it is scored
    rare = Links(np.array(["obj"] * 4), np.arange(4), patterns, offsets, hits)
    row = score_links(rare, min_pairs=2).iloc[0]
    assert row[["best", "layer", "head", "pairs", "direction"]].tolist() == ["L0H1", 0, 1, 2, DIRECTIONS[0]]
    assert row["patterns"] == 2
    assert row[["accuracy", "chosen_at", "low", "high"]].tolist() == [0.5, 1.0, 0.0, 1.0]
    assert row["lead_low"] <= 0.5 - row["offset_accuracy"] <= row["lead_high"]
    assert row["offset"] == -2 and row["offset_accuracy"] == (offsets[~chooses] == -2).mean()
    with pytest.raises(ValueError, match="No relation has 3 pairs"):
        score_links(rare, min_pairs=3)


def test_best_offset_and_accuracy_of_heads_by_hand():
    assert room.best_offset(np.array([1, 1, -3, 2])) == 1
    assert room.best_offset(np.array([-5, -5, 4, 4, 1])) == 4, "of two that are equally frequent, the nearer"
    hits = np.array([[1, 0], [1, 1], [0, 0], [1, 0]], dtype=bool).reshape(4, 1, 1, 2)
    links = Links(np.array(["a", "a", "a", "b"]), np.arange(4), np.arange(4), np.ones(4), hits)
    np.testing.assert_allclose(room.accuracy_of_heads(links, "a"), [[[2 / 3, 1 / 3]]])
    with pytest.raises(ValueError, match=r"'c'.* a, b"):
        room.accuracy_of_heads(links, "c")


@pytest.mark.parametrize("pairs, groups, apart", [(1, 500, 0.006), (10, 50, 0.02)])
def test_bootstrap_agrees_with_the_binomial_interval_of_groups(pairs, groups, apart):
    """All pairs of one group have one fate, so they are no more evidence than one."""
    hits = np.repeat(np.arange(groups) < 0.7 * groups, pairs)
    low, high = room.bootstrap_interval(hits, np.repeat(np.arange(groups), pairs))
    width = 1.96 * (0.7 * 0.3 / groups) ** 0.5
    assert abs(low - (0.7 - width)) < apart and abs(high - (0.7 + width)) < apart


@pytest.mark.parametrize("count, low", [(10, 0.6915), (20, 0.8316)])
def test_interval_is_exact_where_nothing_varies(count, low):
    """The values of printed tables of Clopper and Pearson's interval."""
    sentence = np.repeat(np.arange(count), 2)  # the two pairs of a sentence count once
    right = np.ones(2 * count, dtype=bool)
    assert room.share_interval(right, sentence) == pytest.approx((low, 1), abs=1e-4)
    assert room.share_interval(~right, sentence) == pytest.approx((0, 1 - low), abs=1e-4)
    half = np.full(2 * count, 0.5)
    assert room.share_interval(half, sentence) == (0.5, 0.5), "chance is no count of right answers"


def test_sentences_that_cannot_be_measured_are_counted_and_skipped_aloud(bert, capsys):
    """The limit of the puppet is 64 tokens, [CLS] and [SEP] among them."""
    fits, long = (sentence("dog " * count, [-1] + [0] * (count - 1)) for count in (62, 63))
    everything = [long, fits, A_DOG, A_DOG._replace(words=["a", "\u200b"]), long]
    assert measure_links(Puppet(bert[0], everything), bert[0], everything).sentence.tolist() == [1] * 61 + [2]
    said = capsys.readouterr().out.splitlines()
    assert ["Skipped 2 of 5" in said[0], "64 tokens" in said[0], "Skipped 1 of 5" in said[1]] == [True] * 3
    with pytest.raises(ValueError, match="No sentence of the treebank fits"):
        measure_links(Puppet(bert[0], []), bert[0], [long])


def test_a_batch_holds_at_most_so_many_weights(bert, monkeypatch):
    """Of the puppet's 6 heads with 4 x 4 weights a sentence, 300 weights are 3 sentences."""
    monkeypatch.setattr(room, "MOST_WEIGHTS", 300)
    found = room.word_attention(Puppet(bert[0], [A_DOG]), bert[0], [A_DOG] * 7)
    assert [len(places) for places, _ in found] == [3, 3, 1]


def test_pronouns_by_hand(bert):
    """ "Anna told Tom that she ...": two candidates. A puppet head that follows the link is always right."""
    upos = "PROPN VERB PROPN SCONJ PRON VERB DET NOUN PUNCT"
    relations = "x root x x link x x x x"  # the "head" of she is Anna, so that a puppet can follow it
    text, heads = "Anna told Tom that she won a prize .", [1, -1, 1, 5, 0, 1, 7, 5, 1]
    far = sentence(text, heads, relations, upos, she=0)
    near = sentence(text.replace("she", "he"), [*heads[:4], 2, *heads[5:]], relations, upos, he=2)
    many = enumerate([far] * 20 + [near] * 10)  # each of another pattern
    sentences = [tree._replace(relations=[f"x{place}", *tree.relations[1:]]) for place, tree in many]
    puppet = Puppet(bert[0], sentences, [(1, 0, DEPENDENT, "link")])
    table = score_pronouns(room.measure_pronouns(puppet, bert[0], sentences)).set_index("rule")
    assert list(table.index) == ["best head", "nearest noun", "first noun", "chance"]
    assert table.loc["best head", ["best", "accuracy", "near", "far"]].tolist() == ["L1H0", 1, 1, 1]
    assert table.loc["nearest noun", ["near", "far"]].tolist() == [1, 0]
    assert table.loc["first noun", ["near", "far"]].tolist() == [0, 1]
    assert table.loc["chance", "accuracy"] == 0.5 and (table["pairs"] == 15).all()
    assert table["accuracy"][["nearest noun", "first noun"]].sum() == pytest.approx(1, abs=0.002)
    halves = room.choosing_half(np.arange(30))
    assert table.loc["nearest noun", "accuracy"] == round((~halves)[20:].sum() / 15, 3)


def test_pronouns_of_one_pattern_that_fits_are_refused(bert):
    upos, home = "PROPN VERB PROPN SCONJ PRON VERB", " home" * 60
    fits = sentence("Tom met Ann when she came", [1, -1, 1, 5, 5, 1], upos=upos, she=2)
    long = sentence("Tom met Ann when she came" + home, [*fits.heads, *[1] * 60], upos=upos + home, she=2)
    long.relations[0] = "nsubj"
    with pytest.raises(ValueError, match="one pattern"):
        score_pronouns(room.measure_pronouns(Puppet(bert[0], [fits]), bert[0], [fits, long]))


def test_pronouns_count_only_with_a_choice_and_a_right_candidate():
    only_one = sentence("Tom saw himself", [1, -1, 1], upos="PROPN VERB PRON", himself=0)
    later = sentence("She saw Anna", [1, -1, 1], upos="PRON VERB PROPN", She=2)
    assert list(room._pronouns(only_one)) == list(room._pronouns(later)) == []


def test_without_heads_equals_zeroed_columns_of_the_output_projection_and_mends_the_model(bert):
    tokenizer, model = bert
    inputs, surgery = tokenizer("Time flies like an arrow.", return_tensors="pt"), deepcopy(model)
    heads, width = [(2, 0), (2, 5), (4, 11)], model.config.hidden_size // model.config.num_attention_heads
    for layer, head in heads:
        projection = surgery.encoder.layer[layer].attention.output.dense.weight
        projection.data[:, head * width : (head + 1) * width] = 0
    with torch.no_grad():
        before, expected = model(**inputs, output_attentions=True), surgery(**inputs).last_hidden_state
        with without_heads(model, heads) as same:
            removed = model(**inputs, output_attentions=True)
        with without_heads(model, heads[:1]), without_heads(model, heads[1:]):
            assert torch.equal(model(**inputs).last_hidden_state, removed.last_hidden_state)
        with pytest.raises(KeyError), without_heads(model, heads):
            raise KeyError
        with without_heads(model, []):
            assert torch.equal(model(**inputs).last_hidden_state, before.last_hidden_state)
    assert same is model
    torch.testing.assert_close(removed.last_hidden_state, expected)
    assert (expected - before.last_hidden_state).abs().max() > 1e-3
    for layer in range(3):  # up to the first removed head nothing changes, not even its own weights
        assert torch.equal(removed.attentions[layer], before.attentions[layer])


def test_random_weights_have_the_shape_of_the_model_and_nothing_it_learnt():
    sizes = {"hidden_size": 48, "num_attention_heads": 3, "intermediate_size": 96, "num_hidden_layers": 1}
    model = BertModel(BertConfig(vocab_size=100, initializer_range=0.1, **sizes))
    for weights in model.parameters():
        weights.data.fill_(0.5)
    first, again, other = (room.with_random_weights(model, seed).state_dict() for seed in (3, 3, 4))
    for name, weights in model.named_parameters():
        assert (weights == 0.5).all(), "the model itself is as before"
        assert torch.equal(first[name], again[name]) and first[name].shape == weights.shape
        if weights.ndim > 1:
            assert not torch.equal(first[name], other[name]), name
            assert first[name].std().item() == pytest.approx(0.1, abs=0.02), name
        else:
            assert (first[name] == float(name.endswith("LayerNorm.weight"))).all(), name


def remove(model, heads):
    with without_heads(model, heads):
        pass


def measure(model, tokenizer):
    measure_links(model, tokenizer, [A_DOG])


def changed(model, implementation="eager", added=0.0):
    """A copy that attends in another way, or with another row of one weight."""
    (model := deepcopy(model)).set_attn_implementation(implementation)
    model.encoder.layer[2].attention.self.query.weight.data[3] += added
    return model


REFUSED = [
    ("NaN", lambda t, m: room.measure_pronouns(changed(m, added=torch.nan), t, [SHE] * 4), ValueError, "NaN"),
    ("no weights", lambda t, m: measure(changed(m, "sdpa"), t), ValueError, '="eager"'),
    ("train mode", lambda t, m: measure(SimpleNamespace(training=True), t), ValueError, r"model\.eval\(\)"),
    ("no fast tokenizer", lambda t, m: measure(m, object()), TypeError, "AutoTokenizer"),
    ("no link", lambda t, m: measure_links(m, t, [sentence("dog", [-1])]), ValueError, "no link"),
    ("no seed", lambda t, m: room.score_heads(m, t, [A_DOG], seed="a"), TypeError, "seed is 'a'"),
    ("seed below 0", lambda t, m: score_pronouns(None, seed=-1), ValueError, "seed is -1"),
    ("no pronouns", lambda t, m: room.measure_pronouns(m, t, [A_DOG] * 5), ValueError, "Antecedent=ID"),
    ("no such layer", lambda t, m: remove(m, [(6, 0)]), ValueError, r"\(6, 0\).* 0 to 5, .* 0 to 11"),
    ("no such head", lambda t, m: remove(m, [(0, 12)]), ValueError, r"\(0, 12\)"),
    ("one pair", lambda t, m: remove(m, (2, 0)), TypeError, r"\(2, 0\).*\[\(2, 0\)\]"),
    ("heads in an iterator", lambda t, m: remove(m, iter([(2, 0)])), TypeError, "list of pairs"),
]
OF_BERT = [(what, lambda wrong=wrong: wrong(*load()), *said) for what, wrong, *said in REFUSED]
test_what_does_not_fit_is_refused = refusals(*OF_BERT)


def test_interval_of_a_difference_is_paired():
    """400 sentences of one pair. Head and rule agree on 360; of the others the head is right in 30, the rule
    in 10. The normal interval (McNemar): 20 / 400 with the variance (40 - 20 ** 2 / 400) / 400 ** 2."""
    head = np.arange(400) < 290
    rule = np.isin(np.arange(400), np.r_[0:260, 290:300])
    low, high = room.bootstrap_interval(head.astype(int) - rule, np.arange(400))
    width = 1.96 * (40 - 20**2 / 400) ** 0.5 / 400
    assert low == pytest.approx(0.05 - width, abs=0.006) and high == pytest.approx(0.05 + width, abs=0.006)
    alone = np.subtract(*room.bootstrap_interval(head, np.arange(400))[::-1])
    assert high - low < alone, "what both find easy cancels"
