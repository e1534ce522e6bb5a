"""What happens outside: its rows, their rules, and the time-out of a result that does not come."""

from shared.actions.action import Action, Deadline, TimedOut, deadline_endpoint

__all__ = ["Action", "Deadline", "TimedOut", "deadline_endpoint"]
