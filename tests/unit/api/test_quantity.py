"""Quantities as Kubernetes reads them."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scavenger_api.quantity import (
    MAX_UNITS,
    QuantityError,
    amount,
    amounts,
    format_amount,
    millis,
    parse_quantity,
    readable_amounts,
    units,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", "0"),
        ("1", "1"),
        ("1.", "1"),
        (".5", "0.5"),
        ("+1", "1"),
        ("-1.5", "-1.5"),
        ("500m", "0.5"),
        ("1n", "1e-9"),
        ("1u", "1e-6"),
        ("1k", "1000"),
        ("1M", "1e6"),
        ("1G", "1e9"),
        ("1T", "1e12"),
        ("1P", "1e15"),
        ("1E", "1e18"),
        ("1Ki", "1024"),
        ("1.5Gi", "1610612736"),
        ("1Ei", str(2**60)),
        ("1e3", "1000"),
        ("1E3", "1000"),  # an exponent, not exa
        ("12e-1", "1.2"),
        ("1e+2", "100"),
        (2, "2"),
        (0.25, "0.25"),
        (" 2Gi ", str(2**31)),
        ("1.2Gi", "1288490188.8"),
        ("0.1n", "1e-9"),
        ("-0.1n", "-1e-9"),
        ("123456789012345678901234567890.5", "123456789012345678901234567890.5"),
    ],
)
def test_value(text: str | float, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1 Gi",
        "Gi",
        "1gi",
        "1K",
        "1KI",
        "1mi",
        "--1",
        "1e1.5",
        "1e",
        "0x10",
        "1_000",
        "\u0661",
        "nan",
        "1e99",
    ],
)
def test_what_is_no_quantity_says_so(text: str) -> None:
    with pytest.raises(QuantityError, match=r"quantity|exponent"):
        parse_quantity(text)


@pytest.mark.parametrize("text", ["1" * 129, "0." + "0" * 2_000_000 + "1", "9" * 2_000_000 + "Ki"])
def test_numbers_of_any_length_are_not_computed_with(text: str) -> None:
    with pytest.raises(QuantityError, match="has more than 128 digits") as caught:
        parse_quantity(text)
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize(
    "text", ["1e" + "9" * 5000, "1e-" + "9" * 2_000_000, "1" + "z" * 2_000_000, "z" * 2_000_000, "1e" + "0" * 2_000_000]
)
def test_whatever_is_sent_is_refused_as_a_quantity_and_in_few_words(text: str) -> None:
    with pytest.raises(QuantityError, match=r"quantity|exponent") as caught:
        parse_quantity(text)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("resource", "text", "expected"),
    [
        # resource.Quantity.MilliValue and Value round up, away from zero for what is positive.
        ("cpu", "1", 1000),
        ("cpu", "100m", 100),
        ("cpu", "0.1", 100),
        ("cpu", "1n", 1),
        ("cpu", "1500u", 2),
        ("cpu", "-1500u", -1),
        ("memory", "1Gi", 2**30),
        ("memory", "1500m", 2),
        ("memory", "0.5", 1),
        ("memory", "1e3", 1000),
        ("memory", "1.2Gi", 1288490189),
        ("memory", "1." + "0" * 30 + "1", 2),
        ("memory", "8007199254740993." + "0" * 20 + "1Ki", 8007199254740993 * 1024 + 1),
        ("cpu", "1." + "0" * 30 + "1", 1001),
        ("nvidia.com/gpu", "2", 2),
        ("memory", "16Ei", MAX_UNITS),
        ("memory", "-16Ei", -MAX_UNITS),
        ("cpu", "1E", MAX_UNITS),
    ],
)
def test_amount_rounds_up_and_saturates(resource: str, text: str, expected: int) -> None:
    assert amount(resource, text) == expected


def test_what_is_no_quantity_is_left_out_where_it_is_only_shown() -> None:
    assert readable_amounts({"cpu": "2", "memory": "much"}) == {"cpu": 2000}


def test_amounts_of_a_mapping() -> None:
    assert amounts({"cpu": "500m", "memory": "1Ki", "example.org/x": 3}) == {
        "cpu": 500,
        "memory": 1024,
        "example.org/x": 3,
    }


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("cpu", 0, "0"),
        ("memory", 0, "0"),
        ("memory", 1, "1"),
        ("memory", 512 * 2**20, "512Mi"),
        ("memory", 2**60, "1Ei"),
        ("memory", 2**31 + 1, "2048.0Mi"),
        ("nvidia.com/gpu", 2048, "2048"),
    ],
)
def test_format(resource: str, value: int, text: str) -> None:
    assert format_amount(resource, value) == text


@given(st.integers(-(10**15), 10**15))
def test_cpu_survives_formatting(value: int) -> None:
    assert millis(format_amount("cpu", value)) == value


@given(st.integers(0, 2**20), st.sampled_from([2**0, 2**10, 2**20, 2**30, 2**40]))
def test_whole_memory_survives_formatting(value: int, scale: int) -> None:
    text = format_amount("memory", value * scale)

    if "." not in text:
        assert units(text) == value * scale
    else:
        assert abs(units(text) - value * scale) <= 0.01 * value * scale


@given(
    st.decimals(allow_nan=False, allow_infinity=False, min_value=0, max_value=10**6, places=3),
    st.sampled_from(["n", "u", "m", "", "k", "M", "Ki", "Mi"]),
)
def test_rounding_up_never_loses_and_adds_less_than_one(number: Decimal, suffix: str) -> None:
    text = f"{number}{suffix}"

    assert 0 <= units(text) - parse_quantity(text) < 1
    assert 0 <= millis(text) - parse_quantity(text) * 1000 < 1
