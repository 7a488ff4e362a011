"""Time of the encoder beside the BERT of transformers whose weights it has.

The peers are the library's `BertModel` with eager attention, against the encoder as it is, and with sdpa,
against the encoder with fused attention. The encoder always returns every hidden state and, unless fused,
every attention weight. So the eager peer is asked for them, too; a line of its own tells what it takes
without (memory that is kept cannot be used again by the next layer). The pooler, which the encoder lacks, is
taken out.

All take turns in one process on the same inputs and share one copy of the weights, so that whatever else the
machine does strikes all of them. It prints a table and fails nothing. Run it by `make bench`, or alone:
`python tests/benchmarks/bench_encoder.py`.
"""

import statistics
import sys
import time
from pathlib import Path

import torch
from transformers import AutoModel, BertConfig, BertModel

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from summary import record  # noqa: E402

from utils.attention import use_fused_attention  # noqa: E402
from utils.encoder import Encoder  # noqa: E402
from utils.models import checkpoint  # noqa: E402

THREADS, GOAL = 2, 1.05
SECONDS, FEWEST, MOST = 12, 5, 200  # how long a case is measured, and between which numbers of rounds
CASES = [(1, 20, 0), (8, 128, 0), (8, 128, 40), (1, 512, 0)]  # batch, length, pads in every other sequence
PAIRS = [("by hand", "eager"), ("by hand", "eager, plain"), ("fused", "sdpa")]


def models():
    """Return the two eager models to measure, by name."""
    torch.manual_seed(0)
    base = BertModel(BertConfig(attn_implementation="eager")).eval()
    course = AutoModel.from_pretrained(checkpoint(), attn_implementation="eager").eval()
    return {"The shape of bert-base, random weights": base, "The course's model": course}


def contestants(eager):
    """Return each contestant as a function of the inputs, all with the same weights."""
    eager.pooler = None
    config = BertConfig(**eager.config.to_diff_dict(), attn_implementation="sdpa")
    sdpa = BertModel(config, add_pooling_layer=False).eval()
    sdpa.load_state_dict(eager.state_dict(), assign=True)
    return {
        "eager": lambda **inputs: eager(**inputs, output_hidden_states=True, output_attentions=True),
        "eager, plain": eager,
        "by hand": Encoder.from_bert(eager),
        "sdpa": sdpa,
        "fused": use_fused_attention(Encoder.from_bert(eager)),
    }


def make_inputs(batch, length, pads, vocab_size):
    """Return what a tokenizer would."""
    attention_mask = torch.ones(batch, length, dtype=torch.long)
    if pads:
        attention_mask[1::2, -pads:] = 0
    return {
        "input_ids": torch.randint(vocab_size, (batch, length)),
        "token_type_ids": torch.zeros(batch, length, dtype=torch.long),
        "attention_mask": attention_mask,
    }


def say_if_unfair(runs, inputs):
    """Print a line if a pair does not compute the same, or if the library's two attentions are one."""
    found = {name: run(**inputs) for name, run in runs.items()}
    for own, peer in PAIRS:
        apart = (found[own].last_hidden_state - found[peer].last_hidden_state).abs().max().item()
        if apart > 1e-5:
            print(f"NOT EQUAL: {own} differs from {peer} by {apart:.1e}")
    for name in ("eager", "by hand"):
        if len(found[name].attentions) != len(found[name].hidden_states) - 1:
            print(f"NOT WHOLE: {name} does not return the weights of every layer")
    if torch.equal(found["eager"].last_hidden_state, found["sdpa"].last_hidden_state):
        print("NOT TWO PEERS: eager and sdpa give the same bits, so both may run the same code")


def take_turns(runs, inputs):
    """Return the seconds of each, one number for each round. Every other round goes backwards."""
    seconds = {name: [] for name in runs}
    order, begin = list(runs.items()), time.perf_counter()
    for number in range(MOST):
        if number >= FEWEST and time.perf_counter() - begin > SECONDS:
            break
        for name, run in order:
            start = time.perf_counter()
            run(**inputs)
            seconds[name].append(time.perf_counter() - start)
        order.reverse()
    return seconds


def print_line(case, own, peer, seconds):
    """Print the times of one contestant as ratios to its peer's."""
    ours, theirs = seconds[own], seconds[peer]
    medians = statistics.median(ours) / statistics.median(theirs)
    by_round = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    said = "reached" if by_round <= GOAL else "missed"
    record(
        f"encoder {case}, {own}",
        f"{statistics.median(ours) * 1e3:.1f} ms",
        f"{by_round:.2f} of {peer}",
        f"{GOAL}",
        by_round <= GOAL,
    )
    print(
        f"{case!s:>19}  {own + ' / ' + peer:24}{statistics.median(ours) * 1e3:9.1f}"
        f"{statistics.median(theirs) * 1e3:9.1f}{medians:9.2f}{by_round:8.2f}{min(ours) / min(theirs):9.2f}"
        f"{len(ours):8}  {said}"
    )


def main():
    torch.set_num_threads(THREADS)
    print(f"The encoder and the library's BertModel: {THREADS} threads, float32, medians in ms.")
    print("Times the library's: by the medians, by the median of all rounds' ratios, by the fastest rounds.")
    print(f"The goal is {GOAL} times the peer, by the rounds' ratios.")
    for name, eager in models().items():
        config, runs = eager.config, contestants(eager)
        print(f"\n{name}: {config.num_hidden_layers} layers, width {config.hidden_size}")
        heads = f"{'ours':>9}{'theirs':>9}{'medians':>9}{'rounds':>8}{'fastest':>9}{'turns':>8}"
        print(f"{'batch, length, pads':>19}  {'':24}{heads}")
        for case in CASES:
            inputs = make_inputs(*case, config.vocab_size)
            with torch.inference_mode():
                say_if_unfair(runs, inputs)  # which also warms up
                seconds = take_turns(runs, inputs)
            for own, peer in PAIRS:
                print_line(case, own, peer, seconds)


if __name__ == "__main__":
    main()
