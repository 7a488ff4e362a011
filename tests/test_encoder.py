"""The encoder room: against BERT of transformers tensor by tensor, against PyTorch, and against worked values."""

import copy
import itertools
import math
import types
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transformers import BertConfig, BertForMaskedLM, BertModel

from utils import attention, encoder
from utils.attention import LayerAttention, fused_attention, use_fused_attention, weights_of_torch
from utils.compare import compare_with_bert
from utils.encoder import Embeddings, Encoder, EncoderLayer, FeedForward, SequenceClassifier, layer_norm
from utils.guards import POSITIONS
from utils.positions import RelativeAttention, RotaryAttention, rotate, sinusoidal_positions

SIZES = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 12,
    "type_vocab_size": 2,
}
TINY = types.SimpleNamespace(
    **SIZES, layer_norm_eps=1e-12, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
)


def new_bert(dtype=torch.float64, **changes):
    """A BERT with random weights: of biases and norms, too, and large enough for sharp attention."""
    torch.manual_seed(0)
    model = BertModel(BertConfig(**(SIZES | {"attn_implementation": "eager"} | changes))).to(dtype).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    return model


def new_encoder(**changes):
    torch.manual_seed(0)
    return Encoder(TINY, **changes).double().eval()


def ids(*shape, seed=0):
    return torch.randint(50, shape, generator=torch.Generator().manual_seed(seed))


def close(actual, expected, tolerance=1e-10):
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Where other tests run beside these, threads that wait for one another take many times as long."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# ------------------------------------------------------------------------------------------------ the twin


@pytest.fixture(scope="module")
def course_bert(bert):
    """The course's model in both dtypes, and with sdpa."""
    models = {torch.float64: bert[1], torch.float32: copy.deepcopy(bert[1]).float()}
    for dtype in (torch.float32, torch.float64):
        config = BertConfig(**bert[1].config.to_diff_dict(), attn_implementation="sdpa")
        models["sdpa", dtype] = BertModel(config).to(dtype).eval()
        models["sdpa", dtype].load_state_dict(models[dtype].state_dict(), assign=True)
    return models


@pytest.fixture(scope="module")
def many_inputs(bert):
    """What the tokenizer makes of single sentences, pairs and batches, and some that it does not make."""
    tokenizer = bert[0]
    singles = [
        "time flies like an arrow",
        "fruit flies like a banana",
        "My friend told me about this class and I love it so far! She was right.",
        "As the aircraft becomes lighter, it flies higher in the air of lower density.",
        "astronomers discovered a new planet",
        "The keys to the cabinet are on the table, aren't they?",
        "12,345.67 is a number; café is a word; 中文 too.",
        "no",
        "",
    ]
    pairs = [
        ("leaves fall in autumn", "autumn is marked by colorful foliage"),
        ("The cat sat.", "It was tired, so it slept the whole afternoon on the warm roof."),
        ("Is it raining?", "No."),
        ("a", "b"),
    ]
    inputs = [tokenizer(text, return_tensors="pt") for text in singles]
    inputs += [tokenizer(*pair, return_tensors="pt") for pair in pairs]
    inputs += [
        tokenizer(singles[:4], padding=True, return_tensors="pt"),
        tokenizer(singles[::-1], padding=True, return_tensors="pt"),
        tokenizer(*zip(*pairs, strict=True), padding=True, return_tensors="pt"),
        tokenizer(singles[:2], padding="max_length", max_length=40, padding_side="left", return_tensors="pt"),
        tokenizer(
            "one two three four five six seven " * 99, truncation=True, max_length=512, return_tensors="pt"
        ),
        tokenizer("rain", padding="max_length", max_length=512, return_tensors="pt"),
        {"input_ids": torch.tensor([[101]])},
        {"input_ids": torch.tensor([[101, 2051, 102]]), "attention_mask": torch.tensor([[1, 0, 1]])},
        {"input_ids": torch.tensor([[5, 30521, 0]]), "token_type_ids": torch.tensor([[1, 0, 1]])},
        {"input_ids": torch.tensor([[101, 2051]], dtype=torch.int32), "attention_mask": torch.ones(1, 2)},
    ]
    assert len(inputs) >= 20 and {1, 512} <= {i["input_ids"].shape[1] for i in inputs}
    return inputs


def assert_twins(twin, model, inputs, tolerance, attentions=True):
    """Every hidden state, and every attention map, is that of the library."""
    with torch.no_grad():
        ours = twin(**inputs)
        theirs = model(**inputs, output_hidden_states=True, output_attentions=attentions)
    depth = model.config.num_hidden_layers
    assert len(ours.hidden_states) == len(theirs.hidden_states) == depth + 1
    close(ours.last_hidden_state, theirs.last_hidden_state, tolerance)
    close(ours.hidden_states, theirs.hidden_states, tolerance)
    if attentions:
        assert len(ours.attentions) == len(theirs.attentions) == depth
        close(ours.attentions, theirs.attentions, tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_twin_equals_the_courses_bert(course_bert, many_inputs, dtype, tolerance):
    twin = Encoder.from_bert(course_bert[dtype])
    for inputs in many_inputs:
        assert_twins(twin, course_bert[dtype], inputs, tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_twin_equals_a_new_bert_of_the_shape_of_bert_base(dtype, tolerance):
    torch.manual_seed(0)
    model = BertModel(BertConfig(attn_implementation="eager")).to(dtype).eval()
    assert sum(weight.numel() for weight in model.parameters()) == 109_482_240
    input_ids, attention_mask = torch.randint(30522, (2, 16)), torch.ones(2, 16, dtype=torch.long)
    attention_mask[1, 10:] = 0
    twin = Encoder.from_bert(model)
    assert_twins(twin, model, {"input_ids": input_ids, "attention_mask": attention_mask}, tolerance)
    assert_twins(twin, model, {"input_ids": input_ids[:1, :1]}, tolerance)


@pytest.mark.parametrize(
    "shape",
    [
        {"num_hidden_layers": 1, "num_attention_heads": 1},
        {"num_hidden_layers": 5, "hidden_size": 24, "num_attention_heads": 8, "intermediate_size": 7},
        {"hidden_size": 20, "type_vocab_size": 3, "max_position_embeddings": 40, "vocab_size": 60},
        {"hidden_size": 15, "num_attention_heads": 3, "layer_norm_eps": 0.1},
    ],
)
def test_twin_equals_bert_of_other_widths_and_depths(shape):
    model = new_bert(**shape)
    mask = torch.ones(3, 12).long()
    mask[0, 5:] = 0
    inputs = {"input_ids": ids(3, 12), "token_type_ids": ids(3, 12) % 2, "attention_mask": mask}
    assert_twins(Encoder.from_bert(model), model, inputs, 1e-10)
    largest = model(**inputs, output_attentions=True).attentions[-1][1:].max()
    assert largest > 0.2, "the attention of this model is so even that a mistake might not show"


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_fused_twin_equals_sdpa(course_bert, many_inputs, dtype, tolerance):
    model = course_bert["sdpa", dtype]
    twin = use_fused_attention(Encoder.from_bert(model))
    for inputs in many_inputs:
        assert_twins(twin, model, inputs, tolerance, attentions=False)
    by_hand = Encoder.from_bert(course_bert["sdpa", torch.float64])
    assert_twins(by_hand, course_bert["sdpa", torch.float64], many_inputs[-5], 1e-10, attentions=False)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_training_is_that_of_bert(implementation):
    """The same seed drops the same numbers, so dropout stands in the same places; and all gradients agree."""
    model = new_bert(attn_implementation=implementation).train()
    twin = copy.deepcopy(Encoder.from_bert(model))
    assert twin.training
    use_fused_attention(twin, implementation == "sdpa")
    inputs = {"input_ids": ids(2, 9), "attention_mask": torch.tensor([[1] * 9, [1] * 6 + [0] * 3])}
    outputs = []
    for module in (model, twin):
        torch.manual_seed(1)
        outputs.append(module(**inputs).last_hidden_state)
        outputs[-1].pow(3).sum().backward()
    close(outputs[1], outputs[0])
    expected = {name: weight.grad for name, weight in twin_parameters(model)}
    for name, weight in twin.named_parameters():
        assert weight.grad.abs().max() > 0 or "key.bias" in name, name
        close(weight.grad, expected[name])
    model.eval(), twin.eval()
    assert (model(**inputs).last_hidden_state - outputs[0]).abs().max() > 0.1, "there was no dropout"


def twin_parameters(model):
    """The parameters of a BERT by the names of its twin: found by where their memory is."""
    names = {weight.data_ptr(): name for name, weight in Encoder.from_bert(model).named_parameters()}
    return [(names[w.data_ptr()], w) for w in model.parameters() if w.data_ptr() in names]


def test_twin_shares_the_weights_and_a_copy_does_not():
    model = new_bert()
    twin = Encoder.from_bert(model)
    assert len(twin_parameters(model)) == len(list(twin.parameters())) == len(list(model.parameters())) - 2
    assert all(weight.requires_grad for weight in twin.parameters())
    apart = copy.deepcopy(twin)
    twin.float()
    assert model.dtype == torch.float64
    with torch.no_grad():
        apart.embeddings.token.weight.zero_()
    assert model.embeddings.word_embeddings.weight.abs().min() > 0


def test_making_a_twin_draws_no_random_numbers():
    """Nothing is initialised only to be thrown away, and a seed set before stands."""
    model, before = new_bert(), torch.get_rng_state()
    Encoder.from_bert(model)
    assert torch.equal(torch.get_rng_state(), before)


def test_twin_is_in_the_mode_of_the_model():
    assert not Encoder.from_bert(new_bert()).training
    assert Encoder.from_bert(new_bert().train()).training


def test_keys_left_over_or_missing_are_named():
    model = new_bert()
    model.encoder.layer[1].extra = nn.Linear(2, 2)
    model.encoder.layer[0].output.dense.bias = None
    with pytest.raises(ValueError) as error:
        Encoder.from_bert(model)
    message = str(error.value)
    assert "no place for: layers.1.extra.bias, layers.1.extra.weight." in message
    assert "lacks weights that the encoder needs: layers.0.feed_forward.contract.bias." in message


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_no_numbers_are_named(value):
    model = new_bert()
    with torch.no_grad():
        model.encoder.layer[1].attention.output.LayerNorm.bias[3] = value
    with pytest.raises(ValueError, match=r"NaN or infinity: layers\.1\.attention_norm\.bias\. Load"):
        Encoder.from_bert(model)


def test_weights_of_another_shape_are_named():
    model = new_bert()
    model.embeddings.word_embeddings = nn.Embedding(51, 16).double()
    with pytest.raises(ValueError, match=r"another shape than its config says: embeddings\.token\.weight\."):
        Encoder.from_bert(model)


def test_the_pooler_alone_is_left():
    """A model without one has the same twin; a foreign part of nearly that name is not passed over."""
    model = new_bert()
    assert "pooler.dense.weight" in model.state_dict()
    expected = Encoder.from_bert(model).state_dict()
    model.pooler = None
    close(Encoder.from_bert(model).state_dict(), expected, 0)
    model.pooler2 = nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"pooler2\.bias, pooler2\.weight"):
        Encoder.from_bert(model)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: nn.Linear(2, 2), TypeError, "of the type Linear, not a BertModel"),
        (lambda: BertForMaskedLM(BertConfig(**SIZES)), TypeError, r"BertForMaskedLM.*Give .*model\.bert"),
        (lambda: new_bert(is_decoder=True), ValueError, "is a decoder"),
        (lambda: new_bert(is_decoder=True, add_cross_attention=True), ValueError, "is a decoder"),
        (
            lambda: new_bert(hidden_act="gelu_new"),
            ValueError,
            "hidden_act of the config is 'gelu_new'.*\"gelu\"",
        ),
        (lambda: new_bert(hidden_act="relu"), ValueError, "hidden_act of the config is 'relu'"),
    ],
)
def test_only_a_bert_encoder_has_a_twin(make, kind, message):
    with pytest.raises(kind, match=message):
        Encoder.from_bert(make())


# ---------------------------------------------------------------------------------- where the two part, named


PAIRS = [("leaves fall in autumn", "autumn is marked by colorful foliage"), ("Is it raining?", "No.")]


@pytest.fixture(scope="module")
def padded_pairs(bert):
    return bert[0](*zip(*PAIRS, strict=True), padding=True, return_tensors="pt")


def test_no_difference_is_found_where_there_is_none(course_bert, padded_pairs):
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        model = course_bert[dtype]
        table, first, used = compare_with_bert(Encoder.from_bert(model), model, padded_pairs)
        assert (first, used) == (None, tolerance)
        assert table["equal"].all() and (table["largest difference"] <= tolerance).all()
        parts = [
            "attention weights",
            "attention output",
            "after the first norm",
            "feed-forward output",
            "output",
        ]
        layers = itertools.product(range(1, 7), parts)
        assert list(table.index) == ["embeddings", *(f"layer {number} {part}" for number, part in layers)]


def test_comparison_leaves_no_hook_behind():
    def hooks(*models):
        return [len(part._forward_hooks) for model in models for part in model.modules()]

    model = new_bert()
    twin = Encoder.from_bert(model)
    model(ids(1, 3))  # transformers puts hooks of its own in
    before = hooks(twin, model)
    compare_with_bert(twin, model, {"input_ids": ids(1, 3)})
    with pytest.raises(ValueError, match="holds 50"):
        compare_with_bert(twin, model, {"input_ids": torch.tensor([[50]])})
    assert hooks(twin, model) == before


def planted(old, new, count=1):
    """The encoder's code with a mistake in it."""
    source = Path(encoder.__file__).read_text(encoding="utf-8")
    assert source.count(old) == count, f"{old!r} stands in the code {source.count(old)} times"
    module = types.ModuleType("utils.planted")
    module.__package__ = "utils"
    exec(compile(source.replace(old, new), "planted", "exec"), module.__dict__)
    return module.Encoder


NORMS = "nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)"
MISTAKES_IN_THE_CODE = {
    "pre-norm for post-norm": ("if self.norm_first:", "if True:", "layer 1 attention weights"),
    "no residual around attention": (
        "self.attention_norm(hidden_state + self.dropout(attended))",
        "self.attention_norm(self.dropout(attended))",
        "layer 1 after the first norm",
    ),
    "no residual around the feed-forward network": (
        "self.feed_forward_norm(hidden_state + self.feed_forward(hidden_state))",
        "self.feed_forward_norm(self.feed_forward(hidden_state))",
        "layer 1 output",
    ),
    "wrong epsilon everywhere": (NORMS, NORMS.replace("config.layer_norm_eps", "1e-5"), "embeddings"),
    "wrong epsilon after attention": (
        f"self.attention_norm = {NORMS}",
        f"self.attention_norm = {NORMS.replace('config.layer_norm_eps', '1e-5')}",
        "layer 1 after the first norm",
    ),
    "wrong epsilon after the feed-forward network": (
        f"self.feed_forward_norm = {NORMS}",
        f"self.feed_forward_norm = {NORMS.replace('config.layer_norm_eps', '1e-5')}",
        "layer 1 output",
    ),
    "tanh-GELU for GELU": ("nn.GELU()", 'nn.GELU("tanh")', "layer 1 feed-forward output"),
    "ReLU for GELU": ("nn.GELU()", "nn.ReLU()", "layer 1 feed-forward output"),
    "no segment embedding": (" + self.segment(token_type_ids)", "", "embeddings"),
    "every token in segment 0": (
        "self.segment(token_type_ids)  #",
        "self.segment.weight[0]  #",
        "embeddings",
    ),
    "no position embedding": ("if self.position is not None:", "if False:", "embeddings"),
    "positions counted from 1": (
        "weight[: input_ids.shape[1]]",
        "weight[1 : input_ids.shape[1] + 1]",
        "embeddings",
    ),
    "no norm of the embeddings": (
        "self.dropout(self.norm(embedded))",
        "self.dropout(embedded)",
        "embeddings",
    ),
    "scores not scaled": ("*= query.shape[-1] ** -0.5", "*= 1.0", "layer 1 attention weights"),
    "scores scaled by all heads' width": (
        "*= query.shape[-1] ** -0.5",
        "*= (query.shape[-1] * query.shape[-3]) ** -0.5",
        "layer 1 attention weights",
    ),
    "softmax over the queries": (
        "masked_softmax(attn_scores, mask)",
        "attn_scores.softmax(dim=-2)",
        "layer 1 attention weights",
    ),
    "padding not masked": (
        "mask = encoder_mask(attention_mask, input_ids)",
        "mask = None",
        "layer 1 attention weights",
    ),
    "pads attend instead": (
        "layer(hidden_state, mask)",
        "layer(hidden_state, ~mask)",
        "layer 1 attention weights",
    ),
    "query and key exchanged": (
        '"attention.self."',
        '"attention.self.query.": "attention.key.", "attention.self.key.": "attention.query.", "attention.self."',
        "layer 1 attention weights",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES_IN_THE_CODE)
def test_a_mistake_in_the_code_is_named_where_it_is_made(course_bert, padded_pairs, mistake):
    old, new, expected = MISTAKES_IN_THE_CODE[mistake]
    count = 3 if mistake == "wrong epsilon everywhere" else 1
    model = course_bert[torch.float64]
    table, first, _ = compare_with_bert(planted(old, new, count).from_bert(model), model, padded_pairs)
    assert first == expected
    before = table["equal"][: list(table.index).index(expected)]
    assert before.all() and not table["equal"][expected]


def scramble_heads(twin, monkeypatch):
    monkeypatch.setattr(attention, "merge_heads", lambda heads: heads.flip(1).transpose(1, 2).flatten(-2))


def forget_transpose(twin, monkeypatch):
    def merge(heads):
        return heads.reshape(heads.shape[0], heads.shape[2], -1)

    monkeypatch.setattr(attention, "merge_heads", merge)


def forget_dropout(twin, monkeypatch):
    twin.train()


def forget_dropout_of_attention(twin, monkeypatch):
    twin.layers[1].attention.dropout.train()
    torch.manual_seed(0)


def swap_query_and_key(twin, monkeypatch):
    part = twin.layers[3].attention
    part.query, part.key = part.key, part.query


def swap_value_and_output(twin, monkeypatch):
    part = twin.layers[2].attention
    part.value, part.output = part.output, part.value


def swap_norms(twin, monkeypatch):
    layer = twin.layers[1]
    layer.attention_norm, layer.feed_forward_norm = layer.feed_forward_norm, layer.attention_norm


def swap_layers(twin, monkeypatch):
    layers = twin.layers
    layers[4], layers[5] = layers[5], layers[4]


def norm_first_in_the_last_layer(twin, monkeypatch):
    twin.layers[5].norm_first = True


def one_number(change):
    def plant(twin, monkeypatch):
        part = twin.layers[2].feed_forward.contract
        part.bias = nn.Parameter(part.bias.detach().clone())  # its own, not BERT's
        part.bias.data[7] += change

    return plant


def not_a_number(twin, monkeypatch):
    twin.layers[2].attention_norm = nn.LayerNorm(384).double()
    nn.init.constant_(twin.layers[2].attention_norm.bias, math.nan)


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (scramble_heads, "layer 1 attention output"),
        (forget_transpose, "layer 1 attention output"),
        (forget_dropout, "embeddings"),
        (forget_dropout_of_attention, "layer 2 attention weights"),
        (swap_query_and_key, "layer 4 attention weights"),
        (swap_value_and_output, "layer 3 attention output"),
        (swap_norms, "layer 2 after the first norm"),
        (swap_layers, "layer 5 attention weights"),
        (norm_first_in_the_last_layer, "layer 6 attention weights"),
        (one_number(+1e-9), "layer 3 feed-forward output"),
        (one_number(-1e-9), "layer 3 feed-forward output"),
        (not_a_number, "layer 3 after the first norm"),
    ],
)
def test_a_mistake_in_a_twin_is_named_where_it_is_made(
    course_bert, padded_pairs, monkeypatch, plant, expected
):
    model = course_bert[torch.float64]
    twin = Encoder.from_bert(model)
    plant(twin, monkeypatch)
    table, first, _ = compare_with_bert(twin, model, padded_pairs)
    assert first == expected
    assert table["equal"][: list(table.index).index(expected)].all()


def test_text_of_a_comparison_shows_digits_of_real_differences_only(course_bert, padded_pairs):
    model = course_bert[torch.float64]
    twin = Encoder.from_bert(model)
    twin.layers[1].norm_first = True
    found = compare_with_bert(twin, model, padded_pairs)
    lines = repr(found).splitlines()
    assert lines[-1] == "The first tensor that differs: layer 2 attention weights."
    assert all("< 1e-10   True" in line for line in lines[1:7])
    difference = found.table["largest difference"]["layer 2 attention weights"]
    assert lines[7].split() == ["layer", "2", "attention", "weights", f"{difference:.1e}", "False"]
    assert repr(compare_with_bert(Encoder.from_bert(model), model, padded_pairs)).endswith("differs: none.")


def test_comparison_leaves_out_weights_that_one_side_does_not_return(course_bert, padded_pairs):
    model = course_bert["sdpa", torch.float64]
    twin = Encoder.from_bert(model)
    for side in (twin, use_fused_attention(twin)):
        table, first, _ = compare_with_bert(side, model, padded_pairs)
        assert first is None and len(table) == 25 and not table.index.str.contains("weights").any()


def test_comparison_refuses_what_cannot_be_compared(course_bert, padded_pairs):
    model = new_bert()
    twin, inputs = Encoder.from_bert(model), {"input_ids": ids(1, 3)}
    assert compare_with_bert(twin, model, inputs, tolerance=1.0).tolerance == 1.0
    with pytest.raises(ValueError, match=r"train mode.*model\.eval\(\)"):
        compare_with_bert(twin, new_bert().train(), inputs)
    with pytest.raises(ValueError, match="has 2 layers and the model 3"):
        compare_with_bert(twin, new_bert(num_hidden_layers=3), inputs)
    with pytest.raises(TypeError, match=r"torch\.float64 and the model of torch\.float32"):
        compare_with_bert(twin, new_bert(torch.float32), inputs)
    with pytest.raises(ValueError, match=r"No tolerance is set for torch\.bfloat16"):
        compare_with_bert(copy.deepcopy(twin).bfloat16(), new_bert(torch.bfloat16), inputs)
    with pytest.raises(TypeError, match="The model is of the type Encoder, not"):
        compare_with_bert(twin, twin, inputs)
    narrow = Encoder.from_bert(new_bert(hidden_size=8))
    table, first, _ = compare_with_bert(narrow, model, inputs)
    assert first == "embeddings" and table["largest difference"]["embeddings"] == math.inf


# ------------------------------------------------------------------------------------- the parts of a layer


def test_layer_norm_is_that_of_pytorch():
    torch.manual_seed(0)
    hidden_state = torch.randn(2, 3, 5, dtype=torch.float64) * 3 + 1
    weight, bias = torch.randn(2, 5, dtype=torch.float64)
    for eps in (1e-12, 0.5):
        expected = F.layer_norm(hidden_state, (5,), weight, bias, eps)
        close(layer_norm(hidden_state, weight, bias, eps), expected, 1e-12)
    by_hand = layer_norm(torch.tensor([1.0, 3.0]), torch.ones(2), torch.zeros(2), eps=3.0)
    close(by_hand, torch.tensor([-0.5, 0.5]), 1e-6)  # mean 2, variance 1, root of 1 + 3 is 2


def test_feed_forward_is_two_linear_layers_and_the_exact_gelu():
    torch.manual_seed(0)
    part = FeedForward(TINY).double().eval()
    hidden_state = torch.randn(2, 3, 16, dtype=torch.float64)
    inner = hidden_state @ part.expand.weight.T + part.expand.bias
    assert inner.shape == (2, 3, 24)
    gelu = inner * (1 + torch.erf(inner / math.sqrt(2))) / 2
    close(part(hidden_state), gelu @ part.contract.weight.T + part.contract.bias, 1e-12)
    close(part(hidden_state[:, 1]), part(hidden_state)[:, 1], 1e-12)  # each token for itself


def copy_from_torch(layer, source):
    """Give an EncoderLayer the weights of an `nn.TransformerEncoderLayer`."""
    layer.attention.load_state_dict(weights_of_torch(source.self_attn))
    for ours, theirs in {
        layer.attention_norm: source.norm1,
        layer.feed_forward_norm: source.norm2,
        layer.feed_forward.expand: source.linear1,
        layer.feed_forward.contract: source.linear2,
    }.items():
        ours.load_state_dict(theirs.state_dict())


def torch_layer(norm_first):
    torch.manual_seed(1)
    kinds = {"activation": "gelu", "batch_first": True, "norm_first": norm_first, "layer_norm_eps": 1e-12}
    layer = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.1, **kinds).double().eval()
    for weight in layer.parameters():
        nn.init.normal_(weight, std=0.5)
    return layer


@pytest.mark.parametrize("norm_first", [False, True])
def test_layer_is_that_of_pytorch(norm_first):
    source, layer = torch_layer(norm_first), EncoderLayer(TINY, norm_first).double().eval()
    copy_from_torch(layer, source)
    hidden_state = torch.randn(2, 5, 16, dtype=torch.float64)
    keep = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]).bool()
    expected = source(hidden_state, src_key_padding_mask=~keep)
    output, attn_weights = layer(hidden_state, keep[:, None, None])
    # With a mask PyTorch may leave 0 at the pads: their hidden states are not for use.
    close(output[keep], expected[keep])
    close(layer(hidden_state)[0], source(hidden_state))
    assert attn_weights.shape == (2, 2, 5, 5) and attn_weights[1, :, :, 3:].eq(0).all()


def test_stack_with_norms_first_is_that_of_pytorch():
    """It ends with a norm, which is the last hidden state; the others are the layers' own outputs."""
    torch.manual_seed(0)
    source = nn.TransformerEncoder(torch_layer(True), 2, nn.LayerNorm(16, 1e-12), enable_nested_tensor=False)
    nn.init.normal_(source.layers[1].linear1.weight)
    nn.init.normal_(source.norm.double().weight)
    whole = new_encoder(norm_first=True)
    for layer, theirs in zip(whole.layers, source.layers, strict=True):
        copy_from_torch(layer, theirs)
    whole.norm.load_state_dict(source.norm.state_dict())
    output = whole(ids(2, 7))
    close(output.last_hidden_state, source.eval()(output.hidden_states[0]))
    close(output.hidden_states[1], source.layers[0](output.hidden_states[0]))
    assert torch.equal(output.hidden_states[2], output.last_hidden_state)


@pytest.mark.parametrize("norm_first", [False, True])
def test_dropout_strikes_both_branches_and_not_the_residual_path(norm_first):
    config = types.SimpleNamespace(**vars(TINY) | {"hidden_dropout_prob": 1.0})
    layer, hidden_state = EncoderLayer(config, norm_first).double(), torch.randn(2, 3, 16).double()
    output, norm = layer(hidden_state)[0], nn.LayerNorm(16, 1e-12).double()
    close(output, hidden_state if norm_first else norm(norm(hidden_state)), 1e-12)


@pytest.mark.parametrize("norm_first", [False, True])
def test_gradients_of_a_layer_are_those_of_finite_differences(norm_first):
    torch.manual_seed(0)
    sizes = {"hidden_size": 4, "num_attention_heads": 2, "intermediate_size": 3}
    layer = EncoderLayer(types.SimpleNamespace(**vars(TINY) | sizes), norm_first).double().eval()
    hidden_state = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]]).bool()[:, None, None]
    names, weights = zip(*layer.named_parameters(), strict=True)

    def run(hidden_state, *weights):
        given = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(layer, given, (hidden_state, mask))

    assert torch.autograd.gradcheck(run, (hidden_state, *weights))


# -------------------------------------------------------------------------------------------- fused attention


def pads(batch, seq_len):
    mask = torch.ones(batch, seq_len, dtype=torch.long)
    mask[0, seq_len // 2 :] = 0
    return mask


@pytest.mark.parametrize("positions", POSITIONS)
def test_fused_attention_gives_the_same_and_no_weights(positions):
    whole = new_encoder(positions=positions)
    for mask in (None, pads(2, 8), torch.tensor([[0] * 8, [1] * 8])):
        by_hand = whole(ids(2, 8), attention_mask=mask)
        assert len(by_hand.attentions) == 2
        fused = use_fused_attention(whole)(ids(2, 8), attention_mask=mask)
        assert fused.attentions == ()
        close(fused.hidden_states, by_hand.hidden_states)
        use_fused_attention(whole, fused=False)
    assert len(whole(ids(2, 8)).attentions) == 2


def test_fused_attention_is_the_kernel_of_pytorch(monkeypatch):
    """And it is switched on in whatever holds an encoder."""
    classifier = use_fused_attention(SequenceClassifier(TINY, 2).eval())
    calls = []
    kernel = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *a, **k: calls.append(k) or kernel(*a, **k))
    classifier(ids(1, 4))
    assert [call["dropout_p"] for call in calls] == [0.0, 0.0]
    classifier.train()(ids(1, 4))
    assert [call["dropout_p"] for call in calls[2:]] == [0.1, 0.1]


def test_fused_attention_takes_a_mask_of_ones_and_refuses_an_additive_one():
    query = torch.randn(1, 2, 3, 4)
    mask = torch.tensor([1, 1, 0])
    close(fused_attention(query, query, query, mask), fused_attention(query, query, query, mask.bool()), 0)
    with pytest.raises(ValueError, match="additive"):
        fused_attention(query, query, query, torch.tensor([0.0, 0.0, -math.inf]))
    with pytest.raises(ValueError, match=r"\(4,\).*\(1, 2, 3, 3\)"):
        fused_attention(query, query, query, torch.ones(4))


# ---------------------------------------------------------------------------------------- where a token is


def test_without_positions_the_encoder_knows_no_order():
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    input_ids = ids(1, 6)
    for positions in POSITIONS:
        whole = new_encoder(positions=positions)
        before = whole(input_ids).last_hidden_state[:, order]
        after = whole(input_ids[:, order]).last_hidden_state
        apart = (before - after).abs().max()
        assert apart < 1e-12 if positions is None else apart > 1e-2, positions


def test_some_schemes_know_the_distance_only():
    """Moved to the right behind masked tokens, a text gives the same hidden states; or not, where place counts."""
    text = ids(1, 6)
    moved = torch.cat([ids(1, 4, seed=1), text], dim=1)
    mask = torch.tensor([[0] * 4 + [1] * 6])
    for positions in POSITIONS:
        whole = new_encoder(positions=positions)
        here = whole(text).last_hidden_state
        there = whole(moved, attention_mask=mask).last_hidden_state[:, 4:]
        apart = (here - there).abs().max()
        assert apart > 1e-2 if positions in ("learned", "sinusoidal") else apart < 1e-10, positions


def test_sinusoidal_positions_are_those_worked_by_hand():
    table = sinusoidal_positions(3, 4)
    expected = [
        [0.0, 1.0, 0.0, 1.0],
        [0.8414710, 0.5403023, 0.0099998, 0.9999500],  # sin 1, cos 1, sin 0.01, cos 0.01
        [0.9092974, -0.4161468, 0.0199987, 0.9998000],  # sin 2, cos 2, sin 0.02, cos 0.02
    ]
    close(table, torch.tensor(expected), 1e-6)
    # The paper's reason for them: a step of k is one linear map, whatever the position.
    table = sinusoidal_positions(40, 4).double()
    step = torch.linalg.lstsq(table[:20], table[7:27]).solution
    close(table[20:33] @ step, table[27:40], 1e-5)


def test_sinusoidal_positions_are_added_and_not_learned():
    part = Embeddings(TINY, "sinusoidal").eval()
    assert not part.position.weight.requires_grad and part.position.weight.shape == (12, 16)
    learned = Embeddings(TINY, "learned").eval()
    assert learned.position.weight.requires_grad
    for embeddings in (part, learned):
        token, segment = embeddings.token.weight, embeddings.segment.weight
        expected = (
            torch.stack([token[7] + segment[0], token[7] + segment[1]]) + embeddings.position.weight[:2]
        )
        expected = F.layer_norm(expected, (16,), eps=1e-12)
        close(embeddings(torch.tensor([[7, 7]]), torch.tensor([[0, 1]]))[0], expected, 1e-5)


def test_rotation_is_a_product_of_complex_numbers():
    torch.manual_seed(0)
    per_head = torch.randn(2, 3, 5, 8, dtype=torch.float64)
    as_complex = torch.view_as_complex(per_head.view(2, 3, 5, 4, 2))
    turns = [[complex(math.cos(a), math.sin(a)) for a in (p, p / 10, p / 100, p / 1000)] for p in range(5)]
    expected = torch.view_as_real(as_complex * torch.tensor(turns, dtype=torch.complex128)).flatten(-2)
    close(rotate(per_head), expected, 1e-12)
    close(rotate(per_head).norm(dim=-1), per_head.norm(dim=-1), 1e-12)
    assert rotate(per_head.float()).dtype == torch.float32


def test_scores_of_rotated_vectors_depend_on_the_distance_only():
    torch.manual_seed(0)
    query, key = torch.randn(2, 1, 8, dtype=torch.float64).expand(2, 30, 8)  # the same vector at every place
    attn_scores = rotate(query) @ rotate(key).T  # (query, key)
    close(attn_scores[1:, 1:], attn_scores[:-1, :-1], 1e-10)
    assert attn_scores[0].std() > 0.1


def test_rotary_attention_turns_queries_and_keys_and_not_values():
    torch.manual_seed(0)
    part, plain = RotaryAttention(TINY).eval(), LayerAttention(TINY).eval()
    plain.load_state_dict(part.state_dict())
    hidden_state = torch.randn(1, 5, 16)
    turned, straight = part.project(hidden_state, hidden_state), plain.project(hidden_state, hidden_state)
    close(turned, (rotate(straight[0]), rotate(straight[1]), straight[2]), 0)
    attn_weights = part(hidden_state)[1]
    scores = rotate(straight[0]) @ rotate(straight[1]).transpose(2, 3) / math.sqrt(8)
    close(attn_weights, scores.softmax(-1), 1e-6)


def test_relative_bias_is_one_number_for_each_head_and_distance(monkeypatch):
    monkeypatch.setattr(RelativeAttention, "max_distance", 3)
    torch.manual_seed(0)
    part, plain = RelativeAttention(TINY).double().eval(), LayerAttention(TINY).double().eval()
    bias = part.position_bias(6, 9)  # (heads, query, key)
    assert bias.shape == (2, 6, 9)
    for head, query, key in itertools.product(range(2), range(6), range(9)):
        distance = max(-3, min(3, key - query))
        assert bias[head, query, key] == part.distance_bias.weight[distance + 3, head]
    plain.load_state_dict({k: w for k, w in part.state_dict().items() if k != "distance_bias.weight"})
    hidden_state = torch.randn(1, 6, 16, dtype=torch.float64)
    odds = (part(hidden_state)[1] / plain(hidden_state)[1]).log()  # the bias, but for a constant a row
    expected = part.position_bias(6, 6) - part.position_bias(6, 6)[:, :, :1]
    close(odds[0] - odds[0, :, :, :1], expected)


def test_every_scheme_learns():
    for positions in POSITIONS:
        whole = new_encoder(positions=positions)
        whole(ids(2, 6)).last_hidden_state.pow(3).sum().backward()
        for name, weight in whole.named_parameters():
            assert not weight.requires_grad or weight.grad.abs().sum() > 0 or "key.bias" in name, name


def test_schemes_without_a_table_have_no_last_position():
    for positions in ("relative", "rotary", None):
        assert new_encoder(positions=positions)(ids(1, 300)).last_hidden_state.isfinite().all()


# ------------------------------------------------------------------------------------------------ the whole


def test_outputs_have_the_names_and_shapes_of_transformers():
    output = new_encoder()(ids(2, 7))
    assert output._fields == ("last_hidden_state", "hidden_states", "attentions")
    assert [tuple(state.shape) for state in output.hidden_states] == [(2, 7, 16)] * 3
    assert [tuple(layer.shape) for layer in output.attentions] == [(2, 2, 7, 7)] * 2
    assert output.last_hidden_state is output.hidden_states[-1]
    close(torch.stack(output.attentions).sum(-1), torch.ones(2, 2, 2, 7).double())


def test_pads_change_nothing():
    whole, input_ids = new_encoder(), ids(2, 8)
    mask, other = pads(2, 8), ids(2, 8)
    other[0, 4:] = ids(1, 4, seed=5)
    assert not torch.equal(input_ids, other)
    keep = mask.bool()
    expected = whole(input_ids, attention_mask=mask).last_hidden_state[keep]
    close(whole(other, attention_mask=mask).last_hidden_state[keep], expected, 1e-12)
    close(whole(input_ids[:1, :4]).last_hidden_state[0], expected[:4], 1e-12)


def test_a_sequence_of_pads_only_attends_to_nothing():
    output = new_encoder()(ids(2, 4), attention_mask=torch.tensor([[0] * 4, [1] * 4]))
    assert output.last_hidden_state.isfinite().all()
    assert all(layer[0].eq(0).all() and layer[1].gt(0).all() for layer in output.attentions)


def test_dropout_works_in_train_mode_only():
    whole, input_ids = new_encoder(), ids(1, 8)
    close(whole(input_ids), whole(input_ids), 0)
    whole.train()
    first, second = whole(input_ids), whole(input_ids)
    assert (first.hidden_states[0] - second.hidden_states[0]).abs().max() > 0.1
    dropped = torch.cat([layer.flatten() for layer in first.attentions]).eq(0).double().mean()
    assert 0.02 < dropped < 0.25, "in train mode a tenth of the attention weights is 0"
    layer = whole.layers[0].eval()
    layer.dropout.train()
    state = first.hidden_states[0]
    assert (layer(state)[0] - layer(state)[0]).abs().max() > 0, "the output of attention is dropped"


def test_classifier_reads_the_first_token():
    torch.manual_seed(0)
    model = SequenceClassifier(TINY, num_labels=3).double().eval()
    inputs = {"input_ids": ids(4, 7), "token_type_ids": ids(4, 7) % 2, "attention_mask": pads(4, 7)}
    scores = model(**inputs)
    assert scores.shape == (4, 3)
    first = model.encoder(**inputs).last_hidden_state[:, 0]
    close(scores, first @ model.classifier.weight.T + model.classifier.bias, 1e-12)
    # Dropout strikes what the linear layer reads: with all of it gone, the bias alone is left.
    model.dropout.train()
    model.dropout.p = 1.0
    close(model(**inputs), model.classifier.bias.expand(4, 3), 1e-12)


def test_classifier_learns():
    torch.manual_seed(0)
    model = SequenceClassifier(TINY, num_labels=3)
    input_ids = ids(24, 6)
    labels = input_ids[:, 3] % 3
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(80):
        optimizer.zero_grad()
        F.cross_entropy(model(input_ids), labels).backward()
        optimizer.step()
    assert (model.eval()(input_ids).argmax(-1) == labels).float().mean() > 0.9


# --------------------------------------------------------------------------- what is refused, in plain words


def refused(function, *words, kind=ValueError):
    """The call raises one or two sentences that hold the words."""
    with pytest.raises(kind) as error:
        function()
    message = str(error.value)
    assert all(word in message for word in words), message
    assert 1 <= len([part for part in message.split(". ") if part]) <= 3 and message.endswith("."), message


def test_ids_are_checked():
    whole = new_encoder()
    refused(lambda: whole(torch.tensor([[3, 50, 1]])), "holds 50", "50 ids", "0 to 49")
    refused(lambda: whole(torch.tensor([[3, -1]])), "holds -1", "50 ids")
    refused(lambda: whole(ids(1, 13)), "13 tokens", "12 positions", "truncation=True, max_length=12")
    refused(lambda: whole(torch.rand(1, 3)), "torch.float32", ".long()", kind=TypeError)
    refused(lambda: whole(torch.ones(1, 3).bool()), "torch.bool", kind=TypeError)
    refused(lambda: whole(ids(5)), "(5,)", "(batch, seq)", "unsqueeze(0)")
    refused(lambda: whole(ids(5), attention_mask=torch.ones(5)), "input_ids", "(5,)", "unsqueeze(0)")
    refused(lambda: whole(ids(1, 2, 3)), "(1, 2, 3)", "(batch, seq)")
    refused(lambda: whole(torch.zeros(1, 0).long()), "(1, 0)")
    refused(lambda: whole([[1, 2]]), "list", 'return_tensors="pt"', kind=TypeError)
    refused(lambda: whole(torch.zeros(1, 2, device="meta").long()), "meta", "cpu")
    assert whole(torch.tensor([[0, 49]])).last_hidden_state.shape == (1, 2, 16)
    assert whole(ids(1, 12)).last_hidden_state.shape == (1, 12, 16)


def test_segments_are_checked():
    whole = new_encoder()
    refused(
        lambda: whole(ids(1, 3), torch.tensor([[0, 2, 1]])), "token_type_ids holds 2", "2 segments", "0 to 1"
    )
    refused(lambda: whole(ids(1, 3), torch.zeros(1, 4).long()), "token_type_ids", "(1, 4)", "(1, 3)")
    refused(lambda: whole(ids(2, 3), torch.zeros(1, 3).long()), "(1, 3)", "(2, 3)")
    refused(lambda: whole(ids(1, 3), torch.zeros(1, 3)), "token_type_ids", ".long()", kind=TypeError)


def test_masks_are_checked():
    whole = new_encoder()
    refused(lambda: whole(ids(2, 3), attention_mask=torch.ones(2, 4)), "attention_mask", "(2, 4)", "(2, 3)")
    refused(lambda: whole(ids(2, 3), attention_mask=torch.ones(3)), "attention_mask", "(3,)", "(2, 3)")
    refused(lambda: whole(ids(2, 3), attention_mask=torch.ones(2, 1, 3)), "(2, 1, 3)", "(2, 3)")
    refused(lambda: whole(ids(1, 3), attention_mask=[[1, 1, 1]]), "attention_mask", "list", kind=TypeError)
    refused(
        lambda: whole(ids(1, 2), attention_mask=torch.tensor([[0.0, -1e9]])), "attention_mask", "additive"
    )


@pytest.mark.parametrize(
    "make",
    [
        FeedForward,
        LayerAttention,
        EncoderLayer,
        Embeddings,
        Encoder,
        lambda config: SequenceClassifier(config, 2),
    ],
)
def test_fields_that_a_config_lacks_are_named(make):
    config = types.SimpleNamespace(**vars(TINY))
    make(config)
    del config.vocab_size, config.layer_norm_eps
    refused(lambda: make(config), "SimpleNamespace", "lacks vocab_size, layer_norm_eps.", "BertConfig")


def test_a_config_is_checked():
    def tiny(**changes):
        return types.SimpleNamespace(**vars(TINY) | changes)

    refused(lambda: Encoder(tiny(hidden_size="16")), "hidden_size", "'16'", kind=TypeError)
    refused(lambda: Encoder(tiny(num_hidden_layers=0)), "num_hidden_layers is 0", "at least 1")
    refused(lambda: Encoder(tiny(num_attention_heads=3)), "16", "3")
    refused(lambda: Encoder(tiny(hidden_act="relu")), "hidden_act", "'relu'", '"gelu"')
    refused(lambda: Encoder(tiny(), positions="absolute"), "'absolute'", "'learned'", "'rotary'", "None")
    refused(lambda: Encoder(tiny(hidden_size=6), positions="rotary")(ids(1, 2)), "width is 3", "even")
    refused(lambda: Encoder(tiny(hidden_size=7, num_attention_heads=1), positions="sinusoidal"), "width is 7")
    refused(lambda: SequenceClassifier(TINY, 0), "num_labels is 0")
    refused(lambda: SequenceClassifier(TINY, "3"), "num_labels", kind=TypeError)
    assert Encoder(BertConfig(**SIZES)).embeddings.token.num_embeddings == 50
