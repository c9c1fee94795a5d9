// The loop that every runner shares: one JSON line in ({way, base_url, …}), one JSON line out ({answer} or {failure}).
import { createInterface } from "node:readline";

export const MODEL = "some-model";
export const PROMPT = "What is the weather in Zürich, and what time is it there?";

export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

export function answer(fields) {
  const nothing = { text: "", thinking: "", calls: [], stop: "", input_tokens: 0, output_tokens: 0, cached_tokens: 0 };
  return { ...nothing, ...fields };
}

export function ensure(condition, complaint) {
  if (!condition) throw new Error(`not as promised: ${complaint}`);
}

// `isSdkError` tells the SDK's own errors from accidents; an accident fails the test.
export async function serve(ways, isSdkError) {
  for await (const line of createInterface({ input: process.stdin })) {
    const { way, base_url, ...wish } = JSON.parse(line);
    let result;
    try {
      result = { answer: await ways[way](base_url, wish) };
    } catch (error) {
      const { status, message } = error;
      const retry_after = error.headers?.get?.("retry-after") ?? null;
      const failure = { name: error.constructor.name, status: status ?? null, message: String(message), retry_after };
      // Node's own error of a connection that breaks inside a body, which the SDKs let through.
      const brokeOff = error instanceof TypeError && message === "terminated";
      result = isSdkError(error) || brokeOff ? { failure } : { accident: String(error.stack) };
    }
    process.stdout.write(JSON.stringify(result) + "\n");
  }
}
