"""The compare room: a mistake in a twin of BERT is named where it is made, and nothing else is."""

import pytest
import torch
from refused import refusals
from tiny_models import ids, new_bert, pads
from torch import nn
from transformers import BertModel

from utils.attention import use_fused_attention
from utils.compare import compare_with_bert
from utils.encoder import Encoder

INPUTS = {"input_ids": ids(2, 9), "token_type_ids": ids(2, 9) % 2, "attention_mask": pads(2, 9)}


@pytest.fixture(scope="module")
def model():
    return new_bert(num_hidden_layers=6)


@pytest.fixture
def twin(model):
    return Encoder.from_bert(model)


def test_no_difference_is_found_where_there_is_none(bert):
    tokenizer, model = bert
    pairs = [("leaves fall in autumn", "autumn is marked by colorful foliage"), ("Is it raining?", "No.")]
    inputs = tokenizer(*zip(*pairs, strict=True), padding=True, return_tensors="pt")
    found = compare_with_bert(Encoder.from_bert(model), model, inputs)
    assert found.first_difference is None and found.tolerance == 1e-10
    assert found.table["equal"].all() and (found.table["largest difference"] <= 1e-10).all()
    parts = ["attention weights", "attention output", "after the first norm", "feed-forward output", "output"]
    layers = [f"layer {number} {part}" for number in range(6) for part in parts]
    assert list(found.table.index) == ["embeddings", *layers] and repr(found).count("< 1e-10") == 31


def swap(part, one, other):
    first, second = getattr(part, one), getattr(part, other)
    setattr(part, one, second)
    setattr(part, other, first)


def put_bias(part, change):
    part.bias = nn.Parameter(part.bias + change)  # its own, not BERT's


NORM = "attention_norm"
MISTAKES_IN_A_TWIN = [
    ("embeddings", lambda twin: twin.train()),
    ("layer 1 attention weights", lambda twin: twin.layers[1].attention.dropout.train()),
    ("layer 3 attention weights", lambda twin: swap(twin.layers[3].attention, "query", "key")),
    ("layer 2 attention output", lambda twin: swap(twin.layers[2].attention, "value", "output")),
    ("layer 1 after the first norm", lambda twin: swap(twin.layers[1], NORM, "feed_forward_norm")),
    ("layer 4 attention weights", lambda twin: swap(twin.layers, "4", "5")),
    ("layer 5 attention weights", lambda twin: setattr(twin.layers[5], "norm_first", True)),
    ("layer 2 feed-forward output", lambda twin: put_bias(twin.layers[2].feed_forward.contract, +1e-9)),
    ("layer 2 feed-forward output", lambda twin: put_bias(twin.layers[2].feed_forward.contract, -1e-9)),
    ("layer 2 after the first norm", lambda twin: put_bias(twin.layers[2].attention_norm, torch.nan)),
    ("layer 0 output", lambda twin: put_bias(twin.layers[0].feed_forward_norm, 1e-9)),
]


@pytest.mark.parametrize("first, plant", MISTAKES_IN_A_TWIN)
def test_a_mistake_in_a_twin_is_named_where_it_is_made(first, plant, model, twin):
    torch.manual_seed(0)
    plant(twin)
    found = compare_with_bert(twin, model, INPUTS)
    assert found.first_difference == first and first in repr(found).splitlines()[-1]
    equal = found.table["equal"]
    assert equal[: list(equal.index).index(first)].all() and not equal[first]


def test_comparison_leaves_no_hook_behind(model, twin):
    def hooks():
        return [len(part._forward_hooks) for whole in (twin, model) for part in whole.modules()]

    model(ids(1, 3))  # transformers puts hooks of its own in
    before = hooks()
    compare_with_bert(twin, model, INPUTS)
    with pytest.raises(ValueError, match="50"):
        compare_with_bert(twin, model, {"input_ids": torch.tensor([[50]])})
    assert hooks() == before


def test_weights_that_one_side_does_not_return_are_left_out(model, twin):
    config = type(model.config)(**model.config.to_diff_dict(), attn_implementation="sdpa")
    sdpa = BertModel(config).double().eval()
    sdpa.load_state_dict(model.state_dict())
    for pair in ((twin, sdpa), (use_fused_attention(twin), sdpa), (twin, model)):
        table, first, _ = compare_with_bert(*pair, INPUTS)
        assert first is None and len(table) == 25 and not table.index.str.contains("weights").any()


def test_float32_has_a_tolerance_of_its_own_and_another_may_be_given(model, twin):
    single = new_bert().float()
    found = compare_with_bert(Encoder.from_bert(single), single, INPUTS)
    assert found.first_difference is None and found.tolerance == 1e-5
    put_bias(twin.layers[0].attention.output, 1e-9)
    found = compare_with_bert(twin, model, INPUTS)
    assert found.first_difference == "layer 0 attention output"
    largest = found.table["largest difference"].max()
    found = compare_with_bert(twin, model, INPUTS, tolerance=largest)
    assert found.first_difference is None and found.tolerance == largest


def test_another_width_is_an_infinite_difference(model):
    narrow = Encoder.from_bert(new_bert(hidden_size=8, num_hidden_layers=6))
    table, first, _ = compare_with_bert(narrow, model, INPUTS)
    assert first == "embeddings" and table["largest difference"]["embeddings"] == torch.inf


def compared(model, source=None):
    """Compare the twin of one BERT with another."""
    return compare_with_bert(Encoder.from_bert(source or new_bert()), model, INPUTS)


test_refused = refusals(
    ("train mode", lambda: compared(new_bert().train()), ValueError, "model.eval()"),
    ("depth", lambda: compared(new_bert(num_hidden_layers=3)), ValueError, "2 layers"),
    ("dtype", lambda: compared(new_bert().float()), TypeError, "torch.float32"),
    ("no tolerance", lambda: compared(*[new_bert().bfloat16()] * 2), ValueError, "torch.bfloat16"),
    ("no BERT", lambda: compared(Encoder.from_bert(new_bert())), TypeError, "Encoder"),
)
