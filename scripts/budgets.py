"""Budgets of the code in `tests/budgets.toml`: they fall by themselves, and rise only with a reason.

python -m scripts.budgets          print everything over its budget
python -m scripts.budgets --write  lower each budget to the present size

To raise a budget, add a rise by hand, with its reason:

[[rises]]
budget = "tokens.readers"
by = 900
reason = "Tables keep their columns"
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

import mergewise
from mergewise.cli.main import app

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/mergewise"
PATH = ROOT / "tests/budgets.toml"
MARGIN = 1.02
"""Factor by which a room may exceed its budget. Other budgets have no margin."""
PUBLIC = {"mergewise", "mergewise.types", "mergewise.protocols", "mergewise.errors", "mergewise.extend"}
ON_THE_ENGINE = ("agents", "server", "evaluate", "integrations", "cli", "cluster")
_NOT_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_HINTS = {
    "tokens": "look in src/mergewise/{name} for a second implementation of something that exists",
    "options": "move an option of `mergewise {name}` to cli/settings.py, where mergewise.toml sets it",
    "names": "leave a name in its module: mergewise.types, mergewise.protocols, mergewise.errors",
    "shares": "write a private function that is used once into its caller",
    "private_imports": "import a public name of `mergewise.extend` in src/mergewise/{name}",
}


def sizes() -> dict[str, dict[str, int]]:
    """Measure the code.

    Returns:
        Tokens of code by room and in all, options of commands, public names, the percentage of functions that are private and
        named once besides their definition, and the private names of the engine that each room above it imports.
    """
    rooms: Counter[str] = Counter()
    imports = Counter(dict.fromkeys(ON_THE_ENGINE, 0))
    functions = once = 0
    for path in sorted(SOURCE.rglob("*.py")):
        parts, source = path.relative_to(SOURCE).parts, path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        deep = 2 if parts[0] == "designs" and len(parts) > 2 else 1
        tokens = count_tokens(source)
        rooms["/".join(parts[:deep]) if len(parts) > 1 else "top"] += tokens
        rooms["all"] += tokens
        words = Counter(re.findall(r"\b_\w+", source))
        named = [one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        functions += len(named)
        once += sum(words[name] == 2 for name in named if not name.startswith("__"))
        if parts[0] in ON_THE_ENGINE:
            imports[parts[0]] += sum(1 for _ in private_imports(tree))
    return {
        "tokens": dict(rooms),
        "options": options(),
        "names": {"mergewise": len(mergewise.__all__)},
        "shares": {"functions named once": round(100 * once / functions)},
        "private_imports": dict(imports),
    }


def count_tokens(source: str) -> int:
    """Count the tokens of code: no comments, docstrings, imports or line ends."""
    skipped: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import() | ast.ImportFrom():
                skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                if ast.get_docstring(node, clean=False):
                    skipped.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return sum(token.type not in _NOT_CODE and token.start[0] not in skipped for token in tokens)


def private_imports(tree: ast.AST) -> Iterator[str]:
    """Yield the names of the engine that a module imports from elsewhere than `PUBLIC`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "mergewise":
            room = f"{node.module}.".split(".")[1]
            if node.module not in PUBLIC and room not in ON_THE_ENGINE:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def options() -> dict[str, int]:
    """Count the options of each command and of all commands, `--help` aside."""
    counts: dict[str, int] = {}
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        for full, one in ({name: command} if inner is None else {f"{name} {k}": v for k, v in inner.items()}).items():
            counts[full] = sum(p.param_type_name == "option" and p.name != "help" for p in one.params)
    return {**counts, "all": sum(counts.values())}


def overruns(now: Mapping[str, Mapping[str, int]], kept: Mapping[str, Any]) -> list[str]:
    """Name everything that is over its budget, or has none, with a hint."""
    found = []
    for kind, counts in now.items():
        for name, count in counts.items():
            budget = kept.get(kind, {}).get(name, 0) + risen(kept, kind, name)
            if count > (budget * MARGIN if kind == "tokens" and name != "all" else budget):
                found.append(f"{kind}: {name} has {count}, budget {budget}; {_HINTS[kind].format(name=name)}")
    return found


def risen(kept: Mapping[str, Any], kind: str, name: str) -> int:
    """Sum up the rises of a budget. Raises ValueError for a rise without a reason."""
    own = [rise for rise in kept.get("rises", []) if rise["budget"] == f"{kind}.{name}"]
    if any(not rise.get("reason") for rise in own):
        raise ValueError(f"a rise of {kind}.{name} has no reason")
    return sum(rise["by"] for rise in own)


def lowered(now: Mapping[str, Mapping[str, int]], kept: Mapping[str, Any]) -> str:
    """Return the text of `budgets.toml` with each budget lowered to the present size. No budget rises."""
    head, _, rises = PATH.read_text(encoding="utf-8").partition("[[rises]]")
    comment = "".join(line for line in head.splitlines(keepends=True) if line.startswith("#"))
    tables = [comment]
    for kind, counts in now.items():
        left = {name: count - risen(kept, kind, name) for name, count in sorted(counts.items())}
        least = {name: min(count, kept.get(kind, {}).get(name, 0)) for name, count in left.items()}
        tables.append("\n".join([f"[{kind}]", *(f'"{name}" = {count}' for name, count in least.items()), ""]))
    return "\n".join([*tables, *([f"[[rises]]{rises}"] if rises else [])])


if __name__ == "__main__":
    present, budgets = sizes(), tomllib.loads(PATH.read_text(encoding="utf-8"))
    if "--write" in sys.argv:
        PATH.write_text(lowered(present, budgets), encoding="utf-8")
    print(*overruns(present, budgets), sep="\n")
