"""Shards unpacked to arrays on disk, checked and mapped."""
