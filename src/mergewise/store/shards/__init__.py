"""An index in shards. A hash of its id assigns each document to a shard. Queries ask all shards and merge the results."""
