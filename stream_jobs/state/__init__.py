"""Spark's keyed state: many entities to a bucket, many keys to a call."""
