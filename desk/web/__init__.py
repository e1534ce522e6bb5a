"""The pages of dead letters, and the API beside them."""
