"""Campaigns against a whole server: what it withstands, and how quick it is."""
