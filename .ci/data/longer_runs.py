"""Trains the models of notebook 12 again, ten seeds of each, and stores what they reach: `make longer-runs`.

That takes about 20 minutes on one core and writes notebooks/12_longer_runs.json, which the notebook reads.
Every definition is the notebook's own: its cells named below are run, and none of them trains.
"""

import json
import os
import sys

import course

STORED = course.NOTEBOOKS / "12_longer_runs.json"
NOTEBOOK = course.NOTEBOOKS / "12_watch_a_head_form.ipynb"
CELLS = ["imports", "make-task", "loss-defined", "config", "model", "scores", "record", "train", "ablate"]
CELLS += ["cut-paths", "tests", "shifted"]

EVERY = 50  # steps between two stored losses
GRADED, NONE = (2.0, 1.0, 0.2), (0.0, 0.0, 0.0)
TRAININGS = {  # name: positions, steps, weight decay of attentions, of embeddings and norms, of logits
    "graded": ("learned", 900, GRADED),
    "graded, 300 steps": ("learned", 300, GRADED),
    "even": ("learned", 900, (1.0, 1.0, 1.0)),
    **{f"{name}, no decay": (name, 1000, NONE) for name in ("learned", "sinusoidal", "relative", "rotary")},
    "None, no decay": (None, 3000, NONE),
    "one layer, graded": ("learned", 900, GRADED),
    "one layer, no decay": ("learned", 900, NONE),
}
SEEDS = range(10)


def definitions(notebook=NOTEBOOK, cells=CELLS) -> dict:
    """What these cells of a notebook define."""
    os.environ["COURSE_STATIC_VIEWS"] = "1"  # no progress bars
    sys.path.insert(0, str(course.ROOT))
    sources = {cell.id: cell.source for cell in course.read(notebook).cells}
    names = {"os": os}
    for name in cells:
        exec(compile(sources[name], f"<{name}>", "exec"), names)
    return names


def run(notebook: dict, training: str, seed: int, steps: int | None = None) -> dict:
    """Train one model, or only its first steps, and return what is stored of it."""
    positions, planned, decay = TRAININGS[training]
    num_layers = 1 if training.startswith("one layer") else 2
    model, seen = notebook["train_to_copy"](positions, steps or planned, seed, decay, EVERY, num_layers)
    found = {"loss": [moment.loss for moment in seen], "accuracy": notebook["measure"](model)}
    if num_layers == 1:  # nothing to cut
        return {"training": training, "seed": seed} | rounded(found)
    helper, inductor = (divmod(table.argmax().item(), 4) for table in (seen[-1].previous, seen[-1].induction))
    rows = seen[-1].weights[helper].diagonal(offset=-1)  # the weight of each row on its left neighbour
    measure, tests = notebook["measure"], notebook["tests"]
    found |= {
        "without": list(notebook["accuracy_without_each"](model).values()),
        "left": [rows[:15].mean().item(), rows[16:].mean().item()],
        "cut": notebook["cut_paths"](model, helper, inductor) if (helper[0], inductor[0]) == (0, 1) else None,
        "tests": {name: measure(model, *test) for name, test in tests.items()},
        "shifted": notebook["shifted_accuracy"](model),
    }
    return {"training": training, "seed": seed} | rounded(found)


def rounded(found):
    """The same with three decimals."""
    if isinstance(found, dict):
        return {name: rounded(value) for name, value in found.items()}
    if isinstance(found, list):
        return [rounded(value) for value in found]
    return round(found, 3) if isinstance(found, float) else found


def main() -> None:
    notebook, lines = definitions(), []
    for seed in SEEDS:
        for training in TRAININGS:
            lines.append(json.dumps(run(notebook, training, seed)))
            print(f"{training}, seed {seed}", flush=True)
            STORED.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
