"""Estimate the number of tokens of a text without a vocabulary.

Every character becomes one byte for its class: a lower case letter, a capital, a digit, a space, a newline, three kinds
of punctuation, a script. Byte-pair tokenizers split where classes change and within long runs, so the weighted counts
of adjacent classes and of runs approximate the number of tokens. The weights are fitted to OpenAI's `o200k_base`;
docs/token-counting.md describes how, and the accuracy for each kind of text.

All counting uses `bytes.translate` and `bytes.count`: linear, about forty passes at memory speed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

# Lower case letter l, capital U, digit D, space S, tab T, newline N; punctuation: q encloses and separates, d joins
# names and paths, p is the rest.
_ASCII: dict[str, Iterable[int]] = {
    "l": b"abcdefghijklmnopqrstuvwxyz",
    "U": b"ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "D": b"0123456789",
    "S": b" ",
    "T": b"\t",
    "N": b"\n\r",
    "q": b"\"'{}[]()<>:;,!?",
    "d": b"._-/\\",
}

# Beyond ASCII the first byte of a character's UTF-8 identifies its script well enough; the other bytes are dropped.
_SCRIPTS: dict[str, Iterable[int]] = {
    "a": range(0xC3, 0xCC),  # accented Latin
    "g": range(0xCE, 0xD0),  # Greek
    "c": range(0xD0, 0xD4),  # Cyrillic
    "m": range(0xD4, 0xD6),  # Armenian
    "h": range(0xD6, 0xD8),  # Hebrew
    "r": range(0xD8, 0xDC),  # Arabic
    "i": (*range(0xDC, 0xE0), 0xE0),  # the scripts of India, Thai, Lao
    "k": (0xE1,),  # Georgian, Ethiopic, Khmer, Vietnamese
    "j": (0xE3,),  # kana
    "z": range(0xE4, 0xEA),  # Han
    "H": range(0xEA, 0xEE),  # Hangul
    "e": range(0xF0, 0x100),  # emoji
}
_ALPHABETS = "agcmhrik"
_REST = {name: members for name, members in _ASCII.items() if name != "l"}
_CONTINUATION = bytes(range(0x80, 0xC0))


def _table(classes: Mapping[str, Iterable[int]]) -> bytes:
    table = bytearray(b"p" * 0x80 + b"o" * 0x80)
    for name, members in classes.items():
        for byte in members:
            table[byte] = ord(name)
    return bytes(table)


# In the first table, a letter of any alphabet counts as lower case. The second table distinguishes the alphabets.
_CLASSES = _table(_SCRIPTS | {"l": [*_ASCII["l"], *(byte for name in _ALPHABETS for byte in _SCRIPTS[name])]} | _REST)
_ALPHABET_CLASSES = _table(_ASCII | _SCRIPTS)

# Tokens per non-overlapping occurrence: `llll` counts the quarters of every word.
_WEIGHTS = {
    b"lN": 1.3, b"lq": 0.76, b"ld": 0.26, b"lp": 0.52,
    b"Ul": 0.4, b"UU": 0.61, b"UD": 1.3, b"US": 1.3, b"UN": 1.3, b"Uq": 1.3, b"Up": 1.29,
    b"Dl": 0.49, b"DU": 1.3, b"Dd": 0.34,
    b"Sl": 0.31, b"SS": 0.03, b"SN": 1.3, b"Sq": 1.0, b"Sd": 1.29, b"Sp": 0.14,
    b"Nl": 1.3, b"NU": 0.73, b"ND": 1.3, b"NS": 0.44, b"Np": 0.8,
    b"ql": 0.49, b"qU": 0.8, b"qS": 0.63, b"qd": 0.5, b"qp": 0.63,
    b"dl": 0.3, b"dD": 0.22, b"dS": 1.03, b"dq": 0.98,
    b"pl": 1.17, b"pD": 1.3, b"pd": 0.55, b"T": 0.54,
    b"l" * 2: 0.21, b"l" * 3: 0.16, b"l" * 4: 0.11, b"l" * 12: 0.16, b"l" * 16: 3.53,
    b"q" * 4: 0.24, b"q" * 8: 1.17, b"d" * 8: 1.1,
}  # fmt: skip
_DIGITS_WEIGHT = 1.52
_WEIGHTS_BEYOND = {
    b"z": 0.87, b"jj": 1.3, b"jz": 1.11, b"H": 0.31, b"HH": 1.3, b"e": 0.76, b"o": 1.6, b"Sz": 1.3, b"zo": 1.11,
}  # fmt: skip
_ALPHABET_WEIGHTS = {
    b"la": 1.02, b"ggg": 0.68, b"mmmm": 0.81, b"hhhh": 0.58, b"r": 0.07, b"i": 0.06, b"k" * 6: 1.02,
    b"Sc": 0.48, b"Sh": 0.62, b"Sr": 0.35,
}  # fmt: skip
# Scripts that share their first byte with others need a check of further bytes.
_BYTE_WEIGHTS = {
    **dict.fromkeys((b"\xc4", b"\xc5"), 0.52),  # Latin of central Europe
    **dict.fromkeys((b"\xe0\xa4", b"\xe0\xa5"), 0.07),  # Devanagari
    **dict.fromkeys((b"\xe0\xa6", b"\xe0\xa7"), 0.09),  # Bengali
    **dict.fromkeys((b"\xe0\xae", b"\xe0\xaf"), 0.08),  # Tamil
    **dict.fromkeys((bytes((0xE1, second)) for second in range(0x88, 0x8E)), 0.9),  # Ethiopic
}

SAMPLED_CHARACTERS = 512 * 1024
"""A longer text is estimated from samples of all its parts, so that one request cannot keep a server busy."""
_SAMPLES = 128


def count_text(text: str) -> int:
    """Return the estimated number of tokens of this text."""
    if not text:
        return 0
    if len(text) <= SAMPLED_CHARACTERS:
        return max(round(_estimate_tokens(text)), 1)
    step, size = len(text) // _SAMPLES, SAMPLED_CHARACTERS // _SAMPLES
    sample = "".join(text[start : start + size] for start in range(0, step * _SAMPLES, step))
    return round(_estimate_tokens(sample) * len(text) / len(sample))


def _estimate_tokens(text: str) -> float:
    encoded = text.encode("utf-8", "surrogatepass")
    classes = encoded.translate(_CLASSES, _CONTINUATION)
    total = _DIGITS_WEIGHT * _digit_groups(classes) + _weighted_count(classes, _WEIGHTS)
    if text.isascii():
        return total
    alphabets = encoded.translate(_ALPHABET_CLASSES, _CONTINUATION)
    total += _weighted_count(classes, _WEIGHTS_BEYOND) + _weighted_count(alphabets, _ALPHABET_WEIGHTS)
    return total + _weighted_count(encoded, _BYTE_WEIGHTS)


def _weighted_count(data: bytes, weights: Mapping[bytes, float]) -> float:
    count = data.count
    return sum(weight * count(pattern) for pattern, weight in weights.items())


def _digit_groups(classes: bytes) -> int:
    """Count groups of digits. Tokens contain up to three digits."""
    grouped = classes.replace(b"DDD", b"3")
    return grouped.count(b"3") + grouped.count(b"D") - grouped.count(b"DD")
