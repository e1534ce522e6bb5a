"""search: state topics -> documents of OpenSearch or Elasticsearch, each under its id."""
