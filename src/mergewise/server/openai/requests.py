"""Request bodies of OpenAI's API. Unknown fields are accepted and listed in `mergewise.ignored`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mergewise.server.native.requests import AnswerFields, Filter, Includes, Metadata

FileId = Annotated[str, Field(pattern=r"^file-[0-9a-f]{32}$")]


class OpenForm(BaseModel):
    model_config = ConfigDict(extra="allow")

    def ignored(self) -> list[str]:
        """Return the names of the unknown fields."""
        return sorted(name for name, value in (self.model_extra or {}).items() if value is not None)


class ContentPart(OpenForm):
    type: str
    text: str | None = None


class ChatMessage(OpenForm):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Annotated[str, Field(max_length=400_000)] | list[ContentPart] | None = None


class StreamOptions(OpenForm):
    include_usage: bool = False


class ChatExtras(AnswerFields):
    """The field `mergewise` of a body: options of the question, as in the native API."""

    include: Includes = Field(default_factory=set)
    footer: bool | None = None


class ChatForm(OpenForm):
    model: str
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=500)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    n: int | None = None
    tools: list[Any] | None = None
    tool_choice: str | dict[str, Any] | None = None
    mergewise: ChatExtras = ChatExtras()

    @property
    def includes_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    @property
    def most_tokens(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens


class EmbeddingsForm(OpenForm):
    model: str
    input: str | list[str] | list[int] | list[list[int]]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    input_type: Literal["document", "query"] = "document"


class RankingOptions(OpenForm):
    ranker: str | None = None
    score_threshold: Annotated[float, Field(ge=0, le=1)] | None = None


class StoreSearchForm(OpenForm):
    query: (
        Annotated[str, Field(min_length=1, max_length=8000)]
        | Annotated[list[Annotated[str, Field(min_length=1, max_length=8000)]], Field(min_length=1, max_length=8)]
    )
    filters: Filter | None = None
    max_num_results: Annotated[int, Field(ge=1, le=50)] = 10
    ranking_options: RankingOptions = RankingOptions()


class StoreChangeForm(OpenForm):
    """Changes of a vector store. It never expires."""

    name: Annotated[str, Field(max_length=200)] | None = None
    metadata: Annotated[Metadata, Field(max_length=16)] | None = None
    expires_after: dict[str, Any] | None = None


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

    def attached(self) -> list[AttachForm]:
        if self.files is not None:
            return self.files
        return [AttachForm(file_id=file_id, attributes=self.attributes) for file_id in self.file_ids or ()]


class RerankText(OpenForm):
    text: str


class RerankForm(OpenForm):
    model: str
    query: Annotated[str, Field(min_length=1, max_length=8000)]
    documents: Annotated[list[str | RerankText], Field(min_length=1, max_length=1000)]
    top_n: Annotated[int, Field(ge=1)] | None = None
    return_documents: bool = False

    @property
    def texts(self) -> list[str]:
        return [one if isinstance(one, str) else one.text for one in self.documents]
