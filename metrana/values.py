"""What may be logged: numbers, labels, timestamps, attributes; taken without importing the libraries they're from."""

from __future__ import annotations

from metrana.errors import MetricError, SettingError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from metrana.model import Labels

MISSING = object()  # the value of a call that gave none; None would be a wrong value, and is one
DEPTH_LIMIT = 8  # of nested attributes; what lies deeper is kept as text, which also ends what contains itself
INT_LIMIT = 2**63  # beyond, an int goes the long way, which makes it a float or refuses it
TIMESTAMP_LIMIT_SECS = 1e11  # three thousand years, and what a millisecond taken for a second is above
STEP_LIMIT = 2**62  # far below what the store holds, so that counting on from a given step never leaves it


def to_number(name: str, value: object) -> float:
    """A metric's value: int, float, bool, or the one number of what has ``.item()`` or ``__float__``.

    Raises MetricError.
    """
    try:
        if not isinstance(value, (int, float)) and hasattr(value, "item"):
            value = value.item()
        # NumPy's long double has only itself to give.
        if isinstance(value, (int, float)) or hasattr(value, "__float__"):
            number = float(value)
            # A Decimal beyond what a float holds becomes one of its infinities, where an int says so itself.
            if number - number == 0.0 or number != number or value == number:
                return number
            raise OverflowError
    except OverflowError:
        raise MetricError(f"metric {name!r}: {_show(value)} is larger than a float can hold") from None
    except Exception:  # foreign code: whatever it raises means that there's no single number
        pass
    raise MetricError(
        f"metric {name!r}: {_show(value)} is not a number; log an int, a float, a bool or a scalar with .item() "
        "or __float__"
    )


def to_name(name: object) -> str:
    """A metric's name: any non-empty text. Raises MetricError."""
    if not isinstance(name, str) or not name:
        raise MetricError(f"{_show(name)} is no metric name: give a non-empty text, or a dict of names and values")
    return name


def to_step(name: str, step: object) -> int:
    """A step: a whole number from 0 to 2**62, also as a whole float, or what has ``__index__`` or ``.item()``.

    A bool is none: it's a mistaken argument. Raises MetricError.
    """
    if step.__class__ is int and 0 <= step <= STEP_LIMIT:
        return step
    try:
        if hasattr(step, "item"):
            step = step.item()
        elif not isinstance(step, (int, float)):
            step = step.__index__()  # type: ignore[attr-defined]
        if isinstance(step, float) and step.is_integer():
            step = int(step)
        if isinstance(step, bool):
            raise ValueError("a bool")
        if isinstance(step, int) and 0 <= step <= STEP_LIMIT:
            return int(step)
    except Exception:  # foreign code, as above
        pass
    raise MetricError(f"metric {name!r}: step={_show(step)} is no step; give a whole number from 0 to 2**62")


def to_numbers(pairs: list[tuple[object, object]]) -> list[tuple[str, float]]:
    """Names and values of one call, nested dicts flattened. Raises MetricError."""
    try:
        return [(name := to_name(key), to_number(name, value)) for key, value in pairs]
    except MetricError:
        # Looked for only now, so that a plain dict needn't be walked for it.
        if not any(isinstance(value, dict) for _, value in pairs) or not all(isinstance(key, str) for key, _ in pairs):
            raise
    return [(name, to_number(name, value)) for name, value in flatten_metrics(dict(pairs))]


def flatten_metrics(metrics: dict[object, object]) -> list[tuple[str, object]]:
    """Names and values of a dict that may be nested: ``{"train": {"loss": 1}}`` has the metric ``train/loss``.

    Raises MetricError for a name that comes up twice, and for what's nested too deep or contains itself.
    """
    found: dict[str, object] = {}
    _gather("", metrics, 0, found)
    return list(found.items())


def _gather(prefix: str, metrics: dict[object, object], depth: int, found: dict[str, object]) -> None:
    for key, value in metrics.items():
        name = prefix + to_name(key)
        if isinstance(value, dict):
            if depth == DEPTH_LIMIT:
                raise MetricError(
                    f"metric {name[:80]!r}: dicts are nested more than {DEPTH_LIMIT} deep, or in themselves"
                )
            _gather(f"{name}/", value, depth + 1, found)
        elif name in found:
            raise MetricError(f"metric {name!r}: it stands twice in the dict, once of them nested; rename one")
        else:
            found[name] = value


def to_timestamp(name: str, timestamp: object) -> float:
    """Seconds since the epoch. Raises MetricError."""
    try:
        if not isinstance(timestamp, (bool, str, bytes, bytearray)):
            secs = float(timestamp)  # type: ignore[arg-type]
            if abs(secs) < TIMESTAMP_LIMIT_SECS:
                return secs
    except (TypeError, ValueError, OverflowError):
        pass
    raise MetricError(f"metric {name!r}: timestamp={_show(timestamp)} is no time; give seconds since the epoch")


def to_labels(name: str, labels: object) -> Labels:
    """A label set from a mapping of text to text; other values are taken as their text. Raises MetricError."""
    try:
        items = sorted((key, str(value)) for key, value in labels.items())  # type: ignore[attr-defined]
    except Exception:  # an odd mapping, or a __str__ that raises
        items = [(None, "")]
    if any(not isinstance(key, str) or not key for key, _ in items):
        raise MetricError(
            f"metric {name!r}: labels={_show(labels)} are no labels; give a dict such as {{'policy': 'greedy'}}"
        )
    return tuple(items)


def to_plain(value: object, depth: int = 0) -> object:
    """An attribute's value as JSON can hold it: dicts and lists of numbers and texts; anything else as its text."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        # Python refuses to write very long numbers in decimal.
        return int(value) if abs(value) < 2**63 else hex(value)
    if isinstance(value, float):
        return float(value) if value - value == 0.0 else str(float(value))
    if depth < DEPTH_LIMIT:
        if isinstance(value, dict):
            return {to_text(key): to_plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [to_plain(item, depth + 1) for item in value]
        if isinstance(value, (set, frozenset)):
            return sorted((to_plain(item, depth + 1) for item in value), key=str)
        try:
            item = value.item()  # type: ignore[attr-defined]
            if isinstance(item, (bool, int, float, str)):
                return to_plain(item)
        except Exception:  # foreign code: what has no single value is shown as text
            pass
    return to_text(value)


def to_attributes(attributes: object) -> dict[str, object]:
    """Attributes from a mapping of names to values. Raises SettingError."""
    try:
        items = dict(attributes.items())  # type: ignore[attr-defined]
    except Exception:  # foreign code, as above
        raise SettingError(
            f"{_show(attributes)} is no dict of attributes: give one such as {{'dataset': 'c4'}}"
        ) from None
    return {to_text(key): to_plain(value) for key, value in items.items()}


def to_dict(config: object) -> dict[object, object]:
    """The settings of a training: a mapping, a dataclass, or a namespace such as argparse's. Raises SettingError."""
    try:
        if hasattr(config, "items"):
            return dict(config.items())
        fields = getattr(config, "__dataclass_fields__", None)
        if fields is not None and not isinstance(config, type):
            return {name: getattr(config, name) for name in fields}
        if type(config).__name__ in ("Namespace", "SimpleNamespace"):
            return dict(vars(config).items())
    except Exception:  # foreign code, as above
        pass
    raise SettingError(f"config={_show(config)} is no dict: give one such as config={{'lr': 3e-4}}")


def flatten(prefix: str, mapping: dict[object, object], depth: int = 0) -> dict[str, object]:
    """Nested settings as attributes: ``{"optimizer": {"lr": 1}}`` becomes ``{prefix + "optimizer/lr": 1}``."""
    out: dict[str, object] = {}
    for key, value in mapping.items():
        if isinstance(value, dict) and value and depth < DEPTH_LIMIT:
            out.update(flatten(f"{prefix}{to_text(key)}/", value, depth + 1))
        else:
            out[prefix + to_text(key)] = to_plain(value)
    return out


def to_text(value: object) -> str:
    """The text of anything, whatever its own code does."""
    try:
        return str(value)
    except Exception:  # a __str__ that raises
        return f"<{type(value).__name__}>"


def _show(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # a __repr__ that raises must not hide what's wrong
        text = f"<{type(value).__name__}>"
    text = " ".join(text.split())
    return f"{text[:80]}..." if len(text) > 80 else text


def to_start_attributes(config: object, tags: object) -> dict[str, object]:
    """What init() was given as config and tags, as attributes. Raises SettingError."""
    attributes: dict[str, object] = {}
    if config is not None:
        attributes.update(flatten("config/", to_dict(config)))
    if tags is not None:
        if isinstance(tags, str) or not isinstance(tags, (list, tuple, set, frozenset)):
            raise SettingError(f"tags={tags!r} is no list of texts: give one such as tags=['baseline']")
        attributes["tags"] = [to_text(tag) for tag in tags]
    return attributes
