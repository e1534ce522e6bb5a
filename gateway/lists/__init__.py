"""GET /state/<entity>: states found and sorted by their indexed fields, page by page."""
