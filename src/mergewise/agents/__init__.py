"""Tools for agents, for MCP and the command line: results within a budget (`results`), nothing shown twice (`memory`)."""
