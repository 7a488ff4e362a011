"""The pages of the four views: their size and the time that Python
and Chromium take for them, beside bertviz's.

Sizes are those of the whole page, with d3 in it, which bertviz's own pages fetch from a server with jQuery.
The large case is 128 tokens and the shape of bert-base, 12 layers of 12 heads: 2,359,296 weights. It prints
tables and fails nothing. Run it by `make bench`, or alone: `python tests/benchmarks/bench_views.py`.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache, partial
from importlib import metadata
from pathlib import Path

import bertviz
import torch
from transformers import BertConfig, BertModel, LlamaConfig, LlamaModel

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from summary import record  # noqa: E402
from view_samples import load  # noqa: E402

from utils.views import head_view, model_view, neuron_view, text_view  # noqa: E402

TEXT = "My friend told me about this class and I love it so far! She was right."
CHROMIUM = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
MOST_BYTES, MOST_SECONDS = 4_000_000, 2


class Numbers:
    """A tokenizer of 128 tokens."""

    def __call__(self, *sentences, return_tensors):
        return {"input_ids": torch.arange(128)[None], "token_type_ids": torch.zeros(1, 128, dtype=torch.long)}

    def convert_ids_to_tokens(self, ids):
        return [f"token{i}" for i in ids]


def bertviz_neurons(model, tokenizer):
    """bertviz's own neuron view, whose model is filled with the weights that are already loaded."""
    from bertviz.neuron_view import show
    from bertviz.transformers_neuron_view import BertConfig as TheirConfig
    from bertviz.transformers_neuron_view import BertModel as TheirModel

    theirs = TheirModel(TheirConfig.from_dict(model.config.to_dict())).eval()
    theirs.load_state_dict(model.state_dict(), strict=False)
    tokenizer.do_basic_tokenize = True
    return show(theirs, "bert", tokenizer, TEXT, html_action="return").data


def compare_sizes():
    tokenizer, model = load()
    inputs = tokenizer(TEXT, return_tensors="pt")
    with torch.no_grad():
        attention = model(**inputs, output_attentions=True).attentions
    tokens = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
    pages = {
        "head": (
            head_view(attention, tokens).html,
            bertviz.head_view(attention, tokens, html_action="return").data,
        ),
        "model": (
            model_view(attention, tokens).html,
            bertviz.model_view(attention, tokens, html_action="return").data,
        ),
        "neuron": (neuron_view(model, tokenizer, TEXT).html, bertviz_neurons(model, tokenizer)),
    }
    print(f"Bytes of a page, {len(tokens)} tokens x {len(attention)} layers x {attention[0].shape[1]} heads")
    print(f"{'view':>8}{'the course':>14}{'bertviz':>14}{'ratio':>9}")
    for name, (own, theirs) in pages.items():
        own, theirs = len(own.encode()), len(theirs.encode())
        print(f"{name:>8}{own:14,}{theirs:14,}{own / theirs:9.3f}")
        record(
            f"page of the {name} view",
            f"{own:,} bytes",
            f"{own / theirs:.2f} of bertviz's",
            "below 1",
            own < theirs,
        )


def large_pages():
    """A page for each view at the most it is made for, and its name."""
    attention = scores(128, layers=12)
    tokens = [f"token{i}" for i in range(128)]
    yield "head", "128 tokens x 144 heads", head_view(attention, tokens)
    some = [layer[..., :52, :52] for layer in attention]
    yield "model", "52 tokens x 144 heads", model_view(some, tokens[:52])
    bert = BertModel(BertConfig(attn_implementation="eager")).eval()
    yield "neuron", "128 tokens x 144 heads", neuron_view(bert, Numbers(), "all")


def scores(tokens, layers, heads=12):
    """Attention of which no weight is near 0."""
    torch.manual_seed(0)
    return [torch.randn(1, heads, tokens, tokens).mul(2).softmax(-1) for _ in range(layers)]


# What bertviz's head view calls of jQuery.
JQUERY = """
const $ = (what) => {
  const part = what[0] === "<" ? document.createElement("option") : document.querySelector(what);
  const own = { part, change: () => own };
  const add = (name, call) => { own[name] = (...given) => { if (part) call(...given); return own; }; };
  add("append", (child) => part.append(child.part));
  add("attr", (name, value) => part.setAttribute(name, value));
  add("empty", () => part.replaceChildren());
  add("on", (type, act) => part.addEventListener(type, act));
  add("text", (text) => { part.textContent = text; });
  add("val", (value) => { part.value = value; });
  return own;
};
"""


def bertviz_page(view, attention, tokens):
    """A view of bertviz as a page of its own, with d3 in it, and what it needs of jQuery."""
    drawing = view(attention, tokens, html_action="return").data
    drawing = re.sub(r"require\.config\(.*?\}\);", "", drawing, count=1, flags=re.DOTALL)
    d3 = metadata.distribution("mpld3").locate_file("mpld3/js/d3.v5.min.js").read_text(encoding="utf-8")
    ready = f"<script>{JQUERY} const requirejs = (names, draw) => draw($, d3);</script>"
    return "\n".join(["<!doctype html><meta charset=utf-8>", f"<script>{d3}</script>", ready, drawing])


# Two frames later the lines are not only in the page but on the screen.
SHOWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def seconds_of(page, file):
    """How long a page takes until it is drawn, and then for another layer, where it has such a menu."""
    page.goto("about:blank")
    page.evaluate(SHOWN)
    start = time.perf_counter()
    page.goto(file.as_uri())
    if file.stem == "own":
        page.wait_for_selector("html.drawn")
    page.evaluate(SHOWN)
    drawn = changed = time.perf_counter()
    if page.locator("#layer").count():
        change = "menu => { menu.value = 2; menu.dispatchEvent(new Event('change')); }"
        page.locator("#layer").evaluate(change)
        page.evaluate(SHOWN)
        changed = time.perf_counter()
    return drawn - start, changed - drawn


def compare_times(browser, folder):
    page = browser.new_page(viewport={"width": 1200, "height": 900})  # one window: its own start is no view's
    print("\nSeconds in Chromium until a view is drawn, and for another layer. The best of five.")
    print(f"{'view':>6} {'layers x heads':>15} {'tokens':>7}{'the course':>16}{'bertviz':>16}{'ratio':>14}")
    views = {"head": (head_view, bertviz.head_view), "model": (model_view, bertviz.model_view)}
    cases = [("head", 6, 12, 20), ("head", 6, 12, 60), ("head", 6, 12, 128)]
    cases += [("model", 6, 12, 20), ("model", 6, 12, 60), ("model", 30, 9, 20)]
    for name, layers, heads, tokens in cases:
        own, theirs = views[name]
        given = scores(tokens, layers, heads), [f"token{i}" for i in range(tokens)]
        (folder / "theirs.html").write_text(bertviz_page(theirs, *given), encoding="utf-8")
        own(*given).save(folder / "own.html")
        found = []
        for who in ("own", "theirs"):
            runs = [seconds_of(page, folder / f"{who}.html") for _ in range(5)]
            found.append([min(times) for times in zip(*runs, strict=True)])
        ratios = [mine / other for mine, other in zip(*found, strict=True) if other]
        numbers = "".join(f"{drawn:9.2f}{changed:7.2f}" for drawn, changed in found)
        shown = " ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{name:>6} {f'{layers} x {heads}':>15} {tokens:7}{numbers}{shown:>14}", flush=True)
        most = 1 if tokens < 60 else 0.2
        what = f"{name} view in Chromium, {layers} x {heads}, {tokens} tokens"
        record(what, f"{found[0][0]:.2f} s", f"{shown} of bertviz's", f"at most {most}", max(ratios) <= most)


def draw_large_pages(browser, folder):
    print(
        f"\nLarge pages. Goal of the head view: under {MOST_BYTES:,} bytes, drawn in under {MOST_SECONDS} s."
    )
    print(f"{'view':>8}  {'':24}{'bytes':>12}{'seconds':>9}")
    for name, what, view in large_pages():
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        address = view.save(folder / f"{name}.html").as_uri()
        start = time.perf_counter()
        page.goto(address)
        page.wait_for_selector("html.drawn")
        page.evaluate(SHOWN)
        seconds = time.perf_counter() - start
        size = len(view.html.encode())
        print(f"{name:>8}  {what:24}{size:12,}{seconds:9.1f}", flush=True)
        if name == "head":
            record(
                f"head view, {what}",
                f"{size:,} bytes, {seconds:.1f} s",
                "",
                f"{MOST_BYTES:,} bytes, {MOST_SECONDS} s",
                size < MOST_BYTES and seconds < MOST_SECONDS,
            )
        page.close()


def in_the_browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play, tempfile.TemporaryDirectory() as folder:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        compare_times(browser, Path(folder))
        draw_large_pages(browser, Path(folder))
        browser.close()


def displaying():
    """CPU seconds of what a notebook waits for: the view and its output, beside bertviz's whole page.

    A neuron view runs its model twice; the goals are those of the output.
    """
    print("\nDisplaying a view, CPU seconds, the best of 3. bertviz makes no picture.")
    head = ("view", "layers x heads", "tokens", "made", "output", "bertviz", "goal", "MB")
    print("{:>8}{:>16}{:>8}{:>8}{:>8}{:>10}{:>7}{:>8}".format(*head))
    cases = [("head", 6, 12, 20, 0.1), ("head", 6, 12, 60, 0.36), ("head", 6, 12, 128, 1)]
    cases += [("model", 6, 12, 20, 0.2), ("model", 6, 12, 60, 0.6)]
    cases += [("model", 30, 9, 20, 0.6), ("model", 30, 9, 40, 1.5)]
    cases += [("neuron", 30, 9, 15, 0.5), ("neuron", 30, 9, 40, 1), ("neuron", 30, 9, 100, 2)]
    cases += [("text", 30, 9, 512, 1)]
    views = {"head": (head_view, bertviz.head_view), "model": (model_view, bertviz.model_view)}
    for name, layers, heads, count, goal in cases:
        tokens, theirs = [f"token{i}" for i in range(count)], None
        if name == "neuron":
            ids = {"input_ids": torch.arange(count)[None]}
            make = partial(neuron_view, llama(), inputs=ids, tokens=tokens)
        elif name == "text":
            make = partial(text_view, scores(count, 1, heads) * layers, tokens)
        else:
            given = scores(count, layers, heads), tokens
            make = partial(views[name][0], *given)
            theirs = cpu([partial(views[name][1], *given, html_action="return")])
        made = []
        making = cpu([lambda made=made, make=make: made.append(make())] * 3)
        own = cpu([view._repr_mimebundle_ for view in made])
        beside = f"{theirs:10.2f}" if theirs is not None else f"{'-':>10}"
        size = len(made[0].html.encode()) / 1e6
        shape = f"{layers} x {heads}"
        print(f"{name:>8}{shape:>16}{count:8}{making:8.2f}{own:8.2f}{beside}{goal:7}{size:8.2f}", flush=True)
        what = f"displaying a {name} view, {shape}, {count} tokens"
        record(what, f"{own:.2f} s of CPU", f"{beside.strip()} s, page alone", f"{goal} s", own <= goal)


@cache
def llama():
    """A model of SmolLM2's shape: 30 layers of 9 heads, which share 3 key heads."""
    sizes = {"hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3}
    config = LlamaConfig(**sizes, vocab_size=200, intermediate_size=64, attn_implementation="eager")
    return LlamaModel(config).eval()


def cpu(calls):
    """CPU seconds of the quickest of some calls."""
    seconds = []
    for call in calls:
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return min(seconds)


def cold_start():
    """From a cold Python to the first head view, of weights that lie
    in a file: processes by turns, CPU seconds."""
    start = "import torch; given = torch.load('given.pt'); "
    codes = {
        "own": "from utils.views import head_view; head_view(*given)._repr_mimebundle_()",
        "theirs": "from bertviz import head_view; head_view(*given)",
    }
    best = dict.fromkeys(codes, 99.0)
    with tempfile.TemporaryDirectory() as folder:
        torch.save((scores(20, 6), [f"token{i}" for i in range(20)]), Path(folder, "given.pt"))
        for name in [*codes] * 5:
            before = os.times()
            command = [sys.executable, "-c", start + codes[name]]
            # Python keeps its bytecode, as it does by itself.
            settings = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""}
            subprocess.run(command, cwd=folder, env=settings, stdout=subprocess.DEVNULL, check=True)
            after = os.times()
            spent = (
                after.children_user + after.children_system - before.children_user - before.children_system
            )
            best[name] = min(best[name], spent)
    ratio = best["own"] / best["theirs"]
    measured = f"{best['own']:.2f} s of CPU"
    print(f"\nFrom a cold Python to the first head view: {measured}, {ratio:.2f} of bertviz's")
    record(
        "cold Python to the first head view", measured, f"{ratio:.2f} of bertviz's", "at most 1", ratio <= 1
    )


if __name__ == "__main__":
    compare_sizes()
    displaying()
    cold_start()
    if CHROMIUM:
        in_the_browser()
    else:
        print("No Chromium on this machine, so no page was drawn.")
