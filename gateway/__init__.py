"""The gateway: POST -> ingest topic, GET /state, GET /health."""
