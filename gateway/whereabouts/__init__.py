"""GET /events/{id}: which stages a payload has come through, by the id on its receipt; also asked
at the desk and at a terminal."""
