"""The views room but for its pictures: pages that hold what the tensor holds, and what is refused."""

import base64
import inspect
import io
import itertools
import os
import re
import subprocess
import sys

import bertviz
import pytest
import torch
from PIL import Image
from refused import refusals
from view_samples import Words, data_of, names, params, small_bert, stacks, unpack, weights, written

import course
from utils import views
from utils.views import head_view, model_view, neuron_view, text_view
from utils.views.tokens import prettify, word_numbers

HALF_A_LEVEL = 0.0003  # of the square root of a weight, in steps of 1/4095
PARTS = ["All"] + [f"Sentence {pair}" for pair in ("A -> A", "B -> B", "A -> B", "B -> A")]
A, T, BERT = weights(), names(4), small_bert()
ENCODER, DECODER, CROSS = (f"{name}_attention" for name in ("encoder", "decoder", "cross"))
CROSSED = stacks() | {ENCODER: None, DECODER: None}  # the cross-attention alone


def of_bert(*texts, **choice):
    return neuron_view(BERT, Words(), *texts, **choice)


def drawn(panel):
    """The weights in a panel of a page: (layers, heads, query, key)."""
    levels = unpack(panel["weights"], "<u2").astype(float)
    return (torch.from_numpy(levels).reshape(panel["shape"]) / 4095) ** 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_page_holds_the_weights_within_half_a_level(dtype):
    attention = [layer.requires_grad_() for layer in weights(dtype=dtype)]
    (panel,) = data_of(head_view(attention, names(4)))["attention"]
    assert (drawn(panel) - torch.cat(attention).double()).abs().max() <= HALF_A_LEVEL


@pytest.mark.parametrize("number", [1.0005, torch.tensor(1.0078125).bfloat16(), torch.tensor(1), -0.0005])
def test_weights_may_be_whole_or_rounded_past_0_and_1(number):
    """In bfloat16 the number after 1 is 1.008."""
    (panel,) = data_of(head_view([torch.as_tensor(number).expand(1, 1, 2, 2)], names(2)))["attention"]
    assert (drawn(panel) == (number > 0)).all()


def test_another_process_gives_the_same_bytes_and_imports_no_matplotlib():
    """Whose import would take longer than all the rest."""
    code = "head_view([torch.full((1, 2, 3, 3), 1 / 3)], ['a', 'b', 'c'], sentence_b_start=1)"
    here = eval(code)
    show = f"import sys, torch; from utils.views import head_view; view = {code}; "
    show += "print(view.html, view.png, 'matplotlib' in sys.modules)"
    asked = {"cwd": course.ROOT, "env": os.environ | {"PYTHONHASHSEED": "1"}}
    ran = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, **asked)
    assert ran.stdout == f"{here.html} {here.png} False\n", ran.stderr


def test_notebook_gets_page_picture_and_text(monkeypatch):
    view = head_view(weights(), names(4))
    monkeypatch.delenv("COURSE_STATIC_VIEWS", raising=False)
    live, _ = view._repr_mimebundle_()
    assert set(live) == {"text/html", "text/plain"}  # the picture is in it once
    shown = re.search(r'<img .*?width="(\d+)" .*?base64,([^"]*)', live["text/html"])
    assert base64.b64decode(shown[2]) == view.png and live["text/html"].count(shown[2]) == 1
    assert 'sandbox="allow-scripts"' in live["text/html"] and f'title="{view}"' in live["text/html"]
    assert f"min-height:{view.height}px" in live["text/html"]
    monkeypatch.setenv("COURSE_STATIC_VIEWS", "1")
    static, metadata = view._repr_mimebundle_()
    assert set(static) == {"image/png", "text/plain"} and base64.b64decode(static["image/png"]) == view.png
    size = Image.open(io.BytesIO(view.png)).size  # more pixels than the page has, in the same shape
    width, height = (metadata["image/png"][side] for side in ("width", "height"))
    assert size[0] > width == int(shown[1]) and size[0] / size[1] == pytest.approx(width / height, rel=0.01)


@pytest.mark.parametrize("name", ["head_view", "model_view"])
def test_panels_and_the_order_of_arguments_are_those_of_bertviz(name):
    own, theirs = getattr(views, name), getattr(bertviz, name)
    page = params(theirs(**stacks(), html_action="return").data)
    for panel, their in zip(data_of(own(**stacks()))["attention"], page, strict=True):
        assert all(panel[key] == their[key] for key in ("name", "left_text", "right_text"))
        assert (drawn(panel) - torch.tensor(their["attn"])).abs().max() <= HALF_A_LEVEL
    given, expected = (list(inspect.signature(view).parameters) for view in (own, theirs))
    assert given[: len(expected)] == expected


def test_title_says_what_is_shown():
    more, some = weights(layers=3, heads=4), {"include_layers": [2, 0, 2], "include_heads": 3}
    for title, view in {
        "Head view: cross 3 × 5 tokens, layer 1, heads 0, 2": head_view(**CROSSED, layer=1, heads=[0, 2]),
        "Model view: 4 tokens, all 3 layers, all 4 heads": model_view(more, T),
        "Model view: 4 tokens, layers 2, 0, head 3": model_view(more, T, **some),
        "Model view: encoder 5 × 5, decoder 3 × 3, cross 3 × 5": model_view(**stacks()),
        "Neuron view: 5 tokens, L1H2, query 'w7'": of_bert("w5 w6 w7", layer=1, head=2, token=3),
        "Neuron view: 3 tokens, L0H0, query 'w5' in the picture": of_bert("w5"),
    }.items():
        assert str(view).startswith(title)


def test_from_129_tokens_on_a_warning_is_given_once(recwarn):
    for count in (128, 129):
        head_view(**stacks(source=count, layers=1, heads=1))
    (warned,) = recwarn
    assert "16,641 lines" in str(warned.message) and warned.filename == __file__


MARKED = ["<s>", "Ġthe", "un", "Ġa", "▁b", "c", "d</w>", "##e", "Ġ"]


def test_marks_of_a_tokenizer_are_left_out_as_in_bertviz():
    """But for a mark alone, which bertviz leaves empty, and for spaces before a word."""
    shown = prettify(MARKED)
    assert shown[:-1] == [token.strip() for token in bertviz.util.format_special_chars(MARKED)][:-1]
    assert shown[-1] == "␣"
    for view in (head_view, model_view):
        (panel,) = data_of(view(weights(tokens=9), MARKED))["attention"]
        assert panel["left_text"] == panel["right_text"] == shown
        (panel,) = data_of(view(weights(tokens=9), MARKED, prettify_tokens=False))["attention"]
        assert panel["left_text"] == MARKED


def test_words_are_those_of_the_tokenizer(bert):
    inputs = bert[0]("Unbelievably photogenic: the foliage, isn't it?", "Chrysanthemums.")
    tokens = bert[0].convert_ids_to_tokens(inputs["input_ids"])
    found = word_numbers(tokens)
    assert any(token.startswith("##") for token in tokens)
    places = list(zip(inputs.word_ids(), inputs.sequence_ids(), strict=True))  # (None, None): special
    for first, second in itertools.pairwise(range(len(tokens))):
        assert (found[first] == found[second]) == (places[first] == places[second] != (None, None))


@pytest.mark.parametrize(
    ("tokens", "numbers"),
    [
        (["<s>", "The", "Ġun", "bel", "iev", "able", "Ġend", "</s>"], [0, 1, 2, 2, 2, 2, 3, 4]),
        (["▁The", "▁un", "believ", "able", "▁end", "</s>"], [0, 1, 1, 1, 2, 3]),
        (["the</w>", "un", "believ", "able</w>", "end</w>"], [0, 1, 1, 1, 2]),
        (["[CLS]", "##s", "a", "##b", "[SEP]", "##c"], [0, 1, 2, 2, 3, 4]),
        *[(whole, None) for whole in (["[CLS]", "a", "b", "[SEP]"], ["▁a", "▁b"], ["##"], [])],  # no parts
        (["<s>", "Ġthe", "Ġca", "t", "<mask>", "s", "</s>"], [0, 1, 2, 2, 3, 4, 5]),
        (["Ġthere", "s", "<|im_end|>", "Ċ", "<|im_start|>", "user", "Ċ", "Hi"], [0, 0, 1, 2, 3, 4, 5, 6]),
        (["<0x41>", "▁a", "b", "<extra_id_0>"], [0, 1, 1, 2]),
        (["▁a", "<0xC3>", "<0xA9>", "<0x0A>", "b"], [0, 0, 0, 1, 2]),
    ],
)
def test_a_word_begins_where_the_marks_say(tokens, numbers):
    assert word_numbers(tokens) == numbers


def test_page_knows_words_and_special_tokens_of_either_side():
    given = stacks() | {"encoder_tokens": ["[CLS]", "a", "##b", "c", "[SEP]"]}
    _, decoder, cross = data_of(head_view(**given))["attention"]
    assert not {"left_words", "left_special"} & {*decoder, *cross}
    assert (cross["right_words"], cross["right_special"]) == ([0, 1, 1, 2, 3], [0, 4])
    page = head_view(weights(), names(4)).html
    assert [f'id="{control}"' in page for control in ("hide", "first", "words")] == [False, True, False]


def test_head_and_model_view_hold_the_chosen_layers_and_heads():
    attention = weights(layers=4)
    whole = torch.cat(attention).double()
    head = data_of(head_view(attention, names(4), include_layers=[3, 1]))
    model = data_of(model_view(attention, names(4), include_layers=[2, 0, 2], include_heads=2))
    every = data_of(model_view(attention, names(4), sentence_b_start=1))
    assert (head["include_layers"], head["layer"]) == ([3, 1], 3)
    assert data_of(head_view(attention, names(4), include_layers=[3, 1], layer=1))["layer"] == 1
    assert (model["include_layers"], model["include_heads"]) == ([2, 0], [2])
    assert (every["include_layers"], every["include_heads"]) == ([0, 1, 2, 3], [0, 1, 2])
    assert [panel["name"].replace("> Sentence", ">") for panel in every["attention"]] == PARTS
    for data, expected in ((head, whole[[3, 1]]), (model, whole[[2, 0]][:, [2]]), (every, whole)):
        assert (drawn(data["attention"][0]) - expected).abs().max() <= HALF_A_LEVEL


@pytest.mark.parametrize(("layers", "heads", "tokens"), [(6, 12, 20), (1, 1, 4), (2, 16, 60), (30, 9, 40)])
def test_grid_of_a_model_view_stands_on_one_screen(layers, heads, tokens):
    view = model_view(weights(layers, heads, tokens), names(tokens))
    assert view.height <= 930 and view.sheet.height <= 1000 and view.sheet.width <= 744


def test_only_lines_that_are_seen_are_counted_and_a_refusal_says_how_many_tokens_fit():
    layers = [torch.ones(1, 9, 110, 110).tril().log().softmax(-1)] * 40  # to the tokens before
    assert str(model_view([layer[..., :100, :100] for layer in layers[:30]], names(100)))
    with pytest.raises(ValueError, match=r"the first (\d+) tokens fit") as refused:
        model_view(layers, names(110))
    most = int(re.search(r"first (\d+) tokens", str(refused.value))[1])
    model_view([layer[..., :most, :most] for layer in layers], names(most))
    with pytest.raises(ValueError, match="lines"):
        model_view([layer[..., : most + 1, : most + 1] for layer in layers], names(most + 1))


def test_layers_that_do_not_attend_keep_their_place():
    """A hybrid returns the attentions of some layers alone, or None for the others."""
    first, second = weights()
    named = head_view([first, second], T, layer_indices=[1, 3], layer=3, heads=[2])
    given = head_view([None, first, None, second], T, layer=3, heads=[2])
    assert named.html == given.html and str(named) == "Head view: 4 tokens, L3H2"
    data = data_of(model_view([first, second], T, layer_indices=[1, 3], include_layers=[3]))
    assert data["include_layers"] == [3]
    assert (drawn(data["attention"][0]) - second.double()).abs().max() <= HALF_A_LEVEL


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_of_a_model_in_16_bits_it_is_said_that_two_decimals_are_exact(dtype):
    """Its weights differ from those in float32 in the third decimal, and by less than in the second."""
    ids = torch.arange(9)[None]
    models = small_bert().to(dtype), small_bert()
    attention, exact = (model(ids, output_attentions=True).attentions for model in models)
    assert 0.0005 < (torch.cat(attention).float() - torch.cat(exact)).abs().max() < 0.05
    said = f"the model computes in {str(dtype)[6:]}"
    for view in (head_view, model_view, text_view):
        assert said in str(view(attention, names(9))) and said in data_of(view(attention, names(9)))["remark"]
        assert "remark" not in data_of(view(exact, names(9))) and "computes" not in str(view(exact, names(9)))


def test_indices_may_be_numbers_or_tensors_and_tokens_any_iterable():
    chosen = torch.tensor([[0.1, 0.5, 0.4]]).topk(2)
    view = head_view(weights(), map(str, range(4)), layer=chosen.indices[0, 1] - 1, heads=chosen.indices[0])
    data = data_of(view)
    assert (data["layer"], data["heads"], data["attention"][0]["left_text"]) == (1, [1, 2], list("0123"))
    assert data_of(head_view(weights(), names(4), heads=torch.tensor(2)))["heads"] == [2]
    assert [data_of(head_view(weights(), T, token=one))["token"] for one in (T[2], 3, None)] == [2, 3, None]


# --- the text view
def kept_weights(view):
    """The weights in a page of a text view, (layers, heads, query, key), those that are not kept as 0."""
    (panel,) = data_of(view)["attention"]
    layers, heads, tokens, _ = panel["shape"]
    roots = torch.from_numpy(unpack(panel["levels"], "<u2").astype(float) / 4095)
    kept = roots.view(layers, heads, tokens, -1) ** 2
    if "keys" not in panel:
        return kept
    keys = torch.from_numpy(unpack(panel["keys"], "<u2").astype(int)).view(kept.shape).cumsum(-1)
    return torch.zeros(panel["shape"], dtype=torch.float64).scatter_add(-1, keys, kept)


def test_text_view_keeps_every_weight_up_to_128_tokens():
    attention, tokens, _ = written(128)
    view = text_view(attention, tokens)
    assert (kept_weights(view) - torch.cat(attention).double()).abs().max() < HALF_A_LEVEL
    assert "remark" not in data_of(view)


@pytest.mark.parametrize(("layers", "heads", "least"), [(1, 2, 64), (30, 9, 33)])
def test_of_a_long_text_the_strongest_keys_are_kept_and_their_share_is_said(layers, heads, least):
    attention, tokens, _ = written(400, 1, heads)
    view = text_view(attention * layers, tokens)
    found, expected = kept_weights(view)[0], attention[0][0].double()
    count = data_of(view)["attention"][0]["kept"]
    assert count == least
    best = expected.topk(count)
    assert (found.topk(count).values - best.values).abs().max() < HALF_A_LEVEL
    assert ((found > 0).sum(-1) <= count).all()
    share = best.values.sum(-1).mean().item()
    assert f"{count} strongest of up to 400 keys, on average {share:.2f}" in data_of(view)["remark"]
    assert len(view.html.encode()) < 9_000_000


def test_text_view_takes_probabilities_as_well_as_logits():
    attention, tokens, told = written()
    other = told | {"logits": None, "probabilities": told["logits"][0].softmax(-1)}
    data, same = (data_of(text_view(attention, tokens, 4, **given)) for given in (told, other))
    assert same["nexts"] == data["nexts"] and data["surprise"][0] is None
    assert same["surprise"][1:] == pytest.approx(data["surprise"][1:], abs=1e-4)
    bits = -told["logits"][0].softmax(-1).log2()[range(8), told["input_ids"][0, 1:]]
    assert data["surprise"][1:] == pytest.approx(bits.tolist(), abs=0.006)


def test_tokens_stand_as_in_a_text():
    for tokens, text in (
        (["<s>", "Ġthe", "Ġca", "t", ".", "Ċ"], ["<s>", " the", " ca", "t", ".", "⏎\n"]),
        (["[CLS]", "un", "##do", "it"], ["[CLS]", " un", "do", " it"]),
        (["▁The", "▁end"], [" The", " end"]),
    ):
        assert data_of(text_view(weights(tokens=len(tokens)), tokens))["attention"][0]["text"] == text


# --- what is refused

THREE_OF_SIX = {"encoder_attention": None, "encoder_tokens": names(6)}


def broken_bert():
    model = small_bert()
    model.encoder.layer[1].attention.self.key.weight.data[0] = torch.nan
    return model


def same(number, *shape):
    return [torch.full((1, *shape), number)]


def of_stacks(**changes):
    return head_view(**stacks() | changes)


class Untyped(Words):
    def __call__(self, *texts, return_tensors):
        return {"input_ids": super().__call__(*texts)["input_ids"]}


def of_text(**changes):
    attention, tokens, told = written()
    return text_view(attention, tokens, **told | changes)


# What PyTorch's layer returns as its weights: the mean of its heads.
MEAN = torch.nn.MultiheadAttention(6, 3, batch_first=True)(*[torch.ones(1, 4, 6)] * 3)[1]
# Weights by distance, with a window of 4 on 5 tokens: column j of row i is key i + j - 2.
KEY = torch.arange(5)[:, None] + torch.arange(5) - 2
LONGFORMER = [torch.ones(1, 2, 5, 5).masked_fill((KEY < 0) | (KEY > 4), -torch.inf).softmax(-1)]
# Each with the call and what the answer says.
OF_A_WRONG_TYPE = {
    "not tensors": (lambda: head_view([[1.0]], names(1)), "outputs.attentions"),
    "generate()": (lambda: head_view([A, A], T), "2 steps, as generate"),
    "complex numbers": (lambda: head_view([one + 0j for one in A], T), "real numbers"),
    "a set of tokens": (lambda: head_view(A, {*T}), "attention needs tokens"),
    "heads as truths": (lambda: head_view(A, T, heads=torch.tensor([True] * 3)), r"heads.*tensor\(True"),
    "a layer": (lambda: head_view(A[0], T), r"\(1, 3, 4, 4\).*pass \[attn_weights\]"),
    "MultiheadAttention": (lambda: head_view(MEAN, T), r"\(1, 4, 4\).*average_attn_weights=False"),
    "no tokens": (lambda: head_view(A), "attention needs tokens.*patches of an image"),
    "a text for tokens": (lambda: head_view(A, "abcd"), "attention needs tokens"),
    "ids for tokens": (lambda: head_view(A, [1, 2, 3, 4]), "convert_ids_to_tokens"),
    "layer '1'": (lambda: head_view(A, T, layer="1"), "layer.*'1'"),
    "layer 1.7 in a tensor": (lambda: head_view(A, T, layer=torch.tensor(1.7)), r"tensor\(1\.7"),
    "heads that are a number": (lambda: head_view(A, T, heads=1.5), r"heads.*1\.5"),
    "layers in a generator": (lambda: head_view((one for one in A), T), "the type generator"),
    "B at 1.5": (lambda: head_view(A, T, sentence_b_start=1.5), r"1\.5"),
    "no source": (lambda: of_stacks(encoder_tokens=None), f"{ENCODER} needs encoder_tokens"),
    "bertviz's order": (lambda: neuron_view(BERT, "bert", Words(), "w5"), "'bert'.*finds it by itself"),
    "neuron view: a name": (lambda: neuron_view("bert", Words(), "w5"), "not str"),
    "a list of texts": (lambda: of_bert(["w5"]), "sentence_a is a list.*one text"),
    "None for a text": (lambda: of_bert(None), "sentence_a.*NoneType"),
}
OF_A_WRONG_VALUE = {
    "no arguments": (lambda: head_view(), "eager"),
    "no layers": (lambda: head_view((), T), "eager"),
    "three axes": (lambda: head_view([one[0] for one in A], T), r"\(3, 4, 4\)"),
    "unequal layers": (lambda: head_view(A + weights(heads=2), T), r"\(1, 3, 4, 4\).*\(1, 2, 4, 4\)"),
    "a batch": (lambda: head_view(weights(batch=2), T), r"batch of 2.*layer\[:1\]"),
    "NaN": (lambda: head_view(same(torch.nan, 1, 2, 2), T[:2]), "attention holds.*0 to 1"),
    **{f"{n}": (lambda n=n: head_view(same(n, 1, 2, 2), T[:2]), "0 to 1") for n in (1.002, -0.002)},
    "a step": (lambda: head_view([one[:, :, :1] for one in A], T), r"1 query.*step of generate\(\)"),
    "a matrix": (lambda: head_view([A[0][0, 0]], T), r"\(4, 4\).*outputs.attentions"),
    "layer left out": (lambda: head_view(A, T, layer=0, include_layers=[1]), "0 is not among.*1"),
    "a token too many": (lambda: head_view(A, names(5)), "4 query and 4 key.*5 tokens"),
    "too many tokens": (lambda: head_view(same(0.0, 1, 257, 257), names(257)), "257 .*256"),
    "layer 2 of 2": (lambda: head_view(A, T, layer=2), "index 2.*2 layers.*0 to 1"),
    "layer -1": (lambda: head_view(A, T, layer=-1), "index -1.*0 to 1"),
    "nothing to draw": (lambda: head_view([torch.zeros(1, 0, 4, 4)], T), r"\(1, 0, 4, 4\)"),
    "head 3 of 3": (lambda: head_view(A, T, heads=[3]), "index 3.*3 heads.*0 to 2"),
    "no heads": (lambda: head_view(A, T, heads=[]), "heads"),
    "B at 0": (lambda: head_view(A, T, sentence_b_start=0), "is 0.*1 and 3"),
    "cross attention alone": (lambda: head_view(stacks()[CROSS], names(5)), "3 query and 5 key"),
    "two kinds": (lambda: of_stacks(attention=A, tokens=T), f"attention, tokens is.*{CROSS}"),
    "B of a decoder": (lambda: of_stacks(sentence_b_start=1), "sentence_b_start is"),
    "tokens alone": (lambda: head_view(encoder_tokens=T, decoder_tokens=T), "eager"),
    "unequal lengths": (lambda: of_stacks(**THREE_OF_SIX), f"{CROSS} has 3 .* 5 .*3 dec.* 6 enc"),
    "unequal depths": (lambda: of_stacks(**{DECODER: weights(1, 3, 3)}), r"\(2, 3\).*\(1, 3\).*deep"),
    "unequal heads": (lambda: of_stacks(**{CROSS: weights(2, 4, 3, 5)}), r"\(2, 3\).*\(2, 4\)"),
    "cross scores": (lambda: of_stacks(**{CROSS: same(9.0, 3, 3, 5) * 2}), f"{CROSS} .*0 to 1"),
    "513 tokens": (lambda: text_view([torch.eye(513)[None, None]], names(513)), "513 .*at most 512"),
    "two predictions": (lambda: of_text(probabilities=torch.ones(9, 20)), "logits or probabilities"),
    "a short prediction": (lambda: of_text(logits=torch.ones(8, 20)), r"\(8, 20\).*9 tokens"),
    "no ids": (lambda: of_text(input_ids=None), "give input_ids"),
    "no vocabulary": (lambda: of_text(vocabulary=None), "give vocabulary"),
    "no probabilities": (lambda: of_text(logits=None, probabilities=torch.ones(9, 20)), "add up to 1"),
    "a long prompt": (lambda: of_text(prompt_length=9), "prompt_length"),
    "model view: layer 2": (lambda: model_view(A, T, include_layers=[0, 2]), "layers: index 2"),
    "many lines": (lambda: model_view(same(0.1, 20, 100, 100) * 9, names(100)), "1,800,000 .*1,500,000"),
    "layer indices": (lambda: head_view(A, T, layer_indices=[1]), r"layer_indices is \[1\].*2 layers"),
    "layer indices twice": (lambda: head_view(A, T, layer_indices=[1, 1]), "ascending"),
    "a missing layer": (lambda: head_view(A, T, layer=0, layer_indices=[1, 3]), "0 .*one of 1, 3"),
    "offsets": (lambda: head_view(LONGFORMER, names(5)), "each distance.*Longformer"),
    "NaN in the model": (lambda: neuron_view(broken_bert(), Words(), "w5"), "NaN"),
    "B without a type": (lambda: neuron_view(BERT, Untyped(), "w5", "w6"), "where sentence B begins"),
    "an empty text": (lambda: of_bert(" "), "sentence_a"),
    "an empty B": (lambda: of_bert("w5", ""), "sentence_b"),
    "a long text": (lambda: of_bert("w5 " * 127), "129 tokens.*128"),
    "head 4 of 4": (lambda: of_bert("w5", head=4), "head: index 4.*4 heads.*0 to 3"),
    "no such token": (lambda: head_view(weights(), T, token="x"), "token: 'x' is none of the 4 tokens"),
    "token 3 of 3": (lambda: of_bert("w5", token=3), "token: index 3.*text has 3 tokens.*0 to 2"),
}
REFUSED = [(what, call, TypeError, fact) for what, (call, fact) in OF_A_WRONG_TYPE.items()]
REFUSED += [(what, call, ValueError, fact) for what, (call, fact) in OF_A_WRONG_VALUE.items()]
test_what_cannot_be_drawn_is_refused = refusals(*REFUSED)
