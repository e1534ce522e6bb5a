"""python -m headrace_consumer FOLDER: types of the events whose schemas are in it, as Python."""

import sys
from pathlib import Path

from .typed_dicts import module, schemas_in

USAGE = "usage: python -m headrace_consumer FOLDER_OF_CONTRACTS > events.py"


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        print(USAGE, file=sys.stderr)
        return 2
    schemas = schemas_in(Path(arguments[0]))
    if not schemas:
        print(f"{arguments[0]} has no schema of an event; {USAGE}", file=sys.stderr)
        return 1
    print(module(schemas), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
