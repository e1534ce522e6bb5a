"""Events as tables, of files and of views: their columns, and which rows of the flow can be."""
