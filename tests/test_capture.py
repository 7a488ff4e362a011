"""What the neuron view draws of many models, held against the weights that each returns if eager."""

import functools

import bertviz.neuron_view
import bertviz.transformers_neuron_view as of_bertviz
import pytest
import torch
import transformers
from families import BERT, BOTH_TOKENS, CAUGHT, GROUPED, REFUSED, SOURCE, TARGET, family, own_attentions
from refused import refusals
from transformers import AttentionInterface, BertConfig, LlamaConfig, LlamaForCausalLM
from view_samples import SENTENCES, Words, data_of, names, params, unpack, vectors

import longer_runs
from utils.attention import LayerAttention, use_fused_attention
from utils.capture import Stack, catch
from utils.dates import DATE_CONFIG
from utils.decoder import Decoder, EncoderDecoder
from utils.encoder import Encoder
from utils.llama import from_llama, load_writer, to_llama
from utils.views import head_view, model_view, neuron_view, text_view
from utils.views.neurons import NeuronPanel, require_page

KINDS, ERRORS = ("Encoder", "Decoder", "Cross"), (TypeError, ValueError)


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
    hooks = [(part.training, len(part._forward_hooks), len(part._forward_pre_hooks)) for part in parts]
    names_of = [sorted(vars(part)) for part in parts]
    chosen = [getattr(getattr(part, "config", None), "_attn_implementation", None) for part in parts]
    gradients = [weight.grad for weight in model.parameters()]
    weights = [hash(weight.numpy().tobytes()) for weight in model.state_dict().values()]
    return hooks, names_of, chosen, gradients, weights


def panels_of(model, inputs, tokens, **choice):
    return data_of(neuron_view(model, inputs=inputs, **tokens, **choice))["attention"]


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", CAUGHT)
def test_numbers_drawn_are_the_models_own_and_the_model_is_left_as_it_was(name, attention):
    if attention == "sdpa" and name in ("Gemma2", "GptOss", "MiMoV2Flash"):
        with pytest.raises(ValueError):  # transformers has no sdpa for these
            family(name, attention)
        return
    model, inputs, tokens = family(name, attention)
    next(model.train().children()).eval()
    before, panels = state(model), panels_of(model, inputs, tokens)
    assert before == state(model)
    for panel, (kind, expected) in zip(panels, own_attentions(name).items(), strict=True):
        assert panel["name"] == kind and (drawn(panel) - expected).abs().max() < 1e-5
        assert [len(panel["left_text"]), len(panel["right_text"])] == list(expected.shape[2:])


def flash(module, query, key, value, attention_mask, scaling, sliding_window=None, softcap=None, **more):
    """What flash attention computes on a graphics card. It gets no mask, it is told of causality instead."""
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
    expected = model(**inputs).last_hidden_state
    monkeypatch.setattr(model.config, "_attn_implementation_internal", "flash_attention_2")
    assert (model(**inputs).last_hidden_state - expected).abs().max() < 1e-4
    (panel,) = panels_of(model, inputs, tokens)
    assert (drawn(panel) - own_attentions(name)["All"]).abs().max() < 1e-5
    assert model.config._attn_implementation == "flash_attention_2"


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_caught_is_refused_by_name_with_what_to_do(name):
    model, inputs, tokens = family(name, "eager")
    before, said = state(model), f"{name}Model .*head_view .*eager.*output_attentions=True"
    with pytest.raises(ERRORS, match=said):
        panels_of(model, inputs, tokens)
    assert before == state(model)


def test_families_hold_what_they_are_there_for():
    """Else the comparison above would be of models that are all alike."""
    kinds = ("Bert", "GPT2", "ModernBert", "GptOss", "MiMoV2Flash", "Gemma2", "T5", "UMT5", "Bart", "Llama")
    found = {name: panels_of(*family(name, "eager")) for name in kinds}
    bert, gpt, modern, oss, mimo, gemma, t5, umt5, _, llama = (panels[0] for panels in found.values())
    plain = {"name", "left_text", "right_text", "layers", "heads", "key_of", "queries", "keys", "formula"}
    assert set(bert) == plain
    causal = floats(gpt["added"], gpt["added_shape"])
    assert causal.shape == (1, 1, 7, 7) and torch.equal(causal[0, 0] == 0, torch.ones(7, 7).tril() == 1)
    assert len(set(gpt["scale"])) == 2 == len(set(modern["added_of"])) and "sinks" in oss
    assert [max(layer) > -1e38 for layer in mimo["sinks"]] == [False, True]
    assert gemma["softcap"] == 1 and t5["scale"] == [1, 1, 1]
    assert t5["added_shape"] == [1, 4, 7, 7] and umt5["added_shape"] == [3, 4, 7, 7]
    assert [found["Bart"][2][name]["shape"] for name in ("queries", "keys")] == [[3, 4, 4, 8], [3, 4, 7, 8]]
    assert llama["keys"]["shape"] == [2, 2, 7, 8] and llama["key_of"] == [0, 0, 1, 1]


def test_neuron_view_holds_the_numbers_of_bertvizs_page(bert):
    """bertviz has a BertModel of its own. With the same weights it must find the same vectors and weights."""
    tokenizer, model = bert
    theirs = of_bertviz.BertModel(of_bertviz.BertConfig.from_dict(model.config.to_dict()))
    theirs.load_state_dict(model.state_dict(), strict=False)
    tokenizer.do_basic_tokenize = True
    page = bertviz.neuron_view.show(theirs.eval(), "bert", tokenizer, *SENTENCES, html_action="return").data
    view = neuron_view(model, tokenizer, *SENTENCES)
    panels, expected = data_of(view)["attention"], params(page)
    for own, their in zip(panels, ("all", "aa", "bb", "ab", "ba"), strict=True):
        assert all(own[key] == expected[their][key] for key in ("left_text", "right_text"))
    query, key = vectors(panels[0])
    assert (query - torch.tensor(expected["all"]["queries"])).abs().max() < 1e-4
    assert (key - torch.tensor(expected["all"]["keys"])).abs().max() < 1e-4
    weight = torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1)
    assert (weight - torch.tensor(expected["all"]["attn"])).abs().max() < 1e-5
    assert len(view.html) - 110_000 < len(page) / 10  # but for d3, which bertviz's page fetches


# --- the course's own

notebook_12 = functools.cache(longer_runs.definitions)
SOURCES, BOTH_IDS = {"input_ids": SOURCE}, {"source_ids": SOURCE, "target_ids": TARGET}
MEMORY = {"target_ids": TARGET, "memory": torch.randn(1, 7, DATE_CONFIG.hidden_size)}
ONE, ALL_THREE = {"All": "attentions"}, {kind: f"{kind.lower()}_attentions" for kind in KINDS}
OWN = {
    "encoder": (lambda: Encoder(DATE_CONFIG), SOURCES, ONE),
    "encoder, norms first": (lambda: Encoder(DATE_CONFIG, norm_first=True), SOURCES, ONE),
    "encoder, relative": (lambda: Encoder(DATE_CONFIG, positions="relative"), SOURCES, ONE),
    "encoder, rotary": (lambda: Encoder(DATE_CONFIG, positions="rotary"), SOURCES, ONE),
    "encoder-decoder": (lambda: EncoderDecoder(DATE_CONFIG), BOTH_IDS, ALL_THREE),
    "decoder": (lambda: Decoder(DATE_CONFIG), MEMORY, dict(list(ALL_THREE.items())[1:])),
    "copy model": (lambda: notebook_12()["CopyModel"]("learned"), SOURCES, {"All": 1}),
    "copy model, rotary": (lambda: notebook_12()["CopyModel"]("rotary"), SOURCES, {"All": 1}),
    "copy model, relative": (lambda: notebook_12()["CopyModel"]("relative"), SOURCES, {"All": 1}),
}
# The copy model stacks the weights that fused attention does not return.
MAY_BE_FUSED = [(kind, fused) for kind in OWN for fused in (False, True) if not fused or kind[:2] == "en"]


@pytest.mark.parametrize(("kind", "fused"), MAY_BE_FUSED)
def test_numbers_drawn_of_the_courses_models_are_what_they_return(kind, fused):
    make, inputs, names_of = OWN[kind]
    torch.manual_seed(0)
    model = make().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
        outputs = model(**inputs)
    use_fused_attention(model, fused)
    before = state(model)
    panels = panels_of(model, inputs, BOTH_TOKENS if len(names_of) > 1 else {"tokens": names(7)})
    assert before == state(model)
    for panel, (name, place) in zip(panels, names_of.items(), strict=True):
        expected = outputs[place] if isinstance(place, int) else getattr(outputs, place)
        expected = expected[0] if isinstance(expected, torch.Tensor) else torch.cat(expected)
        assert panel["name"] == name and (drawn(panel) - expected).abs().max() < 1e-5


# --- what a model is run on, and how it is shown
def roberta():
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *"abcdefgh", "\u0120"]
    tokenizer = transformers.RobertaTokenizer(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[])
    config = transformers.RobertaConfig(**BERT | {"pad_token_id": 1})
    return transformers.RobertaModel(config).eval(), tokenizer


def test_pair_of_roberta_is_cut_where_bertviz_cuts_it():
    """It has two separators between the sentences, and no types. By bertviz's neuron_view.py, B has one."""
    first, *parts = data_of(neuron_view(*roberta(), "ab", "cde"))["attention"]
    assert first["left_text"] == ["<s>", "a", "b", "</s>", "</s>", "c", "d", "e", "</s>"]
    assert [(part["rows"], part["columns"]) for part in parts[2:]] == [([0, 4], [4, 9]), ([4, 9], [0, 4])]


def test_a_second_text_is_what_an_encoder_decoder_writes():
    """It reads it one place later, behind the token of start."""
    model, tokenizer, *texts = bart()
    for given, kinds in ((texts, KINDS), (texts[:1], ["All"])):
        panels = data_of(neuron_view(model, tokenizer, *given))["attention"]
        assert [panel["name"] for panel in panels] == list(kinds)
        assert panels[0]["left_text"] == ["<s>", "a", "b", "</s>"]
    panel = data_of(neuron_view(model, tokenizer, *texts, show="Cross"))["attention"][0]
    assert panel["name"] == "Cross" and panel["right_text"] == ["<s>", "a", "b", "</s>"]
    assert panel["left_text"] == ["</s>", "<s>", "c", "d", "e"]


@pytest.mark.parametrize("name", ["Bert", "DistilBert"])
def test_types_of_tokens_reach_a_model_that_knows_them_also_in_what_is_around_it(name):
    model, *_ = family(name, "sdpa")
    pairs = [neuron_view(one, Words(), "w5", "w6") for one in (model, torch.nn.DataParallel(model))]
    plain, around = (data_of(view)["attention"] for view in pairs)
    assert plain == around and len(plain) == 5
    (untyped,) = panels_of(model, {"input_ids": Words()("w5", "w6")["input_ids"]}, {"tokens": names(5)})
    assert (plain[0]["queries"] != untyped["queries"]) == (name == "Bert")


class Noisy(Encoder):
    """A model that draws random numbers whenever it runs, as ViTMAE does."""

    def forward(self, input_ids):
        return super().forward(input_ids)[0] + torch.randn(())


def test_a_model_that_draws_random_numbers_is_drawn_and_the_next_numbers_stay():
    model = Noisy(DATE_CONFIG)
    before = torch.random.get_rng_state()
    assert catch(model, SOURCES) and torch.equal(before, torch.random.get_rng_state())


def test_decoder_of_a_bert_and_a_pair_of_berts_are_named_by_what_they_are():
    part = BertConfig(**BERT, is_decoder=True, add_cross_attention=True)
    pair = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(BertConfig(**BERT), part)
    pair = transformers.EncoderDecoderModel(pair).eval()
    inputs = {"input_ids": SOURCE, "decoder_input_ids": TARGET}
    assert [stack.name for stack in catch(pair, inputs)] == list(KINDS)
    inputs = {"input_ids": TARGET, "encoder_hidden_states": torch.randn(1, 7, 32)}
    assert [stack.name for stack in catch(pair.decoder, inputs)] == ["Decoder", "Cross"]


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", ["Llama", "GPT2"])
def test_a_row_that_is_masked_as_a_whole_is_spread_evenly_as_under_eager(name, attention):
    """As of pads on the left. Under sdpa its output there is another, and is not compared."""
    inputs = SOURCES | {"attention_mask": torch.tensor([[0, 0, 1, 1, 1, 1, 1]])}
    expected = torch.cat(family(name, "eager")[0](**inputs, output_attentions=True).attentions)
    (panel,) = panels_of(family(name, attention)[0], inputs, {"tokens": names(7)})
    assert (drawn(panel) - expected).abs().max() < 1e-5


class Wrong(LayerAttention):
    """Its weights are not what is caught: it attends to values that are turned."""

    def attend(self, query, key, value, mask):
        return super().attend(query, key, value.flip(-1), mask)


class Silent(Encoder):
    """It returns nothing that could be compared."""

    def forward(self, input_ids):
        super().forward(input_ids)
        return "done"


def own_way():
    model = Encoder(DATE_CONFIG)
    model.layers[1].attention = Wrong(DATE_CONFIG)
    return model.eval()


@pytest.mark.parametrize(("name", "layers"), [("MiniMax", [0, 2]), ("Lfm2", [1, 3])])
def test_a_hybrid_is_drawn_with_its_true_layers(name, layers):
    model, inputs, tokens = family(name, "eager")
    attentions = model(**inputs, output_attentions=True).attentions
    expected = [one for one in attentions if one is not None and one.dim() == 4 and one.shape[-1] == 7]
    view = neuron_view(model, inputs=inputs, **tokens, layer=layers[1])
    (panel,) = data_of(view)["attention"]
    assert panel["layers"] == layers and f"L{layers[1]}H0" in str(view)
    assert (drawn(panel) - torch.cat(expected)).abs().max() < 1e-5


def test_what_is_missing_or_other_than_in_the_model_is_said():
    model, inputs, tokens = family("LongT5", "eager")
    view = neuron_view(model, inputs=inputs, **tokens)
    assert "without Encoder, which the model computes in its own way" in str(view)
    with pytest.raises(ValueError, match=r"'decoder', 'cross' here, not 'encoder'.*Encoder in its own way"):
        panels_of(model, inputs, tokens, show="encoder")
    model, inputs, tokens = family("GraniteSWA", "eager")
    view = neuron_view(model, inputs=inputs, **tokens)
    assert "the sink is in these weights" in str(view) and view.png  # it is a parameter, with a gradient


def test_of_a_model_in_bfloat16_two_decimals_are_shown_and_it_is_said():
    model, inputs, tokens = family("Llama", "eager")
    view = neuron_view(model.bfloat16(), inputs=inputs, **tokens)
    assert "computes in bfloat16" in str(view) and data_of(view)["decimals"] == 2
    own = torch.cat(model(**inputs, output_attentions=True).attentions).double()
    (panel,) = data_of(view)["attention"]
    assert (drawn(panel) - own).abs().max() < 0.05


def test_of_the_courses_own_llama_the_weights_that_it_returns_are_named():
    """Which head_view draws, as it is told to; and transformers' model with its weights is drawn here too."""
    model = from_llama(LlamaForCausalLM(LlamaConfig(**GROUPED)))
    ids = torch.arange(5)[None]

    class Masked(Words):
        def __call__(self, *texts, **more):
            return (made := super().__call__(*texts, **more)) | {"attention_mask": made["token_type_ids"] + 1}

    by_hand = {"inputs": {"input_ids": ids}, "tokens": names(5)}
    for given in (by_hand, {"tokenizer": Masked(), "sentence_a": "w5"}):
        with pytest.raises(TypeError, match=r"Llama .*this one does, as outputs\.attentions"):
            neuron_view(model, **given)
    assert head_view(model(ids).attentions, names(5)) and neuron_view(to_llama(model).model, **by_hand)


@pytest.mark.slow
def test_numbers_drawn_of_the_model_that_writes_are_its_own():
    """SmolLM2's weights: 30 layers of 9 heads that share 3 key heads."""
    model, tokenizer = load_writer()
    theirs = to_llama(model).eval()
    theirs.set_attn_implementation("eager")
    ids = tokenizer("The capital of France is Paris. The lighthouse keeper told stories, and").input_ids[:15]
    inputs, tokens = {"input_ids": torch.tensor([ids])}, tokenizer.convert_ids_to_tokens(ids)
    with torch.no_grad():
        attentions = theirs(**inputs, output_attentions=True).attentions
    expected, given = torch.cat(attentions).double(), {"inputs": inputs, "tokens": tokens}
    whole = neuron_view(theirs.model, **given)
    assert "16 bits each: weights are within 0.001" in data_of(whole)["remark"] and str(whole)
    assert (drawn(data_of(whole)["attention"][0]) - expected).abs().max() < 0.001
    some = {"include_layers": [29, 4], "include_heads": [8, 0]}
    data = data_of(neuron_view(theirs.model, **given, **some))
    (panel,) = data["attention"]
    assert [panel["layers"], panel["heads"], data["layer"], data["head"]] == [*some.values(), 29, 8]
    assert not data["remark"] and (drawn(panel) - expected[[29, 4]][:, [8, 0]]).abs().max() < 1e-5
    for view, numbers in ((head_view, "weights"), (model_view, "weights"), (text_view, "levels")):
        page = view(attentions, tokens)
        assert len(page.html) < 1_000_000 > len(whole.html)
        levels = unpack(data_of(page)["attention"][0][numbers], "<u2").astype(float)
        found = (torch.from_numpy(levels) / 4095).view(expected.shape)
        assert (found - expected.sqrt()).abs().max() <= 0.5 / 4095 + 1e-5  # of the root, half a level


def bart(begin=2):
    model, *_ = family("Bart", "sdpa")
    model.config.decoder_start_token_id = begin
    return model, roberta()[1], "ab", "cde"


def of_bert(*given, **choice):
    return neuron_view(family("Bert", "sdpa")[0], *given, **choice)


def of_ids(sentence_a=None, encoder_tokens=None, ids=SOURCE, **inputs):
    given = {"inputs": {"input_ids": ids, **inputs}, "tokens": names(7), "encoder_tokens": encoder_tokens}
    return of_bert(None, sentence_a, **given)


def of_family(name):
    return panels_of(*family(name, "eager"))


VECTORS = torch.empty(32, 32, 100, 64, device="meta")
HUGE = NeuronPanel(Stack("All", VECTORS, VECTORS, None, None), range(32), range(32), [], [], {})
WRONG = [
    (lambda: of_family("Mamba"), "MambaModel has no attention"),
    (lambda: of_family("FNet"), "FNetModel has no attention"),
    (lambda: of_family("CLIP"), "CLIPModel attends .*Pass model.vision_model or model.text_model"),
    (lambda: catch(own_way(), SOURCES), "Encoder gives an output that differs"),
    (lambda: catch(Silent(DATE_CONFIG), SOURCES), "Silent returns no tensor"),
    (lambda: of_bert(inputs=SOURCES, tokens=names(6)), "7 .*6"),
    (lambda: of_bert(None, "ab"), "tokenizer must be.*NoneType.*pass inputs"),
    (lambda: of_bert(lambda *_, **__: {}, "ab"), "no input_ids.*pass inputs"),
    (lambda: panels_of(bart()[0], {"input_ids": SOURCE.repeat(2, 1)}, BOTH_TOKENS), "batch of 2"),
    (lambda: neuron_view(*bart(), show="self"), "'encoder', 'decoder', 'cross'.*'self'"),
    (lambda: of_bert(inputs=SOURCES), "needs tokens"),
    (lambda: of_bert(inputs=SOURCE, tokens=names(7)), "inputs must be a dict"),
    (lambda: of_ids(ids=SOURCE[0]), r"input_ids has the shape \(7,\)"),
    (lambda: of_ids(ids=SOURCE.numpy()), 'type ndarray.*return_tensors="pt"'),
    (lambda: of_ids(past_key_values=object()), "past_key_values"),
    (lambda: of_ids(sentence_a="ab"), "sentence_a would not be read"),
    (lambda: of_bert(Words(), "w5", tokens=["w5"]), "tokens would not be read"),
    (lambda: of_ids(encoder_tokens=names(7)), "tokens is for a single stack"),
    (lambda: neuron_view(*bart(), layer=9), "The encoder attention, which is shown first, has . layers"),
    (lambda: neuron_view(*bart(begin=None)), "no decoder_start_token_id"),
    (lambda: require_page([HUGE]), "13,107,200 numbers.*32 MB.*12,000,000.*include_layers"),
]
test_what_would_be_wrong_is_refused = refusals(*[(fact, call, ERRORS, fact) for call, fact in WRONG])
