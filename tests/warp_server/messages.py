"""Which field is which, and messages as trees: `{"agent_output": {"text": "Hi"}}`.

In a tree an absent field is no key, an empty message is `{}`, bytes are base64 text, and Struct and Value are the JSON
that they stand for. A field that the tables do not know is `"#<number>": [[wire type, number or base64], …]`; the names
of `NOVEL` are such fields too, with JSON in them, so that a test can say what a newer server may say.

`encode` writes whatever it is given: a value of another type than the table's goes out in the wire type that it has.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.warp_server import wire

Tree = dict[str, Any]

NOVEL = {"x_new": 5001, "experimental": 5002, "x_unknown": 5003}
"""Fields that nobody has heard of."""

# `number name type`, with `[]` for repeated and `{}` for a map from strings; `name: a | b` is a choice of one.
TABLES = {
    "Request": """1 task_context TaskContext; 2 input Input; 3 settings Settings; 4 metadata Metadata;
        5 existing_suggestions Suggestions; 6 mcp_context MCPContext""",
    "TaskContext": "1 tasks Task[]; 2 active_task_id string",
    "Input": """1 context InputContext; type: 2 user_query Input.UserQuery | 3 tool_call_result Input.ToolCallResult
        | 4 query_with_canned_response Unread | 5 auto_code_diff_query Unread | 6 user_inputs UserInputs
        | 7 resume_conversation Empty | 8 init_project_rules Empty | 9 generate_passive_suggestions Unread
        | 10 create_new_project Unread | 11 clone_repository Unread | 12 code_review Unread
        | 13 summarize_conversation Unread""",
    "UserInputs": "1 inputs UserInput[]",
    "UserInput": """input: 1 user_query Input.UserQuery | 2 tool_call_result Input.ToolCallResult
        | 3 cli_agent_user_query Unread""",
    "Input.UserQuery": """1 query string; 2 referenced_attachments Attachment{}; 3 mode UserQueryMode;
        4 intended_agent enum""",
    "UserQueryMode": "type: 1 plan Empty | 2 orchestrate Empty",
    "Input.ToolCallResult": """1 tool_call_id string; result: 2 run_shell_command Unread | 3 read_files Unread
        | 4 search_codebase Unread | 5 apply_file_diffs Unread | 8 grep GrepResult | 9 file_glob Unread
        | 11 read_mcp_resource Unread | 12 call_mcp_tool CallMCPToolResult | 15 file_glob_v2 Unread""",
    "Settings": """1 model_config ModelConfig; 2 rules_enabled bool; 3 web_context_retrieval_enabled bool;
        4 supports_parallel_tool_calls bool; 5 use_anthropic_text_editor_tools bool; 6 planning_enabled bool;
        7 warp_drive_context_enabled bool; 8 supports_create_files bool; 9 supported_tools enum[];
        10 supports_long_running_commands bool; 11 should_preserve_file_content_in_history bool;
        12 supports_todos_ui bool; 13 supports_linked_code_blocks bool; 14 supports_started_child_task_message bool;
        15 supports_suggest_prompt bool; 16 supports_read_image_files bool; 17 supports_reasoning_message bool;
        18 api_keys Unread; 19 autonomy_level enum; 20 isolation_level enum; 21 web_search_enabled bool;
        22 supported_cli_agent_tools enum[]""",
    "ModelConfig": """1 base string; 2 planning string; 3 coding string; 4 cli_agent string;
        5 computer_use_agent string; 6 base_model_context_window_limit uint32""",
    "Metadata": """1 conversation_id string; 2 logging Value{}; 3 ambient_agent_task_id string;
        4 forked_from_conversation_id string; 5 parent_agent_id string; 6 agent_name string""",
    "Suggestions": "1 rules Unread[]; 2 workflows Unread[]",
    "MCPContext": "1 resources MCPResource[]; 2 tools MCPTool[]; 3 servers MCPServer[]",
    "MCPResource": "1 uri string; 2 name string; 3 description string; 4 mime_type string",
    "MCPTool": "1 name string; 2 description string; 3 input_schema Struct",
    "MCPServer": "1 name string; 2 description string; 3 resources MCPResource[]; 4 tools MCPTool[]; 5 id string",
    "InputContext": """1 directory Directory; 2 operating_system OperatingSystem; 3 shell Shell;
        4 current_time Timestamp; 5 executed_shell_commands Unread[]; 6 selected_text SelectedText[];
        7 images Image[]; 8 codebases Unread[]; 9 files Unread[]; 10 project_rules Unread[]""",
    "Directory": "1 pwd string; 2 home string; 3 pwd_file_symbols_indexed bool",
    "OperatingSystem": "1 platform string; 2 distribution string",
    "Shell": "1 name string; 2 version string",
    "SelectedText": "1 text string",
    "Image": "1 data bytes; 2 mime_type string",
    "Attachment": """value: 1 plain_text string | 2 executed_shell_command Unread | 3 running_shell_command Unread
        | 4 drive_object Unread | 5 diff_hunk Unread | 6 diff_set Unread | 7 document_content Unread
        | 8 file_path_reference Unread""",
    "Task": """1 id string; 2 description string; 3 dependencies Dependencies; 4 status TaskStatus;
        5 messages Message[]; 6 summary string; 8 server_data string""",
    "TaskStatus": """status: 1 pending Empty | 2 in_progress Empty | 3 blocked Empty | 4 succeeded Empty
        | 5 failed Empty | 6 aborted Empty""",
    "Dependencies": "1 parent_task_id string",
    "Message": """1 id string; 7 server_message_data string; 8 citations Citation[]; 11 task_id string;
        13 request_id string; 14 timestamp Timestamp; message: 2 user_query Message.UserQuery
        | 3 agent_output AgentOutput | 4 tool_call ToolCall | 5 tool_call_result Message.ToolCallResult
        | 6 server_event Payload | 9 system_query Unread | 10 update_todos UpdateTodos
        | 15 agent_reasoning AgentReasoning | 16 summarization Unread | 17 code_review Unread
        | 18 update_review_comments Unread | 19 web_search WebSearch | 20 web_fetch Unread | 21 debug_output DebugOutput
        | 22 artifact_event Unread | 23 invoke_skill Unread | 24 messages_received_from_agents Unread
        | 25 model_used ModelUsed | 26 events_from_agents Unread""",
    "Citation": "1 document_id string; 2 document_type enum",
    "Message.UserQuery": """1 query string; 2 context InputContext; 3 referenced_attachments Attachment{};
        4 mode UserQueryMode; 5 intended_agent enum""",
    "AgentOutput": "1 text string; 2 reasoning string",
    "AgentReasoning": "1 reasoning string; 2 finished_duration Timestamp",
    "Payload": "1 payload string",
    "DebugOutput": "1 text string",
    "ModelUsed": "1 model_id string; 2 model_display_name string; 3 is_fallback bool",
    "WebSearch": "1 status WebSearchStatus",
    "WebSearchStatus": "type: 1 searching WebSearchQuery | 2 success Unread | 3 error Unread",
    "WebSearchQuery": "1 query string",
    "UpdateTodos": """operation: 1 create_todo_list CreateTodoList | 2 update_pending_todos Unread
        | 3 mark_todos_completed MarkTodos""",
    "CreateTodoList": "1 initial_todos Todo[]",
    "Todo": "1 id string; 2 title string; 3 description string",
    "MarkTodos": "1 todo_ids string[]",
    "ToolCall": """1 tool_call_id string; tool: 2 run_shell_command RunShellCommand | 3 search_codebase Unread
        | 4 server Payload | 5 read_files Unread | 6 apply_file_diffs Unread | 7 suggest_plan Unread
        | 8 suggest_create_plan Empty | 9 grep Grep | 10 file_glob Unread | 11 read_mcp_resource Unread
        | 12 call_mcp_tool CallMCPTool | 13 write_to_long_running_shell_command Unread
        | 14 suggest_new_conversation Unread | 15 file_glob_v2 Unread | 16 suggest_prompt Unread
        | 17 open_code_review Empty | 18 init_project Empty | 19 subagent Subagent""",
    "RunShellCommand": """1 command string; 2 is_read_only bool; 3 uses_pager bool; 4 citations Citation[];
        5 is_risky bool; 7 risk_category enum""",
    "Grep": "1 queries string[]; 2 path string",
    "Subagent": "1 task_id string; 2 payload string",
    "CallMCPTool": "1 name string; 2 args Struct; 3 server_id string",
    "Message.ToolCallResult": """1 tool_call_id string; 11 context InputContext; result: 2 run_shell_command Unread
        | 3 search_codebase Unread | 4 server ServerResult | 5 read_files Unread | 6 apply_file_diffs Unread
        | 9 grep GrepResult | 10 file_glob Unread | 14 cancel Empty | 15 read_mcp_resource Unread
        | 16 call_mcp_tool CallMCPToolResult | 19 file_glob_v2 Unread""",
    "ServerResult": "1 serialized_result string",
    "GrepResult": "result: 1 success Unread | 2 error ErrorMessage",
    "CallMCPToolResult": "result: 1 success MCPToolResults | 2 error ErrorMessage",
    "MCPToolResults": "1 results MCPToolResult[]",
    "MCPToolResult": "result: 1 text PlainText | 2 image Image | 3 resource MCPResourceContent",
    "PlainText": "1 text string",
    "MCPResourceContent": "1 uri string; content: 2 text ResourceText | 3 binary Image",
    "ResourceText": "1 content string; 2 mime_type string",
    "ErrorMessage": "1 message string",
    "ResponseEvent": "type: 1 init StreamInit | 2 client_actions ClientActions | 3 finished StreamFinished",
    "StreamInit": "1 conversation_id string; 2 request_id string; 3 run_id string",
    "ClientActions": "1 actions ClientAction[]",
    "ClientAction": """action: 1 create_task CreateTask | 2 update_task_status Unread
        | 3 add_messages_to_task AddMessages | 4 update_task_message ChangeMessage
        | 5 append_to_message_content ChangeMessage | 6 show_suggestions Suggestions
        | 7 update_task_summary TaskSummary | 8 update_task_description TaskDescription | 9 begin_transaction Empty
        | 10 commit_transaction Empty | 11 rollback_transaction Empty | 12 start_new_conversation NewConversation
        | 13 update_task_server_data TaskServerData | 14 move_messages_to_new_task MoveMessages""",
    "CreateTask": "1 task Task",
    "AddMessages": "1 task_id string; 2 messages Message[]",
    "ChangeMessage": "1 message Message; 2 mask FieldMask; 3 task_id string",
    "TaskSummary": "1 task_id string; 2 summary string",
    "TaskDescription": "1 task_id string; 2 description string",
    "NewConversation": "1 start_from_message_id string",
    "TaskServerData": "1 task_id string; 2 server_data string",
    "MoveMessages": """1 source_task_id string; 2 new_task Task; 3 first_message_id string; 4 last_message_id string;
        5 expected_message_count uint32; 6 replacement_messages Message[]""",
    "StreamFinished": """reason: 1 other Empty | 2 done Empty | 3 max_token_limit Empty | 4 quota_limit Empty
        | 5 context_window_exceeded Empty | 6 llm_unavailable Empty | 7 internal_error ErrorMessage
        | 12 invalid_api_key InvalidKey; 8 token_usage TokenUsage[]; 9 should_refresh_model_config bool;
        10 request_cost RequestCost; 11 conversation_usage_metadata ConversationUsage; 13 pruned_media PrunedMedia""",
    "InvalidKey": "1 provider enum; 2 model_name string",
    "TokenUsage": """1 model_id string; 2 total_input uint32; 3 output uint32; 4 input_cache_read uint32;
        5 input_cache_write uint32; 6 cost_in_cents float""",
    "RequestCost": "1 exact float; 2 platform_credits float",
    "ConversationUsage": """1 context_window_usage float; 2 summarized bool; 3 credits_spent float;
        4 token_usage Unread[]; 5 tool_usage_metadata Unread; 6 warp_token_usage ModelTokenUsage{};
        7 byok_token_usage ModelTokenUsage{}; 8 platform_credits_spent float;
        9 custom_endpoint_token_usage ModelTokenUsage{}; 10 total_input_tokens uint32""",
    "ModelTokenUsage": "1 model_id string; 2 total_tokens uint32; 3 token_usage_by_category uint32{}",
    "PrunedMedia": "1 pruned_count uint32",
    "Timestamp": "1 seconds int64; 2 nanos int32",
    "FieldMask": "1 paths string[]",
    "Empty": "",
    "Unread": "",
    "Said": "1 init StreamInit; 2 tasks Task[]; 3 finished StreamFinished",
}
"""The fields that the tests speak of. `Unread` is a message whose fields do not matter here: they stay `#<number>`.
`Said` is on no wire: it is what the events of a stream add up to."""


class Slot(NamedTuple):
    """A field of a table. `many` is "", "[]" or "{}"; `choice` is the name of the choice that it belongs to."""

    number: int
    name: str
    kind: str
    many: str = ""
    choice: str = ""


def _slots(table: str) -> Iterator[Slot]:
    for entry in filter(None, (entry.strip() for entry in table.split(";"))):
        choice, colon, members = entry.partition(":")
        for member in members.split("|") if colon else [entry]:
            number, name, kind = member.split()
            many = kind[-2:] if kind[-2:] in ("[]", "{}") else ""
            yield Slot(int(number), name, kind.removesuffix(many), many, choice.strip() if colon else "")


SLOTS = {message: tuple(_slots(table)) for message, table in TABLES.items()}
BY_NAME = {message: {slot.name: slot for slot in slots} for message, slots in SLOTS.items()}
BY_NUMBER = {message: {slot.number: slot for slot in slots} for message, slots in SLOTS.items()}
_NOVEL_NAMES = {number: name for name, number in NOVEL.items()}


# Writing


def encode(message: str, tree: Tree) -> bytes:
    """The message as bytes, its fields in the order of the tree's keys."""
    return b"".join(_encode_key(BY_NAME[message].get(key), key, value) for key, value in tree.items())


def _encode_key(slot: Slot | None, key: str, value: Any) -> bytes:
    if value is None:
        return b""
    if slot is not None:
        return _encode_slot(slot, value)
    if key.startswith("#"):
        listed = value if isinstance(value, list) else [value]
        return b"".join(_encode_unknown(int(key[1:]), field) for field in listed)
    return wire.bytes_field(NOVEL.get(key, 6000 + zlib.crc32(key.encode()) % 1000), _json(value))


def _encode_unknown(number: int, field: Any) -> bytes:
    match field:
        case [0, int(value)]:
            return wire.number_field(number, value)
        case [1 | 2 | 3 | 5 as kind, str(value)]:
            return wire.raw_field(wire.Field(number, kind, _from_base64(value)))
        case _:
            return _as_it_is(number, field)


def _encode_slot(slot: Slot, value: Any) -> bytes:
    if slot.many == "{}" and isinstance(value, dict):
        entries = [_one(1, "string", key) + _one(2, slot.kind, item) for key, item in value.items()]
        return b"".join(wire.bytes_field(slot.number, entry) for entry in entries)
    if slot.many == "[]" and slot.kind == "enum" and isinstance(value, list) and all(type(n) is int for n in value):
        return wire.bytes_field(slot.number, b"".join(map(wire.varint, value))) if value else b""
    if isinstance(value, list) and slot.kind != "Value":
        return b"".join(_one(slot.number, slot.kind, item) for item in value)
    return _one(slot.number, slot.kind, value)


def _one(number: int, kind: str, value: Any) -> bytes:
    if kind == "Value":
        return wire.bytes_field(number, value_bytes(value))
    if kind == "Struct" and isinstance(value, dict):
        return wire.bytes_field(number, struct_bytes(value))
    if kind in TABLES and isinstance(value, dict):
        return wire.bytes_field(number, encode(kind, value))
    if kind == "bytes" and isinstance(value, str):
        return wire.bytes_field(number, _from_base64(value))
    if kind == "float" and type(value) in (int, float):
        return wire.float_field(number, value)
    return _as_it_is(number, value)


def _as_it_is(number: int, value: Any) -> bytes:
    """The value in the wire type that it has itself."""
    if value is None:
        return b""
    if isinstance(value, int):
        return wire.number_field(number, value)
    if isinstance(value, float):
        return wire.double_field(number, value)
    if isinstance(value, str):
        return wire.bytes_field(number, value.encode())
    if isinstance(value, list):
        return b"".join(_as_it_is(number, item) for item in value)
    return wire.bytes_field(number, _json(value))


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text.encode()


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def struct_bytes(value: dict[str, Any]) -> bytes:
    entries = (
        wire.bytes_field(1, key.encode()) + wire.bytes_field(2, value_bytes(item)) for key, item in value.items()
    )
    return b"".join(wire.bytes_field(1, entry) for entry in entries)


def value_bytes(value: Any) -> bytes:
    if value is None:
        return wire.number_field(1, 0)
    if isinstance(value, bool):
        return wire.number_field(4, value)
    if isinstance(value, int | float):
        return wire.double_field(2, float(value))
    if isinstance(value, str):
        return wire.bytes_field(3, value.encode())
    if isinstance(value, dict):
        return wire.bytes_field(5, struct_bytes(value))
    return wire.bytes_field(6, b"".join(wire.bytes_field(1, value_bytes(item)) for item in value))


# Reading


def decode(message: str, data: bytes) -> Tree:
    """The tree of a message. What stands twice counts as protobuf says: the last one, or both merged.

    Raises:
        WireError: these bytes are no such message.
    """
    raw: dict[str, Any] = {}
    for field in wire.fields(data):
        slot = BY_NUMBER[message].get(field.number)
        if slot is None or not _fits(slot, field):
            _keep_unknown(raw, field)
            continue
        if slot.choice:
            for other in SLOTS[message]:
                if other.choice == slot.choice and other is not slot:
                    raw.pop(other.name, None)
        if slot.many or slot.kind in TABLES or slot.kind in ("Struct", "Value"):
            raw.setdefault(slot.name, []).append(field.value)
        else:
            raw[slot.name] = [field.value]
    return {key: _decode_slot(BY_NAME[message].get(key), value) for key, value in raw.items()}


_WIRE_TYPES = {
    **dict.fromkeys(("int32", "int64", "uint32", "enum", "bool"), wire.VARINT),
    "float": wire.I32,
}


def _fits(slot: Slot, field: wire.Field) -> bool:
    packed = slot.many == "[]" and slot.kind == "enum" and field.kind == wire.LEN
    return packed or field.kind == (wire.LEN if slot.many == "{}" else _WIRE_TYPES.get(slot.kind, wire.LEN))


def _keep_unknown(raw: dict[str, Any], field: wire.Field) -> None:
    name = _NOVEL_NAMES.get(field.number)
    if name is not None and isinstance(field.value, bytes):
        raw[name] = json.loads(field.value)
        return
    value = field.value if isinstance(field.value, int) else base64.b64encode(field.value).decode()
    raw.setdefault(f"#{field.number}", []).append([field.kind, value])


def _decode_slot(slot: Slot | None, values: Any) -> Any:
    if slot is None:
        return values
    if slot.many == "{}":
        return dict(_entry(slot.kind, value) for value in values)
    if slot.kind == "enum" and slot.many:
        return [number for value in values for number in ([value] if isinstance(value, int) else _packed(value))]
    if slot.many:
        return [_decode_one(slot.kind, value) for value in values]
    return _decode_one(slot.kind, b"".join(values) if isinstance(values[0], bytes) else values[-1])


def _packed(data: bytes) -> list[int]:
    as_fields = wire.fields(b"".join(b"\x08" + piece for piece in _varints(data)))
    return [field.value for field in as_fields if isinstance(field.value, int)]


def _varints(data: bytes) -> Iterator[bytes]:
    start = 0
    for place, byte in enumerate(data):
        if byte < 0x80:
            yield data[start : place + 1]
            start = place + 1
    if start != len(data):
        raise wire.WireError("a packed number has no end")


def _entry(kind: str, data: bytes) -> tuple[str, Any]:
    slot, key, values = Slot(2, "value", kind), "", []
    for field in wire.fields(data):
        if field.number == 1 and isinstance(field.value, bytes):
            key = field.value.decode()
        elif field.number == 2 and _fits(slot, field):
            values.append(field.value)
    if not values:
        return key, _DEFAULTS.get(kind, {})
    return key, _decode_slot(slot, values if kind in TABLES else values[-1:])


_DEFAULTS: dict[str, Any] = {"uint32": 0, "string": "", "Value": None}
_NUMBERS: dict[str, Callable[[int], Any]] = {
    "bool": bool,
    "enum": lambda value: _signed(value, 32),
    "int32": lambda value: _signed(value, 32),
    "int64": lambda value: _signed(value, 64),
    "uint32": lambda value: value & 0xFFFFFFFF,
}


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _decode_one(kind: str, value: Any) -> Any:
    if isinstance(value, int):
        return _NUMBERS[kind](value)
    if kind == "string":
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise wire.WireError(f"a string is not UTF-8: {error}") from None
    if kind == "bytes":
        return base64.b64encode(value).decode()
    if kind == "float":
        return struct.unpack("<f", value)[0]
    if kind == "Struct":
        return struct_of(value)
    return value_of(value) if kind == "Value" else decode(kind, value)


def struct_of(data: bytes) -> dict[str, Any]:
    entries = [field.value for field in wire.fields(data) if field.number == 1 and isinstance(field.value, bytes)]
    return dict(_entry("Value", entry) for entry in entries)


def value_of(data: bytes) -> Any:
    value: Any = None
    for number, kind, raw in wire.fields(data):
        match number, kind, raw:
            case 1, wire.VARINT, _:
                value = None
            case 2, wire.I64, bytes():
                value = struct.unpack("<d", raw)[0]
            case 3, wire.LEN, bytes():
                value = raw.decode()
            case 4, wire.VARINT, _:
                value = bool(raw)
            case 5, wire.LEN, bytes():
                value = struct_of(raw)
            case 6, wire.LEN, bytes():
                value = [value_of(item.value) for item in wire.fields(raw) if isinstance(item.value, bytes)]
    return value


# Meaning


def meant(message: str, tree: Tree) -> Tree:
    """The tree without what says nothing: an absent field of a number or a text means its default."""
    kept: Tree = {}
    for key, value in tree.items():
        slot = BY_NAME[message].get(key)
        if value is None or value == [] or (slot is not None and _says_nothing(slot, value)):
            continue
        kept[key] = value if slot is None else _meant(slot, value)
    return kept


def _says_nothing(slot: Slot, value: Any) -> bool:
    is_scalar = slot.kind not in TABLES and slot.kind not in ("Struct", "Value")
    return (is_scalar and not slot.choice and not slot.many and not value) or (slot.many == "{}" and value == {})


def _meant(slot: Slot, value: Any) -> Any:
    if slot.kind not in TABLES:
        return value
    if slot.many == "[]" and isinstance(value, list):
        return [meant(slot.kind, item) for item in value]
    if slot.many == "{}" and isinstance(value, dict):
        return {key: meant(slot.kind, item) for key, item in value.items()}
    return meant(slot.kind, value) if isinstance(value, dict) else value
