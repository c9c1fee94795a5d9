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

// A stream tells every turn; otherwise what the model said before its last word stands in the history alone.
export async function automatic(url, wish) {
  const tool = {
    tool: async () => declared(wish.tools),
    callTool: async (calls) => calls.map((call) => functionResponse(call, wish)),
  };
  const body = { model: wish.model, contents: wish.prompt, config: settings(wish, tool) };
  const { models } = client(url);
  const turns = wish.streams
    ? streamedTurns(await gathered(await models.generateContentStream(body)))
    : toldTurns(await models.generateContent(body));
  return Promise.all(turns.map(genaiAnswer));
}

const isModels = (chunk) => chunk.candidates?.[0]?.content?.role !== "user";

function streamedTurns(chunks) {
  const turns = [[]];
  for (const chunk of chunks.filter(isModels)) {
    turns.at(-1).push(chunk);
    if (chunk.candidates?.[0]?.finishReason) turns.push([]);
  }
  return turns.filter((turn) => turn.length);
}

function toldTurns(last) {
  const said = last.automaticFunctionCallingHistory.filter((content) => content.role === "model");
  const turns = said.map((content) => [{ candidates: [{ content, finishReason: "STOP" }], usageMetadata: {} }]);
  return [...turns, [last]];
}

const named = ({ name }) => name.replace(/^models\//, "");

export async function genai_models(url, { model }) {
  const ids = [];
  for await (const listed of await client(url).models.list()) ids.push(named(listed));
  return { ids, one: named(await client(url).models.get({ model })) };
}

export async function genai_count(url, { model, prompt }) {
  return (await client(url).models.countTokens({ model, contents: prompt })).totalTokens;
}
