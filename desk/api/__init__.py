"""The desk for programs: /api, JSON both ways."""
