"""What would become of a payload that no device has sent yet."""
