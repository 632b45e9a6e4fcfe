"""The skill, the manifests and the texts of the site."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from scripts.site_texts import llms_text
from typer.testing import CliRunner

from mergewise.cli.main import app, callbacks

ROOT = Path(__file__).parents[2]
SKILLS = ROOT / "src/mergewise/agents/skills"


def test_the_skill_is_short_and_names_commands_that_exist(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["skill", str(tmp_path)]).exit_code == 0
    text = (tmp_path / "mergewise/SKILL.md").read_text(encoding="utf-8")
    assert text == (SKILLS / "mergewise/SKILL.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 100 and text.startswith("---\nname: mergewise\ndescription: ")
    assert set(re.findall(r"`mergewise ([a-z]+)", text)) <= callbacks().keys()


def test_manifests_start_the_server() -> None:
    plugin = json.loads((ROOT / ".claude-plugin/plugin.json").read_text(encoding="utf-8"))
    assert (ROOT / plugin["skills"]).resolve() == SKILLS
    assert plugin["mcpServers"]["mergewise"] == {"command": "mergewise", "args": ["mcp"]}
    server = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
    assert len(server["description"]) <= 100
    (package,) = server["packages"]
    assert package["identifier"] == "mergewise" and package["packageArguments"][0]["value"] == "mcp"


def test_llms_text_lists_every_page() -> None:
    pages = re.findall(r"\]\(([\w/-]+\.md)\): \S", llms_text())
    navigation = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    assert len(pages) == len(set(pages)) == len(re.findall(r"[\w/-]+\.md", str(navigation["project"]["nav"])))
    assert all((ROOT / "docs" / page).is_file() for page in pages)
