"""Questions made from the documents of an index, for those who have none of their own yet.

Without a model they are made by rules: slots of triplets, two of them in a chain, names left out of a sentence that another one
can fill, definitions, and headings. A chat model writes better ones. Each has its evidence marked, word for word.
"""

from __future__ import annotations

from mergewise.evaluate.made.make import make_questions
from mergewise.evaluate.made.records import MadeQuestion, write_questions

__all__ = ["MadeQuestion", "make_questions", "write_questions"]
