"""What the driver says itself, without a server."""

import pytest
from psycopg import sql

from clients.postgres.store import judged_errors
from shared.errors import RowRefusedError


def test_a_text_that_the_driver_does_not_send_is_refused_like_one_that_the_server_refuses() -> None:
    with pytest.raises(RowRefusedError, match="NUL") as refused, judged_errors():
        sql.Literal("a\0b").as_string()
    assert (refused.value.sqlstate, refused.value.may_pass) == ("22021", False)
