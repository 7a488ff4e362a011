"""What others have published about bert-base-uncased, found again: by the library, and by the course's own encoder.

golden/bert-base-uncased.json holds figures that three published notebooks print for that checkpoint (float32, on a
CPU), and says of each which part of which tensor it is. The tests marked `hub` need the checkpoint itself: from the
hub's cache on this machine, or from the hub. Where neither has it, they are skipped within seconds and say why.
"""

import json
import re
from pathlib import Path

import pytest
import torch
from random_checkpoints import random_bert
from transformers import AutoModel, AutoTokenizer

from utils.encoder import Encoder
from utils.models import CheckpointError, checkpoint

NAME = "bert-base-uncased"
GOLDEN = json.loads((Path(__file__).parent / "golden" / f"{NAME}.json").read_text(encoding="utf-8"))
CORNER = GOLDEN["attention_layer_1_corner"]
# By name: the published numbers, and where they stand in the attention of all layers.
FIGURES = {
    "head 1-1, first keys": (CORNER["first"], lambda attentions: attentions[0][0, 0, :3, :3]),
    "head 1-1, last keys": (CORNER["last"], lambda attentions: attentions[0][0, 0, :3, -3:]),
    "head 8-10": (GOLDEN["attention_8_10"]["rows"], lambda attentions: attentions[7][0, 9, :10]),
    "mean of layer 12": (
        GOLDEN["mean_attention_last_layer"]["rows"],
        lambda attentions: attentions[11][0].mean(dim=0)[:10],
    ),
}
each_figure = pytest.mark.parametrize("name", FIGURES)


def assert_published(name, attentions):
    """Equal to 3 decimals: half a unit of the last one, and a little for the order in which a CPU adds."""
    published, where = FIGURES[name]
    found = where(attentions).double()
    torch.testing.assert_close(found, torch.tensor(published).double(), atol=0.00055, rtol=0)


def attend(model, input_ids):
    """The attention of each layer, as the library computes it."""
    with torch.no_grad():
        return model(input_ids=input_ids, output_attentions=True).attentions


@pytest.fixture(scope="module")
def ids():
    return torch.tensor([GOLDEN["input_ids"]])


@pytest.fixture(scope="module")
def original():
    """Tokenizer and model of the original, in float64."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_CHECKPOINT", NAME)
        try:
            folder = checkpoint()
        except CheckpointError as error:
            # What is there and damaged, or foreign, is a failure.
            if re.search("the hub at |on the hub that you may read", str(error), re.IGNORECASE):
                pytest.skip(str(error))
            raise
    model = AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
    return AutoTokenizer.from_pretrained(folder), model


# --- The checkpoint itself


@pytest.mark.hub
@each_figure
def test_library_gives_the_published_figures(name, original, ids):
    assert_published(name, attend(original[1], ids))


@pytest.mark.hub
@each_figure
def test_twin_gives_the_published_figures(name, original, ids):
    with torch.no_grad():
        attentions = Encoder.from_bert(original[1])(ids).attentions
    assert_published(name, attentions)


@pytest.mark.hub
def test_original_has_the_published_sizes(original):
    tokenizer, model = original
    config = model.config
    assert [config.num_hidden_layers, config.num_attention_heads] == [
        GOLDEN["num_layers"],
        GOLDEN["num_heads"],
    ]
    assert [config.hidden_size, config.intermediate_size] == [
        GOLDEN["hidden_size"],
        GOLDEN["intermediate_size"],
    ]
    assert config.vocab_size == len(tokenizer) == GOLDEN["vocab_size"]
    pair = tokenizer(GOLDEN["pair"]["sentence_a"], GOLDEN["pair"]["sentence_b"], return_tensors="pt")
    assert list(attend(model, pair["input_ids"])[0].shape) == GOLDEN["pair"]["attention_shape"]


@pytest.mark.hub
def test_original_gives_the_published_ids(original):
    assert_ids(original[0])


# --- What needs no weights


def assert_ids(tokenizer):
    encoded = tokenizer.encode(GOLDEN["text"])
    assert encoded == GOLDEN["input_ids"]
    assert tokenizer.convert_ids_to_tokens(encoded) == GOLDEN["tokens"]
    assert tokenizer.decode(encoded) == GOLDEN["decoded"]
    flies = GOLDEN["time_flies"]
    expected = flies["input_ids_without_special_tokens"]
    assert tokenizer.encode(flies["text"], add_special_tokens=False) == expected
    pair = tokenizer(GOLDEN["pair"]["sentence_a"], GOLDEN["pair"]["sentence_b"])
    assert tokenizer.convert_ids_to_tokens(pair["input_ids"]) == GOLDEN["pair"]["tokens"]


def test_packaged_tokenizer_gives_the_published_ids():
    """The packaged model has the vocabulary of the original, so nothing has to be fetched for this."""
    tokenizer = AutoTokenizer.from_pretrained(checkpoint())
    assert len(tokenizer) == GOLDEN["vocab_size"]
    assert_ids(tokenizer)


# --- These tests can fail


@pytest.fixture(scope="module")
def wrong_attention(ids):
    """The attention of a model of the same shape that was never trained, by the library and by the twin."""
    model = random_bert(NAME)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        return attend(model, ids), Encoder.from_bert(model)(ids).attentions


@pytest.mark.slow
@each_figure
def test_wrong_model_does_not_pass(name, wrong_attention):
    for attentions in wrong_attention:
        assert len(attentions) == GOLDEN["num_layers"]
        with pytest.raises(AssertionError):
            assert_published(name, attentions)


@each_figure
def test_one_wrong_number_does_not_pass(name):
    """Tensors that hold the published numbers at their places pass; with one number 0.002 away they do not."""
    published, where = FIGURES[name]
    attentions = [torch.zeros(1, 12, 20, 20) for _ in range(12)]
    where_to = attentions[11][0] if "mean" in name else where(attentions)[None]
    for part in where_to:
        part[: len(published)].copy_(torch.tensor(published))
    assert_published(name, attentions)
    where_to[:, 2, 1] += 0.002
    with pytest.raises(AssertionError):
        assert_published(name, attentions)
