"""Storage of an index: tables, manifests, places, shards and their readers."""
