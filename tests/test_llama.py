"""The llama room: against transformers' LlamaForCausalLM, on odd shapes and on the packaged model."""

import copy
import functools
import json
import os
import random
import re
import subprocess
import sys

import gguf
import pytest
import torch
from local_hub import local_hub
from safetensors.torch import load_file, save_file
from tiny_models import close
from transformers import BertConfig, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

import writer_costs
from longer_runs import definitions
from utils import llama
from utils.compare import compare_with_llama
from utils.gguf import make_tokenizer, packaged_file, read_gguf
from utils.llama import Llama, from_llama, generate, load_writer, to_llama
from utils.probes import PROSE

SIZES = {"hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 2, "num_hidden_layers": 1}
MISTRAL = MistralConfig(vocab_size=9, intermediate_size=8, **SIZES)


def new_llama(dtype=torch.float64, seed=0, **changes):
    """A `LlamaForCausalLM` with weights that are far from their small starting values."""
    sizes = {"vocab_size": 40, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2}
    sizes |= {"head_dim": 6, "num_attention_heads": 4, "num_key_value_heads": 2}
    torch.manual_seed(seed)
    sizes |= {"max_position_embeddings": 64, "pad_token_id": 0} | changes
    model = LlamaForCausalLM(LlamaConfig(**sizes, attn_implementation="eager")).to(dtype).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return model


def odd_shapes(count=24):
    """Configs drawn at random: keys shared by 1, 2, 3 or all heads, odd sizes, tied and not."""
    draw, shapes = random.Random(0), []
    for seed in range(count):
        group, tied = seed // 2 % 4, seed % 2 == 1
        shared = draw.choice([1, 2, 3]) if group else 1
        heads = shared * group or draw.choice([2, 5, 7])
        rope = {"rope_type": "default", "rope_theta": draw.choice([100.0, 1e4, 5e5])}
        shape = {"seed": seed, "num_key_value_heads": shared, "num_attention_heads": heads}
        shape |= {"head_dim": 2 * draw.randint(1, 9), "hidden_size": heads * draw.randint(3, 9)}
        shape |= {"intermediate_size": draw.randint(3, 50), "num_hidden_layers": draw.randint(1, 4)}
        shape |= {"vocab_size": draw.randint(10, 90), "rms_norm_eps": draw.choice([1e-5, 1e-2])}
        shapes.append(shape | {"rope_parameters": rope, "tie_word_embeddings": tied})
    return shapes


@pytest.mark.parametrize("shape", odd_shapes(), ids=lambda shape: f"{shape['seed']}")
def test_equals_transformers_on_odd_shapes(shape):
    for dtype, tolerance in ((torch.float32, 1e-4), (torch.float64, 1e-5)):  # their angles are float32
        theirs = new_llama(dtype, **shape)
        ours, ids = from_llama(theirs), torch.randint(shape["vocab_size"], (2, 11))
        made, expected = ours(ids), theirs(ids, output_attentions=True, output_hidden_states=True)
        close(*[(out.logits, *out.hidden_states, *out.attentions) for out in (made, expected)], tolerance)
        close(to_llama(ours).state_dict(), theirs.state_dict(), 0)


def test_weights_are_shared_and_each_part_is_in_its_mode():
    theirs = new_llama(tie_word_embeddings=True).train()
    ours = from_llama(theirs)
    assert ours.training and ours.embeddings.weight.data_ptr() == theirs.lm_head.weight.data_ptr()
    up, theirs_up = ours.blocks[1].feed_forward.up, theirs.model.layers[1].mlp.up_proj
    assert up.weight.data_ptr() == theirs_up.weight.data_ptr()
    assert sum(p.numel() for p in ours.parameters()) == theirs.num_parameters()


def test_cache_changes_nothing_however_the_text_is_cut():
    ours, ids = from_llama(new_llama()), torch.arange(12)[None]
    whole = ours(ids)
    for cuts in ([1] * 12, [5, 7], [1, 10, 1]):
        past, parts = None, []
        for part in ids.split(cuts, dim=1):
            made = ours(part, past)
            past = made.past
            parts.append(made.logits)
        assert torch.allclose(torch.cat(parts, dim=1), whole.logits, rtol=0, atol=1e-12)
    assert past[0][0].shape == (1, 2, 12, 6)


def test_generate_writes_what_transformers_writes():
    theirs = new_llama()
    ours, ids = from_llama(theirs), torch.tensor([[3, 1, 4]])
    expected = theirs.generate(ids, max_new_tokens=20, do_sample=False, eos_token_id=None)
    written = generate(ours, ids, 20)
    assert torch.equal(written, expected)
    assert torch.equal(generate(ours, ids.repeat(2, 1), 20), expected.repeat(2, 1))  # a batch
    end = written[0, 8].item()
    stopped = generate(ours, ids, 20, end=end)
    assert stopped[0, -1] == end and end not in stopped[0, 3:-1]
    assert generate(ours, ids, 2, choose=lambda logits: torch.tensor([7]))[0].tolist() == [3, 1, 4, 7, 7]


def test_first_difference_is_found():
    theirs = new_llama(torch.float32)
    ours, ids = from_llama(theirs), torch.arange(9)[None]
    found = compare_with_llama(ours, theirs, ids)
    assert found.first_difference is None and len(found.table) == 2 + 6 * 2
    ours.blocks[1].attention.base = 500.0
    assert compare_with_llama(ours, theirs, ids).first_difference == "layer 1 attention weights"
    ours.blocks[0].feed_forward_norm.eps = 0.1  # and so there are two
    assert compare_with_llama(ours, theirs, ids).first_difference == "layer 0 second norm"


def test_what_differs_is_refused_by_name():
    for name, value in {"attention_bias": True, "mlp_bias": True, "hidden_act": "gelu"}.items():
        with pytest.raises(ValueError, match=f"{name} of the config is {value!r}"):
            from_llama(new_llama(**{name: value}))
    with pytest.raises(TypeError, match="of the type mistral, but the course writes with a LlamaForCausalLM"):
        from_llama(MistralForCausalLM(MISTRAL))
    with pytest.raises(ValueError, match=r"BertConfig\) lacks num_key_value_heads, head_dim, rms_norm_eps"):
        Llama(BertConfig())
    with pytest.raises(ValueError, match="4 query heads cannot share 3 key heads evenly"):
        Llama(LlamaConfig(num_attention_heads=4, num_key_value_heads=3))
    broken = new_llama()
    broken.model.norm.weight.data[0] = torch.nan
    with pytest.raises(ValueError, match=r"NaN or infinity: norm.weight.*plain LlamaForCausalLM"):
        from_llama(broken)
    with pytest.raises(ValueError, match=r"input_ids holds 40, but the vocabulary has 40 ids"):
        from_llama(new_llama())(torch.tensor([[40]]))


ONLINE = """
import json, os, sys
import torch
from utils.llama import load_writer
found = {}
for name in json.loads(sys.argv[1]):
    os.environ["COURSE_WRITER"] = name
    try:
        model, tokenizer = load_writer()
        ids = tokenizer("Hello 12", return_tensors="pt").input_ids
        found[name] = [model(ids % 40).logits[0, -1].tolist(), tokenizer.decode(ids[0]), model.training]
    except ValueError as error:
        found[name] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


@pytest.mark.slow
def test_course_writer_takes_another_model_from_the_hub_or_a_folder(tmp_path):
    theirs = new_llama(torch.float32)
    rope = {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}
    models = {
        "HuggingFaceTB/SmolLM2-360M": theirs,
        "some/scaled": new_llama(rope_parameters=rope),
        "some/biased": new_llama(attention_bias=True),
        "some/other": MistralForCausalLM(MISTRAL),
        "some/lacking": new_llama(torch.float32),
    }
    tokenizer = make_tokenizer(read_gguf(packaged_file())[0])
    for name, model in models.items():
        model.save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
    weights = tmp_path / "some/lacking/model.safetensors"
    kept = {name: weight for name, weight in load_file(weights).items() if "layers.1.mlp" not in name}
    save_file(kept, weights, {"format": "pt"})
    folder, empty = os.fspath(tmp_path / "HuggingFaceTB/SmolLM2-360M"), os.fspath(tmp_path / "gone")
    with local_hub({name: tmp_path / name for name in models}) as hub:
        settings = {"HF_ENDPOINT": hub.url, "HF_HOME": os.fspath(tmp_path / "cache")}
        command = [sys.executable, "-c", ONLINE, json.dumps([*models, folder, "some/nowhere", empty])]
        done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    ids = tokenizer("Hello 12", return_tensors="pt").input_ids
    for name in ("HuggingFaceTB/SmolLM2-360M", folder):
        logits, text, training = found[name]
        assert torch.allclose(torch.tensor(logits), theirs(ids % 40).logits[0, -1], atol=1e-4)
        assert text == "Hello 12" and not training
    for name, said in {
        "some/scaled": r"scales its rotations \(linear\)",
        "some/biased": "attention_bias of the config is True",
        "some/other": "of the type mistral",
        "some/lacking": "lacks weights: model.layers.1.mlp",
        "some/nowhere": "connection error when trying to load some/nowhere",
        empty: "No folder of this name holds a config.json",
    }.items():
        expected = f"{re.escape(name)} cannot be .*{said}.*\\. Choose another, or unset COURSE_WRITER.*"
        assert re.fullmatch(f"CheckpointError: {expected}", found[name]), found[name]


@pytest.mark.slow
def test_packaged_model_is_that_of_transformers(monkeypatch):
    """On more texts than those of notebook 13; `rotate_in_their_order` is taught there."""
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    ours, tokenizer = load_writer()
    theirs = to_llama(ours)
    monkeypatch.setattr(gguf, "get_tensor_name_map", functools.cache(gguf.get_tensor_name_map))  # 6 s less
    read = load_gguf_checkpoint(str(packaged_file()), return_tensors=True, model_to_load=theirs)["tensors"]
    weights = theirs.state_dict()
    assert weights.keys() - read.keys() <= {"lm_head.weight"}
    assert all(torch.equal(weight, weights[name]) for name, weight in read.items())
    taught = definitions(writer_costs.NOTEBOOK, ["imports", "their-order"])
    truth = to_llama(exact := copy.deepcopy(ours).double())
    for text in TEXTS:
        ids = tokenizer(text, return_tensors="pt").input_ids
        with torch.no_grad(), monkeypatch.context() as patched:
            made, expected = ours(ids), theirs(ids, output_attentions=True)
            doubles, true = exact(ids), truth(ids, output_attentions=True)
            patched.setattr(llama, "rotate", taught["rotate_in_their_order"])
            ordered = ours(ids)
        close(doubles.logits, true.logits, 5e-5)
        close(doubles.attentions, true.attentions, 1e-5)
        close([one.double() for one in made.attentions], [*true.attentions], 1e-5)
        # Each CPU rounds float32 in its own way: our logits are about as far from float64 as theirs, on each.
        own, other = ((output.logits - true.logits).square().mean() for output in (made, expected))
        assert own <= 3**2 * other
        close(ordered.logits, expected.logits, 1e-6)  # 0 so far
        close(ordered.attentions, expected.attentions, 1e-6)
        assert torch.equal(made.logits.argmax(-1), expected.logits.argmax(-1))
    expected = theirs.generate(ids[:, :9], max_new_tokens=12, do_sample=False)
    assert torch.equal(generate(ours, ids[:, :9], 12, end=tokenizer.eos_token_id), expected)


TEXTS = ["Paris", "Čeština, 中文 and 🙂: 12 × 7?\n", "def f(x):\n    return x  # why?\n" * 9]
TEXTS += ["Zażółć gęślą jaźń — 日本語の文 🙂👩\u200d🚀: 3 × 14 = 42, naïve café?\n\tdef f(x): return x**2"]
TEXTS += [PROSE.read_text(encoding="utf-8").partition("\n")[0]]
