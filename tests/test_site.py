"""The web pages that `make site` makes, in headless Chromium with every outside host blocked."""

import functools
import http.server
import importlib.util
import itertools
import os
import re
import subprocess
import sys
import threading
import urllib.parse
from types import SimpleNamespace

import numpy as np
import pytest
import test_browser
import torch
from test_drawings import INK, contrast
from view_samples import luminance

import course
import offline

PAGES = ["index.html", "CONTRIBUTING.html", "CHANGELOG.html", "LICENSE.html", "search.html"]
PAGES += [f"notebooks/{path.stem}.html" for path in [*course.paths(), *course.NOTEBOOKS.glob("*.md")]]

pytestmark = pytest.mark.browser
if not importlib.util.find_spec("sphinx_book_theme") and "COURSE_REQUIRE_SITE" not in os.environ:
    pytest.skip("needs the packages of .ci/site.txt (`make site` installs them)", allow_module_level=True)
open_page = test_browser.open_page


@pytest.fixture(scope="module")
def chromium(chromium):
    return chromium.new_context()  # its pages share what they have loaded


# Which parts of a page are scrolled sideways, hide something or are too small; on a phone columns may be.
CUT = """() => [...document.querySelectorAll('article *')].filter(one => one.checkVisibility() &&
    (one.matches('.dataframe td') && parseFloat(getComputedStyle(one).fontSize) < 9 || one.clientWidth &&
    one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX !== 'visible'
    && !(innerWidth === 390 && one.matches('pre.columns')))).map(one => one.outerHTML)"""
# Which printed columns are broken: they take more lines of the page than they have, or than padding takes.
BROKEN = """() => [...document.querySelectorAll('pre.columns')].filter(one => one.clientHeight /
    parseFloat(getComputedStyle(one).lineHeight) > one.textContent.trimEnd().split('\\n').length + 1.5
    ).map(one => one.textContent)"""
# Each part with the colour under it, and with that of its own text. (A # is shown under the mouse alone.)
COLOURS = """() => {
    const parts = text => text.match(/[\\d.]+/g).map((part, i) => i < 3 ? part / 255 : +part);
    const own = (one, name) => parts(getComputedStyle(one)[name]);
    const under = one => one && own(one, 'backgroundColor')[3] < 0.5 ? under(one.parentElement) : one;
    const says = one => [...one.childNodes].some(node => node.nodeName === '#text' && node.data.trim());
    return [...document.querySelectorAll('article *:not(.headerlink, img, td[style], mark)')].filter(one =>
        one.checkVisibility()).map(one => [one.outerHTML, own(under(one), 'backgroundColor').slice(0, 3),
        says(one) && own(one, 'color').slice(0, 3), !!one.closest('.start:first-child')]);
}"""
# From which word to which each line leads, or below which it lies; and how wide it is.
ENDS = """all => all.map(line => [...[0, 1e9].map(at => {
    const { x, y } = line.getPointAtLength(at).matrixTransform(line.getScreenCTM());
    const away = find('#words button').map(one => one.getBoundingClientRect()).map(box =>
        Math.hypot(x - clamp(x, box.left, box.right), y - clamp(y, box.top, box.bottom)));
    return away.indexOf(Math.min(...away));
}), +line.getAttribute('stroke-width')])"""
WAYS = [f"#ways .{one}" for one in ("key", "query", "weight", "value:not(.sum, .back)", "sum", "back")]
# The widest arc of each head, drawn small: how wide it is, and where it ends.
WIDEST = """all => all.map(one => [...one.querySelectorAll('[stroke-width]')].map(arc => ['stroke-width', 'd']
    .map(is => +arc.getAttribute(is).split(' ').slice(-2)[0])).sort((a, b) => b[0] - a[0])[0] ?? [0, 0])"""
SAID_DRAWN = "all => all.map(b => (+b.title.slice(-4) + parseFloat(b.style.backgroundPosition) / 100) / 2)"
# The token and the id of each column, if the names of the rows stand before it.
COLUMNS = """all => all.map(one => [...document.querySelectorAll('.names')].some(name => name.offsetTop ===
    one.offsetTop && name.offsetLeft < one.offsetLeft) && [1, 2].map(i => one.children[i].textContent))"""
HEIGHTS = "all => all.map(one => -one.getAttribute('d').split('V')[1])"
FRAMED = "one => ['backgroundColor', 'padding'].map(name => getComputedStyle(one)[name])"


def build(*arguments):
    command = [sys.executable, course.ROOT / ".ci" / "site" / "build.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages, as `make site` makes them, on a web server: their folder and address."""
    folder = tmp_path_factory.mktemp("site") / "pages"
    ran = build("--to", folder, "06")  # with views; the others are shown as they are committed
    assert ran.returncode == 0, ran.stdout + ran.stderr
    serve = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield SimpleNamespace(folder=folder, address=f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


@pytest.fixture(scope="module")
def opened(site, open_page):
    """Opens a page of the site once: its path to the page in the browser."""
    return functools.cache(lambda path: open_page(f"{site.address}/{path}"))


def test_pages_are_whole_and_ask_nobody(site, opened):
    anchors, links = {}, set()
    for path in PAGES:
        page = opened(path)
        page.eval_on_selector_all("img", "all => Promise.all(all.map(one => one.decode()))")  # or it raises
        anchors[path] = set(page.eval_on_selector_all("[id]", "all => all.map(one => one.id)"))
        links |= set(page.eval_on_selector_all("a[href]", "all => all.map(one => one.href)"))
        assert [*page.asked, *page.errors, *page.query_selector_all(".stderr")] == [], path
    inside = {link.removeprefix(f"{site.address}/") for link in links if link.startswith(site.address)}
    for path, _, anchor in (link.partition("#") for link in inside):
        assert (site.folder / path).is_file(), path
        assert not anchor or urllib.parse.unquote(anchor) in anchors[path], f"{path}#{anchor}"
    assert set(anchors) <= {link.partition("#")[0] for link in inside}
    assert all(link.startswith((site.address, "https://")) for link in links)
    blob = f"https://colab.research.google.com/github/{course.repository()}/blob/main/"
    launched = {link.removeprefix(blob) for link in links if link.startswith(blob)}
    assert launched == {f"notebooks/{path.name}" for path in course.paths()}


def test_links_to_cells_lead_to_them(opened):
    following = """id => [...document.querySelectorAll('article :is(h1,h2,h3,h4,p,pre,summary)')].find(one =>
        one.textContent.trim() && document.getElementById(id).compareDocumentPosition(one) & 4).textContent"""
    markup = r"^\d+\. |!\[.*?\]\(.*?\)|<[^>]*>|\W"
    cells = {path.stem: {cell.id: cell.source for cell in course.read(path).cells} for path in course.paths()}
    for text in course.NOTEBOOKS.glob("*.md"):
        page = opened(f"notebooks/{text.stem}.html")
        links = page.eval_on_selector_all("a[href*=cell-id]", "all => all.map(one => one.href)")
        assert len(links) == text.read_text(encoding="utf-8").count("#cell-id=") > 0
        for stem, cell in (re.search(r"(\w+)\.html#cell-id=(.+)", link).groups() for link in links):
            said = opened(f"notebooks/{stem}.html").evaluate(following, f"cell-id={cell}")
            both = [re.sub(markup, "", text)[:12] for text in (said, cells[stem][cell])]
            assert both[0] and both[1].startswith(both[0]), (stem, cell)


TEXT = "My friend told me about this class and I love it so far! She was right."


def attentions_of(bert, text):
    """All weights, (layer, head, query, key), and the hidden states, of a text that is then in tokens."""
    outputs = bert[1](**bert[0](text, return_tensors="pt"), output_attentions=True, output_hidden_states=True)
    tokens = bert[0].tokenize(text, add_special_tokens=True)
    return torch.cat(outputs.attentions).detach(), outputs.hidden_states, tokens


def looks(weights, tokens):
    """What a token looks at most, as the pages say it."""
    most, best = weights.max(), weights.argmax().item()
    mark = {0: " (start mark)", len(tokens) - 1: " (end mark)"}.get(best, "")
    return f"looks {'most ' * (most < 0.5)}at “⁨{tokens[best]}⁩”{mark}: {most:.2f} of the attention"


def given(w, query, key):
    """What each head gives the pair that is pointed at; on average the word before, that after, and [CLS]."""
    return [w[..., query, key], *(w.diagonal(by, 2, 3).mean(-1) for by in (-1, 1)), w[..., 0].mean(-1)]


def view_shows(frame, bert, text, layer, head, query, near=0.0, task=0):
    """06 shows what a token looks at, and which heads do so. near: what weights may miss, but rounding."""
    weights, _, tokens = attentions_of(bert, text)
    own = weights[:, :, query]
    said = f"“⁨{tokens[query]}⁩” {looks(own[layer, head], tokens)} (layer {layer}, head {head})"
    frame.locator("#said", has_text=re.compile(f"^{re.escape(said)}$")).wait_for()
    shown = [*map(float, frame.locator("#digits .digits").all_text_contents())]
    assert shown == pytest.approx(own[layer, head].tolist(), abs=0.0051 + near)
    shares = given(weights, query, own[layer, head, 1:-1].argmax() + 1)[task].flatten().numpy()
    assert frame.eval_on_selector_all("#grid button", SAID_DRAWN) == pytest.approx(shares, abs=0.0051 + near)
    assert frame.inner_text(f"[aria-pressed^=t]:nth-of-type({task + 1})~p b") == f"{sum(shares >= 0.5)} of 72"
    rest = weights[layer, head, [i for i in range(len(tokens)) if task and i != query]]  # those of all words
    seen = frame.eval_on_selector_all(".others path", "all => all.map(one => +one.getAttribute('opacity'))")
    assert seen == pytest.approx((0.8 * rest[rest >= 0.05]).tolist(), abs=0.004)
    most, key = own.flatten(0, 1).max(-1)
    arcs = (not task) * np.column_stack([0.4 + 4 * most, 5 + 50 * key / (len(tokens) - 1)])
    assert np.array(frame.eval_on_selector_all("#grid svg", WIDEST)) == pytest.approx(arcs, abs=0.03 + near)


def front_shows(frame, bert, text, layer, head, query, near=0.0, key=None):
    """The first page shows how an output comes about. near: what a weight may miss; key: of the squares."""
    attentions, states, tokens = attentions_of(bert, text)
    keys = (weights := attentions[layer, head, query]).topk(2).indices.tolist()
    own = bert[1].encoder.layer[layer].attention.self
    qkv = [part(states[layer][0]).view(-1, 12, 32)[:, head].data for part in (own.query, own.key, own.value)]
    said = f"“⁨{tokens[query]}⁩” {looks(weights, tokens)} (layer {layer}, head {head})"
    frame.locator("#said", has_text=re.compile(f"^{re.escape(said)}( Why.*)?$")).wait_for()
    frame.wait_for_function("innerWidth >= 1120 || !find('#ways *').length")  # drawn anew
    thick, n = 18 if frame.query_selector("#words.one") else 9, len(tokens)  # on one line
    score, taken = qkv[1] @ qkv[0][query] / 32**0.5, weights[:, None] * qkv[2]
    if thick == 18 and frame.evaluate("innerWidth >= 1120"):  # a column for each token
        keyed, asks, given, value, flow, back = (frame.eval_on_selector_all(one, ENDS) for one in WAYS)
        asked, gives = range(n), (weights >= 0.005).nonzero()[:, 0].tolist()  # what is 0.00 is not drawn
        drawn = [[i, i, max(1, 18 * weights[i].item())] for i in gives]
        assert np.array(sorted(given)) == pytest.approx(np.array(drawn), abs=0.03 + 18 * near)
        assert sorted(value) == [[i, i, 2.5] for i in gives] and {i for i, *_ in keyed} == {*range(n)}
        assert asks[1][0] == query and back == [[query, query, 18]]
        left = sum(weights[i].item() for i in gives if i <= query)  # what flows together on one side
        most = max(left, weights[gives].sum().item() - left)
        assert max(wide for *_, wide in flow) == pytest.approx(18 * most, abs=0.03 + 18 * near)
    else:
        assert frame.locator("#how .token").all_text_contents() == [tokens[i] for i in (query, *keys)]
        rest = taken.sum(0) - taken[keys].sum(0)  # of all others
        bars = qkv[0][query], qkv[1][keys], torch.vstack([taken[keys], rest, taken.sum(0)])
        bars = torch.vstack([15 * one / one.abs().max() for one in bars])
        seen = frame.eval_on_selector_all("#how path", HEIGHTS)
        assert seen == pytest.approx(bars.flatten().tolist(), abs=0.06 + 10 * near)  # each to its scale
        asked = gives = keys
    for kind, exact, miss in [
        ("score", score[asked], 0.051 + 9 * near),
        ("given", weights[gives], 0.0051 + near),
    ]:
        shown = frame.locator(f"#how .{kind}, #ways .{kind}").all_text_contents()
        assert [float(one.replace("−", "-")) for one in shown] == pytest.approx(exact.tolist(), abs=miss)
    squares, key = frame.eval_on_selector_all("#grid button", SAID_DRAWN), keys[0] if key is None else key
    assert squares == pytest.approx(attentions[:, :, query, key].flatten().tolist(), abs=0.0051 + near)
    here = f", here {weights[key]:.2f}" * (key != keys[0])
    assert frame.inner_text("#grid p > span") == f"“⁨{tokens[query]}⁩” → “⁨{tokens[key]}⁩” in 72 heads{here}"
    seen = {key: max(1, thick * weight) for key, weight in enumerate(weights.tolist()) if weight >= 0.05}
    arcs = frame.eval_on_selector_all("#words path.line", ENDS)
    assert {to: wide for one, to, wide in arcs if one == query} == pytest.approx(seen, abs=0.03)
    assert frame.locator("#words text").all_text_contents() in ([f"{weights.max():.2f}"], thick == 9 and [])
    asks = {"it": "What is “it”?", "she": "Who is “she”?"}.get(word := tokens[query])
    assert frame.page.inner_text(".question") == (asks or f"Where does “{word}” look?")


def test_views_draw_the_weights_of_the_model(site, open_page, opened, bert):
    attentions, _, tokens = attentions_of(bert, TEXT)
    page = open_page("about:blank")
    page.add_init_script(path=course.ROOT / "tests" / "late.js")
    page.goto(f"{site.address}/notebooks/06_head_view.html")
    opening = page.wait_for_selector("iframe").content_frame()
    view_shows(opening, bert, TEXT, 3, 1, 11)  # as the page opens: "it"
    for query, act, layer, kept in ((15, "hover", 3, 11), (15, "click", 2, 15), (11, "click", 3, 11)):
        opening.click(f"#grid [aria-label=L{layer}H1]")
        getattr(opening, act)(f"#words [aria-label$=' {query}']")
        view_shows(opening, bert, TEXT, layer, 1, query)
        opening.hover("#grid [aria-label=L0H3]")  # is shown, but not chosen
        opening.locator("#said", has_text=f"{looks(attentions[0, 3, kept], tokens)} (layer 0, ").wait_for()
        opening.hover("#said")
        view_shows(opening, bert, TEXT, layer, 1, kept)
    for task, shares in [*enumerate(given(attentions, 11, 7))][::-1]:  # the pair stays, in all heads
        opening.click(f"#tasks button >> nth={task}")  # finds the head that gives most
        view_shows(opening, bert, TEXT, *divmod(shares.argmax().item(), 12), 11, task=task)
        assert opening.inner_text("#tasks button") == "it → class"
    frame = test_browser.view_of(page, "Head view: 20 tokens, layer 0")
    frame.wait_for_function("Math.min(...find('.chip').map((chip) => chip.getAttribute('width'))) > 12")
    for layer in (0, 3):
        frame.select_option("#layer", str(layer))
        assert (test_browser.weights(frame, attentions[layer]) - attentions[layer]).abs().max() < 0.005
    front = opened("index.html")
    front.set_viewport_size({"width": 540, "height": 800})  # narrower: the words stand in more lines
    frame = front.wait_for_selector("iframe").content_frame()
    front_shows(frame, bert, TEXT, 3, 1, 11)  # as the page opens
    for word, layer, head in (("she", 3, 1), ("it", 0, 2), ("friend", 3, 1), ("so", 5, 0)):
        frame.click(f"#grid [aria-label=L{layer}H{head}]")
        frame.hover(f"#words button >> text=/^{word}$/")
        front_shows(frame, bert, TEXT, layer, head, tokens.index(word))
    front.set_viewport_size({"width": 1280, "height": 800})
    front.screenshot()  # drawn anew, it gets the mouse where it is now
    frame.hover("#words.one button >> text=/^she$/")
    frame.click("#grid [aria-label=L0H2]")  # shows the same pair, in another head
    front_shows(frame, bert, TEXT, 0, 2, 15, key=attentions[5, 0, 15].argmax())
    front.click("[data-right]")
    frame.locator("#said", has_text=re.compile(r"trophy.*\sBut .* suitcase")).wait_for()
    assert front.errors == page.errors == []


def test_a_readers_own_sentence_is_read_by_the_model(site, open_page, bert):
    text = "The trophy doesn't fit into the brown suitcase, because it's far too big [MASK]."
    size = sum(file.stat().st_size for file in (site.folder / "_static" / "bert").glob("layer-*")) / 1e6
    for path, shown, near in (("index", front_shows, 0.002), ("notebooks/06_head_view", view_shows, 0.005)):
        page = open_page(f"{site.address}/{path}.html")
        assert f"{size:.0f} MB" in page.inner_text(".own")
        frame = page.wait_for_selector("iframe").content_frame()
        frame.locator("#said", has_text="“⁨it⁩” looks at “⁨class⁩”: 0.92").wait_for()
        for wrong, said in (("한국어 " * 30, "That is 242 tokens."), ("", "Type a sentence first.")):
            page.fill(".own textarea", wrong)
            page.press(".own textarea", "Enter")
            page.locator(".own p", has_text=said).wait_for()
        page.type(".own textarea", text)
        page.route("**/layer-3.js", lambda route: route.fulfill(body="half of"), times=1)
        page.click("text=Let BERT read")
        page.locator(".own p", has_text="layer-3.js did not arrive").wait_for()
        page.click("text=Let BERT read")
        shown(frame, bert, text, 3, 1, bert[0].tokenize(text, add_special_tokens=True).index("it"), near)
        assert [error.split()[0] for error in page.errors] == ["Unexpected"]  # the half file


def test_a_readers_own_text_becomes_the_models_tokens_and_vectors(opened, bert):
    page, table = opened("notebooks/01_tokenization.html"), bert[1].embeddings.word_embeddings.weight.data
    odd = "Doppelgängers, Ἀΐ ΣΑΣ İ: $5+~<b>`y`^z|= 中㐂豈한국어 🍕 a\u200db½ [MASK][sep] " + "x" * 101
    for text in (odd, "", "Airspeed [MASK] falls.", "Airspeed falls."):
        page.fill(".try textarea", text)
        ids, words = bert[0](text)["input_ids"], bert[0].tokenize(text, add_special_tokens=True)
        page.wait_for_function(f"document.querySelectorAll('.tokens > [role]').length === {len(ids)}")
        shown = page.eval_on_selector_all(".tokens > [role]", COLUMNS)
        assert shown == [[word, f"{one}"] for word, one in zip(words, ids, strict=True)]
        cut = re.findall(r"\S+(?: ##\S+)+|^\S+(?= \S+$)", " ".join(words))[-1]  # or [CLS], alone
        assert page.locator(".search b").all_inner_texts() == cut.split()
        drawn = (13.5 * table[ids, :16] / table[ids, :16].abs().max().clip(0.181)).flatten().tolist()
        assert page.eval_on_selector_all(".tokens path", HEIGHTS) == pytest.approx(drawn, abs=0.06)
        counts = page.locator(".field mark").count() + 2, int(page.inner_text(".names").split()[0])
        assert counts == (len(ids), len(ids)) and page.inner_text(".field > div") == f"{text}\u200b"
    drawing = (course.ROOT / "images/tokenization.svg").read_text("utf-8")
    tried = {word: word in bert[0].vocab for word in re.findall(r">(airs\w*)<", drawing)}
    assert tried == {"airspeed"[:letters]: letters == 4 for letters in (8, 7, 6, 5, 4)}
    assert [*map(list, re.findall(r">(\S+)</.*\n.*>(\d+)</", drawing))] == shown
    wires = re.findall(r"M590 ([\d.]+)H632", drawing)  # from each row to its vector
    assert wires == re.findall(r"translate\(642 ([\d.]+)\)", drawing) and len(wires) == len(shown)
    assert [-float(one) for one in re.findall(r"v(-?\d+\.\d)", drawing)] == pytest.approx(drawn, abs=0.06)
    page.hover(".field mark >> nth=2", force=True)  # its letters: the field lies over them
    row = ", ".join(f"{one:.3f}".replace("-", "−") for one in table[ids[3], :3].tolist())
    assert f"{ids[3]} of a small BERT’s learned table:\n{row}, … 384\xa0numbers" in page.inner_text(".all")
    drawn = (13.5 * table[ids[3]] / table[ids[3]].abs().max()).tolist()
    assert page.eval_on_selector_all(".all path", HEIGHTS) == pytest.approx(drawn, abs=0.06)
    page.hover(".tokens > div >> nth=2")
    assert page.inner_text(".search .lost") == "Capital letters are lost."


def test_formulas_are_mathml(opened):
    for path in course.paths():
        prose = "\n\n".join(cell.source for cell in course.read(path).cells if cell.cell_type == "markdown")
        formulas = sum(not found["code"] for found in offline.CODE_OR_FORMULA.finditer(prose))
        shown = "all => all.map(one => !one.checkVisibility() || one.getBoundingClientRect().width > 0)"
        page = opened(f"notebooks/{path.stem}.html")
        assert page.eval_on_selector_all("math", shown) == [True] * formulas, path.name


def test_readers_find_their_way(site, open_page, opened):
    first, second, *_, writes, _, _ = course.paths()
    page = open_page(f"{site.address}/index.html")
    page.click(".primary-toggle")  # opens the list, which the first page hides
    for path, link in [(first, "#pst-primary-sidebar a.reference.internal"), (second, "a.right-next")]:
        page.locator(link).first.click()
        page.wait_for_url(f"**/{path.stem}.html")
        assert course.about(path)["title"] in page.locator("article h1").inner_text()
    assert opened(f"notebooks/{writes.stem}.html").eval_on_selector(".bd-sidebar", "x => x.scrollTop") == 0
    page.goto(f"{site.address}/search.html?q=bootstrap")
    found = page.locator("#search-results li", has_text="Measure what each").locator(".context").inner_text()
    assert found.endswith(" comes, unless all answers agree, from the bootstrap.") and page.asked == set()


def test_pages_fit_a_phone_and_the_dark(opened):
    view, attention = (opened(f"notebooks/{course.paths()[number].stem}.html") for number in (5, 1))
    looked_at = [view, attention, opened("index.html"), opened("notebooks/glossary.html")]
    for page, scheme in itertools.product(looked_at, ("dark", "light")):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_selector(f"html[data-theme={scheme}]")
        assert page.locator("article").evaluate("one => getComputedStyle(one).colorScheme") == scheme
        for part, ground, ink, first_button in page.evaluate(COLOURS):  # that button is the page's opposite
            assert (luminance(np.array(ground)) < 0.3) == ((scheme == "dark") != first_button), part
            assert not ink or contrast(ground, ink) >= INK, part
        for frame in page.locator("iframe").all():
            frame.content_frame.locator(f"html.{scheme}").wait_for()
            assert frame.locator("..").evaluate(FRAMED) == ["rgba(0, 0, 0, 0)", "0px"]
    folded = view.locator("details.hide:not([open]) .cell_input").count()
    assert folded == sum(cell.id in course.FOLDED for cell in course.read(course.paths()[5]).cells)
    assert attention.locator("pre.columns", has_text="almost none").count() == 1
    for path in PAGES:
        page = opened(path)
        page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true; })")
        for width in (1280, 700, 390):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            assert page.evaluate(CUT) == page.evaluate(BROKEN) == [], (path, width)
    view = test_browser.view_of(view, "Head view: 20 tokens")
    view.wait_for_function("document.documentElement.scrollHeight <= innerHeight", polling=100)


def test_what_is_not_the_courses_stays(tmp_path):
    (tmp_path / "own.txt").touch()
    assert "something else" in build("--stored", "--to", tmp_path).stderr and (tmp_path / "own.txt").exists()
    assert build("--stored", "--to", tmp_path / "pages").returncode == 0  # beside it
