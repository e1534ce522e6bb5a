"""Operators who sign in at an identity provider (OpenID Connect), and how long they are in."""
