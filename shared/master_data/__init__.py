"""Master data of a domain's own: what its rows are, and stores of yours that they may come from."""

from shared.master_data.sources import SqlSource, TopicSource

__all__ = ["SqlSource", "TopicSource"]
