"""`make audit` says which packages were looked up: a database that cannot be reached is no clean bill."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from scripts.audit import main

# pip-audit, with answers from a file: the records of each database, or None where it cannot be reached
PIP_AUDIT = """
import json, sys
answers = json.loads(open(sys.argv[1]).read())
database = sys.argv[sys.argv.index("--vulnerability-service") + 1]
if answers[database] is None:
    raise ConnectionError("no such host")
print(json.dumps({"dependencies": answers[database], "fixes": []}))
sys.exit(any(record.get("vulns") for record in answers[database]))
"""
CLEAN = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "CVE-1"}]}
SKIPPED = {"name": "b", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("answers", "code", "lines"),
    [
        ({"pypi": [CLEAN], "osv": None}, 0, ["1 packages looked up, 0 vulnerable"]),
        ({"pypi": [CLEAN, BAD], "osv": None}, 1, ["b is vulnerable: CVE-1", "2 packages looked up, 1 vulnerable"]),
        ({"pypi": [CLEAN, SKIPPED], "osv": [CLEAN, BAD]}, 1, ["b is vulnerable: CVE-1", "2 packages looked up"]),
        ({"pypi": [CLEAN, SKIPPED], "osv": None}, 2, ["b was not looked up: not found", "1 packages looked up"]),
        ({"pypi": [SKIPPED], "osv": None}, 2, ["not audited, because no database of vulnerabilities answers here"]),
        ({"pypi": None, "osv": None}, 2, ["not audited, because", "no such host"]),
    ],
)
def test_packages_that_no_database_knows_are_named(
    answers: dict[str, object], code: int, lines: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "answers.json"
    file.write_text(json.dumps(answers))
    assert main(["some.lock", "--", sys.executable, "-c", PIP_AUDIT, str(file)]) == code
    printed = capsys.readouterr().out
    assert all(line in printed for line in lines) and "Traceback" not in printed


def test_the_worst_lock_decides(tmp_path: Path) -> None:
    file = tmp_path / "answers.json"
    file.write_text(json.dumps({"pypi": [BAD], "osv": None}))
    assert main(["a.lock", "b.lock", "--", sys.executable, "-c", PIP_AUDIT, str(file)]) == 1
