"""The decoder room: layers against PyTorch's, what may be seen, the decoding and its cache, the refusals."""

from types import SimpleNamespace

import pytest
import torch
from refused import refusals
from tiny_models import new_encoder_decoder as model_of
from tiny_models import small_date_config as small
from tiny_models import take_weights
from torch import nn

from utils.attention import causal_mask, padding_mask, use_fused_attention
from utils.dates import VOCABULARY, pad_texts
from utils.decoder import END, PAD, START, Decoder, DecoderLayer, EncoderDecoder, greedy_decode
from utils.decoder import key_value_cache as cache
from utils.encoder import Encoder

TEXTS = ["5 may 2021", "Friday, the 25th of September 2099", "Jan 1, 1900"]
SAME = {"self_attention": "self_attn", "cross_attention": "multihead_attn", "feed_forward_norm": "norm3"}
SAME |= {"self_attention_norm": "norm1", "cross_attention_norm": "norm2"}  # our names, and PyTorch's
both_orders = pytest.mark.parametrize("norm_first", [False, True])


def random_ids(batch, length):
    return torch.randint(END + 1, len(VOCABULARY), (batch, length))


@both_orders
def test_decoder_computes_what_that_of_pytorch_does(norm_first):
    torch.manual_seed(1)
    ours = Decoder(small(num_hidden_layers=3, layer_norm_eps=0.01), norm_first).eval()
    options = {"activation": "gelu", "batch_first": True, "norm_first": norm_first, "layer_norm_eps": 0.01}
    norm = nn.LayerNorm(24, eps=0.01) if norm_first else None
    theirs = nn.TransformerDecoder(nn.TransformerDecoderLayer(24, 3, 40, **options), 3, norm).eval()
    for weight in theirs.parameters():
        nn.init.normal_(weight, std=0.3)  # fresh norms are ones and zeros, which would hide a mistake
    for own, their in zip(ours.layers, theirs.layers, strict=True):
        take_weights(own, their, **SAME)
    if norm_first:
        ours.norm.load_state_dict(theirs.norm.state_dict())
    ids, memory, keep = random_ids(2, 5), torch.randn(2, 7, 24), torch.tensor([[1] * 7, [1] * 3 + [0] * 4])
    x = ours.embeddings(ids)
    expected = theirs(x, memory, tgt_mask=~causal_mask(5), memory_key_padding_mask=keep == 0)
    found = ours(ids, memory, padding_mask(keep))
    torch.testing.assert_close(found.last_hidden_state, expected, atol=1e-5, rtol=1e-5)
    first = theirs.layers[0]
    query = first.norm1(x) if norm_first else x
    _, expected = first.self_attn(query, query, query, attn_mask=~causal_mask(5), average_attn_weights=False)
    torch.testing.assert_close(found.decoder_attentions[0], expected, atol=1e-5, rtol=1e-5)
    assert [weights.shape for weights in found.decoder_attentions] == [(2, 3, 5, 5)] * 3
    for weights in found.cross_attentions:
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 5))
        assert (weights[1, ..., 3:] == 0).all() and (weights[0] > 0).all() and weights.shape == (2, 3, 5, 7)


def test_dropout_strikes_every_sublayer():
    layer = DecoderLayer(small(hidden_dropout_prob=1.0), norm_first=True).train()
    x = torch.randn(2, 5, 24)
    assert torch.equal(layer(x, torch.randn(2, 7, 24))[0], x)
    layer = DecoderLayer(small(hidden_dropout_prob=1.0)).train()
    expected = layer.feed_forward_norm(layer.cross_attention_norm(layer.self_attention_norm(x)))
    torch.testing.assert_close(layer(x, torch.randn(2, 7, 24))[0], expected)


@both_orders
def test_model_is_the_encoder_and_the_decoder_and_a_linear_layer(norm_first):
    model, target, (source, mask) = model_of(norm_first), random_ids(3, 6), pad_texts(TEXTS)
    encoder = Encoder(small(), norm_first).eval()
    encoder.load_state_dict(model.encoder.state_dict())
    encoded = encoder(source, attention_mask=mask)
    decoded = model.decoder(target, encoded.last_hidden_state, padding_mask(mask))
    found = model(source, target, mask)
    assert torch.equal(found.logits, model.to_vocabulary(decoded.last_hidden_state))
    attentions = [*encoded.attentions, *decoded.decoder_attentions, *decoded.cross_attentions]
    parts = [*found.encoder_attentions, *found.decoder_attentions, *found.cross_attentions]
    assert all(torch.equal(a, b) for a, b in zip(parts, attentions, strict=True))


@both_orders
@pytest.mark.parametrize("fused", [False, True])
def test_cache_equals_no_cache_step_by_step(norm_first, fused):
    model, (source, mask) = use_fused_attention(model_of(norm_first), fused), pad_texts(TEXTS)
    cached, plain = (greedy_decode(model, source, mask, use_cache=use) for use in (True, False))
    assert torch.equal(cached.target_ids, plain.target_ids)
    steps = cached.logits.shape[1]
    assert steps > 10 and cached.target_ids.shape == (3, 1 + steps)
    torch.testing.assert_close(cached.logits, plain.logits, atol=1e-5, rtol=0)
    by_hand = use_fused_attention(model, False)  # and as in training: every step in one pass
    at_once = by_hand(source, cached.target_ids[:, :-1], mask).logits
    torch.testing.assert_close(cached.logits, at_once, atol=1e-5, rtol=0)


def test_with_the_cache_no_key_or_value_is_computed_twice():
    model, (source, mask) = model_of(), pad_texts(TEXTS)
    rows = {"self": [], "cross": []}
    for layer in model.decoder.layers:
        for name, attention in (("self", layer.self_attention), ("cross", layer.cross_attention)):
            for projection in (attention.key, attention.value):
                projection.register_forward_hook(lambda m, args, out, n=name: rows[n].append(out.shape[1]))
    greedy_decode(model, source, mask, max_new_tokens=5)
    assert rows["self"] == [1] * 5 * 4  # 5 steps; 2 layers, each with keys and values
    assert rows["cross"] == [source.shape[1]] * 4
    rows["self"].clear()
    greedy_decode(model, source, mask, max_new_tokens=3, use_cache=False)
    assert rows["self"] == [1] * 4 + [2] * 4 + [3] * 4


def test_cache_takes_several_new_tokens_at_once():
    model, source, target = model_of(dtype=torch.float64), random_ids(2, 9), random_ids(2, 6)
    decoder, memory = model.decoder, model.encoder(source).last_hidden_state
    expected = decoder(target, memory).last_hidden_state
    embedded, parts = decoder.embeddings(target), []
    with cache(decoder):
        for start, end in ((0, 3), (3, 4), (4, 6)):
            mask = causal_mask(6)[start:end, :end]
            parts.append(decoder.run_layers(embedded[:, start:end], memory, mask).last_hidden_state)
    torch.testing.assert_close(torch.cat(parts, dim=1), expected, atol=1e-12, rtol=0)


def test_cache_ends_with_its_block_even_after_an_error():
    model, source, target = model_of(), random_ids(2, 9), random_ids(2, 4)
    before = model(source, target).logits
    with pytest.raises(KeyboardInterrupt), cache(model.decoder):
        embedded = model.decoder.embeddings(target[:, :2])
        model.decoder.run_layers(embedded, model.encoder(source).last_hidden_state)
        raise KeyboardInterrupt
    assert torch.equal(model(source, target).logits, before)
    assert torch.equal(greedy_decode(model, source).logits, greedy_decode(model, source).logits)


class Script(nn.Module):
    """In place of the last linear layer: says at each step what it was told to, one id a row."""

    def __init__(self, steps):
        super().__init__()
        self.steps = iter(steps)

    def forward(self, hidden_state):
        return nn.functional.one_hot(torch.tensor(next(self.steps)), len(VOCABULARY)).float()


@pytest.mark.parametrize("use_cache", [True, False])
def test_behind_the_end_are_pads_and_decoding_stops_when_all_have_ended(use_cache):
    model = model_of()
    model.to_vocabulary = Script([(5, END, 6), (END, 7, 7), (8, 8, END), (9, 9, 9)])
    found = greedy_decode(model, random_ids(3, 4), use_cache=use_cache)
    assert found.target_ids.tolist() == [[START, 5, END, PAD], [START, END, PAD, PAD], [START, 6, 7, END]]
    assert found.logits.shape == (3, 3, len(VOCABULARY))


def test_decoding_stops_at_the_last_position():
    model = model_of(max_position_embeddings=11)
    model.to_vocabulary.bias.data[END] = -torch.inf
    for use_cache in (True, False):
        assert greedy_decode(model, random_ids(2, 4), use_cache=use_cache).target_ids.shape == (2, 12)
    assert greedy_decode(model, random_ids(2, 4), max_new_tokens=3).target_ids.shape == (2, 4)


def call(source=(2, 9), target=(2, 4), mask=None):
    """A call of the model with ids of these shapes, all of them 5, and a mask of 1."""
    model_of()(torch.full(source, 5), torch.full(target, 5), mask and torch.ones(mask))


def decode(length=3, **given):
    greedy_decode(model_of(), random_ids(1, length), **given)


def in_a_cache(do):
    model = model_of()
    with cache(model.decoder):
        do(model)


def change_memory(model):
    model.decoder.run_layers(MEMORY[:, :1], MEMORY)
    model.decoder.run_layers(MEMORY[:, :1], torch.randn(1, 5, 24))


ONE, NOTHING, MEMORY = torch.tensor([[1]]), SimpleNamespace(), torch.randn(1, 3, 24)
test_what_does_not_fit_is_refused = refusals(
    ("target not in the vocabulary", lambda: model_of()(ONE, -ONE), ValueError, "target_ids holds -1"),
    ("source is a list", lambda: model_of()([[3, 4]], ONE), TypeError, "source_ids.*list"),
    ("target too long", lambda: call(target=(2, 49)), ValueError, "target_ids has 49.* 48 "),
    ("source too long", lambda: decode(length=50), ValueError, "source_ids has 50.* 48 "),
    ("unequal batches", lambda: call((2, 9), (3, 4)), ValueError, r"\(2, 9\).*\(3, 4\)"),
    ("memory", lambda: model_of().decoder(random_ids(3, 4), MEMORY), ValueError, r"\(3, 4, 24\).*\(1, 3"),
    ("mask of another shape", lambda: call(mask=(2, 8)), ValueError, r"\(2, 8\).*\(2, 9\)"),
    ("model of no config", lambda: EncoderDecoder(NOTHING), ValueError, "hidden_size"),
    ("train mode", lambda: greedy_decode(model_of().train(), ONE), ValueError, r"eval\(\)"),
    ("too many new tokens", lambda: decode(max_new_tokens=49), ValueError, "max_new_tokens is 49.* 48 "),
    ("no new tokens", lambda: decode(max_new_tokens=0), ValueError, "max_new_tokens is 0"),
    ("cache in a cache", lambda: in_a_cache(lambda m: greedy_decode(m, ONE)), ValueError, "key_value_cache"),
    ("decoder in a cache", lambda: in_a_cache(lambda m: m.decoder(ONE, MEMORY)), ValueError, "run_layers"),
    ("another memory", lambda: in_a_cache(change_memory), ValueError, r"\(1, 3, 24\).*\(1, 5, 24\)"),
)
