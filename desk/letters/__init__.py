"""Dead letters: kept, looked at, mended, and sent again."""
