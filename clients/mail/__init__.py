"""The client of a mail server: hands it one mail, and says what it answered."""
