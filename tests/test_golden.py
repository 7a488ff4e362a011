"""What others have published about bert-base-uncased, found again:
by the library, and by the course's own encoder.

golden/bert-base-uncased.json holds figures that three published notebooks print for that checkpoint (float32,
on a CPU), and says of each which part of which tensor it is. The tests marked `hub` need the checkpoint
itself: from the hub's cache on this machine, or from the hub. Where neither has it, they are skipped within
seconds and say why.
"""

import json
import re
from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from utils.encoder import Encoder
from utils.models import CheckpointError, checkpoint

NAME = "bert-base-uncased"
GOLDEN = json.loads((Path(__file__).parent / "golden" / f"{NAME}.json").read_text(encoding="utf-8"))
CORNER = GOLDEN["attention_layer_1_corner"]
LAST = GOLDEN["mean_attention_last_layer"]["rows"]
# By name: the published numbers, and where they stand in the attention of all layers, (layers, heads, query,
# key).
FIGURES = {
    "head 1-1, first keys": (CORNER["first"], lambda attentions: attentions[0, 0, :3, :3]),
    "head 1-1, last keys": (CORNER["last"], lambda attentions: attentions[0, 0, :3, -3:]),
    "head 8-10": (GOLDEN["attention_8_10"]["rows"], lambda attentions: attentions[7, 9, :10]),
    "mean of layer 12": (LAST, lambda attentions: attentions[11, :, :10].mean(dim=0)),
}


def assert_published(name, attentions):
    """Refuse what is not equal to 3 decimals: half a unit of the last,
    and a little for the order of a CPU's sums."""
    published, where = FIGURES[name]
    expected = torch.tensor(published, dtype=torch.float64)
    torch.testing.assert_close(where(attentions).double(), expected, atol=0.00055, rtol=0)


def assert_ids(tokenizer):
    encoded = tokenizer.encode(GOLDEN["text"])
    assert encoded == GOLDEN["input_ids"]
    assert tokenizer.convert_ids_to_tokens(encoded) == GOLDEN["tokens"]
    assert tokenizer.decode(encoded) == GOLDEN["decoded"]
    flies, pair = GOLDEN["time_flies"], GOLDEN["pair"]
    expected = flies["input_ids_without_special_tokens"]
    assert tokenizer.encode(flies["text"], add_special_tokens=False) == expected
    encoded = tokenizer(pair["sentence_a"], pair["sentence_b"])["input_ids"]
    assert tokenizer.convert_ids_to_tokens(encoded) == pair["tokens"]
    assert len(tokenizer) == GOLDEN["vocab_size"]


@pytest.fixture(scope="module")
def original():
    """The tokenizer and the model of the original, in float64."""
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


@pytest.mark.hub
@pytest.mark.parametrize("name", FIGURES)
def test_library_and_twin_give_the_published_figures(name, original):
    ids = torch.tensor([GOLDEN["input_ids"]])
    with torch.no_grad():
        for outputs in (original[1](ids, output_attentions=True), Encoder.from_bert(original[1])(ids)):
            assert_published(name, torch.cat(outputs.attentions))


@pytest.mark.hub
def test_original_has_the_published_sizes_and_ids(original):
    tokenizer, model = original
    assert_ids(tokenizer)
    sizes = ("num_hidden_layers", "num_attention_heads", "hidden_size", "intermediate_size", "vocab_size")
    published = ("num_layers", "num_heads", "hidden_size", "intermediate_size", "vocab_size")
    assert [getattr(model.config, size) for size in sizes] == [GOLDEN[size] for size in published]
    pair = tokenizer(GOLDEN["pair"]["sentence_a"], GOLDEN["pair"]["sentence_b"], return_tensors="pt")
    with torch.no_grad():
        attentions = model(**pair, output_attentions=True).attentions
    assert list(attentions[0].shape) == GOLDEN["pair"]["attention_shape"]


def test_packaged_tokenizer_gives_the_published_ids():
    """The packaged model has the vocabulary of the original, so nothing has to be fetched for this."""
    assert_ids(AutoTokenizer.from_pretrained(checkpoint()))


@pytest.mark.parametrize("name", FIGURES)
def test_one_wrong_number_does_not_pass(name):
    """Tensors that hold the published numbers at their places pass;
    with one number 0.002 away they do not."""
    published, where = FIGURES[name]
    attentions = torch.zeros(12, 12, 20, 20)
    places = attentions[11, :, :10] if "mean" in name else where(attentions)
    places[:] = torch.tensor(published)
    assert_published(name, attentions)
    places[..., 2, 1] += 0.002
    with pytest.raises(AssertionError):
        assert_published(name, attentions)
