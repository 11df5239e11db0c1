from __future__ import annotations

import os
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrana.store.layout import decode_value, encode_value, escape_name, run_folder, segment_file, writer_folder

names = st.text(min_size=1)


@given(names)
def test_any_name_is_one_path_component_of_plain_characters(name: str) -> None:
    """Whatever a name holds, it's one visible folder name that every file system takes."""
    component = escape_name(name)
    assert component.isascii() and component and len(component) <= 255
    assert os.sep not in component and "@" not in component and not component.startswith(".")


@given(st.text(min_size=1, max_size=10))
def test_a_short_name_can_be_read_off_its_folder(name: str) -> None:
    """Escaping loses nothing of a name that fits."""
    escaped = escape_name(name)
    assert name == urllib.parse.unquote_to_bytes(escaped).decode("utf-8", "surrogatepass")


def test_long_names_with_the_same_beginning_have_folders_of_their_own() -> None:
    """A name that was cut is told from others by what it ends with."""
    assert escape_name("x" * 500 + "a") != escape_name("x" * 500 + "b")


def test_the_parts_of_a_path_stand_in_the_order_of_the_format() -> None:
    """Run, writer and segment folders are built as the format's page says."""
    assert "acme/default/llm/a%2Fb@17" == run_folder("acme", "default", "llm", "a/b", "17")
    assert "node7-42-ff" == writer_folder("node7", 42, 255)
    assert "000012.jsonl" == segment_file(12)


@given(st.floats())
def test_every_float_survives_a_round_trip(value: float) -> None:
    """NaN and infinities too."""
    text = encode_value(value)
    decoded = decode_value(text[1:-1] if text.startswith('"') else float(text))
    assert repr(value) == repr(decoded)


@pytest.mark.parametrize("value", [True, None, "12", "nan", [], {}])
def test_what_is_no_value_is_refused(value: object) -> None:
    """Only numbers and the three words are values."""
    with pytest.raises(ValueError, match="not a value"):
        decode_value(value)
