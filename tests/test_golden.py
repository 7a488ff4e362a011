"""What three published notebooks print for bert-base-uncased, which tests marked `hub` need: found again."""

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
CORNER, LAST = GOLDEN["attention_layer_1_corner"], GOLDEN["mean_attention_last_layer"]["rows"]


def assert_ids(tokenizer):
    encoded = tokenizer.encode(GOLDEN["text"])
    assert encoded == GOLDEN["input_ids"] and tokenizer.convert_ids_to_tokens(encoded) == GOLDEN["tokens"]
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
def test_library_and_twin_give_the_published_figures(original):
    """To 3 decimals: half a unit of the last, and a little for the order of a CPU's sums."""
    ids = torch.tensor([GOLDEN["input_ids"]])
    with torch.no_grad():
        for outputs in (original[1](ids, output_attentions=True), Encoder.from_bert(original[1])(ids)):
            found = torch.cat(outputs.attentions)  # (layers, heads, query, key)
            for part, published in [
                (found[0, 0, :3, :3], CORNER["first"]),
                (found[0, 0, :3, -3:], CORNER["last"]),
                (found[7, 9, :10], GOLDEN["attention_8_10"]["rows"]),
                (found[11, :, :10].mean(dim=0), LAST),
            ]:
                torch.testing.assert_close(part, torch.tensor(published).double(), atol=0.00055, rtol=0)


@pytest.mark.hub
def test_original_has_the_published_sizes_and_ids(original):
    tokenizer, model = original
    assert_ids(tokenizer)
    sizes = ("num_hidden_layers", "num_attention_heads", "hidden_size", "intermediate_size", "vocab_size")
    published = ("num_layers", "num_heads", "hidden_size", "intermediate_size", "vocab_size")
    assert [getattr(model.config, size) for size in sizes] == [GOLDEN[size] for size in published]


def test_packaged_tokenizer_gives_the_published_ids():
    assert_ids(AutoTokenizer.from_pretrained(checkpoint()))
