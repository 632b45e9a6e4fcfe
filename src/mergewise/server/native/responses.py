"""Response bodies of the native API. Bodies of records are derived from the records."""

from __future__ import annotations

from collections.abc import Collection as Names
from dataclasses import fields
from types import GenericAlias
from typing import Any, get_type_hints

from pydantic import create_model

# before Python 3.12, pydantic requires this TypedDict
from typing_extensions import TypedDict

from mergewise.server.conversations import ConversationRecord
from mergewise.server.native.suggestions import SuggestedQuestion
from mergewise.server.records import CollectionRecord, DocumentState, Job, Scope, Token
from mergewise.types import Answer, Citation, Context, Heading, JsonDict, Location, Page, Passage, Span, Usage


def body(name: str, base: Any = None, /, **parts: Any) -> Any:
    """Return the model of an object with the parts of `base` and these. The type of an optional part is (type, default)."""
    kinds: Any = {name: kind if isinstance(kind, tuple) else (kind, ...) for name, kind in parts.items()}
    return create_model(name, __base__=base, **kinds)


def body_of(record: type, without: Names[str] = (), model: str = "", **more: Any) -> Any:
    """Return the model of a record's JSON: its fields except `without`, and `more`."""
    hints = get_type_hints(record)
    own = {one.name: hints[one.name] for one in fields(record) if one.name not in without}
    return body(model or record.__name__, **{**own, **more})


def list_of(item: Any) -> Any:
    return GenericAlias(list, (item,))


def page_of(item: Any) -> Any:
    """Return the model of a page of a list."""
    return body(f"{item.__name__}Page", items=list_of(item), next=str | None)


class Offsets(TypedDict):
    start: int
    end: int


HTML = str | None, None
LARGE_LIST = list[JsonDict] | None, None
SPAN = body_of(Span, ["doc_id"], doc=str, margin=(str | None, None))
KINDS = list_of(body("KindSpan", SPAN, kind=str)) | None, None
USAGE = body_of(Usage, cost=(float | None, None))
PASSAGE = body_of(Passage, mark=int, doc=str | None, spans=list_of(SPAN), **get_type_hints(Location))
CITATION = body_of(
    Citation, ["number"], mark=int, span=SPAN, url=str | None, answer_spans=list[Offsets], quoted=Offsets | None
)
_LISTS: dict[str, Any] = {"passages": list_of(PASSAGE), "trace": LARGE_LIST, "evidence": LARGE_LIST}
CONTEXT = body_of(Context, ["reading"], **_LISTS, html=HTML, kinds=KINDS, usage=USAGE, may_lack=bool)
INDEXING = body("Indexing", percent=int | None, notice=str, document=(str | None, None)) | None
_FRAME: dict[str, Any] = {"id": str, "context": CONTEXT, "timings": dict[str, float | None], "indexing": INDEXING}
ANSWER = body_of(
    Answer,
    ["text"],
    answer=str,
    citations=list_of(CITATION),
    usage=USAGE,
    trace=LARGE_LIST,
    streams=(JsonDict | None, None),
    instead_of=str | None,
    unverified_spans=list[Offsets],
    html=HTML,
    conversation=(str | None, None),
    turn=(int | None, None),
    **_FRAME,
)
CONTEXT_ANSWER = body("ContextAnswer", question=str, **_FRAME)
RUN = body(
    "Run",
    index=int,
    context=(CONTEXT | None, None),
    only=(list_of(SPAN) | None, None),
    ms=(float | None, None),
    problem=(JsonDict | None, None),
)
COMPARISON = body("Comparison", question=str, runs=list_of(RUN), html=HTML)
JOB = body_of(Job, ["request", "kills", "token", "number"])
STARTED = body("Started", job=JOB)
TOKEN = body_of(Token, scopes=list[Scope], collections=list[str] | None)
NEW_TOKEN = body("NewToken", TOKEN, secret=str)
SESSION = body("Session", secret=str)
COLLECTION = body_of(
    CollectionRecord,
    ("path", "blobs", "settings", "created"),
    "CollectionBody",
    documents=int,
    leaves=int,
    characters=int,
    views=list[str],
    strategies=list[str],
    snapshot=str | None,
    indexing=INDEXING,
    read_only=bool,
)
DOCUMENT_NAME = body("DocumentName", key=str, id=str, title=str)
DOCUMENT = body_of(
    DocumentState,
    ("collection", "name", "blob", "is_document"),
    "DocumentBody",
    key=str,
    title=str,
    metadata=dict[str, str | int | float | bool],
    characters=int | None,
    leaves=int | None,
    waits_for_vectors=bool,
    has_original=bool,
)
OUTLINED_DOCUMENT = body("OutlinedDocument", DOCUMENT, outline=list[Heading], pages=list[Page], language=str)
DOCUMENT_PART = body("DocumentPart", start=int, end=int, key=str, characters=int, text=str)
ACCEPTED = body("Accepted", job=JOB, documents=list_of(DOCUMENT_NAME))
# with `dry_run` the job is null; the documents are the first 200 of the `count` to remove
REMOVAL = body("Removal", job=JOB | None, count=int, documents=list_of(DOCUMENT_NAME))
ESTIMATE = body("Estimate", estimate=JsonDict)
EVALUATION = body("Evaluation", id=str, state=str, rows=list[Any], report=Any)
CONVERSATION = body_of(ConversationRecord, model="Conversation")
_OPEN = JsonDict | None
TURN = body(
    "ConversationTurn",
    number=int,
    question=str,
    asked=float,
    feedback=_OPEN,
    answer=_OPEN,
    context=_OPEN,
    withheld=bool,
)
TURNS = body("ConversationTurns", CONVERSATION, items=list_of(TURN))
SUGGESTIONS = body("Suggestions", items=list_of(body_of(SuggestedQuestion)))
TRIAL = body("ModelTrial", ok=bool, detail=str, hint=str)
HEALTH = body("Health", status=str)
