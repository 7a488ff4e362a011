"""The keeper of the notebooks: publishing an address, navigation, re-execution as committed."""

import shutil

import nbformat
import pytest

import course


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A small copy of the course, in which its keeper writes."""
    (tmp_path / "notebooks").mkdir()
    for path in course.paths()[:2]:
        shutil.copy(path, tmp_path / "notebooks")
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(course.ROOT / name, tmp_path)
    for name in ("NOTEBOOKS", "README", "PYPROJECT"):
        monkeypatch.setattr(course, name, tmp_path / getattr(course, name).relative_to(course.ROOT))
    monkeypatch.setattr(course, "ROOT", tmp_path)
    course.generate()  # the links of the last notebook and README's list are those of two notebooks now
    return tmp_path


def texts(folder):
    files = [folder / "README.md", folder / "pyproject.toml", *(folder / "notebooks").glob("*.ipynb")]
    return {file.name: file.read_text(encoding="utf-8") for file in files}


def test_publish_rewrites_every_address_and_nothing_else(copy):
    assert "git clone" not in texts(copy)["README.md"] or not course.repository().startswith("-")
    placeholder = course.repository()
    course.main(["publish", "grace-h/course"])
    before = texts(copy)
    assert "git clone https://github.com/grace-h/course" in before["README.md"]
    course.main(["publish", "ada-l/attention"])
    for name, text in texts(copy).items():
        assert placeholder not in text and "ada-l/attention" in text
        assert text.replace("ada-l/attention", "grace-h/course") == before[name]
    before = texts(copy)
    for address in ("attention", "https://github.com/ada/x", "a b/c", ""):
        with pytest.raises(SystemExit, match="owner/name"):
            course.main(["publish", address])
    assert texts(copy) == before


def test_notebooks_that_are_not_there_are_refused_before_any_is_run(copy, monkeypatch):
    monkeypatch.setattr(course, "run", lambda path: pytest.fail(f"{path.name} was run"))
    with pytest.raises(SystemExit, match="7, 99"):
        course.main(["notebooks", "01", "99", "7"])


def test_minutes_are_counted():
    """1,300 words and 100 lines of code make 10 + 10 minutes; exercises say theirs."""
    words, exercise = "word " * 1300, "## Exercises\n\n**Time:** 15 minutes " + "word " * 999
    texts = [words, "line\n\n" * 100, "### More (optional)", "line\n" * 200, "#### Deeper", "line\n" * 100]
    texts += ["### On", "line\n" * 50, exercise, "line\n" * 999, "## Can you say it without looking?"]
    kinds = {True: "code", False: "markdown"}
    cells = [{"id": text[:4], "cell_type": kinds[text[:4] == "line"], "source": text} for text in texts]
    cells += [{"id": "last", "cell_type": "code", "source": "line\n" * 50}]
    assert course.minutes(cells) == pytest.approx({"reading": 30, "exercises": 15, "optional": 30}, abs=0.1)


def code_cell(*kinds):
    outputs = [nbformat.v4.new_output("display_data", {kind: "made"}) for kind in kinds]
    return nbformat.v4.new_code_cell("made()", outputs=outputs, metadata={"tags": ["kept"], "scrolled": True})


FOLDED = [
    ("Weights.\n\n**Guess.** Which is largest?", ["text/plain"], True),
    ("**Guess.** Which is largest?\n", [], True),
    ("**Guess.** Which is largest?\n\nThen run the cell.", ["text/plain"], False),
    ("Can you guess which is largest?", ["text/plain"], False),
    ("**Guess.** Which is largest?", ["text/plain", "image/png"], False),
    ("**Guess.** Which is largest?", ["text/html"], False),
]


@pytest.mark.parametrize("asked, kinds, collapsed", FOLDED)
def test_only_a_printed_answer_to_a_guess_is_collapsed(asked, kinds, collapsed):
    cells = [nbformat.v4.new_markdown_cell(asked), code_cell(*kinds), code_cell(*kinds)]
    course.fold(cells)
    hidden = {"jupyter": {"outputs_hidden": True}, "collapsed": True} if collapsed else {}
    assert cells[1].metadata == {"tags": ["kept"]} | hidden and cells[2].metadata == {"tags": ["kept"]}


@pytest.mark.slow
def test_execution_keeps_outputs_and_no_trace_of_the_machine(copy, monkeypatch):
    monkeypatch.delenv("COURSE_STATIC_VIEWS")
    for path in course.paths():
        path.unlink()
    title = "# Try it\n\n**You will be able to**\n- run it\n\n**Time:**"
    code = "import os\nprint(os.environ['COURSE_STATIC_VIEWS'], os.path.basename(os.getcwd()))"
    cells = [
        nbformat.v4.new_markdown_cell("", id="navigation-top"),
        nbformat.v4.new_markdown_cell(title, id="title"),
        nbformat.v4.new_code_cell("", id="set-up"),
        nbformat.v4.new_code_cell(code, metadata={"scrolled": True}),
    ]
    path = copy / "notebooks" / "01_try.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    course.main(["notebooks"])
    done = nbformat.read(path, as_version=4)
    code = [cell for cell in done.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == [1, 2] and code[1].outputs[0].text == "1 notebooks\n"
    assert [cell.metadata for cell in code] == [{"jupyter": {"source_hidden": True}}, {}]
    assert done.metadata.language_info == {"name": "python"}
    first = path.read_bytes()
    course.main(["notebooks"])
    assert path.read_bytes() == first
