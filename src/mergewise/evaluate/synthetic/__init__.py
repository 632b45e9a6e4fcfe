"""Questions made from the documents of an index, for those who have none of their own yet.

Without a model, rules ask for slots of triplets, definitions and headings. A chat model writes better questions. Each question
marks its evidence word for word.
"""

from __future__ import annotations

from mergewise.evaluate.synthetic.make import make_questions
from mergewise.evaluate.synthetic.records import MadeQuestion, write_questions

__all__ = ["MadeQuestion", "make_questions", "write_questions"]
