// The Vercel AI SDK: its own tool loop, with each of its providers, in one piece and streamed.
import { AISDKError, generateText, isStepCount, jsonSchema, streamText, tool } from "ai";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogle } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";

import { SYSTEM, TOOLS, run } from "./tools.mjs";
import { MODEL, PROMPT, answer, serve } from "./serve.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false; // the model is not one that it knows

const MOST_STEPS = 8;
const PROVIDERS = {
  openai_chat: (url) => createOpenAI({ apiKey: "test", baseURL: `${url}/v1` }).chat(MODEL),
  openai_compatible: (url) =>
    createOpenAICompatible({ name: "toolglot", apiKey: "test", baseURL: `${url}/v1` }).chatModel(MODEL),
  openai_responses: (url) => createOpenAI({ apiKey: "test", baseURL: `${url}/v1` }).responses(MODEL),
  anthropic: (url) => createAnthropic({ apiKey: "test", baseURL: `${url}/v1` })(MODEL),
  google: (url) => createGoogle({ apiKey: "test", baseURL: `${url}/v1beta` })(MODEL),
};

const tools = Object.fromEntries(
  TOOLS.map(({ name, description, schema }) => {
    const execute = async () => {
      const { text, failed } = run(name);
      if (failed) throw new Error(text);
      return text;
    };
    return [name, tool({ description, inputSchema: jsonSchema(schema), execute })];
  }),
);

async function loopAnswer(result) {
  const calls = (await result.steps).flatMap((step) =>
    step.toolCalls.map(({ toolCallId, toolName, input }) => ({ id: toolCallId, name: toolName, arguments: input })),
  );
  return answer({ text: await result.text, calls, stop: await result.finishReason });
}

function settings(model, url) {
  const stopWhen = isStepCount(MOST_STEPS);
  return { model: model(url), instructions: SYSTEM, prompt: PROMPT, tools, stopWhen, maxRetries: 0 };
}

async function streamed(model, url) {
  let failure;
  const onError = ({ error }) => (failure = error);
  const result = streamText({ ...settings(model, url), onError });
  await result.consumeStream({ onError: (error) => (failure ??= error) });
  if (failure) throw failure;
  return loopAnswer(result);
}

const ways = Object.fromEntries(
  Object.entries(PROVIDERS).flatMap(([name, model]) => [
    [name, async (url) => loopAnswer(await generateText(settings(model, url)))],
    [`${name}_streamed`, (url) => streamed(model, url)],
  ]),
);

await serve(ways, (error) => AISDKError.isInstance(error));
