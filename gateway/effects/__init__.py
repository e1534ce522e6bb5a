"""What POSTs have come to, for those who wait for it."""
