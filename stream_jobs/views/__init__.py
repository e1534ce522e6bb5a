"""events -> rows of views: queries in SQL that Spark runs by itself, each a job."""
