// What the Google Gen AI SDK's parsed chunks say, reduced to the same record.
import { answer } from "./serve.mjs";

export async function genaiAnswer(chunks) {
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
