"""Order per entity while one of its payloads waits: what enrich and retry agree on."""
