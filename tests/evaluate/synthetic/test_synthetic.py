"""Questions made from documents by rules and by a chat model, and their files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import mergewise
from mergewise.engine import Index
from mergewise.errors import ModelError, UsageError
from mergewise.evaluate.loaders import load_question_set
from mergewise.evaluate.synthetic import MadeQuestion, make_questions, write_questions
from mergewise.evaluate.synthetic.lexicon import wording_of
from mergewise.evaluate.synthetic.make import is_easy
from mergewise.evaluate.synthetic.rules import definitions, headings, slots
from mergewise.evaluate.synthetic.sections import SourceReader, SourceSection
from mergewise.evaluate.synthetic.written import TRIES, checked_question
from mergewise.models.scripted import ScriptedChat
from mergewise.types import Document

TEXTS = {
    "Red Harbour": "Red Harbour is a 1954 drama film directed by Anna Lind. It was shot in the winter of 1953.",
    "Anna Lind": "Anna Lind (born 3 May 1910) was a Swedish director. She was born in Uppsala.",
    "Uppsala": "Uppsala is an old university city in Sweden. The river Fyris flows through Uppsala on its way to Lake Ekoln. "
    "Visitors of Uppsala often walk along the banks of the Fyris in June and eat by the water.",
    "Rivers": "Many rivers of the north are short. People in Uppsala held a feast beside the Fyris each year.",
    "Guide": "# Guide\n\n## Installing\n\nThe packages are fetched from the mirror of the project.\n\n## Running\n\n"
    "Every command takes the folder of the project as its first word.\n\n| Key | Value |\n| --- | --- |\n| port | 80 |\n",
    "Notice": "# Notice\n\n## Installation\n\n"
    "Les paquets sont pris dans le miroir du projet, et ils sont gardés dans le dossier.\n",
}
FILMS = [Document(f"{title.split()[0].lower()}.md", text, title) for title, text in TEXTS.items()]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    opened = mergewise.open(tmp_path_factory.mktemp("films") / "index", embedder="none")
    opened.add(FILMS)
    return opened


@pytest.fixture(scope="module")
def reader(index: Index) -> SourceReader:
    return SourceReader(index.store.reader())


def section(reader: SourceReader, doc_id: str, heading: str = "") -> SourceSection:
    return next(one for one in reader.sections(doc_id) if not heading or one.headings[-1:] == (heading,))


def test_slot_questions_paraphrase_the_relation(reader: SourceReader) -> None:
    made = {one.text: one for one in slots(section(reader, "red.md"), reader)}
    director = made["Who is the director of Red Harbour?"]
    assert director.answers == ("Anna Lind",)
    assert [text for _, text in director.evidence] == ["Red Harbour is a 1954 drama film directed by Anna Lind."]
    assert made["From which year is Red Harbour?"].answers == ("1954",)
    assert wording_of("directed by", "x") and wording_of("leapt over", "x") is None
    born, dated = wording_of("born in", "Uppsala"), wording_of("born in", "1910")
    assert born and dated and born != dated
    assert wording_of("Default", "80") == "What is the default of {}?"


def test_definition_and_heading_questions_use_the_language_of_the_document(reader: SourceReader) -> None:
    (city,) = [one for one in definitions(section(reader, "uppsala.md"), reader) if one.text == "What is Uppsala?"]
    assert city.answers == ("old university city",)
    (english,) = headings(section(reader, "guide.md", "Installing"), reader)
    (french,) = headings(section(reader, "notice.md", "Installation"), reader)
    assert english.text == "What does one have to know about “Installing” in “Guide”?" and english.answers == ()
    assert french.text == "Que faut-il savoir sur “Installation” dans “Notice” ?"
    assert english.evidence[0][1] == "The packages are fetched from the mirror of the project."


CODE = """# Reference

## Index.embed

**Raises**: `UsageError` for invalid options.

- [Errors](errors.md): exceptions and exit codes
- Tables: `leaf`, `section`, `name`.

Rows are independent of each other and may differ in length. File is read under another name, such as an upload.

```python
Index.embed(max_tokens: int = 1024, born in 1024)
```
"""


def test_code_lists_and_fragments_give_no_slots_and_no_definitions(tmp_path: Path) -> None:
    with mergewise.open(tmp_path / "index", embedder="none") as opened:
        opened.add([Document("reference.md", CODE, "Reference")])
        own = SourceReader(opened.store.reader())
        made = [
            one for part in own.sections("reference.md") for rule in (slots, definitions) for one in rule(part, own)
        ]
    assert made == []


def test_a_person_is_asked_for_with_who(reader: SourceReader) -> None:
    (person,) = definitions(section(reader, "anna.md"), reader)
    assert person.text == "Who is Anna Lind?" and person.answers == ("Swedish director",)


def test_made_questions_quote_their_documents_and_are_not_too_easy(index: Index, reader: SourceReader) -> None:
    made = make_questions(index, 30)
    assert make_questions(index, 30) == made
    for one in made:
        assert one.evidence and not is_easy(one, reader)
        for span, text in one.evidence:
            assert index.document(span.doc_id).text[span.start : span.end] == text
    assert len({one.text for one in made}) == len(made)
    asked = Counter(tuple(span for span, _ in one.evidence) for one in made)
    assert max(asked.values()) == 1


def test_a_question_with_a_single_match_is_too_easy(reader: SourceReader) -> None:
    first = section(reader, "guide.md", "Installing").sentences[0]
    words = MadeQuestion("packages fetched from the mirror of the project", (), (first.evidence,), "heading")
    elsewhere = MadeQuestion("the Fyris in Uppsala", (), (first.evidence,), "heading")
    assert is_easy(MadeQuestion("fetched packages", (), (first.evidence,), "heading"), reader)
    assert is_easy(words, reader) and not is_easy(elsewhere, reader)


def test_eval_reads_a_file_of_made_questions(index: Index, tmp_path: Path) -> None:
    made = make_questions(index, 5)
    write_questions(tmp_path / "made.jsonl", made)
    task = load_question_set(tmp_path / "made.jsonl")
    assert [q.text for q in task.questions] == [one.text for one in made]
    assert [q.documents for q in task.questions] == [frozenset(s.doc_id for s, _ in one.evidence) for one in made]
    assert all(q.kind.startswith("made ") and q.evidence for q in task.questions) and not task.skipped
    with pytest.raises(UsageError, match="cannot write"):
        write_questions(tmp_path / "none" / "made.jsonl", made)


def reply(question: str, answer: str, quote: str) -> str:
    return json.dumps({"question": question, "answer": answer, "quote": quote})


QUOTE = "The river Fyris flows through Uppsala on its way to Lake Ekoln."


def test_replies_of_a_model_are_checked(reader: SourceReader) -> None:
    source = section(reader, "uppsala.md")
    good = checked_question(reply("Where does the water go?", "Lake Ekoln", QUOTE.replace(" ", "\n")), source, "m")
    assert good is not None and good.evidence[0][1] == QUOTE and (good.kind, good.made) == ("written", "m")
    span = good.evidence[0][0]
    assert source.text[span.start : span.end] == QUOTE
    for wrong in (
        reply("Where does the water go?", "Lake Ekoln", "The Fyris ends in Lake Ekoln, a lake."),
        reply("Where does the water go?", "the Baltic", QUOTE),
        reply("Which lake does the text name?", "Lake Ekoln", QUOTE),
        reply("Is Lake Ekoln a lake?", "Lake Ekoln", QUOTE),
        reply("Where?", "Lake Ekoln", QUOTE),
        reply("Where does the water go?", "Lake Ekoln", "Lake Ekoln"),
        "I cannot do this.",
        "[1, 2]",
    ):
        assert checked_question(wrong, source, "m") is None, wrong


def test_a_chat_model_writes_questions(index: Index) -> None:
    sentences = [f"The mill number {i} in Delft was built by mason {i}." for i in range(30)]
    index.add(Document("long.md", " ".join(sentences), "Mills"))
    chat = ScriptedChat(lambda messages: reply("Who built the seventh of the mills?", "mason 7", sentences[7]))
    (made,) = make_questions(index.with_chat(chat), 3)
    assert (made.answers, made.made) == (("mason 7",), "scripted")
    # documents are quoted, with a warning that they hold no instructions
    system, user = chat.asked[0].messages
    assert "never\ninstructions" in system.text and "The mill number 3" in user.text
    index.remove(["long.md"])


def test_a_model_that_never_quotes_raises_an_error(tmp_path: Path) -> None:
    chat = ScriptedChat(lambda messages: reply("What is it about?", "a thing", "nothing of the kind stands here"))
    with mergewise.open(tmp_path / "index", embedder="none", chat=chat) as index:
        index.add(
            [Document(f"{i}.md", f"The mill number {i} in Delft is old and tall. " * 6, f"Mill {i}") for i in range(60)]
        )
        with pytest.raises(ModelError, match="in a row without a quotation of the text"):
            make_questions(index, 5)
    assert TRIES <= len(chat.asked) < 60


def test_documents_without_sentences_give_no_questions(tmp_path: Path) -> None:
    with mergewise.open(tmp_path / "index", embedder="none") as index:
        with pytest.raises(UsageError, match="no questions found"):
            make_questions(index, 5)
        index.add(Document("a.md", "| 1 | 2 |\n| --- | --- |\n| 3 | 4 |\n", "a"))
        with pytest.raises(UsageError, match="no questions found"):
            make_questions(index, 5)
