"""Look up the packages of locks in a database of known vulnerabilities, by pip-audit.

python -m scripts.audit LOCK ... -- COMMAND

COMMAND runs pip-audit. It skips packages that its database does not answer for, and then says "No known vulnerabilities found".
So a second database is asked, and the report names the packages that neither one answered for. Exits with 1 if a package is
vulnerable, else with 2 if a package was not looked up.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

DATABASES = ("pypi", "osv")


def look_up(lock: str, command: Sequence[str], database: str) -> tuple[list[dict[str, Any]], str]:
    """Return pip-audit's records of the packages, or none and the reason."""
    words = [
        "--requirement",
        lock,
        "--no-deps",
        "--disable-pip",
        "--vulnerability-service",
        database,
        "--format",
        "json",
    ]
    done = subprocess.run([*command, *words, "--progress-spinner", "off"], capture_output=True, text=True)
    try:
        return json.loads(done.stdout)["dependencies"], ""
    except ValueError:
        return [], (done.stderr.strip().splitlines() or [f"pip-audit exited with {done.returncode}"])[-1]


def audit(lock: str, command: Sequence[str]) -> tuple[list[str], int]:
    """Return the lines of a report, and the exit code."""
    known: dict[str, list[str]] = {}
    missing: dict[str, str] = {}
    for database in DATABASES:
        records, failure = look_up(lock, command, database)
        for record in records:
            if "vulns" in record:
                known[record["name"]] = [one["id"] for one in record["vulns"]]
            else:
                missing.setdefault(record["name"], record["skip_reason"])
        missing = {name: reason for name, reason in missing.items() if name not in known}
        if records and not missing:
            break
    if not known:
        reason = next(iter(missing.values()), failure)
        return [f"{lock}: not audited, because no database of vulnerabilities answers here ({reason})"], 2
    vulnerable = {name: ids for name, ids in known.items() if ids}
    lines = [f"{lock}: {name} is vulnerable: {', '.join(ids)}" for name, ids in vulnerable.items()]
    lines += [f"{lock}: {name} was not looked up: {reason}" for name, reason in missing.items()]
    lines.append(f"{lock}: {len(known)} packages looked up, {len(vulnerable)} vulnerable")
    return lines, 1 if vulnerable else 2 if missing else 0


def main(words: Sequence[str]) -> int:
    end = words.index("--")
    codes = []
    for lock in words[:end]:
        lines, code = audit(lock, words[end + 1 :])
        print(*lines, sep="\n")
        codes.append(code)
    return next((code for code in (1, 2) if code in codes), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
