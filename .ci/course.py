"""Keeps the notebooks of the course as they are committed.

    python .ci/course.py notebooks [NN ...]      the same as generate; then run every notebook, or only these
    python .ci/course.py publish owner/name      write the repository's address everywhere
    python .ci/course.py generate                badges, navigation, set-up cells only

The repository's address stands in pyproject.toml, title and abilities of a notebook in its second cell.
"""

import base64
import io
import itertools
import os
import re
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

sys.modules["rfc3987_syntax"] = None  # two seconds of each process: see conftest.py

import nbformat  # noqa: E402

from runner import NOTEBOOKS, execute  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PYPROJECT = ROOT / "pyproject.toml"
REPOSITORY = re.compile(r'^(repository = ")([^"]*)(")', re.MULTILINE)

# The way of the course, a step for each notebook. The first eight lead from text to views, the others beyond.
WAY = "tokens, attention, masks, heads, encoder, head view, model view, neuron view, decoder, what heads do, "
WAY += "what it costs, how a head forms, a model that writes, look inside, what it explains"
SHORT_WAY = ("01", "02", "03", "04", "06", "13")  # leads soonest to a model that writes

# How the ids of cells end whose source is folded: a learner needs their effect, and opens them by a click.
FOLDED = ("set-up", "imports", "plotting")

# How the last paragraph of a cell begins that asks for a guess.
GUESS = "**Guess.** "

SET_UP = """\
import os
import subprocess
import sys
from pathlib import Path

if "google.colab" in sys.modules and not Path("../utils").is_dir():  # in Colab only: fetch the course
    clone = "git clone --quiet --depth 1 {clone} course"
    if not Path("course").is_dir() and subprocess.run(clone.split()).returncode:
        raise ConnectionError("Colab could not fetch the course. Check the network, then try again.")
    os.chdir("course/notebooks")
assert Path("../utils").is_dir(), "Open this notebook in the folder 'notebooks' of the course."
sys.path.insert(0, os.path.abspath(".."))

from utils.start import prepare

prepare()"""


def repository() -> str:
    """The address as owner/name, from the one place where it stands."""
    return tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["tool"]["course"]["repository"]


def paths() -> list[Path]:
    """The notebooks in reading order."""
    return sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))


def read(path: Path):
    return nbformat.read(path, as_version=4)


class Exercise(NamedTuple):
    """A checked exercise: its three cells, and the names of its check and of what is checked."""

    task: str
    stub: str
    help: str
    check: str
    name: str


def exercises(cells) -> dict[str, Exercise]:
    """The checked exercises of a notebook, by the id of the cell in which the learner writes."""
    found = {}
    for before, cell, after in zip(cells, cells[1:], cells[2:], strict=False):
        asked = re.search(r"^(check_\w+)\((\w+)\)\s*\Z", cell.source, re.MULTILINE)
        if cell.cell_type == "code" and asked and cell.id.startswith("attempt-"):
            found[cell.id] = Exercise(before.source, cell.source, after.source, *asked.groups())
    return found


def hint_and_solution(text: str) -> tuple[str, str]:
    """The hint and the code of the solution that are folded in the third cell of an exercise."""
    folded = r"<details><summary>{}</summary>\n\n(.+?)\n\n</details>"
    hint, solution = (re.search(folded.format(name), text, re.DOTALL)[1] for name in ("Hint", "Solution"))
    (code,) = re.findall(r"```python\n(.+?)\n```", solution, re.DOTALL)
    return hint, code


def asks(cell) -> bool:
    """Whether a cell asks for a guess. The next one prints the answer."""
    return cell.cell_type == "markdown" and cell.source.strip().split("\n\n")[-1].startswith(GUESS)


def drawn(cell) -> bool:
    """Whether a code cell shows a picture, a view or a table in HTML, which a reader must see."""
    shown = [kind for output in cell.get("outputs", []) for kind in output.get("data", {})]
    return any(kind == "text/html" or kind.startswith("image/") for kind in shown)


def fold(cells) -> None:
    """Fold the source of what a learner only needs the effect of, and collapse the answer to a guess."""
    for before, cell in itertools.pairwise(cells):
        if cell.cell_type == "code":
            hidden = asks(before) and not drawn(cell)
            part = "source_hidden" if cell.id.endswith(FOLDED) else "outputs_hidden" if hidden else None
            kept = {"tags": cell.metadata.get("tags"), "jupyter": part and {part: True}, "collapsed": hidden}
            cell.metadata = nbformat.from_dict({name: value for name, value in kept.items() if value})


def write(path: Path, notebook) -> None:
    nbformat.validate(notebook)
    path.write_text(nbformat.writes(notebook, indent=1) + "\n", encoding="utf-8", newline="\n")


def about(path: Path) -> dict:
    """What README says of a notebook: title and abilities from its second cell, and minutes."""
    cells = read(path).cells
    text = cells[1].source
    taken = {part: 5 * round(count / 5) for part, count in minutes(cells).items()}
    time = f"**Time:** reading {taken['reading']}, exercises {taken['exercises']}"
    time += f", optional {taken['optional']}" * bool(taken["optional"]) + " minutes"
    return taken | {
        "title": re.search(r"^# (.+)$", text, re.MULTILINE)[1],
        "abilities": re.findall(r"^- (.+)$", text.split("**You need**")[0], re.MULTILINE),
        "header": re.sub(r"^\*\*Time:\*\* .*$", time, text, flags=re.M),
    }


def minutes(cells: list[dict]) -> dict[str, float]:
    """How long a notebook takes: reading, at 130 words and 10 lines of code a minute, its exercises as they
    say, and the sections with "(optional)" in their heading, which reading leaves out."""
    words, lines = {"reading": 0, "optional": 0}, {"reading": 0, "optional": 0}
    practice, practising, optional = 0, False, 0
    for cell in (one for one in cells if one["id"] not in ("navigation-top", "set-up", "navigation-bottom")):
        text, markdown = cell["source"], cell["cell_type"] == "markdown"
        for level, heading in re.findall(r"^(##+) (.+)$", text, re.MULTILINE) if markdown else ():
            if len(level) == 2:
                practising = heading == "Exercises"
            if not optional or len(level) <= optional:
                optional = len(level) if "(optional)" in heading else 0
        part = "optional" if optional else "reading"
        if practising:
            practice += sum(map(int, re.findall(r"\*\*Time:\*\* (\d+) minutes", text)))
        elif markdown:
            words[part] += len(text.split())
        else:
            lines[part] += sum(bool(line.strip()) for line in text.splitlines())
    return {part: words[part] / 130 + lines[part] / 10 for part in words} | {"exercises": practice}


def colab(path: Path) -> str:
    """Where Colab opens a notebook."""
    return f"https://colab.research.google.com/github/{repository()}/blob/main/notebooks/{path.name}"


def navigation(path: Path) -> str:
    """The line that leads to the previous notebook, the contents, and the next one."""
    row = [None, *paths(), None]
    before, after = row[row.index(path) - 1], row[row.index(path) + 1]
    links = [f"[← {about(before)['title']}]({before.name})"] if before else []
    links += ["[Contents](../README.md#the-notebooks)"]
    links += [f"[Next: {about(after)['title']} →]({after.name})"] if after else []
    return " · ".join(links)


def way(path: Path) -> str:
    """The line that shows where on the way of the course a notebook stands."""
    steps = zip(WAY.split(", "), paths(), strict=False)
    links = [f"**{step}**" if other == path else f"[{step}]({other.name})" for step, other in steps]
    return "text → " + " → ".join(links)


def set_up() -> str:
    return SET_UP.format(clone=f"https://github.com/{repository()}")


def generated(path: Path) -> dict[str, str]:
    """The cells that are made here and never by hand: cell id to source."""
    place = f"**{paths().index(path) + 1} of {len(paths())}**"
    return {
        "navigation-top": f"{place} · {navigation(path)} · [Open in Colab]({colab(path)})",
        "title": about(path)["header"],
        "set-up": set_up(),
        "navigation-bottom": f"{navigation(path)}\n\n{way(path)}",
    }


def entry() -> str:
    """The first line after what the course is: what to click."""
    badge = '<img src="images/open-in-colab.svg" alt="Open in Colab" width="176" align="absmiddle">'
    start = f"[{badge}]({colab(paths()[0])})&nbsp; or [start reading](notebooks/{paths()[0].name})"
    return f"{start}. You need some PyTorch and 20 hours. It also runs [offline](#start)."


def launch() -> str:
    """How the whole course opens elsewhere, and how its folder comes to a machine."""
    binder = f"https://mybinder.org/v2/gh/{repository()}/main?urlpath=lab/tree/notebooks/{paths()[0].name}"
    home = f"https://github.com/{repository()}"
    # The placeholder begins with a hyphen, as no name on GitHub can.
    clone = "" if repository().startswith("-") else f", or `git clone {home} attention-course`"
    return (
        "In Colab there is nothing to install: each notebook has [its link below](#the-notebooks). [Binder]"
        f"({binder}) opens the whole course in JupyterLab; its first start takes minutes.\n\n"
        "On your own machine you need Python 3.11 to 3.14. [Download the course]"
        f"({home}/archive/refs/heads/main.zip) and unpack it{clone}. In its folder:"
    )


PARTS = {1: "Build attention, up to BERT", 6: "See it", 9: "Beyond an encoder", 13: "Models that write"}


def contents() -> str:
    """README's list: each notebook with its first ability, its minutes, and a link to Colab."""
    rows, hours = [], {}
    for number, path in enumerate(paths(), 1):
        of = about(path)
        rows += [f"\n**{PARTS[number]}**\n"] if number in PARTS else []
        rows.append(f"{number}. **[{of['title']}](notebooks/{path.name})**: {of['abilities'][0]}<br>")
        rows[-1] += f"{of['reading']} + {of['exercises']} minutes · [Colab]({colab(path)})"
        hours[path.name[:2]] = (of["reading"] + of["exercises"]) / 60
    whole, short = sum(hours.values()), sum(hours.get(number, 0) for number in SHORT_WAY)
    way = f"About {whole:.0f} hours in all; 25 + 30 minutes means 25 to read, 30 for exercises. A short way, "
    way += f"{short:.0f} hours: 01 to 04, 06, then 13. Or start where you like: each runs on its own."
    told = "To look up: [questions of learners](notebooks/questions.md), a [glossary](notebooks/glossary.md)."
    return "\n".join([way, *rows, "", told])


def readme(text: str) -> str:
    """README with its generated parts made anew."""
    for made in (entry, launch, contents):
        part = f"<!-- {made.__name__} -->\n{made()}\n<!-- /{made.__name__} -->"
        pattern = rf"<!-- {made.__name__} -->.*<!-- /{made.__name__} -->"
        text = re.sub(pattern, lambda _, part=part: part, text, flags=re.DOTALL)
    return text


def generate() -> None:
    for path in paths():
        notebook, made = read(path), generated(path)
        for cell in notebook.cells:
            cell.source = made.get(cell.id, cell.source)
        fold(notebook.cells)
        write(path, notebook)
    README.write_text(readme(README.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")


def run(path: Path) -> None:
    """Run a notebook from a fresh kernel and keep its outputs, without the traces of this machine."""
    from PIL import Image

    notebook = read(path)
    execute(notebook)
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        if "<Figure" in output.get("data", {}).get("text/plain", ""):  # in 256 colours a third of its size
            plot = Image.open(io.BytesIO(base64.b64decode(output.data["image/png"])))
            plot.convert("RGB").quantize().save(small := io.BytesIO(), "PNG", optimize=True)
            output.data["image/png"] = base64.b64encode(small.getvalue()).decode()
    fold(notebook.cells)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = nbformat.from_dict({"kernelspec": kernel, "language_info": {"name": "python"}})
    write(path, notebook)


def publish(address: str = "") -> None:
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", address):
        sys.exit(f"'{address}' is no address on GitHub. Give it as owner/name: make publish REPO=owner/name")
    text = PYPROJECT.read_text(encoding="utf-8")
    PYPROJECT.write_text(REPOSITORY.sub(rf"\g<1>{address}\g<3>", text), encoding="utf-8", newline="\n")
    generate()
    print(f"Every badge, link and clone address now says {address}.")


def main(arguments: list[str]) -> None:
    match arguments:
        case ["generate"]:
            generate()
        case ["publish", *address] if len(address) < 2:
            publish(*address)
        case ["notebooks", *names]:
            if unknown := sorted(set(names) - {path.name[:2] for path in paths()}):
                sys.exit(f"There is no notebook {', '.join(unknown)}.")
            generate()
            os.environ["COURSE_STATIC_VIEWS"] = "1"  # stored views are pictures: no script, nothing to trust
            for model in ("COURSE_CHECKPOINT", "COURSE_WRITER"):  # stored numbers are the default models'
                os.environ.pop(model, None)
            for path in paths():
                if not names or path.name[:2] in names:
                    print(f"running {path.name}", flush=True)
                    run(path)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
