"""`--upstream DIALECT=URL`: a configuration from the command line that sends everything to the named upstreams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from toolglot.config.addresses import address_problem
from toolglot.config.problems import ConfigError, Problem, did_you_mean, one_of
from toolglot.config.schema import Config, UpstreamConfig
from toolglot.dialects import DEFAULT, DIALECTS

_UPSTREAM = "--upstream"
_KEY = "--upstream-key-env"


def parse_upstream(text: str) -> tuple[str, str]:
    """Parse the dialect and the base URL in `DIALECT=URL`. Hyphens and underscores are equivalent. Raises: ConfigError:
    the form is wrong.
    """
    name, equals, url = text.partition("=")
    dialect = name.strip().lower().replace("-", "_")
    if not equals:
        raise _error(_UPSTREAM, f"expected DIALECT=URL, such as {DEFAULT}=http://127.0.0.1:8000/v1")
    if dialect not in DIALECTS:
        raise _error(_UPSTREAM, f"there is no dialect `{name[:40]}`", one_of(dialect, DIALECTS))
    if problem := address_problem(url.strip()):
        raise _error(_UPSTREAM, problem)
    return dialect, url.strip()


def cli_config(
    upstreams: Sequence[tuple[str, str]],
    key_env: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    base: Config | None = None,
) -> Config:
    """Create a configuration with only these upstreams: the first for every model, the others by `name/model`. The
    names of variables belong to the upstreams in the same order. The upstreams and models of `base` are omitted and
    discovery is off, so no key goes to an address that it was not meant for.

    Raises:
        ConfigError: a variable is not set.
    """
    environ = environ or {}
    if len(key_env) > len(upstreams):
        raise _error(_KEY, f"{len(key_env)} names for {len(upstreams)} upstreams")
    keys = [_key(name, environ) for name in key_env]
    made: dict[str, UpstreamConfig] = {}
    for number, (dialect, url) in enumerate(upstreams):
        name, copies = dialect, 1
        while name in made:
            copies += 1
            name = f"{dialect}-{copies}"
        key = keys[number] if number < len(keys) else None
        made[name] = UpstreamConfig(dialect=dialect, base_url=url, key=key)
    return replace(base or Config(), upstreams=made, models={}, default_upstream=next(iter(made), None), discover=False)


def _key(name: str, environ: Mapping[str, str]) -> str:
    key = environ.get(name, "").strip()
    if not key:
        raise _error(_KEY, f"the environment variable {name} is not set", did_you_mean(name, environ))
    return key


def _error(option: str, message: str, suggestion: str | None = None) -> ConfigError:
    return ConfigError([Problem(file=option, message=message, suggestion=suggestion)])
