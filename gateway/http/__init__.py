"""A request and its refusal, as HTTP has them and no framework."""
