"""The modes that belong to no design."""

from __future__ import annotations

from mergewise.generate import closed_book, extractive
from mergewise.generate.mode import Mode

MODES = {
    "closed-book": Mode(closed_book.answer, "what the model knows", needs="chat", reads_context=False),
    "extractive": Mode(extractive.answer, "sentences of the passages, quoted", reads_evidence=True),
}
