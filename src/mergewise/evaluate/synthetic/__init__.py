"""Questions made from the documents of an index, for users without questions of their own.

Rules make questions about slots of triplets, definitions and headings. A chat model writes better questions. The evidence of each
question is quoted word for word.
"""

from __future__ import annotations

from mergewise.evaluate.synthetic.make import make_questions
from mergewise.evaluate.synthetic.records import MadeQuestion, write_questions

__all__ = ["MadeQuestion", "make_questions", "write_questions"]
