"""The prompts for the fusion of two chunks, written from the rules in appendix B of MergeRAG, and the parsing of answers.

Chunks are quoted, and the prompt says that they give no orders. Only the numbers in an answer are used (`point`), or the
sentences of the chunks that it repeats (`copy`). So a document that still gives orders can at most get its own sentences kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mergewise.assemble.pointing import numbered_lines, numbers_of, value_in
from mergewise.designs.mergerag.merging import Pair
from mergewise.designs.mergerag.pieces import ChunkSentence, text_of
from mergewise.prompting.quoting import code_for, quotation, turn, warning
from mergewise.prompting.replies import object_schema
from mergewise.text.alignment import Aligner, SourceSentence, words
from mergewise.text.sentences import split_sentences
from mergewise.types import SHIPPED, Message, Prompts, PromptTemplate, Span

# Support from which a sentence counts as repeated word for word.
VERBATIM = 0.9
# Fewer words do not show which sentence was repeated, unless they are all of it.
FEW_WORDS = 3

POINT_SCHEMA = object_schema({"keep": {"type": "string", "description": "numbers of sentences, such as 1-3 7 9"}})

MERGE = PromptTemplate(
    "merge",
    "merges two chunks into one (MergeRAG, symmetric); `$form` says how to answer",
    """\
You merge two chunks of text into one for a reader who will answer the question from it. Keep the sentences of both \
that help to answer it, also those that give one step of several. Leave out what does not help and what is said twice. \
$form Do not answer the question.""",
    needs=("form",),
)
ENRICH = PromptTemplate(
    "enrich",
    "adds to a chunk what another one says (MergeRAG, asymmetric)",
    """\
You enrich chunk A, the host, with chunk B for a reader who will answer the question from it. Of A keep every \
sentence that has to do with the question. Of B keep a sentence only if it helps to answer the question and says \
something that A does not say. $form Do not answer the question.""",
    needs=("form",),
)
PROMPTS = {one.name: one for one in (MERGE, ENRICH)}
_NUMBERS = (
    'Sentences are numbered. Answer with JSON alone, the numbers of those you keep: {"keep":"1-3 7 9"} for 1, 2, 3, 7 '
    'and 9, {"keep":""} if none helps.'
)
_WORD_FOR_WORD = (
    "Answer with the sentences you keep and nothing else, each copied word for word and whole: no numbers, no linking words, "
    "nothing shortened or added. Answer NONE if none helps."
)

AGAIN = "That repeats no sentence of the chunks. Copy the sentences to keep word for word, or answer NONE."


def point(question: str, pair: Pair, directional: bool, own: Prompts = SHIPPED) -> list[Message]:
    """Show the pair as numbered sentences, the host's first."""
    host = pair.host.content
    lines = list(numbered_lines((s.fragment, s.text) for s in (*host, *pair.source.content)))
    parts = {"A": "\n".join(lines[: len(host)]), "B": "\n".join(lines[len(host) :])}
    return _messages(_NUMBERS, question, {name: text for name, text in parts.items() if text}, directional, own)


def copy(question: str, pair: Pair, directional: bool, own: Prompts = SHIPPED) -> list[Message]:
    """Show the pair as running text."""
    chunks = {"A": text_of(pair.host.content), "B": text_of(pair.source.content)}
    return _messages(_WORD_FOR_WORD, question, chunks, directional, own)


def _messages(form: str, question: str, chunks: Mapping[str, str], directional: bool, own: Prompts) -> list[Message]:
    code = code_for([question, *chunks.values()])
    task = own.fill(ENRICH if directional else MERGE, form=form)
    shown = [quotation(f"chunk {name}", text, code) for name, text in chunks.items()]
    return turn(f"{task}\n\n{warning('chunks')}", [f"Question: {question}", *shown], code)


def numbers_in(answer: str, count: int) -> list[int] | str:
    """Return the numbers in an answer, or a text that describes the problem.

    The answer may be the requested object, with the numbers as a string or a list, or the numbers alone.
    """
    value = value_in(answer)
    if isinstance(value, dict):
        if set(value) != {"keep"}:
            return 'it is no object with the one key "keep"'
        value = value["keep"]
    return numbers_of(value, count)


def repeated_sentences(answer: str, sentences: Sequence[ChunkSentence]) -> tuple[list[int], int]:
    """Return the positions of the `sentences` that an answer repeats word for word, and the number of its other sentences."""
    if answer.strip(" .\n").upper() == "NONE":
        return [], 0
    sources = {Span(s.fragment.doc_id, *s.fragment.visible[:2]): i for i, s in enumerate(sentences)}
    aligner = Aligner([SourceSentence(s.text, span) for s, span in zip(sentences, sources, strict=True)])
    repeated: dict[int, None] = {}
    unsupported = 0
    for start, end in split_sentences(answer):
        alignment = aligner.align(answer[start:end])
        answered = words(answer[start:end])
        whole = any(answered == words(source.text) for source in alignment.sources)
        if alignment.support >= VERBATIM and alignment.sources and (whole or len(answered) >= FEW_WORDS):
            repeated |= dict.fromkeys(sources[span] for span in alignment.spans)
        # Models like to repeat the heading line above some of the sentences.
        elif answered and not any(
            answered == words(" ".join((s.fragment.title, *s.fragment.headings))) for s in sentences
        ):
            unsupported += 1
    return list(repeated), unsupported
