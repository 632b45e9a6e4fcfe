"""The Model Context Protocol: the tools (`tools`), the libraries that they query (`library`) and their results (`results`).

The same tools serve an index over standard input and output (`library`) and the collections of the server over HTTP (`http`).
"""
