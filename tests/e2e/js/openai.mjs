// The official OpenAI SDK: every way in which it parses an answer, each reduced to the same record.
import OpenAI from "openai";

import { MODEL, PROMPT, answer, ensure, parsed, serve } from "./serve.mjs";
import { chatLoop, responsesLoop } from "./openai_loops.mjs";

const client = (base_url) => new OpenAI({ apiKey: "test", maxRetries: 0, baseURL: `${base_url}/v1` });
const chat = { model: MODEL, messages: [{ role: "user", content: PROMPT }] };
const responses = { model: MODEL, input: PROMPT };

// A response may be delivered well and say that it failed; an application looks at its status.
class ResponseFailed extends Error {}

function chatAnswer(completion) {
  const { message, finish_reason } = completion.choices[0];
  const { usage } = completion;
  const legacy = message.function_call ? [{ id: null, function: message.function_call }] : [];
  ensure(message.role === "assistant", "the role");
  return answer({
    text: message.content ?? "",
    thinking: message.reasoning_content ?? "",
    calls: (message.tool_calls ?? legacy).map((call) => ({
      id: call.id,
      name: call.function.name,
      arguments: parsed(call.function.arguments),
    })),
    stop: finish_reason,
    input_tokens: usage?.prompt_tokens,
    output_tokens: usage?.completion_tokens,
    cached_tokens: usage?.prompt_tokens_details?.cached_tokens ?? 0,
  });
}

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

function responsesAnswer(response) {
  const result = { text: "", thinking: "", calls: [] };
  for (const item of response.output) {
    if (item.type === "message") {
      result.text += item.content.map((part) => part.text ?? "").join("");
    } else if (item.type === "reasoning") {
      result.thinking += [...item.summary, ...(item.content ?? [])].map((part) => part.text).join("");
    } else if (item.type === "custom_tool_call") {
      result.calls.push({ id: item.call_id, name: item.name, arguments: item.input });
    } else {
      ensure(item.type === "function_call", `an item that nobody sent: ${item.type}`);
      const whole = item.status === "completed";
      result.calls.push({
        id: item.call_id,
        name: item.name,
        arguments: whole ? parsed(item.arguments) : item.arguments,
      });
    }
  }
  if (response.status === "failed") throw new ResponseFailed(response.error.message);
  const reason = response.incomplete_details?.reason;
  return answer({
    ...result,
    stop: reason ? `${response.status}:${reason}` : response.status,
    input_tokens: response.usage?.input_tokens,
    output_tokens: response.usage?.output_tokens,
    cached_tokens: response.usage?.input_tokens_details.cached_tokens ?? 0,
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
