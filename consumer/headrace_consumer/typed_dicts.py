"""Published schemas of events -> Python: a TypedDict for the data of each type. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Schema = Mapping[str, Any]

_HEAD = '''"""The data of events. Made from the published schemas: make it anew, do not edit it."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict
'''
_PLAIN = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "array": "list[Any]",
    "object": "dict[str, Any]",
}


def schemas_in(folder: Path) -> dict[str, Schema]:
    """The schemas by event type. A type may be on several topics, with the same schema."""
    found: dict[str, Schema] = {}
    for path in sorted(folder.glob("*.schema.json")):
        schema = json.loads(path.read_text())
        fields = schema.get("properties", {})
        if "data" in fields and (kind := fields.get("type", {}).get("const")):
            found[kind] = schema
    return found


def module(schemas: Mapping[str, Schema]) -> str:
    classes = [line for kind, schema in schemas.items() for line in _classes(kind, schema)]
    types = [f'    "{kind}": {_camel(kind)},' for kind in schemas]
    given = ["# for `Consumer(…, types=TYPES)`", "TYPES: dict[str, Any] = {", *types, "}"]
    return "\n".join([_HEAD, *classes, *given, ""])


def _classes(kind: str, schema: Schema) -> Iterator[str]:
    made: list[str] = []
    name = _camel(kind)
    for part, its in schema.get("$defs", {}).items():
        _named(f"{name}{_camel(part)}", its, name, made)
    _named(name, schema["properties"]["data"], name, made)
    yield from made


def _named(name: str, schema: Schema, root: str, made: list[str]) -> None:
    if not (fields := schema.get("properties")):
        made.append(f"{name} = {_type(name, schema, root, made)}\n")
        return
    required = schema.get("required", ())
    lines = []
    for field, its in fields.items():
        found = _type(f"{name}{_camel(field)}", its, root, made)
        kept = found if field in required else f"NotRequired[{found}]"
        lines.append(f"        {json.dumps(field)}: {kept},\n")
    made.append(f'{name} = TypedDict(\n    "{name}",\n    {{\n{"".join(lines)}    }},\n)\n')


def _type(name: str, schema: Schema, root: str, made: list[str]) -> str:
    """As it stands in Python; what it is made of is appended to `made`."""
    if ref := schema.get("$ref"):
        return f'"{root}{_camel(ref.rpartition("/")[2])}"'
    if "const" in schema:
        return _literal([schema["const"]])
    if "enum" in schema:
        return _literal(schema["enum"])
    several = schema.get("anyOf") or schema.get("oneOf")
    if several:
        ways = [_type(f"{name}{at or ''}", one, root, made) for at, one in enumerate(several)]
        return _any_of(ways)
    kind = schema.get("type")
    if isinstance(kind, list):
        return _any_of(_type(name, {**schema, "type": one}, root, made) for one in kind)
    if kind == "array" and isinstance(items := schema.get("items"), Mapping):
        return f"list[{_type(f'{name}Item', items, root, made)}]"
    if kind == "object" and schema.get("properties"):
        _named(name, schema, root, made)
        return name
    if kind == "object" and isinstance(items := schema.get("additionalProperties"), Mapping):
        return f"dict[str, {_type(f'{name}Value', items, root, made)}]"
    return _PLAIN.get(str(kind), "Any")


def _any_of(ways: Iterable[str]) -> str:
    """In one string where a name in it is known only later."""
    once = [*dict.fromkeys(ways)]
    if len(once) > 1 and any('"' in way and "Literal" not in way for way in once):
        return '"' + " | ".join(way.replace('"', "") for way in once) + '"'
    return " | ".join(once)


def _literal(values: Iterable[object]) -> str:
    return f"Literal[{', '.join(map(_written, values))}]"


def _written(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _camel(name: str) -> str:
    parts = "".join(one if one.isalnum() else " " for one in name).split()
    return "".join(part[0].upper() + part[1:] for part in parts)
