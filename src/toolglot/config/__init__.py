"""The configuration: one schema for TOML and YAML, references to the environment, and errors with positions."""
