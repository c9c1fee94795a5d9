// A tool loop with the Anthropic SDK, streamed: ask, run the calls, send the results, until there are no more calls.
import { SYSTEM, TOOLS, run } from "./tools.mjs";
import { MODEL, PROMPT, answer } from "./serve.mjs";

export async function messagesLoop(client) {
  const tools = TOOLS.map(({ name, description, schema }) => ({ name, description, input_schema: schema }));
  const messages = [{ role: "user", content: PROMPT }];
  const calls = [];
  for (;;) {
    const body = { model: MODEL, max_tokens: 4096, system: SYSTEM, messages, tools };
    const message = await client.messages.stream(body).finalMessage();
    messages.push({ role: "assistant", content: message.content });
    const wanted = message.content.filter((block) => block.type === "tool_use");
    if (!wanted.length) {
      const text = message.content.map((block) => block.text ?? "").join("");
      return answer({ text, calls, stop: message.stop_reason });
    }
    const content = wanted.map(({ id, name, input }) => {
      calls.push({ id, name, arguments: input });
      const { text, failed } = run(name);
      return { type: "tool_result", tool_use_id: id, content: text, ...(failed ? { is_error: true } : {}) };
    });
    messages.push({ role: "user", content });
  }
}
