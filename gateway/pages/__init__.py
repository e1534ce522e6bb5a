"""What answers that come page by page share: limit, where the next one begins, CSV."""
