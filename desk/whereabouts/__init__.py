"""Where an event is, for operators: as the gateway tells it, of every tenant."""
