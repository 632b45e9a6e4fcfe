"""Conversations, their links, suggested questions, and feedback, over the routes of a running server."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

import mergewise as mw
from mergewise.evaluate.loaders import load_question_set
from mergewise.server import schema
from mergewise.server.configuration import ServeLimits
from mergewise.server.native.suggestions import suggested_questions
from mergewise.server.records import Token
from mergewise.server.state import State
from mergewise.types import Heading
from tests.server.conftest import ANSWER, LiveServer

SHIPS = "/api/v1/collections/ships"
QUESTION = "When was the Aurora built?"
SECRET = "zyxwv-harbour-secret"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, scripted_key: None) -> Iterator[LiveServer]:
    from tests.server.conftest import live_server

    with live_server(tmp_path_factory.mktemp("talking")) as started:
        yield started


@pytest.fixture
def client(live: LiveServer) -> httpx.Client:
    """A client with a token of its own."""
    return live.client(live.state.tokens.add(["read"], rate=10_000)[1])


def ask(client: httpx.Client, question: str = QUESTION, conversation: str | None = "new", **more: Any) -> Any:
    form = {"question": question, "conversation": conversation, **more}
    return client.post(f"{SHIPS}/ask", json=form).json()


def listed(client: httpx.Client) -> list[Any]:
    items: list[Any] = client.get(f"{SHIPS}/conversations").json()["items"]
    return items


def searched(client: httpx.Client, words: str) -> list[Any]:
    items: list[Any] = client.post(f"{SHIPS}/conversations/search", json={"words": words}).json()["items"]
    return items


# -- conversations


def test_a_conversation_is_kept_with_its_answers(client: httpx.Client) -> None:
    first = ask(client, include=["trace", "html"])
    assert first["conversation"].startswith("conv_")
    second = ask(client, "And  who was\nits captain?", first["conversation"], history=[])
    assert second["conversation"] == first["conversation"]
    (one,) = listed(client)
    assert (one["title"], one["turns"], one["share"], one["collection"]) == (QUESTION, 2, None, "ships")
    kept = client.get(f"{SHIPS}/conversations/{one['id']}").json()
    assert [turn["question"] for turn in kept["items"]] == [QUESTION, "And  who was\nits captain?"]
    turn = kept["items"][0]
    assert turn["answer"]["answer"] == ANSWER and turn["answer"]["citations"] == first["citations"]
    assert turn["context"]["passages"] == first["context"]["passages"] and not turn["withheld"]
    assert not {"trace", "html"} & turn["context"].keys() and "html" not in turn["answer"]
    assert turn["feedback"] is None and turn["asked"] <= time.time()


def test_a_stream_is_kept_too(client: httpx.Client) -> None:
    form = {"question": QUESTION, "conversation": "new", "stream": True}
    text = client.post(f"{SHIPS}/ask", json=form).text
    done = json.loads(text.partition("event: done\ndata: ")[2].splitlines()[0])
    (turn,) = client.get(f"{SHIPS}/conversations/{done['conversation']}").json()["items"]
    assert turn["answer"]["answer"] == ANSWER


def test_half_characters_are_no_failure(client: httpx.Client) -> None:
    def send(method: str, path: str, body: str) -> int:
        headers = {"Content-Type": "application/json"}
        return client.request(method, f"{SHIPS}/{path}", content=body.encode(), headers=headers).status_code

    assert send("POST", "ask", r'{"question": "\ud800 Aurora?", "conversation": "new"}') in (200, 422)
    id, turn = (answer := ask(client))["conversation"], answer["turn"]
    for method, path, body in (
        ("PATCH", f"conversations/{id}", r'{"title": "\ud800"}'),
        ("PUT", f"turns/{turn}/feedback", r'{"good": true, "note": "\ud800"}'),
        ("POST", "conversations/search", r'{"words": "\ud800"}'),
        ("POST", "conversations/search", r'{"words": "\u0000"}'),
        ("PATCH", f"conversations/{id}", r'{"title": "a\u0000b"}'),
    ):
        assert send(method, path, body) in (200, 204, 422), (method, path, body)
    assert client.get(f"{SHIPS}/conversations/%ED%A0%80").status_code in (404, 422)


def test_nothing_is_kept_unless_the_client_asks(client: httpx.Client) -> None:
    assert "conversation" not in ask(client, conversation=None)
    assert client.post(f"{SHIPS}/context", json={"question": QUESTION}).is_success
    assert listed(client) == []


def test_an_unknown_conversation_begins_a_new_one(live: LiveServer, client: httpx.Client) -> None:
    own = ask(client)["conversation"]
    other = live.client(live.state.tokens.add(["read"], rate=10_000)[1])
    begun = ask(other, conversation=own)["conversation"]
    assert begun != own and [one["turns"] for one in listed(client)] == [1]


def test_conversations_are_searched_renamed_and_deleted(live: LiveServer, client: httpx.Client) -> None:
    ids = [ask(client, question)["conversation"] for question in ("Où est l’ÎLE?", "50% of _what_?", "Salt?")]
    assert [one["id"] for one in listed(client)] == ids[::-1]
    assert [one["id"] for one in searched(client, "l’île")] == ids[:1]
    assert [one["id"] for one in searched(client, "% of _")] == ids[1:2]
    assert len(searched(client, "built IN lyme")) == 3
    page = client.get(f"{SHIPS}/conversations?limit=2").json()
    rest = client.get(f"{SHIPS}/conversations", params={"cursor": page["next"]}).json()
    assert [one["id"] for one in [*page["items"], *rest["items"]]] == ids[::-1] and rest["next"] is None
    path = f"{SHIPS}/conversations/{ids[0]}"
    assert client.patch(path, json={"title": "Islands"}).json()["title"] == "Islands"
    assert [one["title"] for one in searched(client, "isl")] == ["Islands"]
    for wrong in ({"title": ""}, {"title": "x" * 201}, {"is_shared": "yes"}, {"strange": 1}):
        assert client.patch(path, json=wrong).status_code == 422
    assert client.delete(path).status_code == 204
    assert [client.delete(path).status_code, client.get(path).status_code] == [404, 404]
    assert client.patch(path, json={}).status_code == 404 and len(listed(client)) == 2


def test_a_token_sees_only_its_own(live: LiveServer, client: httpx.Client) -> None:
    id = ask(client)["conversation"]
    for name in ("read", "write", "admin"):
        other = live.client(name)
        path = f"{SHIPS}/conversations/{id}"
        assert [other.get(path).status_code, other.delete(path).status_code] == [404, 404]
        assert other.patch(path, json={"title": "mine"}).status_code == 404
        assert id not in other.get(f"{SHIPS}/conversations").text
    assert client.get(f"/api/v1/collections/birds/conversations/{id}").status_code == 404
    assert listed(client)[0]["title"] == QUESTION


def test_users_behind_one_token_are_apart(live: LiveServer) -> None:
    shared = live.state.tokens.add(["read"])[0]
    users = [Token(shared.id, shared.scopes, filter={"type": "eq", "key": "team", "value": team}) for team in "ab"]
    a, b, whole = [live.state.conversations(one, "ships") for one in (*users, shared)]
    id = a.add_turn("new", QUESTION, {"answer": {}}, ServeLimits())["conversation"]
    assert a.get(id) and b.get(id) is None and whole.get(id) is None


def test_a_link_shows_the_conversation_to_others_with_access(live: LiveServer, client: httpx.Client) -> None:
    answer = ask(client)
    rate(client, answer, True, "mynote")
    id = answer["conversation"]
    path = f"{SHIPS}/conversations/{id}"
    share = client.patch(path, json={"is_shared": True}).json()["share"]
    assert len(share) == 32 and client.patch(path, json={"is_shared": True}).json()["share"] == share
    reader = live.client("ships")
    found = reader.get(f"{SHIPS}/shared/{share}").json()
    assert found["id"] == share and not {id, "mynote"} & set(re.findall(r"[\w-]+", json.dumps(found)))
    assert found["items"][0]["answer"]["answer"] == ANSWER and not found["items"][0]["withheld"]
    assert reader.patch(f"{SHIPS}/conversations/{share}", json={"title": "x"}).status_code == 404
    assert reader.get(f"{SHIPS}/shared/{id}").status_code == 404
    birds = live.client(live.state.tokens.add(["read"], collections=["birds"])[1])
    assert birds.get(f"{SHIPS}/shared/{share}").status_code == 404
    assert live.client().get(f"/api/v1/collections/birds/shared/{share}").status_code == 404
    assert client.patch(path, json={"is_shared": False}).json()["share"] is None
    assert reader.get(f"{SHIPS}/shared/{share}").status_code == 404


def test_a_link_shows_the_questions_of_its_time(live: LiveServer, client: httpx.Client) -> None:
    id = ask(client)["conversation"]
    path, reader = f"{SHIPS}/conversations/{id}", live.client("ships")
    made = client.patch(path, json={"is_shared": True}).json()
    ask(client, "Who was the later captain?", id)
    shared = f"{SHIPS}/shared/{made['share']}"
    found = reader.get(shared)
    assert [turn["question"] for turn in found.json()["items"]] == [QUESTION] and "later" not in found.text
    assert (found.json()["turns"], found.json()["changed"]) == (1, found.json()["items"][0]["asked"])
    # renaming shares nothing more
    now = client.patch(path, json={"title": "Ships"}).json()
    assert (now["turns"], now["shared_turns"]) == (2, 1) and len(reader.get(shared).json()["items"]) == 1
    again = client.patch(path, json={"is_shared": True}).json()
    assert (again["share"], again["shared_turns"]) == (made["share"], 2)
    assert len(reader.get(shared).json()["items"]) == 2
    client.patch(path, json={"is_shared": False})
    assert client.get(path).json()["shared_turns"] == 0


def test_links_of_an_older_server_show_what_they_showed(tmp_path: Path) -> None:
    with older_tables(5), State(tmp_path / "server.sqlite") as old:
        token, _ = old.tokens.add(["read"])
        for id, share in (("c1", "link"), ("c2", None)):
            own = [id, token.id, token.owner, "a", "t", 1, 1, share]
            old.database.rows("INSERT INTO conversations VALUES (?, ?, ?, ?, ?, ?, ?, ?)", own)
            turn = [id, "q", json.dumps(DATA), 1, 1]
            old.database.rows("INSERT INTO turns VALUES (NULL, ?, ?, ?, ?, ?, NULL, NULL)", turn)
    with State(tmp_path / "server.sqlite") as state:
        kept = state.conversations(token, "a")
        assert {one.share: one.shared_turns for one in kept.find()} == {"link": 1, None: 0}


@contextmanager
def older_tables(version: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:version])
        yield


def test_a_link_withholds_answers_from_hidden_documents(live: LiveServer, client: httpx.Client) -> None:
    id = ask(client)["conversation"]
    share = client.patch(f"{SHIPS}/conversations/{id}", json={"is_shared": True}).json()["share"]
    condition = {"type": "eq", "key": "kind", "value": "nothing"}
    reader = live.client(live.state.tokens.add(["read"], filter=condition)[1])
    answer = reader.get(f"{SHIPS}/shared/{share}")
    (turn,) = answer.json()["items"]
    assert turn["withheld"] and turn["answer"] is turn["context"] is None and turn["question"] == QUESTION
    assert "Lyme" not in answer.text and "fleet" not in answer.text


def test_a_removed_document_is_not_quoted_any_more(start_server: Callable[..., LiveServer]) -> None:
    live = start_server()
    client = live.client()
    id = (kept := ask(client))["conversation"]
    rate(client, kept, True)

    with mw.open(live.config.data / "collections" / "ships" / "index", create=False) as index:
        index.remove(["ships/fleet.md"])
    live.service.collections.close()
    answer = client.get(f"{SHIPS}/conversations/{id}")
    assert answer.json()["items"][0]["withheld"] and "Lyme" not in answer.text
    assert live.client("feedback").get(f"{SHIPS}/feedback").text == ""


def test_a_server_can_keep_none(start_server: Callable[..., LiveServer]) -> None:
    live = start_server(limits={"conversations": 0})
    client = live.client()
    assert "conversation" not in ask(client)
    answer = client.get(f"{SHIPS}/conversations")
    assert (answer.status_code, answer.json()["code"]) == (409, "keeps-none")
    assert live.state.database.rows("SELECT * FROM turns") == []


def test_questions_are_only_in_the_state(
    live: LiveServer, client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        answer = ask(client, f"{SECRET}?")
        id = answer["conversation"]
        searched(client, SECRET)
        client.patch(f"{SHIPS}/conversations/{id}", json={"title": f"{SECRET}!"})
        rate(client, answer, True, SECRET)
    assert SECRET not in caplog.text
    assert SECRET.encode() in _bytes(live.state.path)
    client.delete(f"{SHIPS}/conversations/{id}")
    assert SECRET.encode() not in _bytes(live.state.path)


def test_nothing_of_a_removed_token_remains_in_the_files(live: LiveServer) -> None:
    token, secret = live.state.tokens.add(["read"], rate=10_000)
    ask(live.client(secret), f"{SECRET}?")
    live.client(secret).post("/v1/responses", json={"model": "ships", "input": f"{SECRET}?"})
    assert SECRET.encode() in _bytes(live.state.path)
    live.state.tokens.remove(token.id)
    assert SECRET.encode() not in _bytes(live.state.path)


def _bytes(path: Path) -> bytes:
    """Return the bytes of the state with its log."""
    return b"".join(one.read_bytes() for one in path.parent.glob(f"{path.name}*"))


# -- the state


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with State(tmp_path / "server.sqlite") as own:
        yield own


DATA = {"answer": {"id": "ans_1", "answer": "word " * 100}, "context": {}}


def test_conversations_are_bounded(state: State) -> None:
    token, other = state.tokens.add(["read"])[0], state.tokens.add(["read"])[0]
    by_number = ServeLimits(conversations=3)
    state.conversations(other, "a").add_turn("new", "other", DATA, by_number)
    own = {name: state.conversations(token, name) for name in "ab"}
    for n in range(5):
        own["ab"[n % 2]].add_turn("new", f"q{n}", DATA, by_number)
    assert [one.title for c in "ab" for one in own[c].find()] == ["q4", "q2", "q3"]
    by_bytes = ServeLimits(conversation_bytes=2000)
    id = own["a"].add_turn("new", "long 0", DATA, by_bytes)["conversation"]
    for n in range(1, 6):
        own["a"].add_turn(id, f"long {n}", DATA, by_bytes)
    assert [turn["question"] for turn in own["a"].turns(id)] == ["long 3", "long 4", "long 5"]
    assert [one.title for c in "ab" for one in own[c].find()] == ["long 0"]
    assert [one.title for one in state.conversations(other, "a").find()] == ["other"]


def test_a_conversation_has_a_bounded_number_of_turns(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mergewise.server.conversations.MOST_TURNS", 2)
    own = state.conversations(state.tokens.add(["read"])[0], "a")
    id = own.add_turn("new", "q0", DATA, ServeLimits())["conversation"]
    for n in range(1, 4):
        own.add_turn(id, f"q{n}", DATA, ServeLimits())
    assert [turn["question"] for turn in own.turns(id)] == ["q2", "q3"]


def test_old_conversations_are_pruned(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    own = state.conversations(state.tokens.add(["read"])[0], "a")
    own.add_turn("new", "old?", DATA, ServeLimits())
    later = time.time() + 11 * 86_400
    monkeypatch.setattr(time, "time", lambda: later)
    own.add_turn("new", "new?", DATA, ServeLimits())
    state.prune(ServeLimits(conversation_days=10))
    assert [one.title for one in own.find()] == ["new?"]
    assert list(dict(state.database.rows("SELECT count(*) FROM turns")[0]).values()) == [1]
    state.prune(ServeLimits(conversations=0))
    assert own.find() == []


def test_removing_a_token_or_a_collection_removes_its_conversations(state: State) -> None:
    tokens = [state.tokens.add(["read"])[0] for _ in range(2)]
    stores = [{name: state.conversations(token, name) for name in "ab"} for token in tokens]
    for store in (one for own in stores for one in own.values()):
        assert store.rate(store.add_turn("new", "q", DATA, ServeLimits())["turn"], True, "")
    user = state.conversations(replace(tokens[0], id=f"{tokens[0].id}-user"), "b")
    user.add_turn("new", "q", DATA, ServeLimits())
    state.tokens.remove(tokens[0].id)
    assert user.find() == []
    assert stores[0]["a"].find() == [] and len(stores[1]["a"].rated_turns()) == 1
    state.collections.forget("a")
    assert stores[1]["a"].find() == [] == stores[1]["a"].rated_turns()
    assert stores[1]["b"].find() and len(stores[1]["b"].rated_turns()) == 1


# -- feedback


def rate(client: httpx.Client, answer: Any, good: bool | None, note: str = "") -> None:
    sent = client.put(f"{SHIPS}/turns/{answer['turn']}/feedback", json={"good": good, "note": note})
    assert sent.status_code == 204, sent.text


def test_feedback_becomes_a_question_set(start_server: Callable[..., LiveServer], tmp_path: Path) -> None:
    live = start_server(script=[ANSWER, ANSWER, "Nothing relevant was found in the indexed documents.", ANSWER])
    client, reviewer = live.client(), live.client("feedback")
    good, bad, gone, other = [ask(client, f"{QUESTION[:-1]} ({n})?") for n in range(4)]
    rate(client, good, False, "hasty")
    rate(client, good, True, "Right!")
    rate(client, bad, False, "it was the storm")
    rate(client, gone, True)
    rate(client, other, True)
    rate(client, other, None)
    turn = client.get(f"{SHIPS}/conversations/{good['conversation']}").json()["items"][0]
    assert turn["feedback"] == {"good": True, "note": "Right!"} and turn["number"] == good["turn"]
    answer = reviewer.get(f"{SHIPS}/feedback")
    assert answer.headers["content-disposition"] == 'attachment; filename="ships-feedback.jsonl"'
    rows = [json.loads(line) for line in answer.text.splitlines()]
    assert [(row["kind"], row["note"]) for row in rows] == [
        ("good", ""),
        ("bad", "it was the storm"),
        ("good", "Right!"),
    ]
    assert rows[1]["reply"] == ANSWER and "answers" not in rows[1] and not gone["found"]
    saved = tmp_path / "feedback.jsonl"
    saved.write_text(answer.text)
    task = load_question_set(saved)
    assert [(one.text, one.answerable) for one in task.questions] == [
        (gone["question"], False),
        (good["question"], True),
    ]
    evidence = task.questions[1].evidence
    assert evidence is not None and "It was built in Lyme in 1871." in [text for _, text in evidence]
    assert {span.doc_id for span, _ in evidence} == {"ships/fleet.md"}
    skipped = [one.reason for one in task.skipped]
    assert skipped == ["missing answer (leave it empty if the documents have no answer)"]
    client.delete(f"{SHIPS}/conversations/{good['conversation']}")
    assert len(reviewer.get(f"{SHIPS}/feedback").text.splitlines()) == 2


def test_mergewise_eval_reads_an_export(start_server: Callable[..., LiveServer], tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from mergewise.cli.main import app

    live = start_server()
    rate(live.client(), ask(live.client()), True)
    saved = tmp_path / "feedback.jsonl"
    saved.write_text(live.client("feedback").get(f"{SHIPS}/feedback").text)
    index = str(live.config.data / "collections" / "ships" / "index")
    ran = CliRunner().invoke(app, ["eval", str(saved), "--index", index, "--budgets", "60", "--strategies", "weave"])
    assert ran.exit_code == 0, ran.output
    assert "1 question" in ran.output


def test_others_do_not_read_or_change_ratings(live: LiveServer, client: httpx.Client) -> None:
    answer = ask(client)
    path = f"{SHIPS}/turns/{answer['turn']}/feedback"
    rate(client, answer, True, "another note")
    # programs that upload documents do not read what people ask
    assert {live.client(name).get(f"{SHIPS}/feedback").status_code for name in ("read", "write", "admin")} == {403}
    for name in ("read", "admin"):
        assert live.client(name).put(path, json={"good": False}).status_code == 404
    assert client.put(path.replace("ships", "birds"), json={"good": False}).status_code == 404
    condition = {"type": "eq", "key": "kind", "value": "nothing"}
    filtered = live.client(live.old_token("read", "feedback", filter=condition))
    assert filtered.get(f"{SHIPS}/feedback").status_code == 403
    for wrong in ({}, {"good": 1}, {"good": True, "note": "x" * 2001}, {"good": True, "question": "q"}):
        assert client.put(path, json=wrong).status_code == 422
    assert "another note" in live.client("feedback").get(f"{SHIPS}/feedback").text


# -- suggestions


def headings(*titles: str) -> list[Heading]:
    return [Heading(2, title, 0, 1) for title in titles]


def test_suggestions_are_readable_headings() -> None:
    outlines = [
        ("Contributing", headings("Overview", "4.0 (2026-07-07)", "db.Table", "Running the tests", "Release process")),
        ("Tutoriel", headings("Quand React associe-t-il les refs ? {/when-react-attaches/}", "Le problème du passage")),
        ("Next", headings("What now?", "Next steps", "add-foreign-key", "A heading that is far too long " * 4)),
        ("Install it on your machine", headings("Install it on your machine")),
        ("設定", headings("設定ファイルの場所")),
    ]
    found = suggested_questions(outlines, 4)
    assert [one.question for one in found] == [
        "Quand React associe-t-il les refs ?",
        "Contributing: Running the tests",
        "Install it on your machine",
        "設定: 設定ファイルの場所",
    ]
    assert [one.text for one in found][1:] == ["Running the tests", "Install it on your machine", "設定ファイルの場所"]
    assert suggested_questions([], 4) == []


def test_suggestions_of_a_collection(start_server: Callable[..., LiveServer]) -> None:
    from tests.server.conftest import make_collection, record_of

    live = start_server()
    text = "# Terns\n\nA bird.\n\n## How far do terns fly each year?\n\nFar.\n"
    make_collection(live.config, live.state, "terns", {"terns.md": text})
    live.state.collections.add(record_of(live.config, "bare"))
    path = "/api/v1/collections/{}/suggestions"
    (found,) = live.client().get(path.format("terns")).json()["items"]
    assert found == {"text": (asked := "How far do terns fly each year?"), "title": "terns.md", "question": asked}
    assert live.client().get(path.format("bare")).json() == {"items": []}
    condition = {"type": "eq", "key": "kind", "value": "nothing"}
    hidden = live.client(live.state.tokens.add(["read"], filter=condition)[1])
    assert hidden.get(path.format("terns")).json() == {"items": []}
