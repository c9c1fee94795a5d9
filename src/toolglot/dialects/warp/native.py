"""The name under which a node keeps what only Warp understands."""

NAME = "warp"
