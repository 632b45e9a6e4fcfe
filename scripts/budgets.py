"""The size of the code by room, the options of each command and the public names, kept in `tests/budgets.toml`.

python -m scripts.budgets          print what is over its budget
python -m scripts.budgets --write  make today's sizes the budgets
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

import typer

import mergewise
from mergewise.cli.main import app

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/mergewise"
PATH = ROOT / "tests/budgets.toml"
MARGIN = 1.05
_CLOSING = frozenset(")]}:,")
_NOT_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def sizes() -> dict[str, dict[str, int]]:
    """Count the code lines of each room, the options of each command and the public names."""
    rooms: Counter[str] = Counter()
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).parts
        deep = 2 if parts[0] == "designs" and len(parts) > 2 else 1
        rooms["/".join(parts[:deep]) if len(parts) > 1 else "top"] += code_lines(path.read_text(encoding="utf-8"))
    return {"rooms": dict(rooms), "options": options(), "names": {"mergewise": len(mergewise.__all__)}}


def code_lines(source: str) -> int:
    """Count the lines that hold code: no blank lines, comments, docstrings, imports or closing brackets alone."""
    skipped: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                skipped.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    held: set[int] = set()
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NOT_CODE:
            held.update(range(token.start[0], token.end[0] + 1))
    return sum(number not in skipped and not _CLOSING.issuperset(lines[number - 1].strip()) for number in held)


def options() -> dict[str, int]:
    """Count the options of each command, `--help` aside."""
    counts: dict[str, int] = {}
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        for full, one in ({name: command} if inner is None else {f"{name} {k}": v for k, v in inner.items()}).items():
            counts[full] = sum(p.param_type_name == "option" and p.name != "help" for p in one.params)
    return counts


def overruns(now: dict[str, dict[str, int]], budgets: dict[str, dict[str, int]]) -> list[str]:
    """Name what is more than 5 % over its budget, or has none, with where to look."""
    found = []
    for kind, counts in now.items():
        for name, count in counts.items():
            budget = budgets.get(kind, {}).get(name)
            if budget is None or count > budget * MARGIN:
                found.append(f"{kind}: {name} has {count}, budget {budget}; {_HINTS[kind].format(name=name)}")
    return found


_HINTS = {
    "rooms": "look in src/mergewise/{name} for a second implementation of something that exists",
    "options": "move an option of `mergewise {name}` to cli/settings.py, where mergewise.toml sets it",
    "names": "leave a name in its module: mergewise.types, mergewise.protocols, mergewise.errors",
}


def write(now: dict[str, dict[str, int]]) -> None:
    tables = []
    for kind, counts in now.items():
        lines = [f'"{name}" = {count}' for name, count in sorted(counts.items())]
        tables.append("\n".join([f"[{kind}]", *lines]))
    text = "# Made by `python -m scripts.budgets --write`: code lines by room, options by command, public names.\n\n"
    PATH.write_text(text + "\n\n".join(tables) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if "--write" in sys.argv:
        write(sizes())
    else:
        import tomllib

        print(*overruns(sizes(), tomllib.loads(PATH.read_text(encoding="utf-8"))), sep="\n")
