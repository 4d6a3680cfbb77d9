"""The older place of `fully_shard`."""
