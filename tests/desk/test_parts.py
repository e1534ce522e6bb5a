from desk.parts import parts
from shared.flow import FLOW


def test_the_parts_stand_in_the_order_in_which_a_payload_meets_them() -> None:
    assert [part.name for part in parts(FLOW)] == [
        *("gateway", "enrich", "retry", "fold", "aggregate", "persist", "relay", "forward")
    ]
