"""`user_query`, in a task or in an input <-> a user message, and the system prompt.

Warp has no field for a system prompt. It is sent as a named attachment on the last query of the input. If the input has
only tool results, an empty query after them has it. So it reaches the model in every turn, and the bytes of a longer
history begin with those of the shorter one.
"""

from __future__ import annotations

from typing import Any

from toolglot.dialects.warp.fields import ReadFields, make_native, remaining_fields, restore
from toolglot.dialects.warp.media import decode_media, encode_media
from toolglot.dialects.warp.native import NAME
from toolglot.ir import Block, Media, Message, Refusal, Text, Thinking, ToolCall, ToolResult, native_of, replace
from toolglot.receipt import Receipt, describe_block

SYSTEM_PROMPT = "SYSTEM_PROMPT"
"""The name of the attachment with the system prompt."""
TASK = "$task"
"""The note on a message that came from a task, not from the input."""
ATTACHED = "$attached"
"""The note on a system message that repeats an attachment, which is itself kept on its query."""
_QUERY: ReadFields = {"query": None}
_QUERY_IN_TASK: ReadFields = {"query": None, "context": {"images": None}}


def decode_query(outer: Any, *, in_task: bool) -> Message:
    """Decode a user message. Its attachments are kept as native."""
    query = outer.user_query
    rest = remaining_fields(outer, {"user_query": _QUERY_IN_TASK if in_task else _QUERY})
    content: list[Block] = [Text(text=query.query)] if query.query else []
    if in_task:
        rest[TASK] = True
        content += map(decode_media, query.context.images)
    return Message(role="user", content=tuple(content), native=make_native(rest))


def find_system_prompt(outer: Any) -> str | None:
    """Find the system prompt on a query. None if there is none, or if it is not plain text."""
    query = outer.user_query
    if SYSTEM_PROMPT not in query.referenced_attachments:
        return None
    attachment = query.referenced_attachments[SYSTEM_PROMPT]
    if attachment.WhichOneof("value") != "plain_text" or remaining_fields(attachment, {"plain_text": None}):
        return None
    text: str = attachment.plain_text
    return text


def remove_system_prompt(message: Message) -> Message:
    """Remove the system prompt from the attachments of a message."""
    own = dict(native_of(message, NAME))
    query = dict(own["user_query"])
    attachments = {key: value for key, value in query["referenced_attachments"].items() if key != SYSTEM_PROMPT}
    query["referenced_attachments"] = attachments
    if not attachments:
        del query["referenced_attachments"]
    own["user_query"] = query
    if not query:
        del own["user_query"]
    return replace(message, native=make_native(own))


def encode_query(message: Message, outer: Any, images: Any, where: str, receipt: Receipt) -> None:
    """Write a user message, without its results, into a message of a task or into an input."""
    texts: list[str] = []
    shown = False
    for index, block in enumerate(message.content):
        place = f"{where}.content[{index}]"
        match block:
            case Text(text=text) | Refusal(text=text) | Thinking(text=text):
                if shown:
                    receipt.note(place, "text after an image", "images are next to the text of a query, not in it")
                texts.append(text)
            case Media(source=source) if source.kind == "base64" and block.kind == "image":
                shown = True
                encode_media(block, images.add(), place, receipt)
            case ToolResult():
                pass
            case _:
                receipt.loss(place, _describe(block), "Warp's user queries cannot hold it")
    if len(texts) > 1:
        receipt.note(where, f"{len(texts)} texts", "a query is one text: they are joined by an empty line")
    outer.user_query.query = "\n\n".join(texts)
    restore(outer, native_of(message, NAME))


def attach_system(inputs: Any, text: str) -> None:
    """Attach the system prompt to the last query of these inputs."""
    queries = [item.user_query for item in inputs if item.HasField("user_query")]
    query = queries[-1] if queries else inputs.add().user_query
    if not queries:
        query.query = ""
    query.referenced_attachments[SYSTEM_PROMPT].plain_text = text


def system_text(message: Message, where: str, receipt: Receipt) -> str:
    texts: list[str] = []
    for index, block in enumerate(message.content):
        if isinstance(block, (Text, Refusal, Thinking)):
            texts.append(block.text)
        else:
            receipt.loss(f"{where}.content[{index}]", _describe(block), "Warp's system prompt holds only text")
    return "\n\n".join(texts)


def _describe(block: Block) -> str:
    match block:
        case ToolCall(name=name):
            return f"call of {name}"
    return describe_block(block)
