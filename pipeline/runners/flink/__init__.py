"""Flink, embedded or on a cluster."""
