"""What streams of server-sent events have in common, whatever they show: a reader's connection, its
place in the log, and who shares what is written."""
