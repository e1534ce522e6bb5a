"""All that is known of an entity."""
