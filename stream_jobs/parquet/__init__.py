"""parquet: event topics -> Parquet files, each event once, for whoever reads the folder."""
