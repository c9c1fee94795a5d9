"""Convert objects of the vendors' SDKs to JSON and back.

The SDKs of OpenAI, Anthropic, Google and Ollama use pydantic models. Nothing here imports pydantic or an SDK: an object
is recognized by its method `model_dump`.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, cast

T = TypeVar("T")

_PARSED = {"parsed", "parsed_arguments", "parsed_output"}
_OF_PARTS = {"__all__": _PARSED}
_SDK_MEMBERS: dict[str, Any] = {
    "sdk_http_response": True,
    "automatic_function_calling_history": True,
    "parsed": True,
    "choices": {"__all__": {"message": {"parsed": True, "tool_calls": {"__all__": {"function": _PARSED}}}}},
    "output": {"__all__": {"parsed_arguments": True, "content": _OF_PARTS}},
    "content": _OF_PARTS,
}
"""Members that an SDK adds to the vendor's documents: parsed output, the HTTP response."""


class SdkObject(Protocol):
    """A pydantic model of a vendor's SDK: a `ChatCompletion`, a `Message`, a `GenerateContentResponse`, a chunk."""

    def model_dump(self) -> dict[str, Any]: ...


def is_sdk_object(value: object) -> bool:
    return hasattr(value, "model_dump") and not isinstance(value, type)


def dump(value: Any) -> dict[str, Any]:
    """Return the JSON of an SDK's object, with the members that its vendor sent. Bytes and enums stay as they are:
    msgspec encodes both.

    Raises:
        TypeError: it is not such an object.
    """
    if not is_sdk_object(value):
        raise TypeError(f"expected JSON values or an SDK's objects, not {describe_type(value)}")
    return cast("dict[str, Any]", value.model_dump(by_alias=True, exclude_unset=True, exclude=_SDK_MEMBERS))


def validate(model: Any, value: Any) -> Any:
    """Return the value as an object of an SDK's class, or of one of the classes in a union type."""
    if hasattr(model, "model_validate"):
        return model.model_validate(value)
    from pydantic import TypeAdapter  # of the caller's SDK

    return TypeAdapter(model).validate_python(value)


def describe_type(value: object) -> str:
    """Name a value's type for an error: `int`, `httpx.Response`, `the class ChatCompletion`."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    kind = type(value)
    root = kind.__module__.partition(".")[0]
    return kind.__name__ if root == "builtins" else f"{root}.{kind.__name__}"
