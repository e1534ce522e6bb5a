"""What each part may do in PostgreSQL: its role, and what is granted to that on each table. Pure.

The roles are made by roles.sql; where there are none (one's own server, one role for all), nothing
is granted. The gateway takes payloads without it: it only reads, and only what
`GET /state` tells of the past, and `GET /events` of what became of a payload.
"""

from collections.abc import Collection, Iterator

from shared.model import VIEW_JOB

OWNER = "headrace_owner"  # the schema and master data: `migrate`, `./headrace devices`
JOBS = "headrace_jobs"  # the Spark jobs, the relay with the ledger's keeper, `./headrace reenrich`
DESK = "headrace_desk"
GATEWAY = "headrace_gateway"
READER = "headrace_reader"  # `./headrace sql` and whoever looks on
ROLES = (OWNER, JOBS, DESK, GATEWAY, READER)

_READ = "SELECT"
_ADD = "SELECT, INSERT"
_CHANGE = "SELECT, INSERT, UPDATE"
_QUEUE = "SELECT, INSERT, DELETE"
_ALL_ROWS = "SELECT, INSERT, UPDATE, DELETE"

# Nobody deletes events, letters or lines of an audit. The desk does persist's step for what persist
# has parked, so it may write what that writes.
_JOBS = {
    "event": _CHANGE,
    "entity_state": _ALL_ROWS,
    "state_version": _CHANGE,
    "parked": _ADD,
    "waiting_row": _ALL_ROWS,
    "repeat": _ALL_ROWS,
    "recount": _ALL_ROWS,
    "outbox": _QUEUE,
    "ledger_journal": _QUEUE,
    "ledger_page": _CHANGE,
    "ledger_partition": _CHANGE,
    "ledger_minute": _CHANGE,
    "ledger_lane": _CHANGE,
    "ledger_state": "SELECT, UPDATE",
    "reenrich_run": _CHANGE,
    "master_row": _ALL_ROWS,
    "master_source": _CHANGE,
    "master_refusal": _ALL_ROWS,
}
_DESK = {
    "event": _CHANGE,
    "entity_state": _ALL_ROWS,
    "state_version": _CHANGE,
    "parked": _ADD,
    "repeat": _ADD,
    "outbox": _ADD,
    "ledger_journal": "INSERT",
    "letter": _CHANGE,
    "letter_attempt": _ADD,
    "letter_place": _CHANGE,
    "letter_count": _QUEUE,
    "redrive": _CHANGE,
    "letter_audit": _ADD,
    "master_row": _ALL_ROWS,
    "master_source": _READ,
    "master_refusal": _READ,
    "waiting_row": "SELECT, UPDATE",
}
_LINES = 'topic, partition, "offset", line, headers, since, due_at, tries, reason, detail'
_GATEWAY = {
    "event": _READ,
    "state_version": _READ,
    "letter": _READ,
    # what waits, and not what is in it
    "waiting_row": f"SELECT ({_LINES})",
    "outbox": "SELECT (seq, topic, headers)",
}
# of whatever else is there, master data among it, the jobs read what is asked for on demand
_NOT_FOR_JOBS = {*_DESK, "seed", "alembic_version"} - _JOBS.keys()


def grants(tables: list[str], roles: list[str], views: Collection[str] = ()) -> Iterator[str]:
    """Statements for the tables and roles that are there: all that a role may do, and no more.
    `views`: those of the tables that rows of the flow's views are written to."""
    there = [role for role in roles if role in ROLES and role != OWNER]
    for role in there:
        yield f"GRANT USAGE ON SCHEMA headrace TO {role}"
        for table in tables:
            yield f'REVOKE ALL ON headrace."{table}" FROM {role}'
            # those of earlier versions, too: whoever runs yet writes them
            if may := _may(role, table, table in views or table.startswith(VIEW_JOB)):
                yield f'GRANT {may} ON headrace."{table}" TO {role}'


def _may(role: str, table: str, is_view: bool) -> str | None:
    if is_view and role in (JOBS, DESK):
        return _CHANGE
    if role == JOBS:
        return _JOBS.get(table) or (None if table in _NOT_FOR_JOBS else _READ)
    return {DESK: _DESK.get(table), GATEWAY: _GATEWAY.get(table), READER: _READ}.get(role)
