"""The positions room: each scheme against values worked by hand, and what it lets an encoder know."""

import math

import pytest
import torch
import torch.nn.functional as F
from refused import refusals
from tiny_models import bare_config, close, ids, new_config, new_encoder

from utils.encoder import Embeddings, Encoder
from utils.guards import POSITIONS
from utils.positions import RelativeAttention, rotate, sinusoidal_positions

each_scheme = pytest.mark.parametrize("positions", POSITIONS)


@each_scheme
def test_without_positions_the_encoder_knows_no_order(positions):
    whole, input_ids, order = new_encoder(positions=positions), ids(1, 6), torch.tensor([4, 2, 0, 5, 1, 3])
    before = whole(input_ids).last_hidden_state[:, order]
    apart = (before - whole(input_ids[:, order]).last_hidden_state).abs().max()
    assert apart < 1e-12 if positions is None else apart > 1e-2


@each_scheme
def test_some_schemes_know_the_distance_only(positions):
    whole, text = new_encoder(positions=positions), ids(1, 6)
    moved = torch.cat([ids(1, 4, seed=1), text], dim=1)
    there = whole(moved, attention_mask=torch.tensor([[0] * 4 + [1] * 6])).last_hidden_state[:, 4:]
    apart, has_a_table = (whole(text).last_hidden_state - there).abs().max(), positions in POSITIONS[:2]
    assert apart > 1e-2 if has_a_table else apart < 1e-10
    if not has_a_table:  # and so there is no last position
        assert whole(ids(1, 300)).last_hidden_state.isfinite().all()


def test_sinusoidal_positions_are_those_worked_by_hand():
    table = sinusoidal_positions(3, 4)
    expected = [
        [0.0, 1.0, 0.0, 1.0],
        [0.8414710, 0.5403023, 0.0099998, 0.9999500],  # sin 1, cos 1, sin 0.01, cos 0.01
        [0.9092974, -0.4161468, 0.0199987, 0.9998000],  # sin 2, cos 2, sin 0.02, cos 0.02
    ]
    close(table, torch.tensor(expected), 1e-6)
    table = sinusoidal_positions(40, 4).double()  # the paper's reason: a step of k is linear
    close(table[20:33] @ torch.linalg.lstsq(table[:20], table[7:27]).solution, table[27:40], 1e-5)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_a_table_is_added_to_tokens_and_segments_and_only_one_is_learned(positions):
    part = Embeddings(new_config(), positions).eval()
    table = part.position.weight
    assert table.shape == (12, 16) and table.requires_grad == (positions == "learned")
    summed = part.token.weight[7] + part.segment.weight + table[:2]
    found = part(torch.tensor([[7, 7]]), torch.tensor([[0, 1]]))[0]
    close(found, F.layer_norm(summed, (16,), eps=1e-12), 1e-5)


def test_rotation_is_a_product_of_complex_numbers():
    torch.manual_seed(0)
    per_head = torch.randn(2, 3, 5, 8, dtype=torch.float64)
    as_complex = torch.view_as_complex(per_head.view(2, 3, 5, 4, 2))
    turns = [[complex(math.cos(a), math.sin(a)) for a in (p, p / 10, p / 100, p / 1000)] for p in range(5)]
    expected = torch.view_as_real(as_complex * torch.tensor(turns, dtype=torch.complex128)).flatten(-2)
    close(rotate(per_head), expected, 1e-12)
    assert rotate(per_head.float()).dtype == torch.float32


def test_relative_bias_is_one_number_for_each_head_and_distance(monkeypatch):
    monkeypatch.setattr(RelativeAttention, "max_distance", 3)
    torch.manual_seed(0)
    part = RelativeAttention(new_config()).double().eval()
    assert part.distance_bias.weight.shape == (7, 2)
    for query_len, key_len in ((6, 9), (9, 6)):
        distance = (torch.arange(key_len) - torch.arange(query_len)[:, None]).clamp(-3, 3)
        expected = part.distance_bias.weight[distance + 3].permute(2, 0, 1)  # (heads, query, key)
        assert torch.equal(part.position_bias(query_len, key_len), expected)
    hidden_state = torch.randn(1, 6, 16, dtype=torch.float64)
    query, key, value = part.project(hidden_state, hidden_state)
    expected = F.scaled_dot_product_attention(query, key, value, attn_mask=part.position_bias(6, 6))
    close(part.attend(query, key, value, None)[0], expected)


ODD = {"num_attention_heads": 1, "hidden_size": 7}
test_refused = refusals(
    ("unknown scheme", lambda: Encoder(bare_config(), positions="absolute"), ValueError, "'absolute'"),
    ("odd table", lambda: Encoder(bare_config(**ODD), positions="sinusoidal"), ValueError, "7"),
    ("odd heads", lambda: Encoder(bare_config(**ODD), positions="rotary")(ids(1, 2)), ValueError, "7"),
)
