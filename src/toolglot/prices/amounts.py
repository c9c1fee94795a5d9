"""Amounts of money as integers: nano-USD, a billionth of a US dollar."""

from __future__ import annotations

NANO = 1_000_000_000
_DECIMALS = 9
_SIGNIFICANT = 4


def to_nano(usd: str) -> int:
    """Parse an amount in USD (`0.0375`) exactly. Raises `ValueError` for more than nine decimals."""
    whole, _, fraction = usd.partition(".")
    fraction = fraction.rstrip("0")
    if not whole.isdecimal() or len(fraction) > _DECIMALS or not (fraction or "0").isdecimal():
        raise ValueError(f"not an amount in USD with up to {_DECIMALS} decimals: {usd!r}")
    return int(whole) * NANO + int(fraction.ljust(_DECIMALS, "0"))


def to_decimal(nano: int) -> str:
    """Write an amount in USD exactly, without an exponent: `0.000123`."""
    whole, fraction = divmod(abs(nano), NANO)
    text = f"{whole}.{fraction:09d}".rstrip("0").rstrip(".")
    return f"-{text}" if nano < 0 else text


def format_usd(nano: int) -> str:
    """Format an amount for people: cents from one dollar up (`$3.10`), four significant digits below (`$0.001234`)."""
    sign, amount = "-" if nano < 0 else "", abs(nano)
    decimals = 2
    if amount < NANO:
        decimals = max(2, min(_DECIMALS, _DECIMALS - len(str(amount)) + _SIGNIFICANT))
    unit = 10 ** (_DECIMALS - decimals)
    whole, fraction = divmod((amount + unit // 2) // unit, 10**decimals)
    digits = f"{fraction:0{decimals}d}"
    return f"{sign}${whole:,}.{digits[:2]}{digits[2:].rstrip('0')}"
