"""OpenSearch and Elasticsearch, by what both understand."""
