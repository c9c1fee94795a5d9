"""The picture in the README: Claude Code in a terminal, and what goes over the wires on both sides of toolglot.

- `python -m tests.docs.picture.record` runs the real Claude Code through `toolglot launch` and writes what was seen to
  `docs/images/claude-code.json`. It needs tmux and what `make set-up-e2e` installs.
- `python -m tests.docs.picture.render` draws `docs/images/claude-code.svg` from that file, always the same.

`make picture` does both.
"""
