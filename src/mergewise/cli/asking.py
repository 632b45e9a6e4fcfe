"""Options of `ask`, `context` and `compare`, with the steps that open the index and write the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mergewise import defaults
from mergewise.cli import options, settings
from mergewise.cli.configuration import permitted_embedder
from mergewise.cli.output import INEXACT, say_aside, say_waiting, write_text
from mergewise.cli.places import file_links
from mergewise.types import Answer, Context, frozen

if TYPE_CHECKING:
    from mergewise import Index


@frozen
class IndexModelOptions(settings.Patience):
    """Options of the index, and of the models that search and answer."""

    index_dir: options.IndexOption = options.DEFAULT_INDEX
    chat: options.ChatOption = defaults.CHAT
    reranker: options.RerankerOption = defaults.RERANKER
    search: settings.SearchSetting = None
    cluster: settings.ClusterSetting = None
    partial: settings.PartialSetting = False
    embedder: settings.EmbedderSetting = None
    prompts: settings.PromptsSetting = None
    second_source: settings.SecondSourceSetting = None
    window: settings.WindowSetting = None
    cache: settings.CacheSetting = None
    weights: settings.WeightsSetting = None
    tokenizer: settings.TokenizerSetting = None

    def open_index(
        self, *, scorer: str = defaults.SCORER, causal: str = defaults.CAUSAL, for_models: bool = False
    ) -> Index:
        """Open the index with the models that the options and the arguments name.

        Budgets are in tokens of the chat model, or `for_models` of any. Else word pieces are counted.
        """
        import mergewise
        from mergewise import count_tokens
        from mergewise.extend import load_chat, search_settings, token_counter

        self.set_patience()
        named = for_models or self.tokenizer or self.chat != defaults.CHAT
        index = mergewise.open(
            self.index_dir,
            embedder=permitted_embedder(self.index_dir, self.embedder),
            tokens=token_counter(self.tokenizer or "", self.chat) if named else count_tokens,
            chat=load_chat(self.chat, self.window) or defaults.CHAT,
            reranker=self.reranker,
            cache=self.cache,
            prompts=self.prompts,
            weights=self.weights,
            search_settings=search_settings(self.search or "", "search"),
            create=False,
            ray=self.cluster,
            partial=self.partial,
            scorer=scorer,
            causal=causal,
            second_source=self.second_source,
        )
        say_waiting(index)
        if not index.store.reader().has_exact_names():
            say_aside(INEXACT)
        return index


@frozen
class AskingOptions(IndexModelOptions):
    """Options of models and output of every command that asks a question. The question's own options are a `Query`."""

    scorer: settings.ScorerSetting = defaults.SCORER
    trace: options.TraceOption = False
    as_json: options.JsonOption = False
    html: options.HtmlOption = None

    def write_page(self, shown: Answer | Context | Sequence[tuple[Context, float]], index: Index) -> None:
        """Write the page of an answer, a context or a comparison to the file of `--html`, if any, and print its name."""
        if self.html is None:
            return
        from mergewise.extend import answer_page, comparison_page, context_page

        known: dict[str, Any] = {"document": index.document, "count_tokens": index.tokens, "link": file_links(index)}
        if isinstance(shown, Answer):
            page = answer_page(shown, **known)
        elif isinstance(shown, Context):
            page = context_page(shown, **known)
        else:
            page = comparison_page(shown, **known)
        write_text(self.html, page)
        say_aside(f"page: {self.html}")
