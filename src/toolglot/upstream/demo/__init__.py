"""The demo upstream: a small agent of rules. It needs no network, no key and no model, and it always answers alike.

It speaks every dialect, so whatever reaches it has gone the whole way of the gateway. Its rules, in the order in which
they are asked:

1. The user's wish is the last text the user wrote. What agents put beside it (`<system-reminder>`,
   `<environment_context>` …) is context: it is searched for the working directory and for nothing else.
2. Results that have come back since the wish are quoted, and the turn is over. So a wish leads to one round of calls.
   A wish that says "then" ("the weather and the time, then refresh") leads to one round for each of its steps, and a
   `tool_choice` that demands calls to another round for tools that have not been called yet.
3. Otherwise tools are called that the wish names or means: words of the wish are compared with a tool's name, its
   parameters and its description. A wish for several things ("the weather in Paris and Oslo", "the weather and the
   time") makes several calls, unless `parallel_tool_calls` is false. `tool_choice` is obeyed. A tool that changes
   something (write, delete, send …) is called only when the wish names what it does, or when it alone is demanded.
4. Arguments are made from the JSON Schema and keep to it. Values come from the wish where a parameter's name suggests
   one: a city, a file, a URL, a number, a quoted string. A shell is asked for harmless commands only, and `echo` takes
   the place of any other.
5. A wanted JSON answer is a sample of its schema. Everything else is answered in a sentence or two.

Words in the wish that make it misbehave, to try out what a client or a gateway does then:

    demo:error 429     answer with this status
    demo:cut           break off in the middle of the first tool call, or of the text
    demo:fault         report an error in the middle of the answer
    demo:slow          say nothing for two seconds first

The models `demo-text` and `demo-text-FORMAT` are the same agent without native tools: it ignores `tools`, reads what
the prompt tells of them, and writes its calls as text, in `hermes_json` or the format that the name says (`models.py`,
`text.py`, `listed.py`).

`agent.py` decides and `transport.py` delivers; between them stand `turn.py` (what was said), `wording.py` (what it
means), `choosing.py` (which tools), `hints.py` and `samples.py` (which arguments), `replies.py` (which words) and
`stream.py` (how fast).
"""
