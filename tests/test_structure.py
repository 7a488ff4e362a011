"""What holds for every notebook, room and page: the rules of CONTRIBUTING.md that a program can check."""

import base64
import functools
import json
import re
import shutil
import statistics
import subprocess
from graphlib import TopologicalSorter

import pytest

import course

ROOT = course.ROOT
NOTEBOOKS = course.paths()
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "notebooks").glob("*.md"))]
# A path of somebody's machine: two folders or more from the root, or a Windows home.
MACHINE_PATH = re.compile(r"(?<![\w.:/~<])/(?!usr/|etc/|bin/|opt/|dev/)(?:[\w.-]+/){2,}[\w.-]+|[A-Z]:\\Users")

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
read = functools.cache(course.read)


def cells(path, kind=None):
    return [cell for cell in read(path).cells if kind in (None, cell.cell_type)]


def text_of(output):
    data = {kind: value for kind, value in output.get("data", {}).items() if not kind.startswith("image/")}
    return output.get("text", "") + "".join(map(str, data.values()))


def prose(path):
    return "\n\n".join(cell.source for cell in cells(path, "markdown"))


# The table of CONTRIBUTING.md: what is limited, and how much of it there may be.
RULES = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
LIMITS = {name: int(most.replace(",", "")) for name, most in re.findall(r"\n\| (\w.*?) \| ([\d,]+) ", RULES)}


def within(name, counts):
    """Fail with the places where there is more than CONTRIBUTING.md allows, the worst one first."""
    limit = LIMITS[name]
    over = sorted(((count - limit, place) for place, count in counts.items() if count > limit), reverse=True)
    told = "; ".join(f"{place}: too many by {round(count, 1):,}" for count, place in over)
    assert not over, f"{name}: at most {limit:,} (CONTRIBUTING.md, The limits). {told}"


def lines_of(*files):
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


@each_notebook
def test_generated_cells_are_as_generated(path):
    found = {cell.id: cell.source for cell in cells(path)}
    for name, source in course.generated(path).items():
        assert found.get(name) == source, f"{name} of {path.name}: run `make notebooks`"
    ids = [cell.id for cell in cells(path)]
    assert (ids[0], ids[1], ids[-1]) == ("navigation-top", "title", "navigation-bottom")
    code = cells(path, "code")
    assert [cell.id for cell in code[:2]] == ["set-up", "imports"]
    assert len(code[1].source.splitlines()) <= 15, "import a name where it is first used"
    assert f"/github/{course.repository()}/blob/main/notebooks/{path.name})" in cells(path)[0].source


@each_notebook
def test_stored_outputs_are_small_of_a_fresh_kernel_text_and_pictures_with_at_most_three_decimals(path):
    assert path.stat().st_size < 1_000_000
    counts = [cell.execution_count for cell in cells(path, "code")]
    assert counts == list(range(1, len(counts) + 1)), "not run, or not in order: run `make notebooks`"
    for cell in cells(path, "code"):
        for output in cell.outputs:
            assert output.output_type != "error" or "raises-exception" in cell.metadata.get("tags", [])
            assert output.get("name") != "stderr", output.get("text")
            assert set(output.get("data", {})) <= {"text/plain", "text/html", "image/png"}, cell.id
            assert not re.search(r"<(script|iframe)|https?://", text_of(output)), f"interactive: {cell.id}"
            shown = output.get("text", "") + output.get("data", {}).get("text/plain", "")
            assert not re.search(r"\d\.\d{4,}", shown), f"cell {cell.id} prints more than 3 decimals"
            if "<Figure" in shown:  # a plot: 256 colours, and twice the pixels of its place
                plot, shape = base64.b64decode(output.data["image/png"]), output.metadata["image/png"]
                assert (plot[25], int.from_bytes(plot[16:20], "big") // 2) == (3, shape["width"])


@each_notebook
def test_no_path_of_a_machine_is_shown_and_pictures_have_alt_texts(path):
    for cell in cells(path):
        said = cell.source + "".join(text_of(output) for output in cell.get("outputs", []))
        said = re.sub(r"https://\S+", "", said)
        assert not MACHINE_PATH.search(said), f"cell {cell.id}: {MACHINE_PATH.search(said)}"
    for alt, target in re.findall(r"!\[(.*?)\]\(([^)\s]+)", prose(path)):
        assert len(alt) > 10, f"{target} needs an alt text"
    assert "<img" not in prose(path), "write pictures as ![alt](path)"
    assert re.search(r"!\[", cells(path)[1].source), "the title cell has a picture"


def headings(text):
    """The anchors that Markdown viewers make of headings."""
    found = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("path", [*NOTEBOOKS, *PAGES], ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    text = prose(path) if path.suffix == ".ipynb" else path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", target):
            assert target.startswith("https://"), target
            continue
        file, _, anchor = target.partition("#")
        place = (path.parent / file).resolve() if file else path
        assert place.exists(), f"{target} is not there"
        if anchor.startswith("cell-id="):  # JupyterLab's form of a link to a cell
            assert place.suffix == ".ipynb", f"{target}: only a notebook has cells"
            ids = [cell.id for cell in cells(place)]
            assert anchor.removeprefix("cell-id=") in ids, f"{target}: no such cell"
        elif anchor:
            there = prose(place) if place.suffix == ".ipynb" else place.read_text(encoding="utf-8")
            assert anchor in headings(there), f"{target}: no such heading"


@each_notebook
def test_notebook_has_the_parts_of_the_house_style_and_prose_and_code_take_turns(path):
    assert 3 <= len(course.about(path)["abilities"]) <= 5
    text = prose(path)
    for part in ["**You need**", "## In practice", "## Exercises", "## Can you say it without looking?"]:
        assert text.count(part) == 1, part
    for part in ["Further reading", "### The words of this notebook"]:
        assert len(re.findall(rf"^#+ {part.lstrip('# ')}", text, re.MULTILINE)) == 1, part
    recall = text.split("## Can you say it without looking?")[1].split("Further reading")[0]
    assert len(re.findall(r"^\d\. ", recall, re.MULTILINE)) == recall.count("<details>") == 5
    kinds = [cell.cell_type for cell in cells(path)]
    assert "code code code" not in " ".join(kinds), "at most two code cells follow each other"
    assert 0.45 <= kinds.count("markdown") / len(kinds) <= 0.75


def guesses(path):
    """Each cell that asks for a guess, with the two after it."""
    row = [*cells(path), None]
    return [three for three in zip(row, row[1:], row[2:], strict=False) if course.asks(three[0])]


@each_notebook
def test_an_answer_to_a_guess_is_printed_and_collapsed(path):
    """JupyterLab shows the first line of a collapsed text: it is a heading that gives nothing away."""
    for _, cell, _ in guesses(path):
        assert cell and cell.cell_type == "code", "code comes after a guess, and prints the answer"
        where = f"cell {cell.id}"
        assert not course.drawn(cell), f"{where}: a picture or table is never collapsed: ask something else"
        assert cell.outputs and "text" in cell.outputs[0], f"{where} prints no answer to the guess"
        first = cell.outputs[0].text.split("\n")[0]
        assert not re.search(r"\d|True|False", first), f"{where}, first line, gives away: {first}"
    hidden = [cell.id for cell in cells(path, "code") if cell.metadata.get("collapsed")]
    asked = [cell.id for _, cell, _ in guesses(path)]
    assert hidden == asked, "what is collapsed is what answers a guess: run `make notebooks`"
    folded = [c.id for c in cells(path, "code") if c.metadata.get("jupyter", {}).get("outputs_hidden")]
    assert hidden == folded
    for _, cell, after in guesses(path):  # and the text after it is folded
        told = after is not None and after.cell_type == "markdown"
        opened = told and after.source.startswith("<details><summary>What came out</summary>\n\n")
        assert opened or (told and course.asks(after)), f"the cell after {cell.id} tells, or asks, nothing"
        assert not opened or "\n</details>" in after.source, f"the cell after {cell.id} is not closed"


COUNTED = re.compile(r"Layers and heads are counted from 0: `L(\d+)H(\d+)` is layer \1, head \2\.")


def shown_heads(path, layer, head):
    """Whether a cell's code or output names a head: as L2H0, [2][:, 0] or (2, 0), or in words."""
    index = rf"\[{layer}\](\.\w+)*\[([^\[\]]*, ?)?{head}\b|[\[(]{layer}, ?{head}\b|= {layer}, {head}$"
    words = rf"layer ?[ =] ?{layer}\b[^\n]*?heads? ?[ =] ?\[?{head}\b|^\s*{layer} +{head}\b"
    pattern = re.compile(rf"\bL{layer}H{head}\b|{index}|{words}", re.MULTILINE)
    said = (cell.source + "\n" + "".join(map(text_of, cell.outputs)) for cell in cells(path, "code"))
    return any(map(pattern.search, said))


@each_notebook
def test_heads_are_counted_from_0_and_named_as_in_the_code(path):
    """A head of a paper that counts from 1 stands as printed, 8-10, with ours beside it: L7H9."""
    text = prose(path)
    named = re.findall(r"\bL(\d+)H(\d+)\b", COUNTED.sub("", text))
    assert len(COUNTED.findall(text)) == bool(named), "where heads are named, say once that 0 is the first"
    for layer, head in set(named):
        ours, printed = f"L{layer}H{head}", f"{int(layer) + 1}-{int(head) + 1}"
        quoted = any(ours in part and printed in part for part in text.split("\n\n"))
        assert quoted or shown_heads(path, layer, head), f"{ours} is in no cell's code or output"
    for part in text.split("\n\n"):
        for layer, head in re.findall(r"\b[Hh]eads? (\d+)-(\d+)", part):
            ours = f"L{int(layer) - 1}H{int(head) - 1}"
            assert ours in part, f"head {layer}-{head}: write {ours}, beside it if a paper is quoted"


def test_images_are_all_used_and_legible_alone():
    text = "".join([*map(prose, NOTEBOOKS), *(page.read_text(encoding="utf-8") for page in PAGES)])
    for image in (ROOT / "images").iterdir():
        assert image.name.replace("-narrow", "") in text, f"{image.name} is used nowhere"
        if image.suffix == ".svg":
            source = image.read_text(encoding="utf-8")
            assert "<title>" in source and not re.search(r"(href|src)=[\"']http", source)
            assert "<rect width=" in source, f"{image.name} needs a ground of its own for dark pages"


@functools.cache
def printed(path):
    return "".join(text_of(output) for cell in cells(path, "code") for output in cell.outputs)


def drawn(name):
    return re.findall(r"<text.*?>(.+)</text>", (ROOT / "images" / f"{name}.svg").read_text(encoding="utf-8"))


# Numbers of drawings that no cell prints: they follow from those that one does, or are in a plot.
BY_HAND = {"cost-tiles": "0.20 0.47 0.39", "weight-and-length": "0.402 0.928"}
BY_HAND |= {"softmax-saturates": "0.29 0.42 0.64", "three-questions": "4.18 4.74"}


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "images").glob("*.svg")))
def test_numbers_of_a_drawing_are_those_of_its_notebooks(name):
    wide = name.removesuffix("-narrow")
    shown_by = [path for path in NOTEBOOKS if f"/{wide}.svg" in prose(path)] or NOTEBOOKS
    told = [re.sub(r"!\[.*?\]", "", prose(path)) + printed(path) for path in shown_by]
    told = " ".join([*told, BY_HAND.get(wide, "")])
    there = [float(one.replace(",", "")) for one in re.findall(r"\d[\d,]*\.\d+(?:e[+-]\d+)?", told)]
    for one in re.findall(r"\d[\d,]*\.\d+", re.sub("<.*?>", "", " ".join(drawn(name)))):
        value, digits = float(one.replace(",", "")), len(one.split(".")[1])
        assert any(abs(value - other) <= 0.501 * 10**-digits for other in there), one


def test_readmes_drawings_show_what_cells_print():
    views, writer = printed(NOTEBOOKS[5]), printed(NOTEBOOKS[12])
    names = ("what-is-it", "what-is-it-narrow", "writer-writes", "writer-temperature")
    first, narrow, writes, temperature = map(drawn, names)
    numbers = re.findall(r"\b\d[\d,.]*\d\b", " ".join(writes + temperature))
    sentences = [text for text in temperature if re.match(r"wa|wh", text)]
    assert len(numbers) == 12 and len(sentences) == 3 and all(one in writer for one in numbers + sentences)
    rows = re.findall(r"(?m)^(?:class|this) +(\S+) +(\S+)$", printed(NOTEBOOKS[7]))[:2]
    looks = [*re.findall(r"it -> class \['L3H1: ([\d.]+)", views), rows[1][1], rows[0][0], rows[1][0]]
    readme = PAGES[0].read_text(encoding="utf-8")
    told = re.findall(r"\d\.\d+", re.search(r'alt="([^"]+)" src="images/what-is-it.svg"', readme)[1])
    both = zip(told, looks, strict=True)
    assert all(abs(float(one) - float(that)) < 0.51 * 10 ** (2 - len(one)) for one, that in both)
    first, narrow = (sorted(set(re.findall(r"\b\d\.\d+", " ".join(one)))) for one in (first, narrow))
    assert sorted(told) == first == narrow


def test_readme_is_as_generated():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert course.readme(text) == text, "run `make notebooks`"
    assert all(f"notebooks/{path.name}" in text for path in NOTEBOOKS)


UTILS = ROOT / "utils"
# The map of CONTRIBUTING.md: room -> what it imports, as a reader sees it.
MAP = re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", RULES, re.MULTILINE)
MAP = {room: set(re.findall(r"`(\w+)`", imported)) for room, imported in MAP}


def room_of(file):
    return file.relative_to(UTILS).parts[0].removesuffix(".py")


def imports(room):
    """The rooms that the files of a room import."""
    found = set()
    for file in (file for file in UTILS.rglob("*.py") if room_of(file) == room):
        here = re.escape("." * len(file.relative_to(UTILS).parts))
        begin = rf"^ *(?:from (?:{here} import |{here}|utils\.|utils import )|import utils\.)"
        found |= set(re.findall(rf"{begin}(\w+)", file.read_text(encoding="utf-8"), re.MULTILINE))
    return found - {room}


def test_the_map_is_true_and_imports_run_one_way():
    rooms = {room_of(file) for file in UTILS.rglob("*.py")} - {"__init__"}
    assert {room: imports(room) for room in rooms} == MAP and tuple(TopologicalSorter(MAP).static_order())


def test_notebooks_and_rooms_stay_short():
    exercises = re.compile(r"^## Exercises$.*?(?=^## |\Z)", re.M | re.S)
    words = {path.stem: len(exercises.sub("", prose(path)).split()) for path in NOTEBOOKS}
    within("Words of a notebook, without its exercises", words)
    mean = sum(len(prose(path).split()) for path in NOTEBOOKS) / len(NOTEBOOKS)
    within("Words of a notebook, on average, with its exercises", {"the course": mean})
    taken = {path.stem: course.minutes(cells(path)) for path in NOTEBOOKS}
    whole = {name: parts["reading"] + parts["exercises"] for name, parts in taken.items()}
    within("Minutes of a notebook, with its exercises", whole)
    within("Guesses of a notebook", {path.stem: len(guesses(path)) for path in NOTEBOOKS})
    code = {f"{path.stem}, cell {cell.id}": cell for path in NOTEBOOKS for cell in cells(path, "code")}
    lines = {name: len(re.findall(r"^.*\S", cell.source, re.M)) for name, cell in code.items()}
    within("Lines of a code cell", lines)
    within("Lines of a code cell, median", {"the course": statistics.median(lines.values())})
    lines = {file.relative_to(ROOT): lines_of(file) for file in UTILS.rglob("*.py")}
    within("Lines of a file of `utils`", lines)


HOUSE = {  # a limit: the files that it counts
    "Lines of `utils/checks` an exercise": "utils/checks/**/*.py",
    "Lines of `utils/checks` an exercise, with their words": "utils/checks/**/*.py utils/checks/**/*.toml",
    "Lines of `tests/attempts` an exercise": "tests/attempts/**/*.py",
    "Lines of the tests of the rooms": "tests/*.py",
    "Lines of `.ci`": ".ci/*.py .ci/site/*.py",
}


@pytest.mark.parametrize("limit", HOUSE)
def test_the_house_stays_smaller_than_the_course(limit):
    files = [file for pattern in HOUSE[limit].split() for file in ROOT.glob(pattern)]
    exercises = sum(len(course.exercises(cells(path))) for path in NOTEBOOKS) if "an exercise" in limit else 1
    largest = max(files, key=lines_of).relative_to(ROOT)
    within(limit, {f"{len(files)} files, the largest {largest}": lines_of(*files) / exercises})


def test_repository_address_stands_in_one_place():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split("\n")
    for name in {*tracked} - {"", "pyproject.toml", "README.md", "tests/test_course.py"}:
        if not name.endswith((".ipynb", ".png")):
            assert course.repository() not in (ROOT / name).read_text(encoding="utf-8"), name
    for path in NOTEBOOKS:
        made = course.generated(path)
        for cell in cells(path):
            assert cell.id in made or course.repository() not in json.dumps(cell), cell.id


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_plain_commands_of_readme_are_those_of_make():
    made = subprocess.run(["make", "-n", "test", "lab"], cwd=ROOT, capture_output=True, text=True).stdout
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    plain = re.findall(r"^python -m ((?:ruff|pytest|jupyterlab).*)$", readme, re.MULTILINE)
    assert [command.split()[0] for command in plain] == ["jupyterlab", "ruff", "ruff", "pytest"]
    for command in plain:
        assert f".venv/bin/python -m {command}" in made, command


@each_notebook
def test_plots_have_one_style(path):
    for cell in cells(path, "code"):
        if "plt.subplots(" in cell.source:
            assert "with plot_style():" in cell.source, cell.id
            assert not re.search(r'"(#[0-9a-f]{6}|tab:)', cell.source), f"{cell.id}: a colour of its own"
        if re.search(r'(plot|errorbar|line)\([^)]*color=f?"C', cell.source):  # read when drawn
            assert "\nplt.show()" not in cell.source, f"{cell.id}: plt.show() stands outside the style"
