"""The link check, against a server on this machine."""

import http.server
import threading
from collections import Counter

import pytest

import links

ANSWERS = {"/fine": [200], "/gone": [404], "/tired": [503, 503, 200], "/robots": [403], "/ill": [500]}


@pytest.fixture
def server():
    """Its address, and how often each path was asked for."""
    asked = Counter()

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/moved":
                self.send_response(301)
                self.send_header("Location", "/fine")
            else:
                answers = ANSWERS[self.path]
                self.send_response(answers[min(asked[self.path], len(answers) - 1)])
            asked[self.path] += 1
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}", asked
        running.shutdown()


@pytest.mark.parametrize(
    ("path", "said", "times"),
    [
        ("/fine", "", 1),
        ("/moved", "", 1),
        ("/tired", "", 3),
        ("/robots", "", 1),
        ("/gone", "404", 3),
        ("/ill", "500", 3),
    ],
)
def test_a_link_is_asked_until_it_answers(server, path, said, times):
    address, asked = server
    assert links.fault(address + path, waits=(0, 0, 0)).startswith(said)
    assert bool(links.fault(address + path, waits=(0,))) == bool(said)
    assert asked[path] == times + 1


def test_a_server_that_is_not_there_is_a_fault():
    closed = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    address = f"http://127.0.0.1:{closed.server_port}/"
    closed.server_close()
    assert "refused" in links.fault(address, waits=(0, 0)).lower()
    assert links.fault("https://no-such-host.invalid/", waits=(0,))


def test_links_are_found_in_text_and_code():
    text = """See [a](https://a.org/x_(y)#part), <https://b.org/>, "https://c.org/1", https://d.org/2. And
    [![badge](../images/b.svg)](https://e.org/a?b=c) | [t](https://f.org) | https://YOUR-HUB/hub `https://g.org/{name}`"""
    assert links.links(text) == {
        "https://a.org/x_(y)",
        "https://b.org/",
        "https://c.org/1",
        "https://d.org/2",
        "https://e.org/a?b=c",
        "https://f.org",
    }


def test_report_names_each_broken_link_and_its_files(server, monkeypatch, capsys):
    address, _ = server
    monkeypatch.setattr(links, "links", lambda text: {address + path for path in text.split()})
    said = links.report({"README.md": "/fine /gone", "utils/a.py": "/gone"}, waits=(0,))
    assert said == [f"{address}/gone: 404 Not Found (in README.md, utils/a.py)"]
    assert "2 links in 2 files" in capsys.readouterr().out


def test_every_text_with_links_is_read():
    said = links.texts()
    assert {
        "README.md",
        "CONTRIBUTING.md",
        "LICENSE",
        "utils/views.py",
        "notebooks/01_tokenization.ipynb",
    } <= set(said)
    assert "https://arxiv.org/abs/1706.03762" in links.links("".join(said.values()))
    assert "image/png" not in said["notebooks/06_head_view.ipynb"]
