"""Names of the engine for programs that build on it: the server, the evaluation and the command line here, and yours.

`mergewise` has the names of programs that index and ask. This module adds those of programs that serve, show, measure or
read more: states and readers of an index, views and tables, models, progress, deadlines, quotations for prompts, checks of
arguments, JSON forms, and formats and commands of other packages.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from mergewise.lazy import lazy_names as lazy_names
from mergewise.lazy import names_by_module

if TYPE_CHECKING:
    from mergewise import defaults as defaults
    from mergewise import ranges as ranges
    from mergewise.asking import IndexState as IndexState
    from mergewise.asking import answer_together as answer_together
    from mergewise.asking import context as context
    from mergewise.asking import prepare_request as prepare_request
    from mergewise.async_api import each as each
    from mergewise.concurrency import CancellableWork as CancellableWork
    from mergewise.concurrency import check_time as check_time
    from mergewise.concurrency import deadline_in as deadline_in
    from mergewise.concurrency import in_thread as in_thread
    from mergewise.concurrency import run as run
    from mergewise.defaults import CACHE_SIZE as CACHE_SIZE
    from mergewise.defaults import CHAT as CHAT
    from mergewise.defaults import DEFAULT_BUDGET as DEFAULT_BUDGET
    from mergewise.defaults import EMBEDDER as EMBEDDER
    from mergewise.defaults import FILE_SECONDS as FILE_SECONDS
    from mergewise.defaults import MAX_TOKENS as MAX_TOKENS
    from mergewise.defaults import PASSAGE_TOKENS as PASSAGE_TOKENS
    from mergewise.defaults import SHIPPED_EMBEDDERS as SHIPPED_EMBEDDERS
    from mergewise.defaults import STRATEGY as STRATEGY
    from mergewise.designs import PROMPTS as PROMPTS
    from mergewise.designs import modes as modes
    from mergewise.designs.aed.training.bases import check_base as check_base
    from mergewise.designs.aed.training.bases import check_packages as check_packages
    from mergewise.designs.aed.training.candidates import KINDS as KINDS
    from mergewise.designs.aed.training.candidates import Example as Example
    from mergewise.designs.aed.training.candidates import LabelSource as LabelSource
    from mergewise.designs.aed.training.candidates import label_facts as label_facts
    from mergewise.designs.aed.training.labels import LabelSettings as LabelSettings
    from mergewise.designs.aed.training.labels import LabelStore as LabelStore
    from mergewise.designs.aed.training.labels import label as label
    from mergewise.designs.aed.training.labels import likeliest_kind as likeliest_kind
    from mergewise.designs.aed.training.trainer import PRESETS as PRESETS
    from mergewise.designs.aed.training.trainer import TrainSettings as TrainSettings
    from mergewise.designs.aed.training.utility import TrainingReport as TrainingReport
    from mergewise.designs.aed.training.utility import train_utility as train_utility
    from mergewise.designs.aed.triplets.records import Triplet as Triplet
    from mergewise.designs.aed.triplets.rules import triplets_by_rules as triplets_by_rules
    from mergewise.designs.mergerag.pieces import chunk_texts as chunk_texts
    from mergewise.designs.strategies import assignments as assignments
    from mergewise.designs.strategies import preferred_mode as preferred_mode
    from mergewise.designs.strategies import resolve as resolve
    from mergewise.designs.strategies import search_settings as search_settings
    from mergewise.designs.strategies import split_spec as split_spec
    from mergewise.designs.strategies import split_specs as split_specs
    from mergewise.designs.strategies import view_settings as view_settings
    from mergewise.designs.strategies import with_parameters as with_parameters
    from mergewise.designs.weave.completeness import OWN_BIAS as OWN_BIAS
    from mergewise.designs.weave.completeness import OWN_SLOPE as OWN_SLOPE
    from mergewise.designs.weave.evidence import FEATURES as FEATURES
    from mergewise.designs.weave.evidence import WEIGHTS as WEIGHTS
    from mergewise.designs.weave.evidence import Candidates as Candidates
    from mergewise.designs.weave.evidence import features_of as features_of
    from mergewise.designs.weave.parameters import Weave as Weave
    from mergewise.designs.weave.strategy import gather as gather
    from mergewise.designs.weave.weights import is_mostly as is_mostly
    from mergewise.designs.weave.weights import scored_sentences as scored_sentences
    from mergewise.designs.weave.weights import weights_line as weights_line
    from mergewise.designs.weave.weights import weights_of as weights_of
    from mergewise.designs.weave.weights import weights_text as weights_text
    from mergewise.files import find_untrusted_entry as find_untrusted_entry
    from mergewise.files import is_address as is_address
    from mergewise.files import load_toml as load_toml
    from mergewise.files import new_file as new_file
    from mergewise.files import regular_bytes as regular_bytes
    from mergewise.files import state_directory as state_directory
    from mergewise.files import user_directory as user_directory
    from mergewise.files import write_whole as write_whole
    from mergewise.generate.citations import Locator as Locator
    from mergewise.generate.formats import FORMS as FORMS
    from mergewise.generate.formats import xml_of as xml_of
    from mergewise.generate.marks import marked_texts as marked_texts
    from mergewise.generate.marks import without_unknown as without_unknown
    from mergewise.generate.mode import CAUSAL as CAUSAL
    from mergewise.generate.mode import NO_MODEL as NO_MODEL
    from mergewise.generate.mode import RERANKER as RERANKER
    from mergewise.generate.mode import Need as Need
    from mergewise.generate.mode import Request as Request
    from mergewise.generate.sources import DocumentLookup as DocumentLookup
    from mergewise.index.cluster import executors_of as executors_of
    from mergewise.index.cluster import join_cluster as join_cluster
    from mergewise.index.cluster import leave_cluster as leave_cluster
    from mergewise.index.cluster import load_ray as load_ray
    from mergewise.index.contents import IndexContents as IndexContents
    from mergewise.index.contents import contents_of as contents_of
    from mergewise.index.executors import Executors as Executors
    from mergewise.indexing import EmbeddingOptions as EmbeddingOptions
    from mergewise.indexing import IndexingOptions as IndexingOptions
    from mergewise.inputs import split_digest as split_digest
    from mergewise.jsonable import answer_json as answer_json
    from mergewise.jsonable import citation_json as citation_json
    from mergewise.jsonable import comparison_json as comparison_json
    from mergewise.jsonable import context_json as context_json
    from mergewise.jsonable import document_json as document_json
    from mergewise.jsonable import evidence_json as evidence_json
    from mergewise.jsonable import info_json as info_json
    from mergewise.jsonable import milliseconds as milliseconds
    from mergewise.jsonable import problem_json as problem_json
    from mergewise.jsonable import reply_json as reply_json
    from mergewise.jsonable import report_json as report_json
    from mergewise.jsonable import span_json as span_json
    from mergewise.lazy import Lazy as Lazy
    from mergewise.lazy import lazy_names as lazy_names
    from mergewise.models import causal_of as causal_of
    from mergewise.models import load_causal as load_causal
    from mergewise.models import load_chat as load_chat
    from mergewise.models import load_embedder as load_embedder
    from mergewise.models import load_reranker as load_reranker
    from mergewise.models import load_scorer as load_scorer
    from mergewise.models import release as release
    from mergewise.models.cache import CachedChat as CachedChat
    from mergewise.models.cache import call_key as call_key
    from mergewise.models.calibration import Calibrated as Calibrated
    from mergewise.models.calibration import Calibration as Calibration
    from mergewise.models.calibration import ScoredTexts as ScoredTexts
    from mergewise.models.calibration import calibrate as calibrate
    from mergewise.models.decoding import Decoded as Decoded
    from mergewise.models.scores import RememberingReranker as RememberingReranker
    from mergewise.models.tokens import SURROGATE as SURROGATE
    from mergewise.models.tokens import token_counter as token_counter
    from mergewise.opening import IndexSource as IndexSource
    from mergewise.page import answer_page as answer_page
    from mergewise.page import comparison_fragment as comparison_fragment
    from mergewise.page import comparison_page as comparison_page
    from mergewise.page import context_fragment as context_fragment
    from mergewise.page import context_page as context_page
    from mergewise.page import frame as frame
    from mergewise.page.curves import CURVE_RULES as CURVE_RULES
    from mergewise.page.curves import Curve as Curve
    from mergewise.page.curves import CurveFigure as CurveFigure
    from mergewise.page.curves import CurvePoint as CurvePoint
    from mergewise.page.curves import figure_svg as figure_svg
    from mergewise.page.markup import Markup as Markup
    from mergewise.page.markup import join as join
    from mergewise.page.markup import shorten as shorten
    from mergewise.page.markup import tag as tag
    from mergewise.page.shell import asset as asset
    from mergewise.page.shell import html_page as html_page
    from mergewise.plugins import merge_parts as merge_parts
    from mergewise.plugins import plugins as plugins
    from mergewise.prompting.own import write_prompts as write_prompts
    from mergewise.prompting.quoting import code_for as code_for
    from mergewise.prompting.quoting import quotation as quotation
    from mergewise.prompting.quoting import turn as turn
    from mergewise.prompting.quoting import warning as warning
    from mergewise.prompting.records import Fields as Fields
    from mergewise.prompting.records import records_in as records_in
    from mergewise.prompting.replies import json_in as json_in
    from mergewise.prompting.replies import object_schema as object_schema
    from mergewise.query import Option as Option
    from mergewise.query import options_of as options_of
    from mergewise.ranges import AT_ONCE as AT_ONCE
    from mergewise.ranges import GPUS as GPUS
    from mergewise.ranges import MOST_ROWS as MOST_ROWS
    from mergewise.ranges import OUTPUT as OUTPUT
    from mergewise.ranges import PRICE as PRICE
    from mergewise.ranges import RETRYING as RETRYING
    from mergewise.ranges import ROUNDS as ROUNDS
    from mergewise.ranges import SECONDS as SECONDS
    from mergewise.ranges import TOKENS as TOKENS
    from mergewise.ranges import Range as Range
    from mergewise.ranges import as_list as as_list
    from mergewise.ranges import choice as choice
    from mergewise.ranges import hints_of as hints_of
    from mergewise.ranges import number as number
    from mergewise.ranges import range_of as range_of
    from mergewise.ranges import short_repr as short_repr
    from mergewise.ranges import text as text
    from mergewise.ranges import value_of as value_of
    from mergewise.ranges import whole as whole
    from mergewise.readers import FileFormat as FileFormat
    from mergewise.readers import digest_of as digest_of
    from mergewise.readers import file_bytes as file_bytes
    from mergewise.readers.builder import Parsed as Parsed
    from mergewise.readers.front_matter import typed_value as typed_value
    from mergewise.readers.metadata import ADDING_KEYS as ADDING_KEYS
    from mergewise.readers.metadata import key_of as key_of
    from mergewise.readers.metadata import metadata_from as metadata_from
    from mergewise.readers.pdf_page import page_picture as page_picture
    from mergewise.readers.watching import bursts as bursts
    from mergewise.redaction import masked as masked
    from mergewise.redaction import remember_key as remember_key
    from mergewise.redaction import remember_keys_of as remember_keys_of
    from mergewise.retrieve.hybrid import HybridReader as HybridReader
    from mergewise.retrieve.hybrid import ReaderArguments as ReaderArguments
    from mergewise.store.damage import machine_advice as machine_advice
    from mergewise.store.filters import check_filter as check_filter
    from mergewise.store.lance import LOCK_SECONDS as LOCK_SECONDS
    from mergewise.store.lance import LanceStore as LanceStore
    from mergewise.store.lance_reader import LanceReader as LanceReader
    from mergewise.store.manifest import NAME as NAME
    from mergewise.store.manifest import Manifest as Manifest
    from mergewise.store.manifest import ShardedManifest as ShardedManifest
    from mergewise.store.manifest import state_file as state_file
    from mergewise.store.places import copy_index as copy_index
    from mergewise.store.places import is_url as is_url
    from mergewise.store.places import objects_of as objects_of
    from mergewise.store.places import place_of as place_of
    from mergewise.store.places import root_of as root_of
    from mergewise.store.places.place import ManifestState as ManifestState
    from mergewise.store.places.place import Place as Place
    from mergewise.store.restoring import MOVED as MOVED
    from mergewise.store.restoring import restore_manifest as restore_manifest
    from mergewise.store.shards.calls import Answers as Answers
    from mergewise.store.shards.calls import Calls as Calls
    from mergewise.store.shards.calls import answers as answers
    from mergewise.store.shards.reader import ShardedReader as ShardedReader
    from mergewise.store.shards.reader import snapshot_of as snapshot_of
    from mergewise.store.shards.store import ShardedStore as ShardedStore
    from mergewise.store.tables import Table as Table
    from mergewise.store.views import View as View
    from mergewise.store.views import views_of as views_of
    from mergewise.text.alignment import words as words
    from mergewise.text.context_diff import other_spans as other_spans
    from mergewise.text.context_diff import unshared_texts as unshared_texts
    from mergewise.text.languages.detection import UNKNOWN as UNKNOWN
    from mergewise.text.languages.detection import document_language as document_language
    from mergewise.text.light import code_in as code_in
    from mergewise.text.markup import readable as readable
    from mergewise.text.names import words_of as words_of
    from mergewise.text.printable import escaped_json as escaped_json
    from mergewise.text.printable import on_one_line as on_one_line
    from mergewise.text.printable import printable as printable
    from mergewise.text.sections import heading_path as heading_path
    from mergewise.text.sections import markdown_headings as markdown_headings
    from mergewise.text.sentences import split_sentences as split_sentences
    from mergewise.text.spans import line_at as line_at
    from mergewise.text.spans import line_starts as line_starts
    from mergewise.text.spans import margin_at as margin_at
    from mergewise.text.spans import number_ranges as number_ranges
    from mergewise.text.spans import union as union
    from mergewise.text.terms import DENSE as DENSE
    from mergewise.text.terms import MARKS as MARKS
    from mergewise.text.terms import STOP_WORDS as STOP_WORDS
    from mergewise.text.terms import UNSPACED as UNSPACED
    from mergewise.tracing import carrier as carrier
    from mergewise.tracing import remote_parent as remote_parent
    from mergewise.tracing import send_spans as send_spans
    from mergewise.tracing import span as span
    from mergewise.tracing import stages as stages

# Names by module. A module is imported at the first use of one of its names.
_HOMES = names_by_module("""
    mergewise.asking: IndexState answer_together context prepare_request
    mergewise.async_api: each
    mergewise.concurrency: CancellableWork check_time deadline_in in_thread run
    mergewise.defaults: CACHE_SIZE CHAT DEFAULT_BUDGET EMBEDDER FILE_SECONDS MAX_TOKENS PASSAGE_TOKENS SHIPPED_EMBEDDERS
         STRATEGY
    mergewise.designs: PROMPTS
    mergewise.designs.aed.training.bases: check_base check_packages
    mergewise.designs.aed.training.candidates: Example KINDS LabelSource label_facts
    mergewise.designs.aed.training.labels: LabelSettings LabelStore label likeliest_kind
    mergewise.designs.aed.training.trainer: PRESETS TrainSettings
    mergewise.designs.aed.training.utility: TrainingReport train_utility
    mergewise.designs.aed.triplets.records: Triplet
    mergewise.designs.aed.triplets.rules: triplets_by_rules
    mergewise.designs.mergerag.pieces: chunk_texts
    mergewise.designs.strategies: assignments preferred_mode resolve search_settings split_spec split_specs
         view_settings with_parameters
    mergewise.designs.weave.completeness: OWN_BIAS OWN_SLOPE
    mergewise.designs.weave.evidence: Candidates FEATURES WEIGHTS features_of
    mergewise.designs.weave.parameters: Weave
    mergewise.designs.weave.strategy: gather
    mergewise.designs.weave.weights: is_mostly scored_sentences weights_line weights_of weights_text
    mergewise.files: find_untrusted_entry is_address load_toml new_file regular_bytes state_directory user_directory write_whole
    mergewise.generate.citations: Locator
    mergewise.generate.formats: FORMS xml_of
    mergewise.generate.marks: marked_texts without_unknown
    mergewise.generate.mode: CAUSAL NO_MODEL Need RERANKER Request
    mergewise.generate.sources: DocumentLookup
    mergewise.index.cluster: executors_of join_cluster leave_cluster load_ray
    mergewise.index.contents: IndexContents contents_of
    mergewise.index.executors: Executors
    mergewise.indexing: EmbeddingOptions IndexingOptions
    mergewise.inputs: split_digest
    mergewise.jsonable: answer_json citation_json comparison_json context_json document_json evidence_json info_json
         milliseconds problem_json reply_json report_json span_json
    mergewise.lazy: Lazy
    mergewise.models: causal_of load_causal load_chat load_embedder load_reranker load_scorer release
    mergewise.models.cache: CachedChat call_key
    mergewise.models.calibration: Calibrated Calibration ScoredTexts calibrate
    mergewise.models.decoding: Decoded
    mergewise.models.scores: RememberingReranker
    mergewise.models.tokens: SURROGATE token_counter
    mergewise.opening: IndexSource
    mergewise.page: answer_page comparison_fragment comparison_page context_fragment context_page frame
    mergewise.page.curves: CURVE_RULES Curve CurveFigure CurvePoint figure_svg
    mergewise.page.markup: Markup join shorten tag
    mergewise.page.shell: asset html_page
    mergewise.plugins: merge_parts plugins
    mergewise.prompting.own: write_prompts
    mergewise.prompting.quoting: code_for quotation turn warning
    mergewise.prompting.records: Fields records_in
    mergewise.prompting.replies: json_in object_schema
    mergewise.query: Option options_of
    mergewise.ranges: AT_ONCE GPUS MOST_ROWS OUTPUT PRICE RETRYING ROUNDS Range SECONDS TOKENS as_list choice hints_of
         number range_of short_repr text value_of whole
    mergewise.readers: FileFormat digest_of file_bytes
    mergewise.readers.builder: Parsed
    mergewise.readers.front_matter: typed_value
    mergewise.readers.metadata: ADDING_KEYS key_of metadata_from
    mergewise.readers.pdf_page: page_picture
    mergewise.readers.watching: bursts
    mergewise.redaction: masked remember_key remember_keys_of
    mergewise.retrieve.hybrid: HybridReader ReaderArguments
    mergewise.store.damage: machine_advice
    mergewise.store.filters: check_filter
    mergewise.store.lance: LOCK_SECONDS LanceStore
    mergewise.store.lance_reader: LanceReader
    mergewise.store.manifest: Manifest NAME ShardedManifest state_file
    mergewise.store.places: copy_index is_url objects_of place_of root_of
    mergewise.store.places.place: ManifestState Place
    mergewise.store.restoring: MOVED restore_manifest
    mergewise.store.shards.calls: Answers Calls answers
    mergewise.store.shards.reader: ShardedReader snapshot_of
    mergewise.store.shards.store: ShardedStore
    mergewise.store.tables: Table
    mergewise.store.views: View views_of
    mergewise.text.alignment: words
    mergewise.text.context_diff: other_spans unshared_texts
    mergewise.text.languages.detection: UNKNOWN document_language
    mergewise.text.light: code_in
    mergewise.text.markup: readable
    mergewise.text.names: words_of
    mergewise.text.printable: escaped_json on_one_line printable
    mergewise.text.sections: heading_path markdown_headings
    mergewise.text.sentences: split_sentences
    mergewise.text.spans: line_at line_starts margin_at number_ranges union
    mergewise.text.terms: DENSE MARKS STOP_WORDS UNSPACED
    mergewise.tracing: carrier remote_parent send_spans span stages
""")
_MODULES = {"defaults": "mergewise.defaults", "modes": "mergewise.designs.modes", "ranges": "mergewise.ranges"}
__all__ = sorted([*_MODULES, *" ".join(_HOMES.values()).split()])
_name = lazy_names(__name__, _HOMES)


def __getattr__(name: str) -> object:
    return import_module(_MODULES[name]) if name in _MODULES else _name(name)
