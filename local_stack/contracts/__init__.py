"""The flow's contracts as files: AsyncAPI, OpenAPI, and a JSON Schema for each topic."""
