"""The list of ACLs, as a program reads it and as commands of Kafka's own tool."""

from collections import defaultdict
from collections.abc import Iterable
from shlex import quote
from typing import Any

from shared.published.acls import Acl, AclOperation, ResourceKind


def as_documents(acls: Iterable[Acl], principal: str) -> list[dict[str, Any]]:
    return [{**acl._asdict(), "principal": _who(acl, principal)} for acl in acls]


def as_commands(acls: Iterable[Acl], principal: str, bootstrap: str) -> list[str]:
    """Few, since the tool takes its seconds each time."""
    operations: dict[tuple[str, ResourceKind, str], set[AclOperation]] = defaultdict(set)
    for acl in acls:
        operations[_who(acl, principal), acl.kind, acl.name].add(acl.operation)
    names: dict[tuple[str, ResourceKind, tuple[AclOperation, ...]], list[str]] = defaultdict(list)
    for (who, kind, name), found in operations.items():
        names[who, kind, tuple(sorted(found))].append(name)
    return [
        " ".join(
            (
                f"kafka-acls.sh --bootstrap-server {quote(bootstrap)}",
                "--command-config admin.properties --add",
                f"--allow-principal {quote(who)}",
                *(f"--operation {_told(operation)}" for operation in found),
                *(("--cluster",) if kind == "cluster" else (f"--{kind} {n}" for n in on)),
            )
        )
        for (who, kind, found), on in names.items()
    ]


def _who(acl: Acl, principal: str) -> str:
    return principal.replace("{application}", acl.application)


def _told(operation: AclOperation) -> str:
    return "".join(word.capitalize() for word in operation.split("_"))
