"""The dates room: what the dates mean, text and ids, each training step, the refusals."""

import re
from functools import partial

import pytest
import torch
from dateutil import parser
from refused import refusals
from tiny_models import new_encoder_decoder as small_model
from torch.optim.optimizer import register_optimizer_step_pre_hook

from utils import dates
from utils.dates import DATE_CONFIG, VOCABULARY, decode_ids, encode_text, make_dates, pad_texts, train
from utils.decoder import END, PAD, START, EncoderDecoder


def test_a_thousand_dates_mean_what_their_targets_say():
    weekdays = 0
    for text, target in make_dates(1000, seed=5):
        day = parser.parse(text, fuzzy=True).date()
        named = re.match("(mon|tue|wed|thu|fri|sat|sun)", text.lower())
        weekdays += named is not None
        assert day.isoformat() == target and 1900 <= day.year <= 2099, text
        assert named is None or named[0] == f"{day:%a}".lower(), text
    assert weekdays in range(600, 730)  # two of three


def test_dates_come_in_every_form_and_ordinals_end_as_in_english():
    texts = [text for text, _ in make_dates(3000, seed=0)]
    shapes = {re.sub(r"[A-Za-z]{3,}", "w", re.sub(r"\d+", "1", text)) for text in texts}
    bare = {"w 1, 1", "w 1 1", "1 w 1", "1, w 1", "w 1th, 1", "1th w 1", "1, w 1th", "w 1th of w 1"}
    assert bare <= shapes and {f"w, {form}" for form in bare} <= shapes
    for word in ("March ", "mar ", "Friday, ", "fri, ", "the "):
        assert any(word in text for text in texts), word
    special = {"1": "st", "2": "nd", "3": "rd", "21": "st", "22": "nd", "23": "rd", "31": "st"}
    found = re.findall(r"\b(\d{1,2})([a-z]{2})\b", " ".join(texts))
    assert len({day for day, _ in found}) == 31
    assert all(ending == special.get(day, "th") for day, ending in found)


def test_held_out_days_are_never_trained_on():
    trained, held_out = ({day for _, day in make_dates(10_000, 0, held_out=h)} for h in (False, True))
    assert not trained & held_out and len(held_out) > 4000  # and nothing about them is special:
    assert len({day[5:7] for day in held_out}) == 12 and len({day[8:] for day in held_out}) == 31


def test_equal_seeds_give_equal_dates_and_unequal_ones_do_not():
    assert make_dates(50, seed=3) == make_dates(80, seed=3)[:50] != make_dates(50, seed=4)
    stored = [("monday, dec 5th, 2050", "2050-12-05"), ("Monday, 12 January 2071", "2071-01-12")]
    assert make_dates(2, seed=0) == stored  # what a notebook has stored depends on them, in every Python


def test_every_date_can_be_encoded_and_read_back_and_fits_the_positions():
    longest = 0
    for text in sum(make_dates(3000, seed=6), ()):
        ids = encode_text(text)
        assert decode_ids(ids) == text.lower()
        longest = max(longest, len(ids))
    assert longest == len("Wednesday, the 22nd of September 2021") + 2 <= DATE_CONFIG.max_position_embeddings
    ids, mask = pad_texts(["Wednesday, the 22nd of September 2021"])
    assert EncoderDecoder(DATE_CONFIG)(ids, ids, mask).logits.shape == (1, longest, len(VOCABULARY))


def test_ids_are_those_of_the_vocabulary_and_reading_stops_at_the_first_end():
    assert encode_text("B-1") == [START, *map(VOCABULARY.index, "b-1"), END]
    assert [VOCABULARY[number] for number in (PAD, START, END)] == ["[PAD]", "[START]", "[END]"]
    assert len(set(VOCABULARY)) == len(VOCABULARY) == DATE_CONFIG.vocab_size
    ids = torch.tensor([*encode_text("may"), *encode_text("june"), PAD])
    assert decode_ids(ids) == decode_ids(ids.tolist()) == decode_ids(encode_text("may")[:-1]) == "may"
    assert dates.show_ids(encode_text("5 m")) == ["[START]", "5", "␣", "m", "[END]"]


def test_loss_is_the_mean_surprise_at_each_next_token():
    """Token by token, each target alone and without any pad."""
    model, pairs = small_model(dtype=torch.float64), [("may 5", "1"), ("5 june 1999", "1999-06-05")]
    surprises = []
    for source, target in pairs:
        ids = torch.tensor([encode_text(target)])
        logits = model(torch.tensor([encode_text(source)]), ids).logits[0]
        surprises += [-logits[i].softmax(-1)[ids[0, i + 1]].log() for i in range(ids.shape[1] - 1)]
    assert len(surprises) == 2 + 11
    assert dates.next_token_loss(model, pairs).item() == pytest.approx(sum(surprises).item() / 13, abs=1e-10)


@pytest.mark.parametrize("count, dropout", [(500, 0.0), (1, 0.5)], ids=["batches", "dropout"])
def test_equal_seeds_give_equal_trainings_and_unequal_ones_do_not(count, dropout):
    pairs, runs = make_dates(count, seed=0), []
    for place, seed in enumerate((0, 0, 1)):
        model = small_model(hidden_dropout_prob=dropout)
        torch.manual_seed(place)  # whatever the generator stands at
        runs.append((train(model, pairs, steps=3, batch_size=4, seed=seed), model.state_dict()))
    (first, weights), (again, same), (other, _) = runs
    assert first == again != other and all(torch.equal(weights[name], same[name]) for name in weights)


def test_each_step_goes_by_the_gradient_of_its_own_batch_cut_to_length_one():
    model, pairs, norms = small_model(), make_dates(1, seed=0), []  # one pair, so that every batch is known

    def compare(optimizer, args, kwargs):
        gradients = torch.autograd.grad(dates.next_token_loss(model, pairs * 4), list(model.parameters()))
        norms.append(torch.cat([gradient.flatten() for gradient in gradients]).norm())
        for weight, gradient in zip(model.parameters(), gradients, strict=True):
            torch.testing.assert_close(weight.grad, gradient / norms[-1].clamp(min=1), atol=1e-6, rtol=1e-4)

    with register_optimizer_step_pre_hook(compare):
        train(model, pairs, steps=3, batch_size=4)
    assert len(norms) == 3 and norms[0] > 1


def test_training_takes_one_thread_and_gives_the_others_back(recwarn, request):
    request.addfinalizer(partial(torch.set_num_threads, torch.get_num_threads()))
    seen, model = [], small_model()
    model.register_forward_hook(lambda module, args, output: seen.append(torch.get_num_threads()))
    torch.set_num_threads(2)
    train(model, make_dates(5, seed=0), steps=1, batch_size=2)
    assert seen == [1] and torch.get_num_threads() == 2
    with pytest.raises(ValueError):
        train(model, [])
    assert torch.get_num_threads() == 2
    assert not recwarn.list, "a single step is a training"


test_what_does_not_fit_is_refused = refusals(
    ("unknown characters", lambda: encode_text("5/3/2021 ü"), ValueError, "'/', 'ü'"),
    ("no text", lambda: encode_text(2021), TypeError, "int"),
    ("text for texts", lambda: dates.translate(small_model(), "5 may 2021"), TypeError, "'5 may 2021'"),
    ("no texts", lambda: pad_texts([]), ValueError, "no texts"),
    ("no pairs", lambda: train(small_model(), []), ValueError, "make_dates()"),
    ("no steps", lambda: train(small_model(), make_dates(1, 0), steps=0), ValueError, "steps is 0"),
    ("no batch", lambda: train(small_model(), make_dates(1, 0), batch_size=0), ValueError, "batch_size is 0"),
    ("no dates", lambda: make_dates(0, seed=0), ValueError, "count is 0"),
)
