"""A scripted server without an index: it sends the JSON of the native API's routes as `mergewise serve` does."""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mergewise.evaluate.judged import FoundText, LostStage, LostText
from mergewise.evaluate.measured import measured_runs
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.report import evaluation_report
from mergewise.evaluate.report_records import EvaluationReport
from mergewise.evaluate.runs.run_folder import memory_run
from mergewise.evaluate.runs.run_row import RunRow
from mergewise.jsonable import context_json, reply_json
from mergewise.page import comparison_fragment, context_fragment
from mergewise.server.answers import unverified_spans
from mergewise.server.web import page_files
from mergewise.types import (
    GAP,
    Answer,
    Cause,
    Citation,
    Context,
    Document,
    Heading,
    HopNote,
    Passage,
    Span,
    Step,
    Usage,
)

TOKEN = "mw_stub_0123456789abcdef"
SECRET = "the-secret-of-the-session"
JSON = Any
QUESTION = "How do cats land on their feet?"

RIGHTING = """# How cats land

Cats almost always land on their feet. The reason is the *cat righting reflex*, an innate ability to turn in the air.

## The reflex

The righting reflex begins to appear at three to four weeks of age, and is perfected at six to nine weeks. Cats can do this
because they have an unusually flexible backbone and no functional clavicle (collarbone).

The minimum height for it to happen safely is about 30 centimetres. See *High-rise syndrome* for falls from great heights.

## How it works

A cat bends in the middle, so that the front half of its body turns about an axis that differs from that of the rear half.
It tucks its front legs in and turns them quickly, while the extended rear legs turn little. Then it does the opposite.
Depending on the cat's flexibility and angular momentum, it may have to repeat this.

| phase | front legs | rear legs |
| --- | --- | --- |
| first | tucked | extended |
| second | extended | tucked |
"""
FALLS = """# High-rise syndrome

High-rise syndrome is a term of veterinarians for injuries of cats that fall from two storeys or more.

## What was observed

In a study of 132 cats that fell 5.5 storeys on average, 90 percent survived. Injuries grew with the height up to seven
storeys, and were fewer above. One reason may be that a cat relaxes once it falls at its terminal speed.
"""
ARABIC = """# القطط

القطط حيوانات ثديية صغيرة. تنام القطط ست عشرة ساعة في اليوم.
"""
HOSTILE_WORDS = (
    "<script>document.title='stolen'</script><img src=x onerror=\"document.title='stolen'\"> "
    "[click](javascript:document.title='stolen') ![x](http://evil.invalid/x.png) \u202eevil\u202c \U000e0041\x1b[31m "
    "<svg onload=alert(1)> "
    + "W" * 3000
    + " 👩\u200d👩\u200d👧 ${alert(1)} {{constructor}} </textarea><iframe src=//evil.invalid>"
)
HOSTILE = f"# {HOSTILE_WORDS}\n\nBefore 👍 {HOSTILE_WORDS} after.\n"
ANSWER = """Cats land on their feet by the **righting reflex** [1]. A cat bends in the middle.
The front half turns about another axis than the rear half [2].

1. It tucks its front legs in and turns them quickly [2].
2. Then it does the opposite, with the rear legs.

Most cats survive even long falls: of 132 cats, 90 percent did [3]. They wear `parachutes`."""
QUOTES = (
    *(("cats/righting.md", RIGHTING.splitlines()[line]) for line in (2, 13)),
    ("cats/high-rise.md", "In a study of 132 cats that fell 5.5 storeys on average, 90 percent survived."),
)
TEXTS = {
    "cats/righting.md": (RIGHTING, "How cats land"),
    "cats/high-rise.md": (FALLS, "High-rise syndrome"),
    "cats/qitat.md": (ARABIC, "القطط"),
    "papers/long-report.pdf": (
        "\n\n".join(f"Paragraph {n}. {FALLS.splitlines()[2]}" for n in range(4000)),
        "A long report",
    ),
}


def key_of(doc_id: str) -> str:
    return base64.urlsafe_b64encode(doc_id.encode()).decode().rstrip("=")


def id_of(key: str) -> str:
    return base64.urlsafe_b64decode(key + "=" * (-len(key) % 4)).decode()


def outline_of(text: str) -> list[Heading]:
    return [Heading(len(m[1]), m[2], m.start(), m.end()) for m in re.finditer(r"(?m)^(#+) (.*)$", text)]


@dataclass
class Stub:
    """The data and the behaviour of the server. Tests change them while it runs."""

    texts: dict[str, tuple[str, str]] = field(default_factory=lambda: dict(TEXTS))
    collections: list[str] = field(default_factory=lambda: ["cats"])
    answer: str = ANSWER
    unverified: tuple[str, ...] = (
        "The front half turns about another axis than the rear half.",
        "They wear `parachutes`.",
    )
    question: str = QUESTION
    quotes: tuple[tuple[str, str], ...] = QUOTES
    quoted: bool = False
    """The answer consists of the quotes."""
    is_whole: bool = False
    """Passages are whole documents, and citations their quotes."""
    found: bool = True
    sure: bool = True
    scopes: frozenset[str] = frozenset({"read", "write", "admin"})
    pause: float = 0.0
    """Seconds between two words of an answer."""
    refusals: list[tuple[int, dict[str, str], JSON]] = field(default_factory=list)
    """Refusals of the next questions: status, headers, problem."""
    failures: dict[str, JSON] = field(default_factory=dict)
    """Failed documents with their errors."""
    jobs: list[JSON] = field(default_factory=list)
    tokens: list[JSON] = field(default_factory=list)
    evaluations: bool = True
    read_only: bool = False
    cut: bool = False
    """Originals end before their last byte."""
    requests: list[tuple[str, str, Mapping[str, str], bytes]] = field(default_factory=list)
    hangups: int = 0
    """Number of questions that the browser cancelled."""
    address: str = ""
    is_gone: bool = False

    def span(self, doc_id: str, words: str) -> Span:
        """Return the span of the words in a document."""
        start = self.texts[doc_id][0].index(words)
        return Span(doc_id, start, start + len(words))

    def passage(self, doc_id: str, words: str, score: float) -> Passage:
        text, title = self.texts[doc_id]
        spans = tuple(self.span(doc_id, one) for one in words.split(GAP))
        if self.is_whole:
            words, spans = text, (Span(doc_id, 0, len(text)),)
        path: list[Heading] = []
        for heading in outline_of(text):
            if heading.start <= spans[0].start:
                path = [above for above in path if above.level < heading.level] + [heading]
        return Passage(words, score, spans, True, title, tuple(heading.title for heading in path))

    def record(self, strategy: str = "weave", quotes: Sequence[tuple[str, str]] | None = None) -> Context:
        shown = self.quotes if quotes is None else quotes
        passages = tuple(self.passage(*quote, round(0.91 - 0.17 * n, 2)) for n, quote in enumerate(shown, 1))
        tokens = sum(len(passage.text) // 4 + 9 for passage in passages)
        text = "\n".join(passage.text for passage in passages)
        return Context(self.question, strategy, 300, text, tokens, passages, self.trace(), snapshot="7c1f")

    def document(self, doc_id: str) -> Document:
        return Document(doc_id, *self.texts[doc_id])

    def place(self, span: Span) -> str:
        return f"#/c/cats/d/{key_of(span.doc_id)}?s={span.start}-{span.end}"

    def context(self, citations: Sequence[Citation] = ()) -> JSON:
        record = self.record()
        html = context_fragment(record, citations, document=self.document, address=self.place)
        return {**context_json(record), "html": html}

    def trace(self) -> tuple[Step, ...]:
        spans = [self.span(doc_id, one) for doc_id, words in self.quotes for one in words.split(GAP)]
        steps = [Step("search", "34 leaves, 61 sentences")]
        steps += [Step("take", "it holds cats, land, feet", (span,), None, 0.74) for span in spans[:2]]
        if self.quotes[0][0] != "cats/righting.md":
            return tuple(steps)
        near = self.span("cats/righting.md", "It tucks its front legs in and turns them quickly")
        evidence = self.span("cats/righting.md", "Cats almost always land on their feet.")
        out = self.span("cats/righting.md", "The minimum height for it to happen safely is about 30 centimetres.")
        tail = self.span(
            "cats/high-rise.md", "One reason may be that a cat relaxes once it falls at its terminal speed."
        )
        name, target = "high-rise syndrome", Span("cats/high-rise.md", 0, len(FALLS))
        by_name = f"a hop by “{name}”; it holds fall"
        return (
            *steps,
            Step("hop", f"1: the evidence names “{name}”", (evidence,), target, 0.68, HopNote(1, name), Cause.LINK),
            *(Step("take", by_name, (span,), None, 0.57, cause=Cause.HOP) for span in spans[2:]),
            Step("merge", "2 of 3 parts were found", (spans[0],), Span(near.doc_id, spans[0].start, near.end), 0.6),
            Step("left", "22 tokens, 9 left", (out,), None, 0.41),
            Step("stop", "not worth its 19 tokens", (tail,), None, 0.33),
        )

    def answer_body(self) -> JSON:
        citations = tuple(
            Citation(
                n,
                words,
                self.span(doc_id, words.split(GAP)[0]),
                self.texts[doc_id][1],
                quoted=None if not self.quoted else (self.answer.index(words), self.answer.index(words) + len(words)),
            )
            for n, (doc_id, words) in enumerate(self.quotes, 1)
            if f"[{n}]" in self.answer
        )
        usage = Usage(1, 412, 96)
        answer = Answer(
            self.question, self.answer, citations, self.record(), usage, self.found, "cited", sure=self.sure
        )
        answer = replace(answer, unverified=self.unverified, unsupported=0.2 if self.unverified else 0.0)
        timings = {"queue_ms": 0.4, "assemble_ms": 38.2, "first_token_ms": 412.0, "total_ms": 2310.0}
        reply = {**reply_json(answer), "unverified_spans": unverified_spans(self.answer, self.unverified)}
        return {**reply, "html": self.context(citations)["html"], "timings": timings}

    def info(self, name: str) -> JSON:
        documents = len(self.texts) if name == self.collections[0] else 0
        characters = sum(len(text) for text, _ in self.texts.values())
        strategies = ["weave", "topk", "auto-merge", "macrag", "sentence"]
        return {
            "name": name,
            "title": {"cats": "All about cats"}.get(name, name),
            "documents": documents,
            "leaves": 61,
            "characters": characters,
            "embedder": "minilm",
            "views": ["leaf", "slice"],
            "strategies": strategies,
            "configured": True,
            "read_only": self.read_only,
            "defaults": {"strategy": "weave", "budget": 1200},
            "snapshot": "7c1f",
        }

    def rows(self) -> list[JSON]:
        rows = []
        for doc_id, (text, title) in self.texts.items():
            size, made = len(text.encode("utf-8", "replace")), {"indexed_at": 1_790_000_000.0, "leaves": 9}
            rows.append(document_row(doc_id, "indexed", size, title=title, characters=len(text), **made))
        for doc_id, error in self.failures.items():
            kind = "application/pdf"
            rows.append(document_row(doc_id, "failed", 48_213, error=error, job="j0", media_type=kind))
        for job in self.jobs:
            if job["kind"] == "add" and job["state"] in ("queued", "running"):
                status = "indexing" if job["state"] == "running" else "queued"
                rows.append(document_row(job["name"], status, job["bytes"], job=job["id"], media_type="text/plain"))
        return sorted(rows, key=lambda row: row["id"])

    def add(self, name: str, text: str) -> JSON:
        progress = {"done": 0, "total": len(text), "unit": "characters", "document": None}
        job = job_record(f"j{len(self.jobs) + 1}", "add", self.collections[0], "queued", progress)
        self.jobs.append({**job, "created": time.time(), "name": name, "bytes": len(text.encode()), "text": text})
        return self.jobs[-1]

    def advance_jobs(self) -> None:
        """Advance each job by a third. Called for each poll of the jobs."""
        for job in self.jobs:
            if job["state"] == "queued":
                job["state"], job["progress"]["document"] = "running", job["name"]
            elif job["state"] == "running":
                total = job["progress"]["total"]
                job["progress"]["done"] = min(total, job["progress"]["done"] + total // 3 + 1)
                if job["progress"]["done"] == total:
                    job["state"] = "done"
                    self.texts[job["name"]] = (job["text"], "")


def document_row(doc_id: str, status: str, size: int, **known: JSON) -> JSON:
    """Return a document as in the list of documents, with null for unknown fields."""
    unknown = dict.fromkeys(("error", "job", "characters", "leaves", "indexed_at"))
    row = {"key": key_of(doc_id), "id": doc_id, "title": "", "metadata": {}, "status": status, "bytes": size}
    return {**row, "media_type": "text/markdown", "has_original": status == "indexed", **unknown, **known}


def job_record(job: str, kind: str, collection: str, state: str, progress: JSON) -> JSON:
    unknown = dict.fromkeys(("report", "error", "created", "started", "finished"))
    record = {"id": job, "kind": kind, "collection": collection, "state": state, "progress": progress}
    return {**record, **unknown, "attempt": 1}


def evaluation_job(state: str = "done") -> JSON:
    progress = {"done": 40, "total": 40, "unit": "questions", "document": None}
    times = {"created": 1_790_000_000.0, "started": 1_790_000_001.0, "finished": 1_790_000_042.0}
    return {**job_record("e1", "evaluate", "cats", state, progress), **times}


def problem(status: int, code: str, detail: str, hint: str) -> JSON:
    fields = {"status": status, "code": code, "detail": detail, "hint": hint}
    return {"type": f"urn:mergewise:problem:{code}", "title": code, **fields}


LIMITS = {
    "body": 100_000_000,
    "json": 2_000_000,
    "files": 200,
    "queue": 32,
    "streams": 64,
    "context_deadline": 10.0,
    "answer_deadline": 600.0,
    "k": 500,
    "candidates": 2000,
    "rate": 20.0,
}


MODELS = {
    "chats": [
        {"name": "small", "spec": "openai:gpt-small", "base_url": None, "window": 128_000, "has_key": True},
        {"name": "extractive"},
    ],
    "embedders": [{"name": "minilm"}],
    "rerankers": [],
    "strategies": [{"name": "weave", "summary": "sentences, woven"}, {"name": "topk", "summary": "the best leaves"}],
    "modes": [
        {"name": "cited", "summary": "an answer with marks", "needs": "CHAT"},
        {"name": "extractive", "summary": "quotations", "needs": None},
    ],
}
SETTINGS = {
    "version": "0.1.0",
    "workers": 2,
    "public_url": None,
    "allowed_hosts": ["127.0.0.1", "localhost"],
    "allowed_origins": [],
    "needs_token": True,
    "profiles": [],
    "limits": LIMITS,
}


def report() -> EvaluationReport:
    """Return the report of an evaluation of two strategies on two questions."""
    asked = [
        Question("q1", "How old are cats when the righting reflex is perfected?", ("at six to nine weeks",), None),
        Question("q2", "من أين تأتي القطط؟", (), None),
    ]
    found = FoundText("cats/righting.md", 5, None, "The righting reflex begins to appear at three to four weeks")
    rows = [
        RunRow(
            "cats-40",
            "q1",
            "",
            method,
            "spec",
            1200,
            tokens=tokens,
            scores={"answer": score, "density": 0.4},
            found=(found,),
            lost=(LostText("at six to nine weeks", LostStage.UNFOUND),) * (score == 0.0),
            search_seconds=0.01,
            assembly_seconds=0.002,
        )
        for method, score, tokens in (("weave", 1.0, 900), ("topk", 0.0, 1180))
    ]
    rows += [RunRow("cats-40", "q2", "", row.method, "spec", 1200, tokens=100) for row in rows]
    return evaluation_report(measured_runs([memory_run(rows, {"cats-40": asked})]))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stub: Stub

    def log_message(self, format: str, *args: object) -> None: ...

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def _serve(self, method: str) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if self.stub.is_gone:
            self.close_connection = True
            return None
        url = urlsplit(self.path)
        self.stub.requests.append((method, self.path, dict(self.headers), body))
        page = page_files().get(url.path)
        if method == "GET" and page is not None:
            return self._send(200, page.body, page.headers)
        if url.path == "/livez":
            return self._json({"status": "ok"})
        if not url.path.startswith("/api/v1/"):
            return self._problem(404, "not_found", "path not found")
        return self._api(method, url.path.removeprefix("/api/v1/").split("/"), parse_qs(url.query), body)

    def _api(self, method: str, path: list[str], query: dict[str, list[str]], body: bytes) -> None:
        stub = self.stub
        if path == ["session"]:
            if method == "DELETE":
                return self._send(204, b"", {"Set-Cookie": "mw_session=; Max-Age=0; Path=/"})
            if json.loads(body).get("token") != TOKEN:
                return self._problem(401, "unauthorized", "unknown token", "ask an admin for a token")
            cookie = {"Set-Cookie": "mw_session=1; HttpOnly; SameSite=Strict; Path=/"}
            return self._send(
                200, json.dumps({"secret": SECRET}).encode(), {**cookie, "Content-Type": "application/json"}
            )
        if "mw_session=1" not in self.headers.get("Cookie", "") or self.headers.get("X-Mergewise") != SECRET:
            return self._problem(401, "unauthorized", "missing token", "sign in", **{"WWW-Authenticate": "Bearer"})
        match path:
            case ["collections"]:
                return self._list([stub.info(name) for name in stub.collections])
            case ["collections", name, *_] if name not in stub.collections:
                return self._problem(404, "not_found", "collection not found")
            case ["collections", name]:
                return self._json(stub.info(name))
            case ["collections", name, "documents"] if method == "GET":
                prefix, status = query.get("prefix", [""])[0], query.get("status", [""])[0]
                rows = stub.rows() if name == stub.collections[0] else []
                rows = [row for row in rows if row["id"].startswith(prefix) and status in ("", row["status"])]
                at, limit = int(query.get("cursor", ["0"])[0]), int(query.get("limit", ["50"])[0])
                behind = str(at + limit) if at + limit < len(rows) else None
                return self._json({"items": rows[at : at + limit], "next": behind})
            case ["collections", _, "documents"]:
                sent = re.search(rb'filename="([^"]*)".*?\r\n\r\n(.*)\r\n--', body, re.DOTALL)
                assert sent is not None
                job = stub.add(sent[1].decode(), sent[2].decode("utf-8", "replace"))
                documents = [{"key": key_of(job["name"]), "id": job["name"], "title": ""}]
                return self._json({"job": job, "documents": documents}, 202)
            case ["collections", _, "documents", key, *rest]:
                return self._document(method, id_of(key), rest, query)
            case ["collections", _, "context"]:
                found = {"id": "c1", "question": stub.question, "context": stub.context()}
                return self._json({**found, "timings": {"assemble_ms": 41.0}})
            case ["collections", _, "ask"]:
                return self._ask()
            case ["collections", _, "conversations"]:
                return self._list([])
            case ["collections", _, "suggestions"]:
                topic = {"text": "How it works", "title": stub.question, "question": QUESTION}
                return self._json({"items": [topic] if stub.texts else []})
            case ["collections", _, "compare"]:
                return self._compare(json.loads(body))
            case ["collections", _, "evaluations", _]:
                shown = asdict(replace(report(), data=()))
                return self._json({"id": "e1", "state": "done", "rows": [], "report": shown})
            case ["collections", _, "jobs"]:
                if not stub.evaluations:
                    return self._problem(501, "not_here", "this server runs no evaluations")
                stub.jobs.append(evaluation_job())
                return self._json({"job": stub.jobs[-1]}, 202)
            case ["jobs"]:
                stub.advance_jobs()
                kind = query.get("kind", [""])[0]
                return self._list([job for job in stub.jobs if kind in ("", job["kind"])])
            case ["jobs", job, "cancel" | "retry" as what]:
                for one in stub.jobs:
                    if one["id"] == job:
                        one["state"] = "cancelled" if what == "cancel" else "queued"
                return self._json({"id": job}, 202)
            case ["models"]:
                return self._json(MODELS)
            case ["tokens" | "settings", *_] if "admin" not in stub.scopes:
                detail, hint = "missing scope: admin", "ask an admin for a token with this scope"
                return self._problem(403, "forbidden", detail, hint)
            case ["settings"]:
                return self._json(SETTINGS)
            case ["tokens"] if method == "GET":
                return self._list(stub.tokens)
            case ["tokens"]:
                unlimited = dict.fromkeys(("collections", "filter", "expires", "rate"))
                token = {"id": f"t{len(stub.tokens) + 1}", **unlimited, "created": 0.0, **json.loads(body)}
                stub.tokens.append(token)
                return self._json({**token, "secret": f"mw_{token['id']}_secretsecret"}, 201)
            case ["tokens", token]:
                stub.tokens = [one for one in stub.tokens if one["id"] != token]
                return self._send(204, b"", {})
        return self._problem(404, "not_found", "path not found")

    def _document(self, method: str, doc_id: str, rest: list[str], query: dict[str, list[str]]) -> None:
        stub = self.stub
        if method == "DELETE":
            stub.texts.pop(doc_id, None)
            stub.failures.pop(doc_id, None)
            return self._json({"job": {"id": "j9", "state": "queued"}}, 202)
        if doc_id not in stub.texts:
            return self._problem(404, "not_found", "document not found")
        text, _ = stub.texts[doc_id]
        if rest == ["text"]:
            start, end = int(query.get("start", ["0"])[0]), int(query.get("end", [str(len(text))])[0])
            end = min(len(text), end, start + 200_000)
            return self._json({"start": start, "end": end, "characters": len(text), "text": text[start:end]})
        if rest[:1] == ["pages"]:
            return self._problem(404, "not_found", "original not found")
        if rest == ["original"]:
            held = {"Content-Disposition": "attachment", "Content-Security-Policy": "sandbox"}
            if stub.cut:
                held, self.close_connection = {**held, "Transfer-Encoding": "chunked"}, True
            return self._send(200, text.encode("utf-8", "replace"), {**held, "Content-Type": "text/plain"})
        row = next(row for row in stub.rows() if row["id"] == doc_id)
        step = 20_000
        pages = [{"number": n + 1, "start": at, "end": at + step} for n, at in enumerate(range(0, len(text), step))]
        outline = [asdict(one) for one in outline_of(text)]
        return self._json({**row, "outline": outline, "pages": pages if doc_id.endswith(".pdf") else []})

    def _ask(self) -> None:
        stub = self.stub
        if stub.refusals:
            status, headers, problem = stub.refusals.pop(0)
            return self._json(problem, status, headers)
        send = self._stream()
        try:
            send("started", {"id": "q1", "snapshot": "7c1f"})
            send("context", stub.context())
            for word in re.findall(r"\S+\s*|\s+", stub.answer):
                if stub.pause:
                    time.sleep(stub.pause)
                send("delta", {"text": word})
            done = stub.answer_body()
            send("citations", {"citations": done["citations"]})
            send("done", done)
        except (BrokenPipeError, ConnectionResetError):
            stub.hangups += 1
        return None

    def _compare(self, form: JSON) -> None:
        stub = self.stub
        contexts = [
            (stub.record(run["strategy"], stub.quotes if i == 0 else stub.quotes[: max(1, 3 - i)]), 0.0125 * (i + 1))
            for i, run in enumerate(form["runs"])
        ]
        html = comparison_fragment(contexts, document=stub.document, address=stub.place)
        self._json({"question": form["question"], "runs": [{"index": i} for i in range(len(contexts))], "html": html})

    def _stream(self) -> Callable[[str, JSON], None]:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

        def send(event: str, data: JSON) -> None:
            self.wfile.write(f"event: {event}\ndata: {json.dumps(data)}\n\n".encode())
            self.wfile.flush()

        return send

    def _list(self, items: Sequence[JSON]) -> None:
        self._json({"items": list(items), "next": None})

    def _json(self, value: JSON, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        kind = "application/json" if status < 400 else "application/problem+json"
        sent = {"Content-Type": kind, "Cache-Control": "no-store", **(headers or {})}
        self._send(status, json.dumps(value).encode(), sent)

    def _problem(self, status: int, code: str, detail: str, hint: str = "", **headers: str) -> None:
        self._json(problem(status, code, detail, hint), status, headers)

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204 and "Transfer-Encoding" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def hostile_stub(suffix: str = "") -> Stub:
    """Return a server whose documents, titles, answers and errors attack the page."""
    name = "evil/" + HOSTILE_WORDS[:300].replace("/", "_") + suffix
    stub = Stub({name: (HOSTILE, HOSTILE_WORDS)}, question=HOSTILE_WORDS[:900], quotes=((name, HOSTILE_WORDS),))
    stub.answer, stub.unverified = f"{HOSTILE_WORDS} [1]", (HOSTILE_WORDS[:40],)
    stub.failures = {name + ".pdf": {"code": "x", "detail": HOSTILE_WORDS, "hint": HOSTILE_WORDS}}
    unlimited = dict.fromkeys(("collections", "expires", "rate"))
    stub.tokens = [{"id": "t1", "title": HOSTILE_WORDS[:190], "scopes": ["read"], **unlimited}]
    return stub


@contextmanager
def serving(stub: Stub, port: int = 0) -> Iterator[Stub]:
    """Serve the stub at `stub.address` for the duration of the block."""
    server = ThreadingHTTPServer(("127.0.0.1", port), type("Handler", (Handler,), {"stub": stub}))
    server.daemon_threads = True
    stub.is_gone = False
    stub.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        stub.is_gone = True
        server.shutdown()
        server.server_close()
        thread.join()
