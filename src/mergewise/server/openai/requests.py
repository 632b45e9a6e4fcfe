"""Request bodies of OpenAI's API. Unknown fields are accepted and listed in `mergewise.ignored`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mergewise.server.native.requests import AnswerFields, Filter, Includes, Metadata, Title, Words
from mergewise.types import JsonDict

Prompt = Annotated[str, Field(max_length=400_000)]
Limit = Annotated[int, Field(ge=1)]
FileId = Annotated[str, Field(pattern=r"^file-[0-9a-f]{32}$")]


class OpenForm(BaseModel):
    model_config = ConfigDict(extra="allow")


class ContentPart(OpenForm):
    type: str
    text: str | None = None


class ChatMessage(OpenForm):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Prompt | list[ContentPart] | None = None


class StreamOptions(OpenForm):
    include_usage: bool = False


class ChatExtras(AnswerFields):
    """The field `mergewise` of a body: options of the question, as in the native API."""

    include: Includes = Field(default_factory=set)
    footer: bool | None = None
    markup: Literal["markdown", "text"] | None = None


class ReplyFormat(OpenForm):
    """Format of an answer. The Responses API has the fields of `json_schema` in the format itself."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonDict | None = None


class ModelForm(OpenForm):
    """The fields that all requests for an answer have."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    mergewise: ChatExtras = ChatExtras()

    @property
    def format(self) -> ReplyFormat | None:
        return None

    @property
    def search(self) -> SearchTool | None:
        return None

    def given_values(self, *names: str) -> JsonDict:
        """Return the fields with these names that this form has and the client gives."""
        values = {name: getattr(self, name) for name in names if name in type(self).model_fields}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def limit(self) -> dict[str, int]:
        """The limits of tokens by their names, the one that counts first."""
        return self.given_values("max_completion_tokens", "max_output_tokens", "max_tokens")


class ChatForm(ModelForm):
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=500)]
    max_tokens: Limit | None = None
    max_completion_tokens: Limit | None = None
    n: int | None = None
    seed: int | None = None
    stop: str | Annotated[list[str], Field(max_length=16)] | None = None
    tools: list[Any] | None = None
    tool_choice: str | JsonDict | None = None
    response_format: ReplyFormat | None = None

    @property
    def format(self) -> ReplyFormat | None:
        return self.response_format


class InputItem(OpenForm):
    """A message, or another item such as an earlier search."""

    type: str = "message"
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: Prompt | list[ContentPart] | None = None


class TextOptions(OpenForm):
    format: ReplyFormat | None = None


class SearchTool(OpenForm):
    type: str
    vector_store_ids: list[str] | None = None
    filters: Filter | None = None
    max_num_results: Annotated[int, Field(ge=1, le=50)] | None = None


class ResponseForm(ModelForm):
    input: Prompt | Annotated[list[InputItem], Field(min_length=1, max_length=500)]
    instructions: Prompt | None = None
    previous_response_id: Annotated[str, Field(max_length=100)] | None = None
    max_output_tokens: Limit | None = None
    text: TextOptions = TextOptions()
    tools: Annotated[list[SearchTool], Field(max_length=100)] | None = None
    tool_choice: str | JsonDict | None = None
    include: list[str] | None = None
    store: bool | None = None
    metadata: Annotated[dict[str, Annotated[str, Field(max_length=512)]], Field(max_length=16)] | None = None

    @property
    def format(self) -> ReplyFormat | None:
        return self.text.format

    @property
    def search(self) -> SearchTool | None:
        return next((tool for tool in self.tools or () if tool.type == "file_search"), None)


class EmbeddingsForm(OpenForm):
    model: str
    input: str | list[str] | list[int] | list[list[int]]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    input_type: Literal["document", "query"] = "document"


class RankingOptions(OpenForm):
    score_threshold: Annotated[float, Field(ge=0, le=1, strict=True)] | None = None


class StoreSearchForm(OpenForm):
    query: Words | Annotated[list[Words], Field(min_length=1, max_length=8)]
    filters: Filter | None = None
    max_num_results: Annotated[int, Field(ge=1, le=50)] = 10
    ranking_options: RankingOptions = RankingOptions()


class StoreChangeForm(OpenForm):
    """Changes of a vector store. It never expires."""

    name: Title | None = None
    metadata: Annotated[Metadata, Field(max_length=16)] | None = None
    expires_after: JsonDict | None = None


class StoreForm(StoreChangeForm):
    """A new vector store, with files to attach."""

    file_ids: Annotated[list[FileId], Field(max_length=200)] = []


class AttributesForm(OpenForm):
    attributes: Metadata


class AttachForm(OpenForm):
    file_id: FileId
    attributes: Metadata | None = None


class BatchForm(OpenForm):
    """Files to attach together: ids with common attributes, or files with their own."""

    file_ids: Annotated[list[FileId], Field(min_length=1, max_length=200)] | None = None
    files: Annotated[list[AttachForm], Field(min_length=1, max_length=200)] | None = None
    attributes: Metadata | None = None


class RerankForm(OpenForm):
    model: str
    query: Words
    documents: Annotated[list[str], Field(min_length=1, max_length=1000)]
    top_n: Annotated[int, Field(ge=1)] | None = None
