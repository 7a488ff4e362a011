"""The decoder room: layers against PyTorch's, what may be seen, the cache, the dates, the training, the refusals."""

import datetime
import math
import re
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from utils import dates
from utils.attention import causal_mask, padding_mask, use_fused_attention, weights_of_torch
from utils.dates import (
    DATE_CONFIG,
    VOCABULARY,
    decode_ids,
    encode_text,
    exact_match,
    make_dates,
    next_token_loss,
    pad_texts,
    show_ids,
    train,
    translate,
)
from utils.decoder import (
    END,
    PAD,
    START,
    Decoder,
    DecoderLayer,
    EncoderDecoder,
    greedy_decode,
    key_value_cache,
)
from utils.encoder import Encoder

TEXTS = ["5 may 2021", "Friday, the 25th of September 2099", "Jan 1, 1900"]
both_orders = pytest.mark.parametrize("norm_first", [False, True])


@pytest.fixture(autouse=True)
def one_thread():
    """Tests run two at a time on two cores, and these tensors are small."""
    with dates.one_thread():
        yield


def small(**changes):
    """A config that is quick, and has no two sizes alike."""
    sizes = {"hidden_size": 24, "num_attention_heads": 3, "intermediate_size": 40, "num_hidden_layers": 2}
    return SimpleNamespace(**{**vars(DATE_CONFIG), **sizes, **changes})


def model_of(norm_first=False, dtype=torch.float32, **changes):
    torch.manual_seed(0)
    return EncoderDecoder(small(**changes), norm_first).eval().to(dtype)


def random_ids(batch, length):
    return torch.randint(len(["pad", "start", "end"]), len(VOCABULARY), (batch, length))


# ------------------------------------------------------------------------- the layers, against PyTorch's


def torch_layer(config, norm_first):
    return nn.TransformerDecoderLayer(
        config.hidden_size,
        config.num_attention_heads,
        config.intermediate_size,
        activation="gelu",
        layer_norm_eps=config.layer_norm_eps,
        batch_first=True,
        norm_first=norm_first,
    ).eval()


def shuffle(module):
    """Random numbers everywhere: fresh norms and biases are ones and zeros, which would hide a mistake."""
    for weight in module.parameters():
        nn.init.normal_(weight, std=0.3)


def weights_of(layer):
    """A layer of PyTorch's, in the names of a `DecoderLayer`."""
    parts = {
        "self_attention": weights_of_torch(layer.self_attn),
        "self_attention_norm": layer.norm1.state_dict(),
        "cross_attention": weights_of_torch(layer.multihead_attn),
        "cross_attention_norm": layer.norm2.state_dict(),
        "feed_forward.expand": layer.linear1.state_dict(),
        "feed_forward.contract": layer.linear2.state_dict(),
        "feed_forward_norm": layer.norm3.state_dict(),
    }
    return {f"{part}.{name}": weight for part, found in parts.items() for name, weight in found.items()}


@both_orders
def test_layer_computes_what_the_layer_of_pytorch_does(norm_first):
    torch.manual_seed(1)
    config = small(layer_norm_eps=0.01)
    theirs, ours = torch_layer(config, norm_first), DecoderLayer(config, norm_first).eval()
    shuffle(theirs)
    ours.load_state_dict(weights_of(theirs))
    x, memory = torch.randn(2, 5, 24), torch.randn(2, 7, 24)
    keep = torch.tensor([[1] * 7, [1, 1, 1, 0, 0, 0, 0]])
    expected = theirs(x, memory, tgt_mask=~causal_mask(5), memory_key_padding_mask=keep == 0)
    output, self_weights, cross_weights = ours(x, memory, causal_mask(5), padding_mask(keep))
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)
    query = theirs.norm1(x) if norm_first else x
    _, expected = theirs.self_attn(query, query, query, attn_mask=~causal_mask(5), average_attn_weights=False)
    torch.testing.assert_close(self_weights, expected, atol=1e-5, rtol=1e-5)
    assert cross_weights.shape == (2, 3, 5, 7)
    torch.testing.assert_close(cross_weights.sum(-1), torch.ones(2, 3, 5))
    assert (cross_weights[1, ..., 3:] == 0).all() and (cross_weights[0] > 0).all()


@both_orders
def test_stack_computes_what_the_stack_of_pytorch_does(norm_first):
    torch.manual_seed(2)
    config = small(num_hidden_layers=3)
    norm = nn.LayerNorm(24, eps=config.layer_norm_eps) if norm_first else None
    theirs = nn.TransformerDecoder(torch_layer(config, norm_first), 3, norm).eval()
    ours = Decoder(config, norm_first).eval()
    shuffle(theirs)
    for own, their in zip(ours.layers, theirs.layers, strict=True):
        own.load_state_dict(weights_of(their))
    if norm_first:
        ours.norm.load_state_dict(norm.state_dict())
    ids, memory = random_ids(2, 6), torch.randn(2, 4, 24)
    expected = theirs(ours.embeddings(ids), memory, tgt_mask=~causal_mask(6))
    found = ours(ids, memory)
    torch.testing.assert_close(found.last_hidden_state, expected, atol=1e-5, rtol=1e-5)
    assert [w.shape for w in found.decoder_attentions] == [(2, 3, 6, 6)] * 3
    assert [w.shape for w in found.cross_attentions] == [(2, 3, 6, 4)] * 3


def test_dropout_strikes_every_sublayer():
    """With everything dropped, nothing is added to the residual path."""
    layer = DecoderLayer(small(hidden_dropout_prob=1.0), norm_first=True).train()
    x = torch.randn(2, 5, 24)
    assert torch.equal(layer(x, torch.randn(2, 7, 24))[0], x)
    layer = DecoderLayer(small(hidden_dropout_prob=1.0)).train()
    expected = layer.feed_forward_norm(layer.cross_attention_norm(layer.self_attention_norm(x)))
    torch.testing.assert_close(layer(x, torch.randn(2, 7, 24))[0], expected)


# -------------------------------------------------------------------------------------- what may be seen


@both_orders
def test_a_later_target_token_changes_no_earlier_logits(norm_first):
    model, source, target = model_of(norm_first), random_ids(2, 9), random_ids(2, 8)
    before = model(source, target).logits
    for place in range(8):
        changed = target.clone()
        changed[:, place] = (target[:, place] - 2) % 30 + 3
        after = model(source, changed).logits
        assert torch.equal(after[:, :place], before[:, :place])
        assert ((after[:, place:] - before[:, place:]).abs().amax(-1) > 1e-6).all()


@both_orders
def test_pads_of_the_source_cannot_be_felt(norm_first):
    model, target = model_of(norm_first, torch.float64), random_ids(3, 6)
    source, mask = pad_texts(TEXTS)
    together = model(source, target, mask)
    for row, text in enumerate(TEXTS):
        alone = model(pad_texts([text])[0], target[row : row + 1])
        torch.testing.assert_close(together.logits[row : row + 1], alone.logits, atol=1e-12, rtol=0)
    other = model(source.masked_fill(mask == 0, 17), target, mask)
    torch.testing.assert_close(other.logits, together.logits, atol=1e-12, rtol=0)
    unmasked = model(source, target)
    assert (unmasked.logits - together.logits)[0].abs().max() > 1e-3  # the pads would be felt


def test_pads_of_the_target_cannot_be_felt():
    model, (target, mask) = model_of(dtype=torch.float64), pad_texts(["1", "2021-03-05"])
    source = random_ids(2, 9)
    length = mask[0].sum()
    together, alone = model(source, target).logits, model(source[:1], target[:1, :length]).logits
    torch.testing.assert_close(together[:1, :length], alone, atol=1e-12, rtol=0)


@both_orders
def test_every_cross_attention_reads_the_last_output_of_the_encoder(norm_first):
    model, source, target = model_of(norm_first), random_ids(2, 9), random_ids(2, 4)
    seen = []
    for layer in model.decoder.layers:
        layer.cross_attention.key.register_forward_hook(lambda module, args, output: seen.append(args[0]))
        layer.cross_attention.value.register_forward_hook(lambda module, args, output: seen.append(args[0]))
    model(source, target)
    memory = model.encoder(source).last_hidden_state
    assert len(seen) == 4 and all(torch.equal(memory, read) for read in seen)


def test_another_memory_gives_another_output_and_gradients_flow_back_into_it():
    model, source, target = model_of(), random_ids(2, 9), random_ids(2, 4)
    memory = model.encoder(source).last_hidden_state
    output = model.decoder(target, memory).last_hidden_state
    assert (model.decoder(target, memory.flip(0)).last_hidden_state - output).abs().max() > 1e-3
    model(source, target).logits.sum().backward()
    assert all(
        weight.grad is not None and weight.grad.abs().max() > 0
        for name, weight in model.named_parameters()
        if not name.endswith("key.bias")  # adds the same to every score, and softmax takes it out again
    )


@both_orders
def test_encoder_is_that_of_the_course(norm_first):
    model, (source, mask) = model_of(norm_first), pad_texts(TEXTS)
    encoder = Encoder(small(), norm_first).eval()
    encoder.load_state_dict(model.encoder.state_dict())
    encoded, memory_mask = model.encode(source, mask)
    assert torch.equal(encoded.last_hidden_state, encoder(source, attention_mask=mask).last_hidden_state)
    assert torch.equal(memory_mask, padding_mask(mask))


def test_no_two_parts_share_a_weight():
    model = model_of()
    places = [weight.data_ptr() for weight in model.state_dict().values()]
    assert len(set(places)) == len(places)


def test_fused_attention_computes_the_same_without_weights():
    model, target, (source, mask) = model_of(), random_ids(3, 6), pad_texts(TEXTS)
    by_hand = model(source, target, mask)
    fused = use_fused_attention(model)(source, target, mask)
    torch.testing.assert_close(fused.logits, by_hand.logits, atol=1e-5, rtol=1e-5)
    assert fused.encoder_attentions == fused.decoder_attentions == fused.cross_attentions == (None, None)
    assert len(by_hand.encoder_attentions) == len(by_hand.cross_attentions) == 2


# ------------------------------------------------------------------------------- decoding, and the cache


@both_orders
@pytest.mark.parametrize("fused", [False, True])
def test_cache_equals_no_cache_step_by_step(norm_first, fused):
    model, (source, mask) = use_fused_attention(model_of(norm_first), fused), pad_texts(TEXTS)
    cached, plain = (greedy_decode(model, source, mask, use_cache=use) for use in (True, False))
    assert torch.equal(cached.target_ids, plain.target_ids)
    steps = cached.logits.shape[1]
    assert steps > 10 and cached.target_ids.shape == (3, 1 + steps)
    for step in range(steps):
        torch.testing.assert_close(cached.logits[:, step], plain.logits[:, step], atol=1e-5, rtol=0)
    at_once = model(source, cached.target_ids[:, :-1], mask).logits  # as in training: every step in one pass
    torch.testing.assert_close(cached.logits, at_once, atol=1e-5, rtol=0)


def test_tokens_are_the_likeliest_ones():
    decoded = greedy_decode(model_of(), *pad_texts(TEXTS), max_new_tokens=6)
    likeliest = decoded.logits.topk(1).indices[..., 0]
    alive = (decoded.target_ids[:, :-1] != END).cummin(dim=1).values
    assert torch.equal(decoded.target_ids[:, 1:], likeliest.where(alive, PAD))
    assert (decoded.target_ids[:, 0] == START).all()


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
    with key_value_cache(decoder):
        for start, end in ((0, 3), (3, 4), (4, 6)):
            mask = causal_mask(6)[start:end, :end]
            parts.append(decoder.run_layers(embedded[:, start:end], memory, mask).last_hidden_state)
    torch.testing.assert_close(torch.cat(parts, dim=1), expected, atol=1e-12, rtol=0)


def test_cache_ends_with_its_block_even_after_an_error():
    model, source, target = model_of(), random_ids(2, 9), random_ids(2, 4)
    before = model(source, target).logits
    with pytest.raises(KeyboardInterrupt), key_value_cache(model.decoder):
        model.decoder(target[:, :2], model.encoder(source).last_hidden_state)
        raise KeyboardInterrupt
    assert torch.equal(model(source, target).logits, before)
    first = greedy_decode(model, source)
    assert torch.equal(greedy_decode(model, source).logits, first.logits)


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
    assert found.target_ids.tolist() == [
        [START, 5, END, PAD],
        [START, END, PAD, PAD],
        [START, 6, 7, END],
    ]
    assert found.logits.shape == (3, 3, len(VOCABULARY))


def test_decoding_stops_at_the_last_position():
    model = model_of(max_position_embeddings=11)
    model.to_vocabulary.bias.data[END] = -math.inf
    for use_cache in (True, False):
        assert greedy_decode(model, random_ids(2, 4), use_cache=use_cache).target_ids.shape == (2, 12)
    assert greedy_decode(model, random_ids(2, 4), max_new_tokens=3).target_ids.shape == (2, 4)


# -------------------------------------------------------------------------------------------- the dates

READABLE = ["%B %d %Y", "%b %d %Y", "%d %B %Y", "%d %b %Y", "%Y %B %d", "%Y %b %d"]


def read_date(text):
    """A date in words as Python's own parser reads it, and the weekday it names, or None."""
    words = re.findall(r"[A-Za-z]+|\d+(?:st|nd|rd|th)?", text)
    weekday = words.pop(0)[:3].title() if re.match(r"(?i)(mon|tue|wed|thu|fri|sat|sun)", words[0]) else None
    words = [re.sub(r"(?<=\d)(st|nd|rd|th)$", "", word) for word in words if word not in ("the", "of")]
    for form in READABLE:
        try:
            return datetime.datetime.strptime(" ".join(words), form).date(), weekday
        except ValueError:
            pass
    raise AssertionError(f"cannot read {text!r}")


def test_a_thousand_dates_mean_what_their_targets_say():
    pairs = make_dates(1000, seed=5)
    for text, target in pairs:
        day, weekday = read_date(text)
        assert day.isoformat() == target and weekday in (None, day.strftime("%a")), text
        assert 1900 <= day.year <= 2099
    assert sum(read_date(text)[1] is None for text, _ in pairs) in range(270, 400)


def test_ordinals_end_as_in_english():
    special = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}
    assert all(dates.ordinal_ending(day) == special.get(day, "th") for day in range(1, 32))
    found = re.findall(r"\b(\d{1,2})([a-z]{2})\b", " ".join(text for text, _ in make_dates(2000, seed=0)))
    assert len({day for day, _ in found}) == 31
    assert all(ending == special.get(int(day), "th") for day, ending in found)


def test_dates_come_in_every_form():
    texts = [text for text, _ in make_dates(3000, seed=0)]
    shapes = {re.sub(r"[A-Za-z]{3,}", "w", re.sub(r"\d+", "1", text)) for text in texts}
    bare = {"w 1, 1", "w 1 1", "1 w 1", "1, w 1", "w 1th, 1", "1th w 1", "1, w 1th", "w 1th of w 1"}
    assert bare <= shapes and {f"w, {form}" for form in bare} <= shapes
    for word in ("March", "mar", "Friday", "fri", "the "):
        assert any(word in text for text in texts), word


def test_held_out_days_are_never_trained_on():
    trained, held_out = ({day for _, day in make_dates(20_000, 0, held_out=h)} for h in (False, True))
    assert not trained & held_out
    assert len(held_out) > 5000
    months = {day[5:7] for day in held_out}
    assert len(months) == 12 and len({day[8:] for day in held_out}) == 31  # nothing about them is special


def test_equal_seeds_give_equal_dates_and_unequal_ones_do_not():
    assert make_dates(50, seed=3) == make_dates(50, seed=3) == make_dates(80, seed=3)[:50]
    assert make_dates(50, seed=3) != make_dates(50, seed=4)
    assert make_dates(2, seed=0) == [  # what a notebook has stored depends on them, in every Python
        ("monday, dec 5th, 2050", "2050-12-05"),
        ("Monday, 12 January 2071", "2071-01-12"),
    ]


# ------------------------------------------------------------------------------- from text to ids, and back


def test_every_date_can_be_encoded_and_read_back_and_fits_the_positions():
    longest = 0
    for pair in make_dates(5000, seed=6):
        for text in pair:
            ids = encode_text(text)
            assert decode_ids(ids) == text.lower()
            longest = max(longest, len(ids))
    assert longest == len("Wednesday, the 22nd of September 2021") + 2 <= DATE_CONFIG.max_position_embeddings


def test_ids_are_those_of_the_vocabulary():
    assert encode_text("B-1") == [
        START,
        VOCABULARY.index("b"),
        VOCABULARY.index("-"),
        VOCABULARY.index("1"),
        END,
    ]
    assert [VOCABULARY[number] for number in (PAD, START, END)] == ["[PAD]", "[START]", "[END]"]
    assert len(set(VOCABULARY)) == len(VOCABULARY) == DATE_CONFIG.vocab_size
    assert encode_text("") == [START, END]


def test_decoding_stops_at_the_first_end():
    ids = torch.tensor([*encode_text("may"), *encode_text("june"), PAD])
    assert decode_ids(ids) == decode_ids(ids.tolist()) == "may"
    assert decode_ids(encode_text("may")[:-1]) == "may"
    assert show_ids(ids[:6]) == ["[START]", "m", "a", "y", "[END]", "[START]"]
    assert show_ids(encode_text("5 m")) == ["[START]", "5", "␣", "m", "[END]"]


def test_texts_are_padded_behind():
    ids, mask = pad_texts(["1", "234"])
    assert ids.tolist() == [[*encode_text("1"), PAD, PAD], encode_text("234")]
    assert mask.tolist() == [[1, 1, 1, 0, 0], [1] * 5]
    assert ids.dtype == mask.dtype == torch.int64


# ---------------------------------------------------------------------------------------------- the training


def test_loss_is_the_mean_surprise_at_each_next_token():
    """Token by token, each target alone and without any pad."""
    model, pairs = model_of(dtype=torch.float64), [("may 5", "1"), ("5 june 1999", "1999-06-05")]
    surprises = []
    for source, target in pairs:
        ids = torch.tensor([encode_text(target)])
        logits = model(torch.tensor([encode_text(source)]), ids).logits[0]
        surprises += [-logits[i].softmax(-1)[ids[0, i + 1]].log() for i in range(ids.shape[1] - 1)]
    assert len(surprises) == 2 + 11
    assert next_token_loss(model, pairs).item() == pytest.approx(sum(surprises).item() / 13, abs=1e-10)


def test_training_repeats_itself_and_learns():
    pairs, runs = make_dates(500, seed=0), []
    for seed in (0, 0, 1):
        model = model_of(hidden_dropout_prob=0.1).train()
        torch.manual_seed(len(runs))  # whatever the generator stands at
        runs.append((train(model, pairs, steps=25, batch_size=16, seed=seed), model))
    (first, model), (again, twin), (other, _) = runs
    assert first == again and len(first) == 25
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), twin.parameters(), strict=True))
    assert first != other
    assert first[0] > 3 and first[-1] < 2.7
    assert not model.training


def test_each_step_goes_by_the_gradient_of_its_own_batch_cut_to_length_one():
    model, pairs, norms = model_of(), make_dates(1, seed=0), []  # one pair, so that every batch is known

    def check(optimizer, args, kwargs):
        gradients = torch.autograd.grad(next_token_loss(model, pairs * 4), list(model.parameters()))
        norms.append(torch.cat([gradient.flatten() for gradient in gradients]).norm())
        for weight, gradient in zip(model.parameters(), gradients, strict=True):
            torch.testing.assert_close(weight.grad, gradient / norms[-1].clamp(min=1), atol=1e-6, rtol=1e-4)

    hook = register_optimizer_step_pre_hook(check)
    try:
        train(model, pairs, steps=3, batch_size=4)
    finally:
        hook.remove()
    assert len(norms) == 3 and norms[0] > 1


def test_seed_chooses_the_batches():
    """Without dropout, nothing else depends on it."""
    pairs = make_dates(500, seed=0)
    losses = [train(model_of(), pairs, steps=1, batch_size=4, seed=seed) for seed in (0, 1)]
    assert losses[0] != losses[1]


def test_training_takes_one_thread_and_gives_the_others_back():
    torch.set_num_threads(2)
    model, seen = model_of(), []
    model.register_forward_hook(lambda module, args, output: seen.append(torch.get_num_threads()))
    train(model, make_dates(5, seed=0), steps=1, batch_size=2)
    assert seen == [1] and torch.get_num_threads() == 2
    with pytest.raises(ValueError):
        train(model, [])
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("static", [True, False])
def test_bar_is_shown_unless_views_are_static(static, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_STATIC_VIEWS", "1" if static else "0")
    losses = train(model_of(), make_dates(20, seed=0), steps=2, batch_size=4)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == "" if static else f"loss={losses[-1]:.3f}" in shown.err and "2/2" in shown.err


def test_a_single_step_is_a_training(recwarn):
    assert len(train(model_of(), make_dates(5, seed=0), steps=1)) == 1
    assert not recwarn.list


def test_exact_match_counts_targets_without_a_mistake(monkeypatch):
    monkeypatch.setattr(dates, "translate", lambda model, texts: ["2021-03-05", "2021-03-0", "", "1999-01-01"])
    pairs = [("a", "2021-03-05"), ("b", "2021-03-05"), ("c", "2000-01-01"), ("d", "1999-01-01")]
    assert exact_match(None, pairs) == 0.5
    monkeypatch.undo()
    assert exact_match(model_of(), pairs) == 0


def test_trained_model_reads_the_source():
    """Shannon: who does not read the source cannot get below the entropy of the targets.

    200 small steps are enough for that. The whole training, with exact dates and their alignment, is asserted in
    notebook 09, which nbval executes.
    """
    torch.manual_seed(0)
    model = EncoderDecoder(DATE_CONFIG)
    train(model, make_dates(20_000, seed=0), steps=200, batch_size=32)
    held_out = make_dates(500, seed=1, held_out=True)
    places = pad_texts([iso for _, iso in held_out])[0][:, 1:].T  # (places, pairs)
    shares = torch.stack([torch.bincount(ids, minlength=len(VOCABULARY)) / len(held_out) for ids in places])
    blind = torch.distributions.Categorical(probs=shares).entropy().mean()
    texts, targets = zip(*held_out, strict=True)
    with torch.no_grad():
        read = next_token_loss(model, held_out)
        misread = next_token_loss(model, list(zip(texts[1:] + texts[:1], targets, strict=True)))
    assert read < blind / 2 and misread > blind


# ---------------------------------------------------------------------------------------------- the refusals


def decode_twice():
    model = model_of()
    with key_value_cache(model.decoder):
        greedy_decode(model, random_ids(1, 4))


def change_memory():
    decoder = model_of().decoder
    with key_value_cache(decoder):
        decoder(random_ids(1, 1), torch.randn(1, 3, 24))
        decoder(random_ids(1, 1), torch.randn(1, 5, 24))


REFUSED = {
    "source outside the vocabulary": (
        lambda: model_of()(torch.tensor([[1, 99]]), random_ids(1, 3)),
        ["source_ids holds 99", f"{len(VOCABULARY)} ids"],
    ),
    "target outside the vocabulary": (
        lambda: model_of()(random_ids(1, 3), torch.tensor([[1, -1]])),
        ["target_ids holds -1", f"{len(VOCABULARY)} ids"],
    ),
    "target longer than the positions": (
        lambda: model_of()(random_ids(1, 3), random_ids(1, 49)),
        ["target_ids has 49 tokens", "48 positions"],
    ),
    "source longer than the positions": (
        lambda: greedy_decode(model_of(), random_ids(1, 50)),
        ["source_ids has 50 tokens", "48 positions"],
    ),
    "unequal batches": (
        lambda: model_of()(random_ids(2, 9), random_ids(3, 4)),
        ["source_ids", "(2, 9)", "target_ids", "(3, 4)"],
    ),
    "unequal batches, decoder alone": (
        lambda: model_of().decoder(random_ids(3, 4), torch.randn(2, 9, 24)),
        ["(3, 4, 24)", "memory (2, 9, 24)"],
    ),
    "memory of another width": (
        lambda: model_of().decoder(random_ids(2, 4), torch.randn(2, 9, 32)),
        ["memory", "(2, 9, 32)", "24"],
    ),
    "mask of another shape": (
        lambda: model_of()(random_ids(2, 9), random_ids(2, 4), torch.ones(2, 8)),
        ["(2, 8)", "(2, 9)"],
    ),
    "source as a list": (lambda: model_of()([[3, 4]], random_ids(1, 3)), ["source_ids", "list"]),
    "target of floats": (lambda: model_of()(random_ids(1, 3), torch.ones(1, 3)), ["target_ids", "float32"]),
    "target of one axis": (
        lambda: model_of()(random_ids(1, 3), torch.ones(1).long()),
        ["target_ids", "(1,)"],
    ),
    "config without fields": (lambda: Decoder(SimpleNamespace(vocab_size=3)), ["lacks", "hidden_size"]),
    "layer without fields": (lambda: DecoderLayer(SimpleNamespace()), ["lacks", "hidden_size"]),
    "model without fields": (lambda: EncoderDecoder(SimpleNamespace()), ["lacks", "hidden_size"]),
    "unknown characters": (lambda: encode_text("5/3/2021 ü"), ["'/', 'ü'", "in words"]),
    "no text": (lambda: encode_text(2021), ["int", "string"]),
    "text for texts": (lambda: translate(model_of(), "5 may 2021"), ["'5 may 2021'", "list"]),
    "no texts": (lambda: pad_texts([]), ["[]", "one text or more"]),
    "nothing to match": (lambda: exact_match(model_of(), []), ["[]", "one text or more"]),
    "no pairs": (lambda: train(model_of(), []), ["no pairs", "make_dates"]),
    "no steps": (lambda: train(model_of(), make_dates(1, 0), steps=0), ["steps is 0"]),
    "no batch": (lambda: train(model_of(), make_dates(1, 0), batch_size=0), ["batch_size is 0"]),
    "no dates": (lambda: make_dates(0, seed=0), ["count is 0"]),
    "half a date": (lambda: make_dates(1.5, seed=0), ["count is 1.5"]),
    "train mode": (lambda: translate(model_of().train(), ["may"]), ["train mode", "eval()"]),
    "too many new tokens": (
        lambda: greedy_decode(model_of(), random_ids(1, 3), max_new_tokens=49),
        ["max_new_tokens is 49", "48 positions"],
    ),
    "no new tokens": (
        lambda: greedy_decode(model_of(), random_ids(1, 3), max_new_tokens=0),
        ["max_new_tokens is 0"],
    ),
    "cache in cache": (decode_twice, ["key_value_cache already"]),
    "other memory": (change_memory, ["(1, 3, 24)", "(1, 5, 24)"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_in_two_sentences(case):
    call, expected = REFUSED[case]
    with pytest.raises((ValueError, TypeError)) as refused:
        call()
    message = str(refused.value)
    assert all(part in message for part in expected), message
    assert len(re.findall(r"[.;](?= [A-Z]|$)", message)) <= 2, message
