"""What the neuron view draws of many models, held against the
weights that each returns under eager attention."""

import copy
import functools

import pytest
import torch
from families import BERT, BOTH_TOKENS, CAUGHT, REFUSED, SOURCE, TARGET, family, own_attentions
from transformers import (
    AttentionInterface,
    BertConfig,
    EncoderDecoderConfig,
    EncoderDecoderModel,
    LlamaConfig,
    LlamaModel,
    RobertaConfig,
    RobertaModel,
    RobertaTokenizer,
)
from view_samples import SENTENCES, Words, data_of, names, unpack, vectors

import longer_runs
from utils.attention import LayerAttention, use_fused_attention
from utils.dates import DATE_CONFIG
from utils.decoder import Decoder, EncoderDecoder
from utils.encoder import Encoder
from utils.views import neuron_view
from utils.views.capture import Stack, catch
from utils.views.neurons import NeuronPanel, require_page


def floats(text, shape):
    return torch.from_numpy(unpack(text, "<f4").astype(float)).reshape(shape)


def drawn(panel):
    """The weights that follow from the numbers in a page, (layers, heads, query, key)."""
    query, key = (part.double() for part in vectors(panel))
    key = key[:, panel["key_of"]]
    scale = torch.tensor(panel.get("scale", [query.shape[-1] ** -0.5] * len(query)), dtype=torch.float64)
    scores = torch.einsum("lhqd,lhkd,l->lhqk", query, key, scale)
    if "softcap" in panel:
        scores = panel["softcap"] * torch.tanh(scores / panel["softcap"])
    if "added" in panel:
        scores = scores + floats(panel["added"], panel["added_shape"])[panel["added_of"]]
    if "sinks" not in panel:
        return scores.softmax(-1)
    sinks = torch.tensor(panel["sinks"]).double()[..., None, None].expand(*scores.shape[:3], 1)
    return torch.cat([scores, sinks], -1).softmax(-1)[..., :-1]


def state(model):
    """All of a model that a view must leave as it is."""
    parts = list(model.modules())
    configs = [getattr(part, "config", None) for part in parts]
    return (
        [getattr(config, "_attn_implementation", None) for config in configs],
        [
            (part.training, len(part._forward_hooks), len(part._forward_pre_hooks), sorted(vars(part)))
            for part in parts
        ],
        [weight.detach().clone() for weight in model.state_dict().values()],
    )


def same_state(one, other):
    return one[:2] == other[:2] and all(map(torch.equal, one[2], other[2]))


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", CAUGHT)
def test_numbers_drawn_are_the_models_own(name, attention):
    try:
        model, inputs, tokens = family(name, attention)
    except ValueError:
        assert (
            name in ("Gemma2", "GptOss", "MiMoV2Flash") and attention == "sdpa"
        )  # transformers has no sdpa for these
        return
    model.train()
    before = state(model)
    panels = data_of(neuron_view(model, inputs=inputs, **tokens))["attention"]
    assert same_state(before, state(model))
    for panel, (kind, expected) in zip(panels, own_attentions(name).items(), strict=True):
        assert panel["name"] == kind
        assert (drawn(panel) - expected).abs().max() < 1e-5
        assert [len(panel["left_text"]), len(panel["right_text"])] == list(expected.shape[2:])


def flash(module, query, key, value, attention_mask, scaling, sliding_window=None, softcap=None, **more):
    """What flash attention computes, which needs a graphics card. It
    gets no mask, it is told of causality instead."""
    assert attention_mask is None
    key, value = (part.repeat_interleave(query.shape[1] // part.shape[1], dim=1) for part in (key, value))
    scores = query @ key.mT * scaling
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if more.get("is_causal", module.is_causal):
        seen = torch.ones_like(scores).tril().triu(1 - (sliding_window or len(scores[0, 0])))
        scores = scores.masked_fill(seen == 0, -torch.inf)
    return (scores.softmax(-1) @ value).transpose(1, 2), None


@pytest.mark.parametrize("name", ["Bert", "Llama", "Mistral", "Gemma2"])
def test_a_model_with_flash_attention_is_drawn_the_same(name, monkeypatch):
    monkeypatch.setitem(AttentionInterface._global_mapping, "flash_attention_2", flash)
    model, inputs, tokens = family(name, "eager")
    with torch.no_grad():
        expected = model(**inputs).last_hidden_state
        monkeypatch.setattr(model.config, "_attn_implementation_internal", "flash_attention_2")
        assert (model(**inputs).last_hidden_state - expected).abs().max() < 1e-4
    (panel,) = data_of(neuron_view(model, inputs=inputs, **tokens))["attention"]
    assert (drawn(panel) - own_attentions(name)["All"]).abs().max() < 1e-5
    assert model.config._attn_implementation == "flash_attention_2"


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_caught_is_refused_by_name_with_what_to_do(name):
    model, inputs, tokens = family(name, "eager")
    before = state(model)
    with pytest.raises(
        (TypeError, ValueError), match=f"{name}Model .*head_view .*eager.*output_attentions=True"
    ):
        neuron_view(model, inputs=inputs, **tokens)
    assert same_state(before, state(model))


@pytest.fixture(scope="module")
def panels():
    """The panels of a page of each family."""
    made = {name: family(name, "eager") for name in CAUGHT}
    return {n: data_of(neuron_view(m, inputs=i, **tokens))["attention"] for n, (m, i, tokens) in made.items()}


def test_families_hold_what_they_are_there_for(panels):
    """Else the comparison above would be of models that are all alike."""
    plain = {"name", "left_text", "right_text", "layers", "heads", "key_of", "queries", "keys"}
    assert set(panels["Bert"][0]) == plain
    causal = floats(panels["GPT2"][0]["added"], panels["GPT2"][0]["added_shape"])
    assert causal.shape == (1, 1, 7, 7) and torch.equal(causal[0, 0] == 0, torch.ones(7, 7).tril() == 1)
    assert len(set(panels["GPT2"][0]["scale"])) == 2
    assert len(set(panels["ModernBert"][0]["added_of"])) == 2 and "sinks" in panels["GptOss"][0]
    assert [max(layer) > -1e38 for layer in panels["MiMoV2Flash"][0]["sinks"]] == [False, True]
    assert panels["Gemma2"][0]["softcap"] == 1 and panels["T5"][0]["scale"] == [1, 1, 1]
    assert panels["T5"][0]["added_shape"] == [1, 4, 7, 7] and panels["UMT5"][0]["added_shape"] == [3, 4, 7, 7]
    shapes = [panels["Bart"][2][name]["shape"] for name in ("queries", "keys")]
    assert shapes == [[3, 4, 4, 8], [3, 4, 7, 8]]
    assert panels["Llama"][0]["keys"]["shape"] == [2, 2, 7, 8] and panels["Llama"][0]["key_of"] == [
        0,
        0,
        1,
        1,
    ]


# --- the course's own


@functools.cache
def notebook_12():
    return longer_runs.definitions()


def copy_model(positions):
    """The `CopyModel` of notebook 12, from its cells."""
    return notebook_12()["CopyModel"](positions)


def encoder_of(**changes):
    return lambda: Encoder(DATE_CONFIG, **changes)


OWN = {
    "encoder": (encoder_of(), {"All": "attentions"}),
    "encoder, norms first": (encoder_of(norm_first=True), {"All": "attentions"}),
    "encoder, relative": (encoder_of(positions="relative"), {"All": "attentions"}),
    "encoder, rotary": (encoder_of(positions="rotary"), {"All": "attentions"}),
    "encoder-decoder": (
        lambda: EncoderDecoder(DATE_CONFIG),
        {name.title(): f"{name}_attentions" for name in ("encoder", "decoder", "cross")},
    ),
    "decoder": (lambda: Decoder(DATE_CONFIG), {"Decoder": "decoder_attentions", "Cross": "cross_attentions"}),
    "copy model": (lambda: copy_model("learned"), {"All": 1}),
    "copy model, rotary": (lambda: copy_model("rotary"), {"All": 1}),
    "copy model, relative": (lambda: copy_model("relative"), {"All": 1}),
}


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("kind", OWN)
def test_numbers_drawn_of_the_courses_models_are_what_they_return(kind, fused):
    make, names_of = OWN[kind]
    torch.manual_seed(0)
    model = make().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    inputs = {"input_ids": SOURCE}
    if kind == "encoder-decoder":
        inputs = {"source_ids": SOURCE, "target_ids": TARGET}
    elif kind == "decoder":
        inputs = {"target_ids": TARGET, "memory": torch.randn(1, 7, DATE_CONFIG.hidden_size)}
    with torch.no_grad():
        outputs = model(**inputs)
    if fused and not kind.startswith("encoder"):
        return  # the copy model stacks the weights that fused attention does not return
    use_fused_attention(model, fused)
    before = state(model)
    tokens = BOTH_TOKENS if len(names_of) > 1 else {"tokens": names(7)}
    panels = data_of(neuron_view(model, inputs=inputs, **tokens))["attention"]
    assert same_state(before, state(model))
    for panel, (name, place) in zip(panels, names_of.items(), strict=True):
        expected = outputs[place] if isinstance(place, int) else getattr(outputs, place)
        expected = expected[0] if isinstance(expected, torch.Tensor) else torch.cat(expected)
        assert panel["name"] == name and (drawn(panel) - expected).abs().max() < 1e-5


# --- what a model is run on, and how it is shown


def roberta_tokenizer():
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *"abcdefgh", "\u0120"]
    return RobertaTokenizer(vocab={piece: i for i, piece in enumerate(vocabulary)}, merges=[])


def test_pair_of_roberta_is_cut_where_bertviz_cuts_it():
    """It has two separators between the sentences, and no types of
    tokens. By bertviz's neuron_view.py, B has one."""
    model = RobertaModel(RobertaConfig(**BERT | {"pad_token_id": 1})).eval()
    first, *parts = data_of(neuron_view(model, roberta_tokenizer(), "ab", "cde"))["attention"]
    assert first["left_text"] == ["<s>", "a", "b", "</s>", "</s>", "c", "d", "e", "</s>"]
    assert [(part["rows"], part["columns"]) for part in parts[2:]] == [([0, 4], [4, 9]), ([4, 9], [0, 4])]


def test_marks_of_a_tokenizer_are_left_out_as_in_bertviz():
    model = RobertaModel(RobertaConfig(**BERT | {"pad_token_id": 1})).eval()
    tokenizer = roberta_tokenizer()
    tokenizer.convert_ids_to_tokens = lambda ids: ["<s>", "\u0120the", "\u2581", "##s", "</s>"][: len(ids)]
    (panel,) = data_of(neuron_view(model, tokenizer, "a b"))["attention"]
    assert panel["left_text"] == ["<s>", "the", "\u2423", "##s", "</s>"]


def test_pair_of_bert_is_cut_by_its_types(bert):
    tokenizer, model = bert
    parts = data_of(neuron_view(model, tokenizer, *SENTENCES))["attention"]
    assert parts[1]["left_text"][-1] == "[SEP]" and parts[2]["left_text"][0] == "autumn"


def test_a_second_text_is_what_an_encoder_decoder_writes():
    """It reads it one place later, behind the token of start."""
    model, *_ = family("Bart", "sdpa")
    model.config.decoder_start_token_id = 2
    for text, kinds in (("cde", ["Encoder", "Decoder", "Cross"]), (None, ["All"])):
        panels = data_of(neuron_view(model, roberta_tokenizer(), "ab", text))["attention"]
        assert [panel["name"] for panel in panels] == kinds
        assert panels[0]["left_text"] == ["<s>", "a", "b", "</s>"]
    panels = data_of(neuron_view(model, roberta_tokenizer(), "ab", "cde", show="Cross"))["attention"]
    assert panels[0]["name"] == "Cross" and panels[0]["right_text"] == ["<s>", "a", "b", "</s>"]
    assert panels[0]["left_text"] == ["</s>", "<s>", "c", "d", "e"]


def test_types_of_tokens_are_left_out_where_the_model_knows_none():
    model, *_ = family("DistilBert", "sdpa")
    assert len(data_of(neuron_view(model, Words(), "w5", "w6"))["attention"]) == 5


def test_types_of_tokens_reach_a_model_in_what_is_around_it():
    model, *_ = family("Bert", "sdpa")
    plain, around = (
        data_of(neuron_view(one, Words(), "w5", "w6"))["attention"]
        for one in (model, torch.nn.DataParallel(model))
    )
    assert plain == around
    single = data_of(neuron_view(model, Words(), "w5 w6"))["attention"]
    assert plain[0]["queries"] != single[0]["queries"]
    other, *_ = family("DistilBert", "sdpa")
    assert len(data_of(neuron_view(torch.nn.DataParallel(other), Words(), "w5", "w6"))["attention"]) == 5


class Noisy(torch.nn.Module):
    """A model that draws random numbers whenever it runs, as ViTMAE does."""

    def __init__(self):
        super().__init__()
        self.encoder = Encoder(DATE_CONFIG)

    def forward(self, input_ids):
        return self.encoder(input_ids)[0] + torch.randn(())


def test_a_model_that_draws_random_numbers_is_drawn_and_the_next_numbers_stay():
    model = Noisy()
    before = torch.random.get_rng_state()
    assert catch(model, {"input_ids": SOURCE}) and torch.equal(before, torch.random.get_rng_state())


def test_decoder_of_a_bert_and_a_pair_of_berts_are_named_by_what_they_are():
    part = BertConfig(**BERT, is_decoder=True, add_cross_attention=True)
    pair = EncoderDecoderModel(
        EncoderDecoderConfig.from_encoder_decoder_configs(BertConfig(**BERT), part)
    ).eval()
    names_of = [stack.name for stack in catch(pair, {"input_ids": SOURCE, "decoder_input_ids": TARGET})]
    assert names_of == ["Encoder", "Decoder", "Cross"]
    inputs = {"input_ids": TARGET, "encoder_hidden_states": torch.randn(1, 7, 32)}
    assert [stack.name for stack in catch(pair.decoder, inputs)] == ["Decoder", "Cross"]


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", ["Llama", "GPT2"])
def test_a_row_that_is_masked_as_a_whole_is_spread_evenly_as_under_eager(name, attention):
    """As of pads on the left of a causal model. Under sdpa its
    output there is another, and is not compared."""
    inputs = {"input_ids": SOURCE, "attention_mask": torch.tensor([[0, 0, 1, 1, 1, 1, 1]])}
    with torch.no_grad():
        expected = torch.cat(family(name, "eager")[0](**inputs, output_attentions=True).attentions)
    model, *_ = family(name, attention)
    (panel,) = data_of(neuron_view(model, inputs=inputs, tokens=names(7)))["attention"]
    assert (drawn(panel) - expected).abs().max() < 1e-5


class Wrong(LayerAttention):
    """Its weights are not what is caught: it attends to values that are turned."""

    def attend(self, query, key, value, mask):
        return super().attend(query, key, value.flip(-1), mask)


class Siblings(torch.nn.Module):
    """Two encoders side by side, as in CLIP."""

    def __init__(self):
        super().__init__()
        self.text, self.image = Encoder(DATE_CONFIG), Encoder(DATE_CONFIG)

    def forward(self, input_ids):
        return self.text(input_ids), self.image(input_ids)


class Silent(Encoder):
    """It returns nothing that could be compared."""

    def forward(self, input_ids):
        super().forward(input_ids)
        return "done"


def own_way():
    model = Encoder(DATE_CONFIG)
    model.layers[1].attention = Wrong(DATE_CONFIG)
    return model.eval()


class Hybrid(torch.nn.Module):
    """A model whose first layer attends to nothing."""

    def __init__(self):
        super().__init__()
        layers = [torch.nn.Identity(), LayerAttention(DATE_CONFIG), LayerAttention(DATE_CONFIG)]
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, hidden_state):
        return self.layers[2](self.layers[1](hidden_state)[0])[0]


def test_layers_of_a_hybrid_keep_the_indices_of_the_model():
    (stack,) = catch(Hybrid().eval(), {"hidden_state": torch.randn(1, 3, 64)})
    assert stack.layers == [1, 2]


@pytest.mark.parametrize(("name", "layers"), [("MiniMax", [0, 2]), ("Lfm2", [1, 3])])
def test_a_hybrid_is_drawn_with_its_true_layers(name, layers):
    model, inputs, tokens = family(name, "eager")
    with torch.no_grad():
        attentions = model(**inputs, output_attentions=True).attentions
    expected = [one for one in attentions if one is not None and one.dim() == 4 and one.shape[-1] == 7]
    view = neuron_view(model, inputs=inputs, **tokens, layer=layers[1])
    (panel,) = data_of(view)["attention"]
    assert panel["layers"] == layers and f"L{layers[1]}H0" in str(view)
    assert (drawn(panel) - torch.cat(expected)).abs().max() < 1e-5


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Mamba", "MambaModel has no attention"),
        ("FNet", "FNetModel has no attention"),
        ("CLIP", "CLIPModel attends .*Pass model.vision_model or model.text_model"),
    ],
)
def test_a_model_that_a_view_cannot_show_is_answered_with_what_to_do(name, said):
    model, inputs, tokens = family(name, "eager")
    with pytest.raises((TypeError, ValueError), match=said):
        neuron_view(model, inputs=inputs, **tokens)


def test_what_is_missing_or_other_than_in_the_model_is_said():
    model, inputs, tokens = family("LongT5", "eager")
    view = neuron_view(model, inputs=inputs, **tokens)
    assert "without Encoder, which the model computes in its own way" in str(view)
    with pytest.raises(ValueError, match=r"'decoder', 'cross' here, not 'encoder'.*Encoder in its own way"):
        neuron_view(model, inputs=inputs, **tokens, show="encoder")
    model, inputs, tokens = family("GraniteSWA", "eager")
    assert "the sink is in these weights" in str(neuron_view(model, inputs=inputs, **tokens))


def test_of_a_model_in_bfloat16_two_decimals_are_shown_and_it_is_said():
    model, inputs, tokens = family("Llama", "eager")
    view = neuron_view(model.bfloat16(), inputs=inputs, **tokens)
    assert "computes in bfloat16" in str(view) and data_of(view)["decimals"] == 2
    with torch.no_grad():
        own = torch.cat(model(**inputs, output_attentions=True).attentions).double()
    (panel,) = data_of(view)["attention"]
    assert (drawn(panel) - own).abs().max() < 0.05


# --- large models


def wide_llama():
    torch.manual_seed(0)
    sizes = {"hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3}
    config = LlamaConfig(**sizes, vocab_size=60, intermediate_size=64, attn_implementation="eager")
    return LlamaModel(config).eval()


def test_a_large_page_holds_vectors_in_16_bits_and_weights_within_a_thousandth():
    model, inputs = wide_llama(), {"input_ids": torch.arange(15)[None]}
    with torch.no_grad():
        for layer in model.layers:
            layer.self_attn.q_proj.weight.mul_(4)
            layer.self_attn.k_proj.weight.mul_(4)
        expected = torch.cat(model(**inputs, output_attentions=True).attentions)
    assert expected.max(-1).values.mean() > 0.3  # sharp
    view = neuron_view(model, inputs=inputs, tokens=names(15))
    assert len(view.html.encode()) < 1_100_000  # random numbers are longer than a trained model's
    assert (drawn(data_of(view)["attention"][0]) - expected).abs().max() < 0.001
    some = neuron_view(model, inputs=inputs, tokens=names(15), include_layers=[4, 29], include_heads=[0, 8])
    (panel,) = data_of(some)["attention"]
    assert (drawn(panel) - expected[[4, 29]][:, [0, 8]]).abs().max() < 1e-5


REFUSALS = [
    (lambda: catch(own_way(), {"input_ids": SOURCE}), "Encoder gives an output that differs"),
    (
        lambda: catch(Siblings(), {"input_ids": SOURCE}),
        "Siblings attends in text.layers.*Pass model.text or model.image",
    ),
    (lambda: catch(Silent(DATE_CONFIG), {"input_ids": SOURCE}), "Silent returns no tensor"),
    (lambda: neuron_view(family("Bert", "sdpa")[0], inputs={"input_ids": SOURCE}, tokens=names(6)), "7 .*6"),
    (lambda: neuron_view(family("Bert", "sdpa")[0], None, "ab"), "tokenizer must be.*NoneType.*pass inputs"),
    (lambda: neuron_view(family("Bert", "sdpa")[0], lambda *_, **__: {}, "ab"), "no input_ids.*pass inputs"),
    (lambda: neuron_view(bart()[0], inputs={"input_ids": SOURCE.repeat(2, 1)}, **BOTH_TOKENS), "batch of 2"),
    (lambda: neuron_view(*bart(), show="self"), "'encoder', 'decoder', 'cross'.*'self'"),
    (lambda: neuron_view(family("Bert", "sdpa")[0], inputs={"input_ids": SOURCE}), "needs tokens"),
    (lambda: neuron_view(family("Bert", "sdpa")[0], inputs=SOURCE, tokens=names(7)), "inputs must be a dict"),
    (lambda: of_bert_inputs(input_ids=SOURCE[0]), r"input_ids has the shape \(7,\)"),
    (lambda: of_bert_inputs(input_ids=SOURCE.numpy()), 'type ndarray.*return_tensors="pt"'),
    (lambda: of_bert_inputs(input_ids=SOURCE, past_key_values=object()), "past_key_values"),
    (lambda: of_bert_inputs(sentence_a="ab", input_ids=SOURCE), "sentence_a would not be read"),
    (
        lambda: neuron_view(family("Bert", "sdpa")[0], Words(), "w5", tokens=["w5"]),
        "tokens would not be read",
    ),
    (lambda: of_bert_inputs(input_ids=SOURCE, encoder_tokens=names(7)), "tokens is for a single stack"),
    (lambda: neuron_view(*bart(), layer=9), "The encoder attention, which is shown first, has . layers"),
    (lambda: neuron_view(beginless(), *bart()[1:]), "no decoder_start_token_id"),
    (lambda: require_page([huge()]), "13,107,200 numbers.*32 MB.*12,000,000.*include_layers"),
]


def bart():
    return family("Bart", "sdpa")[0], roberta_tokenizer(), "ab", "cde"


def beginless():
    model = copy.deepcopy(family("Bart", "sdpa")[0])
    model.config.decoder_start_token_id = None
    return model


def of_bert_inputs(sentence_a=None, encoder_tokens=None, **inputs):
    model, *_ = family("Bert", "sdpa")
    given = {"inputs": inputs, "tokens": names(7), "encoder_tokens": encoder_tokens}
    return neuron_view(model, None, sentence_a, **given)


def huge():
    vectors = torch.empty(32, 32, 100, 64, device="meta")
    return NeuronPanel(Stack("All", vectors, vectors, None, None), range(32), range(32), [], [], {})


@pytest.mark.parametrize(("call", "fact"), REFUSALS, ids=[fact for _, fact in REFUSALS])
def test_what_would_be_wrong_is_refused(call, fact):
    with pytest.raises((TypeError, ValueError), match=fact):
        call()
