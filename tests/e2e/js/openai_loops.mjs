// Tool loops with the OpenAI SDK, streamed: ask, run the calls, send the results, until there are no more calls.
import { SYSTEM, TOOLS, run } from "./tools.mjs";
import { MODEL, PROMPT, answer, parsed } from "./serve.mjs";

export async function chatLoop(client) {
  const tools = TOOLS.map(({ name, description, schema }) => ({
    type: "function",
    function: { name, description, parameters: schema },
  }));
  const messages = [
    { role: "system", content: SYSTEM },
    { role: "user", content: PROMPT },
  ];
  const calls = [];
  for (;;) {
    const body = { model: MODEL, messages, tools, stream_options: { include_usage: true } };
    const { message, finish_reason } = (await client.chat.completions.stream(body).finalChatCompletion()).choices[0];
    messages.push(message);
    if (!message.tool_calls?.length) return answer({ text: message.content, calls, stop: finish_reason });
    for (const { id, function: inner } of message.tool_calls) {
      calls.push({ id, name: inner.name, arguments: parsed(inner.arguments) });
      messages.push({ role: "tool", tool_call_id: id, content: run(inner.name).text });
    }
  }
}

export async function responsesLoop(client) {
  const tools = TOOLS.map(({ name, description, schema }) => ({
    type: "function",
    name,
    description,
    parameters: schema,
    strict: false,
  }));
  const input = [{ role: "user", content: PROMPT }];
  const calls = [];
  for (;;) {
    const body = {
      model: MODEL,
      instructions: SYSTEM,
      input,
      tools,
      store: false,
      include: ["reasoning.encrypted_content"],
    };
    const response = await client.responses.stream(body).finalResponse();
    input.push(...response.output);
    const wanted = response.output.filter((item) => item.type === "function_call");
    if (!wanted.length) return answer({ text: response.output_text, calls, stop: response.status });
    for (const call of wanted) {
      calls.push({ id: call.call_id, name: call.name, arguments: parsed(call.arguments) });
      input.push({ type: "function_call_output", call_id: call.call_id, output: run(call.name).text });
    }
  }
}
