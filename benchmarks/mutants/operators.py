"""Mutation operators. Each takes a node of the syntax tree and returns possible replacements."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

KINDS = (
    "comparison", "boundary", "arithmetic", "boolean", "not", "constant", "statement", "call", "argument", "return",
    "extremum", "order", "slice", "filter",
)  # fmt: skip

OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
}  # fmt: skip
BESIDE: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
OTHER_SIGN: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult,
}  # fmt: skip
EXTREMA = {"min": "max", "max": "min", "any": "all", "all": "any"}
UNWRAPPED = {"sorted", "reversed", "abs", "set", "list", "tuple", "dict", "str", "int", "float", "round", "frozenset"}
# Swapping their two arguments changes nothing, or breaks every call.
SYMMETRIC = {"min", "max", "isinstance", "issubclass"}
TRIMMED = {"strip", "lstrip", "rstrip", "lower", "casefold", "copy", "resolve", "absolute"}
TEXTS = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp)


@dataclass(frozen=True)
class Change:
    """One change of one file: the text at some offsets, and its replacement."""

    kind: str
    function: str  # qualified name of the enclosing function or class, "" at module level
    line: int
    start: int
    end: int
    was: str
    becomes: str

    def applied(self, source: str) -> str:
        return source[: self.start] + self.becomes + source[self.end :]


def changes(source: str) -> list[Change]:
    """Return every change by some operator, in the order of the text."""
    tree = ast.parse(source)
    offsets = _line_offsets(source)
    found = []
    for node, function in _nodes(tree, ()):
        for kind, new in _replacements(node):
            start = offsets(node.lineno, node.col_offset)
            end = offsets(node.end_lineno or node.lineno, node.end_col_offset or 0)
            becomes = ast.unparse(ast.fix_missing_locations(new))
            if isinstance(new, ast.expr) and not isinstance(new, ast.Constant | ast.Name | ast.Call | ast.Attribute):
                becomes = f"({becomes})"
            found.append(Change(kind, function, node.lineno, start, end, source[start:end], becomes))
    return sorted(found, key=lambda change: (change.start, change.end, change.kind, change.becomes))


def _line_offsets(source: str) -> Callable[[int, int], int]:
    """Return a function from the parser's line and byte column to an offset in characters."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    return lambda line, column: starts[line - 1] + len(lines[line - 1].encode()[:column].decode())


def _nodes(node: ast.AST, inside: tuple[str, ...]) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Yield statements and expressions that run: no annotations, docstrings, f-strings or error messages."""
    for child in _children(node):
        if isinstance(child, ast.JoinedStr) or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)):
            continue
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if any("Protocol" in ast.dump(base) for base in getattr(child, "bases", ())):
                continue
            yield from _nodes(child, (*inside, child.name))
            continue
        if isinstance(child, ast.expr | ast.stmt):
            yield child, ".".join(inside)
        if not isinstance(child, ast.Raise):
            yield from _nodes(child, inside)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child


def _replacements(node: ast.expr | ast.stmt) -> Iterator[tuple[str, ast.expr | ast.stmt]]:
    for operator in OPERATORS.get(type(node), ()):
        yield from operator(node)


def _compare(node: ast.Compare) -> Iterator[tuple[str, ast.expr]]:
    for kind, table in (("comparison", OPPOSITE), ("boundary", BESIDE)):
        for at, sign in enumerate(node.ops):
            if type(sign) in table:
                new = copy.deepcopy(node)
                new.ops[at] = table[type(sign)]()
                yield kind, new


def _arithmetic(node: ast.BinOp) -> Iterator[tuple[str, ast.expr]]:
    texts = any(isinstance(side, TEXTS) or _is_text(side) for side in (node.left, node.right))
    if type(node.op) in OTHER_SIGN and not texts:
        new = copy.deepcopy(node)
        new.op = OTHER_SIGN[type(node.op)]()
        yield "arithmetic", new


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _boolean(node: ast.BoolOp) -> Iterator[tuple[str, ast.expr]]:
    new = copy.deepcopy(node)
    new.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield "boolean", new
    for at in range(len(node.values)):  # leave out one operand
        rest = copy.deepcopy(node.values[:at] + node.values[at + 1 :])
        yield "boolean", rest[0] if len(rest) == 1 else ast.BoolOp(copy.deepcopy(node.op), rest)


def _not(node: ast.UnaryOp) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node.op, ast.Not):
        yield "not", copy.deepcopy(node.operand)


def _constant(node: ast.Constant) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node.value, bool):
        yield "constant", ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield "constant", ast.Constant(node.value + 1)
        if node.value > 0:
            yield "constant", ast.Constant(node.value - 1)
    elif isinstance(node.value, float):
        yield "constant", ast.Constant(node.value * 1.25 if node.value else 0.25)
        yield "constant", ast.Constant(node.value * 0.75 if node.value else 1.0)


def _statement(node: ast.stmt) -> Iterator[tuple[str, ast.stmt]]:
    if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Call | ast.Await | ast.Yield | ast.YieldFrom):
        return  # a docstring, or the dots of a protocol
    yield "statement", ast.Pass()


def _call(node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in EXTREMA:
        yield "extremum", _called(node, func=ast.Name(EXTREMA[name], ast.Load()))
    if name in UNWRAPPED and len(node.args) == 1 and not isinstance(node.args[0], ast.Starred | ast.GeneratorExp):
        yield "call", copy.deepcopy(node.args[0])
    if isinstance(node.func, ast.Attribute) and node.func.attr in TRIMMED and not node.args and not node.keywords:
        yield "call", copy.deepcopy(node.func.value)
    if len(node.args) > 1 and name not in SYMMETRIC and not any(isinstance(arg, ast.Starred) for arg in node.args[:2]):
        first, second, *rest = copy.deepcopy(node.args)
        if ast.dump(first) != ast.dump(second):
            yield "argument", _called(node, args=[second, first, *rest])
    for at, keyword in enumerate(node.keywords):
        if keyword.arg is not None:
            kind = "order" if keyword.arg in ("key", "reverse") else "argument"
            yield kind, _called(node, keywords=copy.deepcopy(node.keywords[:at] + node.keywords[at + 1 :]))


def _called(node: ast.Call, **fields: object) -> ast.Call:
    new = copy.deepcopy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _return(node: ast.Return) -> Iterator[tuple[str, ast.stmt]]:
    if isinstance(node.value, ast.Compare | ast.BoolOp):
        yield "return", ast.Return(ast.UnaryOp(ast.Not(), copy.deepcopy(node.value)))
    elif node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
        yield "return", ast.Return(ast.Constant(None))


def _slice(node: ast.Subscript) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node.slice, ast.Slice):
        for bound in ("lower", "upper", "step"):
            if getattr(node.slice, bound) is not None:
                new = copy.deepcopy(node)
                setattr(new.slice, bound, None)
                yield "slice", new


def _filter(node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> Iterator[tuple[str, ast.expr]]:
    for at, loop in enumerate(node.generators):
        if loop.ifs:
            new = copy.deepcopy(node)
            new.generators[at].ifs = []
            yield "filter", new


OPERATORS: dict[type[ast.AST], tuple[Callable[..., Iterator[tuple[str, ast.expr | ast.stmt]]], ...]] = {
    ast.Compare: (_compare,),
    ast.BinOp: (_arithmetic,),
    ast.BoolOp: (_boolean,),
    ast.UnaryOp: (_not,),
    ast.Constant: (_constant,),
    ast.Expr: (_statement,),
    ast.AugAssign: (_statement,),
    ast.Raise: (_statement,),
    ast.Continue: (_statement,),
    ast.Break: (_statement,),
    ast.Call: (_call,),
    ast.Return: (_return,),
    ast.Subscript: (_slice,),
    ast.ListComp: (_filter,),
    ast.SetComp: (_filter,),
    ast.DictComp: (_filter,),
    ast.GeneratorExp: (_filter,),
}
