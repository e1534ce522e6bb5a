"""What a caller may have of the views, and what it asks for. Pure."""

from collections.abc import Mapping, Sequence

from gateway.auth.caller import Caller
from gateway.http.problems import Problem
from gateway.views.selection import Selection, selection_of, version_of
from shared.flow_table import Flow
from shared.ids import NO_TENANT
from shared.model import View
from shared.tables.view_rows import TENANT


def may_read(caller: Caller, row: View) -> bool:
    """As of aggregates: no device, and no gateway. A view whose rows are of no tenant tells of all
    of them at once."""
    if caller.role in ("device", "gateway"):
        return False
    return caller.all_tenants or TENANT in row.key or caller.tenant == NO_TENANT


def asked_by(
    caller: Caller, flow: Flow, name: str, parameters: Mapping[str, str]
) -> tuple[View, Selection]:
    """Problem says what is wrong with the request, or that there is no such view for the caller."""
    version = version_of(parameters)
    row = flow.view(name, version)
    known = [one for one in flow.views if may_read(caller, one)]
    if row is None or row not in known:
        raise _unknown(name, version, known)
    selection = selection_of(row, parameters)
    if caller.all_tenants or TENANT not in row.key:
        return row, selection
    return row, selection.within(caller.tenant)


def _unknown(name: str, version: int | None, known: Sequence[View]) -> Problem:
    versions = ", ".join(str(one.version) for one in known if one.name == name)
    if versions and version is None:
        return Problem(
            404,
            "unknown_version",
            f"what is shown is not for this caller; versions: {versions}",
        )
    if versions:
        return Problem(
            404, "unknown_version", f"this view has no version {version}; there are: {versions}"
        )
    there_are = ", ".join(dict.fromkeys(one.name for one in known)) or "none for this caller"
    return Problem(404, "unknown_view", f"no such view; there are: {there_are}")
