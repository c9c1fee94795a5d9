// The official Google Gen AI SDK: every way in which it parses an answer, each reduced to the same record.
import { ApiError, GoogleGenAI } from "@google/genai";

import { MODEL, PROMPT, answer, serve } from "./serve.mjs";
import { genaiLoop } from "./genai_loops.mjs";

const client = (base_url) => new GoogleGenAI({ apiKey: "test", httpOptions: { baseUrl: base_url } });
const body = { model: MODEL, contents: PROMPT };

async function genaiAnswer(chunks) {
  const result = { text: "", thinking: "", calls: [], stop: "" };
  let usage;
  for await (const chunk of chunks) {
    usage = chunk.usageMetadata ?? usage;
    for (const candidate of chunk.candidates ?? []) {
      result.stop = candidate.finishReason ?? result.stop;
      for (const { text, thought, functionCall } of candidate.content?.parts ?? []) {
        if (text) result[thought ? "thinking" : "text"] += text;
        if (functionCall) {
          const { id, name, args } = functionCall;
          result.calls.push({ id: id ?? null, name: name ?? "", arguments: args ?? {} });
        }
      }
    }
  }
  return answer({
    ...result,
    input_tokens: usage.promptTokenCount ?? 0,
    output_tokens: (usage.candidatesTokenCount ?? 0) + (usage.thoughtsTokenCount ?? 0),
    cached_tokens: usage.cachedContentTokenCount ?? 0,
  });
}

const ways = {
  generate_content: async (url) => genaiAnswer([await client(url).models.generateContent(body)]),
  generate_content_stream: async (url) => genaiAnswer(await client(url).models.generateContentStream(body)),
  generate_content_loop: (url) => genaiLoop(client(url)),
};

await serve(ways, (error) => error instanceof ApiError);
