"""What this machine has and gets: Java, downloads, ports, locks, processes."""
