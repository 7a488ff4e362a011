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

from utils import head_view
from utils.views import _library

ROOT = Path(__file__).parent.parent
HOSTILE = [
    "</script><img src=x onerror=document.title='hacked'>",
    "<!--<script>",
    "]]>",
    "'\"`",
    "\\u003c\\",
    "PYTHON_PARAMS",
    "{{data}}",
    "\u2028\u2029",
    "\u202eright-to-left\u202c",
    "مرحبا",
    "🤖",
    "",
    "x" * 500,
    "a\nb\tc",
    "$\\frac{1}{2}$",
    "&lt;b&gt;",
]


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
        "import torch; from utils import head_view\n"
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


REFUSED = {
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
