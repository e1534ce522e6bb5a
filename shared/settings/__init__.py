"""Every setting, read once from the environment (HEADRACE_…). Units stand last in the names."""

from shared.settings.access import is_loopback
from shared.settings.all_parts import Settings, read_by
from shared.settings.gateway import GatewaySettings, networks
from shared.settings.jobs import JobSettings
from shared.settings.wrong_setting import WRONG_SETTINGS, WrongSetting, explain

__all__ = [
    "WRONG_SETTINGS", "GatewaySettings", "JobSettings", "Settings", "WrongSetting", "explain",
    "is_loopback", "networks", "read_by",
]  # fmt: skip
