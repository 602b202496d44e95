"""Avro shards."""
