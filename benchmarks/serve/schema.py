"""Valid and invalid requests for every operation of the OpenAPI document, against a whole server.

    python -m benchmarks.serve.schema --seconds 300

Schemathesis generates the requests, in all its phases. No response may be a 5xx or differ from the documented form.
The exit status is that of Schemathesis. Run `pip install schemathesis` first.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2 as httpx

from benchmarks.serve.running import running_server
from mergewise.server.collections import key_of

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "ignored_auth",
)
# A body over the limit is refused unread, and all values of a multipart form are texts.
SETTINGS = """[checks]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]

[[operations]]
include-path = "/v1/files"
checks.negative_data_rejection.enabled = false

[parameters]
"path.c" = "ships"
"""
# Operations that would delete the collection or the token are excluded. Those that delete other things run at the end.
ENDS_ALL = "^(drop_collection|delete_store_|remove_token)"
REMOVES = "^(remove_document|delete_(file|conversation|response)|remove_store_file|close_session|cancel_)"
ANSWER = "It was built in 1871 [1]."
TEXTS = {
    "fleet.md": "# Aurora\n\nThe Aurora was built in Lyme in 1871.\n",
    "birds.md": "# Terns\n\nA tern lives thirty years.\n",
}
QUESTIONS = [{"question": "When was the Aurora built?", "answers": ["1871"]}]
NOTE = b"# Note\n\nA note of the crew.\n"
PDF = b"""%PDF-1.4
1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj
2 0 obj <</Type/Pages/Kids[3 0 R]/Count 1>> endobj
3 0 obj <</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R
  /Resources<</Font<</F1 <</Type/Font/Subtype/Type1/BaseFont/Helvetica>> >> >> >> endobj
4 0 obj <</Length 49>> stream
BT /F1 12 Tf 20 100 Td (The crew sleeps.) Tj ET
endstream endobj
trailer <</Root 1 0 R>>
"""
ANSWERS = 10
FILES = 40  # most of them for the operations that delete them


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--examples", type=int, default=100, help="Examples per operation")
    parser.add_argument("--phases", default="examples,coverage,fuzzing,stateful")
    parser.add_argument("--only", default="", help="Regular expression for the paths of operations")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mergewise-schema-") as directory:
        with running_server(Path(directory), [ANSWER], collections=["ships"]) as server:
            with server.client() as client:
                known = SETTINGS + "".join(_known_ids(number, *one) for number, one in enumerate(seed(client)))
            settings = Path(directory) / "schemathesis.toml"
            settings.write_text(known)
            words = [
                str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(settings),
                "run", f"{server.url}/api/v1/openapi.json",
                "--header", f"Authorization: Bearer {server.token}", "--checks", ",".join(CHECKS),
                "--phases", asked.phases, "--max-examples", str(asked.examples),
                "--continue-on-failure", "--no-color", "--request-timeout", "30", "--generation-database", "none",
                *(["--include-path-regex", asked.only] if asked.only else []),
            ]  # fmt: skip
            status = 0
            for share, operations in ((0.8, ["--exclude-operation-id-regex", f"{ENDS_ALL}|{REMOVES}"]),
                                      (0.2, ["--include-operation-id-regex", REMOVES])):  # fmt: skip
                time_limit = ["--max-time", str(max(1, round(share * asked.seconds)))]
                status = max(status, subprocess.run([*words, *time_limit, *operations], check=False).returncode)
            with server.client() as client:
                print("routes that never succeeded:", ", ".join(failing_routes(client.get("/metrics").text)) or "none")
        failed = [line for line in (Path(directory) / "log").read_text().splitlines() if "Traceback" in line]
        if failed:
            print(f"{len(failed)} tracebacks in the log:", (Path(directory) / "log").read_text()[-6000:])
    return status


def seed(client: httpx.Client) -> list[tuple[str, str, Sequence[str | int]]]:
    """Send documents, files and jobs. Return their ids, each list with a pattern of paths and the parameter that takes it."""

    def sent(method: str, path: str, **body: Any) -> Any:
        return client.request(method, path, **body).raise_for_status().json()

    def started(kind: str, **request: Any) -> str:
        return str(sent("POST", "/api/v1/collections/ships/jobs", json={"kind": kind, "request": request})["job"]["id"])

    documents = [{"id": id, "text": text} for id, text in TEXTS.items()]
    jobs = [str(sent("POST", "/api/v1/collections/ships/documents", json={"documents": documents})["job"]["id"])]
    pdf = {"files": ("crew.pdf", PDF, "application/pdf")}
    jobs.append(str(sent("POST", "/api/v1/collections/ships/documents", files=pdf)["job"]["id"]))
    files = [
        str(sent("POST", "/v1/files", data={"purpose": "assistants"}, files={"file": (f"{i}.md", NOTE)})["id"])
        for i in range(FILES)
    ]
    attached = files[: FILES // 2]
    batch = sent("POST", "/v1/vector_stores/ships/file_batches", json={"file_ids": attached})["id"]
    evaluations = [started("evaluate", strategies=["weave"], questions=QUESTIONS)]
    jobs += [started("check"), *evaluations]
    while any(sent("GET", f"/api/v1/jobs/{job}")["state"] not in ("done", "failed") for job in jobs):
        time.sleep(0.1)
    asked = {"question": QUESTIONS[0]["question"], "conversation": "new"}
    answers = [sent("POST", "/api/v1/collections/ships/ask", json=asked) for _ in range(ANSWERS)]
    conversations, turns = ([one[name] for one in answers] for name in ("conversation", "turn"))
    kept = f"/api/v1/collections/ships/conversations/{conversations[0]}"
    shared = [str(sent("PATCH", kept, json={"is_shared": True})["share"])]
    models = [str(one["id"]) for one in sent("GET", "/v1/models")["data"]]
    prompt = {"model": "ships", "input": QUESTIONS[0]["question"]}
    responses = [str(sent("POST", "/v1/responses", json=prompt)["id"]) for _ in range(ANSWERS)]
    return [
        ("/documents/", "path.key", [key_of(id) for id in (*TEXTS, "crew.pdf", "none")]),
        ("/pages/", "path.number", [1]),
        ("^/api/v1/jobs/", "path.id", jobs),
        ("/evaluations/", "path.id", evaluations),
        ("^/v1/files/", "path.id", files[FILES // 2 :]),
        ("^/v1/vector_stores/.*/files/", "path.id", attached),
        ("/file_batches/", "path.id", [str(batch)]),
        ("/conversations/", "path.id", conversations),
        ("/shared/", "path.id", shared),
        ("/turns/", "path.turn", turns),
        ("^/v1/responses/", "path.id", responses),
        ("^/v1/models/", "path.model", models),
        # the scripted model does not write what the strategies with calls of their own expect
        ("^/v1/(chat/completions|completions|responses)$", "body.model", ["ships", "ships:topk"]),
        ("^/v1/embeddings$", "body.model", ["minilm"]),
    ]


def failing_routes(metrics: str) -> list[str]:
    """Return the routes that have requests in Prometheus' text form, but none with a status below 400."""
    statuses: dict[str, set[str]] = defaultdict(set)
    for labels in re.findall(r"^mergewise_requests_total{(.*)}", metrics, re.MULTILINE):
        values = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        statuses[values["route"]].add(values["status"])
    return sorted(route for route, seen in statuses.items() if min(seen) >= "400")


def _known_ids(number: int, path: str, name: str, ids: Sequence[str | int]) -> str:
    """Return settings that draw a parameter from existing ids, in nine of ten requests."""
    return (
        f"\n[dictionaries.known{number}]\nvalues = {json.dumps(ids)}\n"
        f"\n[[operations]]\ninclude-path-regex = {json.dumps(path)}\n[operations.parameters]\n"
        f'"{name}" = {{ dictionary = "known{number}", probability = 0.9 }}\n'
    )


if __name__ == "__main__":
    sys.exit(main())
