"""The attention room equals PyTorch, the real model and values worked by hand; and what it refuses."""

import itertools
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transformers import AutoModel, AutoTokenizer
from transformers.models.bert.modeling_bert import eager_attention_forward

from utils.attention import (
    AttentionHead,
    MultiHeadAttention,
    MultiHeadAttentionList,
    attention_scores,
    causal_mask,
    convert_mask,
    masked_softmax,
    merge_heads,
    padding_mask,
    scaled_dot_product_attention,
    split_heads,
    split_mask,
    weights_of_bert,
    weights_of_list,
    weights_of_torch,
)
from utils.guards import MASK_CONVENTIONS, require_mask_values
from utils.models import checkpoint

TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 3e-2, torch.float16: 5e-3}
DTYPES = list(TOLERANCES)
LARGEST = {}  # (peer, dtype): the largest difference seen

each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))


@pytest.fixture(scope="module", autouse=True)
def one_thread_and_the_largest_differences():
    """The figures to report: `pytest -s tests/test_attention.py` shows them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more of them only cost time on tensors as small as these
    yield
    torch.set_num_threads(threads)
    print("\nLargest differences:")
    for (peer, dtype), largest in LARGEST.items():
        print(f"  {peer:35}{str(dtype).removeprefix('torch.'):10}{largest:.1e} of {TOLERANCES[dtype]:.0e}")


@pytest.fixture(autouse=True)
def fixed_seed():
    torch.manual_seed(0)


def assert_equal(own, expected, peer):
    """Equal within the tolerance of the dtype, of numbers above 1 as a share of them; NaN equals nothing."""
    assert own.shape == expected.shape and own.dtype == expected.dtype
    apart = (own.double() - expected.double()).abs() / expected.double().abs().clamp(min=1)
    largest = apart.max().item() if apart.numel() else 0.0
    assert largest <= TOLERANCES[own.dtype], f"{peer}: {largest}"
    LARGEST[peer, own.dtype] = max(largest, LARGEST.get((peer, own.dtype), 0.0))


def random_qkv(*leading, query=5, key=7, head_dim=8, width=8, dtype=torch.float64, grad=False):
    shapes = ((query, head_dim), (key, head_dim), (key, width))
    return [torch.randn(*leading, *shape, dtype=dtype, requires_grad=grad) for shape in shapes]


def twins(hidden_size=24, num_heads=4, dtype=torch.float64):
    """nn.MultiheadAttention and MultiHeadAttention with equal weights, and with biases that are not 0."""
    peer = nn.MultiheadAttention(hidden_size, num_heads, batch_first=True)
    for bias in (peer.in_proj_bias, peer.out_proj.bias):
        nn.init.normal_(bias)
    own = MultiHeadAttention(hidden_size, num_heads)
    own.load_state_dict(weights_of_torch(peer))
    return peer.to(dtype).eval(), own.to(dtype).eval()


# ------------------------------------------------------------------------------- scaled dot-product attention


def test_worked_by_hand():
    """Scores 2 ln 3 / √4 = ln 3 and 0, so weights 3/4 and 1/4, so 3/4 · 8 + 1/4 · 4 = 7."""
    query = torch.tensor([[2 * torch.tensor(3.0).log(), 0, 0, 0]])
    key = torch.tensor([[1.0, 5, 0, 0], [0, 5, 0, 0]])
    output, attn_weights = scaled_dot_product_attention(query, key, torch.tensor([[8.0], [4.0]]))
    torch.testing.assert_close(attn_weights, torch.tensor([[0.75, 0.25]]))
    torch.testing.assert_close(output, torch.tensor([[7.0]]))


MASKS = {
    "no mask": lambda batch, heads, query, key: None,
    "queries by keys": lambda batch, heads, query, key: torch.ones(query, key, dtype=torch.bool).tril(),
    "padding": lambda batch, heads, query, key: padding_mask(
        torch.arange(key).expand(batch, key) < key // 2 + 1
    ),
    "each head its own": lambda batch, heads, query, key: torch.rand(batch, heads, query, key) < 0.5,
    "some rows empty": lambda batch, heads, query, key: (torch.arange(query) % 2).bool()[:, None],
    "all empty": lambda batch, heads, query, key: torch.zeros(1, 1, 1, 1, dtype=torch.bool),
}
SIZES = [(2, 3, 5, 7), (1, 1, 1, 1), (2, 2, 6, 6), (0, 2, 3, 4), (2, 2, 1, 9), (1, 2, 40, 33)]


@each_dtype
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_equals_torch_scaled_dot_product_attention(sizes, mask, dtype):
    batch, heads, query, key = sizes
    qkv = random_qkv(batch, heads, query=query, key=key, head_dim=12, width=10, dtype=dtype)
    keep = mask(*sizes)
    output, attn_weights = scaled_dot_product_attention(*qkv, keep)
    assert_equal(
        output, F.scaled_dot_product_attention(*qkv, attn_mask=keep), "F.scaled_dot_product_attention"
    )
    assert attn_weights.shape == sizes


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_gradients_equal_those_of_torch(mask):
    qkv = random_qkv(2, 3, grad=True)
    keep = mask(2, 3, 5, 7)
    upstream = torch.randn(2, 3, 5, 8, dtype=torch.float64)
    own = torch.autograd.grad(scaled_dot_product_attention(*qkv, keep)[0], qkv, upstream)
    expected = torch.autograd.grad(F.scaled_dot_product_attention(*qkv, attn_mask=keep), qkv, upstream)
    for one, other in zip(own, expected, strict=True):
        assert_equal(one, other, "gradients of F.sdpa")


@pytest.mark.parametrize("leading", [(), (4,), (2, 3), (2, 3, 2), (0,), (2, 0, 3)], ids=str)
def test_any_leading_axes(leading):
    qkv = random_qkv(*leading)
    mask = torch.rand(5, 7) < 0.6
    output, attn_weights = scaled_dot_product_attention(*qkv, mask)
    assert attn_weights.shape == (*leading, 5, 7)
    assert_equal(
        output, F.scaled_dot_product_attention(*qkv, attn_mask=mask), "F.scaled_dot_product_attention"
    )


def test_no_keys_at_all_is_the_rule_of_the_empty_row():
    for mask in (None, torch.ones(3, 0, dtype=torch.bool), torch.ones(1, 1, dtype=torch.bool)):
        output, attn_weights = scaled_dot_product_attention(*random_qkv(2, query=3, key=0), mask)
        assert attn_weights.shape == (2, 3, 0)
        assert torch.equal(output, torch.zeros(2, 3, 8, dtype=torch.float64))


def test_non_contiguous_inputs_and_mask():
    qkv = [torch.randn(7, 2, 3, 16, dtype=torch.float64)[..., ::2].permute(1, 2, 0, 3) for _ in range(3)]
    mask = (torch.rand(7, 2, 3, 7) < 0.7).permute(1, 2, 0, 3)
    assert not any(tensor.is_contiguous() for tensor in (*qkv, mask))
    own = scaled_dot_product_attention(*qkv, mask)
    packed = scaled_dot_product_attention(*(tensor.contiguous() for tensor in qkv), mask.contiguous())
    expected = F.scaled_dot_product_attention(*qkv, attn_mask=mask)
    assert_equal(own[0], expected, "F.scaled_dot_product_attention")
    assert_equal(own[1], packed[1], "itself, contiguous")


def test_bool_int_and_float_masks_say_the_same():
    qkv = random_qkv(2, query=4, key=4)
    expected = scaled_dot_product_attention(*qkv, causal_mask(4))
    for dtype in (torch.int64, torch.uint8, torch.float32, torch.float16):
        own = scaled_dot_product_attention(*qkv, causal_mask(4).to(dtype))
        assert torch.equal(own[0], expected[0]) and torch.equal(own[1], expected[1])


def test_inputs_and_mask_are_left_as_they_were():
    tensors = [*random_qkv(2), torch.rand(5, 7) < 0.5]
    before = [tensor.clone() for tensor in tensors]
    scaled_dot_product_attention(*tensors)
    scores = torch.randn(2, 5, 7)
    kept = scores.clone()
    masked_softmax(scores, tensors[-1])
    assert all(torch.equal(a, b) for a, b in zip([*tensors, scores], [*before, kept], strict=True))


def test_scores_stay_within_float16_where_the_plain_product_does_not():
    query = torch.full((1, 64), 40.0, dtype=torch.float16)
    assert (query @ query.T).isinf().all()
    assert attention_scores(query, query).item() == 40 * 40 * 8


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_gradcheck(mask):
    qkv = random_qkv(2, 2, query=3, key=4, head_dim=3, width=2, grad=True)
    keep = mask(2, 2, 3, 4)
    assert torch.autograd.gradcheck(lambda *inputs: scaled_dot_product_attention(*inputs, keep), qkv)


def test_second_derivatives():
    qkv = random_qkv(query=2, key=3, head_dim=2, width=2, grad=True)
    mask = torch.tensor([[1, 0, 1], [0, 0, 0]])
    assert torch.autograd.gradgradcheck(lambda *inputs: scaled_dot_product_attention(*inputs, mask), qkv)


# ------------------------------------------------------------------------------- a row with everything masked


@each_dtype
@pytest.mark.parametrize("anomaly", [False, True], ids=["", "no NaN on the way either"])
def test_empty_row_is_zero_in_values_and_gradients(dtype, anomaly):
    qkv = random_qkv(2, dtype=dtype, grad=True)
    mask = torch.ones(2, 5, 7, dtype=torch.bool)
    mask[0, 2], mask[1, :, 3] = False, False
    with torch.autograd.set_detect_anomaly(anomaly):  # which refuses a NaN between the steps as well
        output, attn_weights = scaled_dot_product_attention(*qkv, mask)
        gradients = torch.autograd.grad((output.sum() + attn_weights.square().sum()), qkv)
    assert (output[0, 2] == 0).all() and (attn_weights[0, 2] == 0).all()
    assert all(tensor.isfinite().all() for tensor in (output, attn_weights, *gradients))
    assert (
        (gradients[0][0, 2] == 0).all()
        and (gradients[1][1, 3] == 0).all()
        and (gradients[2][1, 3] == 0).all()
    )
    assert (gradients[0][0, 1] != 0).any() and (gradients[2][0] != 0).all()


@each_dtype
def test_everything_masked_gives_no_gradient(dtype):
    qkv = random_qkv(2, dtype=dtype, grad=True)
    output, _ = scaled_dot_product_attention(*qkv, torch.zeros(2, 1, 7, dtype=torch.int64))
    assert all((gradient == 0).all() for gradient in torch.autograd.grad(output.sum(), qkv))


def test_what_the_docstring_says_of_the_other_libraries_and_the_empty_row():
    qkv = random_qkv(1, 2, query=3, key=3)
    nothing = torch.zeros(3, 3, dtype=torch.bool)
    assert (F.scaled_dot_product_attention(*qkv, attn_mask=nothing) == 0).all()
    hidden_state = torch.randn(1, 3, 24, dtype=torch.float64)
    peer, _ = twins()
    output, attn_weights = peer(hidden_state, hidden_state, hidden_state, attn_mask=~nothing)
    assert output.isnan().all() and attn_weights.isnan().all()
    additive = convert_mask(nothing, "keep", "additive", dtype=torch.float64)
    _, attn_weights = eager_attention_forward(nn.Identity().eval(), *qkv, attention_mask=additive)
    torch.testing.assert_close(attn_weights, torch.full_like(attn_weights, 1 / 3))


# ------------------------------------------------------------------------------------------------------ masks


def test_causal_mask():
    assert causal_mask(3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert causal_mask(3).dtype == torch.bool
    assert causal_mask(1).tolist() == [[True]] and causal_mask(0).shape == (0, 0)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float32])
def test_padding_mask(dtype):
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


def test_each_library_understands_its_convention():
    peer, own = twins()
    hidden_state = torch.randn(3, 6, 24, dtype=torch.float64)
    attention_mask = (torch.arange(6) < torch.tensor([[6], [4], [1]])).long()
    output, attn_weights = own(hidden_state, padding_mask(attention_mask))
    query, key, value = own.project(hidden_state, hidden_state)

    keep = convert_mask(attention_mask, "tokenizer", "keep")[:, None, None]
    by_torch = own.output(merge_heads(F.scaled_dot_product_attention(query, key, value, attn_mask=keep)))
    assert_equal(output, by_torch, "conventions")

    ignore = convert_mask(attention_mask, "tokenizer", "ignore")
    by_module = peer(hidden_state, hidden_state, hidden_state, ignore, average_attn_weights=False)
    assert_equal(output, by_module[0], "conventions")
    assert_equal(attn_weights, by_module[1], "conventions")

    additive = convert_mask(attention_mask, "tokenizer", "additive", torch.float64)[:, None, None]
    _, by_bert = eager_attention_forward(nn.Identity().eval(), query, key, value, attention_mask=additive)
    assert_equal(attn_weights, by_bert, "conventions")


# ------------------------------------------------------------------------------------------------------ heads


@each_dtype
@pytest.mark.parametrize("kind", ["self", "causal", "padding", "cross", "length 1", "empty batch"])
def test_equals_torch_multihead_attention(kind, dtype):
    peer, own = twins(dtype=dtype)
    batch, seq = {"length 1": (2, 1), "empty batch": (0, 5)}.get(kind, (3, 6))
    hidden_state = torch.randn(batch, seq, 24, dtype=dtype)
    memory = torch.randn(batch, 9, 24, dtype=dtype) if kind == "cross" else hidden_state
    mask, theirs = None, {}
    if kind == "causal":
        mask, theirs = causal_mask(seq), {"attn_mask": ~causal_mask(seq)}
    if kind == "padding":
        attention_mask = (torch.arange(6) < torch.tensor([[6], [4], [1]])).long()
        mask, theirs = padding_mask(attention_mask), {"key_padding_mask": attention_mask == 0}
    expected = peer(hidden_state, memory, memory, average_attn_weights=False, **theirs)
    output, attn_weights = own(hidden_state, mask, memory=memory if kind == "cross" else None)
    assert_equal(output, expected[0], "nn.MultiheadAttention")
    assert_equal(attn_weights, expected[1], "nn.MultiheadAttention")


@torch.inference_mode()
def test_equals_the_native_kernel():
    peer, own = twins(hidden_size=96, num_heads=12, dtype=torch.float32)
    hidden_state = torch.randn(2, 30, 96)
    expected = peer(hidden_state, hidden_state, hidden_state, average_attn_weights=False)
    for one, other in zip(own(hidden_state), expected, strict=True):
        assert_equal(one, other, "native nn.MultiheadAttention")


@each_dtype
def test_equals_every_head_of_every_layer_of_the_real_model(dtype):
    """From its own hidden states and with its own weights: attn_weights, and the output after projection."""
    model = AutoModel.from_pretrained(checkpoint(), attn_implementation="eager", dtype=dtype).eval()
    texts = [
        "My friend told me about this class and I love it so far! She was right.",
        "time flies like an arrow",
    ]
    inputs = AutoTokenizer.from_pretrained(checkpoint())(texts, padding=True, return_tensors="pt")
    outputs = []
    for layer in model.encoder.layer:
        layer.attention.output.dense.register_forward_hook(
            lambda module, args, output: outputs.append(output)
        )
    with torch.no_grad():
        seen = model(**inputs, output_attentions=True, output_hidden_states=True)
        for index, layer in enumerate(model.encoder.layer):
            own = MultiHeadAttention(model.config.hidden_size, model.config.num_attention_heads).to(dtype)
            own.load_state_dict(weights_of_bert(layer.attention))
            output, attn_weights = own(seen.hidden_states[index], padding_mask(inputs["attention_mask"]))
            assert attn_weights.shape == (2, 12, 20, 20)
            assert_equal(attn_weights, seen.attentions[index], "real model, attn_weights")
            assert_equal(output, outputs[index], "real model, output")
    assert len(outputs) == model.config.num_hidden_layers == 6


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_one_head_is_that_head_of_all(mask):
    own = MultiHeadAttention(24, 4).double()
    hidden_state, memory = torch.randn(2, 5, 24).double(), torch.randn(2, 7, 24).double()
    keep = mask(2, 4, 5, 7)
    _, expected = own(hidden_state, keep, memory)
    for index, one in enumerate(split_mask(keep, 4)):
        head = AttentionHead(24, 6).double()
        rows = slice(6 * index, 6 * (index + 1))
        head.load_state_dict({n: w[rows] for n, w in own.state_dict().items() if not n.startswith("output")})
        output, attn_weights = head(hidden_state, one, memory)
        assert_equal(attn_weights, expected[:, index], "one head")
        assert output.shape == (2, 5, 6)


def test_one_head_takes_any_leading_axes():
    head = AttentionHead(8, 4)
    hidden_state = torch.randn(2, 3, 5, 8)
    output, attn_weights = head(hidden_state, causal_mask(5))
    assert output.shape == (2, 3, 5, 4) and attn_weights.shape == (2, 3, 5, 5)
    alone = head(hidden_state[1, 2], causal_mask(5))
    assert_equal(output[1, 2], alone[0], "one head")


@each_dtype
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_the_list_of_heads_equals_the_vectorised(mask, dtype):
    heads = MultiHeadAttentionList(24, 4).to(dtype)
    own = MultiHeadAttention(24, 4).to(dtype)
    own.load_state_dict(weights_of_list(heads))
    hidden_state, memory = torch.randn(2, 5, 24, dtype=dtype), torch.randn(2, 7, 24, dtype=dtype)
    for kwargs in ({"mask": mask(2, 4, 5, 7), "memory": memory}, {"mask": mask(2, 4, 5, 5)}):
        for one, other in zip(own(hidden_state, **kwargs), heads(hidden_state, **kwargs), strict=True):
            assert_equal(one, other, "list of heads")


def test_non_contiguous_hidden_state_and_memory():
    peer, own = twins()
    hidden_state = torch.randn(6, 3, 48, dtype=torch.float64)[..., ::2].transpose(0, 1)
    memory = torch.randn(24, 9, 3, dtype=torch.float64).permute(2, 1, 0)
    assert not hidden_state.is_contiguous() and not memory.is_contiguous()
    for kwargs in ({}, {"memory": memory}):
        there = kwargs.get("memory", hidden_state)
        expected = peer(hidden_state, there, there, average_attn_weights=False)
        for one, other in zip(own(hidden_state, **kwargs), expected, strict=True):
            assert_equal(one, other, "nn.MultiheadAttention")


def test_gradcheck_of_multi_head_attention():
    own = MultiHeadAttention(4, 2).double()
    hidden_state = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(2, 2, 4, dtype=torch.float64, requires_grad=True)
    mask = torch.ones(2, 2, 3, 2, dtype=torch.bool)
    mask[1, 0, 2] = False
    assert torch.autograd.gradcheck(lambda h, m: own(h, mask, m), (hidden_state, memory))


def test_gradients_reach_the_weights_as_in_torch():
    peer, own = twins()
    hidden_state = torch.randn(2, 5, 24, dtype=torch.float64)
    own(hidden_state, causal_mask(5))[0].square().sum().backward()
    peer(hidden_state, hidden_state, hidden_state, attn_mask=~causal_mask(5))[0].square().sum().backward()
    for name, expected in zip(
        ("query", "key", "value"),
        zip(peer.in_proj_weight.grad.chunk(3), peer.in_proj_bias.grad.chunk(3), strict=True),
        strict=True,
    ):
        layer = getattr(own, name)
        torch.testing.assert_close((layer.weight.grad, layer.bias.grad), expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(own.output.weight.grad, peer.out_proj.weight.grad, rtol=1e-10, atol=1e-10)


def test_split_and_merge_heads():
    """Head 1 of 2 gets the first half of each token's numbers, and merging puts them back."""
    projected = torch.arange(12).view(1, 3, 4)
    per_head = split_heads(projected, 2)
    assert per_head.tolist() == [[[[0, 1], [4, 5], [8, 9]], [[2, 3], [6, 7], [10, 11]]]]
    assert torch.equal(merge_heads(per_head), projected)


@pytest.mark.parametrize("num_heads", [1, 2, 4, 12])
def test_number_of_parameters_is_that_of_torch_for_any_number_of_heads(num_heads):
    peer = nn.MultiheadAttention(24, num_heads)
    for own in (MultiHeadAttention(24, num_heads), MultiHeadAttentionList(24, num_heads)):
        count = sum(parameter.numel() for parameter in own.parameters())
        assert count == sum(parameter.numel() for parameter in peer.parameters()) == 4 * (24 * 24 + 24)


def test_weights_are_copied_not_shared():
    heads = MultiHeadAttentionList(8, 2)
    own = MultiHeadAttention(8, 2)
    own.load_state_dict(weights_of_list(heads))
    with torch.no_grad():
        heads.output.weight.zero_()
    assert (own.output.weight != 0).any()


def test_works_under_autocast():
    _, own = twins(dtype=torch.float32)
    hidden_state = torch.randn(2, 5, 24)
    expected = own(hidden_state)
    with torch.autocast("cpu", torch.bfloat16):
        output, _ = own(hidden_state.bfloat16(), causal_mask(5) | True)
    torch.testing.assert_close(output.float(), expected[0], atol=5e-2, rtol=5e-2)


def test_attend_and_project_can_be_replaced():
    """What later lessons build on: a fused step that returns no weights, and keys kept from before."""

    class Fused(MultiHeadAttention):
        def attend(self, query, key, value, mask):
            return F.scaled_dot_product_attention(query, key, value, attn_mask=mask), None

    class Cached(MultiHeadAttention):
        def project(self, hidden_state, memory):
            query, *new = super().project(hidden_state, memory)
            old = getattr(self, "cache", new)
            self.cache = (
                new if old is new else [torch.cat(pair, dim=2) for pair in zip(old, new, strict=True)]
            )
            return query, *self.cache

    _, own = twins()
    fused, cached = Fused(24, 4).double(), Cached(24, 4).double()
    fused.load_state_dict(own.state_dict())
    cached.load_state_dict(own.state_dict())
    hidden_state = torch.randn(2, 6, 24, dtype=torch.float64)
    expected, _ = own(hidden_state, causal_mask(6))
    output, attn_weights = fused(hidden_state, causal_mask(6))
    assert attn_weights is None
    assert_equal(output, expected, "fused variant")
    steps = [cached(hidden_state[:, [i]], causal_mask(i + 1)[-1:])[0] for i in range(6)]
    assert_equal(torch.cat(steps, dim=1), expected, "cached variant")


# -------------------------------------------------------------------------------------------- what is refused


def zeros(*shape, **kwargs):
    return torch.zeros(*shape, **kwargs)


def attend(query, key, value, mask=None):
    return lambda: scaled_dot_product_attention(query, key, value, mask)


def attend_with(mask, *leading):
    return attend(zeros(*leading, 4, 8), zeros(*leading, 5, 8), zeros(*leading, 5, 8), mask)


def heads(kind=MultiHeadAttention, sizes=(8, 2), **inputs):
    return lambda: kind(*sizes)(**inputs)


FLOAT_MASK = zeros(4, 5).masked_fill(torch.ones(4, 5).triu(1).bool(), float("-inf"))
IDS = torch.tensor([[101, 2051, 102]])
ON_META = {"device": "meta"}
REFUSED = {
    # what was tried: (a call, the error, what the message must hold)
    "one axis": (attend(zeros(8), zeros(5, 8), zeros(5, 8)), ValueError, ["(8,)", "(5, 8)", "two axes"]),
    "widths": (attend(zeros(4, 8), zeros(5, 7), zeros(5, 8)), ValueError, ["(4, 8)", "(5, 7)", "head_dim"]),
    "no width": (attend(zeros(4, 0), zeros(5, 0), zeros(5, 8)), ValueError, ["(4, 0)", "(5, 0)"]),
    "values": (attend(zeros(4, 8), zeros(5, 8), zeros(6, 8)), ValueError, ["key (5, 8)", "value (6, 8)"]),
    "batches": (
        attend(zeros(2, 4, 8), zeros(3, 5, 8), zeros(3, 5, 8)),
        ValueError,
        ["(2, 4, 8)", "(3, 5, 8)"],
    ),
    "batch of one": (
        attend(zeros(2, 4, 8), zeros(1, 5, 8), zeros(1, 5, 8)),
        ValueError,
        ["(1, 5, 8)", "expand"],
    ),
    "batch of values": (
        attend(zeros(2, 4, 8), zeros(2, 5, 8), zeros(1, 5, 8)),
        ValueError,
        ["value (1, 5, 8)"],
    ),
    "axes": (attend(zeros(4, 8), zeros(1, 5, 8), zeros(1, 5, 8)), ValueError, ["query has the shape (4, 8)"]),
    "integers": (attend(IDS, IDS, IDS), TypeError, ["query is of torch.int64", "embedding", ".float()"]),
    "integer values": (attend(zeros(1, 3), zeros(1, 3), IDS), TypeError, ["value is of torch.int64"]),
    "dtypes": (
        attend(zeros(4, 8), zeros(5, 8).double(), zeros(5, 8)),
        TypeError,
        ["query is of torch.float32", "key of torch.float64", ".to(dtype)"],
    ),
    "devices": (
        attend(zeros(4, 8), zeros(5, 8), zeros(5, 8, **ON_META)),
        ValueError,
        ["query is on cpu", "value on meta", ".to(device)"],
    ),
    "no tensor": (attend(zeros(4, 8), [[1.0]], zeros(5, 8)), TypeError, ["key is of the type list"]),
    "mask does not broadcast": (attend_with(torch.ones(4, 4)), ValueError, ["(4, 4)", "(4, 5)", "broadcast"]),
    "mask of a tokenizer": (
        attend_with(torch.ones(3, 5, dtype=torch.int64), 3, 2),
        ValueError,
        ["(3, 5)", "(3, 2, 4, 5)", "padding_mask()"],
    ),
    "mask of a larger batch": (attend_with(torch.ones(3, 4, 5), 1), ValueError, ["(3, 4, 5)", "(1, 4, 5)"]),
    "mask of another batch": (attend_with(torch.ones(3, 4, 5), 2), ValueError, ["(3, 4, 5)", "(2, 4, 5)"]),
    "mask with an axis too many": (attend_with(torch.ones(1, 4, 5)), ValueError, ["(1, 4, 5)", "(4, 5)"]),
    "mask with an empty axis": (attend_with(torch.ones(0, 4, 5), 1), ValueError, ["(0, 4, 5)", "(1, 4, 5)"]),
    "additive mask": (
        attend_with(FLOAT_MASK),
        ValueError,
        [
            "torch.float32",
            "looks additive",
            "from -inf to 0",
            "1 means: may be attended to",
            "convert_mask()",
        ],
    ),
    "additive mask of -1e9": (
        attend_with(torch.tensor([0.0, -1e9, 0.0, 0.0, -1e9]).bfloat16()),
        ValueError,
        ["torch.bfloat16", "additive", "from -9.982e+08 to 0"],
    ),
    "additive mask without pads": (
        attend_with(zeros(4, 5)),
        ValueError,
        ["looks additive or inverted", ".bool()"],
    ),
    "inverted mask of floats": (
        attend(zeros(4, 8), zeros(4, 8), zeros(4, 8), torch.ones(4, 4).triu(1)),
        ValueError,
        ["looks additive or inverted"],
    ),
    "token ids as a mask": (
        attend_with(IDS.view(3)[[0, 1, 2, 0, 1]]),
        ValueError,
        ["torch.int64", "101 to 2051"],
    ),
    "half a mask": (attend_with(torch.full((4, 5), 0.5)), ValueError, ["0.5 to 0.5", "bool or 0/1"]),
    "NaN in the mask": (attend_with(torch.full((4, 5), float("nan"))), ValueError, ["nan", "bool or 0/1"]),
    "mask that is no tensor": (attend_with([[True]]), TypeError, ["list", "bool or 0/1"]),
    "complex mask": (attend_with(torch.ones(4, 5, dtype=torch.complex64)), TypeError, ["torch.complex64"]),
    "mask elsewhere": (
        attend_with(torch.ones(4, 5, dtype=torch.bool, **ON_META)),
        ValueError,
        ["mask is on meta", "scores on cpu"],
    ),
    "length below 0": (lambda: causal_mask(-1), ValueError, ["seq_len is -1", "at least 0"]),
    "length in floats": (lambda: causal_mask(2.0), TypeError, ["seq_len is 2.0", "whole number"]),
    "attention_mask of one axis": (
        lambda: padding_mask(torch.ones(5, dtype=torch.int64)),
        ValueError,
        ["attention_mask has the shape (5,)", "(batch, key)"],
    ),
    "attention_mask of ids": (
        lambda: padding_mask(IDS),
        ValueError,
        ["attention_mask (torch.int64)", "101 to 2051"],
    ),
    "attention_mask in a list": (
        lambda: padding_mask([[1, 0]]),
        TypeError,
        ["attention_mask is of the type list"],
    ),
    "unknown convention": (
        lambda: convert_mask(IDS, "bert", "keep"),
        ValueError,
        ["'bert'", "tokenizer, keep, ignore, additive"],
    ),
    "unknown target": (lambda: convert_mask(ONE_MASK["keep"], "keep", "torch"), ValueError, ["'torch'"]),
    "not True and False": (
        lambda: convert_mask(ONE_MASK["tokenizer"], "ignore", "keep"),
        ValueError,
        ['"ignore" holds True and False', "torch.int64"],
    ),
    "not 0 and 1": (
        lambda: convert_mask(ONE_MASK["additive"], "tokenizer", "keep"),
        ValueError,
        ['"tokenizer" holds 0 and 1', "torch.float32"],
    ),
    "not additive": (
        lambda: convert_mask(torch.ones(2, 2), "additive", "keep"),
        ValueError,
        ['"additive" holds floats', "torch.float32"],
    ),
    "a bias, not a mask": (
        lambda: convert_mask(torch.full((2, 2), -3.5), "additive", "keep"),
        ValueError,
        ["-1000"],
    ),
    "additive integers": (lambda: convert_mask(IDS * 0, "additive", "keep"), ValueError, ["torch.int64"]),
    "target of integers": (
        lambda: convert_mask(ONE_MASK["keep"], "keep", "additive", torch.int64),
        TypeError,
        ["torch.int64", "dtype of the scores"],
    ),
    "converting a list": (lambda: convert_mask([1], "keep", "ignore"), TypeError, ["list", "tensor"]),
    "heads that do not divide": (heads(sizes=(10, 3)), ValueError, ["hidden_size 10", "num_heads 3"]),
    "no heads": (heads(sizes=(10, 0)), ValueError, ["num_heads is 0", "at least 1"]),
    "heads in floats": (heads(sizes=(8, 2.0)), TypeError, ["num_heads is 2.0"]),
    "True heads": (heads(sizes=(8, True)), TypeError, ["num_heads is True"]),
    "head of no size": (heads(AttentionHead, (8, 0)), ValueError, ["head_dim is 0"]),
    "head on nothing": (heads(AttentionHead, (0, 8)), ValueError, ["hidden_size is 0"]),
    "head on another width": (
        heads(AttentionHead, hidden_state=zeros(3, 7)),
        ValueError,
        ["hidden_state has the shape (3, 7)", "(..., seq, 8)"],
    ),
    "head on one axis": (heads(AttentionHead, hidden_state=zeros(8)), ValueError, ["(8,)", "(..., seq, 8)"]),
    "no mask for 2 heads": (
        lambda: split_mask(torch.ones(3, 4, 5), 2),
        ValueError,
        ["(3, 4, 5)", "(batch, 2, query, key)", "unsqueeze(1)"],
    ),
    "weights without biases": (
        lambda: weights_of_torch(nn.MultiheadAttention(8, 2, bias=False)),
        ValueError,
        ["in_proj_bias", "bias=True"],
    ),
    "weights of two widths": (
        lambda: weights_of_torch(nn.MultiheadAttention(8, 2, kdim=4)),
        ValueError,
        ["in_proj_weight", "kdim"],
    ),
}
for kind in (MultiHeadAttention, MultiHeadAttentionList):
    REFUSED |= {
        f"{name}, {kind.__name__}": (heads(kind, **inputs), error, words)
        for name, inputs, error, words in [
            ("token ids", {"hidden_state": IDS}, TypeError, ["hidden_state is of torch.int64", "embedding"]),
            (
                "no batch",
                {"hidden_state": zeros(3, 8)},
                ValueError,
                ["(3, 8)", "(batch, seq, 8)", "unsqueeze(0)"],
            ),
            (
                "width",
                {"hidden_state": zeros(2, 3, 7)},
                ValueError,
                ["hidden_state", "(2, 3, 7)", "(batch, seq, 8)"],
            ),
            (
                "width of memory",
                {"hidden_state": zeros(2, 3, 8), "memory": zeros(2, 3, 7)},
                ValueError,
                ["memory has the shape (2, 3, 7)", "(batch, seq, 8)"],
            ),
            (
                "batch of memory",
                {"hidden_state": zeros(2, 3, 8), "memory": zeros(1, 3, 8)},
                ValueError,
                ["(2, 3, 8)", "memory (1, 3, 8)", "expand()"],
            ),
            (
                "axes of memory",
                {"hidden_state": zeros(2, 3, 8), "memory": zeros(3, 8)},
                ValueError,
                ["memory has the shape (3, 8)"],
            ),
            (
                "dtype of memory",
                {"hidden_state": zeros(2, 3, 8), "memory": zeros(2, 3, 8).half()},
                TypeError,
                ["hidden_state is of torch.float32", "memory of torch.float16"],
            ),
            (
                "dtype of weights",
                {"hidden_state": zeros(2, 3, 8).double()},
                TypeError,
                ["hidden_state is of torch.float64", "weight of torch.float32"],
            ),
            (
                "device of weights",
                {"hidden_state": zeros(2, 3, 8, **ON_META)},
                ValueError,
                ["hidden_state is on meta", "weight on cpu"],
            ),
            ("no tensor", {"hidden_state": [1.0]}, TypeError, ["hidden_state is of the type list"]),
            (
                "mask of another batch",
                {"hidden_state": zeros(2, 3, 8), "mask": torch.ones(3, 1, 1, 3)},
                ValueError,
                ["(3, 1, ", "(2, "],
            ),
            (
                "mask of other heads",
                {"hidden_state": zeros(2, 3, 8), "mask": torch.ones(3, 3, 3)},
                ValueError,
                ["(3, 3, 3)", "2, "],
            ),
            (
                "mask of another length",
                {"hidden_state": zeros(2, 3, 8), "mask": causal_mask(4)},
                ValueError,
                ["(4, 4)", "3, 3)"],
            ),
            (
                "additive mask",
                {"hidden_state": zeros(2, 3, 8), "mask": zeros(3, 3)},
                ValueError,
                ["additive"],
            ),
            (
                "list as mask",
                {"hidden_state": zeros(2, 3, 8), "mask": [1]},
                TypeError,
                ["list", "bool or 0/1"],
            ),
        ]
    }


@pytest.mark.parametrize("call,error,words", REFUSED.values(), ids=REFUSED)
def test_refused_in_plain_words(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    message = str(caught.value)
    assert [word for word in words if word not in message] == [], message
    plain = re.sub(r"\(\.\.\.|\.\w|\d\.\d", "", message)
    assert message[-1] == "." and 1 <= len(re.findall(r"\.(?=\s|$)", plain)) <= 2, (
        f"one or two sentences: {message}"
    )


def test_float_masks_of_0_and_1_are_masks():
    for mask in (
        torch.tril(torch.ones(4, 4)),
        torch.ones(1),
        torch.tensor(1.0),
        torch.zeros(0, 3),
        torch.eye(3),
    ):
        require_mask_values(mask)
