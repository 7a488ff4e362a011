"""The views that the browser tests draw on every surface. It also runs inside a notebook, so it imports no test."""

from types import SimpleNamespace

import torch
from transformers import AutoModel, AutoTokenizer, BertConfig

from utils.dates import DATE_CONFIG
from utils.decoder import EncoderDecoder
from utils.encoder import Encoder
from utils.models import checkpoint
from utils.views import head_view, model_view, neuron_view

SENTENCES = ("leaves fall in autumn", "autumn is marked by colorful foliage")
KINDS = ("head", "model", "neuron")
HOSTILE = [
    "</script><img src=x onerror=document.title='hacked'>",
    "<img src=x onerror=\"document.title='hacked'\">",
    "<svg onload=document.title='hacked'>",
    "<!--<script>",
    "</title></style></iframe>",
    "]]>",
    "'\"`",
    "' onload='document.title=1",
    "\\u003c\\",
    "\\",
    "${document.title='hacked'}",
    "PYTHON_PARAMS",
    "{{data}}",
    "%s {0} $1 \\1",
    "javascript:document.title='hacked'",
    "\u2028\u2029",
    "\u202eright-to-left\u202c",
    "مرحبا",
    "🤖",
    "e\u0301\u200b\ufeff",
    "",
    " ",
    "x" * 500,
    "a\nb\tc",
    "$\\frac{1}{2}$",
    "&lt;b&gt;&amp;",
    "__proto__",
    "NaN",
]


def load(dtype=torch.float64):
    """The course's tokenizer and model."""
    model = AutoModel.from_pretrained(checkpoint(), attn_implementation="eager", dtype=dtype)
    return AutoTokenizer.from_pretrained(checkpoint()), model.eval()


def pair(tokenizer, model):
    """Attention, tokens and the start of sentence B."""
    inputs = tokenizer(*SENTENCES, return_tensors="pt")
    with torch.no_grad():
        attention = model(**inputs, output_attentions=True).attentions
    tokens = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
    return attention, tokens, inputs["token_type_ids"][0].tolist().index(1)


def real(display_mode="light"):
    """Each view of the real model, on a pair of sentences."""
    tokenizer, model = load()
    arguments = pair(tokenizer, model)
    return {
        "head": head_view(*arguments, display_mode=display_mode),
        "model": model_view(*arguments, display_mode=display_mode),
        "neuron": neuron_view(model, tokenizer, *SENTENCES, display_mode=display_mode),
    }


def opened(token=8):
    """A neuron view that opens with a token of sentence B chosen."""
    tokenizer, model = load()
    return neuron_view(model, tokenizer, *SENTENCES, token=token)


def hostile():
    """Each view of tokens that would do harm where text is taken for HTML or for a program."""
    count = len(HOSTILE)
    torch.manual_seed(0)
    attention = [torch.softmax(torch.randn(1, 2, count, count), dim=-1) for _ in range(2)]
    config = BertConfig(
        vocab_size=32, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16
    )

    class Tokenizer:
        def __call__(self, *sentences, return_tensors):
            parts = torch.tensor([[0] * (count // 2) + [1] * (count - count // 2)])
            return {"input_ids": torch.arange(count)[None], "token_type_ids": parts}

        def convert_ids_to_tokens(self, ids):
            return HOSTILE

    return {
        "head": head_view(attention, HOSTILE, count // 2),
        "model": model_view(attention, HOSTILE, count // 2),
        # The first token is the chosen one, so its text stands in the title of the frame as well.
        "neuron": neuron_view(Encoder(config), Tokenizer(), "a", "b", token=0),
    }


def as_notebook_would(view):
    """A cell's output for this view, as a notebook stores it."""
    data, metadata = view._repr_mimebundle_()
    return SimpleNamespace(data=data, metadata=metadata)


def encoder_decoder():
    """What an untrained encoder-decoder returns for a source of 6 tokens and a target of 4, and its view."""
    torch.manual_seed(0)
    model = EncoderDecoder(DATE_CONFIG).eval()
    outputs = model(torch.randint(3, 40, (1, 6)), torch.randint(3, 40, (1, 4)))
    view = head_view(
        encoder_attention=outputs.encoder_attentions,
        decoder_attention=outputs.decoder_attentions,
        cross_attention=outputs.cross_attentions,
        encoder_tokens=[f"in{i}" for i in range(6)],
        decoder_tokens=[f"out{i}" for i in range(4)],
    )
    return outputs, view
