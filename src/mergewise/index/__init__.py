"""The way from documents to rows: reading, splitting, embedding and writing, in one process or several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mergewise.lazy import lazy_names

if TYPE_CHECKING:
    from mergewise.index.cluster import executors_of as executors_of
    from mergewise.index.contents import IndexContents as IndexContents
    from mergewise.index.contents import contents_of as contents_of
    from mergewise.index.executors import Executors as Executors

__getattr__ = lazy_names(
    __name__, {"cluster": "executors_of", "contents": "IndexContents contents_of", "executors": "Executors"}
)
