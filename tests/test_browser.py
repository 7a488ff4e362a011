"""The course in a real JupyterLab in headless Chromium, with every outside host blocked."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
import torch

from utils import head_view

ROOT = Path(__file__).parent.parent
CHROMIUM = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
FLAGS += ["--disable-component-update", "--disable-sync"]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None and "COURSE_REQUIRE_BROWSER" not in os.environ,
        reason="needs Chromium on this machine (Debian: apt-get install chromium)",
    ),
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A JupyterLab that serves a copy of the course: its address and its folder."""
    folder = tmp_path_factory.mktemp("course")
    for name in ("notebooks", "utils", "images"):
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
        )
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"]
    command += ["--ServerApp.port_retries=0", "--IdentityProvider.token=test", "--LabApp.news_url=None"]
    command += [
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        f"--ServerApp.root_dir={folder}",
    ]
    surroundings = {name: value for name, value in os.environ.items() if name != "COURSE_STATIC_VIEWS"}
    with open(folder / "lab.log", "w") as log:
        server = subprocess.Popen(command, cwd=folder, env=surroundings, stdout=log, stderr=log)
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api?token=test", timeout=2)
                break
            except OSError:
                time.sleep(0.5)
        else:
            pytest.fail("JupyterLab did not start:\n" + (folder / "lab.log").read_text())
        yield SimpleNamespace(address=f"http://127.0.0.1:{port}", folder=folder)
    finally:
        server.terminate()
        server.wait(20)


@pytest.fixture(scope="module")
def open_page():
    """Opens tall pages, so that every cell is rendered. `page.asked` lists each outside host that was asked for."""
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "COURSE_REQUIRE_BROWSER is set, but there is no Chromium on this machine"
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)

        def open_page(address):
            page = browser.new_page(viewport={"width": 1200, "height": 20000})
            page.asked, page.errors = set(), []
            page.on("pageerror", lambda error: page.errors.append(str(error)))
            page.on("console", lambda said: page.errors.append(said.text) if said.type == "error" else None)

            def guard(route):
                host = re.match(r"\w+://([^/:]+)", route.request.url)[1]
                if host == "127.0.0.1":
                    route.continue_()
                else:
                    page.asked.add(host)
                    route.abort()

            page.context.route(re.compile(r"^https?:"), guard)
            page.goto(address)
            return page

        yield open_page
        browser.close()


def open_notebook(lab, open_page, name):
    page = open_page(f"{lab.address}/doc/tree/notebooks/{name}?token=test&reset")
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=90_000)
    page.wait_for_timeout(2000)
    return page


@pytest.fixture(scope="module")
def executed(lab, open_page):
    """Opens a notebook and runs all its cells, once for all tests that ask for it."""
    pages = {}

    def executed(name):
        if name not in pages:
            page = open_notebook(lab, open_page, name)
            page.get_by_role("menuitem", name="Run", exact=True).first.click()
            page.get_by_text("Run All Cells", exact=True).first.click()
            page.wait_for_timeout(2000)
            busy = "[...document.querySelectorAll('.jp-InputPrompt')].some(place => place.textContent.includes('[*]'))"
            page.wait_for_function(f"!({busy})", timeout=240_000, polling=500)
            page.wait_for_timeout(2000)
            pages[name] = page
        return pages[name]

    return executed


def view_of(page, title):
    """The frame of the first view whose title begins so, with its lines drawn."""
    element = page.locator(f"iframe[title^='{title}']").first
    element.scroll_into_view_if_needed()
    frame = element.element_handle().content_frame()
    frame.wait_for_selector("#attention line", state="attached", timeout=30_000)
    return frame


def opacities(frame):
    """The opacity of each line in a view, as bertviz wrote it."""
    read = "lines => lines.map(line => +line.getAttribute('stroke-opacity'))"
    return frame.eval_on_selector_all("#attention line", read)


def test_head_view_draws_the_weights_and_changes_with_the_layer(executed, bert_attention):
    attentions, tokens = bert_attention
    layers, heads, count = len(attentions), attentions[0].shape[1], len(tokens)
    page = executed("06_head_view.ipynb")
    frame = view_of(page, "Head view: 20 tokens")
    first = opacities(frame)
    assert len(first) == heads * count * count
    assert frame.eval_on_selector_all("#layer option", "all => all.map(option => option.value)") == [
        str(layer) for layer in range(layers)
    ]
    for layer in (0, 3):
        frame.select_option("#layer", str(layer))
        seen = torch.tensor(opacities(frame), dtype=torch.float64).reshape(heads, count, count) * heads
        assert (seen - attentions[layer][0]).abs().max() < 0.005
    assert opacities(frame) != first

    squares = frame.locator("svg > g").last.locator("rect")
    squares.nth(1).dblclick()
    alone = torch.tensor(opacities(frame), dtype=torch.float64).reshape(heads, count, count)
    assert (alone[1] - attentions[3][0, 1]).abs().max() < 0.005
    assert alone[0].max() == alone[2:].max() == 0


def test_pair_menu_shows_one_sentence_to_the_other(executed):
    frame = view_of(executed("06_head_view.ipynb"), "Head view: 13 tokens")
    sizes = []
    for part in range(5):
        frame.select_option("#filter", str(part))
        sizes.append([frame.locator(f"#{side} text").count() for side in ("left", "right")])
    assert sizes == [[13, 13], [6, 6], [7, 7], [6, 7], [7, 6]]


def test_control_changes_its_picture(executed):
    page = executed("02_scaled_dot_product_attention.ipynb")
    slider = page.locator(".widget-slider").first
    picture = page.locator(".jp-OutputArea:has(.widget-slider) img").last
    assert slider.inner_text().split() == ["d", "64"]
    before = picture.get_attribute("src")
    slider.locator(".noUi-handle").press("ArrowRight")
    page.wait_for_function(
        "old => ![...document.images].some(image => image.src === old)", arg=before, timeout=30_000
    )
    assert slider.inner_text().split() == ["d", "256"]
    assert picture.get_attribute("src") != before


@pytest.mark.parametrize("name", ["06_head_view.ipynb", "02_scaled_dot_product_attention.ipynb"])
def test_nothing_is_asked_from_outside_and_nothing_complains(executed, name):
    page = executed(name)
    assert page.asked == set()
    assert page.errors == []
    assert page.locator(".jp-RenderedText[data-mime-type$='stderr']").all_inner_texts() == []


def test_untrusted_notebook_shows_the_static_twin(lab, open_page, monkeypatch):
    """A notebook that somebody else has saved with a live view: JupyterLab removes the frame, the picture stays."""
    monkeypatch.delenv("COURSE_STATIC_VIEWS", raising=False)
    data, metadata = head_view([torch.full((1, 2, 3, 3), 1 / 3)], ["a", "b", "c"])._repr_mimebundle_()
    cell = nbformat.v4.new_code_cell("view", execution_count=1)
    cell.outputs = [nbformat.v4.new_output("execute_result", data, metadata=metadata, execution_count=1)]
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), lab.folder / "notebooks" / "untrusted.ipynb")
    page = open_notebook(lab, open_page, "untrusted.ipynb")
    assert page.locator("iframe[title^='Head view']").count() == 0
    picture = page.locator("img[alt^='Head view: 3 tokens']")
    assert picture.is_visible() and picture.bounding_box()["height"] > 50
