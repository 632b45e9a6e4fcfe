"""The Model Context Protocol: the tools (`tools`), what they ask (`library`) and how their results read (`results`).

One set of tools serves an index by standard input and output (`stdio`) and the collections of the server by HTTP (`http`).
"""
