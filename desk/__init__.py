"""The desk for dead letters: find, look, try, send on again, discard. Page, API and command line
ask the same functions here."""
