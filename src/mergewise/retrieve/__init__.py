"""The search that all strategies share: full text and vectors, fused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mergewise.lazy import lazy_names

if TYPE_CHECKING:
    from mergewise.retrieve.hybrid import HybridReader as HybridReader
    from mergewise.retrieve.hybrid import ReaderArguments as ReaderArguments
    from mergewise.retrieve.hybrid import SearchSettings as SearchSettings

__getattr__ = lazy_names(__name__, {"hybrid": "HybridReader ReaderArguments SearchSettings"})
