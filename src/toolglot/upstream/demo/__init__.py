"""The demo upstream: a small rule-based agent. It needs no network, key or model, and always gives the same answers.

It supports every dialect, so a request to it passes through the whole gateway. Its rules, in order:

1. The user's wish is the last text that the user wrote. Text that agents add to it (`<system-reminder>`,
   `<environment_context>` …) is context. It is searched for the working directory and nothing else.
2. Results that arrived since the wish are quoted, and the turn ends. So a wish leads to one round of calls. A wish that
   says "then" ("the weather and the time, then refresh") leads to one round per step, and a `tool_choice` that requires
   calls leads to another round for tools that have not been called yet.
3. Otherwise it calls the tools that the wish names or means, by comparing words of the wish with a tool's name,
   parameters and description. A wish for several things ("the weather in Paris and Oslo", "the weather and the time")
   makes several calls, unless `parallel_tool_calls` is false. `tool_choice` is obeyed. A tool that changes something
   (write, delete, send …) is called only if the wish names its action, or if it is the only required tool.
4. Arguments are made from the JSON Schema and conform to it. Values come from the wish if a parameter's name suggests
   one: a city, a file, a URL, a number, a quoted string. A shell gets harmless commands only; `echo` replaces any
   other.
5. A requested JSON answer is a sample of its schema. Everything else is answered in a sentence or two.

Words in the wish that inject faults, to test a client or a gateway:

    demo:error 429     answer with this status
    demo:cut           break off in the middle of the first tool call, or of the text
    demo:fault         report an error in the middle of the answer
    demo:slow          wait two seconds before answering

The models `demo-text` and `demo-text-FORMAT` are the same agent without native tools. They ignore `tools`, read the
tools that the prompt describes, and write calls as text, in `hermes_json` or the format in the name (`models.py`,
`text_model.py`, `prompt_tools.py`).

`agent.py` decides and `transport.py` delivers. Between them are `turn.py` (the conversation), `wish.py` (its meaning),
`tool_choice.py` (the tools), `hints.py` and `schema_sample.py` (the arguments), `reply_text.py` (the text) and
`stream.py` (the pace).
"""
