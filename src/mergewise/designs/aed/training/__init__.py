"""The utility predictor of AED-RAG and GainRAG: candidates measured by a causal model, and a cross-encoder trained on them.

candidates   what a question can be answered from: passages, their triplet sets, what the model writes itself (Eq. 4 and 5)
labels       their contrastive perplexity (Eq. 2 and 3), kept in Parquet as it comes
"""
