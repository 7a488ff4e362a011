"""What holds for attention whatever the numbers, the sizes and the mask (property tests)."""

import math

import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from utils.attention import (
    MultiHeadAttention,
    MultiHeadAttentionList,
    causal_mask,
    convert_mask,
    padding_mask,
    scaled_dot_product_attention,
    weights_of_list,
)
from utils.guards import MASK_CONVENTIONS

SUM_TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 3e-2, torch.float16: 5e-3}

every_case = settings(max_examples=100, derandomize=True, deadline=None)  # the same cases in every run
small = st.integers(1, 6)


@st.composite
def random_inputs(draw, dtypes=(torch.float64,)):
    """Query, key and value of any size, from almost 0 to large, and any bool mask that broadcasts."""
    batch, num_heads, query, key, head_dim = (draw(small) for _ in range(5))
    dtype, scale = draw(st.sampled_from(dtypes)), draw(st.sampled_from([0.01, 1.0, 8.0]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))

    def random(*shape):
        return (torch.randn(*shape, generator=generator, dtype=torch.float64) * scale).to(dtype)

    shape = [size if draw(st.booleans()) else 1 for size in (batch, num_heads, query, key)]
    share = draw(st.sampled_from([0.3, 0.7, 1.0]))
    mask = torch.rand(shape[draw(st.integers(0, 4)) :], generator=generator) < share
    key_shape = (batch, num_heads, key, head_dim)
    return random(batch, num_heads, query, head_dim), random(*key_shape), random(*key_shape), mask


@st.composite
def random_layer(draw, kind=MultiHeadAttention):
    """A layer of any size in float64 and a hidden state for it;
    further random numbers follow from the case."""
    batch, seq, num_heads, head_dim = (draw(small) for _ in range(4))
    torch.manual_seed(draw(st.integers(0, 2**32)))
    layer = kind(num_heads * head_dim, num_heads).double()
    return layer, torch.randn(batch, seq, num_heads * head_dim, dtype=torch.float64)


def assert_close(own, expected):
    torch.testing.assert_close(own, expected, rtol=1e-12, atol=1e-12)


@every_case
@given(random_inputs(dtypes=list(SUM_TOLERANCES)))
def test_rows_sum_to_1_and_masked_weights_are_0(inputs):
    *qkv, mask = inputs
    output, attn_weights = scaled_dot_product_attention(*qkv, mask)
    keep = mask.expand(attn_weights.shape)
    assert (attn_weights >= 0).all() and output.isfinite().all()
    assert (attn_weights[~keep] == 0).all()
    wanted = keep.any(dim=-1).to(attn_weights.dtype)  # 1, but 0 for a row with everything masked
    torch.testing.assert_close(attn_weights.sum(dim=-1), wanted, rtol=0, atol=SUM_TOLERANCES[output.dtype])


@every_case
@given(random_inputs())
def test_equals_torch_and_a_loop(inputs):
    *(query, key, value), mask = inputs
    output, attn_weights = scaled_dot_product_attention(query, key, value, mask)
    expected = F.scaled_dot_product_attention(query, key, value, attn_mask=mask.expand(attn_weights.shape))
    torch.testing.assert_close(output, expected, rtol=1e-11, atol=1e-11)  # of values up to 30
    q, ks, keep = query[0, 0, 0], key[0, 0], mask.expand(attn_weights.shape)[0, 0, 0].tolist()
    scores = [sum((q * k).tolist()) / math.sqrt(len(q)) for k in ks]
    scores = [score if kept else -math.inf for score, kept in zip(scores, keep, strict=True)]
    if any(keep):
        powers = [math.exp(score - max(scores)) for score in scores]
        expected = torch.tensor([power / sum(powers) for power in powers], dtype=torch.float64)
        torch.testing.assert_close(attn_weights[0, 0, 0], expected, rtol=1e-11, atol=1e-11)


@every_case
@given(random_inputs(dtypes=list(SUM_TOLERANCES)), st.data())
def test_a_row_with_everything_masked_is_0_and_touches_nothing(inputs, data):
    *qkv, mask = inputs
    batch, num_heads, query, key = (*qkv[0].shape[:-1], qkv[1].shape[-2])
    row = data.draw(st.integers(0, query - 1))
    mask = mask.expand(batch, num_heads, query, key)
    emptied = mask.clone()
    emptied[:, :, row] = False
    for tensor in qkv:
        tensor.requires_grad_()
    before, _ = scaled_dot_product_attention(*qkv, mask)
    output, attn_weights = scaled_dot_product_attention(*qkv, emptied)
    assert (output[:, :, row] == 0).all() and (attn_weights[:, :, row] == 0).all()
    others = [index for index in range(query) if index != row]
    assert torch.equal(output[:, :, others], before[:, :, others])
    gradients = torch.autograd.grad(output.square().sum() + attn_weights.square().sum(), qkv)
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert (gradients[0][:, :, row] == 0).all()


@every_case
@given(random_layer(), st.data())
def test_later_tokens_cannot_be_felt_under_the_causal_mask(layer, data):
    attention, hidden_state = layer
    seq_len = hidden_state.shape[1]
    now = data.draw(st.integers(0, seq_len - 1))
    changed = hidden_state.clone()
    changed[:, now + 1 :] = 100 * torch.randn_like(changed[:, now + 1 :])
    expected, _ = attention(hidden_state, causal_mask(seq_len))
    output, _ = attention(changed, causal_mask(seq_len))
    assert_close(output[:, : now + 1], expected[:, : now + 1])
    alone, _ = attention(hidden_state[:, : now + 1], causal_mask(now + 1))
    assert_close(alone, expected[:, : now + 1])
    if now + 1 < seq_len:  # and the later ones do feel it
        assert not torch.allclose(output[:, now + 1 :], expected[:, now + 1 :])


@every_case
@given(random_layer(), st.data())
def test_pads_cannot_be_felt(layer, data):
    attention, hidden_state = layer
    batch, seq_len, _ = hidden_state.shape
    lengths = data.draw(st.lists(st.integers(1, seq_len), min_size=batch, max_size=batch))
    attention_mask = (torch.arange(seq_len) < torch.tensor(lengths)[:, None]).long()
    real = attention_mask.bool()
    noise = 100 * torch.randn_like(hidden_state)
    changed = torch.where(real[..., None], hidden_state, noise).requires_grad_()
    expected, _ = attention(hidden_state, padding_mask(attention_mask))
    output, attn_weights = attention(changed, padding_mask(attention_mask))
    assert_close(output[real], expected[real])
    felt = output[real].sum() + attn_weights.transpose(1, 2)[real].square().sum()
    (gradient,) = torch.autograd.grad(felt, changed)
    assert (gradient[~real] == 0).all()
    for index, length in enumerate(lengths):  # equal to the sentence without its pads
        alone, _ = attention(hidden_state[[index], :length])
        assert_close(output[index, :length], alone[0])


@every_case
@given(random_layer(), st.booleans())
def test_a_batch_equals_its_members_one_by_one(layer, causal):
    attention, hidden_state = layer
    mask = causal_mask(hidden_state.shape[1]) if causal else None
    together = attention(hidden_state, mask)
    one_by_one = [attention(hidden_state[[index]], mask) for index in range(len(hidden_state))]
    assert_close(together, tuple(torch.cat(parts) for parts in zip(*one_by_one, strict=True)))


@every_case
@given(random_layer(), st.data())
def test_permuting_tokens_permutes_outputs(layer, data):
    attention, hidden_state = layer
    order = data.draw(st.permutations(range(hidden_state.shape[1])))
    keep = torch.rand(hidden_state.shape[1], hidden_state.shape[1]) < 0.7
    expected, expected_weights = attention(hidden_state, keep)
    output, attn_weights = attention(hidden_state[:, order], keep[order][:, order])
    assert_close(output, expected[:, order])
    assert_close(attn_weights, expected_weights[:, :, order][..., order])


@every_case
@given(random_layer(), st.data())
def test_the_order_of_a_memory_does_not_matter_to_the_output(layer, data):
    attention, hidden_state = layer
    memory = torch.randn(len(hidden_state), data.draw(small), hidden_state.shape[-1], dtype=torch.float64)
    order = data.draw(st.permutations(range(memory.shape[1])))
    expected, expected_weights = attention(hidden_state, memory=memory)
    output, attn_weights = attention(hidden_state, memory=memory[:, order])
    assert_close(output, expected)
    assert_close(attn_weights, expected_weights[..., order])


@every_case
@given(random_layer(kind=MultiHeadAttentionList), st.data())
def test_the_list_of_heads_equals_the_vectorised(layer, data):
    heads, hidden_state = layer
    batch, seq_len, hidden_size = hidden_state.shape
    num_heads = len(heads.heads)
    attention = MultiHeadAttention(hidden_size, num_heads).double()
    attention.load_state_dict(weights_of_list(heads))
    memory = torch.randn(batch, data.draw(small), hidden_size, dtype=torch.float64)
    sizes = (batch, num_heads, seq_len, memory.shape[1])
    shape = [size if data.draw(st.booleans()) else 1 for size in sizes]
    mask = torch.rand(shape[data.draw(st.integers(0, 4)) :]) < 0.7
    assert_close(attention(hidden_state, mask, memory), heads(hidden_state, mask, memory))
    assert_close(attention(hidden_state), heads(hidden_state))


@every_case
@given(
    st.lists(st.sampled_from(MASK_CONVENTIONS), min_size=1, max_size=5), st.integers(0, 2**32), small, small
)
def test_converting_a_mask_to_and_fro_changes_nothing(names, seed, query, key):
    keep = torch.rand(query, key, generator=torch.Generator().manual_seed(seed)) < 0.5
    mask, now = keep, "keep"
    for name in names:
        mask, now = convert_mask(mask, now, name), name
        assert mask.shape == keep.shape
    assert torch.equal(convert_mask(mask, now, "keep"), keep)


@every_case
@given(random_inputs())
def test_one_vector_added_to_all_keys_changes_no_weight(inputs):
    """It adds one number to all the scores of a row, which softmax cannot see."""
    *(query, key, value), mask = inputs
    _, expected = scaled_dot_product_attention(query, key, value, mask)
    _, attn_weights = scaled_dot_product_attention(query, key + key[:, :, :1], value, mask)
    torch.testing.assert_close(attn_weights, expected, rtol=0, atol=1e-10)
