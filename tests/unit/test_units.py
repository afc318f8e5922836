"""Bytes, seconds and fractions: what people write is understood, what is printed can be read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrial.units import (
    format_bytes,
    format_change,
    format_seconds,
    format_value,
    format_wait,
    parse_bytes,
    parse_fraction,
    parse_iops,
    parse_seconds,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1GiB", 2**30), ("64k", 65536), ("1GB", 10**9), (4096, 4096), ("1.5 KiB", 1536), ("0", 0)],
)
def test_sizes_as_people_write_them(text: str | int, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "k", "1 parsec", "-1", "0.5", "1e400", "nan", "1GiB2"])
def test_what_is_no_size_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30m", 1800.0),
        ("10s", 10.0),
        ("250ms", 0.25),
        (1.5, 1.5),
        ("2h", 7200.0),
        ("80us", 8e-5),
        ("1 sec", 1.0),
        ("5 secs", 5.0),
        ("5 seconds", 5.0),
        ("2 min", 120.0),
        ("3msec", 0.003),
    ],
)
def test_durations_as_people_write_them(text: str | float, seconds: float) -> None:
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "-1s", "1 fortnight", "1e400", "inf"])
def test_what_is_no_duration_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_seconds(text)


@pytest.mark.parametrize(
    ("text", "share"), [("2%", 0.02), ("+10%", 0.1), ("-5 %", -0.05), (1, 1.0)]
)
def test_shares_as_people_write_them(text: str | float, share: float) -> None:
    assert parse_fraction(text) == pytest.approx(share)


@given(st.integers(min_value=0, max_value=2**60))
def test_every_whole_number_of_bytes_is_itself(size: int) -> None:
    assert parse_bytes(size) == size
    assert parse_bytes(f"{size}B") == size


@given(st.floats(min_value=1e-9, max_value=1e9))
def test_printed_values_are_short_and_never_an_exponent(value: float) -> None:
    for unit in ("1/s", "bytes/s", "bytes", "s", "fraction"):
        text = format_value(value, unit)
        assert len(text) <= 16, text
        assert "e" not in text.split()[0], text


def test_what_people_read() -> None:
    assert format_bytes(2**30) == "1.00 GiB"
    assert format_bytes(512) == "512 B"
    assert format_seconds(0.000123) == "123 µs"
    assert format_seconds(75) == "1m15s"
    assert format_seconds(4000) == "1h06m"
    assert format_wait(8.4) == "8 s"
    assert [format_seconds(near) for near in (99.97e-6, 9.996e-6, 999.7e-6, 999.7e-9, 0.9996)] == [
        "100 µs",
        "10.0 µs",
        "1.00 ms",
        "1.00 µs",
        "1.00 s",
    ]
    assert format_value(999_960.0, "IOPS") == "1.00 MIOPS"
    assert format_value(99_960.0, "IOPS") == "100 kIOPS"
    assert format_change(0.82) == "−18.0 %"
    assert format_change(1.021) == "+2.1 %"
    assert format_change(0.9997) == "+0.0 %"
    assert [format_change(each) for each in (99.9, 250, 3e7)] == ["+9890.0 %", "×250", "×3e+07"]
    assert format_value(48210, "1/s") == "48.2 k/s"
    assert format_value(54100, "IOPS") == "54.1 kIOPS"
    assert format_value(0, "IOPS") == "0 IOPS"
    assert format_value(12, "1/s") == "12.0/s"


@pytest.mark.parametrize(
    ("text", "rate"),
    [(500, 500), ("500", 500), ("8k", 8000), ("1.5M", 1_500_000), ("20kIOPS", 20_000)],
)
def test_a_rate_is_a_whole_number_of_ios_per_second(text: str | int, rate: int) -> None:
    assert parse_iops(text) == rate


@pytest.mark.parametrize("text", ["", "0", "-5", "0.5", "1.0001k", "5x", "10G", "many"])
def test_what_is_not_one_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a|unknown unit"):
        parse_iops(text)
