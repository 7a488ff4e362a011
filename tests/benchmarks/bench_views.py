"""The pages of the three views: their size and the time that Python
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
from pathlib import Path

import bertviz
import torch
from transformers import BertConfig, BertModel

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from summary import record  # noqa: E402
from view_samples import load  # noqa: E402

from utils.views import head_view, model_view, neuron_view  # noqa: E402

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


def scores(tokens, layers):
    """Attention of 12 heads, of which no weight is near 0."""
    torch.manual_seed(0)
    return [torch.randn(1, 12, tokens, tokens).mul(2).softmax(-1) for _ in range(layers)]


# What bertviz's head view calls of jQuery.
JQUERY = """
const $ = (what) => {
  const part = what[0] === "<" ? document.createElement("option") : document.querySelector(what);
  const own = { part, change: () => own };
  const add = (name, call) => { own[name] = (...given) => { if (part) call(...given); return own; }; };
  add("append", (child) => part.append(child.part));
  add("empty", () => part.replaceChildren());
  add("on", (type, act) => part.addEventListener(type, act));
  add("text", (text) => { part.textContent = text; });
  add("val", (value) => { part.value = value; });
  return own;
};
"""


def bertviz_page(attention, tokens):
    """bertviz's head view as a page of its own, with d3 in it, and what it needs of jQuery."""
    drawing = bertviz.head_view(attention, tokens, html_action="return").data
    drawing = re.sub(r"require\.config\(.*?\}\);", "", drawing, count=1, flags=re.DOTALL)
    d3 = re.search(r"<script>.*?</script>", head_view(attention, tokens).html, flags=re.DOTALL)[0]
    ready = f"<script>{JQUERY} const requirejs = (names, draw) => draw($, d3);</script>"
    return "\n".join(["<!doctype html><meta charset=utf-8>", d3, ready, drawing])


# Two frames later the lines are not only in the page but on the screen.
SHOWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def seconds_of(browser, file):
    """How long a page of a head view takes until it is drawn, and then for another layer."""
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    start = time.perf_counter()
    page.goto(file.as_uri())
    page.evaluate(SHOWN)
    drawn = time.perf_counter()
    change = "menu => { menu.value = 2; menu.dispatchEvent(new Event('change')); }"
    page.locator("#layer").evaluate(change)
    page.evaluate(SHOWN)
    changed = time.perf_counter()
    page.close()
    return drawn - start, changed - drawn


def compare_times(browser, folder):
    print(
        "\nSeconds until a head view of 6 layers x 12 heads is drawn, and for another layer. Best of three."
    )
    print(f"{'tokens':>8}{'the course':>18}{'bertviz':>18}{'ratio':>16}")
    for tokens, most in ((20, 1), (60, 1), (128, 0.2)):
        given = scores(tokens, layers=6), [f"token{i}" for i in range(tokens)]
        (folder / "theirs.html").write_text(bertviz_page(*given), encoding="utf-8")
        head_view(*given).save(folder / "own.html")
        found = {
            name: [seconds_of(browser, folder / f"{name}.html") for _ in range(3)]
            for name in ("own", "theirs")
        }
        own, theirs = ([min(times) for times in zip(*runs, strict=True)] for runs in found.values())
        ratios = [mine / other for mine, other in zip(own, theirs, strict=True)]
        print(
            f"{tokens:8}", *(f"{one:10.2f}{other:8.2f}" for one, other in (own, theirs, ratios)), flush=True
        )
        record(
            f"head view in Chromium, {tokens} tokens",
            f"{own[0]:.2f} s, other layer {own[1]:.2f} s",
            f"{ratios[0]:.2f}, {ratios[1]:.2f} of bertviz's",
            f"at most {most}",
            max(ratios) <= most,
        )


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


def random_attention(count):
    """72 heads, 12 in each layer, and their tokens."""
    torch.manual_seed(0)
    attention = [torch.randn(1, 12, count, count).mul(2).softmax(-1) for _ in range(6)]
    return attention, [f"token{i}" for i in range(count)]


def displaying():
    """CPU seconds of what a notebook waits for: the page of the head view and its static picture."""
    print("\nDisplaying a head view of 72 heads, CPU seconds, the best of 3")
    print(f"{'tokens':>8}{'the course':>14}{'bertviz':>14}{'goal':>9}")
    for count, goal in ((20, 0.3), (60, 0.6), (128, 1.5)):
        given = random_attention(count)
        own = cpu(lambda *given: head_view(*given)._repr_mimebundle_(), *given)
        theirs = cpu(lambda *given: bertviz.head_view(*given, html_action="return"), *given)
        print(f"{count:8}{own:14.2f}{theirs:14.2f}{goal:9}")
        what = f"displaying a head view, {count} tokens"
        record(what, f"{own:.2f} s of CPU", f"{theirs:.2f} s, page alone", f"{goal} s", own <= goal)


def cpu(call, *given):
    seconds = []
    for _ in range(3):
        start = time.process_time()
        call(*given)
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
        torch.save(random_attention(20), Path(folder, "given.pt"))
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
