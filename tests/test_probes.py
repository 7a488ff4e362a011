"""The probes room: balanced texts, heads gone as if nothing read them, parts that sum to the whole."""

import copy
from collections import Counter

import pytest
import torch
from refused import refusals
from test_llama import new_llama
from tiny_models import close

from utils import probes
from utils.gguf import make_tokenizer, packaged_file, read_gguf
from utils.llama import from_llama

IDS = torch.randint(40, (2, 7), generator=torch.Generator().manual_seed(3))
MODEL = from_llama(new_llama(num_hidden_layers=3)).requires_grad_(False)  # 4 heads of 6, 2 of keys


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer(read_gguf(packaged_file())[0])


def test_texts_have_their_lengths_and_repetitions(tokenizer):
    texts = probes.read_prose(tokenizer, 200)
    assert texts.shape == (12, 200) and tokenizer.decode(texts[0, :4]) == "The ferry to Ald"
    with pytest.raises(ValueError, match="has 203 tokens"):
        probes.read_prose(tokenizer, 300)
    ids = probes.repeated_tokens(3, 25, seed=1, first=7)
    assert ids.shape == (3, 51) and (ids[:, 0] == 7).all() and torch.equal(ids[:, 1:26], ids[:, 26:])
    assert not torch.equal(ids, probes.repeated_tokens(3, 25, seed=2, first=7))


def test_prompts_are_counterbalanced_and_know_their_places(tokenizer):
    prompts, rows = probes.name_prompts(tokenizer, 8, seed=0), torch.arange(32)
    assert Counter(prompts.right.tolist()) == Counter(prompts.wrong.tolist())
    assert Counter(prompts.group.tolist()) == dict.fromkeys(range(8), 4)
    assert torch.equal(prompts.input_ids[rows, prompts.right_at], prompts.right)
    assert torch.equal(prompts.input_ids[rows, prompts.again_at], prompts.wrong)
    for row, text in enumerate(prompts.texts):
        assert tokenizer.decode(prompts.input_ids[row, : prompts.last[row] + 1]) == text
        right, wrong = (tokenizer.decode(ids[row]).strip() for ids in (prompts.right, prompts.wrong))
        assert text.count(right) == 1 and text.count(wrong) == 2 and {right, wrong} <= set(probes.NAMES)
        assert (text.index(wrong) < text.index(right)) == (row % 4 in (0, 3))  # both orders, both roles


def test_losses_and_runs_in_two_parts_are_those_of_the_model():
    whole = MODEL(IDS)
    expected = torch.nn.functional.cross_entropy(whole.logits[:, :-1].mT, IDS[:, 1:], reduction="none")
    assert torch.allclose(probes.losses(MODEL, IDS), expected)
    seen = probes.watched(MODEL, IDS)
    assert torch.allclose(probes.losses(MODEL, IDS, 3, seen.hidden_states[-1]), expected[:, 3:])
    assert torch.equal(torch.stack(seen.hidden_states[:-1]), torch.stack(whole.hidden_states[:-1]))
    assert torch.equal(torch.stack(seen.attentions), torch.stack(whole.attentions))
    later = probes.watched(MODEL, IDS[:, 4:], probes.watched(MODEL, IDS[:, :4]).past)
    assert torch.allclose(later.hidden_states[-1], seen.hidden_states[-1][:, 4:], atol=1e-6)
    close(seen.past + later.past, whole.past * 2, 1e-6)
    state = probes.run_blocks(MODEL, MODEL.embeddings(IDS), 0, 2)
    assert torch.allclose(state, whole.hidden_states[2])
    assert torch.allclose(MODEL.norm(probes.run_blocks(MODEL, state, 2)), whole.hidden_states[-1])


def test_a_removed_head_is_as_if_no_weight_read_it_and_comes_back():
    heads, before, other = [(0, 1), (2, 0), (2, 3)], MODEL(IDS).logits, copy.deepcopy(MODEL)
    for layer, head in heads:
        other.blocks[layer].attention.output.weight[:, head * 6 : head * 6 + 6] = 0
    with probes.heads_removed(MODEL, heads):
        assert torch.allclose(MODEL(IDS).logits, other(IDS).logits)
    assert torch.equal(MODEL(IDS).logits, before)
    with probes.heads_heard(MODEL) as heard:
        MODEL(IDS)
    means = probes.head_means(probes.watched(MODEL, IDS).heard, torch.tensor([6, 2]))
    with probes.heads_removed(MODEL, [(1, 2)], means):
        removed = probes.watched(MODEL, IDS).heard
    assert torch.allclose(removed[1][0, 0, 2], (heard[1][0, 6, 2] + heard[1][1, 2, 2]) / 2)
    assert torch.allclose(probes.head_means(heard)[0], heard[0].mean(dim=(0, 1)))


def test_a_cut_path_changes_what_is_named_and_nothing_else():
    whole, block = MODEL(IDS), copy.deepcopy(MODEL.blocks[1])
    with probes.heads_heard(MODEL) as heard:
        MODEL(IDS)
    written = heard[0][:, :, 1] @ MODEL.blocks[0].attention.output.weight[:, 6:12].T
    without = block.attention_norm(whole.hidden_states[1] - written)
    for into in ("key", "query", "value"):
        other = copy.deepcopy(block)
        getattr(other.attention, into).register_forward_pre_hook(lambda module, args: (without,))
        with probes.path_cut(MODEL, (0, 1), [1], into):
            assert torch.allclose(MODEL(IDS).hidden_states[2], other(whole.hidden_states[1])[0])
    assert torch.equal(MODEL(IDS).logits, whole.logits)


def test_heads_feed_forwards_and_embedding_sum_to_the_logit_difference(tokenizer):
    prompts, rows, fed = probes.name_prompts(tokenizer, 2, seed=1), torch.arange(8), []
    prompts = prompts._replace(input_ids=prompts.input_ids % 40, right=rows, wrong=rows + 9)
    hooks = [b.feed_forward.register_forward_hook(lambda m, a, out: fed.append(out)) for b in MODEL.blocks]
    with probes.hooked(hooks):
        seen = probes.watched(MODEL, prompts.input_ids)
    embedded, state = seen.hidden_states[0], seen.hidden_states[-1]
    rest, end = (sum(fed) + embedded)[rows, prompts.last], state[rows, prompts.last]
    normed = rest / torch.sqrt(end.square().mean(dim=-1, keepdim=True) + MODEL.norm.eps) * MODEL.norm.weight
    by_rest = probes.logit_difference(normed @ MODEL.output.weight.T, prompts)
    whole = probes.logit_difference(probes.name_logits(MODEL, state, prompts), prompts)
    assert torch.allclose(probes.contributions(MODEL, prompts, seen).sum(dim=(1, 2)) + by_rest, whole)


def test_last_tokens_are_those_of_the_whole_prompts(tokenizer):
    prompts = probes.name_prompts(tokenizer, 8, seed=1)
    prompts = prompts._replace(input_ids=prompts.input_ids % 40)
    whole, parts = probes.watched(MODEL, prompts.input_ids), probes.last_tokens(MODEL, prompts)
    assert len(parts) == len(prompts.last.unique()) > 1
    for part, last in zip(parts, prompts.last.unique(), strict=True):
        rows = torch.where(prompts.last == last)[0]
        for ours, theirs in zip(part.states + part.put_out, whole.hidden_states + whole.heard, strict=True):
            assert torch.allclose(ours[:, 0], theirs[rows, last], atol=1e-6)
        look = torch.stack([each[rows, :, last, prompts.right_at[rows]] for each in whole.attentions], dim=1)
        assert torch.allclose(part.look, look, atol=1e-6) and torch.equal(part.right, prompts.right[rows])


test_refused = refusals(
    ("head", lambda: probes.heads_removed(MODEL, [(3, 0)]).__enter__(), ValueError, "no head"),
    ("source", lambda: probes.path_cut(MODEL, (0, 4), [1]).__enter__(), ValueError, "no head"),
)
