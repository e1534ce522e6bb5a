"""The gateway: POST -> ingest topic, GET /state, GET /health."""

VERSION = "0.1.0"
