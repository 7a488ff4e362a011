"""Measures what notebook 11 says of time and memory again, and stores it with its machine: `make timings`.

That takes half a minute, and wants a machine on which nothing else runs. It writes notebooks/11_timings.json,
which the notebook reads: run that again then (make notebooks ARGS="11"). Every definition is the notebook's
own.
"""

import json
import platform
from pathlib import Path

import course
from longer_runs import definitions

STORED = course.NOTEBOOKS / "11_timings.json"
NOTEBOOK = course.NOTEBOOKS / "11_cost_of_attention.ipynb"
CELLS = ["imports", "slope", "functions", "clock", "tiled"]
LENGTHS = [512, 1024, 2048, 4096]  # for the memory


def most_held(function, *args) -> int:
    """The most bytes that a call holds at one time beside its
    arguments, as PyTorch's allocator counts them."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        kept = function(*args)  # noqa: F841  (what is returned is held too)
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()  # negative, where memory is given back
        most = max(most, held)
    return most


def memory(notebook: dict, lengths=LENGTHS) -> dict:
    """Bytes held by four kinds of attention, with two heads of width 64: {kind: {length: bytes}}."""
    torch = notebook["torch"]
    torch.set_num_threads(1)  # each thread of a kernel has a tile of its own
    layer = torch.nn.MultiheadAttention(128, 2, batch_first=True).eval()
    kinds = {
        "by hand": notebook["scaled_dot_product_attention"],
        "in tiles": notebook["tiled_attention"],
        "fused": torch.nn.functional.scaled_dot_product_attention,
        "nn.MultiheadAttention": lambda *inputs: layer(*inputs, need_weights=False),
    }
    found = {name: {} for name in kinds}
    with torch.no_grad():
        for name, length in [(name, length) for name in kinds for length in lengths]:
            inputs = torch.randn(3, 1, 2, length, 64)  # query, key, value: (batch, heads, seq, head_dim)
            if name == "nn.MultiheadAttention":  # which splits (batch, seq, hidden_size) itself
                inputs = [torch.randn(1, length, 128)] * 3
            found[name][str(length)] = most_held(kinds[name], *inputs)
    return found


def machine(notebook: dict) -> str:
    """The processor, the system and the version of PyTorch, in a line."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    name, version = [*names, platform.processor()][0], notebook["torch"].__version__
    return f"{name}, {platform.system()}, PyTorch {version}, one thread"


def main() -> None:
    notebook = definitions(NOTEBOOK, CELLS)
    times = notebook["measure_times"]()
    seconds = {name: {str(n): float(f"{time:.4g}") for n, time in row.items()} for name, row in times.items()}
    found = {"machine": machine(notebook), "seconds": seconds, "bytes": memory(notebook)}
    STORED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
