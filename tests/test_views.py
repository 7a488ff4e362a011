"""The views room but for its pictures: pages that hold what the tensor holds, and what is refused."""

import base64
import inspect
import io
import itertools
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import metadata
from pathlib import Path

import bertviz
import pytest
import torch
from bertviz import neuron_view as bertviz_neuron_view
from bertviz import transformers_neuron_view
from PIL import Image
from view_samples import (
    HOSTILE,
    SENTENCES,
    Words,
    data_of,
    names,
    small_bert,
    stacks,
    unpack,
    vectors,
    weights,
    written,
)

from utils.attention import use_fused_attention
from utils.encoder import Encoder
from utils.views import head_view, model_view, neuron_view, text_view
from utils.views.ink import COLOURS, opacity, opening_strength
from utils.views.page import View
from utils.views.tokens import prettify, word_numbers

ROOT = Path(__file__).parent.parent
HALF_A_LEVEL = 0.0003  # of the square root of a weight, in steps of 1/4095
LIBRARIES = 110_000  # characters of d3, deflated, which bertviz's pages fetch from a server
SOLO = {"encoder_attention": None, "decoder_attention": None}  # the cross-attention of stacks() alone
PARTS = ["All"] + [f"Sentence {pair}" for pair in ("A -> A", "B -> B", "A -> B", "B -> A")]


def params(page):
    """The data in a page of bertviz."""
    found = re.search(r"(?:const params|window.bertviz_params) = (?=\{)", page)
    return json.JSONDecoder().raw_decode(page, found.end())[0]["attention"]


def drawn(panel):
    """The weights in a panel of a page: (layers, heads, query, key)."""
    levels = unpack(panel["weights"], "<u2").astype(float)
    return (torch.from_numpy(levels).reshape(panel["shape"]) / 4095) ** 2


# --- the head view


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_page_holds_the_weights_within_half_a_level(dtype):
    attention = [layer.requires_grad_() for layer in weights(dtype=dtype)]
    (panel,) = data_of(head_view(attention, names(4)))["attention"]
    assert (drawn(panel) - torch.cat(attention).double()).abs().max() <= HALF_A_LEVEL


def test_weights_may_be_whole_or_rounded_past_0_and_1():
    """In bfloat16 the number after 1 is 1.008."""
    for number, dtype in ((1.0005, torch.float32), (1.0078125, torch.bfloat16), (1, torch.long)):
        (panel,) = data_of(head_view([torch.full((1, 1, 2, 2), number, dtype=dtype)], names(2)))["attention"]
        assert (drawn(panel) == 1).all()
    (panel,) = data_of(head_view([torch.full((1, 1, 2, 2), -0.0005)], names(2)))["attention"]
    assert (drawn(panel) == 0).all()


def test_pages_are_small_beside_bertvizs(bert_attention):
    attention, tokens = bert_attention
    for own, theirs in ((head_view, bertviz.head_view), (model_view, bertviz.model_view)):
        page = len(own(attention, tokens).html.encode())
        assert page < 100_000
        assert page < len(theirs(attention, tokens, html_action="return").data.encode()) / 10


def test_page_asks_nothing_from_outside():
    page = head_view(weights(), names(4), sentence_b_start=2).html
    assert not re.search(r"<(script|link|img|iframe)[^>]*\b(src|href)=|@import|cdnjs", page)


def test_same_input_gives_the_same_bytes_in_another_process():
    code = "head_view([torch.full((1, 2, 3, 3), 1 / 3)], ['a', 'b', 'c'], sentence_b_start=1)"
    here = eval(code)
    show = f"import torch; from utils.views import head_view; view = {code}; print(view.html, view.png)"
    other = os.environ | {"PYTHONHASHSEED": "1"}
    ran = subprocess.run([sys.executable, "-c", show], capture_output=True, cwd=ROOT, env=other, text=True)
    assert ran.stdout == f"{here.html} {here.png}\n"


def tags(page):
    parser, seen = HTMLParser(), []
    parser.handle_starttag = lambda tag, attributes: seen.append(tag)
    parser.feed(page)
    return seen


@pytest.mark.parametrize("token", HOSTILE)
def test_text_of_a_token_never_becomes_markup(token, monkeypatch):
    picture = io.BytesIO()
    Image.new("RGB", (1, 1)).save(picture, "PNG")
    monkeypatch.setattr(View, "png", picture.getvalue())
    monkeypatch.delenv("COURSE_STATIC_VIEWS", raising=False)
    tame, wild = (head_view(weights(), [text, "b", "c", "d"], sentence_b_start=2) for text in ("a", token))
    assert tags(wild.html) == tags(tame.html)
    assert tags(wild._repr_mimebundle_()[0]["text/html"]) == ["div", "img", "iframe"]
    assert data_of(wild)["attention"][0]["left_text"][0] == token  # nothing lost on the way


def test_pair_has_its_five_panels():
    panels = data_of(head_view(weights(), names(4), sentence_b_start=1))["attention"]
    assert [panel["name"].replace("> Sentence", ">") for panel in panels] == PARTS
    first, second = ([0, 1], ["token0"]), ([1, 4], ["token1", "token2", "token3"])
    expected = [(first, first), (second, second), (first, second), (second, first)]
    for panel, (rows, columns) in zip(panels[1:], expected, strict=True):
        assert [panel["rows"], panel["left_text"]] == list(rows)
        assert [panel["columns"], panel["right_text"]] == list(columns)


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


def test_the_picture_can_be_left_out(monkeypatch):
    monkeypatch.delenv("COURSE_STATIC_VIEWS", raising=False)
    views = [head_view(A, T, picture=False), model_view(A, T, picture=False)]
    for view in [*views, neuron_view(BERT, Words(), "w5", picture=False)]:
        assert "<img" not in view._repr_mimebundle_()[0]["text/html"]


def test_save_writes_the_page(tmp_path):
    view = head_view(weights(), ["é", "中", "c", "d"])
    assert view.save(tmp_path / "view.html").read_text(encoding="utf-8") == view.html


def test_panels_are_those_of_bertviz():
    given = stacks()
    theirs = params(bertviz.head_view(**given, html_action="return").data)
    for own, their in zip(data_of(head_view(**given))["attention"], theirs, strict=True):
        assert all(own[key] == their[key] for key in ("name", "left_text", "right_text"))
        assert (drawn(own) - torch.tensor(their["attn"])).abs().max() <= HALF_A_LEVEL


def test_menu_offers_the_panels_that_are_given():
    given = stacks()
    assert re.findall(r"<option.*?>(\w+)</option>", head_view(**given).html) == [
        "Encoder",
        "Decoder",
        "Cross",
    ]
    two = head_view(**given | {"decoder_attention": None}).html
    assert re.findall(r"<option.*?>(\w+)</option>", two) == ["Encoder", "Cross"]
    view = head_view(**given | SOLO, layer=1, heads=[0, 2])
    assert 'id="filter"' in head_view(**given).html and 'id="filter"' not in view.html
    data = data_of(view)
    assert ([panel["name"] for panel in data["attention"]], data["layer"], data["heads"]) == (
        ["Cross"],
        1,
        [0, 2],
    )
    assert str(view) == "Head view: cross 3 × 5 tokens, layer 1, heads 0, 2"


def test_page_is_as_high_as_its_longest_list():
    """In bertviz a token takes 22.5 pixels."""
    four, nine = (head_view(weights(tokens=count), names(count)).height for count in (4, 9))
    assert head_view(**stacks(source=9)).height == head_view(**stacks(source=2, target=9)).height == nine
    assert head_view(**stacks(source=2, target=9) | SOLO).height == nine
    assert nine - four == pytest.approx(5 * 22.5, abs=1) and four > 4 * 22.5


def test_from_129_tokens_on_a_warning_is_given_once(recwarn):
    for count in (128, 129):
        head_view(**stacks(source=count, layers=1, heads=1))
    (warned,) = recwarn
    assert "16,641 lines" in str(warned.message) and warned.filename == __file__


# --- the tokens


@pytest.mark.parametrize(
    ("own", "theirs"), [(head_view, bertviz.head_view), (model_view, bertviz.model_view)]
)
def test_arguments_are_bertvizs_in_bertvizs_order(own, theirs):
    given, expected = (list(inspect.signature(view).parameters) for view in (own, theirs))
    assert given[: len(expected)] == expected


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
    tokenizer, _ = bert
    inputs = tokenizer("Unbelievably photogenic: the foliage, isn't it?", "Chrysanthemums.")
    tokens = tokenizer.convert_ids_to_tokens(inputs["input_ids"])
    found = word_numbers(tokens)
    assert any(token.startswith("##") for token in tokens)
    expected = list(
        zip(inputs.word_ids(), inputs.sequence_ids(), strict=True)
    )  # (None, None) for special tokens
    for first, second in itertools.pairwise(range(len(tokens))):
        same = expected[first] == expected[second] != (None, None)
        assert (found[first] == found[second]) == same


@pytest.mark.parametrize(
    ("tokens", "numbers"),
    [
        (["<s>", "The", "Ġun", "bel", "iev", "able", "Ġend", "</s>"], [0, 1, 2, 2, 2, 2, 3, 4]),
        (["▁The", "▁un", "believ", "able", "▁end", "</s>"], [0, 1, 1, 1, 2, 3]),
        (["the</w>", "un", "believ", "able</w>", "end</w>"], [0, 1, 1, 1, 2]),
        (["[CLS]", "##s", "a", "##b", "[SEP]", "##c"], [0, 1, 2, 2, 3, 4]),
        (["[CLS]", "a", "b", "[SEP]"], None),  # no token is only a part of a word
        (["▁a", "▁b"], None),
        (["<s>", "Ġthe", "Ġca", "t", "<mask>", "s", "</s>"], [0, 1, 2, 2, 3, 4, 5]),
        (["Ġthere", "s", "<|im_end|>", "Ċ", "<|im_start|>", "user", "Ċ", "Hi"], [0, 0, 1, 2, 3, 4, 5, 6]),
        (["<0x41>", "▁a", "b", "<extra_id_0>"], [0, 1, 1, 2]),
        (["▁a", "<0xC3>", "<0xA9>", "<0x0A>", "b"], [0, 0, 0, 1, 2]),
        (["##"], None),
        ([], None),
    ],
)
def test_a_word_begins_where_the_marks_say(tokens, numbers):
    assert word_numbers(tokens) == numbers


def test_page_knows_words_and_special_tokens_of_either_side():
    given = stacks() | {"encoder_tokens": ["[CLS]", "a", "##b", "c", "[SEP]"]}
    _, decoder, cross = data_of(head_view(**given))["attention"]
    assert not {"left_words", "left_special"} & set(decoder) | {"left_words", "left_special"} & set(cross)
    assert (cross["right_words"], cross["right_special"]) == ([0, 1, 1, 2, 3], [0, 4])
    page = model_view(**given).html
    assert "Hide [CLS], [SEP]</label>" in page and 'id="words"' in page
    page = head_view(weights(), names(4)).html
    assert 'id="hide"' not in page and 'id="first"' in page and 'id="words"' not in page


def test_head_view_holds_the_chosen_layers():
    attention = weights(layers=4)
    data = data_of(head_view(attention, names(4), include_layers=[3, 1]))
    assert (data["include_layers"], data["layer"]) == ([3, 1], 3)
    expected = torch.cat(attention)[[3, 1]].double()
    assert (drawn(data["attention"][0]) - expected).abs().max() <= HALF_A_LEVEL
    assert data_of(head_view(attention, names(4), include_layers=[3, 1], layer=1))["layer"] == 1


# --- the ink


def luminance(colour):
    """Of WCAG 2: https://www.w3.org/TR/WCAG22/#dfn-relative-luminance."""
    return (linear(colour) * torch.tensor([0.2126, 0.7152, 0.0722])).sum().item()


def linear(colour):
    levels = torch.tensor([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return torch.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)


# What is seen without the cones for red, green, blue, by Machado et al. (2009), table 1, severity 1.
WITHOUT = {
    "none": [[1.0, 0, 0], [0, 1, 0], [0, 0, 1]],
    "red": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "green": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "blue": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


@pytest.mark.parametrize("cones", WITHOUT)
def test_twelve_colours_are_told_apart(cones):
    colours = [(torch.tensor(WITHOUT[cones]) @ linear(colour)).clamp(0, 1) for colour in COLOURS]
    sides = torch.tensor([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    lab = []
    for colour in colours:
        x, y, z = (sides @ colour / torch.tensor([0.9505, 1, 1.0888])) ** (1 / 3)
        lab.append(torch.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)]))
    distances = torch.pdist(torch.stack(lab))
    assert len(set(COLOURS)) == 12 and distances.min() > (30 if cones == "none" else 17)


def test_a_weight_of_1_can_be_seen_on_white_and_on_black():
    for colour in COLOURS:
        assert (1 + 0.05) / (luminance(colour) + 0.05) >= 3 and (luminance(colour) + 0.05) / 0.05 >= 3
    for heads in (1, 12):
        assert opacity(1.0, opening_strength(heads)) == 1 and opacity(0.0, opening_strength(heads)) == 0
    assert opacity(0.3) == pytest.approx(0.3)
    assert opacity(0.3, opening_strength(1)) == pytest.approx(0.3)
    assert opacity(0.3, opening_strength(12)) == pytest.approx(0.09)


def test_a_line_is_as_wide_as_in_bertvizs_head_view():
    script = metadata.distribution("bertviz").locate_file("bertviz/head_view.js").read_text(encoding="utf-8")
    width = re.search(r'append\("line"\).*?"stroke-width", ([\d.]+)', script, flags=re.DOTALL)[1]
    assert data_of(head_view(weights(), names(4)))["line"] == float(width)


# --- the model view


def test_panels_of_the_grid_are_those_of_bertviz():
    given = stacks()
    theirs = params(bertviz.model_view(**given, html_action="return").data)
    for own, their in zip(data_of(model_view(**given))["attention"], theirs, strict=True):
        assert all(own[key] == their[key] for key in ("name", "left_text", "right_text"))
        assert (drawn(own) - torch.tensor(their["attn"])).abs().max() <= HALF_A_LEVEL
    assert str(model_view(**given, include_heads=[1])).startswith("Model view: encoder 5 × 5, decoder 3 × 3,")


def test_model_view_holds_the_chosen_layers_and_heads():
    attention = weights(layers=3, heads=4)
    data = data_of(model_view(attention, names(4), sentence_b_start=1))
    assert [panel["name"].replace("> Sentence", ">") for panel in data["attention"]] == PARTS
    assert (drawn(data["attention"][0]) - torch.cat(attention).double()).abs().max() <= HALF_A_LEVEL
    assert (data["include_layers"], data["include_heads"]) == ([0, 1, 2], [0, 1, 2, 3])
    view = model_view(attention, names(4), include_layers=[2, 0, 2], include_heads=3)
    data = data_of(view)
    assert (data["include_layers"], data["include_heads"]) == ([2, 0], [3])
    expected = torch.cat(attention)[[2, 0]][:, [3]].double()
    assert (drawn(data["attention"][0]) - expected).abs().max() <= HALF_A_LEVEL
    assert str(view) == "Model view: 4 tokens, layers 2, 0, head 3"
    assert str(model_view(attention, names(4))) == "Model view: 4 tokens, all 3 layers, all 4 heads"


@pytest.mark.parametrize(("layers", "heads", "tokens"), [(6, 12, 20), (1, 1, 4), (2, 16, 60), (30, 9, 40)])
def test_grid_of_a_model_view_stands_on_one_screen(layers, heads, tokens):
    view = model_view(weights(layers, heads, tokens), names(tokens))
    assert view.height <= 930 and view.sheet.height <= 1000 and view.sheet.width <= 744


# --- long and deep


def causal(layers, heads, tokens):
    """Attention to earlier tokens alone."""
    torch.manual_seed(0)
    scores = torch.randn(1, heads, tokens, tokens).masked_fill(
        torch.ones(tokens, tokens).triu(1) == 1, -torch.inf
    )
    return [scores.softmax(-1)] * layers


def test_only_lines_that_are_seen_are_counted():
    assert model_view(causal(30, 9, 100), names(100)).text.startswith("Model view: 100 tokens")


def test_a_refusal_says_how_many_tokens_fit():
    attention = causal(40, 9, 110)
    with pytest.raises(ValueError, match=r"the first (\d+) tokens fit") as refused:
        model_view(attention, names(110))
    most = int(re.search(r"first (\d+) tokens", str(refused.value))[1])
    for count in (most, most + 1):
        cut = [layer[..., :count, :count] for layer in attention]
        if count == most:
            model_view(cut, names(count))
        else:
            with pytest.raises(ValueError, match="lines"):
                model_view(cut, names(count))


def test_layers_that_do_not_attend_keep_their_place():
    """A hybrid returns the attentions of some layers alone, or None for the others."""
    first, second = weights()
    named = head_view([first, second], T, layer_indices=[1, 3], layer=3, heads=[2])
    given = head_view([None, first, None, second], T, layer=3, heads=[2])
    assert named.html == given.html and str(named) == "Head view: 4 tokens, L3H2"
    data = data_of(model_view([first, second], T, layer_indices=[1, 3], include_layers=[3]))
    assert data["include_layers"] == [3]
    assert (drawn(data["attention"][0]) - second.double()).abs().max() <= HALF_A_LEVEL


# --- a drop-in for bertviz


def test_html_action_is_bertvizs():
    assert head_view(A, T, html_action="return").data == head_view(A, T).html
    assert head_view(A, T, None, True, None, None, None, None, None, None, None, None, "return").data


@pytest.mark.parametrize("make", [head_view, model_view])
def test_a_view_in_a_loop_is_displayed_where_it_is_asked_to_be(make, monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    for _ in range(2):
        assert make(A, T, html_action="view") is None
    assert len(shown) == 2 and shown[0].html


# --- the neuron view


def broken_bert():
    model = small_bert()
    model.encoder.layer[1].attention.self.key.weight.data[0] = torch.nan
    return model


def test_neuron_view_holds_the_numbers_of_bertvizs_page(bert):
    """bertviz has a BertModel of its own. With the same weights it must find the same vectors and weights."""
    tokenizer, model = bert
    config = transformers_neuron_view.BertConfig.from_dict(model.config.to_dict())
    theirs = transformers_neuron_view.BertModel(config)
    theirs.load_state_dict(model.state_dict(), strict=False)
    tokenizer.do_basic_tokenize = True
    page = bertviz_neuron_view.show(theirs.eval(), "bert", tokenizer, *SENTENCES, html_action="return").data
    view = neuron_view(model, tokenizer, *SENTENCES)
    panels, expected = data_of(view)["attention"], params(page)
    for own, their in zip(panels, ("all", "aa", "bb", "ab", "ba"), strict=True):
        assert all(own[key] == expected[their][key] for key in ("left_text", "right_text"))
    query, key = vectors(panels[0])
    assert (query - torch.tensor(expected["all"]["queries"])).abs().max() < 1e-4
    assert (key - torch.tensor(expected["all"]["keys"])).abs().max() < 1e-4
    weight = torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, -1)
    assert (weight - torch.tensor(expected["all"]["attn"])).abs().max() < 1e-5
    assert len(view.html) - LIBRARIES < len(page) / 10


LOADED = {
    "sdpa": (lambda: small_bert("sdpa"), 1e-6),
    "float64": (lambda: small_bert().double(), 1e-6),
    "bfloat16": (lambda: small_bert().bfloat16(), 0.05),
    "learner's encoder": (lambda: Encoder.from_bert(small_bert()), 1e-6),
    "fused": (lambda: use_fused_attention(Encoder.from_bert(small_bert())), 1e-6),
}


@pytest.mark.parametrize("kind", LOADED)
def test_neuron_view_takes_every_kind_of_loaded_model(kind):
    load, tolerance = LOADED[kind]
    views = (neuron_view(model, Words(), "w5 w6 w7") for model in (load(), small_bert()))
    found, expected = (torch.cat(vectors(data_of(view)["attention"][0])) for view in views)
    assert (found - expected).abs().max() < tolerance


def test_neuron_view_leaves_the_model_as_it_was():
    model = small_bert().train()
    model(**Words()("w5"), output_attentions=True)  # at the first call transformers adds hooks of its own
    model.encoder.layer[1].eval()
    parts = list(model.modules())
    before = [(list(part._forward_hooks), part.training) for part in parts]
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    first, again = (neuron_view(model, Words(), "w5 w6").html for _ in range(2))
    assert first == again  # dropout would make them differ
    assert [(list(part._forward_hooks), part.training) for part in parts] == before
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
    assert all(weight.grad is None for weight in model.parameters())


def test_neuron_view_says_what_it_shows_and_opens_with_the_token_that_is_given():
    view = neuron_view(small_bert(), Words(), "w5 w6 w7", layer=1, head=2, token=3)
    data = data_of(view)
    assert (data["layer"], data["head"], data["chosen"]) == (1, 2, 3)
    assert str(view) == "Neuron view: 5 tokens, L1H2, query 'w7' in the picture"
    view = neuron_view(small_bert(), Words(), "w5")
    assert data_of(view)["chosen"] is None and "query 'w5' in the picture" in str(view)


def test_neuron_view_holds_the_chosen_layers_and_heads():
    whole, some = (
        data_of(neuron_view(BERT, Words(), "w5 w6", **chosen))
        for chosen in ({}, {"include_layers": [2, 0], "include_heads": [3, 1]})
    )
    (panel,) = some["attention"]
    assert (panel["layers"], panel["heads"], some["layer"], some["head"]) == ([2, 0], [3, 1], 2, 3)
    query, key = vectors(panel)
    expected = vectors(whole["attention"][0])
    assert torch.equal(query, expected[0][[2, 0]][:, [3, 1]])
    assert torch.equal(key[:, panel["key_of"]], expected[1][[2, 0]][:, [3, 1]])


def test_indices_may_be_numbers_or_tensors_and_tokens_any_iterable():
    chosen = torch.tensor([[0.1, 0.5, 0.4]]).topk(2)
    view = head_view(weights(), map(str, range(4)), layer=chosen.indices[0, 1] - 1, heads=chosen.indices[0])
    data = data_of(view)
    assert (data["layer"], data["heads"], data["attention"][0]["left_text"]) == (1, [1, 2], list("0123"))
    assert data_of(head_view(weights(), names(4), heads=torch.tensor(2)))["heads"] == [2]


# --- the text view


def kept_weights(view):
    """The weights in a page of a text view, (layers, heads, query, key), those that are not kept as 0."""
    (panel,) = data_of(view)["attention"]
    layers, heads, tokens, _ = panel["shape"]
    kept = (
        torch.from_numpy(unpack(panel["levels"], "<u2").astype(float) / 4095).view(layers, heads, tokens, -1)
        ** 2
    )
    if "keys" not in panel:
        return kept
    keys = torch.from_numpy(unpack(panel["keys"], "<u2").astype(int)).view(kept.shape).cumsum(-1)
    return torch.zeros(panel["shape"], dtype=torch.float64).scatter_add(-1, keys, kept)


def test_text_view_keeps_every_weight_up_to_128_tokens():
    attention, tokens, _ = written(128)
    view = text_view(attention, tokens)
    assert (kept_weights(view) - torch.cat(attention).double()).abs().max() < HALF_A_LEVEL
    assert "remark" not in data_of(view) and data_of(view)["attention"][0]["causal"]


@pytest.mark.parametrize(("layers", "heads", "least"), [(1, 2, 64), (30, 9, 16)])
def test_of_a_long_text_the_strongest_keys_are_kept_and_their_share_is_said(layers, heads, least):
    attention, tokens, _ = written(400, 1, heads)
    view = text_view(attention * layers, tokens)
    found, expected = kept_weights(view)[0], attention[0][0].double()
    count = data_of(view)["attention"][0]["kept"]
    assert count >= least
    best = expected.topk(count)
    assert (found.topk(count).values - best.values).abs().max() < HALF_A_LEVEL
    assert ((found > 0).sum(-1) <= count).all()
    share = best.values.sum(-1).mean().item()
    assert data_of(view)["attention"][0]["share"] == pytest.approx(share, abs=0.001)
    assert f"{count} strongest of up to 400 keys, on average {share:.2f}" in data_of(view)["remark"]
    assert len(view.html.encode()) < 9_000_000


def test_text_view_says_how_surprising_tokens_were_and_what_would_have_come_next():
    attention, tokens, told = written()
    data = data_of(text_view(attention, tokens, 4, **told))
    log_probs = told["logits"][0].log_softmax(-1)
    for place, bits in enumerate(data["surprise"]):
        if place == 0:
            assert bits is None
        else:
            was = log_probs[place - 1, told["input_ids"][0, place]]
            assert bits == pytest.approx(-was.item() / 0.6931, abs=0.01)
        best = log_probs[place].exp().topk(5)
        assert [text for text, _ in data["nexts"][place]] == [f"word{i}" for i in best.indices.tolist()]
        assert [share for _, share in data["nexts"][place]] == pytest.approx(best.values.tolist(), abs=1e-4)
    same = {**told, "logits": None, "probabilities": told["logits"][0].softmax(-1)}
    assert data_of(text_view(attention, tokens, 4, **same))["nexts"] == data["nexts"]
    assert data["prompt_length"] == 4


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (["<s>", "Ġthe", "Ġca", "t", ".", "Ċ"], ["<s>", " the", " ca", "t", ".", "⏎\n"]),
        (["[CLS]", "un", "##do", "it"], ["[CLS]", " un", "do", " it"]),
        (["▁The", "▁end"], [" The", " end"]),
    ],
)
def test_tokens_stand_as_in_a_text(tokens, text):
    view = text_view(weights(tokens=len(tokens)), tokens)
    assert data_of(view)["attention"][0]["text"] == text


# --- what is refused

A, T, BERT = weights(), names(4), small_bert()
ENCODER, DECODER, CROSS = (f"{name}_attention" for name in ("encoder", "decoder", "cross"))
THREE_OF_SIX = {"encoder_attention": None, "encoder_tokens": names(6)}


def same(number, *shape):
    return [torch.full((1, *shape), number)]


def of_stacks(**changes):
    return head_view(**stacks() | changes)


def of_bert(*texts, **choice):
    return neuron_view(BERT, Words(), *texts, **choice)


def attend():
    """What PyTorch's layer returns as its weights: the mean of its heads."""
    return torch.nn.MultiheadAttention(6, 3, batch_first=True)(*[torch.ones(1, 4, 6)] * 3)[1]


class Untyped(Words):
    def __call__(self, *texts, return_tensors):
        return {"input_ids": super().__call__(*texts)["input_ids"]}


def of_text(**changes):
    attention, tokens, told = written()
    return text_view(attention, tokens, **told | changes)


def longformer():
    """Weights by distance, with a window of 4 on 5 tokens: column j of row i is key i + j - 2."""
    key = torch.arange(5)[:, None] + torch.arange(5) - 2
    return [torch.ones(1, 2, 5, 5).masked_fill((key < 0) | (key > 4), -torch.inf).softmax(-1)]


REFUSED = [
    ("no arguments", lambda: head_view(), ValueError, "eager"),
    ("no layers", lambda: head_view((), T), ValueError, "eager"),
    ("layers of None", lambda: head_view((None, None), T), ValueError, "eager"),
    ("not tensors", lambda: head_view([[1.0]], names(1)), TypeError, "outputs.attentions"),
    ("three axes", lambda: head_view([one[0] for one in A], T), ValueError, r"\(3, 4, 4\)"),
    (
        "unequal layers",
        lambda: head_view(A + weights(heads=2), T),
        ValueError,
        r"\(1, 3, 4, 4\).*\(1, 2, 4, 4\)",
    ),
    ("a batch", lambda: head_view(weights(batch=2), T), ValueError, r"batch of 2.*layer\[:1\]"),
    ("NaN", lambda: head_view(same(torch.nan, 1, 2, 2), T[:2]), ValueError, "attention holds.*0 to 1"),
    ("scores", lambda: head_view(same(3.0, 1, 2, 2), T[:2]), ValueError, "0 to 1"),
    ("above 1", lambda: head_view(same(1.002, 1, 2, 2), T[:2]), ValueError, "0 to 1"),
    ("below 0", lambda: head_view(same(-0.002, 1, 2, 2), T[:2]), ValueError, "0 to 1"),
    ("generate()", lambda: head_view([A, A], T), TypeError, "2 steps, as generate"),
    (
        "a step",
        lambda: head_view([one[:, :, :1] for one in A], T),
        ValueError,
        r"1 query.*step of generate\(\)",
    ),
    ("complex numbers", lambda: head_view([one + 0j for one in A], T), TypeError, "real numbers"),
    ("a set of tokens", lambda: head_view(A, {*T}), TypeError, "attention needs tokens"),
    (
        "heads as truths",
        lambda: head_view(A, T, heads=torch.tensor([True] * 3)),
        TypeError,
        r"heads.*tensor\(True",
    ),
    ("a layer", lambda: head_view(A[0], T), TypeError, r"\(1, 3, 4, 4\).*pass \[attn_weights\]"),
    (
        "MultiheadAttention",
        lambda: head_view(attend(), T),
        TypeError,
        r"\(1, 4, 4\).*average_attn_weights=False",
    ),
    ("its weights", lambda: head_view([attend()], T), ValueError, r"\(1, 4, 4\).*average_attn_weights=False"),
    ("a matrix", lambda: head_view([A[0][0, 0]], T), ValueError, r"\(4, 4\).*outputs.attentions"),
    ("an image", lambda: head_view(A, None), TypeError, "patches of an image"),
    ("layer left out", lambda: head_view(A, T, layer=0, include_layers=[1]), ValueError, "0 is not among.*1"),
    ("no tokens", lambda: head_view(A), TypeError, "attention needs tokens"),
    ("a text for tokens", lambda: head_view(A, "abcd"), TypeError, "attention needs tokens"),
    ("ids for tokens", lambda: head_view(A, [1, 2, 3, 4]), TypeError, "convert_ids_to_tokens"),
    ("one id for a token", lambda: head_view(A, ["a", "b", "c", 4]), TypeError, "convert_ids_to_tokens"),
    ("a token too many", lambda: head_view(A, names(5)), ValueError, "4 query and 4 key.*5 tokens"),
    ("too many tokens", lambda: head_view(same(0.0, 1, 257, 257), names(257)), ValueError, "257 .*256"),
    ("layer 2 of 2", lambda: head_view(A, T, layer=2), ValueError, "index 2.*2 layers.*0 to 1"),
    ("layer -1", lambda: head_view(A, T, layer=-1), ValueError, "index -1.*0 to 1"),
    ("layer '1'", lambda: head_view(A, T, layer="1"), TypeError, "layer.*'1'"),
    ("layer True", lambda: head_view(A, T, layer=True), TypeError, "layer.*True"),
    ("layer 1.7 in a tensor", lambda: head_view(A, T, layer=torch.tensor(1.7)), TypeError, r"tensor\(1\.7"),
    ("heads that are a number", lambda: head_view(A, T, heads=1.5), TypeError, r"heads.*1\.5"),
    ("layers in a generator", lambda: head_view((one for one in A), T), TypeError, "the type generator"),
    ("nothing to draw", lambda: head_view([torch.zeros(1, 0, 4, 4)], T), ValueError, r"\(1, 0, 4, 4\)"),
    ("head 3 of 3", lambda: head_view(A, T, heads=[3]), ValueError, "index 3.*3 heads.*0 to 2"),
    ("no heads", lambda: head_view(A, T, heads=[]), ValueError, "heads"),
    ("B at 0", lambda: head_view(A, T, sentence_b_start=0), ValueError, "is 0.*1 and 3"),
    ("B past the end", lambda: head_view(A, T, sentence_b_start=4), ValueError, "is 4.*1 and 3"),
    ("B at 1.5", lambda: head_view(A, T, sentence_b_start=1.5), TypeError, r"1\.5"),
    ("B at True", lambda: head_view(A, T, sentence_b_start=True), TypeError, "True"),
    ("a mode", lambda: head_view(A, T, display_mode="Dark"), ValueError, "'Dark'"),
    ("cross attention alone", lambda: head_view(stacks()[CROSS], names(5)), ValueError, "3 query and 5 key"),
    ("two kinds", lambda: of_stacks(attention=A, tokens=T), ValueError, f"attention, tokens is.*{CROSS}"),
    ("B of a decoder", lambda: of_stacks(sentence_b_start=1), ValueError, "sentence_b_start is"),
    ("tokens alone", lambda: head_view(encoder_tokens=T, decoder_tokens=T), ValueError, "eager"),
    ("empty cross attention", lambda: of_stacks(**{CROSS: ()}), ValueError, "eager"),
    ("no source", lambda: of_stacks(encoder_tokens=None), TypeError, f"{ENCODER} needs encoder_tokens"),
    ("no target", lambda: of_stacks(decoder_tokens=None), TypeError, f"{DECODER} needs decoder_tokens"),
    ("unequal lengths", lambda: of_stacks(**THREE_OF_SIX), ValueError, f"{CROSS} has 3 .* 5 .*3 dec.* 6 enc"),
    ("grid of two kinds", lambda: model_view(A, T, **stacks()), ValueError, f"attention, tokens is.*{CROSS}"),
    (
        "unequal depths",
        lambda: of_stacks(**{DECODER: weights(1, 3, 3)}),
        ValueError,
        r"\(2, 3\).*\(1, 3\).*deep",
    ),
    ("unequal heads", lambda: of_stacks(**{CROSS: weights(2, 4, 3, 5)}), ValueError, r"\(2, 3\).*\(2, 4\)"),
    ("cross scores", lambda: of_stacks(**{CROSS: same(9.0, 3, 3, 5) * 2}), ValueError, f"{CROSS} .*0 to 1"),
    (
        "513 tokens",
        lambda: text_view([torch.eye(513)[None, None]], names(513)),
        ValueError,
        "513 .*at most 512",
    ),
    (
        "two predictions",
        lambda: of_text(probabilities=torch.ones(9, 20)),
        ValueError,
        "logits or probabilities",
    ),
    ("a short prediction", lambda: of_text(logits=torch.ones(8, 20)), ValueError, r"\(8, 20\).*9 tokens"),
    ("no ids", lambda: of_text(input_ids=None), ValueError, "give input_ids"),
    ("no vocabulary", lambda: of_text(vocabulary=None), ValueError, "give vocabulary"),
    (
        "no probabilities",
        lambda: of_text(logits=None, probabilities=torch.ones(9, 20)),
        ValueError,
        "add up to 1",
    ),
    ("a long prompt", lambda: of_text(prompt_length=9), ValueError, "prompt_length"),
    ("model view: no layers", lambda: model_view((), T), ValueError, "eager"),
    ("model view: layer 2", lambda: model_view(A, T, include_layers=[0, 2]), ValueError, "layers: index 2"),
    ("model view: no heads", lambda: model_view(A, T, include_heads=[]), ValueError, "include_heads"),
    ("model view: B", lambda: model_view(A, T, 4), ValueError, "is 4.*1 and 3"),
    (
        "many lines",
        lambda: model_view(same(0.1, 20, 100, 100) * 9, names(100)),
        ValueError,
        "1,800,000 .*1,500,000",
    ),
    (
        "layer indices",
        lambda: head_view(A, T, layer_indices=[1]),
        ValueError,
        r"layer_indices is \[1\].*2 layers",
    ),
    ("layer indices twice", lambda: head_view(A, T, layer_indices=[1, 1]), ValueError, "ascending"),
    (
        "a missing layer",
        lambda: head_view(A, T, layer=0, layer_indices=[1, 3]),
        ValueError,
        "0 .*layers 1, 3 alone",
    ),
    ("offsets", lambda: head_view(longformer(), names(5)), ValueError, "each distance.*Longformer"),
    ("html_action", lambda: head_view(A, T, html_action="show"), ValueError, '"view", "return".*\'show\''),
    (
        "bertviz's order",
        lambda: neuron_view(BERT, "bert", Words(), "w5"),
        TypeError,
        "'bert'.*finds it by itself",
    ),
    ("neuron view: a name", lambda: neuron_view("bert", Words(), "w5"), TypeError, "not str"),
    (
        "no attention",
        lambda: neuron_view(BERT.pooler, inputs={"hidden_states": torch.zeros(1, 4, 24)}, tokens=T),
        TypeError,
        "BertPooler .*no attention",
    ),
    ("NaN in the model", lambda: neuron_view(broken_bert(), Words(), "w5"), ValueError, "NaN"),
    (
        "B without a type",
        lambda: neuron_view(BERT, Untyped(), "w5", "w6"),
        ValueError,
        "where sentence B begins",
    ),
    ("an empty text", lambda: of_bert(" "), ValueError, "sentence_a"),
    ("an empty B", lambda: of_bert("w5", ""), ValueError, "sentence_b"),
    ("a list of texts", lambda: of_bert(["w5"]), TypeError, "sentence_a is a list.*one text"),
    ("None for a text", lambda: of_bert(None), TypeError, "sentence_a.*NoneType"),
    ("a list for B", lambda: of_bert("w5", ["w5"]), TypeError, "sentence_b.*list"),
    ("a long text", lambda: of_bert("w5 " * 127), ValueError, "129 tokens.*128"),
    ("head 4 of 4", lambda: of_bert("w5", head=4), ValueError, "head: index 4.*4 heads.*0 to 3"),
    ("token 3 of 3", lambda: of_bert("w5", token=3), ValueError, "token: index 3.*text has 3 tokens.*0 to 2"),
]


@pytest.mark.parametrize(("what", "call", "error", "fact"), REFUSED, ids=[row[0] for row in REFUSED])
def test_what_cannot_be_drawn_is_refused(what, call, error, fact):
    with pytest.raises(error, match=fact):
        call()


@pytest.mark.filterwarnings("ignore:256 tokens")
def test_as_many_are_drawn_as_the_refusals_say():
    model_view(same(0.1, 20, 100, 100) * 9, names(100), include_heads=range(16))
    head_view(same(0.0, 1, 256, 256), names(256))
    of_bert("w5 " * 126)
