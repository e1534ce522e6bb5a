"""Two versions of a view, one made beside the other."""
