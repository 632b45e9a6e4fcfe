"""The utility predictor of AED-RAG and GainRAG: a cross-encoder trained on candidates that a causal model has labelled.

candidates   sources of an answer: passages, their triplet sets, and the background that the model writes (Eq. 4 and 5)
labels       their contrastive perplexity (Eq. 2 and 3), stored in Parquet while it is measured
"""
