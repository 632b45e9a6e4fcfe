"""Larger pools: the questions of a set over its own documents and those of other sets, as distractors.

python -m benchmarks.widened --to DIR SET OTHER...      e.g. bench/musique bench/hotpotqa bench/2wiki pools/2wiki

A document of another set is left out if the pool already has it, or if its title is the title of a document of the first set:
both may cover the same subject, but only one counts as gold. The result is a set in the format of `mergewise eval`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.joined import write
from mergewise import Document
from mergewise.evaluate.loaders import load_question_set
from mergewise.evaluate.question_sets import QuestionSet


def widened(task: QuestionSet, others: Sequence[QuestionSet]) -> QuestionSet:
    """Return the question set over the documents of all sets. Ids from other sets get the name of their set as a prefix."""
    titles = {_letters(document.title) for document in task.documents} - {""}
    texts = {_letters(document.text) for document in task.documents}
    documents = list(task.documents)
    for number, other in enumerate(others, 1):
        for document in other.documents:
            text = _letters(document.text)
            if text not in texts and _letters(document.title) not in titles:
                texts.add(text)
                documents.append(Document(f"{number}-{document.id}", document.text, document.title))
    return replace(task, name=f"{task.name}-{len(documents)}", documents=tuple(documents))


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", type=Path)
    parser.add_argument("others", type=Path, nargs="*")
    parser.add_argument("--to", type=Path, required=True)
    options = parser.parse_args()
    task = widened(load_question_set(options.set), [load_question_set(other) for other in options.others])
    write(task, options.to)
    print(f"{len(task.documents)} documents and {len(task.questions)} questions at {options.to}")


if __name__ == "__main__":
    main()
