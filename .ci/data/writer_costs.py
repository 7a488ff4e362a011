"""Measures for notebook 13 what a second rounding costs, and what a cache saves: `make writer-costs`.

That takes about two minutes on one core and writes notebooks/13_costs.json, which the notebook reads.
"""

import json
import sys
import time

import torch

import course
from longer_runs import definitions

sys.path.insert(0, str(course.ROOT))

from utils.llama import generate, load_writer
from utils.probes import losses, read_prose

STORED = course.NOTEBOOKS / "13_costs.json"
NOTEBOOK = course.NOTEBOOKS / "13_build_a_model_that_writes.ipynb"
CELLS = ["imports", "shake"]
SEEDS, TOKENS, LENGTHS = range(3), 100, (16, 64)
PROMPT = "The old lighthouse keeper opened the door and"


def rounding(seed, texts=12):
    """The losses of the texts before and after a second rounding with this seed, and its size."""
    shake_all = definitions(NOTEBOOK, CELLS)["shake_all"]
    model, tokenizer = load_writer()
    rows = read_prose(tokenizer, TOKENS)[:texts]
    before, size = losses(model, rows), shake_all(model, seed)
    found = {"before": before, "after": losses(model, rows)}  # each (texts, tokens - 1)
    rounded = {name: [round(loss, 3) for loss in table.mean(dim=1).tolist()] for name, table in found.items()}
    return {"seed": seed, "size": round(size, 4)} | rounded


def cache(length):
    """The seconds of CPU time for so many new tokens, with the cache and without it."""
    model, tokenizer = load_writer()
    ids = tokenizer(PROMPT, return_tensors="pt").input_ids
    begin = time.process_time()
    generate(model, ids, length)
    between = time.process_time()
    with torch.no_grad():
        for _ in range(length):
            ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(dim=-1)], dim=1)
    return {"with": round(between - begin, 2), "without": round(time.process_time() - between, 2)}


def main():
    torch.set_num_threads(1)
    found = {"cache": {str(length): cache(length) for length in LENGTHS}}
    found["rounding"] = [rounding(seed) for seed in SEEDS]
    STORED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
