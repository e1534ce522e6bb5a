"""Events as Parquet files: which columns they have, and which rows of the flow can be."""
