"""The configuration of a server: precedence of its sources, and errors that name the setting."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import mergewise
from mergewise.errors import MergewiseError, UsageError
from mergewise.server.collections import Chats, Collection
from mergewise.server.configuration import ModelConfig, ServeLimits, ServerConfig, load_config
from mergewise.server.records import CollectionRecord
from mergewise.server.state import State
from tests.server.conftest import indexed

WHOLE = """
[server]
port = 9000
workers = 2
public_url = "https://docs.example.org/"
allowed_hosts = ["docs.example.org"]
tls = { certificate = "c.pem", key = "/k.pem" }
watch = true

[chats.local]
spec = "openai:m"
base_url = "http://127.0.0.1:1/v1"
window = 4096
key_env = "LOCAL_KEY"

[chats.other]
spec = "hf:model"

[embedders.big]
spec = "st:big"

[collections.man-ual]
folders = ["docs", "/srv/docs"]
follow_links = true
strategies = ["weave"]
defaults = { budget = 500 }
embedder = "big"
chat = "local"

[profiles.quick]
collection = "man-ual"
defaults = { budget = "auto", rounds = 2 }

[limits]
k = 100
context_seconds = 2
"""


def write_config(folder: Path, text: str) -> Path:
    (folder / "serve.toml").write_text(text)
    return folder


def test_a_whole_configuration(tmp_path: Path) -> None:
    config = load_config(write_config(tmp_path, WHOLE), environment={})
    assert (config.port, config.workers, config.watch, config.host) == (9000, 2, True, "127.0.0.1")
    assert config.tls_certificate == tmp_path / "c.pem" and config.tls_key == Path("/k.pem")
    assert config.collections["man-ual"].folders == (tmp_path / "docs", Path("/srv/docs"))
    assert config.collections["man-ual"].follow_links
    assert config.collections["man-ual"].defaults == {"budget": 500}
    assert config.profiles["quick"].defaults == {"budget": "auto", "rounds": 2}
    assert (config.limits.k, config.limits.context_seconds, config.limits.candidates) == (100, 2.0, 2000)
    assert config.default_chat == "local" and config.chats["local"].window == 4096
    assert config.url == "https://docs.example.org"
    assert config.hosts >= {"docs.example.org", "127.0.0.1", "localhost"}


def test_flags_override_the_environment_which_overrides_the_file(tmp_path: Path) -> None:
    write_config(tmp_path, '[server]\nport = 1\nhost = "a"\nworkers = 1\n[chats.x]\nspec = "hf:x"\n')
    environment = {"MERGEWISE_SERVE_PORT": "2", "MERGEWISE_SERVE_HOST": "b", "MERGEWISE_SERVE_ALLOWED_HOSTS": "c, d"}
    flags = {"port": 3, "host": None, "chats": {"y": ModelConfig("hf:y")}}
    config = load_config(tmp_path, environment=environment, flags=flags)
    assert (config.port, config.host, config.workers, config.allowed_hosts) == (3, "b", 1, ("c", "d"))
    assert (list(config.chats), config.default_chat) == (["y", "x"], "y")
    assert load_config(tmp_path / "none", environment={}).workers in range(1, 5)


def test_a_collection_uses_its_search_settings_and_weights(tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text("[weave]\ncosine = 3.25")
    text = "[collections.a]\nsearch = 'weight=0.5'\nweights = 'w.toml'"
    config = load_config(write_config(tmp_path, text), environment={})
    place = indexed((("a.md", "The stern is the aft part of a ship."),))
    state = State.of(config)
    for name, weight, cosine in (("a", 0.5, 3.25), ("b", 0.4, None)):
        record = CollectionRecord(name, str(place), str(tmp_path))
        collection = Collection(record, config, Chats(config), state)
        assert collection.index.search_settings.weight == weight
        assert (collection.index.models.weights or {}).get("cosine") == cosine
        collection.close()
    state.close()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[server]\nprot = 1", "server.prot"),
        ("[sever]\n", "sever"),
        ("port = 3", "port"),
        ("[server]\nport = 'a'", "server.port"),
        ("[server]\nport = 70000", "server.port"),
        ("[server]\nport = true", "server.port"),
        ("[server]\nneeds_token = false", "needs_token"),
        ("[server]\ndata = '/'", "data"),
        ("[server]\nallowed_hosts = 'x'", "allowed_hosts"),
        ("[server]\ntls = {certificate = 'c'}", "tls"),
        ("[server]\ntls = {certificat = 'c', key = 'k'}", "certificat"),
        ("[limits]\nk = 0", "limits.k"),
        ("[limits]\nbody = 3", "limits.body"),
        ("[chats.a]\nwindow = 3", "spec"),
        ("[chats.a]\nspec = 'x'\nkey = 'sk-1'", "chats.a.key"),
        ("[chats]\na = 3", "chats.a"),
        ("[collections.A]\n", "'A'"),
        ("[collections.a]\nchat = 'zz'", "collections.a.chat"),
        ("[collections.a]\ndefaults = 3", "defaults"),
        ("[collections.a]\nsearch = 'breadth=3'", "collections.a.search"),
        ("[collections.a]\nweights = 'none.toml'", "none.toml"),
        ("[profiles.p]\ncollection = 'a'\nchat = 'zz'", "profiles.p.chat"),
        ("[profiles.p]\ncollection = 'a'\nfooter = 'sometimes'", "footer"),
        ("not toml", "serve.toml"),
    ],
)
def test_an_invalid_setting_is_named(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_config(write_config(tmp_path, text), environment={})
    assert named in caught.value.message and caught.value.hint


def test_an_invalid_environment_variable_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="MERGEWISE_SERVE_WORKERS"):
        load_config(tmp_path, environment={"MERGEWISE_SERVE_WORKERS": "many"})
    with pytest.raises(UsageError, match=r"named\.toml"):
        load_config(tmp_path, tmp_path / "named.toml", environment={})


@pytest.mark.parametrize("flags", [{"host": "0.0.0.0"}, {"allowed_hosts": ["a"]}, {"public_url": "http://a"}])
def test_no_auth_requires_loopback(tmp_path: Path, flags: dict[str, Any]) -> None:
    assert not load_config(tmp_path, environment={}, flags={"needs_token": False}).needs_token
    with pytest.raises(UsageError, match="no-auth"):
        load_config(tmp_path, environment={}, flags={"needs_token": False, **flags})


def test_an_api_key_is_read_and_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("LOCAL_KEY", "sk-configuration-1")
    chat = ModelConfig("openai:m", base_url="http://127.0.0.1:1/v1", window=99, key_env="LOCAL_KEY").chat()
    assert isinstance(chat, mergewise.OpenAIChat) and chat.window == 99
    assert str(MergewiseError("it says sk-configuration-1")) == "it says ***"
    (tmp_path / "key").write_text("sk-configuration-2\nmore")
    assert ModelConfig("openai:m", key_file=tmp_path / "key").key() == "sk-configuration-2"
    with pytest.raises(UsageError, match="NOT_SET"):
        ModelConfig("openai:m", key_env="NOT_SET").key()
    with pytest.raises(UsageError, match="none"):
        ModelConfig("openai:m", key_file=tmp_path / "none").key()
    assert ModelConfig("extractive").key() is None and ModelConfig("hf:m").chat() == "hf:m"


def test_url_and_hosts(tmp_path: Path) -> None:
    assert ServerConfig(tmp_path, host="0.0.0.0", port=1).url == "http://127.0.0.1:1"
    assert ServerConfig(tmp_path, host="::1", port=1, tls_certificate=tmp_path).url == "https://[::1]:1"
    assert ServerConfig(tmp_path, host="Example.org").hosts == {"example.org"}


def test_every_limit_has_a_description() -> None:
    assert all("Annotated" in str(field.type) for field in fields(ServeLimits))
