"""Custom prompts: a folder of text files, each named after the template that it replaces.

    prompts/answer.txt       prompts/markers.txt       prompts/refusal.txt

Prompts are checked on loading: unknown or missing placeholders would otherwise show up only in a model's answers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from string import Template

from mergewise.errors import UsageError
from mergewise.ranges import short_repr
from mergewise.types import AnyPath, Prompts, PromptTemplate

SUFFIX = ".txt"
LONGEST = 100_000
"""Maximum characters of a prompt."""


def load_prompts(given: AnyPath | Mapping[str, str], known: Mapping[str, PromptTemplate]) -> Prompts:
    """Load the prompts in a folder, or take texts by name. A text equal to the built-in one is skipped.

    Raises UsageError, with file and line, for an unknown name, an invalid text, and an unknown or missing placeholder.
    """
    if not isinstance(given, str | os.PathLike | Mapping):
        raise UsageError(f"invalid prompts: {short_repr(given)}", "give a folder, or a dictionary of texts by name")
    texts = {(name, name): text for name, text in given.items()} if isinstance(given, Mapping) else _read(Path(given))
    own: dict[str, str] = {}
    for (name, where), text in texts.items():
        if name not in known:
            raise UsageError(f"{where}: unknown prompt: {name!r}", f"one of: {', '.join(known)}")
        if not isinstance(text, str) or not text.strip() or len(text) > LONGEST:
            raise UsageError(f"{where}: invalid prompt", f"give a text of up to {LONGEST:,} characters")
        _check(text, known[name], where)
        if text.rstrip() != known[name].text:
            own[name] = text.rstrip()
    return Prompts(own)


def _read(folder: Path) -> dict[tuple[str, str], str]:
    """Read the texts of a folder, by name and file."""
    hint = "give a folder of prompts. `mergewise prompts --out DIR` creates one"
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == SUFFIX and path.is_file())
    except OSError as error:
        raise UsageError(f"no prompts in {folder}: {error.strerror}", hint) from None
    if not files:
        raise UsageError(f"no prompts in {folder}", hint)
    texts = {}
    for path in files:
        try:
            with path.open(encoding="utf-8") as file:
                texts[path.stem, str(path)] = file.read(LONGEST + 1)
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}", hint) from None
    return texts


def _check(text: str, template: PromptTemplate, where: str) -> None:
    allowed = (*template.needs, *template.may)
    listed = ", ".join(f"${name}" for name in allowed) or "none"
    hint = f"placeholders of this prompt: {listed}; $$ is a dollar sign"
    found = set()
    for match in Template.pattern.finditer(text):
        name = match["named"] or match["braced"]
        if match["escaped"] is None and name not in allowed:
            line = text.count("\n", 0, match.start()) + 1
            raise UsageError(f"{where}, line {line}: unknown placeholder {match[0]!r}", hint)
        found.add(name)
    if missing := [name for name in template.needs if name not in found]:
        raise UsageError(f"{where}: missing placeholder ${missing[0]}", hint)


def write_prompts(folder: Path, known: Mapping[str, PromptTemplate]) -> list[Path]:
    """Write the built-in prompts into a folder as a starting point. Existing files are kept. Returns the new files."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fresh = [path for name in known if not (path := folder / f"{name}{SUFFIX}").exists()]
        for path in fresh:
            path.write_text(f"{known[path.stem].text}\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}", "name another folder") from None
    return fresh
