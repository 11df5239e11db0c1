"""What a misspelt name may mean."""

from __future__ import annotations

import functools

from metrana.imports import StdlibFirst

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, NoReturn, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

_ALIKE = 0.6  # of two names, from 0 to 1; below that a guess confuses


def find_near(name: str, known: Iterable[str]) -> str | None:
    """The known name that's most like this one, or None where none is."""
    near = rank_near(name, known, 1)
    return near[0] if near else None


def rank_near(name: str, known: Iterable[str], most: int) -> list[str]:
    """At most so many of the known names that are like this one, whatever their case, the nearest first."""
    with StdlibFirst():
        import difflib  # only once something is wrong
    by_folded = {each.casefold(): each for each in known}
    return [by_folded[each] for each in difflib.get_close_matches(name.casefold(), by_folded, most, _ALIKE)]


def guesses_arguments(function: F) -> F:
    """A function whose TypeError for an argument that it doesn't have says which one may be meant."""

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        try:
            return function(*args, **keywords)
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise  # from inside
            with StdlibFirst():
                import inspect
            known = list(inspect.signature(function).parameters)
            unknown = [name for name in keywords if name not in known]
            if unknown:
                raise_unknown(function.__name__, unknown, [name for name in known if name != "self"])
            raise

    return call  # type: ignore[return-value]


def raise_unknown(function: str, unknown: Iterable[str], known: Iterable[str]) -> NoReturn:
    """Raises the TypeError for the first of the arguments that a function doesn't have."""
    name, known = next(iter(unknown)), list(known)
    near = find_near(name, known)
    hint = f"did you mean {near}?" if near else f"it takes {', '.join(known)}"
    raise TypeError(f"{function}() got an unexpected keyword argument {name!r}: {hint}") from None
