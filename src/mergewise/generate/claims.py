"""Whether the sources that a statement of an answer cites support it (`mergewise.text.support`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mergewise.generate.sources import Source
from mergewise.text.support.judge import Judge
from mergewise.text.support.sources import Extract, ReadSource
from mergewise.text.terms import content_terms


class Claims:
    """Holds statements to the sources whose numbers they cite, or to all of them where they cite none."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = {source.number: source for source in sources}
        self._judge: Judge[int] = Judge(lambda number: _read(self._sources[number]))

    def supported(
        self, statement: str, numbers: Collection[int], quotations: Sequence[str] | None = None
    ) -> bool | None:
        """Whether the sources support the statement, and hold the quotations; None where there is nothing to judge.

        The quotations are those in the statement, unless they are given.
        """
        if not self._sources or not content_terms(statement):
            return None
        return bool(self._judge.judge(statement, self._cited(numbers), quotations).support)

    def related(self, text: str, numbers: Collection[int]) -> bool:
        """Whether the sources hold two content words of the text, or half of them."""
        return self._judge.is_related(text, self._cited(numbers))

    def _cited(self, numbers: Collection[int]) -> list[int]:
        return list(numbers or self._sources)


def _read(source: Source) -> ReadSource:
    return ReadSource.of([Extract(text, 0, len(text)) for _, text in source.parts], source.path)
