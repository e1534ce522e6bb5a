"""Master data in PostgreSQL: what `headrace devices` does, and the sample rows."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from typing import Any, NamedTuple

import psycopg

from clients.postgres.store import Connection, one_line


class MasterDataError(Exception):
    """What is wrong with the request, in one sentence."""


class DeviceRow(NamedTuple):
    id: str
    area: str
    model: str
    attributes: dict[str, Any]
    revision: int


class Model(NamedTuple):
    name: str
    value_field: str
    unit: str
    scale: float
    offset: float


_MODEL_COLUMNS = 'name, value_field, unit, scale, "offset"'
_COLUMNS = "id, area, model, attributes, revision"

_FIRST_TIME = """
    INSERT INTO headrace.seed (name) VALUES ('sample devices') ON CONFLICT DO NOTHING
"""
_SAMPLE_MODELS = """
    INSERT INTO headrace.device_model (name, value_field, unit, scale, "offset") VALUES
        ('thermo-c', 'value', 'celsius', 1, 0),
        ('thermo-f', 'temp_f', 'celsius', 5.0::float8 / 9, -160.0::float8 / 9)
    ON CONFLICT DO NOTHING
"""
_SAMPLE_DEVICES = """
    INSERT INTO headrace.device (id, area, model)
    SELECT format('device-%s', lpad(n::text, 4, '0')),
           format('area-%s', lpad(((n - 1) / 50 + 1)::text, 2, '0')),
           CASE WHEN n % 10 = 0 THEN 'thermo-f' ELSE 'thermo-c' END
    FROM generate_series(1, 1000) AS n
    ON CONFLICT DO NOTHING
"""


def seed(connection: Connection) -> int:
    """The sample rows, once in the life of a database: what was deleted stays deleted."""
    with connection.transaction():
        if connection.execute(_FIRST_TIME).rowcount == 0:
            return 0
        models = connection.execute(_SAMPLE_MODELS).rowcount
        return models + connection.execute(_SAMPLE_DEVICES).rowcount


def add_device(
    connection: Connection,
    device_id: str,
    area: str,
    model: str,
    attributes: dict[str, Any] | None = None,
) -> DeviceRow:
    with _named_errors(connection, device_id, model):
        row = connection.execute(
            f"""INSERT INTO headrace.device (id, area, model, attributes)
                VALUES (%s, %s, %s, %s::jsonb) RETURNING {_COLUMNS}""".encode(),
            (device_id, area, model, json.dumps(attributes or {})),
        ).fetchone()
    assert row is not None
    return DeviceRow(*row)


def set_device(
    connection: Connection,
    device_id: str,
    area: str | None = None,
    model: str | None = None,
    attributes: dict[str, Any] | None = None,
) -> DeviceRow:
    """Changes what is given; `attributes` takes the place of all that were there."""
    with _named_errors(connection, device_id, model):
        row = connection.execute(
            f"""UPDATE headrace.device SET
                    area = coalesce(%s, area), model = coalesce(%s, model),
                    attributes = coalesce(%s::jsonb, attributes)
                WHERE id = %s RETURNING {_COLUMNS}""".encode(),
            (area, model, None if attributes is None else json.dumps(attributes), device_id),
        ).fetchone()
    if row is None:
        raise MasterDataError(f"there is no device {device_id!r}: add it first")
    return DeviceRow(*row)


def list_devices(connection: Connection, limit: int = 100) -> list[DeviceRow]:
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM headrace.device ORDER BY id LIMIT %s".encode(), (limit,)
    )
    return [DeviceRow(*row) for row in rows]


def add_model(
    connection: Connection, name: str, value_field: str, unit: str, scale: float, offset: float
) -> Model:
    """Raises MasterDataError for a name that is taken or a value that the table refuses."""
    if not (isfinite(scale) and isfinite(offset)):
        raise MasterDataError(f"model {name!r} is not valid: scale and offset must be finite")
    try:
        row = connection.execute(
            f"""INSERT INTO headrace.device_model ({_MODEL_COLUMNS})
                VALUES (%s, %s, %s, %s, %s) RETURNING {_MODEL_COLUMNS}""".encode(),
            (name, value_field, unit, scale, offset),
        ).fetchone()
    except psycopg.errors.UniqueViolation:
        raise MasterDataError(f"model {name!r} exists already") from None
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        raise MasterDataError(f"model {name!r} is not valid: {one_line(error)}") from None
    assert row is not None
    return Model(*row)


def list_models(connection: Connection) -> list[Model]:
    rows = connection.execute(
        f"SELECT {_MODEL_COLUMNS} FROM headrace.device_model ORDER BY name".encode()
    )
    return [Model(*row) for row in rows]


@contextmanager
def _named_errors(connection: Connection, device_id: str, model: str | None) -> Iterator[None]:
    try:
        yield
    except psycopg.errors.UniqueViolation:
        raise MasterDataError(f"device {device_id!r} exists already: set it instead") from None
    except psycopg.errors.ForeignKeyViolation:
        if not connection.autocommit:
            connection.rollback()
        known = ", ".join(_models(connection)) or "none"
        raise MasterDataError(f"there is no model {model!r}; known models: {known}") from None
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        raise MasterDataError(f"device {device_id!r} is not valid: {one_line(error)}") from None


def _models(connection: Connection) -> list[str]:
    rows = connection.execute("SELECT name FROM headrace.device_model ORDER BY name")
    return [name for (name,) in rows]
