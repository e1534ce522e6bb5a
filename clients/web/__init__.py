"""A client of servers that somebody else has named: it goes to no address of this network."""
