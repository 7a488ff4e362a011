"""The course in a real JupyterLab in headless Chromium, with every outside host blocked."""

import contextlib
import functools
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import playwright.sync_api
import pytest
import torch
import view_samples
from families import family, own_attentions
from matplotlib.colors import to_rgb
from test_drawings import INK, contrast
from test_pictures import PICTURES, shapes
from view_samples import GROUPS, HOSTILE, KINDS, neurons

from utils.views import head_view, model_view, neuron_view, text_view
from utils.views.ink import ALONE, COLOURS, GROUND
from utils.views.sheets import Fan, Text

ROOT = Path(__file__).parent.parent
# Notes each line that a page strokes on a canvas, since the canvas was last cleared.
NOTE_LINES = """
const ink = CanvasRenderingContext2D.prototype;
const before = (name, note) => {
  const own = ink[name];
  ink[name] = function (...at) { note(this, at); return own.apply(this, at); };
};
for (const name of ["clearRect", "fillRect"]) before(name, ({ canvas }) => { canvas.lines = []; });
before("moveTo", (own, at) => { own.start = at; });
before("lineTo", (own, at) => { own.end = at; });
before("stroke", (own) => {
  (own.canvas.lines ||= []).push([own.strokeStyle, own.globalAlpha, ...own.start, ...own.end]);
  own.canvas.wide = [...(own.canvas.lines.length > 1 ? own.canvas.wide : []), own.lineWidth];
});
"""
PATIENCE = 600  # seconds: only what hangs takes so long, however loaded the machine is

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The address and folder of a JupyterLab that serves a copy of the course, and shares nothing."""
    folder = tmp_path_factory.mktemp("course")
    ignored = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
    for name in ("notebooks", "utils", "images"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    options = {"ServerApp.port": 0, "ServerApp.root_dir": folder, "IdentityProvider.token": "test"}
    options |= {"KernelManager.transport": "ipc" if os.name == "posix" else "tcp", "LabApp.news_url": None}
    options |= {"LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate"}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [f"--{name}={value}" for name, value in options.items()]
    short = "/tmp" if os.name == "posix" else None
    with tempfile.TemporaryDirectory(dir=short) as own, open(folder / "lab.log", "w") as log:
        surroundings = {name: value for name, value in os.environ.items() if name != "COURSE_STATIC_VIEWS"}
        for name in ("JUPYTER_RUNTIME_DIR", "JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR"):
            surroundings[name] = f"{own}/{name.lower()}"
        server = subprocess.Popen(command, cwd=folder, env=surroundings, stdout=log, stderr=log)
        told = Path(surroundings["JUPYTER_RUNTIME_DIR"], f"jpserver-{server.pid}.json")
        try:
            until, port = time.monotonic() + PATIENCE, None
            while not port:
                assert server.poll() is None and time.monotonic() < until, (folder / "lab.log").read_text()
                time.sleep(0.1)
                with contextlib.suppress(FileNotFoundError, ValueError):  # not written yet, or half of it
                    port = json.loads(told.read_text())["port"]
            yield SimpleNamespace(address=f"http://127.0.0.1:{port}", folder=folder)
        finally:
            server.kill()  # its kernels end when it is gone; asked to end them, it hung once in CI
            server.wait(PATIENCE)


@pytest.fixture(scope="module")
def open_page(chromium):
    """Opens pages of one browser. `page.asked` lists each outside host that was asked for."""

    def open_page(address, height=1000, width=1200):
        def own(said):  # while a kernel starts, jupyter_server now and then answers 500 to a list of kernels
            return said.type == "error" and "/api/kernels?" not in said.location["url"]

        page = chromium.new_page()
        page.set_viewport_size({"width": width, "height": height})
        page.set_default_timeout(PATIENCE * 1000)
        page.add_init_script(NOTE_LINES)
        page.asked, page.errors = set(), []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("console", lambda said: page.errors.append(said.text) if own(said) else None)
        outside = re.compile(r"^(?:http|ws)s?://(?!127\.0\.0\.1[:/])([^/:]+)")
        page.on("request", lambda request: page.asked.update(outside.findall(request.url)))
        return visit(page, address)

    return open_page


def visit(page, address):
    page.goto(address)
    if page.locator("p#said").count():
        page.wait_for_selector("html.drawn")
    return page


def open_notebook(lab, open_page, name):
    """Open a notebook in a tall page, and wait until every cell is drawn and the kernel is there."""
    count = len(nbformat.read(lab.folder / "notebooks" / name, 4).cells)
    page = open_page(f"{lab.address}/doc/tree/notebooks/{name}?token=test&reset", height=20_000)
    drawn = "count => document.querySelectorAll('.jp-Notebook .jp-Cell').length >= count"
    page.wait_for_function(drawn, arg=count)
    page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status='idle']")
    return page


def run_all(page):
    """Run all cells of a notebook."""
    prompts = "[...document.querySelectorAll('.jp-InputPrompt')]"
    busy = f"{prompts}.some(place => place.textContent.includes('[*]'))"
    for _ in range(5):  # while JupyterLab is still building its menus, it may lose a click
        with contextlib.suppress(playwright.sync_api.TimeoutError):
            page.get_by_role("menuitem", name="Run", exact=True).first.click(timeout=60_000)
            page.get_by_text("Run All Cells", exact=True).first.click(timeout=60_000)
            page.wait_for_function(busy, timeout=20_000)
            page.wait_for_function(f"!({busy})", polling=500)
            return page
    pytest.fail("the notebook does not run")


def view_of(page, title=None, number=0):
    """The frame of a view, with its lines drawn: among all, or among those whose title begins so."""
    element = page.locator(f"iframe[title^='{title}']" if title else "iframe").nth(number)
    element.scroll_into_view_if_needed()
    frame = element.element_handle().content_frame()
    frame.wait_for_selector("html.drawn")
    unseen = "document.querySelector('#vis canvas')?.lines === undefined"
    frame.evaluate(f"{unseen} && dispatchEvent(new Event('ground'))")  # NOTE_LINES came late
    return frame


def numbers(frame, selector, attribute):
    read = f"all => all.map(one => +one.getAttribute('{attribute}'))"
    return torch.tensor(frame.eval_on_selector_all(selector, read), dtype=torch.float64)


def lines(frame, canvas=0):
    """What stands on a canvas of a view: the colour, the opacity, and (x, y) of both ends of each line."""
    stroked = "canvases => canvases.map(one => one.style.visibility === 'hidden' ? [] : one.lines || [])"
    return frame.eval_on_selector_all("#vis canvas", stroked)[canvas]


def middles(frame, boxes):
    """Where the rows of a text are, from above."""
    return (numbers(frame, boxes, "y") + numbers(frame, boxes, "height") / 2).tolist()


def place_of(y, places):
    near = [i for i, middle in enumerate(places) if abs(y - middle) < 1]
    assert len(near) == 1, f"a line ends at {y}, and the tokens are at {places}"
    return near[0]


def stroked(frame, shape, colours=None, canvas=0):
    """The opacities of the lines between two columns of tokens, of this shape; also by colour, if named."""
    found = torch.zeros(shape, dtype=torch.float64)
    left, right = middles(frame, "#left .background"), middles(frame, "#right .background")
    on = frame.locator("#heads [aria-pressed=true]").all_inner_texts()  # one is drawn in a colour of its own
    assert (len(left), len(right)) == tuple(shape[-2:])
    for colour, opacity, _, start, _, end in lines(frame, canvas):
        of_colour = found[colours.index(colour) if colour in colours else int(*on)] if colours else found
        of_colour[..., place_of(start, left), place_of(end, right)] = opacity
    return found


def weights(frame, expected, strength="1", canvas=0):
    """The opacities of a head view's lines, in the shape of the weights that it should draw: with all heads
    on and a line strength of 1, a line is as opaque as its weight."""
    frame.locator("#strength").fill(strength)
    return stroked(frame, expected.shape, COLOURS, canvas)


def grid(frame, expected):
    """The opacities of the lines of a model view, in the shape of the weights that it should draw."""
    sides = ("x", "y", "width", "height")
    frames = torch.stack([numbers(frame, "#vis .frame", side) for side in sides], 1).tolist()
    layers, heads, rows, columns = expected.shape
    assert len(frames) == layers * heads
    found = torch.zeros(expected.shape, dtype=torch.float64)
    for colour, opacity, x, start, _, end in lines(frame):
        around = [0 < x - left < width and 0 < start - top < height for left, top, width, height in frames]
        assert sum(around) == 1
        cell = around.index(True)
        step, top = (frames[cell][3] - 10) / max(rows, columns), frames[cell][1] + 5
        row, column = ((y - top) / step - 0.5 for y in (start, end))
        assert abs(row - round(row)) < 0.01 and abs(column - round(column)) < 0.01
        assert colour == COLOURS[cell // heads]
        found[cell // heads, cell % heads, round(row), round(column)] = opacity
    return found


SEEN = 0.004  # a level of 255, and what is too faint for a canvas


def far(found, expected):
    """The largest difference."""
    return (torch.as_tensor(found) - expected).abs().max()


def test_an_outside_host_is_blocked_and_noted(open_page):
    """So that the other tests would see one."""
    page = open_page("about:blank")
    for address in ("http://example.com/a.js", "https://192.0.2.1/a.js"):
        ask = "address => fetch(address, {mode: 'no-cors'}).catch(error => `${error}`)"
        assert page.evaluate(ask, address) == "TypeError: Failed to fetch"
    assert [error.count("ERR_NAME_NOT_RESOLVED") for error in page.errors] == [1, 1]
    assert page.asked == {"example.com", "192.0.2.1"}


def test_control_changes_its_picture(surface):
    page = surface("live")
    slider = page.locator(".widget-slider").first
    picture = page.locator(".jp-OutputArea:has(.widget-slider) img").last
    assert slider.inner_text().split() == ["d", "64"]
    before = picture.get_attribute("src")
    slider.locator(".noUi-handle").press("ArrowRight")
    page.wait_for_function("old => ![...document.images].some(image => image.src === old)", arg=before)
    assert slider.inner_text().split() == ["d", "256"] and picture.get_attribute("src") != before


def test_a_click_in_the_glossary_shows_the_cell(lab, open_page):
    """From a notebook to the contents, to the glossary, to a cell. JupyterLab scrolls before the pictures
    above the cell have their height, so a first click may end a little off. A later one is exact."""
    glossary = (ROOT / "notebooks" / "glossary.md").read_text(encoding="utf-8")
    notebook, cell = re.search(r"^\| axis \|.*\((\S+)#cell-id=(\w+)\)", glossary, re.MULTILINE).groups()
    index = [one.id for one in nbformat.read(ROOT / "notebooks" / notebook, 4).cells].index(cell)
    page = open_page(f"{lab.address}/lab/tree/notebooks/01_tokenization.ipynb?token=test&reset", height=900)
    page.locator(".jp-RenderedMarkdown a", has_text="Contents").first.click()
    page.locator(".jp-MarkdownViewer a", has_text="glossary").click()
    name = page.locator("td", has_text=re.compile("^axis$"))
    link = page.locator(".jp-MarkdownViewer tr", has=name).get_by_role("link")
    found = page.locator(".jp-Notebook:visible .jp-Cell").nth(index)
    for seconds in (1, 5, 10, 20, 40):
        page.get_by_role("tab", name="glossary.md").click()
        link.evaluate("element => element.scrollIntoView({block: 'center'})")
        link.click()
        page.get_by_role("tab", name=notebook).wait_for()
        page.wait_for_timeout(1000 * seconds)
        window, seen = page.locator(".jp-Notebook:visible").bounding_box(), found.bounding_box()
        if seen and abs(seen["y"] - window["y"]) < 50:
            break
    else:
        pytest.fail("the link does not lead to the cell")
    assert "The axis of softmax" in found.inner_text() and page.asked == set()


# --- each view on each surface

PLACES = [(group, kind) for group in GROUPS for kind in KINDS]
TOKENS, LAYERS, HEADS, HEAD_DIM, START = 13, 6, 12, 32, 6
whole, first, second = slice(None), slice(START), slice(START, None)
PARTS = [(whole, whole), (first, first), (second, second), (first, second), (second, first)]


@pytest.fixture(scope="module")
def views():
    """Every view that the tests look at, by group and kind."""
    return {(group, kind): view for group, make in GROUPS.items() for kind, view in make().items()}


@pytest.fixture(scope="module")
def stored(lab, views):
    """A notebook that somebody has run and saved: its path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COURSE_STATIC_VIEWS", raising=False)
        outputs = [views[place]._repr_mimebundle_() for place in PLACES]
    cells = []
    for data, metadata in outputs:
        output = nbformat.v4.new_output("execute_result", data, metadata=metadata, execution_count=1)
        cells.append(nbformat.v4.new_code_cell("view", execution_count=1, outputs=[output]))
    cells.append(nbformat.v4.new_markdown_cell("A formula, $\\sqrt{d_k}$, and its source, `$d_k$`."))
    path = lab.folder / "notebooks" / "stored.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


@pytest.fixture(scope="module")
def surface(lab, open_page, stored, tmp_path_factory):
    """Opens a surface once: its name to its page."""

    def live():
        """With the set-up, the imports and the control of notebook 02 in front."""
        shutil.copy(view_samples.__file__, lab.folder / "notebooks")
        notebook = nbformat.read(ROOT / "notebooks" / "02_scaled_dot_product_attention.ipynb", 4)
        taught = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
        sources = [*taught[:2], *(source for source in taught if "\nlive(" in source), "import view_samples"]
        sources += [f"{group} = view_samples.GROUPS[{group!r}]()" for group in GROUPS]
        sources += [f"{group}[{kind!r}]" for group, kind in PLACES]
        notebook.cells = [nbformat.v4.new_code_cell(source) for source in sources]
        nbformat.write(notebook, lab.folder / "notebooks" / "live.ipynb")
        return run_all(open_notebook(lab, open_page, "live.ipynb"))

    def exported():
        folder = tmp_path_factory.mktemp("exported")
        convert = [sys.executable, "-m", "jupyter", "nbconvert", "--to=html", f"--output-dir={folder}"]
        subprocess.run([*convert, stored], check=True, capture_output=True)
        return open_page((folder / "stored.html").as_uri(), height=20_000)

    return functools.cache(lambda name: {"live": live, "exported": exported}[name]())


def frame_of(page, group, kind):
    """The frame of a view on a surface."""
    return view_of(page, number=PLACES.index((group, kind)))


@pytest.fixture(scope="module")
def truth():
    """What the views must show: attention (layers, heads, query, key), and query and key vectors by hand."""
    tokenizer, model = view_samples.load()
    attention, tokens, start = view_samples.pair()
    assert (len(tokens), start) == (TOKENS, START)
    with torch.no_grad():
        states = model(**tokenizer(*view_samples.SENTENCES, return_tensors="pt"), output_hidden_states=True)
        vectors = {"query": [], "key": []}
        for state, layer in zip(states.hidden_states, model.encoder.layer, strict=False):
            for name, found in vectors.items():
                found.append(getattr(layer.attention.self, name)(state[0]).view(TOKENS, HEADS, HEAD_DIM))
    query, key = (torch.stack(found).transpose(1, 2) for found in vectors.values())
    return SimpleNamespace(attention=torch.cat(attention), query=query, key=key, tokens=tokens)


on_each_surface = pytest.mark.parametrize("name", ["live", "exported"])  # below come saved pages


@on_each_surface
def test_head_view_on_each_surface(surface, truth, name):
    """Lines counted and compared with the model, for two layers and for each part of the pair."""
    frame = frame_of(surface(name), "light", "head")
    assert frame.locator("#layer option").all_text_contents() == [*map(str, range(LAYERS)), "mean"]
    for layer, parts in ((0, PARTS[:1]), (3, PARTS)):
        frame.select_option("#layer", str(layer))
        for part, (rows, columns) in enumerate(parts):
            frame.select_option("#filter", str(part))
            expected = truth.attention[layer][:, rows, columns]
            assert far(weights(frame, expected), expected) < SEEN
            shown = [frame.locator(f"#{side} text").all_text_contents() for side in ("left", "right")]
            assert shown == [truth.tokens[rows], truth.tokens[columns]]


def test_model_view_in_a_notebook(surface, truth):
    """Lines of the whole grid, of each part of the pair, and of the head that a click opens."""
    frame = frame_of(surface("live"), "light", "model")
    for part, (rows, columns) in reversed(list(enumerate(PARTS))):
        frame.select_option("#filter", str(part))
        expected = truth.attention[:, :, rows, columns]
        assert far(grid(frame, expected), expected) < SEEN
    picture = frame.locator("[aria-label^='L2H4.']")
    picture.click()
    assert frame.locator("#card h2").text_content() == "L2H4 ×"
    assert frame.locator("#card .token").all_text_contents() == truth.tokens * 2
    opened, places = torch.zeros(TOKENS, TOKENS), middles(frame, "#card .background")[:TOKENS]
    for _, opacity, _, start, _, end in lines(frame, canvas=1):
        opened[place_of(start, places), place_of(end, places)] = opacity
    assert far(opened, truth.attention[2, 4]) < SEEN
    picture.click(position={"x": 2, "y": 2})
    assert frame.locator("#card h2").count() == 0


def cells(page, group):
    """The numbers of the vectors that a neuron view draws."""
    return numbers(page, f"{group} .element", "data-value").view(-1, HEAD_DIM)


def visible(page, part):
    return page.locator(part).get_attribute("visibility") == "visible"


def test_neuron_view_in_a_notebook(surface, truth):
    """The vectors of two heads, and, when a token is chosen and opened, its products, scores and weights."""
    frame = frame_of(surface("live"), "light", "neuron")
    for layer, head in ((0, 0), (3, 7)):
        frame.select_option("#layer", str(layer))
        frame.select_option("#att_head", str(head))
        shades = numbers(frame, "#collapsed line", "stroke-opacity").view(TOKENS, TOKENS)
        assert far(shades, truth.attention[layer, head]) < 1e-5
        assert far(cells(frame, "#queries"), truth.query[layer, head]) < 1e-5
        assert far(cells(frame, "#keys"), truth.key[layer, head]) < 1e-5
    assert not visible(frame, "#expanded")
    chosen = frame.locator("#collapsed #leftText > g").nth(4)
    chosen.hover()
    chosen.locator("rect").last.click()
    assert visible(frame, "#expanded") and not visible(frame, "#collapsed")
    frame.locator("#expanded #leftText > g").nth(4).hover()
    product = truth.query[3, 7, 4] * truth.key[3, 7]
    scores = product.sum(-1) / HEAD_DIM**0.5
    assert far(cells(frame, "#product"), product) < 1e-5
    assert far(numbers(frame, "#dotproducts .dotproduct", "data-value"), scores) < 1e-5
    shades = "all => all.map(one => +one.style.opacity)"
    softmax = frame.eval_on_selector_all("#expanded #rightText .highlight", shades)
    assert far(softmax, torch.softmax(scores, dim=0)) < 1e-5
    frame.select_option("#filter", "3")  # from A to B
    assert frame.locator("#queries .vector").count() == START
    assert frame.locator("#keys .vector").count() == TOKENS - START


@pytest.mark.parametrize("kind", KINDS)
@on_each_surface
def test_hostile_tokens_are_shown_as_text(surface, name, kind):
    frame = frame_of(surface(name), "hostile", kind)
    if kind == "model":
        frame.locator("[aria-label^='L0H0.']").click()
    words = {"head": "#left text", "model": "#card .token", "neuron": "#collapsed #leftText text"}
    shown = frame.eval_on_selector_all(words.get(kind, ".word"), "all => all.map(one => one.textContent)")
    # In a running text a token stands without the spaces around it, of which JavaScript knows one more.
    expected = [text.strip().strip("\ufeff") or "␣" for text in HOSTILE] if kind == "text" else HOSTILE
    assert len(HOSTILE) >= 20 and shown[: len(HOSTILE)] == expected
    # The neuron view names its chosen token, so its title holds the word; by a script it would be all.
    assert not {"hacked", "1"} & {frame.evaluate("document.title"), surface(name).title()}
    assert frame.locator("img, iframe, svg[onload]").count() == 0


@on_each_surface
def test_no_complaint_and_no_outside_host_on_any_surface(surface, name):
    page = surface(name)
    for group, kind in PLACES:
        frame_of(page, group, kind)
    assert page.asked == set() and page.errors == []
    assert page.locator(".jp-RenderedText[data-mime-type$='stderr']").all_inner_texts() == []


def test_untrusted_notebook_shows_the_static_pictures(lab, open_page, stored, views):
    """With live views that somebody else has saved: JupyterLab removes the frames, the pictures stay."""
    page = open_notebook(lab, open_page, stored.name)
    page.locator(".jp-OutputArea img").last.wait_for()
    assert page.locator(".jp-OutputArea iframe").count() == 0
    for (group, kind), picture in zip(PLACES, page.locator(".jp-OutputArea img").all(), strict=True):
        picture.scroll_into_view_if_needed()
        assert picture.get_attribute("alt") == str(views[group, kind])
        width, height = (picture.bounding_box()[side] for side in ("width", "height"))
        assert picture.is_visible() and width > 300 and height > (70 if kind == "text" else 200), kind
        assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") >= width
    assert page.title() != "hacked" and page.asked == set()


def test_exported_page_shows_formulas_without_a_server(surface):
    page = surface("exported")
    assert page.locator("math msqrt").text_content() == "dk"
    assert page.locator("code", has_text="$d_k$").count() == 1


@pytest.fixture(scope="module")
def paper(open_page):
    return open_page("about:blank")


@pytest.fixture
def show(paper, tmp_path):
    """Shows a view, or a text of HTML, on a page about which nothing complains to the end."""
    paper.errors.clear()

    def show(view, width=1200, color_scheme="light"):
        path = tmp_path / "page.html"
        path.write_text(getattr(view, "html", view), encoding="utf-8")
        paper.set_viewport_size({"width": width, "height": 1000})
        paper.emulate_media(color_scheme=color_scheme)
        paper.mouse.move(5, 5)  # away from what the page before had there
        return visit(paper, path.as_uri())

    yield show
    assert paper.errors == []


COMPUTED = ("Bert", "GPT2", "ModernBert", "MiMoV2Flash", "Gemma2", "UMT5", "Llama", "Bart")


@pytest.mark.parametrize("name", COMPUTED)
def test_neuron_view_of_each_family_computes_the_models_weights(show, name):
    model, inputs, tokens = family(name, "eager")
    page = show(neuron_view(model, inputs=inputs, **tokens))
    for part, expected in enumerate(own_attentions(name).values()):
        if part:
            page.select_option("#filter", str(part))
        layers, heads, rows, _ = expected.shape
        for menu, count in (("#layer", layers), ("#att_head", heads)):
            assert page.locator(f"{menu} option").count() == count
            page.select_option(menu, str(count - 1))
        shades = numbers(page, "#collapsed .attn-line-group line", "stroke-opacity")
        assert far(shades.view(expected.shape[2:]), expected[-1, -1]) < 1e-5
        every = "([part, ...sizes]) => sizes.reduceRight("
        every += "(inner, size) => (...at) => range(size).map((i) => inner(...at, i)), "
        every += "(...at) => view.attention[part].weightsOf(...at))()"
        assert far(page.evaluate(every, [part, layers, heads, rows]), expected) < 1e-5


def beside(page, name):
    """The digits that stand beside the rows of the opened neuron view."""
    return page.locator(f"#expanded .{name} text").all_text_contents()


def in_digits(numbers):
    return [f"{number:.3f}" for number in numbers]


def test_neuron_view_shows_scores_and_weights_in_digits_and_what_is_masked(show):
    model, inputs, tokens = family("GPT2", "eager")
    expected = own_attentions("GPT2")["All"][1, 2, 4]
    page = show(neuron_view(model, inputs=inputs, **tokens, layer=1, head=2, token=4))
    assert beside(page, "weight") == in_digits(expected)
    scores = torch.tensor([float(text) for text in beside(page, "score")[:5]])
    assert far(scores.softmax(0), expected[:5]) < 0.01 and beside(page, "score")[5:] == ["", ""]
    opacities = "all => all.map(one => +one.style.opacity > 0)"
    assert page.eval_on_selector_all("#expanded .masked text", opacities) == [False] * 5 + [True] * 2
    assert page.eval_on_selector_all("#product .vector", opacities) == [True] * 5 + [False] * 2
    assert "masked" not in page.locator("#said").text_content()


def test_neuron_view_keeps_a_clicked_token_and_says_the_numbers_of_a_dimension(show, truth):
    page = show(neurons())
    token, others = page.locator("#collapsed #leftText > g").nth(4), page.locator("#expanded #leftText > g")
    token.hover()
    token.locator("rect").last.click()
    page.mouse.move(5, 5)
    shown = [in_digits(row) for row in truth.attention[0, 0]]
    assert beside(page, "weight") == shown[4]
    others.nth(2).hover()  # pointed at another for a moment
    assert beside(page, "weight") == shown[2]
    page.locator("#product .vector").nth(3).locator(".element").nth(7).hover()
    assert beside(page, "weight") == shown[4]
    query, key = truth.query[0, 0, 4, 7], truth.key[0, 0, 3, 7]
    said = page.locator("#said").text_content().replace("\u2212", "-")
    for fact in ("dimension 7", truth.tokens[4], truth.tokens[3], *in_digits([query, key, query * key])):
        assert fact in said
    for let_go in (lambda: page.keyboard.press("Escape"), others.nth(6).click):
        let_go()
        page.mouse.move(5, 5)
        assert set(beside(page, "weight")) == {""}
        others.nth(6).click()
        page.mouse.move(5, 5)
        assert beside(page, "weight") == shown[6]


@pytest.mark.parametrize("width", [500, 1100])
def test_an_opened_neuron_view_is_within_its_page_with_letters_of_full_size(show, width):
    page = show(neurons(layer=5, head=11, token=2), width=width)
    svg = page.locator("#vis svg")
    drawn = svg.get_attribute("viewBox").split()[2]
    assert float(drawn) == pytest.approx(svg.bounding_box()["width"], abs=1) and float(drawn) > width - 20
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    read = "all => all.map(one => one.getBoundingClientRect()).map(({ left, right }) => [left, right])"
    ends = page.eval_on_selector_all("#expanded text, .where text", read)
    assert all(0 <= left <= right <= width for left, right in ends)
    for row in ("headings", "ticks"):
        ends = sorted(page.eval_on_selector_all(f".{row} text", read))
        assert all(right < left for (_, right), (left, _) in itertools.pairwise(ends))
    for group, column in enumerate(("queries", "keys", "product")):  # each number stands over its cells
        ticks = page.locator("#expanded .ticks").nth(group).locator("text")
        cells = page.locator(f"#{column} .vector").first.locator(".element").evaluate_all(read)
        shown, places = [int(text) for text in ticks.all_text_contents()], ticks.evaluate_all(read)
        assert len(cells) == HEAD_DIM and shown == list(range(0, HEAD_DIM, shown[1]))
        assert [sum(ends) for ends in places] == pytest.approx([sum(cells[i]) for i in shown], abs=2)
    page.set_viewport_size({"width": 700, "height": 900})
    page.wait_for_function("document.querySelector('#vis svg').viewBox.baseVal.width === 684")
    assert beside(page, "weight")[0]
    page.set_viewport_size({"width": 390, "height": 900})  # there all is a little smaller
    page.wait_for_function("document.querySelector('#vis svg').viewBox.baseVal.width <= 440")
    assert svg.bounding_box()["width"] < 375
    for row in ("headings", "ticks"):
        ends = sorted(page.eval_on_selector_all(f".{row} text", read))
        assert all(right < left for (_, right), (left, _) in itertools.pairwise(ends)) and ends[-1][1] < 390


def test_neuron_view_hides_the_first_token_joins_words_and_strengthens_lines(show):
    model, ids = view_samples.small_bert(), torch.arange(6)[None]
    own = model(ids, output_attentions=True).attentions[1][0, 2].detach().double()
    page = show(neuron_view(model, inputs={"input_ids": ids}, tokens=PIECES, layer=1, head=2, token=3))
    page.get_by_label("Hide first token").check()
    page.locator("#expanded #leftText > g").nth(2).click()  # which is token 3
    assert [float(text) for text in beside(page, "weight")] == pytest.approx(own[3, 1:].tolist(), abs=6e-4)
    page.get_by_label("Rescale the rest").check()
    rest = own[3, 1:] / (1 - own[3, 0])
    assert [float(text) for text in beside(page, "weight")] == pytest.approx(rest.tolist(), abs=6e-4)
    assert "in each row it adds up to 1" in page.locator("#note").inner_text()
    page = show(neuron_view(model, inputs={"input_ids": ids}, tokens=PIECES, layer=1, head=2))
    page.get_by_label("Words").check()
    expected = of_words(own)
    drawn = numbers(page, "#collapsed .attn-line-group line", "stroke-opacity").view(4, 4)
    assert far(drawn, expected) < 1e-5
    page.locator("#strength").fill("1")  # twice as strong: the root
    drawn = numbers(page, "#collapsed .attn-line-group line", "stroke-opacity").view(4, 4)
    assert far(drawn, expected**0.5) < 1e-5


def test_on_a_phone_lines_have_room_and_no_row_is_cut(show):
    page = show(head_view(PIECED, PIECES, heads=[0]), width=390)
    token(page, "left", 1).click()
    ends = [(start, end) for *_, start, _, end, _ in lines(page, canvas=1)]
    assert ends and all(end - start >= 120 for start, end in ends)
    boxes = [part.bounding_box() for part in page.locator("#heads button, #vis text, label").all()]
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)
    for layers in (3, 30):
        page = show(model_view(view_samples.weights(layers, 12, 14), view_samples.names(14)), width=390)
        page.get_by_label("Compact").set_checked(False)
        height = numbers(page, ".frame", "height")[0].item()
        rows = (page.locator("#grid").bounding_box()["height"] - 32) / height
        assert rows >= 3 and rows % 1 < 3 / height  # but for a line of pixels or two
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def view_of_words(kind, words, **choice):
    if kind == "neuron":
        inputs = {"input_ids": torch.arange(len(words))[None]}
        return neuron_view(view_samples.small_bert(), inputs=inputs, tokens=words, **choice)
    return (head_view if kind == "head" else model_view)(view_samples.weights(tokens=len(words)), words)


@pytest.mark.parametrize("width", [500, 1100])
@pytest.mark.parametrize("kind", ["head", "model", "neuron"])
def test_a_long_word_is_whole_within_its_column(show, kind, width):
    words = ["short", "Donaudampfschifffahrt", "x" * 100, "end"]
    page = show(view_of_words(kind, words, token=0), width=width)
    if kind == "model":
        page.locator(".frame").first.click()
    read = "texts => texts.map(text => [text, text.previousElementSibling].map("
    read += "part => part.getBoundingClientRect()).flatMap(({ left, right }) => [left, right]))"
    found = page.eval_on_selector_all("g > rect + text", read)
    assert len(found) == (16 if kind == "neuron" else 8)
    assert all(start - 0.1 < left < right < end + 0.1 for left, right, start, end in found)
    sizes = page.eval_on_selector_all("g > rect + text", "all => all.map(a => getComputedStyle(a).fontSize)")
    assert sizes[0] == sizes[3] == ("13px" if kind == "model" else "15px")


# --- without a mouse
def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def tab_to(page, wanted, most=12, key="Tab"):
    """Press Tab until the label of the focused part begins so."""
    label = "document.activeElement.getAttribute('aria-label') || document.activeElement.id"
    for _ in range(most):
        press(page, key)
        if page.evaluate(label).startswith(wanted):
            return
    pytest.fail(f"{wanted} is not reached by Tab")


def test_head_view_by_keyboard(show, views, truth):
    page = show(views["light", "head"])
    tab_to(page, "layer")
    press(page, "ArrowDown")
    assert page.input_value("#layer") == "1"
    tab_to(page, "filter")
    press(page, "ArrowDown")
    assert page.locator("#left text").count() == START
    press(page, "ArrowUp")
    tab_to(page, "[CLS], token 0")
    press(page, "ArrowDown")
    assert page.evaluate("document.activeElement.textContent") == truth.tokens[1]
    left = middles(page, "#left .background")
    assert {place_of(line[3], left) for line in lines(page, canvas=1)} == {1} and lines(page) == []
    tab_to(page, "Head 0.", key="Shift+Tab")
    press(page, "ArrowRight", "Enter")
    alone = weights(page, truth.attention[1], "0")
    assert far(alone[1], truth.attention[1, 1]) < SEEN and alone[0].max() == alone[2:].max() == 0


def test_neuron_view_by_keyboard(show, views, truth):
    page = show(views["light", "neuron"])
    tab_to(page, "att_head")
    press(page, "ArrowDown")
    assert page.input_value("#att_head") == "1"
    tab_to(page, "[CLS], token 0.")
    press(page, "ArrowDown", "Enter")
    assert visible(page, "#expanded")
    press(page, "ArrowDown")
    product = truth.query[0, 1, 2] * truth.key[0, 1]
    assert far(cells(page, "#product"), product) < 1e-5
    strongest = truth.attention[0, 1, 2].argmax()
    for dimension in (0, 1):
        press(page, "ArrowRight")
        said = page.locator("#said").text_content().replace("\u2212", "-")
        assert f"dimension {dimension}:" in said and truth.tokens[strongest] in said
        assert f"{product[strongest, dimension]:.3f}" in said
    press(page, "Space", "ArrowDown", "Tab")
    assert beside(page, "weight") == in_digits(truth.attention[0, 1, 2])
    press(page, "Shift+Tab", "Enter")
    assert visible(page, "#collapsed")


# --- what the head and the model view have beside bertviz's

PIECES = ["[CLS]", "un", "##believ", "##able", "story", "[SEP]"]
PIECED = view_samples.weights(layers=3, heads=4, tokens=6, dtype=torch.float64)
ALL = torch.cat(PIECED)  # (layers, heads, query, key)


def of_words(weights):
    """To a word: the sum over its pieces. From a word: the mean. So a row still adds up to 1."""
    words = [[0], [1, 2, 3], [4], [5]]
    summed = torch.stack([weights[:, word].sum(1) for word in words], 1)
    return torch.stack([summed[word].mean(0) for word in words])


def digits(page):
    return [float(text) for text in page.locator("#digits text").all_text_contents()]


def token(page, side, index):
    return page.locator(f"#{side} > g").nth(index)


def test_of_a_token_the_lines_of_all_heads_are_drawn_as_one(show):
    """Its colour and opacity are those of the lines of the heads, one upon the other, but never faint."""
    page = show(head_view(PIECED, PIECES, heads=[0, 1, 3]))
    token(page, "left", 2).hover()
    hidden, drawn = lines(page), lines(page, canvas=1)
    wide = torch.tensor(page.evaluate("document.querySelectorAll('#vis canvas')[1].wide"))
    assert (wide - (8 * ALL[0, [0, 1, 3], 2].mean(0)).clamp(min=1.2)).abs().max() < 0.05
    assert hidden == [] and len(drawn) == 6 and page.locator(".now, .best").count() == 2
    for (colour, opacity, *_), weights in zip(drawn, ALL[0, [0, 1, 3], 2].T, strict=True):
        ink, cover = torch.zeros(3), 0.0  # the ink in a pixel, times how much of it is covered
        for weight, head in sorted(zip(weights.tolist(), (0, 1, 3), strict=True)):  # the faint one beneath
            levels = torch.tensor([int(COLOURS[head][at : at + 2], 16) for at in (1, 3, 5)])
            ink, cover = weight * levels + (1 - weight) * ink, weight + (1 - weight) * cover
        assert opacity == pytest.approx(max(0.6, cover), abs=0.01)
        found = torch.tensor([int(colour[at : at + 2], 16) for at in (1, 3, 5)])
        assert (found - ink / cover).abs().max() < 3


@pytest.mark.parametrize("act", ["hover", "dblclick"])
def test_nothing_is_left_of_what_was_drawn_before(show, act):
    """However faint its last line was. By pixels: NOTE_LINES takes a faint ground for a whole one."""
    page = show(head_view(PIECED, PIECES, heads=[0]))
    pixels = "all => all.map(one => one.style.visibility === 'hidden' || one.toDataURL())"

    def drawn(index):
        getattr(page.locator({"hover": "#left > g", "dblclick": "#heads button"}[act]).nth(index), act)()
        return page.eval_on_selector_all("#vis canvas", pixels)

    first = drawn(1)
    assert drawn(2) != first == drawn(1)


def test_a_click_keeps_a_token_and_escape_lets_go(show):
    page = show(head_view(PIECED, PIECES, heads=[0], token="##able"))
    assert digits(page) == pytest.approx(ALL[0, 0, 3].tolist(), abs=0.0071)  # as if it were clicked
    token(page, "right", 1).hover()
    assert digits(page) == pytest.approx(ALL[0, 0, :, 1].tolist(), abs=0.0071)
    page.mouse.move(5, 5)
    assert digits(page) == pytest.approx(ALL[0, 0, 3].tolist(), abs=0.0071)
    assert far(torch.nn.functional.normalize(numbers(page, ".bar", "width"), 1, 0), ALL[0, 0, 3]) < SEEN
    page.get_by_label("Hide [CLS], [SEP]").check()  # it is another row now
    assert digits(page) == pytest.approx(ALL[0, 0, 3, 1:-1].tolist(), abs=0.0071)
    page.get_by_label("Hide [CLS], [SEP]").uncheck()
    page.select_option("#layer", "2")
    assert digits(page) == pytest.approx(ALL[2, 0, 3].tolist(), abs=0.0071)
    page.get_by_role("button", name="Head 1.").click()
    assert digits(page) == pytest.approx(ALL[2, :2, 3].mean(0).tolist(), abs=0.0071)
    best = f"“\u2068{PIECES[ALL[2, :2, 3].mean(0).argmax()]}\u2069”"
    assert f"attends most to {best} " in page.locator("#said").inner_text()
    shades = numbers(page, ".boxes rect", "opacity")  # beside each token one for each head
    assert far(shades.view(6, 2), ALL[2, :2, 3].T) < SEEN
    page.keyboard.press("Escape")
    assert digits(page) == [] and page.locator("#vis [aria-pressed=true]").count() == 0
    token(page, "right", 1).click()
    assert digits(page) == pytest.approx(ALL[2, :2, :, 1].mean(0).tolist(), abs=0.0071)
    token(page, "right", 1).click()
    assert page.locator("#vis [aria-pressed=true]").count() == 0


@pytest.mark.parametrize("kind", ["head", "neuron"])
def test_what_is_said_of_words_from_right_to_left_stands_in_order(show, kind):
    page = show(view_of_words(kind, ["שלום", "\u202edef", "אני"]))
    page.locator("#left text, #collapsed #leftText text").first.hover()
    read = """said => {
        const range = document.createRange();
        return [...said.textContent.matchAll(/[0-9]\\.[0-9]+/g)].map(({ index, 0: number }) => {
            range.setStart(said.firstChild, index);
            range.setEnd(said.firstChild, index + number.length);
            return [range.getBoundingClientRect()].flatMap(({ bottom, left }) => [bottom, left]);
        });
    }"""
    places = page.locator("#said").evaluate(read)
    assert len(places) == 3 and places == sorted(places)


def test_means_of_heads_and_of_layers(show):
    page = show(head_view(PIECED, PIECES))
    page.get_by_role("button", name="Mean of all heads").click()
    assert far(stroked(page, (1, 6, 6), ["#202020"]), ALL[0].mean(0)) < SEEN
    page.select_option("#layer", "mean")
    assert far(stroked(page, (1, 6, 6), ["#202020"]), ALL.mean((0, 1))) < SEEN
    page.get_by_role("button", name="Head 3.").dblclick()
    assert far(stroked(page, (1, 6, 6), [ALONE]), ALL.mean(0)[3]) < SEEN
    page = show(model_view(PIECED, PIECES))
    page.get_by_label("Means").check()
    assert page.locator("#vis .frame").count() == (3 + 1) * (4 + 1)
    page.get_by_role("button", name="head 1, mean of the layers.").click()
    page.locator("#card .token").nth(2).hover()
    assert digits(page) == pytest.approx(ALL.mean(0)[1, 2].tolist(), abs=0.0071)
    page.locator("#strength").fill("1")  # the picture stays open
    page.locator("#card .token").nth(2).hover()
    assert digits(page) == pytest.approx(ALL.mean(0)[1, 2].tolist(), abs=0.0071)
    labels = [label.bounding_box() for label in page.locator("#rows > svg > text, #columns span").all()]
    assert len(labels) == 4 + 5 and all(box["x"] >= 0 and box["y"] >= 0 for box in labels)


def test_special_tokens_are_hidden_and_the_rest_is_as_it_was(show):
    page = show(head_view(PIECED, PIECES, heads=[1]))
    page.get_by_label("Hide [CLS], [SEP]").check()
    assert page.locator("#left text").all_text_contents() == PIECES[1:-1]
    label = token(page, "left", 0).get_attribute("aria-label")
    assert label == "un, token 1"  # as in the list that was given
    expected = ALL[0, 1, 1:-1, 1:-1]
    assert far(stroked(page, (4, 4)), expected) < SEEN
    assert "add up to less than 1" in page.locator("#note").inner_text()
    page.get_by_label("Rescale the rest").check()
    assert far(stroked(page, (4, 4)), expected / expected.sum(-1, keepdim=True)) < SEEN
    assert "in each row it adds up to 1" in page.locator("#note").inner_text()
    page = show(model_view(PIECED, ["[CLS]"] * 6))
    page.get_by_label("Hide [CLS]").check()  # nothing would be left, so nothing is hidden
    assert len(lines(page)) > 3 * 4 * 30


def test_pieces_are_joined_to_words(show):
    expected = of_words(ALL[0, 1])
    page = show(head_view(PIECED, PIECES, sentence_b_start=4, heads=[1]))
    page.get_by_label("Words").check()
    assert page.locator("#left text").all_text_contents() == ["[CLS]", "unbelievable", "story", "[SEP]"]
    assert far(stroked(page, (4, 4)), expected) < SEEN
    page.select_option("#filter", "3")  # from A to B
    assert far(stroked(page, (2, 2)), expected[:2, 2:]) < SEEN
    token(page, "left", 1).hover()
    assert digits(page) == pytest.approx(expected[1, 2:].tolist(), abs=0.0071)


def test_lines_are_as_strong_as_the_control_says(show):
    page = show(head_view(PIECED, PIECES, heads=[1]))
    for value, exponent in (("0", 1), ("1", 1 / 2), ("-1", 2)):
        assert far(weights(page, ALL[0], value)[1], ALL[0, 1] ** exponent) < 0.04
    one = torch.eye(6).expand(1, 12, 6, 6)
    page = show(head_view([one], PIECES))  # a weight of 1 is seen in full, however many heads are on
    for value in ("0", "1", "-2"):
        assert (weights(page, one[0], value) == one[0]).all()


@pytest.mark.parametrize(("width", "mode", "rows"), [(500, "dark", 2), (1100, "light", 7)])
def test_numbered_squares_can_be_read_wrap_and_all_is_within_the_page(show, width, mode, rows):
    attention = view_samples.weights(layers=1, heads=36, tokens=6)
    page = show(head_view(attention, PIECES, heads=range(12), display_mode=mode), width=width)
    squares = page.locator("#heads button")
    assert squares.all_text_contents() == [*map(str, range(36)), "mean"]
    assert len({square.bounding_box()["y"] for square in squares.all()}) == rows
    token(page, "left", 1).click()
    boxes = [part.bounding_box() for part in page.locator("#heads button, #vis text, label").all()]
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes)
    assert max(box["x"] + box["width"] for box in boxes) > width - 60
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    read = "all => all.map(one => ['color', 'backgroundColor'].map(what => getComputedStyle(one)[what]))"
    pressed = page.eval_on_selector_all("#heads [aria-pressed=true]", read)
    assert len(pressed) == 12
    for colours in pressed:
        levels = [[int(level) / 255 for level in re.findall(r"\d+", colour)[:3]] for colour in colours]
        lights = view_samples.luminance(np.array(levels)) + 0.05
        assert max(lights) / min(lights) >= 4.5


@pytest.mark.parametrize("view, part, least", [(head_view, "#vis svg", 650), (model_view, "#columns", 500)])
def test_a_frame_that_is_shown_later_is_drawn_then(show, tmp_path, view, part, least):
    """A notebook may load a frame before it has a width."""
    view(PIECED, PIECES).save(tmp_path / "view.html")
    page = show("<!doctype html><iframe src=view.html width=0 height=400 style='border: 0'></iframe>")
    page.frames[-1].wait_for_selector("#vis canvas", state="attached")
    page.eval_on_selector("iframe", "one => { one.width = 900; }")
    page.frames[-1].wait_for_function(f"find('{part}')[0].clientWidth > {least} && said.offsetHeight < 60")


@pytest.mark.parametrize("width", [400, 1100])
def test_an_opened_picture_is_within_the_page_and_closes(show, width):
    page = show(model_view(PIECED, PIECES), width=width)
    for layer, head in ((0, 0), (1, 2), (2, 3)):
        picture = page.locator(f"[aria-label^='L{layer}H{head}.']")
        picture.press("Enter")
        box, grid = (page.locator(part).bounding_box() for part in ("#card", "#grid"))
        assert box["x"] >= 0 and box["x"] + box["width"] <= width
        beside = box["x"] >= grid["x"] + grid["width"], box["y"] >= grid["y"] + grid["height"]
        assert beside == (width == 1100, width == 400)  # it covers nothing of the grid
        press(page, "Tab", "Tab", "ArrowDown", "Enter")  # past the sign that closes it, to its tokens
        assert digits(page) == pytest.approx(ALL[layer, head, 1].tolist(), abs=0.0071)
        press(page, "Escape", "Escape")  # the first lets go of the token
        assert page.locator("#card h2").count() == 0
        assert picture.evaluate("it => it === document.activeElement")
    page.locator("[aria-label^='L0H0.']").focus()
    press(page, "ArrowDown", "ArrowRight", "Space")
    page.get_by_role("button", name="Close L1H1").click()
    assert page.locator("#card h2").count() == page.locator("#digits").count() == 0


@pytest.mark.parametrize("view", [head_view, model_view])
def test_a_view_of_an_encoder_decoder_has_three_panels(show, view):
    given = view_samples.stacks(source=5, target=3)
    page = show(view(**given))
    for part, name in enumerate(("encoder", "decoder", "cross")):
        page.select_option("#filter", str(part))
        expected = torch.cat(given[f"{name}_attention"])
        found = grid(page, expected) if view is model_view else weights(page, expected[0])
        assert (found - (expected if view is model_view else expected[0])).abs().max() < SEEN
    if view is model_view:
        page.locator("[aria-label^='L1H2.']").click()
    shown = page.locator("#card .token, #left text, #right text").all_text_contents()
    assert shown == given["decoder_tokens"] + given["encoder_tokens"]


def framed(view, monkeypatch, style=""):
    """A page of a notebook with the view in its frame."""
    monkeypatch.delenv("COURSE_STATIC_VIEWS", raising=False)
    return f"<!doctype html><meta charset=utf-8><body {style}>{view._repr_mimebundle_()[0]['text/html']}"


def ground_and_text(frame, ground):
    """Whether the ground is as dark as it should be, and all text far from it."""
    colour = "(all, name) => all.map(one => getComputedStyle(one)[name].match(/\\d+/g).map(of => of / 255))"
    (behind,) = frame.eval_on_selector_all(":root", colour, "backgroundColor")
    texts = {"#vis svg text": "fill", "label": "color", ".word": "color"}
    inks = [ink for text, name in texts.items() for ink in frame.eval_on_selector_all(text, colour, name)]
    far_off = all(contrast(ink[:3], behind) >= INK for ink in inks)
    return behind == {"light": [1, 1, 1], "dark": [*to_rgb(GROUND)]}[ground] and inks and far_off


@pytest.mark.parametrize("kind", KINDS)
def test_text_can_be_read_on_either_ground(show, kind):
    view = text_view(*view_samples.written(9)[:2]) if kind == "text" else view_of_words(kind, PIECES)
    page = show(view, color_scheme="dark")
    assert ground_and_text(page, "dark")
    page.emulate_media(color_scheme="light")
    page.wait_for_selector("html.light")
    assert ground_and_text(page, "light")


def test_an_open_view_follows_the_theme_of_its_notebook(show, monkeypatch):
    """JupyterLab changes its CSS and notes the theme at its body."""
    page = show(framed(model_view(PIECED, PIECES), monkeypatch), color_scheme="light")
    for ground in ("light", "dark", "light"):
        page.evaluate("scheme => { document.body.style.colorScheme = scheme; }", ground)
        page.frames[-1].wait_for_selector(f"html.{ground} #vis canvas", state="attached")
    page.locator("iframe").evaluate("frame => frame.remove()")
    page.evaluate("document.body.className = 'other'")


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_has_a_title_and_what_can_be_pressed_has_a_name(surface, views, kind):
    live = surface("live")
    element = live.locator("iframe").nth(PLACES.index(("light", kind)))
    assert element.get_attribute("title") == str(views["light", kind])
    frame = frame_of(live, "light", kind)
    named = "one => [one.ariaLabel, one.role, one.labels?.[0]?.innerText]"
    assert frame.eval_on_selector_all("select", f"all => all.map({named}).every(([, , said]) => said)")
    called = f"all => all.map({named}).every(([label, role]) => label && /^(button|img)$/.test(role))"
    assert frame.eval_on_selector_all("[tabindex]", called)


# --- the text view

FAINT = 0.005  # a browser keeps the opacity of a ground in 255 steps


def shades(page):
    """How opaque the ground of each token is: the weight that it stands for."""
    read = "all => all.map(one => +(one.style.background.match(/([0-9.]+)\\)/) || [0, 0])[1])"
    return torch.tensor(page.eval_on_selector_all(".word", read), dtype=torch.float64) / 0.85


@pytest.fixture
def written_page(show):
    attention, tokens, told = view_samples.written(9)
    view = text_view(attention, tokens, 4, layer=1, head=2, token=6, **told)
    return torch.cat(attention).double(), show(view)


def test_text_view_shades_the_text_by_the_weights_of_a_token(written_page):
    weights, page = written_page
    assert far(shades(page), weights[1, 2, 6]) < FAINT
    page.keyboard.press("Escape")
    assert shades(page).max() == 0
    page.locator(".word").nth(8).hover()
    assert far(shades(page), weights[1, 2, 8]) < FAINT
    page.locator(".word").nth(5).click()
    page.locator(".word").nth(2).hover()
    assert far(shades(page), weights[1, 2, 5]) < FAINT  # it is kept
    assert page.locator(".word[aria-pressed=true]").count() == 1
    for menu, choice, expected in (
        ("#head", "mean", weights[1, :, 5].mean(0)),
        ("#layer", "mean", weights[:, :, 5].mean((0, 1))),
        ("#way", "to", weights[:, :, :, 5].mean((0, 1))),
    ):
        page.select_option(menu, choice)
        assert far(shades(page), expected) < FAINT


def test_text_view_says_what_was_surprising_and_would_have_followed_and_hides_the_first_token(written_page):
    weights, page = written_page
    told = view_samples.written(9)[2]
    shares = told["logits"][0].softmax(-1)
    surprise = -shares[5, told["input_ids"][0, 6]].log2()
    assert f"surprise {surprise:.1f} bits" in page.locator("#said").inner_text()
    said, best = page.locator("#nexts").inner_text(), shares[6].topk(5)
    for index, probability in zip(best.indices, best.values, strict=True):
        assert f"\u2068word{index}\u2069 {probability:.2f}" in said
    assert page.eval_on_selector_all("#text > span", "all => all.map(one => one.id)").index("written") == 4
    page.get_by_label("Hide first token").check()
    row = weights[1, 2, 6].clone()
    row[0] = 0
    assert far(shades(page), row) < FAINT
    page.get_by_label("Rescale the rest").check()
    assert far(shades(page), row / row.sum()) < FAINT
    assert "in each row it adds up to 1" in page.locator("#note").inner_text()


def test_text_view_by_keyboard(written_page):
    weights, page = written_page
    press(page, "Escape")
    tab_to(page, "word0, token 0")
    press(page, *["ArrowRight"] * 3)
    assert far(shades(page), weights[1, 2, 3]) < FAINT
    press(page, "Enter", "ArrowRight")
    assert page.locator(".word[aria-pressed=true]").get_attribute("aria-label") == "word3, token 3"
    assert "written by the model" in page.evaluate("document.activeElement.getAttribute('aria-label')")


def test_text_view_of_a_long_text_shows_the_rest_as_elsewhere(show):
    attention, tokens, _ = view_samples.written(300, 1, 60)
    page = show(text_view(attention * 4, tokens, head=3, token=299))
    found, expected = shades(page), attention[0][0, 3, 299].double()
    best = expected.topk(page.evaluate("KEPT")).indices
    assert (found[best] - expected[best]).abs().max() < FAINT
    assert f"elsewhere {1 - expected[best].sum():.2f}" in page.locator("#said").inner_text()


# --- the page and its picture

# Where each text of an SVG is anchored on the page: [text, x, y].
ANCHORS = """all => all.map((text) => {
  const last = text.getNumberOfChars() - 1, side = getComputedStyle(text).textAnchor;
  if (last < 0) return ["", 0, 0];
  const { left, top } = document.querySelector("#vis svg").getBoundingClientRect();
  const ends = [text.getStartPositionOfChar(0), text.getEndPositionOfChar(last)];
  const x = { start: ends[0].x, end: ends[1].x, middle: (ends[0].x + ends[1].x) / 2 }[side];
  const at = new DOMPoint(x, ends[0].y).matrixTransform(text.getScreenCTM());
  return [text.textContent, at.x - left, at.y - top];
})"""


@pytest.mark.parametrize("kind", ["head", "model", "neuron"])
def test_texts_and_lines_stand_in_the_picture_where_the_page_has_them(kind, show):
    """To the pixel. Above a page's lines stand other things than above the picture's."""
    view = PICTURES[kind]()
    page = show(view, width={"head": 516, "model": 1100, "neuron": 1200}[kind])
    if kind == "neuron":
        page.locator("#collapsed #leftText > g").nth(1).hover()
        page.locator("#collapsed #leftText > g").nth(1).locator("rect").last.click()
    found = page.eval_on_selector_all("#vis svg text", ANCHORS)
    down = 0
    if kind != "neuron":
        drawn = np.array([line[2:] for line in lines(page)], float)
        fans, expected = shapes(view, Fan), []
        for fan in fans:
            for _, query, key in np.argwhere(fan.seen > 0).tolist():
                expected.append([fan.left, fan.top + fan.step * query, fan.right, fan.top + fan.step * key])
        expected = np.array(expected)
        down = expected[:, 1].min() - drawn[:, 1].min()
        drawn[:, [1, 3]] += down
        near = np.abs(drawn[:, None] - expected[None]).max(axis=-1)
        assert (near.min(axis=1) < 0.1).all() and (near.min(axis=0) < 0.1).all()
    words = {word for word, *_ in found}  # no "Layer", and no numbers of squares
    texts = [text for text in shapes(view, Text) if text.shown in words]
    if kind == "model":  # the numbers of its columns are no SVG
        texts = [text for text in texts if text.x < fans[0].left]
    assert len(texts) >= {"head": 10, "model": 2, "neuron": 40}[kind]
    for text in texts:
        apart = [max(abs(x - text.x), abs(y + down - text.y)) for word, x, y in found if word == text.shown]
        assert min(apart, default=99) < 1, f"{text.text} is {apart} away"
