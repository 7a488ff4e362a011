"""Time and memory of multi-head attention that returns its weights, beside the native kernel of PyTorch.

The peer is `nn.MultiheadAttention(need_weights=True, average_attn_weights=False)` in eval mode and without
gradients, where PyTorch runs code of its own for it. All take turns in one process on the same numbers, so
that whatever else the machine does strikes all of them. Memory is the most that the tensors of one call take
at a time, without its input and weights.

It prints a table and fails nothing. Run it by `make bench`, or alone:
`python tests/benchmarks/bench_attention.py`.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import torch
from torch import nn

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from summary import record  # noqa: E402

from utils.attention import MultiHeadAttention, MultiHeadAttentionList, weights_of_list, weights_of_torch  # noqa: E402

HIDDEN_SIZE, NUM_HEADS, THREADS = 768, 12, 2
GOALS = {"vectorised": 1.25}  # times the native kernel; the list of heads is there to be read, not to be fast
ROUNDS = {(1, 20): 300, (8, 128): 60, (1, 512): 80}  # (batch, length): how many turns each takes


def contestants():
    """Return each contestant as a function of the hidden state, all with the same weights."""
    peer = nn.MultiheadAttention(HIDDEN_SIZE, NUM_HEADS, batch_first=True).eval()
    heads = MultiHeadAttentionList(HIDDEN_SIZE, NUM_HEADS).eval()
    vectorised = MultiHeadAttention(HIDDEN_SIZE, NUM_HEADS).eval()
    vectorised.load_state_dict(weights_of_list(heads))
    for name, weight in weights_of_torch(peer).items():
        weight.data.copy_(vectorised.state_dict()[name])  # each is a view of a weight of the peer
    return {
        "native": lambda x: peer(x, x, x, need_weights=True, average_attn_weights=False),
        "vectorised": vectorised,
        "list of heads": heads,
    }


def say_if_unfair(runs, hidden_state):
    """Print a line if the three do not compute the same, or if the peer does not run its native code."""
    original = torch._native_multi_head_attention
    with mock.patch.object(torch, "_native_multi_head_attention", side_effect=original) as kernel:
        expected = runs["native"](hidden_state)
    if not kernel.called:
        print("NOT NATIVE: nn.MultiheadAttention did not take its fast path")
    for name, run in runs.items():
        pairs = zip(run(hidden_state), expected, strict=True)
        apart = max((own - native).abs().max().item() for own, native in pairs)
        if apart > 1e-5:
            print(f"NOT EQUAL: {name} differs from the native kernel by {apart:.1e}")


def take_turns(runs, hidden_state, rounds):
    """Return the seconds of each, one number for each round. Every other round goes backwards."""
    seconds = {name: [] for name in runs}
    order = list(runs.items())
    for _ in range(rounds):
        for name, run in order:
            start = time.perf_counter()
            run(hidden_state)
            seconds[name].append(time.perf_counter() - start)
        order.reverse()
    return seconds


def peak_memory(run, hidden_state):
    """Return the MB that the tensors of one call take at most, from PyTorch's own account of each."""
    with torch.profiler.profile(profile_memory=True) as profile:
        run(hidden_state)
    with tempfile.TemporaryDirectory() as folder:
        profile.export_chrome_trace(f"{folder}/trace.json")
        events = json.loads(Path(folder, "trace.json").read_text())["traceEvents"]
    now, peak = 0, 0
    for event in sorted((e for e in events if e["name"] == "[memory]"), key=lambda e: e["ts"]):
        now += event["args"]["Bytes"]
        peak = max(peak, now)
    return peak / 2**20


def print_memory():
    runs, peaks = contestants(), {}
    with torch.inference_mode():
        for batch, length in ROUNDS:
            hidden_state = torch.randn(batch, length, HIDDEN_SIZE)
            peaks |= {
                f"{name} {batch} {length}": peak_memory(run, hidden_state) for name, run in runs.items()
            }
    print(json.dumps(peaks))


def main():
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    # In a process of its own, as the profiler may chatter on stderr.
    asked = subprocess.run([sys.executable, __file__, "--memory"], capture_output=True, text=True, check=True)
    memory, runs = json.loads(asked.stdout), contestants()
    print(f"Attention and its weights: width {HIDDEN_SIZE}, {NUM_HEADS} heads, {THREADS} threads, float32.")
    print(
        "Times the native kernel: by the medians, by the median of all rounds' ratios, by the fastest rounds."
    )
    print(f"{'batch, length':>13}  {'':14}{'ms':>10}{'medians':>9}{'rounds':>8}{'fastest':>9}{'peak MB':>9}")
    with torch.inference_mode():
        for (batch, length), rounds in ROUNDS.items():
            hidden_state = torch.randn(batch, length, HIDDEN_SIZE)
            say_if_unfair(runs, hidden_state)
            seconds = take_turns(runs, hidden_state, rounds)
            peer = seconds["native"]
            for name, own in seconds.items():
                median = statistics.median(own)
                ratio = median / statistics.median(peer)
                by_round = statistics.median(a / b for a, b in zip(own, peer, strict=True))
                print(
                    f"{f'({batch}, {length})':>13}  {name:14}{median * 1e3:10.2f}{ratio:9.2f}{by_round:8.2f}"
                    f"{min(own) / min(peer):9.2f}{memory[f'{name} {batch} {length}']:9.1f}"
                )
                if name != "native":
                    goal = GOALS.get(name)
                    record(
                        f"attention ({batch}, {length}), {name}",
                        f"{median * 1e3:.2f} ms",
                        f"{by_round:.2f} of the native kernel",
                        f"{goal}" if goal else "",
                        by_round <= goal if goal else None,
                    )


if __name__ == "__main__":
    print_memory() if sys.argv[1:] == ["--memory"] else main()
