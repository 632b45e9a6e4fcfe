"""The tables of a server's state: each class holds the statements and the transitions of some tables.

Every method is one transaction of a few milliseconds, and is safe from any thread and any process.
"""
