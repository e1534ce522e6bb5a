from pathlib import Path

from local_stack.machine.log_files import LARGE_BYTES, open_log, telling_line

JAVA_TRACE = """\
INFO starting
java.net.BindException: Address already in use
    at sun.nio.ch.Net.bind0(Native Method)
INFO shutting down
"""


def test_the_telling_line_is_the_failure_not_its_trace(tmp_path: Path) -> None:
    log = tmp_path / "kafka.log"
    log.write_text(JAVA_TRACE)
    assert telling_line(log) == "java.net.BindException: Address already in use"


def test_only_the_lines_of_this_start_count(tmp_path: Path) -> None:
    log = tmp_path / "kafka.log"
    log.write_text(JAVA_TRACE + "INFO started\n")
    assert telling_line(log, len(JAVA_TRACE)) == "INFO started"
    assert telling_line(tmp_path / "none.log") == "it wrote nothing"


def test_a_large_log_makes_room_at_the_next_start(tmp_path: Path) -> None:
    log = tmp_path / "kafka.log"
    log.write_bytes(b"x" * (LARGE_BYTES + 1))
    open_log(log).close()
    assert log.stat().st_size == 0
    assert (tmp_path / "kafka.log.1").stat().st_size > LARGE_BYTES
