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

import pytest
import torch

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
    """The address of a JupyterLab that serves a copy of the course."""
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
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)


@pytest.fixture
def page():
    """A tall page, so that every cell is rendered. `page.asked` lists each outside host that was asked for."""
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "COURSE_REQUIRE_BROWSER is set, but there is no Chromium on this machine"
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
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
        yield page
        browser.close()


def run_all(page, lab, name):
    page.goto(f"{lab}/doc/tree/notebooks/{name}?token=test&reset")
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=90_000)
    page.wait_for_timeout(2000)
    page.get_by_role("menuitem", name="Run", exact=True).first.click()
    page.get_by_text("Run All Cells", exact=True).first.click()
    page.wait_for_timeout(2000)
    busy = (
        "[...document.querySelectorAll('.jp-InputPrompt')].some(prompt => prompt.textContent.includes('[*]'))"
    )
    page.wait_for_function(f"!({busy})", timeout=240_000, polling=1000)


def opacities(frame):
    """The opacity of each line in a view, as bertviz wrote it."""
    read = "lines => lines.map(line => +line.getAttribute('stroke-opacity'))"
    return frame.eval_on_selector_all("#attention line", read)


def test_head_view_draws_the_weights_and_changes_with_the_layer(lab, page, bert_attention):
    attentions, tokens = bert_attention
    layers, heads, count = len(attentions), attentions[0].shape[1], len(tokens)
    run_all(page, lab, "06_head_view.ipynb")
    assert page.locator(".jp-RenderedText[data-mime-type$='stderr']").all_inner_texts() == []

    element = page.locator("iframe[title^='Head view']").first
    element.scroll_into_view_if_needed()
    frame = element.element_handle().content_frame()
    frame.wait_for_selector("#attention line", state="attached", timeout=30_000)
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

    assert page.asked == set()
    assert page.errors == []


def test_pair_menu_shows_one_sentence_to_the_other(lab, page):
    run_all(page, lab, "06_head_view.ipynb")
    element = page.locator("iframe[title^='Head view: 13 tokens']").first
    element.scroll_into_view_if_needed()
    frame = element.element_handle().content_frame()
    frame.wait_for_selector("#attention line", state="attached", timeout=30_000)
    sizes = []
    for part in range(5):
        frame.select_option("#filter", str(part))
        sizes.append([frame.locator(f"#{side} text").count() for side in ("left", "right")])
    assert sizes == [[13, 13], [6, 6], [7, 7], [6, 7], [7, 6]]
    assert page.asked == set()
    assert page.errors == []
