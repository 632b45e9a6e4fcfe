"""The pages of the Python API and of its errors, from docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any

import mergewise
from mergewise import designs, errors, protocols, types
from scripts.reference.markup import code_block, documented, settings_table, signature, summary, table, wrapped

# Public names that are neither classes nor functions, and so have no docstring
OTHER_NAMES = {
    "MODES": "Modes by name.",
    "STRATEGIES": "Strategies by name.",
    "VIEWS": "Views by name.",
    "CAUSAL": "Need of a mode: a causal model.",
    "CHAT": "Need of a mode: a chat model.",
    "NO_MODEL": "Need of a mode: no model.",
    "LeafId": "Field type of a view's row: the number of a leaf of the same document.",
    "Progress": "Callback with the work done, the total work, and the name of the current document.",
    "RowId": "Field type of a view's row: the number of a row of the same view and document, from 0.",
    "TokenCounter": "Function from texts to the number of tokens of each.",
}
PUBLIC_MODULES = {
    mergewise: mergewise.__all__,
    designs: sorted({*designs.__all__} - {*mergewise.__all__, "DESIGNS", "PROMPTS"}),
    types: (
        "DocumentChange DocumentRows Duplicate Failure Heading LeafId Location Origin Page Problem PromptTemplate Reply RowId "
        "Rows Step Usage VectorCount"
    ).split(),
    protocols: ["CausalModel", "IndexReader", "NLLScorer", "PartEmbedder", "RowReader", "UtilityPredictor"],
}
"""Public names by the module that users import them from."""


def page() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# Python\n"
    yield "## mergewise.open\n"
    yield signature("mergewise.open", mergewise.open)
    yield documented(mergewise.open)
    yield "## Index\n"
    yield documented(mergewise.Index)
    for name, method in _methods(mergewise.Index):
        yield f"### Index.{name}\n"
        yield signature(name, method)
        yield documented(method)
    for module, names in PUBLIC_MODULES.items():
        listed = {name: getattr(module, name) for name in names if name not in ("open", "Index")}
        yield f"## Names in {module.__name__}\n"
        kept = {n: one for n, one in listed.items() if not (inspect.isclass(one) and issubclass(one, Exception))}
        rows = ((_linked(n, one), OTHER_NAMES.get(n) or summary(one)) for n, one in kept.items())
        yield table(("name", "meaning"), rows)
        for name, one in kept.items():
            if _has_section(one):
                yield from _section(name, one)


def _has_section(thing: Any) -> bool:
    return inspect.isfunction(thing) or inspect.isclass(thing)


def _linked(name: str, thing: Any) -> str:
    return f"[`{name}`](#{name.lower()})" if _has_section(thing) else f"`{name}`"


def _section(name: str, thing: Any) -> Iterator[str]:
    yield f"### {name}\n"
    if inspect.isfunction(thing):
        yield signature(name, thing)
    yield documented(thing)
    if is_dataclass(thing):
        yield settings_table(thing)  # type: ignore[arg-type]
    if inspect.isclass(thing):
        for method_name, method in _methods(thing):
            if inspect.getdoc(method):
                yield signature(f"{name}.{method_name}", method)
                yield documented(method)


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the public functions that a class defines itself."""
    for name, member in vars(kind).items():
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if inspect.isfunction(function) and not name.startswith("_"):
            yield name, function


def errors_page() -> str:
    introduction, _, tree = str(inspect.getdoc(errors)).partition("\n\n")
    rows = (
        (f"`{name}`", str(kind.exit_code), "yes" if kind.retryable else "no", summary(kind))
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, errors.MergewiseError)
    )
    head = ("error", "exit code", "retryable", "meaning")
    return "\n".join(
        ["# Errors\n", wrapped(introduction), code_block(tree, "text"), table(head, rows), wrapped(EXIT_CODES)]
    )


EXIT_CODES = """\
## Exit codes

The command line ends with 0 on success, 1 if something failed or nothing was found, 2 for a usage error, and 130 if it was
interrupted.
"""
