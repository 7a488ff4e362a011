"""The views room: pages that draw what the tensor holds, and refuse what they cannot draw."""

import base64
import io
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import bertviz
import pytest
import torch
from PIL import Image
from transformers import BertConfig, BertModel
from view_samples import HOSTILE

from utils.encoder import Encoder
from utils.views import head_view, model_view, neuron_view
from utils.views.page import _library

ROOT = Path(__file__).parent.parent


def weights(layers=2, heads=3, tokens=4, batch=1, dtype=torch.float32):
    torch.manual_seed(0)
    return [torch.softmax(torch.randn(batch, heads, tokens, tokens), dim=-1).to(dtype) for _ in range(layers)]


def names(count):
    return [f"token{i}" for i in range(count)]


def data_of(view):
    """The data that the page hands to bertviz, as JSON."""
    return json.loads(re.search(r"^const view = (.*);$", view.html, flags=re.MULTILINE)[1])


def drawn(panel):
    layers, heads, query, key = panel["shape"]
    levels = torch.tensor(list(base64.b64decode(panel["weights"])), dtype=torch.float64)
    return levels.reshape(layers, heads, query, key) / 255


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_page_holds_the_weights_within_half_a_level(dtype):
    attention = weights(dtype=dtype)
    panel = data_of(head_view(attention, names(4)))["attention"][0]
    assert (drawn(panel) - torch.cat(attention).double()).abs().max() <= 0.5 / 255 + 1e-12


def test_weights_with_a_gradient_are_drawn():
    attention = [layer.requires_grad_() for layer in weights()]
    assert data_of(head_view(attention, names(4)))["attention"][0]["shape"] == [2, 3, 4, 4]


def test_page_is_small_beside_bertviz(bert_attention):
    attention, tokens = bert_attention
    assert (len(tokens), len(attention) * attention[0].shape[1]) == (20, 72)
    page = len(head_view(attention, tokens).html.encode())
    jquery = _library("XStatic-jQuery", "xstatic/pkg/jquery/data/jquery.min.js")
    d3 = _library("mpld3", "mpld3/js/d3.v5.min.js")
    assert jquery in head_view(attention, tokens).html and d3 in head_view(attention, tokens).html
    theirs = len(bertviz.head_view(attention, tokens, html_action="return").data.encode())
    assert page < 400_000
    assert page - len((jquery + d3).encode()) <= theirs / 20


def test_page_asks_nothing_from_outside():
    page = head_view(weights(), names(4), sentence_b_start=2).html
    assert not re.search(r"<(script|link|img|iframe)[^>]*\b(src|href)=", page)
    assert "cdnjs" not in page and "@import" not in page


def test_same_input_gives_the_same_bytes_in_every_process():
    code = (
        "import torch; from utils.views import head_view\n"
        "view = head_view([torch.full((1, 2, 3, 3), 1 / 3)], ['a', 'b', 'c'], sentence_b_start=1)\n"
        "print(view.html, view._repr_mimebundle_())"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT) for _ in range(2)]
    assert len(runs[0].stdout) > 300_000
    assert runs[0].stdout == runs[1].stdout


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)


def tags(page):
    parser = Tags()
    parser.feed(page)
    return parser.seen


@pytest.mark.parametrize("token", HOSTILE)
def test_text_of_a_token_never_becomes_markup(token, monkeypatch):
    monkeypatch.delenv("COURSE_STATIC_VIEWS", raising=False)
    tame, wild = (head_view(weights(), [text, "b", "c", "d"], sentence_b_start=2) for text in ("a", token))
    assert tags(wild.html) == tags(tame.html)
    shown = [view._repr_mimebundle_()[0]["text/html"] for view in (wild, tame)]
    assert tags(shown[0]) == tags(shown[1]) == ["div", "img", "iframe"]
    assert data_of(wild)["attention"][0]["left_text"][0] == token  # nothing lost on the way
    assert len(wild.png) > 1000  # the twin can draw it too


def test_pair_has_its_five_panels():
    panels = data_of(head_view(weights(), names(4), sentence_b_start=1))["attention"]
    assert [panel["name"] for panel in panels] == [
        "All",
        "Sentence A -> Sentence A",
        "Sentence B -> Sentence B",
        "Sentence A -> Sentence B",
        "Sentence B -> Sentence A",
    ]
    b_to_a = panels[4]
    assert b_to_a["left_text"] == ["token1", "token2", "token3"] and b_to_a["right_text"] == ["token0"]
    assert (b_to_a["rows"], b_to_a["columns"]) == ([1, 4], [0, 1])


def test_chosen_layer_and_heads_are_shown_first():
    view = head_view(weights(), names(4), layer=1, heads=[2])
    assert (data_of(view)["layer"], data_of(view)["heads"]) == (1, [2])
    assert str(view) == "Head view: 4 tokens, layer 2 of 2 (index 1), heads of index 2"


def test_twin_draws_the_lines_of_the_chosen_layer_and_heads():
    attention = weights()
    figure = head_view(attention, names(4), layer=1, heads=[0, 2]).draw()
    collections = figure.axes[0].collections
    assert len(collections) == 2
    for head, lines in zip([0, 2], collections, strict=True):
        expected = attention[1][0, head]
        for segment, opacity in zip(lines.get_segments(), lines.get_colors()[:, 3], strict=True):
            query, key = int(segment[0][1]), int(segment[1][1])
            assert opacity == pytest.approx(expected[query, key].item() / 2, abs=1e-6)
        assert len(lines.get_segments()) == 16


def test_twin_is_a_picture_of_every_token():
    images = [Image.open(io.BytesIO(head_view(weights(tokens=n), names(n)).png)) for n in (4, 8)]
    assert images[1].height - images[0].height == pytest.approx(4 * 45, abs=2)  # 22.5 pixels a token, doubled
    assert images[0].getpixel((0, 0)) == images[0].getpixel((699, 0))


def test_notebook_gets_page_picture_and_text(monkeypatch):
    view = head_view(weights(), names(4))
    monkeypatch.delenv("COURSE_STATIC_VIEWS", raising=False)
    live, metadata = view._repr_mimebundle_()
    assert set(live) == {"text/html", "image/png", "text/plain"}
    assert base64.b64decode(live["image/png"]) == view.png
    assert metadata["image/png"]["width"] == 350
    assert 'sandbox="allow-scripts"' in live["text/html"] and 'title="Head view' in live["text/html"]
    monkeypatch.setenv("COURSE_STATIC_VIEWS", "1")
    assert set(view._repr_mimebundle_()[0]) == {"image/png", "text/plain"}


def test_save_writes_the_page(tmp_path):
    view = head_view(weights(), ["é", "中", "c", "d"])
    path = view.save(tmp_path / "view.html")
    assert path.read_text(encoding="utf-8") == view.html


def stacks(layers=2, heads=3, source=5, target=3):
    """The arguments of a head view for an encoder-decoder."""
    torch.manual_seed(1)
    sizes = {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}
    attention = {
        f"{name}_attention": [torch.rand(1, heads, *size).softmax(-1) for _ in range(layers)]
        for name, size in sizes.items()
    }
    tokens = {"encoder_tokens": [f"in{i}" for i in range(source)]}
    return attention | tokens | {"decoder_tokens": [f"out{i}" for i in range(target)]}


def test_encoder_decoder_has_its_three_panels():
    given = stacks()
    panels = data_of(head_view(**given))["attention"]
    assert [panel["name"] for panel in panels] == ["Encoder", "Decoder", "Cross"]
    sides = {
        "Encoder": ("encoder", "encoder"),
        "Decoder": ("decoder", "decoder"),
        "Cross": ("decoder", "encoder"),
    }
    for panel in panels:
        left, right = sides[panel["name"]]
        assert panel["left_text"] == given[f"{left}_tokens"]
        assert panel["right_text"] == given[f"{right}_tokens"]
        expected = torch.cat(given[f"{panel['name'].lower()}_attention"]).double()
        assert drawn(panel).shape == expected.shape
        assert (drawn(panel) - expected).abs().max() <= 0.5 / 255 + 1e-12


def test_panels_are_those_of_bertviz():
    given = stacks()
    page = bertviz.head_view(**given, html_action="return").data
    theirs = json.loads(re.search(r"const params = (\{.*?\}); // HACK", page)[1])["attention"]
    for own, their in zip(data_of(head_view(**given))["attention"], theirs, strict=True):
        assert [own[key] for key in ("name", "left_text", "right_text")] == [
            their[key] for key in ("name", "left_text", "right_text")
        ]
        assert (drawn(own) - torch.tensor(their["attn"])).abs().max() < 0.002


def test_menu_offers_the_panels_that_are_given():
    given = stacks()
    menu = (
        '<option value="0">Encoder</option><option value="1">Decoder</option><option value="2">Cross</option>'
    )
    assert menu in head_view(**given).html
    cross = {name: given[name] for name in ("cross_attention", "encoder_tokens", "decoder_tokens")}
    view = head_view(**cross, layer=1, heads=[0, 2])
    assert [panel["name"] for panel in data_of(view)["attention"]] == ["Cross"]
    assert 'id="filter"' in head_view(**given).html and 'id="filter"' not in view.html
    assert (data_of(view)["layer"], data_of(view)["heads"]) == (1, [0, 2])
    assert str(view) == "Head view: cross 3 × 5 tokens, layer 2 of 2 (index 1), heads of index 0, 2"


def test_page_is_as_high_as_its_longest_list():
    assert head_view(**stacks(source=9)).height == head_view(weights(tokens=9), names(9)).height
    assert head_view(**stacks(source=2, target=9)).height == head_view(weights(tokens=9), names(9)).height


def test_twin_draws_all_panels_side_by_side():
    given = stacks()
    view = head_view(**given, layer=1, heads=[2])
    axes = view.draw().axes
    assert Image.open(io.BytesIO(view.png)).width == 3 * 700
    assert [ax.get_position().x0 for ax in axes] == pytest.approx([0, 1 / 3, 2 / 3])
    for ax, name in zip(axes, ("encoder", "decoder", "cross"), strict=True):
        expected = given[f"{name}_attention"][1][0, 2]
        (lines,) = ax.collections
        found = torch.zeros_like(expected)
        for segment, opacity in zip(lines.get_segments(), lines.get_colors()[:, 3], strict=True):
            found[int(segment[0][1]), int(segment[1][1])] = opacity
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
        texts = [text.get_text() for text in ax.texts]
        assert name.title() in texts
        queries, keys = expected.shape
        left, right = ("in" if name == "encoder" else "out"), ("out" if name == "decoder" else "in")
        at = {(text.get_position()[0], text.get_position()[1]): text.get_text() for text in ax.texts}
        assert [at[108, i] for i in range(queries)] == [f"{left}{i}" for i in range(queries)]
        assert [at[242, i] for i in range(keys)] == [f"{right}{i}" for i in range(keys)]


def test_long_encoder_warns_once():
    given = stacks(source=129)
    with pytest.warns(UserWarning, match="129 tokens make 16,641 lines") as warned:
        head_view(**given)
    assert len(warned) == 1 and warned[0].filename == __file__


# --- the model view ---------------------------------------------------------------------------------------------


def test_model_view_holds_every_head():
    attention = weights(layers=3, heads=4)
    data = data_of(model_view(attention, names(4), sentence_b_start=1))
    assert (drawn(data["attention"][0]) - torch.cat(attention).double()).abs().max() <= 0.5 / 255 + 1e-12
    assert [panel["name"] for panel in data["attention"]][3] == "Sentence A -> Sentence B"
    assert (data["include_layers"], data["include_heads"]) == ([0, 1, 2], [0, 1, 2, 3])


def test_model_view_narrowed_to_some_layers_and_heads():
    attention = weights(layers=3, heads=4)
    view = model_view(attention, names(4), include_layers=[2, 0, 2], include_heads=3)
    data = data_of(view)
    assert (data["include_layers"], data["include_heads"]) == ([2, 0], [3])
    expected = torch.cat(attention)[[2, 0]][:, [3]].double()
    assert (drawn(data["attention"][0]) - expected).abs().max() <= 0.5 / 255 + 1e-12
    assert str(view) == "Model view: 4 tokens, layers of index 2, 0, heads of index 3"
    assert str(model_view(attention, names(4))) == "Model view: 4 tokens, all 3 layers, all 4 heads"


def test_twin_of_the_model_view_draws_every_head():
    attention = weights(layers=2, heads=3)
    (axes,) = model_view(attention, names(4), include_heads=[0, 2]).draw().axes
    grids = iter(axes.collections)
    for layer in attention:
        for head in (0, 2):
            lines, expected = next(grids), layer[0, head]
            expected = expected[expected > 0.03]
            assert lines.get_colors()[:, 3] == pytest.approx(expected.tolist(), abs=1e-6)
            starts, ends = zip(*lines.get_segments(), strict=True)
            assert len(starts) == len(ends) == len(expected)
    assert next(grids, None) is None
    assert {"0", "2", "1", "head (index)"} <= {text.get_text() for text in axes.texts}


def test_model_view_is_small_beside_bertviz(bert_attention):
    attention, tokens = bert_attention
    page = len(model_view(attention, tokens).html.encode())
    theirs = len(bertviz.model_view(attention, tokens, html_action="return").data.encode())
    assert page < 400_000 and theirs > 1_000_000


# --- the neuron view --------------------------------------------------------------------------------------------


class Words:
    """A tokenizer of the words w1, w2, ...: [CLS] is 0, [SEP] is 1."""

    def __call__(self, first, second=None, return_tensors=None):
        parts = [[0, *(int(word[1:]) for word in text.split()), 1] for text in (first, second) if text]
        ids = [*parts[0], *(parts[1][1:] if len(parts) > 1 else [])]
        types = [0] * len(parts[0]) + [1] * (len(ids) - len(parts[0]))
        return {"input_ids": torch.tensor([ids]), "token_type_ids": torch.tensor([types])}

    def convert_ids_to_tokens(self, ids):
        return [f"w{i}" for i in ids]


def small_bert(attention="eager", **others):
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4}
    config = BertConfig(**sizes, intermediate_size=32, attn_implementation=attention, **others)
    return BertModel(config).eval()


class OnlyEmbeddings(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = torch.nn.Embedding(50, 24)

    def forward(self, input_ids, token_type_ids=None):
        return self.embeddings(input_ids)


def relative_encoder():
    torch.manual_seed(0)
    encoder = Encoder(small_bert().config, positions="relative")
    with torch.no_grad():
        for name, weight in encoder.named_parameters():
            if "attention" in name:
                weight.add_(torch.randn_like(weight))
    return encoder


def broken_bert():
    model = small_bert()
    with torch.no_grad():
        model.encoder.layer[1].attention.self.key.weight[0] = torch.nan
    return model


def floats(text, shape):
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.float32).view(shape)


def test_neuron_view_holds_the_vectors_and_tokens_that_bertviz_computes():
    """bertviz has a BertModel of its own. With the same weights it must find the same vectors and weights."""
    from bertviz.transformers_neuron_view import BertConfig as TheirConfig
    from bertviz.transformers_neuron_view import BertModel as TheirModel

    model, inputs = small_bert(), Words()("w5 w6", "w7 w8 w9")
    theirs = TheirModel(TheirConfig.from_dict(model.config.to_dict())).eval()
    theirs.load_state_dict(model.state_dict(), strict=False)
    with torch.no_grad():
        layers = theirs(inputs["input_ids"], token_type_ids=inputs["token_type_ids"])[-1]
    data = data_of(neuron_view(model, Words(), "w5 w6", "w7 w8 w9"))
    whole = data["attention"][0]
    query, key = floats(whole["queries"], whole["shape"]), floats(whole["keys"], whole["shape"])
    for number, layer in enumerate(layers):
        assert (query[number] - layer["queries"][0]).abs().max() < 1e-6
        assert (key[number] - layer["keys"][0]).abs().max() < 1e-6
        scores = query[number] @ key[number].transpose(-2, -1) / 6**0.5
        assert (torch.softmax(scores, -1) - layer["attn"][0]).abs().max() < 1e-6
    assert whole["left_text"] == ["w0", "w5", "w6", "w1", "w7", "w8", "w9", "w1"]
    assert [(panel["rows"], panel["columns"]) for panel in data["attention"][3:]] == [
        ([0, 4], [4, 8]),
        ([4, 8], [0, 4]),
    ]


@pytest.mark.parametrize("kind", ["sdpa", "the learner's encoder", "bfloat16", "float64"])
def test_neuron_view_takes_every_kind_of_loaded_model(kind):
    eager = small_bert()
    model = {
        "sdpa": lambda: small_bert("sdpa"),
        "the learner's encoder": lambda: Encoder.from_bert(eager),
        "bfloat16": lambda: small_bert().bfloat16(),
        "float64": lambda: small_bert().double(),
    }[kind]()
    found, expected = (
        data_of(neuron_view(one, Words(), "w5 w6 w7"))["attention"][0] for one in (model, eager)
    )
    for name in ("queries", "keys"):
        apart = floats(found[name], found["shape"]) - floats(expected[name], expected["shape"])
        assert apart.abs().max() < (0.05 if kind == "bfloat16" else 1e-6)


def test_neuron_view_leaves_the_model_as_it_was():
    model = small_bert().train()
    model(**Words()("w5"), output_attentions=True)  # at the first call transformers adds hooks of its own
    hooks = [list(part._forward_hooks) for part in model.modules()]
    model.encoder.layer[1].eval()
    modes = [part.training for part in model.modules()]
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    first, again = (neuron_view(model, Words(), "w5 w6").html for _ in range(2))
    assert first == again  # dropout would make them differ
    assert [part.training for part in model.modules()] == modes
    assert [list(part._forward_hooks) for part in model.modules()] == hooks
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert all(weight.grad is None for weight in model.parameters())


def test_twin_of_the_neuron_view_shows_the_chosen_token():
    model = small_bert()
    with torch.no_grad():
        weight = model(**Words()("w5 w6 w7"), output_attentions=True).attentions[1][0, 2, 3]
    view = neuron_view(model, Words(), "w5 w6 w7", layer=1, head=2, token=3)
    (axes,) = view.draw().axes
    texts = [text.get_text() for text in axes.texts]
    assert {f"{number:.2f}" for number in weight.tolist()} <= set(texts)
    assert {"query q", "key k", "q·k / √d", "softmax"} <= set(texts) and texts.count("w7") == 2
    assert len(axes.images) == 3 * 5 + 1  # key, product and score of each token, and the one query
    assert str(view) == (
        "Neuron view: 5 tokens, layer 2 of 3 (index 1), head 3 of 4 (index 2), query 'w7' (index 3) in the picture"
    )
    assert data_of(view)["chosen"] == 3 and data_of(neuron_view(model, Words(), "w5"))["chosen"] is None


def test_neuron_view_is_small_beside_bertviz(bert):
    from bertviz.neuron_view import show
    from bertviz.transformers_neuron_view import BertConfig as TheirConfig
    from bertviz.transformers_neuron_view import BertModel as TheirModel

    tokenizer, model = bert
    theirs = TheirModel(TheirConfig.from_dict(model.config.to_dict())).eval()
    theirs.load_state_dict(model.state_dict(), strict=False)
    tokenizer.do_basic_tokenize = True
    page = show(theirs, "bert", tokenizer, "leaves fall", "autumn is colorful", html_action="return").data
    own = neuron_view(model, tokenizer, "leaves fall", "autumn is colorful").html
    libraries = 325_000  # d3 and jQuery, which bertviz's page fetches from a server
    assert (len(own) - libraries) / len(page) < 0.1


REFUSED = {
    "model view without weights": (
        lambda: model_view((), names(4)),
        ['attn_implementation="eager"'],
    ),
    "model view of a layer that is not there": (
        lambda: model_view(weights(), names(4), include_layers=[0, 2]),
        ["include_layers: index 2", "2 layers", "0 to 1"],
    ),
    "model view of no heads": (
        lambda: model_view(weights(), names(4), include_heads=[]),
        ["include_heads is empty"],
    ),
    "model view, B past the end": (lambda: model_view(weights(), names(4), 4), ["is 4", "between 1 and 3"]),
    "model view with too many lines": (
        lambda: model_view([torch.full((1, 12, 100, 100), 0.01)] * 6, names(100)),
        ["720,000 lines", "include_layers"],
    ),
    "a mode that is not there": (
        lambda: head_view(weights(), names(4), display_mode="Dark"),
        ['"light" or "dark"', "'Dark'"],
    ),
    "neuron view of a name": (
        lambda: neuron_view("bert-base-uncased", Words(), "w5"),
        ["loaded model", "not str"],
    ),
    "neuron view of a model without queries": (
        lambda: neuron_view(OnlyEmbeddings(), Words(), "w5"),
        ["named query and key", "OnlyEmbeddings"],
    ),
    "neuron view with relative positions": (
        lambda: neuron_view(relative_encoder(), Words(), "w5 w6 w7"),
        ["differ from softmax", "relative positions"],
    ),
    "neuron view of weights that are NaN": (
        lambda: neuron_view(broken_bert(), Words(), "w5"),
        ["NaN or infinity"],
    ),
    "neuron view of an empty text": (
        lambda: neuron_view(small_bert(), Words(), " "),
        ["sentence_a is empty"],
    ),
    "neuron view with an empty B": (
        lambda: neuron_view(small_bert(), Words(), "w5", ""),
        ["sentence_b is empty"],
    ),
    "neuron view of a list": (lambda: neuron_view(small_bert(), Words(), ["w5"]), ["sentence_a", "not list"]),
    "neuron view of a long text": (
        lambda: neuron_view(small_bert(), Words(), "w5 " * 127),
        ["129 tokens", "at most 128"],
    ),
    "neuron view of a head that is not there": (
        lambda: neuron_view(small_bert(), Words(), "w5", head=4),
        ["head: index 4", "4 heads", "0 to 3"],
    ),
    "neuron view of a token that is not there": (
        lambda: neuron_view(small_bert(), Words(), "w5", token=3),
        ["token: index 3", "The text has 3 tokens", "0 to 2"],
    ),
    "no weights": (lambda: head_view((), names(4)), ['attn_implementation="eager"']),
    "none": (lambda: head_view(None, names(4)), ['attn_implementation="eager"']),
    "layers of none": (lambda: head_view((None, None), names(4)), ['attn_implementation="eager"']),
    "batch of two": (lambda: head_view(weights(batch=2), names(4)), ["batch of 2", "layer[:1]"]),
    "token count": (lambda: head_view(weights(), names(5)), ["4 query", "5 tokens"]),
    "three axes": (
        lambda: head_view([w[0] for w in weights()], names(4)),
        ["(3, 4, 4)", "(1, heads, query, key)"],
    ),
    "unequal layers": (
        lambda: head_view(weights() + weights(heads=2), names(4)),
        ["(1, 3, 4, 4)", "(1, 2, 4, 4)"],
    ),
    "not tensors": (lambda: head_view([[1.0]], names(1)), ["outputs.attentions"]),
    "layer too high": (lambda: head_view(weights(), names(4), layer=2), ["index 2", "2 layers", "0 to 1"]),
    "layer negative": (lambda: head_view(weights(), names(4), layer=-1), ["index -1", "0 to 1"]),
    "layer not whole": (lambda: head_view(weights(), names(4), layer="1"), ["layer", "'1'"]),
    "head too high": (lambda: head_view(weights(), names(4), heads=[3]), ["index 3", "3 heads", "0 to 2"]),
    "no heads": (lambda: head_view(weights(), names(4), heads=[]), ["empty"]),
    "B at 0": (lambda: head_view(weights(), names(4), sentence_b_start=0), ["is 0", "between 1 and 3"]),
    "B past the end": (
        lambda: head_view(weights(), names(4), sentence_b_start=4),
        ["is 4", "between 1 and 3"],
    ),
    "B not whole": (lambda: head_view(weights(), names(4), sentence_b_start=1.5), ["1.5"]),
    "tokens a string": (lambda: head_view(weights(), "abcd"), ["convert_ids_to_tokens"]),
    "tokens ids": (lambda: head_view(weights(), [1, 2, 3, 4]), ["convert_ids_to_tokens"]),
    "NaN": (lambda: head_view([torch.full((1, 1, 2, 2), torch.nan)], names(2)), ["NaN"]),
    "scores": (lambda: head_view([torch.full((1, 1, 2, 2), 3.0)], names(2)), ["0 to 1", "softmax"]),
    "nothing at all": (lambda: head_view(), ['attn_implementation="eager"']),
    "attention without tokens": (lambda: head_view(weights()), ["attention needs tokens"]),
    "cross attention in the wrong place": (
        lambda: head_view(stacks()["cross_attention"], names(5)),
        ["3 query and 5 key", "5 tokens"],
    ),
    "two kinds": (
        lambda: head_view(weights(), names(4), **stacks()),
        ["attention, tokens is for a single stack", "cross_attention"],
    ),
    "B in an encoder-decoder": (
        lambda: head_view(sentence_b_start=1, **stacks()),
        ["sentence_b_start is for a single stack"],
    ),
    "no stack, only tokens": (
        lambda: head_view(encoder_tokens=names(5), decoder_tokens=names(3)),
        ['attn_implementation="eager"'],
    ),
    "empty cross attention": (
        lambda: head_view(**stacks() | {"cross_attention": ()}),
        ['attn_implementation="eager"'],
    ),
    "no tokens of the encoder": (
        lambda: head_view(**stacks() | {"encoder_tokens": None, "encoder_attention": None}),
        ["cross_attention needs encoder_tokens"],
    ),
    "no tokens of the decoder": (
        lambda: head_view(**stacks() | {"decoder_tokens": None}),
        ["decoder_attention needs decoder_tokens"],
    ),
    "tokens of the encoder too many": (
        lambda: head_view(**stacks() | {"encoder_attention": None, "encoder_tokens": names(6)}),
        ["cross_attention has 3 query and 5 key", "3 decoder_tokens and 6 encoder_tokens"],
    ),
    "tokens swapped": (
        lambda: head_view(
            cross_attention=stacks()["cross_attention"], encoder_tokens=names(3), decoder_tokens=names(5)
        ),
        ["5 decoder_tokens and 3 encoder_tokens"],
    ),
    "unequal depths": (
        lambda: head_view(**stacks() | {"decoder_attention": stacks(layers=1)["decoder_attention"]}),
        ["encoder_attention (2, 3)", "decoder_attention (1, 3)"],
    ),
    "unequal heads": (
        lambda: head_view(**stacks() | {"cross_attention": stacks(heads=4)["cross_attention"]}),
        ["encoder_attention (2, 3)", "cross_attention (2, 4)"],
    ),
    "cross attention of a batch": (
        lambda: head_view(**stacks() | {"cross_attention": [torch.zeros(2, 3, 3, 5)] * 2}),
        ["cross_attention holds a batch of 2", "layer[:1]"],
    ),
    "cross scores": (
        lambda: head_view(**stacks() | {"cross_attention": [torch.full((1, 3, 3, 5), 9.0)] * 2}),
        ["cross_attention", "softmax"],
    ),
    "cross attention of three axes": (
        lambda: head_view(**stacks() | {"cross_attention": [torch.zeros(3, 3, 5)] * 2}),
        ["outputs.cross_attentions"],
    ),
    "encoder far too long": (
        lambda: head_view(**stacks(layers=1, heads=1, source=257)),
        ["257", "256", "encoder_attention", "encoder_tokens[:128]"],
    ),
    "far too long": (lambda: head_view([torch.zeros(1, 1, 300, 300)], names(300)), ["300", "256"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_in_two_sentences(case):
    call, expected = REFUSED[case]
    with pytest.raises((ValueError, TypeError)) as refused:
        call()
    message = str(refused.value)
    assert all(part in message for part in expected), message
    assert len(re.findall(r"[.;](?= [A-Z]|$)", message)) <= 2, message


def test_many_tokens_are_drawn_with_a_warning():
    attention = [torch.full((1, 1, 129, 129), 1 / 129)]
    with pytest.warns(UserWarning, match="129 tokens.*cut the text"):
        view = head_view(attention, names(129))
    assert len(data_of(view)["attention"][0]["left_text"]) == 129


def test_128_tokens_are_drawn_without_a_warning(recwarn):
    head_view([torch.full((1, 1, 128, 128), 1 / 128)], names(128))
    assert not recwarn.list
