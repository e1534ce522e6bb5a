"""What the operating system does for us: private folders, children that end with their parents."""
