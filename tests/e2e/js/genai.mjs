// The official Google Gen AI SDK: every way in which it parses an answer, each reduced to the same record.
import { ApiError, GoogleGenAI } from "@google/genai";

import { MODEL, PROMPT, serve } from "./serve.mjs";
import { genaiAnswer } from "./genai_answers.mjs";
import { genaiLoop } from "./genai_loops.mjs";

const client = (base_url) => new GoogleGenAI({ apiKey: "test", httpOptions: { baseUrl: base_url } });
const body = { model: MODEL, contents: PROMPT };

const ways = {
  generate_content: async (url) => genaiAnswer([await client(url).models.generateContent(body)]),
  generate_content_stream: async (url) => genaiAnswer(await client(url).models.generateContentStream(body)),
  generate_content_loop: (url) => genaiLoop(client(url)),
};

await serve(ways, (error) => error instanceof ApiError);
