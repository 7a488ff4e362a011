"""The glossary and the learners' questions: each row leads to a cell that says what the row says."""

import re
from functools import cache

import course

LINK = re.compile(r"\[(\d\d)\]\((\1_\w+\.ipynb)#cell-id=([\w-]+)\)")
CODE = re.compile(r"`([^`]+)`")


def rows(page, columns):
    """Return the rows of all tables of a page, each a list of its cells' texts."""
    lines = re.findall(r"^\|.*$", (course.NOTEBOOKS / page).read_text(encoding="utf-8"), re.MULTILINE)
    table = [[part.strip() for part in line.strip("|").split(" | ")] for line in lines if ".ipynb" in line]
    assert table and all(len(row) == columns and all(row) and LINK.fullmatch(row[-1]) for row in table)
    return table


@cache
def texts(notebook):
    """Return the text of each cell by its id: source without emphasis and targets of links, and outputs."""
    found = {}
    for cell in course.read(course.NOTEBOOKS / notebook).cells:
        source = re.sub(r"\]\([^)\s]*\)", "]", cell.source).replace("*", "")
        made = cell.get("outputs", [])
        outputs = [out.get("text", "") + out.get("data", {}).get("text/plain", "") for out in made]
        found[cell.id] = "\n".join([source if cell.cell_type == "markdown" else cell.source, *outputs])
    return found


def stands_in(word, text, flags=0):
    """Say whether a word stands there as a whole, also in the plural. Signs around it do not matter."""
    begin, end = (r"(?<!\w)" if word[0].isalnum() else ""), (r"(?:s|es)?(?!\w)" if word[-1].isalnum() else "")
    return re.search(begin + re.escape(word) + end, text, flags) is not None


def test_each_term_stands_in_its_cell_by_name_or_in_code():
    missing = []
    for term, _, code, link in rows("glossary.md", columns=4):
        _, notebook, cell = LINK.fullmatch(link).groups()
        text = texts(notebook)[cell]
        there = stands_in(term.strip("`"), text, re.IGNORECASE)
        if not there and not any(stands_in(name, text) for name in CODE.findall(code)):
            missing.append((term, link))
    assert missing == []


def test_code_that_an_answer_names_stands_near_its_cell():
    missing = []
    for question, answer, link in rows("questions.md", columns=3):
        _, notebook, cell = LINK.fullmatch(link).groups()
        place = list(texts(notebook)).index(cell)  # its text, and that of two neighbours on either side
        near = "\n".join(list(texts(notebook).values())[max(place - 2, 0) : place + 3])
        missing += [(name, link) for name in CODE.findall(question + answer) if not stands_in(name, near)]
    assert missing == []


def test_terms_are_unique_and_in_order_and_come_from_every_notebook():
    table = rows("glossary.md", columns=4)
    terms = [re.sub("[^a-z0-9]", "", row[0].lower()) for row in table]
    assert terms == sorted(set(terms))
    assert {LINK.fullmatch(row[-1])[2] for row in table} == {path.name for path in course.paths()}
