"""A concept is defined in full in its home notebook and stands, the same, in utils. There is no third copy."""

import ast
import functools
from pathlib import Path

import pytest

import course

ROOT = Path(__file__).parent.parent
# What the course teaches by writing it, and the notebook that writes it.
HOMES = {
    "02": ["attention_scores"],
    "03": ["masked_softmax", "scaled_dot_product_attention", "causal_mask", "padding_mask", "convert_mask"],
    "04": ["AttentionHead", "MultiHeadAttentionList", "split_heads", "merge_heads", "MultiHeadAttention"],
    "05": [
        "layer_norm",
        "FeedForward",
        "LayerAttention",
        "EncoderLayer",
        "Embeddings",
        "position_angles",
        "sinusoidal_positions",
        "RelativeAttention",
        "rotate",
        "RotaryAttention",
        "EncoderOutput",
        "Encoder",
        "SequenceClassifier",
    ],
    "07": ["pattern_targets", "weight_on", "score_patterns", "best_heads"],
    "09": [
        "DecoderLayer",
        "DecoderOutput",
        "Decoder",
        "EncoderDecoderOutput",
        "EncoderDecoder",
        "next_token_loss",
        "project_new",
        "project_once",
        "key_value_cache",
        "next_logits",
        "Decoded",
        "greedy_decode",
    ],
    "10": ["merge_pieces", "zero_heads"],
}


def definitions(source):
    """Name and syntax tree of every function and class at the top level, without docstrings and comments."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            for part in ast.walk(node):
                if isinstance(part, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(part) is not None:
                    part.body = part.body[1:]
            found[node.name] = ast.dump(node)
    return found


@functools.cache
def of_rooms():
    rooms = {}
    for file in sorted((ROOT / "utils").glob("*.py")):
        rooms |= definitions(file.read_text(encoding="utf-8"))
    return rooms


@functools.cache
def of_notebooks():
    """(notebook, name, tree) of every definition in a code cell."""
    return [
        (path.name[:2], name, tree)
        for path in course.paths()
        for cell in course.read(path).cells
        if cell.cell_type == "code"
        for name, tree in definitions(cell.source).items()
    ]


@pytest.mark.parametrize(
    "number, name", [(number, name) for number, names in HOMES.items() for name in names]
)
def test_home_notebook_defines_what_utils_holds(number, name):
    homes = [(home, tree) for home, defined, tree in of_notebooks() if defined == name]
    assert [home for home, _ in homes] == [number], f"{name} is at home in notebook {number}, once"
    assert homes[0][1] == of_rooms()[name], f"{name} differs between notebook {number} and utils"


def test_no_notebook_defines_a_name_of_utils_in_its_own_way():
    rooms = of_rooms()
    for number, name, tree in of_notebooks():
        assert name not in rooms or tree == rooms[name], f"{name} of notebook {number} differs from utils"


def test_comparison_sees_a_changed_line():
    one = "def f(x):\n    '''Say.'''\n    return x + 1  # why\n"
    assert definitions(one) == definitions("def f(x):\n    return x + 1\n")
    assert definitions(one) != definitions("def f(x):\n    return x + 2\n")
