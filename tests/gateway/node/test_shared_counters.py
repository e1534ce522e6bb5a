import os

from gateway.node.shared_counters import NodeNumbers


def test_what_a_worker_has_counted_is_there_for_its_successor_and_the_others() -> None:
    memory_fd = NodeNumbers.memory_to_share(2)
    first, second = (NodeNumbers(2, memory_fd) for _ in range(2))
    os.close(memory_fd)
    row = first.row(0)
    row.set(("refused", "telemetry", "empty_body"), 3)
    second.row(1).set(("refused", "telemetry", "empty_body"), 4)
    assert second.sums() == {("refused", "telemetry", "empty_body"): 7}
    successor = second.row(0)
    successor.values[successor.place(("refused", "telemetry", "empty_body"))] += 1
    successor.values[successor.place(("accepted", "status"))] += 2
    assert first.sums() == {
        ("refused", "telemetry", "empty_body"): 8,
        ("accepted", "status"): 2,
    }


def test_more_names_than_there_is_room_for_are_not_kept_and_harm_no_other() -> None:
    numbers = NodeNumbers(2)
    row = numbers.row(0)
    for n in range(5000):
        row.values[row.place(("name", str(n)))] += 1
    row.values[row.place(("x" * 121,))] += 1
    sums = numbers.sums()
    assert set(sums.values()) == {1}
    assert len(sums) == 4095
    assert ("name", "4095") not in sums
