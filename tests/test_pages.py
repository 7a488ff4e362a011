"""The learners' questions and the glossary: their links lead to cells that say what the page says."""

import re
from functools import cache
from pathlib import Path

import pytest

import course

ROOT = Path(__file__).parent.parent
QUESTIONS, GLOSSARY = (ROOT / "notebooks" / name for name in ("questions.md", "glossary.md"))
CELL = re.compile(r"\[[^\]]+\]\((\d\d_\w+\.ipynb)#cell-id=([\w-]+)\)")
CODE = re.compile(r"`([^`]+)`")


def rows(page):
    """The rows of all tables of a page, each a list of its cells' texts."""
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    table = [[part.strip() for part in line.strip("|").split(" | ")] for line in lines]
    return [row for row in table if CELL.search(row[-1])]


def place(row):
    """The notebook and the cell that a row leads to."""
    notebook, cell = CELL.fullmatch(row[-1]).groups()
    return notebook, cell


@cache
def cells(notebook):
    """Of each cell its id and its text: source without emphasis and targets of links, and text outputs."""
    found = []
    for cell in course.read(ROOT / "notebooks" / notebook).cells:
        outputs = cell.get("outputs", [])
        said = [output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in outputs]
        source = cell.source
        if cell.cell_type == "markdown":
            source = re.sub(r"\]\([^)\s]*\)", "]", source).replace("*", "")
        found.append((cell.id, source, "\n".join([source, *said])))
    return found


def near(notebook, cell):
    """The text of a cell with that of its two neighbours on either side."""
    ids = [name for name, _, _ in cells(notebook)]
    at = ids.index(cell)
    return "\n".join(text for _, _, text in cells(notebook)[max(at - 2, 0) : at + 3])


def stands_in(word, text, ignore_case):
    """Whether a word stands there as a whole, also in the plural. Signs around it do not matter."""
    begin, end = (r"(?<!\w)" if word[0].isalnum() else ""), (r"(?:s|es)?(?!\w)" if word[-1].isalnum() else "")
    return re.search(begin + re.escape(word) + end, text, re.IGNORECASE if ignore_case else 0)


def sentences(text):
    """The sentences of a text. What stands in backticks is one word."""
    return re.split(r"(?<=[.?!]) ", CODE.sub("code", text))


def name_of(row):
    return re.sub(r"\W+", "-", row[0]).strip("-")


each_question = pytest.mark.parametrize("row", rows(QUESTIONS), ids=name_of)
each_term = pytest.mark.parametrize("row", rows(GLOSSARY), ids=name_of)


@pytest.mark.parametrize("page, columns, least", [(QUESTIONS, 3, 20), (GLOSSARY, 5, 60)])
def test_table_is_whole(page, columns, least):
    """Every line of a table is a row with all its columns, and nothing links to a notebook outside the tables."""
    table, text = rows(page), page.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    heads = [line for line in lines if set(line) <= set("|- ")]
    assert len(lines) == len(table) + 2 * len(heads)
    assert {len(row) for row in table} == {columns} and all(all(row) for row in table)
    assert len(table) >= least
    assert text.count(".ipynb") == len(table)


@pytest.mark.parametrize("row", [*rows(QUESTIONS), *rows(GLOSSARY)], ids=name_of)
def test_link_leads_to_a_cell_and_says_which_notebook(row):
    notebook, cell = place(row)
    assert (ROOT / "notebooks" / notebook).exists(), notebook
    assert cell in [name for name, _, _ in cells(notebook)], f"{notebook} has no cell {cell}"
    assert row[-1].startswith(f"[{notebook[:2]}]")


@each_question
def test_linked_cell_has_what_the_answer_names(row):
    question, answer, _ = row
    assert question.endswith("?")
    assert len(sentences(answer)) <= 2 and answer.endswith(".")
    there = near(*place(row))
    for word in CODE.findall(question + answer):
        assert stands_in(word, there, ignore_case=False), f"{word} is not at {place(row)}"


@each_term
def test_linked_cell_has_the_term_or_its_name_in_code(row):
    notebook, cell = place(row)
    source = {name: source for name, source, _ in cells(notebook)}[cell]
    term, code = row[0].strip("`"), CODE.findall(row[2])
    assert row[2] == "–" or code, "the name in code stands in backticks"
    assert stands_in(term, source, ignore_case=True) or any(stands_in(name, source, False) for name in code)


@each_term
def test_term_has_one_short_sentence(row):
    sentence = row[3]
    assert sentence.endswith(".") and len(sentences(sentence)) == 1
    assert len(sentence.split()) <= 30
    assert sentence[0].isupper() or sentence[0] in '"0123456789'


def test_terms_are_in_alphabetical_order_and_unique():
    terms = [re.sub("[^a-z0-9]", "", row[0].lower()) for row in rows(GLOSSARY)]
    assert terms == sorted(set(terms))


def test_questions_are_unique():
    questions = [row[0] for row in rows(QUESTIONS)]
    assert len(set(questions)) == len(questions)


@pytest.mark.parametrize("path", course.paths(), ids=lambda path: path.stem)
def test_every_notebook_is_in_the_glossary(path):
    assert sum(place(row)[0] == path.name for row in rows(GLOSSARY)) >= 2


@pytest.mark.parametrize("page", [QUESTIONS, GLOSSARY], ids=lambda page: page.name)
def test_readme_and_the_pages_link_to_each_other(page):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"](notebooks/{page.name})" in readme.split("## The notebooks")[1].split("\n## ")[0]
    (other,) = {QUESTIONS, GLOSSARY} - {page}
    text = page.read_text(encoding="utf-8")
    assert f"]({other.name})" in text and "](../README.md#the-notebooks)" in text
