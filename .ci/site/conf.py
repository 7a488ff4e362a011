"""Sphinx's settings for the pages of the course. build.py starts Sphinx."""

from functools import partial

from docutils.nodes import SkipNode

import course
from offline import mathml

html_title = course.README.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
copyright = "the authors of the course. Code: MIT. Text and drawings: CC BY 4.0"

extensions = ["myst_nb"]
nb_execution_mode = "off"  # build.py has run the notebooks
myst_enable_extensions = ["dollarmath", "html_image", "attrs_inline"]
myst_heading_anchors = 4
nitpick_ignore_regex = [("myst", "cell-id=.*")]  # Sphinx knows no cells; tests/test_site.py follows them

html_theme = "sphinx_book_theme"
html_theme_options = {
    "repository_url": f"https://github.com/{course.repository()}",
    "use_repository_button": True,
    "use_download_button": False,
    "launch_buttons": {
        "colab_url": "https://colab.research.google.com",
        "binderhub_url": "https://mybinder.org",
        "notebook_interface": "jupyterlab",
    },
    "pygments_dark_style": "github-dark",
    "navbar_persistent": [],  # else the search stands there twice: sphinx-book-theme issue 986
    "footer_content_items": ["copyright.html"],
}
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
html_static_path = ["static"]
html_css_files = ["course.css"]
html_js_files = ["course.js", "bert.js"]
html_favicon = "static/icon.svg"
html_math_renderer = "mathml"  # which browsers show by themselves; MathJax would be fetched

# A course that is not published has links that lead nowhere yet.
linkcheck_ignore = [f"https://.*{course.repository()}"] if course.repository().startswith("-") else []


def write(place, writer, node):
    writer.body.append(f"{mathml(node.astext(), place)}\u2060")  # what ends a sentence stays on its line
    raise SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", *((partial(write, place), None) for place in ("inline", "block")))
