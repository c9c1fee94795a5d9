// The OpenAI SDK: both of its APIs, with the history sent by the application, by its own loop, or kept by the server.
import OpenAI from "openai";

import { chatAnswer, responsesAnswer } from "./openai_answers.mjs";
import { ensure } from "./serve.mjs";
import { SYSTEM } from "./tools.mjs";

const client = (base_url) => new OpenAI({ apiKey: "test", maxRetries: 0, baseURL: `${base_url}/v1` });
const pictureUrl = ({ type, data }) => `data:${type};base64,${data}`;

const declared = (tools) =>
  tools.map(({ name, description, schema }) => ({
    type: "function",
    function: { name, description, parameters: schema },
  }));

// A tool message holds text alone, so a picture follows in a message of the user.
export async function chat(url, { model, prompt, tools, outcomes, picture, streams }) {
  const { completions } = client(url).chat;
  const messages = [
    { role: "system", content: SYSTEM },
    { role: "user", content: prompt },
  ];
  const body = { model, messages, tools: declared(tools), reasoning_effort: "low" };
  const answers = [];
  for (;;) {
    const completion = streams
      ? await completions.stream({ ...body, stream_options: { include_usage: true } }).finalChatCompletion()
      : await completions.create(body);
    answers.push(chatAnswer(completion));
    const { message } = completion.choices[0];
    messages.push(message);
    if (!message.tool_calls?.length) return answers;
    const pictures = [];
    for (const { id, function: inner } of message.tool_calls) {
      messages.push({ role: "tool", tool_call_id: id, content: outcomes[inner.name].text });
      if (outcomes[inner.name].picture) {
        pictures.push({ type: "image_url", image_url: { url: pictureUrl(picture) } });
      }
    }
    if (pictures.length) messages.push({ role: "user", content: pictures });
  }
}

// The deprecated `functions`: one call at a time, and no ids.
export async function functions(url, { model, prompt, tools, outcomes, streams }) {
  const { completions } = client(url).chat;
  const messages = [{ role: "user", content: prompt }];
  const body = { model, messages, functions: declared(tools).map((tool) => tool.function) };
  const answers = [];
  for (;;) {
    const completion = streams
      ? await completions.stream({ ...body, stream_options: { include_usage: true } }).finalChatCompletion()
      : await completions.create(body);
    answers.push(chatAnswer(completion));
    const { message } = completion.choices[0];
    messages.push(message);
    ensure(!message.tool_calls, "calls in the deprecated form alone");
    if (!message.function_call) return answers;
    const { name } = message.function_call;
    messages.push({ role: "function", name, content: outcomes[name].text });
  }
}

// The SDK's own loop. A function that throws would end it, so what failed is told as text.
export async function run_tools(url, { model, prompt, tools, outcomes, streams }) {
  const runnable = declared(tools).map((tool) => {
    const call = () => outcomes[tool.function.name].text;
    return { ...tool, function: { ...tool.function, parse: (text) => JSON.parse(text || "{}"), function: call } };
  });
  const messages = [
    { role: "system", content: SYSTEM },
    { role: "user", content: prompt },
  ];
  const options = streams ? { stream: true, stream_options: { include_usage: true } } : {};
  const body = { model, messages, tools: runnable, reasoning_effort: "low", ...options };
  const runner = client(url).chat.completions.runTools(body);
  const answers = [];
  runner.on("chatCompletion", (completion) => answers.push(chatAnswer(completion)));
  await runner.done();
  return answers;
}

const responsesTools = (tools) =>
  tools.map(({ name, description, schema }) => ({
    type: "function",
    name,
    description,
    parameters: schema,
    strict: false,
  }));

const response = (url, streams, body) => {
  const { responses } = client(url);
  return streams ? responses.stream(body).finalResponse() : responses.create(body);
};

const outputs = (items, { outcomes, picture }) =>
  items
    .filter((item) => item.type === "function_call")
    .map(({ call_id, name }) => {
      const { text, picture: shows } = outcomes[name];
      const parts = [
        { type: "input_text", text },
        { type: "input_image", image_url: pictureUrl(picture) },
      ];
      return { type: "function_call_output", call_id, output: shows ? parts : text };
    });

export async function responses(url, wish) {
  const input = [{ role: "user", content: wish.prompt }];
  const body = {
    model: wish.model,
    instructions: SYSTEM,
    input,
    tools: responsesTools(wish.tools),
    store: false,
    include: ["reasoning.encrypted_content"],
    reasoning: { effort: "low", summary: "auto" },
  };
  const answers = [];
  for (;;) {
    const said = await response(url, wish.streams, body);
    answers.push(responsesAnswer(said));
    const results = outputs(said.output, wish);
    if (!results.length) return answers;
    input.push(...said.output, ...results);
  }
}

// Each request holds what is new; the server knows the rest.
export async function responses_from_previous(url, wish) {
  let body = {
    model: wish.model,
    instructions: SYSTEM,
    input: wish.prompt,
    tools: responsesTools(wish.tools),
    reasoning: { effort: "low", summary: "auto" },
  };
  const answers = [];
  for (;;) {
    const said = await response(url, wish.streams, body);
    answers.push(responsesAnswer(said));
    ensure(said.previous_response_id === (body.previous_response_id ?? null), "the response names the previous one");
    const results = outputs(said.output, wish);
    if (!results.length) return answers;
    body = { ...body, input: results, previous_response_id: said.id };
  }
}

export async function openai_models(url, { model }) {
  const ids = [];
  for await (const { id } of client(url).models.list()) ids.push(id);
  return { ids, one: (await client(url).models.retrieve(model)).id };
}

export async function responses_count(url, { model, prompt, tools }) {
  const body = { model, input: prompt, tools: responsesTools(tools) };
  return (await client(url).responses.inputTokens.count(body)).input_tokens;
}
