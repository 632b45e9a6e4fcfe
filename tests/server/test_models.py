"""Models that admins name on the page: at once in all processes, and with keys that are only written."""

from __future__ import annotations

import logging
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import mergewise as mw
from mergewise.server.backup import write_backup
from mergewise.server.models import AddedModel, ModelConfig
from tests.chat_server import ChatServer
from tests.page import chromium
from tests.server.conftest import LiveServer
from tests.server.test_web_page import ask, click, go, text, until, visit_address, write

KEY = "sk-very-secret-0123456789"
ASKED = {"question": "When was the Aurora built?"}
MODELS = "/api/v1/models"


@pytest.fixture
def live(start_server: Callable[..., LiveServer]) -> LiveServer:
    return start_server(with_chat=False)


def test_a_model_answers_at_once_in_all_processes(live: LiveServer) -> None:
    admin, other = live.client("admin"), pickle.loads(pickle.dumps(live.config))
    ask = "/api/v1/collections/ships/ask"
    assert admin.post(ask, json=ASKED).json()["mode"] == "extractive"
    lacks = {one["name"]: one["lacks"] for one in admin.get(MODELS).json()["modes"]}
    assert lacks["r&b"] == "needs a chat model" and lacks["extractive"] is None
    form = {"model": "scripted", "base_url": live.chat.base_url, "key": KEY}
    assert admin.put(f"{MODELS}/chats/local", json=form).status_code == 204
    assert other.chats["local"].key() == KEY and other.default_chat == "local"
    assert admin.post(ask, json=ASKED).json()["mode"] != "extractive"
    lacks = {one["name"]: one["lacks"] for one in admin.get(MODELS).json()["modes"]}
    assert lacks["r&b"] is None and lacks["aed"].startswith("needs a causal model")
    tried = admin.post(f"{MODELS}/chats/local/try").json()
    assert tried["ok"] and tried["detail"].startswith("It answered")
    # another address takes effect, and so does the end of the model
    with ChatServer(["It is 1871 [1]."]) as second:
        admin.put(f"{MODELS}/chats/local", json={**form, "base_url": second.base_url})
        assert "It is 1871" in admin.post(ask, json={**ASKED, "question": "Which year?"}).json()["answer"]
        assert len(second.asked) == 1
    failed = admin.post(f"{MODELS}/chats/local/try").json()
    assert not failed["ok"] and failed["detail"] and KEY not in str(failed)
    assert admin.delete(f"{MODELS}/chats/local").status_code == 204
    assert admin.post(ask, json=ASKED).json()["mode"] == "extractive" and not [*other.chats]


def test_no_route_log_or_backup_gives_a_key_back(
    live: LiveServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    admin = live.client("admin")
    # an endpoint that repeats the key in its errors
    with ChatServer([f"Your key is {KEY}."]) as chat:
        for group, address in (
            ("chats", chat.base_url),
            ("embedders", chat.base_url),
            ("rerankers", f"{chat.base_url}/x"),
        ):
            form = {"model": "m", "base_url": address, "key": KEY}
            assert admin.put(f"{MODELS}/{group}/local", json=form).text == ""
            assert KEY not in admin.post(f"{MODELS}/{group}/local/try").text
        assert KEY not in admin.post("/api/v1/collections/ships/ask", json=ASKED).text
    refused = admin.put(f"{MODELS}/chats/other", json={"model": "m", "key": f"{KEY} x"})
    assert refused.status_code == 422 and KEY not in refused.text
    paths = [path for path, methods in admin.get("/api/v1/openapi.json").json()["paths"].items() if "get" in methods]
    assert MODELS in paths
    for path in paths:
        if "{" not in path.replace("{c}", ""):
            assert KEY not in admin.get(path.replace("{c}", "ships")).text, path
    assert KEY not in caplog.text
    write_backup(live.config.data, tmp_path / "backup.tar")
    assert KEY.encode() not in (tmp_path / "backup.tar").read_bytes()
    with tarfile.open(tmp_path / "backup.tar") as archive:
        assert not [name for name in archive.getnames() if name.startswith("models")]
    files = [path for path in live.config.data.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert len(files) == 3 and {path.stat().st_mode & 0o777 for path in files} == {0o600}
    for group in ("chats", "embedders", "rerankers"):
        admin.delete(f"{MODELS}/{group}/local")
    assert not [*(live.config.data / "models").iterdir()]


def test_a_key_goes_to_no_other_address(live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    monkeypatch.setenv("RERANK_API_KEY", "rk-of-the-environment")
    admin, chats = live.client("admin"), live.config.chats
    admin.put(f"{MODELS}/chats/a", json={"model": "m", "base_url": "https://one.invalid/v1", "key": KEY})
    admin.put(f"{MODELS}/chats/a", json={"model": "n", "base_url": "https://one.invalid/v1"})
    assert (chats["a"].spec, chats["a"].key()) == ("openai:n", KEY)
    admin.put(f"{MODELS}/chats/a", json={"model": "n", "base_url": "https://two.invalid/v1"})
    assert chats["a"].key() == "none"
    admin.put(f"{MODELS}/rerankers/b", json={"base_url": "https://one.invalid/rerank"})
    assert live.config.rerankers["b"].key() == "none"
    # without an address, the key of the environment goes to the address of the environment
    admin.put(f"{MODELS}/chats/c", json={"model": "m"})
    assert chats["c"].key() is None and chats["c"].base_url is None
    for wrong in ("ftp://x/v1", "https://user:pass@x/v1", "https://x/v1?key=1", "file:///etc/passwd"):
        assert admin.put(f"{MODELS}/chats/d", json={"model": "m", "base_url": wrong}).status_code == 422
    assert admin.put(f"{MODELS}/rerankers/d", json={"model": "m"}).status_code == 422


def test_only_admins_of_the_whole_server_change_models(start_server: Callable[..., LiveServer]) -> None:
    live = start_server()
    form = {"model": "m", "base_url": "https://one.invalid/v1", "key": KEY}
    _, partial = live.state.tokens.add(["read", "write", "admin"], collections=["ships"])
    for token in ("read", "write", "feedback", "ships", partial):
        client = live.client(token)
        for answer in (
            client.put(f"{MODELS}/chats/a", json=form),
            client.delete(f"{MODELS}/chats/scripted"),
            client.post(f"{MODELS}/chats/scripted/try"),
        ):
            assert answer.status_code == 403, token
    assert live.client(None).put(f"{MODELS}/chats/a", json=form).status_code == 401
    assert [*live.config.chats] == ["scripted"] and "spec" not in live.client("read").get(MODELS).json()["chats"][0]
    # those of the configuration stay as they are
    admin = live.client("admin")
    assert admin.put(f"{MODELS}/chats/scripted", json=form).status_code == 409
    assert admin.delete(f"{MODELS}/chats/scripted").status_code == 409


def test_an_embedder_of_the_page_makes_and_searches_an_index(live: LiveServer, tmp_path: Path) -> None:
    embedder = ModelConfig("openai:m", base_url="https://one.invalid/v1").embedder()
    assert isinstance(embedder, mw.OpenAIEmbedder) and embedder.spec == "openai:m"
    live.config.embedders.change("local", AddedModel("openai:m", "https://one.invalid/v1", secret=KEY))  # type: ignore[attr-defined]
    assert isinstance(live.config.embedder("local"), mw.OpenAIEmbedder)
    assert live.config.embedder("minilm") == "minilm" and live.config.embedder(None) is None


@pytest.mark.skipif(chromium.PATH is None, reason=f"none of {', '.join(chromium.NAMES)} is installed")
def test_models_are_named_and_tried_on_the_page(live: LiveServer) -> None:
    with chromium.browser() as browser:
        visit_address(browser, live.base, live.tokens["admin"])
        go(browser, "#/c/ships/ask", ".ways")
        browser.js("document.querySelector('.ways').open = true")
        option = "[...document.querySelectorAll('.ways option')].find(one => one.value === 'r&b')"
        until(browser, f"{option}?.disabled && {option}.textContent.startsWith('r&b (needs a chat model')")
        go(browser, "#/settings", ".make input[type=url]")
        browser.js("[...document.querySelectorAll('.make')].find(one => one.querySelector('[type=url]')).open = true")
        form = "form:has(input[type=url])"
        for selector, words in (
            ("[placeholder=local]", "local"),
            ("[type=url]", live.chat.base_url),
            ("[placeholder=qwen3]", "scripted"),
            ("[type=password]", KEY),
        ):
            write(browser, f"{form} {selector}", words)
        browser.press("Enter")
        click(browser, "[aria-label='Try local']")
        until(browser, "document.querySelector('.row [role=status]')?.textContent.startsWith('It answered')")
        assert KEY not in browser.js("document.documentElement.outerHTML")
        assert browser.js(f"document.querySelector('{form} [type=password]').value") == ""
        go(browser, "#/c/ships/ask", "textarea")
        browser.js("document.querySelector('.ways').open = true")
        until(browser, f"{option} && !{option}.disabled")
        ask(browser, "When was the Aurora built?")
        assert "1 model call" in text(browser, ".foot")
        go(browser, "#/settings", "[aria-label='Remove local']")
        click(browser, "[aria-label='Remove local']")
        until(browser, "!document.querySelector('[aria-label=\"Remove local\"]')")
        assert browser.complaints() == []
        visit_address(browser, live.base, live.tokens["read"])
        go(browser, "#/settings", ".setting .rows")
        assert browser.js("document.querySelector('.make input[type=url]')") is None
