from __future__ import annotations

from mergewise.designs.strategies import assemble
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.types import Document
from tests.support import ScriptedReader, memory_store

STORE = memory_store(
    [
        Document(
            id="d", title="D", text="First here now, with some words to it.\n\nThen second, with more words to it.\n"
        )
    ]
)


def test_topk_by_score_and_in_document_order() -> None:
    reader = ScriptedReader(STORE, {0: 0.5, 1: 0.9})
    by_score = assemble("topk(order=score)", "q", reader, 100, Models(count_tokens))
    assert by_score.text.index("second") < by_score.text.index("First")
    dos = assemble("dos", "q", reader, 100, Models(count_tokens))
    assert dos.text.index("First") < dos.text.index("second")
    assert len(assemble("topk(k=1)", "q", reader, 100, Models(count_tokens)).passages[0].spans) == 1
