"""Makes a folder of web pages out of the course: any web server serves it, and a browser opens it from disk.

    python .ci/site/build.py [--to FOLDER] [--stored] [NN ...]   default: _site; NN: run only these notebooks
    python .ci/site/build.py --links                             make no pages, ask for every link of theirs

The notebooks with views are run anew, in memory, so that these are live; the committed ones hold pictures.
What is not run (--stored: nothing is) is shown as it is committed. README becomes index.html.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

import course  # noqa: E402
from course import nbformat  # noqa: E402 (which it makes quicker)

# In a notebook's kernel, before its first cell. A slider needs a kernel, which a page has not, so notebooks
# run as they do for the committed outputs, with COURSE_STATIC_VIEWS=1; only views are not.
LIVE_VIEWS = """\
import os, sys
from unittest.mock import patch
sys.path.insert(0, os.path.abspath(".."))
from utils.views import View
View._repr_mimebundle_ = patch.dict(os.environ, {"COURSE_STATIC_VIEWS": ""})(View._repr_mimebundle_)
del os, sys, patch, View
"""

# After 06: the model as scripts for bert.js. "opening": query, key and value of the first page's view.
MODEL_IN_NUMBERS = """\
import base64, json, pathlib
def coded(part):
    most = part.abs().max().item()
    return most, base64.b64encode((32767 / most * part).round().short().numpy(force=True)).decode()
def store(name, *parts):
    parts = [part if isinstance(part, str) else coded(part) for part in parts]
    pathlib.Path(FOLDER, f"{name}.js").write_text(f"bertFiles[{json.dumps(name)}] = {json.dumps(parts)};")
states = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states
each = zip([layer.attention.self for layer in model.encoder.layer], states)
store("opening", torch.cat([part(state) for own, state in each for part in (own.query, own.key, own.value)]))
words, positions, types, *norm = model.embeddings.parameters()
store("embeddings", positions, types[0], *norm)
store("vocabulary", *tokenizer.convert_ids_to_tokens(range(len(tokenizer))))
for i, rows in enumerate(words.split(128)): store(f"rows-{i}", rows)
for i, layer in enumerate(model.encoder.layer): store(f"layer-{i}", *layer.parameters())
"""

# What stands in place of README's picture, and what 01 and 06 open with: pictures that are alive.
PARTS = {path.name: path.read_text("utf-8") for path in HERE.iterdir() if path.suffix in (".md", ".html")}


def linked(text: str, folder: Path) -> str:
    """Markdown of a folder of the course whose links lead to pages. What has no page is linked on GitHub."""

    def write(link):
        file = (folder / link[1]).resolve()
        if file == course.README:
            return link[0].replace("README", "index")
        if file == course.ROOT / "LICENSE":
            return link[0] + ".md"
        if file.suffix in (".md", ".ipynb") or file.parent.name == "images" or not file.exists():
            return link[0]
        where = file.relative_to(course.ROOT).as_posix()
        return f"](https://github.com/{course.repository()}/blob/main/{where}"

    narrow = "|".join(path.stem[:-7] for path in (course.ROOT / "images").glob("*-narrow.svg"))  # course.js
    text = re.sub(rf"!\[.*?\]\([^)]*/({narrow})\.svg\)", r"\g<0>{.has-narrow}", text)
    return re.sub(r"\]\((?!\w+:|#)([^)#\s]+)", write, text)


def page(notebook):
    """A notebook with a place before each cell that links of the form #cell-id=... lead to."""
    cells = []
    for cell in notebook.cells:
        if cell.id.startswith("navigation-"):  # the pages have a side bar
            continue
        cells.append(nbformat.v4.new_markdown_cell(f'<div id="cell-id={cell.id}"></div>'))
        if cell.cell_type == "markdown":
            cell.source = linked(cell.source, course.NOTEBOOKS)
        if cell.metadata.get("jupyter"):  # its source is folded, or its outputs
            name = next((end for end in course.FOLDED if cell.id.endswith(end)), "answer")
            part = "hide-output" if name == "answer" else "hide-input"
            said = {f"code_prompt_{verb}": f"{verb.title()} the {name}" for verb in ("show", "hide")}
            cell.metadata |= {"mystnb": said, "tags": [*cell.metadata.get("tags", []), part]}
        cells.append(cell)
    return nbformat.from_dict(notebook | {"cells": cells})


def licences() -> str:
    """The licence of the course, and those of what is inside the pages."""
    own = re.sub(r"https:\S+", r"<\g<0>>", (course.ROOT / "LICENSE").read_text("utf-8"))
    text = f"---\nnosearch: true\n---\n# Licences\n\n{own}"
    for package in ("bertviz", "mpld3", "sphinx", "pydata-sphinx-theme", "sphinx-book-theme"):
        for file in metadata.files(package) or []:
            if file.stem == "LICENSE":
                text += f"\n\n## {package}\n\n```text\n{file.read_text(encoding='utf-8')}\n```\n"
    return text


def stage(folder: Path, chosen: list[str]) -> None:
    """Write what Sphinx reads into an empty folder, and run the notebooks with the chosen numbers."""
    shutil.copytree(course.ROOT / "images", folder / "images")
    (folder / "notebooks").mkdir()
    notebooks = {path.name: course.read(path) for path in course.paths()}
    first, views = (notebooks[name].cells for name in ("01_tokenization.ipynb", "06_head_view.ipynb"))
    (files := folder / "bert").mkdir()
    views.append(nbformat.v4.new_code_cell(MODEL_IN_NUMBERS.replace("FOLDER", repr(str(files)))))
    run = [notebook for name, notebook in notebooks.items() if name[:2] in chosen]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda notebook: course.execute(notebook, first=LIVE_VIEWS), run))
    views.pop()
    if view := {cell.id: cell for cell in views}["one-head"].outputs[0].data.get("text/html"):
        for name in ("front.html", "head.html", "try.html", "own.html"):
            text = PARTS[name].replace("OPENING", (files / "opening.js").read_text("utf-8"))
            if name in ("front.html", "head.html"):
                text = view.replace("'></i", (PARTS["squares.html"] + text).replace("'", "&#39;") + "'></i")
            (folder / name).write_text(text, "utf-8")
        for title, name in ((first[1], "01.md"), (views[1], "06.md")):
            title.source = re.sub(r"!\[.*", PARTS[name], title.source)
    for name, notebook in notebooks.items():
        nbformat.write(page(notebook), folder / "notebooks" / name)
    texts = [*course.ROOT.glob("*.md"), *course.NOTEBOOKS.glob("*.md")]
    pages = {path: linked(path.read_text(encoding="utf-8"), path.parent) for path in texts}
    if view:  # what, Colab, needs
        top = r"(.+)\n\n<!-- entry -->\n.*?\((.*?)\).*?\. (.*)\n[\s\S]*?</picture>\n\n.*"
        pages[course.README] = re.sub(top, PARTS["front.md"], pages[course.README], count=1)
    pages[course.README] = re.sub("</?picture>|<source.*?>| align=.absmiddle.", "", pages[course.README])
    pages[course.ROOT / "index.md"] = pages.pop(course.README) + PARTS["contents.md"]
    pages[course.ROOT / "LICENSE.md"] = licences()
    for path, text in pages.items():
        (folder / path.relative_to(course.ROOT)).write_text(text, encoding="utf-8")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--to", type=Path, default=course.ROOT / "_site", metavar="FOLDER")
    parser.add_argument("--stored", action="store_true")
    parser.add_argument("--links", action="store_true")
    parser.add_argument("numbers", nargs="*", metavar="NN")
    asked = parser.parse_args(arguments)
    there = {path.name[:2]: path for path in course.paths()}
    live = [number for number, path in there.items() if "from utils.views" in path.read_text("utf-8")]
    if unknown := sorted(set(asked.numbers) - set(there)):
        sys.exit(f"There is no notebook {', '.join(unknown)}.")
    if asked.to.exists() and any(asked.to.iterdir()) and not (asked.to / ".buildinfo").exists():
        sys.exit(f"{asked.to} holds something else than pages of the course. Name another folder with --to.")
    from nbclient.exceptions import CellExecutionError
    from sphinx.cmd.build import build_main  # takes a second

    os.environ["COURSE_STATIC_VIEWS"] = "1"
    os.environ.pop("COURSE_CHECKPOINT", None)
    with tempfile.TemporaryDirectory() as work:
        source, made = Path(work, "source"), Path(work, "made")
        try:
            stage(source, [] if asked.stored or asked.links else asked.numbers or live)
        except CellExecutionError as error:
            sys.exit(f"A notebook did not run to its end, so no page was written.\n\n{error}")
        how = ["-b", "linkcheck" if asked.links else "html", "--quiet", "--fail-on-warning"]
        if build_main([*how, "-c", str(HERE), "-d", f"{work}/trees", str(source), str(made)]):
            sys.exit(1)
        if not asked.links:
            shutil.copytree(source / "images", made / "_images", dirs_exist_ok=True)  # narrow ones, too
            shutil.copytree(source / "bert", made / "_static/bert", ignore=shutil.ignore_patterns("opening*"))
            shutil.rmtree(asked.to, ignore_errors=True)
            shutil.copytree(made, asked.to)
            print(f"The pages: {asked.to / 'index.html'}")


if __name__ == "__main__":
    main(sys.argv[1:])
