"""Machine-made mutants of the attempts: another operator, comparison, constant, call, keyword or name."""

import ast
import contextlib
import copy
import functools
import random
import sys
from pathlib import Path
from unittest import mock

from attempts import tables

PAIRS = [(ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.BitAnd, ast.BitOr), (ast.Lt, ast.LtE)]
PAIRS += [(ast.Gt, ast.GtE), (ast.Eq, ast.NotEq)]
SWAPS = {ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult}
SWAPS |= {one: other for pair in PAIRS for one, other in (pair, pair[::-1])}
parsed = functools.cache(lambda file: ast.parse(Path(file).read_text(encoding="utf-8")))
LIBRARIES = {"torch", "F", "nn", "np", "math", "super"}


def changes(node, names):
    """Yield what may stand in the place of a node of the syntax tree."""
    if isinstance(node, ast.BinOp):
        if type(node.op) in SWAPS:
            yield ast.BinOp(node.left, SWAPS[type(node.op)](), node.right)
        if not isinstance(node.op, ast.MatMult):
            yield node.left
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        yield ast.Compare(node.left, [SWAPS[type(node.ops[0])](), *node.ops[1:]], node.comparators)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield from (ast.Constant(node.value + step) for step in (1, -1))
    elif isinstance(node, ast.Constant) and isinstance(node.value, float):
        yield ast.Constant(node.value * 2)
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.Call):
        owner = getattr(node.func, "value", None)
        if isinstance(node.func, ast.Attribute) and getattr(owner, "id", None) not in LIBRARIES:
            yield owner
        for place in range(len(node.keywords)):
            yield ast.Call(node.func, node.args, node.keywords[:place] + node.keywords[place + 1 :])
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
        yield from (ast.Name(name, ast.Load()) for name in names if name not in (node.id, "self"))


def places(tree, attempt):
    """Yield each node of an attempt, with the names of the arguments around it."""
    code, name = (getattr(attempt, key, None) for key in ("__code__", "__name__"))
    kinds = ast.FunctionDef | ast.Lambda if code else ast.ClassDef
    for node in (node for node in ast.walk(tree) if isinstance(node, kinds)):
        if node.lineno == code.co_firstlineno if code else node.name == name:
            for function in ast.walk(node):
                if isinstance(function, ast.FunctionDef | ast.Lambda):
                    names = [argument.arg for argument in function.args.args]
                    body = function.body if isinstance(function.body, list) else [function.body]
                    yield from ((part, names) for step in body for part in ast.walk(step))
            return


def run(module, steps, exercise, place, name):
    """Return an attempt that these statements of a file define, by its name or its place among the right."""
    names = vars(module) | {"__name__": "attempts.mutated"}
    with contextlib.ExitStack() as afterwards:
        for table in (tables.RIGHT, tables.WRONG, tables.PEER, tables.FRESH):
            afterwards.enter_context(mock.patch.dict(table, clear=True))
        exec(compile(ast.fix_missing_locations(ast.Module(steps, [])), "<mutant>", "exec"), names)
        return names[name] if name in names else tables.RIGHT[exercise][place]


def mutants(exercise, count=None):
    """Yield (text, attempt): mutants of the right attempts at an exercise; so many of each, or all."""
    for place, attempt in enumerate(tables.RIGHT[exercise]):
        module, name = (getattr(attempt, key, None) for key in ("__module__", "__name__"))
        module = sys.modules.get(module)
        if not getattr(module, "__name__", "").startswith("attempts."):  # the library's own function
            continue
        tree = parsed(module.__file__)
        made = [(old, new) for old, names in places(tree, attempt) for new in changes(old, names)]
        if count is not None and len(made) > count:
            made = random.Random(f"{exercise} {place}").sample(made, count)
        texts = {step: ast.unparse(step) for step in tree.body if isinstance(step, ast.Assign | ast.Expr)}
        for old, new in made:
            (step,) = (step for step in tree.body if step.lineno <= old.lineno <= step.end_lineno)
            steps, call = [step], f"{getattr(step, 'name', '=')}("  # and where its result goes
            if name not in vars(module):
                used = (other for other, text in texts.items() if text.startswith(f"right({exercise!r},"))
                made_by = (other for other, text in texts.items() if call in text.partition(" = ")[2])
                steps = sorted({step, *used, *made_by}, key=lambda step: step.lineno)
            steps = [copy.deepcopy(step, {id(old): new}) for step in steps]  # with new in old's place
            text = f"{ast.unparse(old)} => {ast.unparse(new)}"
            yield f"{name or exercise}, line {old.lineno}: {text}", run(module, steps, exercise, place, name)
