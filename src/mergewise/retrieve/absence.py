"""Names of a question that occur in no document of the index, within the question's filter.

The names that the context shows are not searched. For each other name, one text search returns the leaves with all its words.
"""

from __future__ import annotations

import re

from mergewise.index.tree.tables import LEAF
from mergewise.protocols import StoreReader
from mergewise.text.question_names import AskedName, asked_names
from mergewise.text.sections import search_key
from mergewise.text.support.names import initials
from mergewise.types import Context, Leaf

MOST_LEAVES = 64
"""Maximum leaves with all words of a name that are read. With more, the name counts as occurring."""
LONGEST_WORD = 40  # characters: the text index leaves out longer words

_WORD = re.compile(r"[^\W_]+")


def absent_names(context: Context, store: StoreReader, where: str | None) -> tuple[AskedName, ...]:
    """Return the names of the context's question that occur in no document that meets the condition."""
    if not context.passages and not store.ids(where):
        return ()
    shown = "\n".join(search_key(passage.title, passage.headings, passage.text) for passage in context.passages)
    names = [
        name
        for name in asked_names(context.question)
        if name.is_searchable and not name.is_in(shown) and name.text not in initials([shown])
    ]
    return tuple(name for name in names if _is_absent(name, store, where))


def _is_absent(name: AskedName, store: StoreReader, where: str | None) -> bool:
    # an index keeps camelCase as one word, and divides words at other signs
    spellings = dict.fromkeys((name.text, " ".join(name.parts), "".join(name.parts)))
    if any(len(word) > LONGEST_WORD for spelling in spellings for word in _WORD.findall(spelling)):
        return False
    searches = [store.text_search(spelling, MOST_LEAVES, where, every=True) for spelling in spellings]
    for ranking in (search.result() for search in searches):
        if len(ranking) >= MOST_LEAVES:
            return False
        leaves = store.rows(LEAF.name, Leaf, [row for row, _ in ranking]).values()
        if any(name.is_in(search_key(leaf.title, leaf.headings, leaf.text)) for leaf in leaves):
            return False
    return not any(name.is_in(doc_id) for doc_id in store.ids(where))
