"""Payloads that wait: whose, why, until when, and an operator's word on them."""
