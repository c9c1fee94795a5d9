// The official OpenAI SDK: every way in which it parses an answer, each reduced to the same record.
import OpenAI from "openai";

import { MODEL, PROMPT, answer, parsed, serve } from "./serve.mjs";
import { ResponseFailed, chatAnswer, responsesAnswer } from "./openai_answers.mjs";
import { chatLoop, responsesLoop } from "./openai_loops.mjs";

const client = (base_url) => new OpenAI({ apiKey: "test", maxRetries: 0, baseURL: `${base_url}/v1` });
const chat = { model: MODEL, messages: [{ role: "user", content: PROMPT }] };
const responses = { model: MODEL, input: PROMPT };

async function chatChunks(stream) {
  const calls = [];
  const result = { text: "", thinking: "", stop: "" };
  let usage;
  for await (const chunk of stream) {
    usage = chunk.usage ?? usage;
    for (const { delta, finish_reason } of chunk.choices) {
      result.text += delta.content ?? "";
      result.thinking += delta.reasoning_content ?? "";
      result.stop = finish_reason ?? result.stop;
      for (const { index, id, function: inner } of delta.tool_calls ?? []) {
        calls[index] ??= { id, name: inner.name, arguments: "" };
        calls[index].arguments += inner.arguments ?? "";
      }
      if (delta.function_call) {
        calls[0] ??= { id: null, name: delta.function_call.name, arguments: "" };
        calls[0].arguments += delta.function_call.arguments ?? "";
      }
    }
  }
  return answer({
    ...result,
    calls: calls.map((call) => ({ ...call, arguments: parsed(call.arguments) })),
    input_tokens: usage.prompt_tokens,
    output_tokens: usage.completion_tokens,
    cached_tokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
  });
}

async function responsesEvents(stream) {
  for await (const event of stream) {
    if (["response.completed", "response.incomplete", "response.failed"].includes(event.type)) {
      return responsesAnswer(event.response);
    }
  }
  throw new Error("the stream ended without saying how");
}

const ways = {
  chat_create: async (url) => chatAnswer(await client(url).chat.completions.create(chat)),
  chat_stream: async (url) => chatAnswer(await client(url).chat.completions.stream(chat).finalChatCompletion()),
  chat_create_stream: async (url) => {
    const options = { ...chat, stream: true, stream_options: { include_usage: true } };
    return chatChunks(await client(url).chat.completions.create(options));
  },
  responses_create: async (url) => responsesAnswer(await client(url).responses.create(responses)),
  responses_stream: async (url) => responsesAnswer(await client(url).responses.stream(responses).finalResponse()),
  responses_create_stream: async (url) =>
    responsesEvents(await client(url).responses.create({ ...responses, stream: true })),
  chat_loop: (url) => chatLoop(client(url)),
  responses_loop: (url) => responsesLoop(client(url)),
};

await serve(ways, (error) => error instanceof OpenAI.OpenAIError || error instanceof ResponseFailed);
