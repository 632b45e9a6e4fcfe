"""Pages to look at, written to a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mergewise.cli.output import say_aside
from mergewise.errors import UsageError
from mergewise.types import Answer, Context

if TYPE_CHECKING:
    from mergewise.engine import Index


def write_page(path: Path | None, shown: Answer | Context | Sequence[tuple[Context, float]], index: Index) -> None:
    """Write the page of what is shown, where a file was named, and say so."""
    if path is None:
        return
    page = _page(shown, index)
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", "name a file in a folder that exists") from None
    say_aside(f"page: {path}")


def _page(shown: Answer | Context | Sequence[tuple[Context, float]], index: Index) -> str:
    from mergewise.page import answer_page, comparison_page, context_page

    if isinstance(shown, Answer):
        return answer_page(shown, document=index.document, count_tokens=index.tokens)
    if isinstance(shown, Context):
        return context_page(shown, document=index.document, count_tokens=index.tokens)
    return comparison_page(shown, document=index.document, count_tokens=index.tokens)
