"""The shape of our own JSON files, which anybody can edit: parsed within bounds, their values compared with declared types."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints, is_typeddict

MOST_NESTED: Final = 50
MOST_SHOWN: Final = 100
SHAPE_ERRORS: Final = (ValueError, TypeError, LookupError, AttributeError)  # what building an object from such values raises

_hints = functools.cache(get_type_hints)


def parse_object(content: bytes) -> dict[str, Any]:
    """The fields of a JSON object; ValueError for anything else, and for values that are nested deeper than any of ours."""
    try:
        found = json.loads(content)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    level: list[Any] = [found]
    for _ in range(MOST_NESTED):
        nested = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        level = [inner for each in nested for inner in each]
        if not level:
            return found
    raise ValueError("nested too deeply")


def require_type(value: object, hint: Any, name: str) -> None:
    """ValueError unless `value`, called `name`, is of the type that a hint declares, in all its parts; an int has 64 bits."""
    if hint in (Any, object):
        return
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if value is None and NoneType in arguments:
            return
        hint = next(argument for argument in arguments if argument is not NoneType)
        origin, arguments = get_origin(hint), get_args(hint)
    if is_typeddict(hint):
        _require_keys(value, hint, name)
    elif is_dataclass(hint) or hasattr(hint, "_fields"):
        for field, kind in _hints(hint).items():
            require_type(getattr(value, field), kind, f"{name}.{field}")
    elif origin in (list, tuple):
        _require(isinstance(value, origin), value, name)
        assert isinstance(value, list | tuple)
        is_open = origin is list or arguments[-1] is Ellipsis
        _require(is_open or len(value) == len(arguments), value, name)
        for number, each in enumerate(value):
            require_type(each, arguments[0 if is_open else number], f"{name}[{number}]")
    elif origin in (dict, Mapping):
        _require(isinstance(value, Mapping), value, name)
        assert isinstance(value, Mapping)
        for key, each in value.items():
            require_type(key, arguments[0], f"a key of {name}")
            require_type(each, arguments[1], f"{name}.{key}")
    else:
        _require(type(value) is hint and (hint is not int or -(1 << 63) <= value < 1 << 63), value, name)  # type: ignore[operator]


def _require_keys(value: object, hint: Any, name: str) -> None:
    _require(isinstance(value, dict), value, name)
    assert isinstance(value, dict)
    for key, kind in _hints(hint).items():
        if key in value:
            require_type(value[key], kind, f"{name}.{key}")
        elif key in hint.__required_keys__:
            raise ValueError(f"{name}.{key} is missing")


def _require(condition: bool, value: object, name: str) -> None:
    if not condition:
        raise ValueError(f"{name} is {repr(value)[:MOST_SHOWN]}")


def shape_problem(error: Exception) -> str:
    """What one of SHAPE_ERRORS says, in words for the user."""
    return str(error) if isinstance(error, ValueError) else "a field is missing, or is not of its type"
