"""What an exported page needs so that it asks no server."""

import re

from latex2mathml.converter import convert
from nbconvert.preprocessors import Preprocessor

# Code, which stays as it is, or a formula: $$...$$ or $...$, which begins and ends with no space.
CODE_OR_FORMULA = re.compile(
    r"(?s)(?P<code>```.*?```|`[^`\n]+`)|\$\$(?P<block>.+?)\$\$|(?<![\\$])\$(?=\S)(?P<inline>[^$\n]+?)(?<=\S)\$(?!\d)"
)


def mathml(formula: str, display: str) -> str:
    """A formula of LaTeX as MathML. `display`: "inline" or "block"."""
    # Upright names such as softmax arrive as one element a letter, which would be set apart.
    apart = r"<mrow>((?:<mi mathvariant=\"normal\">\w</mi>){2,})</mrow>"
    formula = re.sub(r"(?<=\w) (?=\\(?:ln|log|sin|cos) )|(?<=ln|og|in|os) (?=\w)", r"\\, ", formula)
    made = convert(formula.replace("{,}", r"\text{,}"), display=display)
    return re.sub(apart, lambda letters: f"<mi>{re.sub('<[^>]+>', '', letters[1])}</mi>", made)


def formulas_to_mathml(text: str) -> str:
    """Markdown with each formula written as MathML."""

    def write(found):
        code, block, inline = found.groups()
        return code or mathml(block or inline, "block" if block else "inline")

    return CODE_OR_FORMULA.sub(write, text)


class FormulasToMathML(Preprocessor):
    """nbconvert's step that writes every formula of the Markdown cells as MathML."""

    enabled = True

    def preprocess_cell(self, cell, resources, index):
        if cell.cell_type == "markdown":
            cell.source = formulas_to_mathml(cell.source)
        return cell, resources
