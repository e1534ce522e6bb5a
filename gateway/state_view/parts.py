"""The parts that the view knows topics by: a topic as a whole or, where states are divided among
gateways, one for each of its partitions. Pure."""

SIGN = "/"  # no topic's name has it


def part_of(topic: str, partition: int) -> str:
    return f"{topic}{SIGN}{partition}"


def topic_of(part: str) -> str:
    return part.partition(SIGN)[0]


def is_divided(part: str) -> bool:
    return SIGN in part
