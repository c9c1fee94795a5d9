// The official Anthropic SDK: every way in which it parses an answer, each reduced to the same record.
import Anthropic, { AnthropicError } from "@anthropic-ai/sdk";

import { MODEL, PROMPT, answer, ensure, parsed, serve } from "./serve.mjs";
import { messageAnswer, tokens } from "./anthropic_answers.mjs";
import { messagesLoop } from "./anthropic_loops.mjs";

const client = (base_url) => new Anthropic({ apiKey: "test", maxRetries: 0, baseURL: base_url });
const body = { model: MODEL, max_tokens: 1024, messages: [{ role: "user", content: PROMPT }] };

async function messageEvents(stream) {
  const result = { text: "", thinking: "", stop: "" };
  const calls = [];
  let opened = null;
  let ended = false;
  for await (const event of stream) {
    if (event.type === "content_block_start") {
      ensure(opened === null, "one block is open at a time");
      opened = event.index;
      const block = event.content_block;
      if (block.type === "tool_use") calls.push({ id: block.id, name: block.name, arguments: "" });
    } else if (event.type === "content_block_delta") {
      ensure(opened === event.index, "a delta belongs to the open block");
      result.text += event.delta.text ?? "";
      result.thinking += event.delta.thinking ?? "";
      if (event.delta.type === "input_json_delta") calls.at(-1).arguments += event.delta.partial_json;
    } else if (event.type === "content_block_stop") opened = null;
    else if (event.type === "message_delta") {
      result.stop = event.delta.stop_reason;
      Object.assign(result, tokens(event.usage));
    } else if (event.type === "message_stop") ended = true;
  }
  ensure(ended, "the stream ends with message_stop");
  return answer({ ...result, calls: calls.map((call) => ({ ...call, arguments: parsed(call.arguments || "{}") })) });
}

const ways = {
  messages_create: async (url) => messageAnswer(await client(url).messages.create(body)),
  messages_stream: async (url) => messageAnswer(await client(url).messages.stream(body).finalMessage()),
  messages_create_stream: async (url) => messageEvents(await client(url).messages.create({ ...body, stream: true })),
  messages_loop: (url) => messagesLoop(client(url)),
};

await serve(ways, (error) => error instanceof AnthropicError);
