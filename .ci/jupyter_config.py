"""`make environment` copies this file to where Jupyter reads it, so that exported pages ask no server.

Left alone, `jupyter nbconvert --to html` and JupyterLab's "Save and Export Notebook As" make pages that fetch
require.js and MathJax. No notebook of the course needs the first, and formulas are written as MathML, which
browsers show by themselves.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(sys.prefix).parent / ".ci"))

from offline import FormulasToMathML

c = get_config()  # noqa: F821  (Jupyter defines it)
c.HTMLExporter.require_js_url = c.HTMLExporter.mathjax_url = "data:text/javascript,"
c.HTMLExporter.preprocessors = [FormulasToMathML]
