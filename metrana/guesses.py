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
    with StdlibFirst():
        import difflib  # only once something is wrong
    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=_ALIKE)
    return by_lower[near[0]] if near else None


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
                raise_unknown(function.__name__, unknown, known)
            raise

    return call  # type: ignore[return-value]


def raise_unknown(function: str, unknown: Iterable[str], known: Iterable[str]) -> NoReturn:
    """Raises the TypeError for the first of the arguments that a function doesn't have."""
    name, known = next(iter(unknown)), list(known)
    near = find_near(name, known)
    hint = f"did you mean {near}?" if near else f"it takes {', '.join(known)}"
    raise TypeError(f"{function}() got an unexpected keyword argument {name!r}: {hint}") from None
