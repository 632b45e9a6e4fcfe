"""Guess the test files for a source file from names and imports, for a quick run without a map."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path


def likeliest(tree: Path, path: str, function: str, files: Iterable[str], most: int) -> list[str]:
    """Return the test files closest to a source file: they import it, mirror its path, or name its function."""
    parts = path.removesuffix(".py").removesuffix("__init__").strip("/").split("/")
    scores = {file: _nearness((tree / file).read_text(encoding="utf-8"), file, parts, function) for file in files}
    nearest = sorted(
        (file for file in scores if scores[file] > 0), key=lambda file: (-scores[file], file.count("/"), file)
    )
    return (nearest or sorted(file for file in scores if file.count("/") == 1))[:most]


def _nearness(text: str, file: str, parts: list[str], function: str) -> float:
    package, name = ".".join(["mergewise", *parts[:-1]]), re.escape(parts[-1])
    score = 0.0
    if not parts[-1]:  # the package itself
        return float(bool(re.search(r"^import mergewise|^from mergewise import", text, re.M)))
    if re.search(
        rf"(from|import) {re.escape(package)}\.{name}\b|from {re.escape(package)} import [^\n]*\b{name}\b", text
    ):
        score += 4
    elif re.search(rf"(from|import) {re.escape(package)}\b", text) and len(parts) > 1:
        score += 2
    places = set(re.split(r"[/_]", file.removesuffix(".py")))
    score += 2 * (set(parts[-1].split("_")) <= places) + sum(part in places for part in parts[:-1])
    names = [one for one in function.split(".") if len(one.strip("_")) > 3]
    return score + sum(bool(re.search(rf"\b{re.escape(one)}\b", text)) for one in names)
