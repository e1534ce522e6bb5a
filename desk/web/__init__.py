"""What pages are made of, and who may come in."""
