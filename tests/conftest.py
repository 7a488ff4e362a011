"""What several test files share."""

import os
import shutil

import playwright.sync_api
import pytest

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]
FLAGS += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]  # every outside host is blocked


@pytest.fixture(scope="module")
def chromium():
    """The machine's own Chromium, without a screen (Debian: apt-get install chromium)."""
    found = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
    if not found:
        (pytest.fail if "COURSE_REQUIRE_BROWSER" in os.environ else pytest.skip)("no Chromium here")
    with playwright.sync_api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=found, args=FLAGS, timeout=600_000)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def bert():
    """The tokenizer and the model of the course, in float64 and for evaluation."""
    from view_samples import load  # whose imports take seconds

    return load()
