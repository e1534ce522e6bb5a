"""The options of `./headrace letters`: which letters are meant, and with what bytes."""
