"""The rows of the mistakes: what stands in the .toml files beside the exercises, and where a learner is sent to look.

    [softmax]
    home = ["02", "Exercise 1: Softmax without softmax"]      where to look, unless a row says another place
    also = ["attention"]                                      groups of rows in shared.toml that serve it too
    last = ["other_than_mean"]                                names that are tried when all others do not fit
    not_divided = ["The powers are not divided. A weight is a share.", '/ powers.sum(dim=-1) => ', ["02", "Heading"]]

A row is a mistake: its words (what the learner did, and why it matters), and its edits of the solution. A pair in
brackets is a place to look. Empty words are those of the same name in a group of the exercise, or under [words] in
shared.toml. Under [symptoms] stands what is true of any code that shows it (symptoms.py, answers.py).
"""

import functools
import json
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
COURSE = FOLDER.parents[1]
SETTINGS = "home", "also", "last"


class Row(NamedTuple):
    """A mistake: its words, its edits of the solution, and a notebook's number with a heading in it, or None."""

    words: str
    edits: tuple
    look: tuple | None


@functools.cache
def table():
    """Return the tables of all .toml files, by the names of exercises; `words`, `symptoms` and `groups` are shared."""
    found = {}
    for path in sorted(FOLDER.glob("*.toml")):
        try:
            found |= tomllib.loads(path.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{path.name}: {error}") from None
    return found


def row(words, *rest):
    """Return the `Row` of what stands in a file."""
    edits = tuple(part for part in rest if isinstance(part, str))
    return Row(words, edits, next((tuple(part) for part in rest if isinstance(part, list)), None))


def rows(of):
    """Return a table's rows by their names."""
    return {name: row(*parts) for name, parts in of.items() if name not in SETTINGS}


def serving(exercise):
    """Return an exercise's own table, and that of each group that serves it too."""
    own = table().get(exercise, {})
    return [own, *(table()["groups"][group] for group in own.get("also", ()))]


def tables_of(exercise):
    """Return an exercise's own rows, and those of each group that serves it too."""
    return [*map(rows, serving(exercise))]


def last(exercise):
    """Return the names that are tried only when no other fits."""
    return {name for one in serving(exercise) for name in one.get("last", ())}


def is_symptom(name):
    """Say whether a name is that of a symptom: what is right so far is told beside its words."""
    return name in table().get("symptoms", {})


def said_of(exercise, name):
    """Return the words of a mistake in an exercise, or None if it has none, and where to look, or None."""
    shared = [table().get(part, {}) for part in ("words", "symptoms")]
    tables = [*serving(exercise), *shared, *table().get("groups", {}).values()]
    found = [row(*one[name]) for one in tables if name in one]
    words = next((one.words for one in found if one.words), "" if found else None)
    home = tables[0].get("home")
    look = next((one.look for one in found if one.look), home)
    if home and look[0] > home[0]:  # words that several exercises share: no pointer to a later notebook
        look = None
    return words, look and tuple(look)


@functools.cache
def address_of(number, heading):
    """Return the address of the cell with this heading, or None: in Colab that of the published course."""
    for path in (COURSE / "notebooks").glob(f"{number}_*.ipynb"):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            lines = "".join(cell["source"]).splitlines() if cell["cell_type"] == "markdown" else []
            if not any(line.startswith("#") and line.lstrip("#") == f" {heading}" for line in lines):
                continue
            if "google.colab" not in sys.modules:
                return f"{path.name}#cell-id={cell['id']}"
            settings = tomllib.loads((COURSE / "pyproject.toml").read_text(encoding="utf-8"))
            owner = settings["tool"]["course"]["repository"]
            if not owner.startswith("-"):  # as the placeholder does
                colab = f"https://colab.research.google.com/github/{owner}/blob/main/notebooks"
                return f"{colab}/{path.name}#scrollTo={cell['id']}"
    return None
