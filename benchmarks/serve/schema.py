"""Valid and invalid requests for every operation of the OpenAPI document, against a whole server.

    python -m benchmarks.serve.schema --seconds 300

Schemathesis generates the requests, in all its phases. No response may be a 5xx or differ from the documented form.
The exit status is that of Schemathesis. Run `pip install schemathesis` first.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.serve.running import running_server

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "ignored_auth",
)
# Existing names for path parameters. Operations that would delete the collection or the token are excluded.
# A body over the limit is refused unread, and all values of a multipart form are texts.
KNOWN = """[checks]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]

[[operations]]
include-path = "/v1/files"
checks.negative_data_rejection.enabled = false

[parameters]
"path.c" = "ships"
"path.key" = ["Zmxlc", "ZmxlZXQubWQ", "YmlyZHMubWQ", "bm9uZQ"]
"""
TAKES_AWAY = "^(drop_collection|remove_token)"
ANSWER = "It was built in 1871 [1]."
TEXTS = {
    "fleet.md": "# Aurora\n\nThe Aurora was built in Lyme in 1871.\n",
    "birds.md": "# Terns\n\nA tern lives thirty years.\n",
}


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
                documents = [{"id": id, "text": text} for id, text in TEXTS.items()]
                sent = client.post("/api/v1/collections/ships/documents", json={"documents": documents})
                job = sent.raise_for_status().json()["job"]["id"]
                while client.get(f"/api/v1/jobs/{job}").json()["state"] not in ("done", "failed"):
                    time.sleep(0.1)
            known = Path(directory) / "schemathesis.toml"
            known.write_text(KNOWN)
            words = [
                str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(known),
                "run", f"{server.url}/api/v1/openapi.json",
                "--header", f"Authorization: Bearer {server.token}", "--checks", ",".join(CHECKS),
                "--phases", asked.phases, "--max-time", str(asked.seconds), "--max-examples", str(asked.examples),
                "--continue-on-failure", "--no-color", "--request-timeout", "30", "--generation-database", "none",
                "--exclude-operation-id-regex", TAKES_AWAY,
                *(["--include-path-regex", asked.only] if asked.only else []),
            ]  # fmt: skip
            status = subprocess.run(words, check=False).returncode
        failed = [line for line in (Path(directory) / "log").read_text().splitlines() if "Traceback" in line]
        if failed:
            print(f"{len(failed)} tracebacks in the log:", (Path(directory) / "log").read_text()[-6000:])
    return status


if __name__ == "__main__":
    sys.exit(main())
