"""Routes for conversations, their links, suggested questions, and feedback on answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from mergewise.concurrency import in_thread
from mergewise.errors import MergewiseError, StoreError
from mergewise.server.answers import VisibleDocuments
from mergewise.server.conversations import ConversationRecord
from mergewise.server.native.documents import outline_of
from mergewise.server.native.pages import Cursor, Limit, page_behind
from mergewise.server.native.requests import AskForm, ConversationForm, Name, RatingForm, WordsForm
from mergewise.server.native.responses import CONVERSATION, SUGGESTIONS, TURNS, page_of
from mergewise.server.native.suggestions import suggested_questions
from mergewise.server.problems import HTTPProblem, unknown
from mergewise.server.records import Token
from mergewise.server.routing import READ, WRITE, Caller, ScopedRoute, Server, Service

router = APIRouter(prefix="/api/v1/collections/{c}", tags=["conversations"], route_class=ScopedRoute)

ConversationId = Annotated[str, Path(max_length=100)]
_UNKEPT = ("trace", "evidence", "streams", "html", "text", "context", "indexing", "cached")
_SUGGESTIONS, _LISTED, _READ, _LONGEST_READ = 4, 200, 24, 400_000


@router.get("/conversations", response_model=page_of(CONVERSATION), openapi_extra=READ)
def list_conversations(
    c: Name, service: Server, token: Caller, limit: Limit = 50, cursor: Cursor = None
) -> dict[str, Any]:
    """List the conversations of this token, newest first."""
    if not service.config.limits.conversations:
        raise HTTPProblem(409, "keeps-none", "this server keeps no conversations", "set limits.conversations")
    found = service.state.conversations.conversations(token, c)
    # later conversations have smaller positions
    return page_behind(found, cursor, limit, lambda one: f"{1e11 - one.changed:019.6f} {one.id}", _form)


@router.post("/conversations/search", response_model=page_of(CONVERSATION), openapi_extra=READ)
def search_conversations(c: Name, form: WordsForm, service: Server, token: Caller) -> dict[str, Any]:
    """Return the conversations of this token with these words in their title, questions or answers, newest first."""
    # a POST, because addresses end up in the logs of proxies
    found = service.state.conversations.conversations(token, c, form.words)
    return {"items": [_form(one) for one in found[: form.limit]], "next": None}


def _form(record: ConversationRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in ConversationRecord.__slots__}


def _conversation(service: Service, token: Token, c: str, id: str) -> ConversationRecord:
    found = service.state.conversations.conversation(token, c, id)
    if found is None:
        raise unknown("conversation")
    return found


@router.get("/conversations/{id}", response_model=TURNS, openapi_extra=READ)
def get_conversation(c: Name, id: ConversationId, service: Server, token: Caller) -> dict[str, Any]:
    """Return a conversation with its questions and answers."""
    return _with_turns(service, token, _conversation(service, token, c, id))


@router.get("/shared/{id}", response_model=TURNS, openapi_extra=READ)
def get_shared(c: Name, id: ConversationId, service: Server, token: Caller) -> dict[str, Any]:
    """Return the conversation of a link. Answers from documents that this token may not see are withheld."""
    found = service.state.conversations.shared(c, id)
    if found is None:
        raise unknown("conversation", "its owner deleted it, or ended the link")
    whole = _with_turns(service, token, found)
    return {**whole, "id": id, "items": [{**turn, "feedback": None} for turn in whole["items"]]}


def _with_turns(service: Service, token: Token, record: ConversationRecord) -> dict[str, Any]:
    documents = VisibleDocuments(service.collections.get(record.collection, token), token)
    turns = service.state.conversations.turns(record.id)
    return {**_form(record), "items": [_visible(turn, documents) for turn in turns]}


def _visible(turn: Mapping[str, Any], documents: VisibleDocuments) -> dict[str, Any]:
    """Return the turn as its reader may see it: without answer and context if one of their documents is hidden or gone."""
    spans = [span for passage in turn["context"]["passages"] for span in passage["spans"]]
    try:
        is_hidden = any(documents.get(doc_id) is None for doc_id in {span["doc"] for span in spans})
    except MergewiseError:
        is_hidden = True
    return {**turn, "withheld": is_hidden, **(dict.fromkeys(("answer", "context", "feedback")) if is_hidden else {})}


async def keep_turn(
    service: Service, token: Token, c: str, form: AskForm, context: Mapping[str, Any], answer: Mapping[str, Any]
) -> dict[str, Any]:
    """Keep a question with its answer, if the client and the server want that. Return {conversation, turn}, else {}."""
    id, limits = form.conversation, service.config.limits
    parts = {"context": context, "answer": answer}
    data = {name: {key: value for key, value in part.items() if key not in _UNKEPT} for name, part in parts.items()}
    if id is not None and limits.conversations:
        add = partial(service.state.conversations.add_turn, token, c, id, form.question, data, limits)
        # an answer is worth more than its copy
        with suppress(StoreError):
            return await in_thread(add)
    return {}


@router.patch("/conversations/{id}", response_model=CONVERSATION, openapi_extra=READ)
def change_conversation(
    c: Name, id: ConversationId, form: ConversationForm, service: Server, token: Caller
) -> dict[str, Any]:
    """Rename a conversation, or make or end its link, which everybody with access to the collection can open."""
    _conversation(service, token, c, id)
    service.state.conversations.change(token, c, id, form.title, form.is_shared)
    return _form(_conversation(service, token, c, id))


@router.delete("/conversations/{id}", status_code=204, openapi_extra=READ)
def delete_conversation(c: Name, id: ConversationId, service: Server, token: Caller) -> Response:
    """Delete a conversation with its link and the feedback on its answers."""
    if not service.state.conversations.delete(token, c, id):
        raise unknown("conversation")
    return Response(status_code=204)


@router.get("/suggestions", response_model=SUGGESTIONS, openapi_extra=READ)
def suggest_questions(c: Name, service: Server, token: Caller) -> dict[str, Any]:
    """Suggest questions from the headings of some documents."""
    collection = service.collections.get(c, token)
    if not collection.is_made:
        return {"items": []}
    allowed = None if token.filter is None else collection.ids_within(token.filter)
    infos = [
        info
        for info in collection.index.documents(limit=None if allowed is not None else _LISTED)
        if info.characters <= _LONGEST_READ and (allowed is None or info.id in allowed)
    ]
    read = infos[:: -(-len(infos) // _READ) or 1]
    outlines = ((info.title or info.id, outline_of(collection.index.document(info.id))) for info in read)
    return {"items": suggested_questions(outlines, _SUGGESTIONS)}


@router.put("/turns/{turn}/feedback", status_code=204, openapi_extra=READ)
def rate_answer(
    c: Name, turn: Annotated[int, Path(ge=0, le=2**62)], form: RatingForm, service: Server, token: Caller
) -> Response:
    """Rate a kept answer of this token, for the keepers of the collection."""
    if not service.state.conversations.rate(token, c, turn, form.good, form.note):
        raise unknown("answer")
    return Response(status_code=204)


@router.get("/feedback", openapi_extra=WRITE, response_class=Response)
def export_feedback(c: Name, service: Server, token: Caller) -> Response:
    """Download all rated answers as a question set for `mergewise eval`, as JSON lines, newest first.

    A good answer's citations are the evidence. A bad answer's question has no `answers` yet: `eval` skips it until somebody adds
    them.
    """
    if token.filter is not None:
        raise HTTPProblem(403, "forbidden", "a token with a filter may not read feedback", "use a token without one")
    rows = map(_question_row, service.state.conversations.rated_turns(c))
    headers = {"Content-Disposition": f'attachment; filename="{c}-feedback.jsonl"'}
    lines = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    return Response(lines, media_type="application/x-ndjson", headers=headers)


def _question_row(turn: Mapping[str, Any]) -> dict[str, Any]:
    rating, answer = turn["feedback"], turn["answer"]
    kind = "good" if rating["good"] else "bad"
    row = {"id": answer["id"], "question": turn["question"], "kind": kind, "note": rating["note"]}
    evidence = [{"doc": one["span"]["doc"], "text": one["text"]} for one in answer["citations"]]
    # a good "not in the documents" is a question without an answer
    is_known = rating["good"] and (evidence or not answer["found"])
    return {**row, "reply": answer["answer"], **({"answers": [], "evidence": evidence} if is_known else {})}
