"""The attention room equals PyTorch, the real model and values worked by hand; and what it refuses."""

import itertools
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from refused import refusals
from torch import nn
from transformers import BertConfig

from utils import attention as room
from utils.attention import AttentionHead, MultiHeadAttention, MultiHeadAttentionList, causal_mask
from utils.guards import MASK_CONVENTIONS

attend, convert_mask, padding_mask = room.scaled_dot_product_attention, room.convert_mask, room.padding_mask
TOLERANCES = {torch.float64: 5e-13, torch.float32: 1e-6, torch.bfloat16: 1.5e-2, torch.float16: 2.5e-3}
each_dtype = pytest.mark.parametrize("dtype", TOLERANCES, ids=lambda dtype: str(dtype).removeprefix("torch."))

MASKS = {  # each from (batch, heads, query, key)
    "no mask": lambda *sizes: None,
    "queries by keys": lambda *sizes: torch.ones(sizes[2:], dtype=torch.bool).tril(),
    "padding": lambda *sizes: padding_mask(torch.arange(sizes[3]).expand(sizes[0], -1) < sizes[3] // 2 + 1),
    "each head its own": lambda *sizes: torch.rand(sizes) < 0.5,
    "some rows empty": lambda *sizes: (torch.arange(sizes[2]) % 2).bool()[:, None],
    "all empty": lambda *sizes: torch.zeros(1, 1, 1, 1, dtype=torch.bool),
}
each_mask = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)


@pytest.fixture(autouse=True)
def fixed_seed():
    torch.manual_seed(0)


def assert_equal(own, expected):
    """Tensors, or rows of them, are equal within the tolerance of the dtype; NaN equals nothing."""
    tolerance = TOLERANCES[(expected if isinstance(expected, torch.Tensor) else expected[0]).dtype]
    torch.testing.assert_close(own, expected, rtol=tolerance, atol=tolerance)


def random_qkv(*leading, query=5, key=7, head_dim=8, width=8, dtype=torch.float64, grad=False):
    shapes = ((query, head_dim), (key, head_dim), (key, width))
    return [torch.randn(*leading, *shape, dtype=dtype, requires_grad=grad) for shape in shapes]


def peers(hidden_size=24, num_heads=4, dtype=torch.float64):
    """nn.MultiheadAttention and MultiHeadAttention with equal weights, and with biases that are not 0."""
    peer = nn.MultiheadAttention(hidden_size, num_heads, batch_first=True)
    for bias in (peer.in_proj_bias, peer.out_proj.bias):
        nn.init.normal_(bias)
    own = MultiHeadAttention(hidden_size, num_heads)
    own.load_state_dict(room.weights_of_torch(peer))
    return peer.to(dtype).eval(), own.to(dtype).eval()


SIZES = [(2, 3, 5, 7), (1, 1, 1, 1), (2, 2, 6, 6), (0, 2, 3, 4), (2, 2, 1, 9), (1, 2, 40, 33)]


@each_dtype
@each_mask
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_equals_torch_scaled_dot_product_attention(sizes, mask, dtype):
    batch, heads, query, key = sizes
    qkv = random_qkv(batch, heads, query=query, key=key, head_dim=12, width=10, dtype=dtype)
    keep = mask(*sizes)
    output, attn_weights = attend(*qkv, keep)
    assert_equal(output, F.scaled_dot_product_attention(*qkv, attn_mask=keep))
    assert attn_weights.shape == sizes


@each_mask
def test_gradients_are_those_of_torch_and_of_finite_differences(mask):
    qkv = random_qkv(2, 2, query=3, key=4, head_dim=3, width=2, grad=True)
    keep = mask(2, 2, 3, 4)
    upstream = torch.randn(2, 2, 3, 2, dtype=torch.float64)
    own = torch.autograd.grad(attend(*qkv, keep)[0], qkv, upstream)
    expected = torch.autograd.grad(F.scaled_dot_product_attention(*qkv, attn_mask=keep), qkv, upstream)
    assert_equal(own, expected)
    assert torch.autograd.gradcheck(lambda *inputs: attend(*inputs, keep), qkv)


@pytest.mark.parametrize("leading", [(), (4,), (2, 3, 2), (0,), (2, 0, 3)], ids=str)
def test_any_leading_axes(leading):
    qkv, mask = random_qkv(*leading), torch.rand(5, 7) < 0.6
    output, attn_weights = attend(*qkv, mask)
    assert attn_weights.shape == (*leading, 5, 7)
    assert_equal(output, F.scaled_dot_product_attention(*qkv, attn_mask=mask))


def test_no_keys_at_all_is_the_rule_of_the_empty_row():
    for mask in (None, torch.ones(3, 0), torch.ones(1, 1, dtype=torch.bool)):
        output, attn_weights = attend(*random_qkv(2, query=3, key=0), mask)
        assert attn_weights.shape == (2, 3, 0)
        assert torch.equal(output, torch.zeros(2, 3, 8, dtype=torch.float64))


def test_bool_int_and_float_masks_say_the_same():
    qkv = random_qkv(2, query=4, key=4)
    expected = attend(*qkv, causal_mask(4))
    assert attend(*qkv, torch.tensor(1.0))[1].min() > 0
    for dtype in (torch.int64, torch.uint8, torch.float32, torch.float16):
        own = attend(*qkv, causal_mask(4).to(dtype))
        assert torch.equal(own[0], expected[0]) and torch.equal(own[1], expected[1])


def test_inputs_and_mask_are_left_as_they_were():
    *qkv, mask, scores = tensors = [*random_qkv(2), torch.rand(5, 7) < 0.5, torch.randn(2, 5, 7)]
    before = [tensor.clone() for tensor in tensors]
    attend(*qkv, mask)
    room.masked_softmax(scores, mask)
    assert all(torch.equal(a, b) for a, b in zip(tensors, before, strict=True))


def test_scores_stay_within_float16_where_the_plain_product_does_not():
    query = torch.full((1, 64), 40.0, dtype=torch.float16)
    assert (query @ query.T).isinf().all() and room.attention_scores(query, query).item() == 40 * 40 * 8


@each_dtype
def test_empty_row_is_zero_in_values_and_gradients(dtype):
    qkv, mask = random_qkv(2, dtype=dtype, grad=True), torch.ones(2, 5, 7, dtype=torch.bool)
    mask[0, 2], mask[1, :, 3] = False, False
    with torch.autograd.set_detect_anomaly(True):  # which refuses a NaN between the steps as well
        output, attn_weights = attend(*qkv, mask)
        query, key, value = torch.autograd.grad(output.sum() + attn_weights.square().sum(), qkv)
    for zero in (output[0, 2], attn_weights[0, 2], query[0, 2], key[1, 3], value[1, 3]):
        assert (zero == 0).all()
    assert all(tensor.isfinite().all() for tensor in (output, attn_weights, query, key, value))
    assert (query[0, 1] != 0).any() and (value[0] != 0).all()


def test_causal_and_padding_mask():
    assert causal_mask(3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert causal_mask(3).dtype == torch.bool
    assert causal_mask(1).tolist() == [[True]] and causal_mask(0).shape == (0, 0)
    for dtype in (torch.int64, torch.bool, torch.float32):
        mask = padding_mask(torch.tensor([[1, 1, 0], [1, 0, 0]]).to(dtype))
        assert mask.dtype == torch.bool and mask.shape == (2, 1, 1, 3)
        assert mask[:, 0, 0].tolist() == [[True, True, False], [True, False, False]]
    both = mask & causal_mask(3)
    assert both[0, 0].tolist() == [[True, False, False], [True, True, False], [True, True, False]]


LOWEST = torch.finfo(torch.float32).min
ONE_MASK = {
    "tokenizer": torch.tensor([[1, 1, 0], [0, 1, 0]]),
    "keep": torch.tensor([[True, True, False], [False, True, False]]),
    "ignore": torch.tensor([[False, False, True], [True, False, True]]),
    "additive": torch.tensor([[0, 0, LOWEST], [LOWEST, 0, LOWEST]]),
}


@pytest.mark.parametrize("source,target", [*itertools.product(MASK_CONVENTIONS, repeat=2)])
def test_convert_mask_between_all_conventions(source, target):
    converted = convert_mask(ONE_MASK[source], source, target)
    assert torch.equal(converted, ONE_MASK[target]) and converted.dtype == ONE_MASK[target].dtype


@each_dtype
def test_additive_masks_of_every_dtype_and_kind(dtype):
    additive = convert_mask(ONE_MASK["keep"], "keep", "additive", dtype)
    assert additive.dtype == dtype and additive.min() == torch.finfo(dtype).min
    for low in (float("-inf"), -10000.0, torch.finfo(dtype).min):
        other = torch.zeros(2, 3, dtype=dtype).masked_fill(ONE_MASK["ignore"], low)
        assert torch.equal(convert_mask(other, "additive", "keep"), ONE_MASK["keep"])


KINDS = ["self", "causal", "padding", "cross", "not contiguous", "length 1", "empty batch"]


@each_dtype
@pytest.mark.parametrize("kind", KINDS)
def test_equals_torch_multihead_attention(kind, dtype):
    peer, own = peers(dtype=dtype)
    batch, seq = {"length 1": (2, 1), "empty batch": (0, 5)}.get(kind, (3, 6))
    hidden_state, memory, mask, theirs = torch.randn(batch, seq, 24, dtype=dtype), None, None, {}
    if kind == "causal":
        mask, theirs = causal_mask(seq), {"attn_mask": ~causal_mask(seq)}
    if kind == "padding":
        attention_mask = (torch.arange(6) < torch.tensor([[6], [4], [1]])).long()
        mask, theirs = padding_mask(attention_mask), {"key_padding_mask": attention_mask == 0}
    if kind == "cross":
        memory = torch.randn(batch, 9, 24, dtype=dtype)
    if kind == "not contiguous":
        hidden_state = torch.randn(6, 3, 48, dtype=dtype)[..., ::2].transpose(0, 1)
        memory = torch.randn(24, 9, 3, dtype=dtype).permute(2, 1, 0)
    there = hidden_state if memory is None else memory
    expected = peer(hidden_state, there, there, average_attn_weights=False, **theirs)
    assert_equal(own(hidden_state, mask, memory), expected)


@each_mask
def test_one_head_and_a_list_of_them_are_those_of_all(mask):
    own = MultiHeadAttention(24, 4).double()
    hidden_state, memory = torch.randn(2, 5, 24).double(), torch.randn(2, 7, 24).double()
    keep = mask(2, 4, 5, 7)
    _, expected = own(hidden_state, keep, memory)
    for index, one in enumerate(room.split_mask(keep, 4)):
        head, rows = AttentionHead(24, 6).double(), slice(6 * index, 6 * (index + 1))
        head.load_state_dict({n: w[rows] for n, w in own.state_dict().items() if not n.startswith("output")})
        output, attn_weights = head(hidden_state, one, memory)
        assert_equal(attn_weights, expected[:, index])
        assert output.shape == (2, 5, 6)
    heads = MultiHeadAttentionList(24, 4).double()
    own.load_state_dict(room.weights_of_list(heads))
    torch.testing.assert_close(own(hidden_state, keep, memory), heads(hidden_state, keep, memory))
    count = sum(parameter.numel() for parameter in heads.parameters())
    assert count == sum(parameter.numel() for parameter in peers()[0].parameters()) == 4 * (24 * 24 + 24)


def test_works_under_autocast():
    own, hidden_state = MultiHeadAttention(24, 4), torch.randn(2, 5, 24)
    expected, _ = own(hidden_state)
    with torch.autocast("cpu", torch.bfloat16):
        output, _ = own(hidden_state.bfloat16(), causal_mask(5) | True)
    torch.testing.assert_close(output.float(), expected, atol=5e-2, rtol=5e-2)


class Biased(room.LayerAttention):
    """With a number of its own for each head, query and key."""

    def position_bias(self, query_len, key_len):
        numbers = torch.arange(self.num_heads * query_len * key_len, dtype=torch.float64)
        return numbers.sin().view(self.num_heads, query_len, key_len)


@each_mask
@pytest.mark.parametrize("kind", [room.LayerAttention, Biased])
def test_fused_attention_gives_the_same_and_no_weights(kind, mask):
    layer = kind(BertConfig(hidden_size=24, num_attention_heads=4)).double().eval()
    hidden_state, memory = torch.randn(2, 5, 24).double(), torch.randn(2, 7, 24).double()
    keep = mask(2, 4, 5, 7)
    for given in (keep, keep if keep is None else keep.long()):
        output, attn_weights = layer(hidden_state, given, memory)
        fused, none = room.use_fused_attention(layer)(hidden_state, given, memory)
        assert none is None
        assert_equal(fused, output)
        _, again = room.use_fused_attention(layer, fused=False)(hidden_state, given, memory)
        assert_equal(again, attn_weights)


def test_fused_attention_is_the_kernel_of_pytorch(monkeypatch):
    layer = room.LayerAttention(BertConfig(hidden_size=8, num_attention_heads=2))
    model = room.use_fused_attention(nn.Sequential(nn.Sequential(layer)))
    calls, kernel = [], F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *a, **k: calls.append(k) or kernel(*a, **k))
    for mode in (False, True):
        model.train(mode)(torch.randn(1, 3, 8))
    assert [call["dropout_p"] for call in calls] == [0.0, 0.1]


zeros, ones = torch.zeros, torch.ones
IDS = torch.tensor([[101, 2051, 102]])
peer_of = partial(nn.MultiheadAttention, 8, 2)


def masked(mask, *leading):
    return attend(zeros(*leading, 4, 8), zeros(*leading, 5, 8), zeros(*leading, 5, 8), mask)


test_refused = refusals(
    ("one axis", lambda: attend(zeros(8), zeros(5, 8), zeros(5, 8)), ValueError, "(8,)"),
    ("widths", lambda: attend(zeros(4, 8), zeros(5, 7), zeros(5, 8)), ValueError, "(5, 7)"),
    ("no width", lambda: attend(zeros(4, 0), zeros(5, 0), zeros(5, 8)), ValueError, "(4, 0)"),
    ("values", lambda: attend(zeros(4, 8), zeros(5, 8), zeros(6, 8)), ValueError, "(6, 8)"),
    ("batches", lambda: attend(zeros(2, 4, 8), zeros(3, 5, 8), zeros(3, 5, 8)), ValueError, "(3, 5, 8)"),
    ("integers", lambda: attend(IDS, IDS, IDS), TypeError, "query is of torch.int64"),
    ("dtypes", lambda: attend(zeros(4, 8), zeros(5, 8).double(), zeros(5, 8)), TypeError, "torch.float64"),
    ("devices", lambda: attend(zeros(4, 8), zeros(5, 8), zeros(5, 8).to("meta")), ValueError, "meta"),
    ("mask, tokenizer's", lambda: masked(ones(3, 5).long(), 3, 2), ValueError, "(3, 2, 4, 5)"),
    ("mask, an axis too many", lambda: masked(ones(1, 4, 5)), ValueError, "(1, 4, 5)"),
    ("mask, additive", lambda: masked(torch.tensor([0, 0, 0, -torch.inf, 0])), ValueError, "from -inf to 0"),
    ("mask, additive, no pads", lambda: masked(zeros(4, 5)), ValueError, "mask.bool()"),
    ("mask, inverted", lambda: masked(1 - ones(4, 5).tril(1)), ValueError, "float32"),
    ("mask, NaN", lambda: masked(torch.full((4, 5), float("nan"))), ValueError, "nan"),
    ("mask, complex", lambda: masked(ones(4, 5, dtype=torch.complex64)), TypeError, "torch.complex64"),
    ("mask, elsewhere", lambda: masked(ones(4, 5, device="meta").bool()), ValueError, "meta"),
    ("fused, length", lambda: room.fused_attention(*random_qkv(1, 2), ones(4)), ValueError, "(1, 2, 5, 7)"),
    ("length in floats", lambda: causal_mask(2.0), TypeError, "seq_len is 2.0"),
    ("padding, one axis", lambda: padding_mask(ones(5).long()), ValueError, "(5,)"),
    ("padding, of ids", lambda: padding_mask(IDS), ValueError, "101 to 2051"),
    ("unknown source", lambda: convert_mask(IDS, "bert", "keep"), ValueError, "'bert'"),
    ("not bool", lambda: convert_mask(IDS, "ignore", "keep"), ValueError, "torch.int64"),
    ("not 0 and 1", lambda: convert_mask(IDS, "tokenizer", "keep"), ValueError, "torch.int64"),
    ("not additive", lambda: convert_mask(ones(2, 2), "additive", "keep"), ValueError, "torch.float32"),
    ("additive integers", lambda: convert_mask(IDS * 0, "additive", "keep"), ValueError, "torch.int64"),
    ("into integers", lambda: convert_mask(IDS, "keep", "additive", torch.int64), TypeError, "torch.int64"),
    ("converting a list", lambda: convert_mask([1], "keep", "ignore"), TypeError, "list"),
    ("no mask for 2 heads", lambda: room.split_mask(ones(3, 4, 5), 2), ValueError, "(3, 4, 5)"),
    ("heads that do not divide", lambda: MultiHeadAttention(10, 3), ValueError, "num_heads 3"),
    ("True heads", lambda: MultiHeadAttentionList(8, True), TypeError, "num_heads is True"),
    ("head of no size", lambda: AttentionHead(8, 0), ValueError, "head_dim is 0"),
    ("head on nothing", lambda: AttentionHead(0, 8), ValueError, "hidden_size is 0"),
    ("head, width", lambda: AttentionHead(8, 2)(zeros(3, 7)), ValueError, "(3, 7)"),
    ("head, one axis", lambda: AttentionHead(8, 2)(zeros(8)), ValueError, "(..., seq, 8)"),
    ("bias", lambda: room.weights_of_torch(peer_of(bias=False)), ValueError, "in_proj_bias"),
    ("kdim", lambda: room.weights_of_torch(peer_of(kdim=4)), ValueError, "in_proj_weight"),
)

X = zeros(2, 3, 8)
REFUSED_BY_BOTH = [
    ("no tensor", lambda own: own([1.0]), TypeError, "list"),
    ("no batch", lambda own: own(zeros(3, 8)), ValueError, "(batch, seq, 8)"),
    ("dtype", lambda own: own(X.double()), TypeError, "weight of torch.float32"),
    ("memory, width", lambda own: own(X, None, zeros(2, 3, 7)), ValueError, "(2, 3, 7)"),
    ("memory, batch", lambda own: own(X, None, zeros(1, 3, 8)), ValueError, "(1, 3, 8)"),
    ("mask, batch", lambda own: own(X, ones(3, 1, 1, 3)), ValueError, "(3, 1, "),
    ("mask, length", lambda own: own(X, causal_mask(4)), ValueError, "(4, 4)"),
    ("mask, a list", lambda own: own(X, [1]), TypeError, "list"),
]
BOTH = itertools.product(REFUSED_BY_BOTH, [MultiHeadAttention, MultiHeadAttentionList])
test_refused_by_both = refusals(*[(row[0], partial(row[1], kind(8, 2)), *row[2:]) for row, kind in BOTH])
