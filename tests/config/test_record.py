"""The settings for recordings: what is refused, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolglot.config.load import load_config
from toolglot.config.problems import ConfigError
from toolglot.config.schema import RecordConfig
from toolglot.server.startup import StartOptions, load_options


def loaded(folder: Path, text: str) -> RecordConfig:
    file = folder / "toolglot.toml"
    file.write_text("discover = false\n[record]\n" + text)
    return load_config(file, {}).config.record


def test_recording_is_off_unless_it_is_asked_for(tmp_path: Path) -> None:
    assert loaded(tmp_path, "").directory is None


def test_everything_can_be_set(tmp_path: Path) -> None:
    text = f"""
directory = "{tmp_path}/a/b"
models = ["claude-*"]
keys = ["key-1"]
redact = ['ACME-[0-9]{{6}}', '(?i)secret \\w+']
max_bytes = 1000
max_files = 10
max_exchange_bytes = 100
"""
    assert loaded(tmp_path, text) == RecordConfig(
        directory=f"{tmp_path}/a/b",
        models=("claude-*",),
        keys=("key-1",),
        redact=("ACME-[0-9]{6}", r"(?i)secret \w+"),
        max_bytes=1000,
        max_files=10,
        max_exchange_bytes=100,
    )
    assert not (tmp_path / "a").exists(), "looking at a file makes no folders"


WRONG = {
    'directory = "FOLDER/toolglot.toml"': "toml:3:1: record.directory: FOLDER/toolglot.toml is not a directory",
    'directory = "FOLDER/toolglot.toml/x"': "record.directory: FOLDER/toolglot.toml is not a directory",
    'keys = ["sk-mine"]': "record.keys[0]: expected a key's label, not the key itself",
    "redact = ['ok', '(']": "record.redact[1]: this is not a regular expression: missing )",
    "redact = ['(a)\\1']": "record.redact[0]: it has a construct that cannot be matched in bounded time",
    "redact = ['[[:digit:]]+']": "record.redact[0]: a set `[…]` has characters that later versions of Python may read",
    "redact = ['x*']": "record.redact[0]: it matches the empty text",
    'models = ["a b"]': "record.models[0]: a model name must not be empty or contain spaces",
    "max_files = 0": "record.max_files",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_refused_with_its_place(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as told:
        loaded(tmp_path, text.replace("FOLDER", str(tmp_path)))
    assert WRONG[text].replace("FOLDER", str(tmp_path)) in str(told.value)


def test_the_flag_takes_the_place_of_the_files_folder_and_leaves_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "toolglot.toml"
    file.write_text(f'discover = false\n[record]\ndirectory = "{tmp_path}/one"\nmax_files = 3\n')
    config, _, _ = load_options(StartOptions(file=file, record=str(tmp_path / "two")), {})
    assert (config.record.directory, config.record.max_files) == (str(tmp_path / "two"), 3)
