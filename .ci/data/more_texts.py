"""Runs what notebooks 14 and 15 show on more texts, sequences and prompts, and stores it: `make more-texts`.

That takes about six minutes on one core and writes notebooks/14_more_texts.json and 15_more_texts.json, which
the notebooks read. Every definition is the notebook's own: its cells named below are run.
"""

import json
import random

import course
from longer_runs import definitions, rounded

STORED = course.NOTEBOOKS / "14_more_texts.json"
NOTEBOOK = course.NOTEBOOKS / "14_look_inside_a_model_that_writes.ipynb"
CELLS = ["imports", "load", "watch", "seeing", "windows", "scores", "removed", "copying", "path"]
CELLS += ["prompts", "contributions"]
DRAWS = 20  # of heads at random
STORED_15 = course.NOTEBOOKS / "15_more_texts.json"
NOTEBOOK_15 = course.NOTEBOOKS / "15_ask_what_attention_explains.ipynb"
CELLS_15 = ["imports", "load-bert", "00cd3327", "hide-words", "2a09eb7d"]


def hidden(of: dict, texts=slice(None)) -> dict:
    """Of each text the loss behind place 32 and the weight on token 1, for each token that is hidden."""
    return {
        name: of["read_with"](keep, of["prose"][texts, :96]).tolist() for name, keep in of["HIDDEN"].items()
    }


def windows(of: dict, texts=slice(None)) -> dict:
    """The loss by place of each text, for each way to see."""
    return {
        name: of["loss_by_place"](of["prose"][texts], keep).tolist() for name, keep in of["WINDOWS"].items()
    }


def copying(of: dict, count=24, draws=DRAWS) -> dict:
    """For each sequence the share that is copied: with all heads, without some, with a path cut."""
    model, copied, name, run = of["model"], of["copied"], of["head_name"], of["run_blocks"]
    sequences = of["repeated_tokens"](count, 25, seed=8)
    entering = {0: model.embeddings(sequences)}
    for before, first in ((0, 1), (1, 9), (9, 16)):
        entering[first] = run(model, entering[before], before, first)

    def share(first=16):
        return copied(sequences, entering[first], first).tolist()

    def without(head, means=None):
        with of["heads_removed"](model, [head], means):
            return share(max(first for first in entering if first <= head[0]))

    found = {"all heads": share(), "without L16H0, zero": without((16, 0))}
    found["without L16H0, mean"] = without((16, 0), of["means"])
    for source, into in (((16, 0), "key"), ((16, 0), "query"), ((16, 0), "value"), ((16, 4), "key")):
        with of["path_cut"](model, source, [17, 18], into):
            found[f"{name(*source)} cut from {into}"] = share()
    found |= {name(*head): without(head) for head in of["RIVALS"][: draws + 1]}
    others = [(layer, head) for layer in range(9, 20) for head in range(9) if (layer, head) != (16, 0)]
    drawn = random.Random(0).sample(others, draws)
    return found | {f"random {name(*head)}": without(head) for head in drawn}


def names(of: dict, groups=50, draws=DRAWS) -> dict:
    """The logit difference by group of prompts without chosen heads, and its mean without drawn ones."""
    model, best, direct = of["model"], of["best"], of["direct"]
    prompts = of["name_prompts"](of["tokenizer"], groups, seed=3)
    late = of["entering_late"](prompts)
    means = of["head_means"](of["seen"].heard, of["asked"].last)

    def without(heads, stand_in):
        with of["heads_removed"](model, heads, stand_in):
            return of["difference"](prompts, late)

    late_best = [head for head in best(direct, 20) if head[0] >= 22][:10]
    chosen = {"nothing": []} | {
        of["head_name"](*head): [head] for head in [*best(direct, 3), *best(-direct, 2)]
    }
    chosen |= {"the best 3": late_best[:3], "the best 10": late_best}
    removed = {name: {} for name in chosen}
    for name, heads in chosen.items():
        for kind, stand_in in (("zero", None), ("mean", means)):
            difference = without(heads, stand_in)
            by_group = difference.view(groups, 4).mean(dim=1)
            removed[name][kind] = {
                "difference": by_group.tolist(),
                "right": (difference > 0).float().mean().item(),
            }
    others = [(layer, head) for layer in range(22, 30) for head in range(9) if (layer, head) not in late_best]
    draw = random.Random(0)
    drawn = {count: [draw.sample(others, count) for _ in range(draws)] for count in (1, 10)}
    found = {n: [without(heads, means).mean().item() for heads in drawn[n]] for n in drawn}
    return {"removed": removed, "random": found}


def explained(of: dict, texts=slice(None)) -> dict:
    """Of each text what foretells how far its vector moves without a word: four lines, and each head."""
    lines, heads = zip(*map(of["correlations"], of["one_each"][texts]), strict=True)
    return {"lines": list(lines), "heads": [of_heads.tolist() for of_heads in heads]}


def main() -> None:
    of = definitions(NOTEBOOK, CELLS)
    found = {made.__name__: made(of) for made in (hidden, windows, copying, names)}
    for stored, made in ((STORED, found), (STORED_15, explained(definitions(NOTEBOOK_15, CELLS_15)))):
        stored.write_text(json.dumps(rounded(made), separators=(",", ":")) + "\n", encoding="utf-8")
        print(f"wrote {stored.name}: run that notebook again")


if __name__ == "__main__":
    main()
