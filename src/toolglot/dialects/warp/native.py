"""The key in `native` for fields that only Warp understands."""

NAME = "warp"
