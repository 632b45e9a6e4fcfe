"""Routes for conversations, their links, suggested questions, and feedback on answers."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Response

from mergewise.agents.results import outline_of
from mergewise.errors import StoreError
from mergewise.extend import in_thread
from mergewise.server.native.pages import Cursor, Limit, page_behind
from mergewise.server.native.requests import AskForm, ConversationForm, RatingForm, WordsForm
from mergewise.server.native.responses import CONVERSATION, SUGGESTIONS, TURNS, page_of
from mergewise.server.native.suggestions import suggested_questions
from mergewise.server.problems import HTTPProblem, existing, unknown
from mergewise.server.routing import FEEDBACK, READ, InCollection, ScopedRoute
from mergewise.server.scoped import Scoped
from mergewise.types import Json, JsonDict

router = APIRouter(prefix="/api/v1/collections/{c}", tags=["conversations"], route_class=ScopedRoute)

ConversationId = Annotated[str, Path(max_length=100)]
# parts of an answer and its context that are large, or true only when it is given
_UNKEPT = "trace evidence streams html text context indexing cached".split()
_LISTED, _READ, _LONGEST_READ = 200, 24, 400_000


@router.get("/conversations", response_model=page_of(CONVERSATION), **READ)
def list_conversations(collection: InCollection, limit: Limit = 50, cursor: Cursor = None) -> JsonDict:
    """List the conversations of this token, newest first."""
    if not collection.service.config.limits.conversations:
        raise HTTPProblem(409, "keeps-none", "this server keeps no conversations", "set limits.conversations")
    found = collection.conversations.find()
    # later conversations have smaller positions
    return page_behind(found, cursor, limit, lambda one: f"{1e11 - one.changed:019.6f} {one.id}", asdict)


@router.post("/conversations/search", response_model=page_of(CONVERSATION), **READ)
def search_conversations(form: WordsForm, collection: InCollection) -> JsonDict:
    """Return the conversations of this token with these words in their title, questions or answers, newest first."""
    # a POST, because addresses end up in the logs of proxies
    found = collection.conversations.find(form.words)
    return {"items": [asdict(one) for one in found[: form.limit]], "next": None}


@router.get("/conversations/{id}", response_model=TURNS, **READ)
def get_conversation(id: ConversationId, collection: InCollection) -> JsonDict:
    """Return a conversation with its questions and answers."""
    return {
        **asdict(existing(collection.conversations.get(id), "conversation")),
        "items": _visible(collection, collection.conversations.turns(id)),
    }


@router.get("/shared/{id}", response_model=TURNS, **READ)
def get_shared(id: ConversationId, collection: InCollection) -> JsonDict:
    """Return the conversation of a link, with the questions that it shares.

    Answers from documents that this token may not see are withheld.
    """
    hint = "its owner deleted it, or ended the link"
    found = existing(collection.conversations.by_link(id), "conversation", hint)
    turns = _visible(collection, collection.conversations.turns(found.id, shared=True))
    own = {**asdict(found), "id": id, "turns": len(turns), "changed": turns[-1]["asked"] if turns else found.created}
    return {**own, "items": [{**turn, "feedback": None} for turn in turns]}


def _visible(collection: Scoped, turns: list[JsonDict]) -> list[JsonDict]:
    """Withhold answers from documents that the token does not see, or that were removed."""
    sources = [{span["doc"] for one in turn["context"]["passages"] for span in one["spans"]} for turn in turns]
    seen = collection.indexed(set[str]().union(*sources))
    withheld = dict.fromkeys(("answer", "context", "feedback")) | {"withheld": True}
    return [
        {**turn, "withheld": False, **({} if ids <= seen else withheld)}
        for turn, ids in zip(turns, sources, strict=True)
    ]


async def keep_turn(collection: Scoped, form: AskForm, context: Json, answer: Json) -> JsonDict:
    """Keep a question with its answer, if the client and the server want that. Return {conversation, turn}, else {}."""
    id, limits = form.conversation, collection.service.config.limits
    parts = {"context": context, "answer": answer}
    data = {name: {key: value for key, value in part.items() if key not in _UNKEPT} for name, part in parts.items()}
    if id is not None and limits.conversations:
        # an answer is worth more than its copy
        with suppress(StoreError):
            return await in_thread(collection.conversations.add_turn, id, form.question, data, limits)
    return {}


@router.patch("/conversations/{id}", response_model=CONVERSATION, **READ)
def change_conversation(id: ConversationId, form: ConversationForm, collection: InCollection) -> JsonDict:
    """Rename a conversation, or make or end its link, which everybody with access to the collection can open.

    A link shows the questions so far. Share again to add the later ones.
    """
    collection.conversations.change(id, form.title, form.is_shared)
    return asdict(existing(collection.conversations.get(id), "conversation"))


@router.delete("/conversations/{id}", status_code=204, **READ)
def delete_conversation(id: ConversationId, collection: InCollection) -> None:
    """Delete a conversation with its link and its ratings."""
    if not collection.conversations.delete(id):
        raise unknown("conversation")


@router.get("/suggestions", response_model=SUGGESTIONS, **READ)
def suggest_questions(collection: InCollection) -> JsonDict:
    """Suggest questions from the headings of some documents."""
    infos = [one.info for one in collection.documents(limit=_LISTED, statuses=["indexed"]) if one.info is not None]
    short = [info for info in infos if info.characters <= _LONGEST_READ]
    read = short[:: -(-len(short) // _READ) or 1]
    outlines = ((info.title or info.id, outline_of(collection.find_document(info.id))) for info in read)
    return {"items": suggested_questions(outlines, 4)}


@router.put("/turns/{turn}/feedback", status_code=204, **READ)
def rate_answer(turn: Annotated[int, Path(ge=0, le=2**62)], form: RatingForm, collection: InCollection) -> None:
    """Rate a kept answer of this token, for the people who look after the collection."""
    if not collection.conversations.rate(turn, form.good, form.note):
        raise unknown("answer")


@router.get("/feedback", **FEEDBACK, response_class=Response)
def export_feedback(collection: InCollection) -> Response:
    """Download all rated answers as a question set for `mergewise eval`, as JSON lines, newest first.

    A good answer's citations are the evidence. A bad answer's question has no `answers` yet: `eval` skips it until somebody adds
    them.
    """
    turns = [turn for turn in _visible(collection, collection.rated_turns()) if not turn["withheld"]]
    lines = []
    for turn in turns:
        rating, answer = turn["feedback"], turn["answer"]
        kind = "good" if rating["good"] else "bad"
        row = {"id": answer["id"], "question": turn["question"], "kind": kind, "note": rating["note"]}
        row["reply"] = answer["answer"]
        evidence = [{"doc": one["span"]["doc"], "text": one["text"]} for one in answer["citations"]]
        # a good "not in the documents" is a question without an answer
        if rating["good"] and (evidence or not answer["found"]):
            row |= {"answers": [], "evidence": evidence}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    headers = {"Content-Disposition": f'attachment; filename="{collection.name}-feedback.jsonl"'}
    return Response("".join(lines), media_type="application/x-ndjson", headers=headers)
