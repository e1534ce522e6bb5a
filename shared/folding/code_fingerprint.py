"""Which code makes a state: a checkpoint of another one is made anew."""

import ast
import inspect
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from types import ModuleType

from shared.model import Entity


@cache  # each task of each batch asks
def fold_fingerprint(fold: Callable[..., object], *others: Callable[..., object]) -> str:
    """Changes with the code of the functions' modules, not with its comments."""
    modules = dict.fromkeys(_module_of(function) for function in (fold, *others))
    code = "".join(ast.dump(ast.parse(inspect.getsource(module))) for module in modules)
    return sha256(code.encode()).hexdigest()[:12]


def _module_of(function: Callable[..., object]) -> ModuleType:
    module = inspect.getmodule(function)
    if module is None:
        raise ValueError(f"{function!r} stands in no module: its changes could not be noticed")
    return module


@cache
def entity_fingerprint(entity: Entity) -> str:
    """Changes with whatever decides what the entity's state is."""
    derive = [entity.derive] if entity.derive else []
    code = fold_fingerprint(entity.fold, entity.initial, *derive)
    table = repr((sorted(entity.folds), sorted(entity.deleted_by)))
    return sha256(f"{code} {table}".encode()).hexdigest()[:12]
