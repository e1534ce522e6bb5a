"""A desk on another machine: what its services are here, by requests (`./headrace --url`)."""
