"""The web pages of the course that `make site` makes, in headless Chromium with every outside host blocked."""

import functools
import http.server
import os
import re
import subprocess
import sys
import threading
import urllib.parse
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
import test_browser
import torch

import course
import offline
import pages

ROOT = Path(__file__).parent.parent
RUN = ["06"]  # run for these tests; the others are shown as they are committed

pytestmark = test_browser.pytestmark
open_page = test_browser.open_page


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages, built by the command of `make site` and served as a web server would: folder and address."""
    folder = tmp_path_factory.mktemp("site") / "pages"
    command = [sys.executable, ROOT / ".ci" / "pages.py", "--to", folder, *RUN]
    ran = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"COURSE_STATIC_VIEWS": "1"}
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    serve = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield SimpleNamespace(folder=folder, address=f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


@pytest.fixture(scope="module")
def opened(site, open_page):
    """Opens a page of the site once: its path to the page in the browser."""
    return functools.cache(lambda path: open_page(f"{site.address}/{path}"))


def heading(page):
    return page.locator("h1").first.evaluate("heading => heading.firstChild.textContent")


def test_views_of_a_page_draw_the_weights_of_the_model(opened, bert_attention):
    attentions, tokens = bert_attention
    page = opened("notebooks/06_head_view.html")
    frame = test_browser.view_of(page, "Head view: 20 tokens")
    heads, count = attentions[0].shape[1], len(tokens)
    for layer in (0, 3):
        frame.select_option("#layer", str(layer))
        drawn = torch.tensor(test_browser.opacities(frame), dtype=torch.float64)
        assert drawn.shape == (heads * count * count,)
        assert (drawn.view(heads, count, count) * heads - attentions[layer][0]).abs().max() < 0.005
    live = page.locator("iframe").count()
    views = [cell for cell in course.read(course.NOTEBOOKS / "06_head_view.ipynb").cells if "outputs" in cell]
    stored = [output for cell in views for output in cell.outputs if "Head view" in str(output.get("data"))]
    assert live == len(stored) > 3, (live, [str(output.data.keys()) for output in stored])
    counts = page.locator(".jp-CodeCell .jp-InputPrompt").all_text_contents()
    assert [int(re.search(r"\d+", count)[0]) for count in counts] == list(range(1, len(counts) + 1))


def test_readers_find_their_way(site, open_page):
    """From the contents to a notebook, on to the next, and back, by clicking."""
    first, second, *_ = course.paths()
    page = open_page(f"{site.address}/index.html")
    assert heading(page) == page.title() == "How attention works"
    page.get_by_role("link", name=course.about(first)["title"]).click()
    assert heading(page) == course.about(first)["title"]
    assert page.title().startswith(heading(page))
    page.get_by_role("link", name="→").first.click()
    page.wait_for_url(f"**/{second.stem}.html")
    assert heading(page) == course.about(second)["title"]
    page.get_by_role("link", name="Contents").last.click()
    page.wait_for_url("**/index.html#the-notebooks")
    assert page.locator(":target").evaluate("place => place.firstChild.textContent") == "The notebooks"
    assert page.evaluate("document.documentElement.lang") == "en"


def every_page():
    texts = course.NOTEBOOKS.glob("*.md")
    return ["index.html", *(f"notebooks/{path.stem}.html" for path in [*course.paths(), *texts])]


def test_pages_are_whole_and_ask_nobody(site, opened):
    """Pictures load, links and anchors lead somewhere, nothing complains, no outside host is asked."""
    anchors, links = {}, []
    for path in every_page():
        page = opened(path)
        page.wait_for_load_state()
        pictures = page.eval_on_selector_all("img", "all => all.map(one => [one.src, one.naturalWidth])")
        assert all(width > 0 for _, width in pictures), path
        assert pictures or path in ("notebooks/glossary.html", "notebooks/questions.html")
        anchors[path] = set(page.eval_on_selector_all("[id]", "all => all.map(one => one.id)"))
        links += page.eval_on_selector_all("a[href]", "all => all.map(one => one.href)")
        assert page.asked == set() and page.errors == [], (path, page.asked, page.errors)
        assert page.locator(".jp-RenderedText[data-mime-type$='stderr']").count() == 0, path
    inside = {link.removeprefix(f"{site.address}/") for link in links if link.startswith(site.address)}
    for path, _, anchor in (link.partition("#") for link in inside):
        assert (site.folder / path).is_file(), path
        assert not anchor or urllib.parse.unquote(anchor) in anchors[path], f"{path}#{anchor}"
    outside = set(links) - {f"{site.address}/{link}" for link in inside}
    assert all(link.startswith("https://") for link in outside)
    assert any("colab.research.google.com" in link for link in outside)
    assert "LICENSE.txt" in inside


def test_formulas_are_mathml(opened):
    counted = 0
    for path in course.paths():
        prose = "\n\n".join(cell.source for cell in course.read(path).cells if cell.cell_type == "markdown")
        formulas = sum(not found["code"] for found in offline.CODE_OR_FORMULA.finditer(prose))
        page = opened(f"notebooks/{path.stem}.html")
        assert page.locator("math").count() == formulas, path.name
        for formula in page.locator("math >> visible=true").all():
            assert formula.bounding_box()["width"] > 0
        counted += formulas
    assert counted > 0


def test_pages_fit_a_phone_and_the_dark(opened):
    colours = """() => [document.body, document.querySelector('p')].map((part, i) =>
        +getComputedStyle(part)[i ? 'color' : 'backgroundColor'].match(/\\d+/)[0])"""
    page = opened("notebooks/06_head_view.html")
    ground, ink = page.evaluate(colours)
    assert ground > 200 and ink < 60
    page.emulate_media(color_scheme="dark")
    ground, ink = page.evaluate(colours)
    assert ground < 60 and ink > 200
    page.emulate_media(color_scheme="light")
    for path in every_page():
        page = opened(path)
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path


# --- without a browser ------------------------------------------------------------------------------------------------


def test_controls_and_bars_stand_still_and_views_are_live():
    cells = [
        "import sys; sys.path.insert(0, '..')\nimport os, torch\nfrom utils import head_view, live",
        "live(print, sep=['a', 'b'])",
        "head_view((torch.full((1, 2, 3, 3), 1 / 3),), ['a', 'b', 'c'])",
        "os.environ['COURSE_STATIC_VIEWS']",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_STATIC_VIEWS", "1")
        course.execute(notebook, first=pages.LIVE_VIEWS)
    _, control, view, variable = notebook.cells
    assert [output.output_type for output in control.outputs] == ["stream"]
    assert set(view.outputs[0].data) == {"text/plain", "text/html", "image/png"}
    assert "<iframe" in view.outputs[0].data["text/html"]
    assert variable.outputs[0].data["text/plain"] == "'1'"
    assert [cell.execution_count for cell in notebook.cells] == [1, 2, 3, 4]
    assert "widgets" not in notebook.metadata


def test_links_lead_from_page_to_page():
    at = functools.partial(pages.links_to_pages, source="notebooks/02_x.ipynb")
    assert at("[a](01_y.ipynb#why)") == "[a](01_y.html#why)"
    assert at("[a](../README.md#the-notebooks)") == "[a](../index.html#the-notebooks)"
    assert at("[a](01_y.ipynb#cell-id=b)") == "[a](01_y.html#cell-id=b)"
    assert at("[a](glossary.md)") == "[a](glossary.html)"
    assert at("![a](../images/b.svg)") == "![a](../images/b.svg)"
    assert at("[a](#why) [b](https://x.org/c.ipynb)") == "[a](#why) [b](https://x.org/c.ipynb)"
    assert at("`[a](01_y.ipynb)`") == "`[a](01_y.ipynb)`"
    assert at("[a](../utils/plots.py)").endswith(f"{course.repository()}/blob/main/utils/plots.py)")
    assert pages.links_to_pages("[a](notebooks/01_y.ipynb)", "README.md") == "[a](notebooks/01_y.html)"
    assert pages.links_to_pages("[a](LICENSE)", "README.md") == "[a](LICENSE.txt)"


@pytest.mark.parametrize(
    "output",
    [
        {"text/html": "<script src='https://x.org/a.js'></script>"},
        {"text/html": '<img alt="a" src="https://x.org/a.png">'},
        {"text/html": "<iframe srcdoc='<link rel=stylesheet href=https://x.org/a.css>'></iframe>"},
        {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}, "text/plain": "slider"},
    ],
)
def test_a_page_that_would_ask_a_server_is_refused(output):
    cell = nbformat.v4.new_code_cell("x", execution_count=1)
    cell.outputs = [nbformat.v4.new_output("display_data", output)]
    with pytest.raises(SystemExit, match="would ask a server"):
        pages.export(nbformat.v4.new_notebook(cells=[cell]), "notebooks/x.ipynb", "x")


def test_building_overwrites_nothing_else_and_names_what_is_not_there(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(SystemExit, match="something else"):
        pages.build(tmp_path, [])
    assert (tmp_path / "thesis.txt").exists()
    with pytest.raises(SystemExit, match="no notebook 77"):
        pages.build(tmp_path / "new", ["77"])
    assert re.search(r"^_site/$", (ROOT / ".gitignore").read_text(encoding="utf-8"), re.MULTILINE)
