// The Google Gen AI SDK: a chat whose calls the application runs, and requests whose calls the SDK runs by itself.
import { GoogleGenAI } from "@google/genai";

import { genaiAnswer } from "./genai_answers.mjs";
import { SYSTEM } from "./tools.mjs";

const client = (base_url) => new GoogleGenAI({ apiKey: "test", httpOptions: { baseUrl: base_url } });

const declared = (tools) => ({
  functionDeclarations: tools.map(({ name, description, schema }) => ({
    name,
    description,
    parametersJsonSchema: schema,
  })),
});

const settings = ({ budget }, tool) => ({
  systemInstruction: SYSTEM,
  tools: [tool],
  thinkingConfig: { includeThoughts: true, thinkingBudget: budget },
});

function functionResponse({ id, name }, { outcomes, picture }) {
  const { text, failed, picture: shows } = outcomes[name];
  const parts = [{ inlineData: { mimeType: picture.type, data: picture.data } }];
  const response = failed ? { error: text } : { output: text };
  return { functionResponse: { ...(id ? { id } : {}), name, response, ...(shows ? { parts } : {}) } };
}

async function gathered(chunks) {
  const all = [];
  for await (const chunk of chunks) all.push(chunk);
  return all;
}

export async function chats(url, wish) {
  const chat = client(url).chats.create({ model: wish.model, config: settings(wish, declared(wish.tools)) });
  const answers = [];
  let message = wish.prompt;
  for (;;) {
    const chunks = wish.streams
      ? await gathered(await chat.sendMessageStream({ message }))
      : [await chat.sendMessage({ message })];
    answers.push(await genaiAnswer(chunks));
    const calls = chunks.flatMap((chunk) => chunk.functionCalls ?? []);
    if (!calls.length) return answers;
    message = calls.map((call) => functionResponse(call, wish));
  }
}

// What the model said before its last word stands in the history alone.
export async function automatic(url, wish) {
  const tool = {
    tool: async () => declared(wish.tools),
    callTool: async (calls) => calls.map((call) => functionResponse(call, wish)),
  };
  const body = { model: wish.model, contents: wish.prompt, config: settings(wish, tool) };
  const { models } = client(url);
  const chunks = wish.streams
    ? await gathered(await models.generateContentStream(body))
    : [await models.generateContent(body)];
  const turns = [[]];
  for (const content of chunks.at(-1).automaticFunctionCallingHistory.slice(1)) {
    if (content.role === "model") turns.at(-1).push(content);
    else turns.push([]);
  }
  const answers = turns.slice(0, -1).map((contents) => {
    const parts = contents.flatMap((content) => content.parts);
    return genaiAnswer([{ candidates: [{ content: { parts }, finishReason: "STOP" }], usageMetadata: {} }]);
  });
  const last = chunks.slice(chunks.findLastIndex((chunk) => chunk.functionCalls?.length) + 1);
  return Promise.all([...answers, genaiAnswer(last)]);
}
