"""What the operating system does for us: private folders, forks, children that end with us."""
