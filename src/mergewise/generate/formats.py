"""Output formats of a context for other programs: the prompt of `r&b` as text or messages, and XML."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args
from xml.etree import ElementTree

from mergewise.generate import prompts
from mergewise.generate.sources import DocumentLookup, base_sources
from mergewise.prompting.quoting import code_for
from mergewise.text.printable import printable
from mergewise.types import SHIPPED, Context, Message, Prompts

Form: TypeAlias = Literal["text", "prompt", "messages", "xml", "json"]
FORMS: tuple[Form, ...] = get_args(Form)


def messages_of(context: Context, document: DocumentLookup, own: Prompts = SHIPPED) -> list[Message]:
    """Return the messages that the mode `r&b` sends to a chat model whose window holds all passages."""
    code = code_for([context.question, context.text])
    return prompts.answer(context.question, base_sources(context, document), "", code, own)


def xml_of(context: Context) -> str:
    """Format the passages as XML, with their places in characters of the documents.

    Characters that XML does not allow are replaced as for a terminal.
    """
    root = ElementTree.Element("context", question=printable(context.question), tokens=str(context.tokens))
    for number, passage in enumerate(context.passages, 1):
        element = ElementTree.SubElement(root, "passage", number=str(number), title=printable(passage.title))
        for heading in passage.headings:
            ElementTree.SubElement(element, "heading").text = printable(heading)
        for span in passage.spans:
            where = {"document": printable(span.doc_id), "start": str(span.start), "end": str(span.end)}
            ElementTree.SubElement(element, "span", where)
        ElementTree.SubElement(element, "text").text = printable(passage.text)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode")
