"""Inputs and views that several tests draw. It also runs in a notebook of a test, so it imports none."""

import base64
import functools
import json
import re
import string
import zlib

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel

from utils.models import checkpoint
from utils.views import head_view, model_view, neuron_view, text_view

SENTENCES = ("leaves fall in autumn", "autumn is marked by colorful foliage")
KINDS = ("head", "model", "neuron", "text")
HOSTILE = [
    *("</script><img src=x onerror=document.title='hacked'>", "<svg onload=document.title='hacked'>"),
    *("<!--<script>", "</title></style></iframe>", "'\"`", "' onload='document.title=1", "\\u003c\\"),
    *("${document.title='hacked'}", "PYTHON_PARAMS", "{{data}}", "%s {0} $1 \\1"),
    *("javascript:document.title='hacked'", "\u2028\u2029", "\u202eright-to-left\u202c", "🤖"),
    *("e\u0301\u200b\ufeff", "", "x" * 500, "a\nb\tc", "$\\frac{1}{2}$", "&lt;b&gt;&amp;", "__proto__"),
]


def weights(layers=2, heads=3, tokens=4, keys=None, batch=1, dtype=torch.float32):
    """Attention as a model returns it: one tensor (batch, heads, tokens, keys) a layer."""
    torch.manual_seed(0)
    return list(torch.randn(layers, batch, heads, tokens, keys or tokens).softmax(-1).to(dtype))


def names(count, word="token"):
    return [f"{word}{i}" for i in range(count)]


def stacks(source=5, target=3, **sizes):
    """The arguments of a head view for an encoder-decoder."""
    return {
        "encoder_attention": weights(tokens=source, **sizes),
        "decoder_attention": weights(tokens=target, **sizes),
        "cross_attention": weights(tokens=target, keys=source, **sizes),
        "encoder_tokens": names(source, "in"),
        "decoder_tokens": names(target, "out"),
    }


class Words:
    """A tokenizer of the words w2, w3, ...: [CLS] is w0, [SEP] is w1."""

    def __call__(self, first, second=None, return_tensors=None):
        parts = [[0, *(int(word[1:]) for word in text.split()), 1] for text in (first, second) if text]
        ids = [*parts[0], *(parts[1][1:] if len(parts) > 1 else [])]
        types = [0] * len(parts[0]) + [1] * (len(ids) - len(parts[0]))
        return {"input_ids": torch.tensor([ids]), "token_type_ids": torch.tensor([types])}

    def convert_ids_to_tokens(self, ids):
        return [f"w{i}" for i in ids]


def small_bert(attention="eager", **others):
    """A BERT of 3 layers of 4 heads of width 6, whose queries and keys are as large as trained ones."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4}
    config = BertConfig(**sizes, **others, intermediate_size=32, attn_implementation=attention)
    model = BertModel(config).eval()
    with torch.no_grad():
        for layer in model.encoder.layer:
            layer.attention.self.query.weight.mul_(12)
            layer.attention.self.key.weight.mul_(12)
    return model


def data_of(view):
    """The data that the page hands to bertviz, as JSON."""
    return json.loads(re.search(r"^const view = (.*);$", view.html, flags=re.MULTILINE)[1])


def params(page):
    """The data in a page of bertviz."""
    found = re.search(r"(?:const params|window.bertviz_params) = (?=\{)", page)
    return json.JSONDecoder().raw_decode(page, found.end())[0]["attention"]


def unpack(text, dtype):
    """Numbers that a page holds: deflated, all first bytes first, in Python's base 85 with other signs."""
    own = [chr(sign) for sign in range(33, 127) if chr(sign) not in "\"&'<\\"]
    python = "0123456789" + string.ascii_uppercase + string.ascii_lowercase + "!#$%&()*+-;<=>?@^_`{|}~"
    packed = base64.b85decode(text[1:].translate(str.maketrans(dict(zip(own, python, strict=False)))))
    planes = np.frombuffer(zlib.decompress(packed[: len(packed) - int(text[0])]), np.uint8)
    return planes.reshape(np.dtype(dtype).itemsize, -1).T.copy().view(dtype).reshape(-1)


def vectors(panel):
    """The queries and the keys in a page, each (layers, heads, tokens, head_dim)."""
    found = []
    for packed in (panel["queries"], panel["keys"]):
        numbers = unpack(packed["numbers"], "<i2" if "units" in packed else "<f4").astype(float)
        units = torch.tensor(packed.get("units", 1.0)).expand(packed["shape"][0] * packed["shape"][1])
        found.append(torch.from_numpy(numbers).view(packed["shape"]) * units.view(*packed["shape"][:2], 1, 1))
    return found


def linear(colours):
    """The light of colours in sRGB, (..., 3) from 0 to 1."""
    return np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)


def luminance(colours):
    """Of WCAG 2: https://www.w3.org/TR/WCAG22/#dfn-relative-luminance."""
    return linear(colours) @ [0.2126, 0.7152, 0.0722]


def lab(light):
    """Linear light in CIELAB, whose distances are those of CIE76."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    part = light @ to_xyz.T / to_xyz.sum(axis=1)
    x, y, z = np.moveaxis(np.where(part > 0.008856, np.cbrt(part), 7.787 * part + 16 / 116), -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


def apart(one, other):
    """How far the colours (0 to 1) of two pictures are apart, by CIE76."""
    return np.linalg.norm(lab(linear(one)) - lab(linear(other)), axis=-1)


@functools.cache
def load(dtype=torch.float64):
    """The course's tokenizer and model."""
    model = AutoModel.from_pretrained(checkpoint(), attn_implementation="eager", dtype=dtype)
    return AutoTokenizer.from_pretrained(checkpoint()), model.eval()


def pair():
    """Attention, tokens and the start of sentence B."""
    tokenizer, model = load()
    inputs = tokenizer(*SENTENCES, return_tensors="pt")
    with torch.no_grad():
        attention = model(**inputs, output_attentions=True).attentions
    tokens = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
    return attention, tokens, inputs["token_type_ids"][0].tolist().index(1)


def neurons(**choice):
    """A neuron view of the pair."""
    tokenizer, model = load()
    return neuron_view(model, tokenizer, *SENTENCES, **choice)


def real():
    """Each view of the real model, on a pair of sentences."""
    arguments, light = pair(), {"display_mode": "light"}
    return {
        "head": head_view(*arguments, **light),
        "model": model_view(*arguments, **light),
        "neuron": neurons(**light),
        "text": text_view(*arguments[:2], layer=2, head=4, token=3, **light),
    }


def hostile():
    """Each view of tokens that would do harm where text is taken for HTML or for a program."""
    count = len(HOSTILE)
    attention = weights(heads=2, tokens=count)

    class Tokenizer(Words):
        def convert_ids_to_tokens(self, ids):
            return HOSTILE

    half = " ".join(["w2"] * (count // 2 - 2))
    return {
        "head": head_view(attention, HOSTILE, count // 2),
        "model": model_view(attention, HOSTILE, count // 2),
        "text": text_view(attention, HOSTILE, token=0),
        # The first token is the chosen one, so its text stands in the title of the frame as well.
        "neuron": neuron_view(small_bert(), Tokenizer(), half, f"w2 {half}", token=0),
    }


# What the browser tests draw on each surface, by name.
GROUPS = {"light": real, "hostile": hostile}


def written(tokens=9, layers=2, heads=3):
    """Attention to earlier tokens alone, and the other arguments of a text view with all that it can show."""
    torch.manual_seed(0)
    later = torch.ones(tokens, tokens).triu(1) == 1
    scores = torch.randn(layers, 1, heads, tokens, tokens).mul(3).masked_fill(later, -torch.inf)
    ids = torch.arange(tokens) % 7
    vocabulary = [f"Ġword{i}" for i in range(20)]
    told = {"logits": torch.randn(1, tokens, 20), "input_ids": ids[None], "vocabulary": vocabulary}
    return list(scores.softmax(-1)), [vocabulary[i] for i in ids], told
