"""What the operating system does for us: private folders, forks, and ends that come together."""
