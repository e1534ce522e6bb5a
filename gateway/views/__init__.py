"""GET /views: the rows of the flow's views, page by page."""
