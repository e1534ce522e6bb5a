"""The job enrich: payloads become events, dead letters, or wait."""
