"""The job retry: payloads that wait become events once they can."""
