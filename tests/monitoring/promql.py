"""Which metrics and labels an expression of PromQL names. It judges no syntax: promtool does."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\[[^\]]*\]|\d[\w.]*|[A-Za-z_:][\w:]*|[=!]~|!=|\S')
_WITH_LABELS = ("by", "without", "on", "ignoring", "group_left", "group_right")
_AFTER_FUNCTIONS = ("(", "by", "without")
_WORDS = (*_WITH_LABELS, "and", "or", "unless", "bool", "offset", "inf", "nan")


class Named(NamedTuple):
    metrics: dict[str, set[str]]  # with the labels that are matched on each
    labels: set[str]  # by which series are grouped or joined


def named(expression: str) -> Named:
    found = Named({}, set())
    tokens = [token for token in _TOKEN.findall(expression) if not token.startswith("[")]
    at = iter(enumerate(tokens))
    for place, token in at:
        following = tokens[place + 1] if place + 1 < len(tokens) else ""
        if token in _WITH_LABELS and following == "(":
            next(at)
            found.labels.update(_until(at, ")"))
        elif token[0].isalpha() and token not in _WORDS and following not in _AFTER_FUNCTIONS:
            its = found.metrics.setdefault(token, set())
            if following == "{":
                next(at)
                its.update(_until(at, "}"))
    return found


def _until(at: Iterator[tuple[int, str]], end: str) -> Iterator[str]:
    for _, token in at:
        if token == end:
            return
        if token[0].isalpha() or token[0] == "_":
            yield token
