"""The encoder room: against BERT of transformers tensor by tensor, PyTorch, and worked values."""

import copy

import pytest
import torch
import torch.nn.functional as F
from refused import refusals
from tiny_models import bare_config, close, ids, new_bert, new_config, new_encoder, pads, take_weights
from torch import nn
from transformers import BertForMaskedLM

from utils.attention import LayerAttention, use_fused_attention, weights_of_bert
from utils.encoder import Embeddings, Encoder, EncoderLayer, FeedForward, SequenceClassifier, layer_norm


def assert_twins(twin, model, inputs):
    """Every hidden state, and every attention map, is that of the library."""
    ours, theirs = twin(**inputs), model(**inputs, output_hidden_states=True, output_attentions=True)
    assert len(theirs.hidden_states) == len(theirs.attentions) + 1 == model.config.num_hidden_layers + 1
    for part in ("last_hidden_state", "hidden_states", "attentions"):
        close(getattr(ours, part), theirs[part])


def test_twin_equals_the_courses_bert(bert):
    """On what its tokenizer makes of sentences, pairs and batches, and on some that it does not make."""
    tokenizer, text = bert[0], "My friend told me about this class and I love it so far! She was right."
    singles = ["time flies like an arrow", text, "12,345.67 is a number; café is a word; 中文 too.", ""]
    pairs = [("leaves fall in autumn", "autumn is marked by colorful foliage"), ("Is it raining?", "No.")]
    texts = [*singles, *([first, second] for first, second in pairs)]
    whole = {"padding": True, "return_tensors": "pt"}
    many = [
        *(tokenizer(*([text] if isinstance(text, str) else text), return_tensors="pt") for text in texts),
        tokenizer(singles, **whole),
        tokenizer(*zip(*pairs, strict=True), **whole),
        tokenizer(singles[:2], **whole | {"padding": "max_length"}, max_length=40, padding_side="left"),
        tokenizer("one two three four five six seven " * 99, truncation=True, return_tensors="pt"),
        {"input_ids": torch.tensor([[101]])},
        {"input_ids": torch.tensor([[101, 2051, 102]]), "attention_mask": torch.tensor([[1, 0, 1]])},
        {"input_ids": torch.tensor([[5, 30521, 0]]), "token_type_ids": torch.tensor([[1, 0, 1]])},
        {"input_ids": torch.tensor([[101, 2051]], dtype=torch.int32), "attention_mask": torch.ones(1, 2)},
    ]
    assert {1, 512} <= {inputs["input_ids"].shape[1] for inputs in many}
    twin = Encoder.from_bert(bert[1])
    for inputs in many:
        assert_twins(twin, bert[1], inputs)


SHAPES = [
    {"num_hidden_layers": 1, "num_attention_heads": 1},
    {"num_hidden_layers": 5, "hidden_size": 24, "num_attention_heads": 8, "intermediate_size": 7},
    {"hidden_size": 20, "type_vocab_size": 3, "max_position_embeddings": 40, "vocab_size": 60},
    {"hidden_size": 15, "num_attention_heads": 3, "layer_norm_eps": 0.1},
    {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072},  # those of bert-base
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_twin_equals_bert_of_other_widths_and_depths(shape):
    model = new_bert(**shape)
    inputs = {"input_ids": ids(3, 12), "token_type_ids": ids(3, 12) % 2, "attention_mask": pads(3, 12)}
    assert_twins(Encoder.from_bert(model), model, inputs)
    largest = model(**inputs, output_attentions=True).attentions[-1][1:].max()
    assert largest > 0.2, "the attention of this model is so even that a mistake might not show"


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_training_is_that_of_bert(implementation):
    model = new_bert(attn_implementation=implementation).train()
    inputs = {"input_ids": ids(2, 9), "attention_mask": pads(2, 9)}
    torch.manual_seed(1)
    expected = model(**inputs, output_attentions=implementation == "eager")
    expected.last_hidden_state.pow(3).sum().backward()
    gradients = {weight.data_ptr(): weight.grad for weight in model.parameters()}
    shared = Encoder.from_bert(model)
    twin = use_fused_attention(copy.deepcopy(shared), implementation == "sdpa")
    torch.manual_seed(1)
    output = twin(**inputs)
    output.last_hidden_state.pow(3).sum().backward()
    close(output.last_hidden_state, expected.last_hidden_state)
    if implementation == "eager":
        close(output.attentions, expected.attentions)
    for (name, weight), theirs in zip(twin.named_parameters(), shared.parameters(), strict=True):
        assert weight.grad.abs().max() > 0 or "key.bias" in name, name
        close(weight.grad, gradients[theirs.data_ptr()])
    assert (model.eval()(**inputs).last_hidden_state - output.last_hidden_state).abs().max() > 0.1


def test_twin_is_made_of_berts_own_weights_in_its_mode():
    model, before = new_bert(), torch.get_rng_state()
    twin = Encoder.from_bert(model)
    assert torch.equal(torch.get_rng_state(), before), "nothing is initialised only to be thrown away"
    own = {weight.data_ptr() for weight in twin.parameters() if weight.requires_grad}
    assert own == {w.data_ptr() for n, w in model.named_parameters() if not n.startswith("pooler.")}
    for layer, theirs in zip(twin.layers, model.encoder.layer, strict=True):
        close(layer.attention.state_dict(), weights_of_bert(theirs.attention), 0)
    assert not twin.training and Encoder.from_bert(model.train()).training
    model.pooler = None
    close(Encoder.from_bert(model).state_dict(), twin.state_dict(), 0)


def test_layer_norm_is_that_of_pytorch():
    torch.manual_seed(0)
    hidden_state = torch.randn(2, 3, 5, dtype=torch.float64) * 3 + 1
    weight, bias = torch.randn(2, 5, dtype=torch.float64)
    for eps in (1e-12, 0.5):
        expected = F.layer_norm(hidden_state, (5,), weight, bias, eps)
        close(layer_norm(hidden_state, weight, bias, eps), expected, 1e-12)


def test_stack_with_norms_first_is_that_of_pytorch():
    torch.manual_seed(1)
    kinds = {"activation": "gelu", "batch_first": True, "norm_first": True, "layer_norm_eps": 1e-12}
    layer = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.1, **kinds)
    source = nn.TransformerEncoder(layer, 2, nn.LayerNorm(16, 1e-12), enable_nested_tensor=False).double()
    for weight in source.parameters():  # those of both layers differ, and no norm is ones and zeros
        nn.init.normal_(weight, std=0.5)
    whole = new_encoder(norm_first=True)
    for layer, theirs in zip(whole.layers, source.layers, strict=True):
        names = {"attention": "self_attn", "attention_norm": "norm1", "feed_forward_norm": "norm2"}
        take_weights(layer, theirs, **names)
    whole.norm.load_state_dict(source.norm.state_dict())
    output = whole(ids(2, 7))
    close(output.last_hidden_state, source.eval()(output.hidden_states[0]))
    close(output.hidden_states[1], source.layers[0](output.hidden_states[0]))
    assert torch.equal(output.hidden_states[2], output.last_hidden_state)


@pytest.mark.parametrize("norm_first", [False, True])
def test_dropout_strikes_both_branches_and_not_the_residual_path(norm_first):
    layer = EncoderLayer(new_config(hidden_dropout_prob=1.0), norm_first).double()
    hidden_state, norm = torch.randn(2, 3, 16).double(), nn.LayerNorm(16, 1e-12).double()
    close(layer(hidden_state)[0], hidden_state if norm_first else norm(norm(hidden_state)), 1e-12)


def test_a_sequence_of_pads_only_attends_to_nothing_and_the_largest_that_fits_is_taken():
    output = (whole := new_encoder())(ids(2, 4), attention_mask=torch.tensor([[0] * 4, [1] * 4]))
    assert output.last_hidden_state.isfinite().all()
    assert all(layer[0].eq(0).all() and layer[1].gt(0).all() for layer in output.attentions)
    assert whole(torch.tensor([[0, 49]])).last_hidden_state.shape == (1, 2, 16)
    assert whole(ids(1, 12), torch.ones(1, 12).long()).last_hidden_state.shape == (1, 12, 16)
    assert Encoder(bare_config()).embeddings.token.num_embeddings == 50


def test_classifier_reads_the_first_token():
    torch.manual_seed(0)
    model = SequenceClassifier(new_config(), num_labels=3).double().eval()
    inputs = {"input_ids": ids(4, 7), "token_type_ids": ids(4, 7) % 2, "attention_mask": pads(4, 7)}
    first = model.encoder(**inputs).last_hidden_state[:, 0]
    close(model(**inputs), first @ model.classifier.weight.T + model.classifier.bias, 1e-12)
    # Dropout strikes what the linear layer reads: with all of it gone, the bias alone is left.
    model.dropout.train()
    model.dropout.p = 1.0
    close(model(**inputs), model.classifier.bias.expand(4, 3), 1e-12)


def twin_with(part, value):
    """The twin of a BERT in which something else stands in a place."""
    path, _, name = part.rpartition(".")
    setattr((model := new_bert()).get_submodule(path), name, value)
    return Encoder.from_bert(model)


def run(input_ids, *others, **masks):
    return new_encoder()(input_ids, *others, **masks)


lacking = bare_config()
del lacking.vocab_size, lacking.layer_norm_eps
EIGHT, HOLES = nn.Parameter(torch.ones(8)), nn.Parameter(torch.full((16,), torch.nan))
LACKED = "SimpleNamespace) lacks vocab_size, layer_norm_eps."
NORM = "encoder.layer.1.attention.output.LayerNorm.bias"
test_refused = refusals(
    ("a head on it", lambda: Encoder.from_bert(BertForMaskedLM(new_config())), TypeError, "model.bert"),
    ("a decoder", lambda: Encoder.from_bert(new_bert(is_decoder=True)), ValueError, "is_decoder"),
    ("ReLU", lambda: Encoder.from_bert(new_bert(hidden_act="relu")), ValueError, "'relu'"),
    ("NaN", lambda: twin_with(NORM, HOLES), ValueError, "layers.1.attention_norm.bias"),
    ("a missing weight", lambda: twin_with(NORM, None), ValueError, "layers.1.attention_norm.bias"),
    ("a part too many", lambda: twin_with("extra", nn.Linear(2, 2)), ValueError, "extra.bias, extra."),
    ("other shape", lambda: twin_with(NORM, EIGHT), ValueError, "attention_norm.bias"),
    ("id too large", lambda: run(torch.tensor([[3, 50, 1]])), ValueError, "0 to 49"),
    ("id below 0", lambda: run(torch.tensor([[3, -1]])), ValueError, "-1"),
    ("too many tokens", lambda: run(ids(1, 13)), ValueError, "max_length=12"),
    ("floats for ids", lambda: run(torch.rand(1, 3)), TypeError, "torch.float32"),
    ("ids, one axis", lambda: run(ids(5), attention_mask=torch.ones(5)), ValueError, "unsqueeze(0)"),
    ("no ids", lambda: run(torch.zeros(1, 0).long()), ValueError, "(1, 0)"),
    ("ids elsewhere", lambda: run(ids(1, 2).to("meta")), ValueError, "meta"),
    ("segment too large", lambda: run(ids(1, 3), torch.tensor([[0, 2, 1]])), ValueError, "0 to 1"),
    ("segments, length", lambda: run(ids(1, 3), torch.zeros(1, 4).long()), ValueError, "(1, 4)"),
    ("mask, length", lambda: run(ids(2, 3), attention_mask=torch.ones(2, 4)), ValueError, "(2, 4)"),
    ("mask in a list", lambda: run(ids(1, 3), attention_mask=[[1, 1, 1]]), TypeError, "attention_mask"),
    ("additive", lambda: run(ids(1, 2), attention_mask=torch.tensor([[0.0, -1e9]])), ValueError, "additive"),
    ("feed-forward without", lambda: FeedForward(lacking), ValueError, LACKED),
    ("attention without", lambda: LayerAttention(lacking), ValueError, LACKED),
    ("embeddings without", lambda: Embeddings(lacking), ValueError, LACKED),
    ("no layers", lambda: Encoder(bare_config(num_hidden_layers=0)), ValueError, "num_hidden_layers is 0"),
    ("no labels", lambda: SequenceClassifier(new_config(), 0), ValueError, "num_labels is 0"),
)
