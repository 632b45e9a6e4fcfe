"""Interfaces of models and indexes. Strategies see them only through these protocols."""

from __future__ import annotations

from mergewise.protocols.indexes import IndexReader as IndexReader
from mergewise.protocols.indexes import OrderedBy as OrderedBy
from mergewise.protocols.indexes import Ranking as Ranking
from mergewise.protocols.indexes import RowReader as RowReader
from mergewise.protocols.indexes import SearchKind as SearchKind
from mergewise.protocols.indexes import Store as Store
from mergewise.protocols.indexes import StoreReader as StoreReader
from mergewise.protocols.models import Blend as Blend
from mergewise.protocols.models import BoolArray as BoolArray
from mergewise.protocols.models import CausalModel as CausalModel
from mergewise.protocols.models import CausalState as CausalState
from mergewise.protocols.models import ChatModel as ChatModel
from mergewise.protocols.models import CompletingModel as CompletingModel
from mergewise.protocols.models import CountsCut as CountsCut
from mergewise.protocols.models import DoubleArray as DoubleArray
from mergewise.protocols.models import Embedder as Embedder
from mergewise.protocols.models import FloatArray as FloatArray
from mergewise.protocols.models import IntArray as IntArray
from mergewise.protocols.models import KeepsReplies as KeepsReplies
from mergewise.protocols.models import LogitReranker as LogitReranker
from mergewise.protocols.models import NextTokens as NextTokens
from mergewise.protocols.models import NLLScorer as NLLScorer
from mergewise.protocols.models import PartEmbedder as PartEmbedder
from mergewise.protocols.models import Reranker as Reranker
from mergewise.protocols.models import Schema as Schema
from mergewise.protocols.models import SecondSource as SecondSource
from mergewise.protocols.models import TokenCounter as TokenCounter
from mergewise.protocols.models import TokenRows as TokenRows
from mergewise.protocols.models import UtilityPredictor as UtilityPredictor
from mergewise.protocols.models import languages_known as languages_known
from mergewise.protocols.models import takes_options as takes_options
from mergewise.protocols.models import with_options as with_options
