"""A server by hand, of the standard library alone, that does what servers should not.

`wayward.py [BEHAVIOUR] ...`: what it does from the beginning. What else it does is in its tools.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]
BEHAVIOURS = sys.argv[1:]
CACHED = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
heard: list[str] = []
tools: list[str] = []


def send(**message: Any) -> None:
    raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def raw(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def shout(data: bytes) -> None:
    os.write(2, data)


def receive() -> Message:
    line = sys.stdin.buffer.readline()
    if not line:
        if "stubborn" in BEHAVIOURS:
            signal.pause()
        raise SystemExit(0)
    message: Message = json.loads(line)
    heard.append(message.get("method", "answer"))
    return message


def text(said: str) -> Message:
    return {"content": [{"type": "text", "text": said}]}


def spin(write: Callable[[], None]) -> None:
    while True:
        write()


def definition(name: str) -> Message:
    return {"name": name, "inputSchema": {"type": "object"}, "outputSchema": {"type": "object", "required": ["sum"]}}


def call(number: int, name: str, params: Message) -> None:
    match name:
        case "hang":
            return
        case "progress":
            token = params["_meta"]["progressToken"]
            while True:
                send(method="notifications/progress", params={"progressToken": token, "progress": 1})
                time.sleep(0.01)
        case "wrong_id":
            send(id=number + 1_000, result=text("for somebody else"))
        case "no_result":
            send(id=number, result=["not", "a", "result"])
        case "deep":
            raw(b'{"jsonrpc": "2.0", "id": %d, "result": %s}\n' % (number, b"[" * 10_000 + b"]" * 10_000))
        case "deep_last":
            raw(b'{"result": {"a": %s}, "jsonrpc": "2.0", "id": %d}\n' % (b"[" * 10_000 + b"]" * 10_000, number))
        case "latin":
            raw(b'{"jsonrpc": "2.0", "id": %d, "result": {"content": [{"type": "text", "text": "\xe9"}]}}\n' % number)
        case "not_mcp":
            send(id=number, result={"content": "text"})
        case "odd":
            blocks = [{"type": "hologram", "data": 7}, {"type": "image", "data": 5}, {"type": "text", "text": "seen"}]
            send(id=number, result={"content": blocks, "structuredContent": [1]})
        case "environment":
            send(id=number, result=text(json.dumps(dict(os.environ))))
        case "lie":
            send(id=number, result={**text("three"), "structuredContent": {"sum": "three"}, "later": {"a": [None]}})
        case "error":
            send(
                id=number,
                error={"code": -32000, "message": f"\x1b[31mno\x1b[0m {os.environ['SECRET']}\n" + "x" * 9_999},
            )
        case "long_line":
            raw(b'{"jsonrpc": "2.0", "id": %d, "result": "' % number)
            spin(lambda: raw(b"x" * 65_536))
        case "die":
            print(f"\x1b[31mfatal\x1b[0m: key {os.environ['SECRET']}", file=sys.stderr, flush=True)
            os._exit(7)
        case "flood":
            send(id=number, result=text("here it comes"))
            line = b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x"}}\n' * 500
            spin(lambda: raw(line))
        case "change_flood":
            send(id=number, result=text("here it comes"))
            line = b'{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}\n' * 500
            spin(lambda: raw(line))
        case "request_flood":
            send(id=number, result=text("here it comes"))
            line = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n' * 500
            spin(lambda: raw(line))
        case "babble":
            send(id=number, result=text("here it comes"))
            spin(lambda: raw(b"la la la\n" * 5_000))
        case "shout":
            send(id=number, result=text("here it comes"))
            spin(lambda: shout(b"\x1b[31mAAAA\x1b[0m\n" * 5_000))
        case "ask":
            send(id="mine", method="sampling/createMessage", params={"messages": [], "maxTokens": 1})
            send(id=number, result=text(json.dumps(receive()["error"])))
        case "input":
            send(id=number, result={"resultType": "input_required", "inputRequests": {}, "requestState": "s"})
        case "heard":
            send(id=number, result=text(" ".join(heard)))
        case "grow":
            tools.append("grown")
            send(method="notifications/tools/list_changed")
            send(id=number, result=text("grown"))
        case "close":
            os.close(1)
            signal.pause()
        case _:
            send(id=number, result=text(f"{os.getpid()} {params['arguments']}"))


def odd_definitions() -> list[Any]:
    string = {"type": "string"}
    deep: Any = [string]
    for _ in range(60):
        deep = [{"anyOf": deep}]
    schemas: Message = {
        "empty": {},
        "null": None,
        "go": {"type": "object", "properties": None, "required": None},
        "union": {"type": ["object", "null"]},
        "boolean": {"type": "object", "properties": {"a": True}},
        "tuple": {"type": "object", "properties": {"a": {"type": "array", "items": [string]}}},
        "deep": {"type": "object", "allOf": deep},
        "string": string,
        "list": [],
        "required_text": {"type": "object", "required": "a"},
        "property_text": {"type": "object", "properties": {"a": "string"}},
        "properties_list": {"type": "object", "properties": ["a"]},
        "type_number": {"type": "object", "properties": {"a": {"type": 5}}},
        "union_text": {"type": "object", "anyOf": "x"},
        "inner_enum": {"type": "object", "properties": {"a": {"items": {"enum": 5}}}},
    }
    odd = [{"name": name, "inputSchema": schema} for name, schema in schemas.items()]
    output = {**definition("output"), "outputSchema": {"type": 5}, "annotations": 7, "icons": "x"}
    return [*odd, output, {"name": "no_schema"}, {"name": 5}, {**definition("words"), "description": 5}, None, []]


def with_header(name: str, header: str) -> Message:
    schema = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": header}}}
    return {"name": name, "inputSchema": schema}


def telling(name: str, credential: str) -> Message:
    schema = {"type": "object", "properties": {"a": {"type": "string", "default": credential}}}
    return {"name": name, "description": f"uses {credential}", "inputSchema": schema}


def listed(params: Message) -> Message:
    page = int(params.get("cursor") or 0)
    if "endless_pages" in BEHAVIOURS:
        return {"tools": [definition(f"t{page}")], "nextCursor": str(page + 1)}
    if "pages" in BEHAVIOURS and page < 3:
        return {"tools": [definition(f"t{page}")], "nextCursor": str(page + 1)}
    if "heavy_pages" in BEHAVIOURS:
        return {"tools": [{**definition(f"t{page}"), "description": "x" * 3_000_000}], "nextCursor": str(page + 1)}
    if "many" in BEHAVIOURS:
        return {"tools": [definition(f"t{index}") for index in range(1_500)]}
    if "bad_list" in BEHAVIOURS:
        return {"tools": {"name": "t"}}
    if "odd_list" in BEHAVIOURS:
        return {"tools": [definition("good"), *odd_definitions(), definition("last")], "nextCursor": ""}
    if "headers" in BEHAVIOURS:
        return {"tools": [with_header("fine", "Region"), with_header("wrong", "not a token")]}
    if "telling" in BEHAVIOURS:
        return {"tools": [telling("tool", os.environ["API_KEY"]), telling(os.environ["API_KEY"], "")]}
    return {"tools": [definition(name) for name in ("lie", "twice", "twice", *tools)]}


def initialize() -> Message:
    info = {"name": "wayward", "version": "1"}
    return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}


def serve() -> None:
    while True:
        message = receive()
        number, params = message.get("id"), message.get("params") or {}
        match message.get("method"):
            case "initialize":
                send(id=number, result=initialize())
            case "tools/list" if "no_tools" not in BEHAVIOURS:
                send(id=number, result={**listed(params), **CACHED})
            case "tools/call" if number is not None:
                call(number, params["name"], params)
            case "server/discover" if "shy" in BEHAVIOURS:
                raise SystemExit(4)
            case "server/discover" if "stateless" in BEHAVIOURS:
                send(id=number, result={"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **CACHED})
            case str() if number is not None:
                send(id=number, error={"code": -32601, "message": "Method not found"})


def begin() -> None:
    if "exit" in BEHAVIOURS:
        print("\x1b]0;title\x07\x1b[31mcannot\x1b[0m start\x00", file=sys.stderr, flush=True)
        raise SystemExit(3)
    if "stubborn" in BEHAVIOURS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "child" in BEHAVIOURS:
        # It holds the pipes open, and outlives its parent if nobody ends it.
        child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        print(f"child {child.pid}", file=sys.stderr, flush=True)
    if "mute" in BEHAVIOURS:
        signal.pause()
    if "banner" in BEHAVIOURS:
        raw(b"Welcome!\n\n\x1b[32mready\x1b[0m\n\xff\xfe\n{not json\n[]\n")


if __name__ == "__main__":
    begin()
    serve()
