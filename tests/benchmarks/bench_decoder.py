"""Time of the encoder-decoder: of a training step, of the whole training, and of decoding with the cache.

The peer of a training step is the same step of PyTorch's `nn.Transformer` of the same size. The peer of
decoding with the key-value cache is decoding without it. Peers take turns in one process, so that whatever
else the machine does strikes both. The trainings are those of the course, from three seeds.

It prints tables and fails nothing. Run it by `make bench`, or alone:
`python tests/benchmarks/bench_decoder.py`.
"""

import os
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import nn

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
os.environ["COURSE_STATIC_VIEWS"] = "1"  # no bars

from summary import record  # noqa: E402

from utils.dates import DATE_CONFIG, exact_match, make_dates, next_token_loss, pad_texts, train  # noqa: E402
from utils.decoder import END, EncoderDecoder, greedy_decode  # noqa: E402
from utils.threads import one_thread  # noqa: E402

SEEDS, SHOWN = (0, 1, 2), (0, 50, 100, 200, 300, 400, 599)
GOAL_SECONDS, GOAL_MATCH = 60, 0.95
LONG = SimpleNamespace(**vars(DATE_CONFIG))
LONG.hidden_size, LONG.num_hidden_layers, LONG.intermediate_size = 256, 4, 1024
LONG.max_position_embeddings = 256
# (batch, source tokens, new tokens): how many turns each takes
ROUNDS = {(1, 40, 32): 6, (1, 40, 128): 2, (8, 40, 128): 1, (1, 40, 256): 1}


class Peer(nn.Module):
    """PyTorch's own Transformer, with the sizes and the interface of an `EncoderDecoder`."""

    def __init__(self, config):
        super().__init__()
        self.source = nn.Embedding(config.vocab_size, config.hidden_size)
        self.target = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.transformer = nn.Transformer(
            config.hidden_size,
            config.num_attention_heads,
            config.num_hidden_layers,
            config.num_hidden_layers,
            config.intermediate_size,
            dropout=0.0,
            activation="gelu",
            batch_first=True,
        )
        self.to_vocabulary = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, source_ids, target_ids, source_mask):
        source, target = (
            embedding(ids) + self.position.weight[: ids.shape[1]]
            for embedding, ids in ((self.source, source_ids), (self.target, target_ids))
        )
        later = torch.ones(2 * [target_ids.shape[1]], dtype=torch.bool).triu(1)
        pads = source_mask == 0
        decoded = self.transformer(
            source, target, tgt_mask=later, src_key_padding_mask=pads, memory_key_padding_mask=pads
        )
        return SimpleNamespace(logits=self.to_vocabulary(decoded))


def take_turns(runs, rounds):
    """Return the seconds of each, one number for each round. Every other round goes backwards."""
    seconds = {name: [] for name in runs}
    order = list(runs.items())
    for _ in range(rounds):
        for name, run in order:
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
        order.reverse()
    return seconds


def ratio(ours, theirs):
    """Return the median of the ratios of all rounds."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def say_if_unfair(runs):
    """Print a line if decoding with the cache and without it do not write the same."""
    cached, plain = (run() for run in runs.values())
    apart = (cached.logits - plain.logits).abs().max().item()
    if not torch.equal(cached.target_ids, plain.target_ids) or apart > 1e-4:
        print(f"NOT EQUAL: decoding with the cache and without it differ by {apart:.1e}")


def print_steps():
    pairs = make_dates(32, seed=0)

    def stepper(model):
        def step():
            model.zero_grad()
            next_token_loss(model, pairs).backward()

        return step

    runs = {"ours": stepper(EncoderDecoder(DATE_CONFIG)), "nn.Transformer": stepper(Peer(DATE_CONFIG))}
    take_turns(runs, 3)  # to warm up
    seconds = take_turns(runs, 20)
    ours, theirs = (statistics.median(found) * 1e3 for found in seconds.values())
    print("\nForward and backward of a batch of 32 dates, median of ms:")
    print(f"ours {ours:.1f}   nn.Transformer {theirs:.1f}   ratio {ratio(*seconds.values()):.2f}")


def print_trainings():
    losses = "".join(f"{f'loss {step}':>10}" for step in SHOWN)
    print(
        f"\nThe training of the course, 600 steps (goals: {GOAL_SECONDS} s, {GOAL_MATCH} of held-out dates):"
    )
    print(f"{'seed':>4}{losses}{'match':>8}{'seconds':>9}{'of CPU':>8}{'load':>6}")
    held_out = make_dates(1000, seed=1, held_out=True)
    for seed in SEEDS:
        torch.manual_seed(seed)
        model, pairs = EncoderDecoder(DATE_CONFIG), make_dates(20_000, seed=0)
        wall, cpu = time.perf_counter(), time.process_time()
        found = train(model, pairs, seed=seed)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        match = exact_match(model, held_out)
        reached = "reached" if match >= GOAL_MATCH and wall <= GOAL_SECONDS else "MISSED"
        curve = "".join(f"{found[step]:10.3f}" for step in SHOWN)
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
        print(f"{seed:>4}{curve}{match:8.3f}{wall:9.1f}{cpu:8.1f}{load:6.1f}  {reached}", flush=True)
        record(
            f"training on dates, seed {seed}",
            f"{wall:.1f} s, {match:.3f} right",
            f"load {load:.1f}",
            f"{GOAL_SECONDS} s, {GOAL_MATCH}",
            reached == "reached",
        )


def print_decoding(name, config, cases):
    torch.manual_seed(0)
    model = EncoderDecoder(config).eval()
    model.to_vocabulary.bias.data[END] = -1e9  # never ends, so that every run has the same length
    print(f"\nGreedy decoding, {name}, median of ms:")
    print(f"{'batch, source, new':>20}{'cache':>10}{'no cache':>10}{'speed-up':>10}")
    for (batch, length, new), rounds in cases.items():
        source = torch.randint(3, config.vocab_size, (batch, length))
        runs = {use: partial(greedy_decode, model, source, None, new, use) for use in (True, False)}
        say_if_unfair(runs)
        seconds = take_turns(runs, rounds)
        cached, plain = (statistics.median(found) * 1e3 for found in seconds.values())
        faster = ratio(seconds[False], seconds[True])
        print(f"{f'({batch}, {length}, {new})':>20}{cached:10.1f}{plain:10.1f}{faster:10.2f}", flush=True)
        record(
            f"decoding {(batch, length, new)} with the cache",
            f"{cached:.1f} ms",
            f"{1 / faster:.2f} of no cache",
            "",
            None,
        )


@one_thread()
def main():
    length = pad_texts([text for text, _ in make_dates(500, seed=0)])[0].shape[1]
    print("The encoder-decoder: float32, one thread.")
    print_steps()
    print_trainings()
    dates = {(1, length, 11): 40, (500, length, 11): 4}
    print_decoding("the date model", DATE_CONFIG, dates)
    print_decoding(f"{LONG.num_hidden_layers} layers of width {LONG.hidden_size}", LONG, ROUNDS)


if __name__ == "__main__":
    main()
