"""Uploads to one collection while another is evaluated, or indexes a huge document, on a whole server on loopback.

    python -m benchmarks.serve.fairness --questions 1500

Prints a line of JSON for each part, with the seconds of an upload alone and the longest beside the other work:

- `evaluation`: an evaluation of many questions
- `document`: a DOCX of 80 kB with 1.5 million paragraphs
- `collections`: uploads of several hundred documents to as many collections as the writer has lanes

The exit status is 1 if an upload took more than five seconds longer than alone.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx2 as httpx

from benchmarks.serve.running import running_server
from mergewise.server.jobs.runner import LANES
from mergewise.server.records import ENDED

OTHERS = [f"other{number}" for number in range(LANES)]
UPLOADS = "uploads"
ALLOWED = 5.0
"""Seconds that an upload may take longer than alone."""
PAUSE = 0.5
_TYPES = "http://schemas.openxmlformats.org/package/2006"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
_MAIN = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def text(number: int, paragraphs: int = 3) -> str:
    body = (
        f"Bridge {n} of town {number} was rebuilt in {1500 + n} by a mason of the valley." for n in range(paragraphs)
    )
    return f"# Town {number}\n\n" + "\n\n".join(body)


def many_paragraphs(count: int) -> bytes:
    """Return a small DOCX file with this number of paragraphs."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", f'<Types xmlns="{_TYPES}/content-types"/>')
        relation = f'<Relationship Id="r1" Type="{_OFFICE}" Target="word/document.xml"/>'
        archive.writestr("_rels/.rels", f'<Relationships xmlns="{_TYPES}/relationships">{relation}</Relationships>')
        body = "<p><r><t>a</t></r></p>" * count
        archive.writestr("word/document.xml", f'<document xmlns="{_MAIN}"><body>{body}</body></document>')
    return file.getvalue()


class Uploads:
    """A client that uploads documents and waits for their jobs."""

    def __init__(self, client: httpx.Client) -> None:
        self.client, self._number = client, 0

    def send(self, collection: str, texts: Sequence[str]) -> str:
        documents = [{"id": f"d{self._number + n}", "text": one} for n, one in enumerate(texts)]
        self._number += len(documents)
        return self._job(self.client.post(self._path(collection, "documents"), json={"documents": documents}))

    def send_file(self, collection: str, name: str, content: bytes) -> str:
        return self._job(self.client.post(self._path(collection, "documents"), files={"files": (name, content)}))

    def evaluate(self, collection: str, questions: int) -> str:
        asked = [
            {"question": f"When was bridge {n} rebuilt?", "answers": [str(1500 + n % 3)]} for n in range(questions)
        ]
        form = {"kind": "evaluate", "request": {"questions": asked, "budgets": [384]}}
        return self._job(self.client.post(self._path(collection, "jobs"), json=form))

    def has_ended(self, job: str) -> bool:
        return self.state(job) in ENDED

    def state(self, job: str) -> str:
        return str(self.client.get(f"/api/v1/jobs/{job}").raise_for_status().json()["state"])

    def timed(self, collection: str) -> float:
        """Return the seconds from an upload until its job is done."""
        began = time.monotonic()
        job = self.send(collection, [text(self._number)])
        while not self.has_ended(job):
            time.sleep(0.05)
        assert self.state(job) == "done", job
        return time.monotonic() - began

    def _path(self, collection: str, what: str) -> str:
        return f"/api/v1/collections/{collection}/{what}"

    def _job(self, answer: httpx.Response) -> str:
        return str(answer.raise_for_status().json()["job"]["id"])


def beside(uploads: Uploads, start: Callable[[], list[str]], most_seconds: float) -> dict[str, Any]:
    """Upload again and again until the jobs of `start` have ended, or for `most_seconds`."""
    alone = sorted(uploads.timed(UPLOADS) for _ in range(5))[2]
    began, taken = time.monotonic(), list[float]()
    jobs = start()
    while not all(map(uploads.has_ended, jobs)) and time.monotonic() - began < most_seconds:
        taken.append(uploads.timed(UPLOADS))
        time.sleep(PAUSE)
    spent = time.monotonic() - began
    for job in jobs:
        uploads.client.post(f"/api/v1/jobs/{job}/cancel")
    return {
        "alone": round(alone, 2),
        "longest": round(max(taken), 2),
        "uploads": len(taken),
        "seconds": round(spent, 1),
        "ended": [uploads.state(job) for job in jobs],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--questions", type=int, default=1500)
    parser.add_argument("--documents", type=int, default=600, help="Number of documents of each other collection")
    parser.add_argument("--paragraphs", type=int, default=1_500_000, help="Paragraphs of the huge document")
    parser.add_argument("--seconds", type=float, default=600.0, help="Longest time of a part")
    parser.add_argument("--only", default="", help="Parts to run, separated by commas")
    asked = parser.parse_args(arguments)
    most = 0.0
    with tempfile.TemporaryDirectory(prefix="mergewise-fairness-") as folder:
        collections = [UPLOADS, *OTHERS]
        with running_server(Path(folder) / "data", ["x"], collections=collections) as server, server.client() as client:
            uploads, first = Uploads(client), OTHERS[0]

            def send_to_all() -> list[str]:
                texts = [text(number, 40) for number in range(asked.documents)]
                parts = [texts[at : at + 200] for at in range(0, len(texts), 200)]
                return [uploads.send(name, part) for name in OTHERS for part in parts]

            def send_huge() -> list[str]:
                return [uploads.send_file(first, "huge.docx", many_paragraphs(asked.paragraphs))]

            job = uploads.send(first, [text(number) for number in range(200)])
            while not uploads.has_ended(job):
                time.sleep(0.1)
            parts: dict[str, Callable[[], list[str]]] = {
                "evaluation": lambda: [uploads.evaluate(first, asked.questions)],
                "document": send_huge,
                "collections": send_to_all,
            }
            for name, start in parts.items():
                if not asked.only or name in asked.only.split(","):
                    figures = beside(uploads, start, asked.seconds)
                    most = max(most, figures["longest"] - figures["alone"])
                    print(json.dumps({"part": name, **figures}), flush=True)
    return int(most > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
