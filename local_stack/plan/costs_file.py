"""The file in which measured costs are kept."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from local_stack.plan.costs import Costs, PartCost, Sizes
from local_stack.plan.parts import PARTS
from local_stack.plan.shipped import SHIPPED
from local_stack.terminal.errors import StackError

_MEASURE = "measure it anew: ./headrace plan --measure"


def read(folder: Path) -> Costs:
    """Those of this machine; without any, those that are shipped."""
    file = costs_file(folder)
    try:
        text = file.read_text()
    except FileNotFoundError:
        return SHIPPED
    except OSError as error:
        raise StackError(f"{file} cannot be read: {error.strerror}", _MEASURE) from error
    try:
        return from_json(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StackError(f"{file} is not what --measure writes: {error!r}", _MEASURE) from error


def write(folder: Path, costs: Costs) -> Path:
    file = costs_file(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(as_json(costs), indent=2) + "\n")
    except OSError as error:
        raise StackError(
            f"{file} cannot be written: {error.strerror}", "choose another --state-dir"
        ) from error
    return file


def costs_file(folder: Path) -> Path:
    return folder / "plan.json"


def as_json(costs: Costs) -> dict[str, Any]:
    return {
        "machine": costs.machine,
        "parts": {name: asdict(cost) for name, cost in costs.parts.items()},
        "sizes": asdict(costs.sizes),
    }


def from_json(found: Mapping[str, Any]) -> Costs:
    parts = {name: PartCost(**found["parts"][name]) for name in PARTS}
    return Costs(str(found["machine"]), parts, Sizes(**found["sizes"]))
