"""Makes a folder of web pages out of the course: any web server can serve it, and a browser opens it from the disk.

    python .ci/pages.py [--to FOLDER] [NN ...]   default folder: _site; NN: run only these notebooks

The notebooks are run anew, in memory, so that their views are live; the committed ones hold pictures. A notebook that
is not run is shown as it is committed. README becomes index.html, and the glossary and the questions have pages too.
The pages ask no server for anything.
"""

import argparse
import html
import os
import posixpath
import re
import shutil
import sys
from collections import Counter
from importlib import metadata
from pathlib import Path

import nbformat
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter
from traitlets.config import Config

import course
from offline import FormulasToMathML

# In a notebook's kernel, before its first cell. A slider or a progress bar needs a kernel, which a page has not, so
# notebooks run as they do for the committed outputs, with COURSE_STATIC_VIEWS=1; only views are made without it.
LIVE_VIEWS = """\
def live_views():
    import os, sys
    sys.path.insert(0, os.path.abspath(".."))
    from utils.views import View
    shown = View._repr_mimebundle_

    def live(view, include=None, exclude=None):
        static = os.environ.pop("COURSE_STATIC_VIEWS")
        try:
            return shown(view, include, exclude)
        finally:
            os.environ["COURSE_STATIC_VIEWS"] = static

    View._repr_mimebundle_ = live

live_views()
del live_views
"""

# nbconvert's page without its scripts (require.js, MathJax, Mermaid, widgets), readable on a phone and in the dark.
PAGE = """\
{%- extends 'lab/index.html.j2' -%}
{%- block html_head_js -%}{%- endblock -%}
{%- block jupyter_widgets -%}{%- endblock -%}
{%- block html_head_js_mathjax -%}{%- endblock -%}
{%- block html_head_js_mermaidjs -%}{%- endblock -%}
{%- block html_head_css -%}
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
{%- set dark = '<style media="(prefers-color-scheme: dark)"' | safe %}
{{ resources.include_css("static/theme-dark.css").replace("<style" | safe, dark, 1) }}
<style>
  body.jp-Notebook { max-width: 68rem; margin: 0 auto; padding: 1rem; }
  .jp-RenderedHTMLCommon { font-size: 1rem; line-height: 1.6; overflow-wrap: break-word; }
  .jp-RenderedHTMLCommon table, .jp-RenderedHTMLCommon math[display=block] { display: block; overflow-x: auto; }
  .jp-RenderedHTMLCommon td, .jp-RenderedHTMLCommon th { white-space: normal; text-align: left; vertical-align: top; }
  .jp-RenderedHTMLCommon img { max-width: 100%; height: auto; }
  .jp-RenderedHTMLCommon td img { max-width: none; }
  .jp-RenderedHTMLCommon .highlight { margin-bottom: 1rem; }
  .jp-RenderedHTMLCommon .highlight pre { padding: 0.6rem; background: var(--jp-layout-color2); }
  .jp-RenderedHTMLCommon pre, .jp-OutputArea-output, .jp-InputArea-editor { overflow-x: auto; }
  .jp-InputPrompt, .jp-OutputPrompt { flex-basis: 4rem; }
  footer { margin: 2rem 0 1rem; font: 0.85rem sans-serif; color: var(--jp-ui-font-color2); }
  footer a { color: var(--jp-content-link-color); }
  @media (max-width: 45rem) {
    body.jp-Notebook { padding: 0.5rem; }
    .jp-InputPrompt, .jp-OutputPrompt, .jp-Collapser { display: none; }
  }
</style>
{%- endblock -%}
{%- block body_footer -%}
<footer>Code: MIT. Text and drawings: CC BY 4.0. <a href="{{ resources.top }}LICENSE.txt">Licences</a></footer>
{{ super() }}
{%- endblock -%}
"""

# What makes a page ask a server for something. Links that a reader clicks are not among them.
ASKS = re.compile(
    r"<(?:script|img|iframe|source)[^>]{0,200}\ssrc=[\"']https?:|<link[^>]+https?:|import\([\"']https?:|@import"
)
CODE = r"(?P<code>```.*?```|`[^`\n]+`)"


def export(notebook, source: str, title: str) -> str:
    """The page of a notebook that stands at `source`, a path from the top of the course."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = links_to_pages(cell.source, source)
    notebook.metadata.title = title
    settings = Config()
    settings.HTMLExporter.preprocessors = [FormulasToMathML]
    top = posixpath.relpath(".", posixpath.dirname(source) or ".")
    page, _ = HTMLExporter(raw_template=PAGE, config=settings).from_notebook_node(
        notebook, resources={"top": "" if top == "." else f"{top}/"}
    )
    asked = asks(notebook, page)
    if asked:
        sys.exit(f"The page of {source} would ask a server for something: {asked[0]}")
    return anchors_of_github(page)


def asks(notebook, page: str) -> list[str]:
    """What a page asks a server for, by itself or in a frame. A widget asks for the scripts that draw it."""
    found = [
        kind
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        for kind in output.get("data", {})
        if "widget" in kind
    ]
    frames = [
        html.unescape(text)
        for pair in re.findall(r"srcdoc=(?:\"([^\"]*)\"|'([^']*)')", page)
        for text in pair
    ]
    for text in [page, *frames]:
        found += [each[0] for each in ASKS.finditer(text)]
    return found


def links_to_pages(text: str, source: str) -> str:
    """Markdown whose links lead from page to page. What has no page here is linked on GitHub."""

    def write(found):
        target = found["target"]
        if found["code"] or re.match(r"\w+:|#", target):
            return found[0]
        file, mark, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), file))
        if path == "README.md":
            path = "index.html"
        elif re.fullmatch(r"notebooks/\w+\.(ipynb|md)", path):
            path = path.rpartition(".")[0] + ".html"
        elif path == "LICENSE":
            path = "LICENSE.txt"
        elif not path.startswith("images/"):
            return f"](https://github.com/{course.repository()}/blob/main/{path}{mark}{anchor})"
        return f"]({posixpath.relpath(path, posixpath.dirname(source) or '.')}{mark}{anchor})"

    return re.sub(CODE + r"|\]\((?P<target>[^)\s]+)\)", write, text, flags=re.DOTALL)


def anchors_of_github(page: str) -> str:
    """The page with the anchors that GitHub and JupyterLab give to headings, so that links to them hold."""
    seen = Counter()

    def write(found):
        text = html.unescape(re.sub(r"<[^>]+>", "", found["text"]))
        anchor = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        seen[anchor] += 1
        anchor += f"-{seen[anchor] - 1}" if seen[anchor] > 1 else ""
        return (
            f'<h{found["level"]} id="{anchor}">{found["text"]}'
            f'<a class="anchor-link" href="#{anchor}" aria-label="Link to this heading">¶</a></h{found["level"]}>'
        )

    heading = r'<h(?P<level>[1-6]) id="[^"]*">(?P<text>(?:(?!</h).)*?)<a class="anchor-link" href="[^"]*">¶</a></h\1>'
    return re.sub(heading, write, page, flags=re.DOTALL)


def run(path: Path):
    """The notebook with the outputs of this run."""
    notebook = course.read(path)
    course.execute(notebook, first=LIVE_VIEWS)
    return notebook


def of_text(text: str):
    """A notebook that holds nothing but this Markdown."""
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)])


def licences() -> dict[str, str]:
    """The texts of the licences of what is inside the pages: file to text."""
    texts = {"LICENSE.txt": (course.ROOT / "LICENSE").read_text(encoding="utf-8")}
    for package in ("bertviz", "mpld3"):
        for file in metadata.files(package) or []:
            if file.name == "LICENSE":
                texts[f"licences/{package}.txt"] = file.read_text(encoding="utf-8")
    return texts


def build(folder: Path, numbers: list[str]) -> None:
    """Write the pages into a folder, in place of what was there."""
    unknown = set(numbers) - {path.name[:2] for path in course.paths()}
    if unknown:
        sys.exit(f"There is no notebook {', '.join(sorted(unknown))}.")
    if folder.exists() and any(folder.iterdir()) and not (folder / "index.html").exists():
        sys.exit(f"{folder} holds something else than pages of the course. Name another folder with --to.")
    readme = course.README.read_text(encoding="utf-8")
    name = re.search(r"^# (.+)$", readme, re.MULTILINE)[1]
    files = licences() | {"index.html": export(of_text(readme), "README.md", name)}
    for path in sorted(course.NOTEBOOKS.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        title = f"{re.search('^# (.+)$', text, re.MULTILINE)[1]} · {name}"
        files[f"notebooks/{path.stem}.html"] = export(of_text(text), f"notebooks/{path.name}", title)
    for path in course.paths():
        chosen = not numbers or path.name[:2] in numbers
        print(f"{'running' if chosen else 'as committed:'} {path.name}", flush=True)
        try:
            notebook = run(path) if chosen else course.read(path)
        except CellExecutionError as error:
            sys.exit(f"{path.name} did not run to its end, so no page was written.\n\n{error}")
        title = f"{course.about(path)['title']} · {name}"
        files[f"notebooks/{path.stem}.html"] = export(notebook, f"notebooks/{path.name}", title)
    shutil.rmtree(folder, ignore_errors=True)
    for file, text in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text, encoding="utf-8", newline="\n")
    shutil.copytree(course.ROOT / "images", folder / "images")
    pages = sum(file.endswith(".html") for file in files)
    print(f"{pages} pages: {folder / 'index.html'}")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=Path, default=course.ROOT / "_site", metavar="FOLDER")
    parser.add_argument("numbers", nargs="*", metavar="NN")
    chosen = parser.parse_args(arguments)
    os.environ["COURSE_STATIC_VIEWS"] = "1"
    os.environ.pop("COURSE_CHECKPOINT", None)
    build(chosen.to, chosen.numbers)


if __name__ == "__main__":
    main(sys.argv[1:])
