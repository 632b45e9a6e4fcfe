"""The server's OpenAI-compatible API, called by unchanged clients: LangChain, LlamaIndex, litellm and llm."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed: `make clients` does it")
pytest.importorskip("openai", reason="the extra `openai` is not installed: `make clients` does it")

if not any(map(find_spec, ("langchain_openai", "litellm", "llama_index", "llm"))):
    pytest.skip("no client is installed: `make clients` does it", allow_module_level=True)

from pydantic import BaseModel

from mergewise.server.configuration import ProfileConfig
from mergewise.types import Message
from tests.server.conftest import ANSWER, LiveServer, live_server

# warnings of the clients
pytestmark = pytest.mark.filterwarnings("ignore")

# litellm reads its list of prices from the package
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

QUESTION = "Where was the Aurora built?"
PROFILES = {
    "fleet": ProfileConfig("ships", filter={"type": "eq", "key": "id", "value": "ships/fleet.md"}),
    "quotes": ProfileConfig("ships", chat="extractive"),
}


class Ship(BaseModel):
    """A ship and the town where it was built."""

    name: str
    town: str


def script(messages: Sequence[Message]) -> str:
    return json.dumps({"name": "Aurora", "town": "Lyme"}) if "as a record" in messages[-1].text else ANSWER


def client(package: str) -> Any:
    """Import the package of a client, or skip the test."""
    return pytest.importorskip(package, reason=f"{package} is not installed: `make clients` does it")


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCRIPTED_KEY", "sk-scripted-key")
        with live_server(tmp_path_factory.mktemp("clients"), script, profiles=PROFILES) as live:
            yield live


@pytest.fixture(autouse=True)
def open_connections() -> Iterator[None]:
    """Collect the connections that the clients leave open while their warnings are ignored."""
    yield
    gc.collect()


# -- LangChain


def chat_openai(live: LiveServer, model: str = "fleet", **options: Any) -> Any:
    return client("langchain_openai").ChatOpenAI(
        model=model, base_url=f"{live.base}/v1", api_key=live.tokens["read"], **options
    )


def test_langchain_chats(live: LiveServer) -> None:
    chat = chat_openai(live)
    message = chat.invoke(QUESTION)
    assert message.content == ANSWER and message.usage_metadata["total_tokens"] > 0
    assert "".join(str(chunk.content) for chunk in chat.stream(QUESTION)) == ANSWER
    again = chat.invoke([("system", "Be brief."), ("user", QUESTION), ("assistant", ANSWER), ("user", "And when?")])
    assert again.content


def test_langchain_reads_responses(live: LiveServer) -> None:
    message = chat_openai(live, use_responses_api=True).invoke(QUESTION)
    (block,) = (one for one in message.content if one["type"] == "text")
    assert block["text"] == ANSWER and block["annotations"]
    pieces = chat_openai(live, use_responses_api=True).stream(QUESTION)
    assert "".join(piece.text for piece in pieces) == ANSWER


@pytest.mark.parametrize("method", ["json_schema", "json_mode"])
def test_langchain_gets_structured_output(live: LiveServer, method: str) -> None:
    structured = chat_openai(live).with_structured_output(Ship, method=method)
    assert structured.invoke("Describe the Aurora as a record in JSON.") == Ship(name="Aurora", town="Lyme")


def test_langchain_gets_an_error_where_no_model_follows_a_schema(live: LiveServer) -> None:
    import openai

    with pytest.raises(openai.BadRequestError):
        chat_openai(live, "quotes").with_structured_output(Ship).invoke(QUESTION)


def test_langchain_embeds(live: LiveServer) -> None:
    embeddings = client("langchain_openai").OpenAIEmbeddings
    address: dict[str, Any] = {"base_url": f"{live.base}/v1", "api_key": live.tokens["read"]}
    texts = embeddings(model="minilm", check_embedding_ctx_length=False, **address)
    vectors = texts.embed_documents(["a wooden ship", "an owl"])
    assert [len(vector) for vector in vectors] == [384, 384]
    assert texts.embed_query("an owl") == pytest.approx(vectors[1], abs=1e-4)


# -- LlamaIndex


def test_llama_index_completes_and_chats(live: LiveServer) -> None:
    like, message = client("llama_index.llms.openai_like").OpenAILike, client("llama_index.core.llms").ChatMessage
    options: dict[str, Any] = {"model": "fleet", "api_base": f"{live.base}/v1", "api_key": live.tokens["read"]}
    chatting = like(is_chat_model=True, **options)
    assert chatting.complete(QUESTION).text == ANSWER
    assert chatting.chat([message(role="user", content=QUESTION)]).message.content == ANSWER


# -- litellm


def test_litellm_completes_streams_and_embeds(live: LiveServer) -> None:
    litellm = client("litellm")
    address: dict[str, Any] = {"api_base": f"{live.base}/v1", "api_key": live.tokens["read"]}
    asked: dict[str, Any] = {"model": "openai/fleet", "messages": [{"role": "user", "content": QUESTION}], **address}
    message = litellm.completion(**asked).choices[0].message
    assert message.content == ANSWER and message.annotations[0]["type"] == "url_citation"
    pieces = [chunk.choices[0].delta.content for chunk in litellm.completion(stream=True, **asked)]
    assert "".join(piece or "" for piece in pieces) == ANSWER
    embedded = litellm.embedding(model="openai/minilm", input=["a wooden ship", "an owl"], **address)
    assert [len(one["embedding"]) for one in embedded.data] == [384, 384]
    response = litellm.responses(model="openai/fleet", input=QUESTION, **address)
    assert response.output[-1].content[0].text == ANSWER


# -- llm


def test_llm_prompts(live: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    model = f"- model_id: ships\n  model_name: fleet\n  api_base: {live.base}/v1\n  api_key_name: mergewise\n"
    (tmp_path / "extra-openai-models.yaml").write_text(model)
    (tmp_path / "keys.json").write_text(json.dumps({"mergewise": live.tokens["read"]}))
    from click.testing import CliRunner

    for options in ([], ["--no-stream"]):
        result = CliRunner().invoke(
            client("llm.cli").cli, ["prompt", "-m", "ships", *options, QUESTION], catch_exceptions=False
        )
        assert result.output.strip() == ANSWER
