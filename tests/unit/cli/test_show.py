from __future__ import annotations

from pathlib import Path

import pytest

from metrana.cli import main
from metrana.cli.chart import Charts, has_charts
from metrana.cli.page import render_run
from metrana.store.catalog import find_run
from metrana.store.reading import PlainReading, open_reading
from tests.unit.store.build import GOLDEN, T0, declare, end, head, line, make_host, points, put

Capture = pytest.CaptureFixture[str]


NO_CHARTS = Charts(80, can_draw=False)
needs_charts = pytest.mark.skipif(not has_charts(), reason="plotext or NumPy isn't installed")


def render(store: Path, *patterns: str, run: str = "train", charts: Charts = NO_CHARTS) -> list[str]:
    info = find_run(str(store), run, make_host(store.parent / "machine"))
    return list(render_run(open_reading(info), patterns, charts))


def put_two_hosts(store: Path, other: str) -> None:
    labels = [{"host": "node7", "gpu": str(gpu)} for gpu in (0, 2, 10)] + [{"host": other, "gpu": "1"}]
    put(
        store,
        head(),
        *(declare(n, "system/gpu/utilization", **each) for n, each in enumerate(labels)),
        declare(8, "system/memory/used_bytes", host="node7"),
        declare(9, "loss"),
        points(T0, 0, {0: 10.0, 1: 20.0, 2: 30.0, 3: 40.0, 8: 3 * 2**30, 9: 0.5}),
        end(T0 + 1),
    )


def test_a_run_is_shown_with_identity_attributes_and_series(capsys: Capture) -> None:
    """Everything about a run on one page."""
    assert 0 == main(["show", "two-writers", "--dir", str(GOLDEN)])
    out = capsys.readouterr().out
    for piece in ("two-writers-id", "acme/research/llm", "closed", "rank 0: node7 pid 4242", "rank 1: node8 pid 17"):
        assert piece in out
    assert "  seed             3\n" in out
    assert "  loss  last 1  min 1  max 2.5  4 points\n" in out
    assert "    host=node8  last 80 %  min 80 %  max 80 %  1 point\n" in out


def test_training_metrics_come_first_then_the_hardware_in_groups(tmp_path: Path) -> None:
    """What the user logged is what the user looks for."""
    put_two_hosts(tmp_path / "store", "node8")
    titles = [text for text in render(tmp_path / "store") if text and not text.startswith(" ")]
    assert ["train", "training metrics", "system/gpu", "system/memory"] == titles[:4]


def test_series_of_one_metric_are_told_by_their_labels_in_number_order(tmp_path: Path) -> None:
    """Each has a line of its own; the host is named only where there are several."""
    put_two_hosts(tmp_path / "store", "node8")
    put_two_hosts(tmp_path / "same" / "store", "node7")
    several = [text.split("  last")[0].strip() for text in render(tmp_path / "store") if "gpu=" in text]
    assert ["gpu=0 host=node7", "gpu=1 host=node8", "gpu=2 host=node7", "gpu=10 host=node7"] == several
    one = [text.split("  last")[0].strip() for text in render(tmp_path / "same" / "store") if "gpu=" in text]
    assert ["gpu=0", "gpu=1", "gpu=2", "gpu=10"] == one


def test_values_carry_human_units(tmp_path: Path) -> None:
    """Bytes are scaled and percentages marked."""
    put_two_hosts(tmp_path / "store", "node7")
    text = "\n".join(render(tmp_path / "store"))
    assert "system/memory/used_bytes  last 3 GiB  min 3 GiB  max 3 GiB  1 point" in text
    assert "last 40 %" in text


def test_nan_and_infinities_are_counted_and_leave_min_and_max_alone() -> None:
    """The last value is what it is; the range is that of the numbers."""
    lines = render(GOLDEN, run="not-finite")
    assert "  loss  last 2  min 0.5  max 2  6 points  3 not finite" in lines


def test_a_series_of_nothing_finite_is_shown(tmp_path: Path) -> None:
    """A loss that was never a number has no range and an empty chart."""
    put(tmp_path / "store", head(), declare(1, "loss"), points(T0, 0, {1: "NaN"}), points(T0 + 1, 1, {1: "Infinity"}))
    assert "  loss  last inf  2 points  2 not finite" in render(tmp_path / "store")


def test_names_and_patterns_select_series() -> None:
    """A name is taken as it is, a pattern as in a shell; attributes give way."""
    text = "\n".join(render(GOLDEN, "loss", "system/c*", run="two-writers"))
    assert "loss" in text
    assert "system/cpu/utilization" in text
    assert "attributes" not in text
    assert "cpu" not in "\n".join(render(GOLDEN, "loss", run="two-writers"))


def test_a_pattern_that_matches_nothing_is_a_clear_error(capsys: Capture) -> None:
    """A typing error isn't an empty page."""
    assert 2 == main(["show", "two-writers", "los", "--dir", str(GOLDEN)])
    out, err = capsys.readouterr()
    assert "" == out
    assert "'los'" in err


def test_control_characters_are_shown_escaped(tmp_path: Path) -> None:
    """Neither names nor labels nor attributes reach the terminal raw."""
    put(
        tmp_path / "store",
        head("a\x1b]0;title\x07"),
        declare(1, "lo\nss", **{"k\r": "v\x9b"}),
        points(T0, 0, {1: 1.0}),
        line(a={"at\x00": "x\x1b[2J", "inner": {"k": "\x7f"}}, t=T0),
    )
    text = render(tmp_path / "store", run="a\x1b]0;title\x07")
    assert all(each.isprintable() for each in text)
    joined = "\n".join(text)
    assert r"lo\nss" in joined
    assert r"k\r=v\x9b" in joined
    assert r"at\x00" in joined


def test_skipped_lines_are_told_at_the_end() -> None:
    """What couldn't be read isn't passed over in silence."""
    assert "29 lines not readable as a whole and skipped" == render(GOLDEN, run="garbage")[-1]


def test_a_later_format_is_told_at_the_end(tmp_path: Path) -> None:
    """The rest is shown, and how to see it all is said."""
    newer = head().replace(b'"v": 1', b'"v": 2')
    put(tmp_path / "store", newer, declare(1, "loss"), points(T0, 0, {1: 1.0}), line(new="kind"))
    lines = render(tmp_path / "store")
    assert "  loss  last 1  min 1  max 1  1 point" in lines
    assert "format 2, this one reads 1" in lines[-2]
    assert "1 line not readable as a whole and skipped" == lines[-1]


@needs_charts
def test_each_metric_has_a_chart_of_its_series(tmp_path: Path) -> None:
    """Below the figures, as wide as asked."""
    put(tmp_path / "store", head(), declare(1, "x"), *(points(T0 + t, t, {1: t}) for t in range(500)))
    for width in (60, 40):
        lines = render(tmp_path / "store", "x", charts=Charts(width))
        at = lines.index("  x  last 499  min 0  max 499  500 points")
        assert "┌" in lines[at + 1]
        assert width + 2 == len(lines[at + 1])


def test_without_charts_the_figures_stand_and_what_to_install(tmp_path: Path) -> None:
    """One line names the command."""
    put_two_hosts(tmp_path / "store", "node7")
    lines = render(tmp_path / "store")
    assert lines[-1].startswith("for charts: pip install 'plotext<6'")
    assert "  loss  last 0.5  min 0.5  max 0.5  1 point" in lines


def test_without_numpy_the_figures_are_the_same(tmp_path: Path) -> None:
    """Plain arrays tell the same as columns do."""
    for run in ("two-writers", "not-finite", "garbage", "rotated"):
        info = find_run(str(GOLDEN), run, make_host(tmp_path))
        assert list(render_run(open_reading(info), (), NO_CHARTS)) == list(
            render_run(PlainReading(info), (), NO_CHARTS)
        )


def test_of_very_many_series_the_range_is_told(tmp_path: Path) -> None:
    """A screen isn't filled with sixty lines, unless the metric was asked for."""
    labels = [str(number) for number in range(64)]
    put(
        tmp_path / "store",
        head(),
        *(declare(n, "system/gpu/utilization", gpu=gpu) for n, gpu in enumerate(labels)),
        points(T0, 0, {n: float(n) for n in range(64)}),
    )
    assert "    64 series  last 0 % to 63 %  min 0 %  max 63 %  64 points" in render(tmp_path / "store")
    assert 64 == sum("gpu=" in text for text in render(tmp_path / "store", "system/gpu/utilization"))


@pytest.mark.parametrize("diverged", [0, 32, 63])
def test_the_range_of_very_many_series_leaves_out_what_is_not_a_number(tmp_path: Path, diverged: int) -> None:
    """NaN is neither lower nor higher than anything, whichever rank has it."""
    put(
        tmp_path / "store",
        head(),
        *(declare(n, "loss", rank=str(n)) for n in range(64)),
        points(T0, 0, {n: "NaN" if n == diverged else 5.0 for n in range(64)}),
    )
    assert "    64 series  last 5 to 5  min 5  max 5  64 points" in render(tmp_path / "store")


def test_a_run_without_points_says_so(tmp_path: Path) -> None:
    """An empty page would look like a fault."""
    put(tmp_path / "store", head())
    assert "no points" == render(tmp_path / "store")[-1]
