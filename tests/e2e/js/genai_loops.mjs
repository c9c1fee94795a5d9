// A tool loop with the Google Gen AI SDK, streamed, with the SDK's own chat keeping the history.
import { SYSTEM, TOOLS, run } from "./tools.mjs";
import { MODEL, PROMPT, answer } from "./serve.mjs";

export async function genaiLoop(client) {
  const functionDeclarations = TOOLS.map(({ name, description, schema }) => ({
    name,
    description,
    parametersJsonSchema: schema,
  }));
  const config = { systemInstruction: SYSTEM, tools: [{ functionDeclarations }] };
  const chat = client.chats.create({ model: MODEL, config });
  const calls = [];
  let message = PROMPT;
  for (;;) {
    const wanted = [];
    let text = "";
    let stop = "";
    for await (const chunk of await chat.sendMessageStream({ message })) {
      const candidate = chunk.candidates?.[0];
      stop = candidate?.finishReason ?? stop;
      for (const part of candidate?.content?.parts ?? []) {
        if (part.functionCall) wanted.push(part.functionCall);
        else if (!part.thought) text += part.text ?? "";
      }
    }
    if (!wanted.length) return answer({ text, calls, stop });
    message = wanted.map(({ id, name, args }) => {
      calls.push({ id: id ?? null, name, arguments: args ?? {} });
      const result = run(name);
      const response = result.failed ? { error: result.text } : { output: result.text };
      return { functionResponse: { ...(id ? { id } : {}), name, response } };
    });
  }
}
