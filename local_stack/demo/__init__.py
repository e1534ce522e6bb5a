"""`./headrace demo`: a simulated fleet, and an account of what became of all that it sent. With
`--alarms` also how soon each alarm reached a webhook and an event stream."""
