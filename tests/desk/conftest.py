"""The desk on real servers."""

from tests.desk.desk_room import desk_log, desk_settings, room

__all__ = ["desk_log", "desk_settings", "room"]  # fixtures
