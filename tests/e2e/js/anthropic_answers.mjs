// What the Anthropic SDK's parsed messages say, reduced to the same record.
import { answer, ensure } from "./serve.mjs";

export function tokens(usage) {
  const cached = usage.cache_read_input_tokens ?? 0;
  return {
    input_tokens: usage.input_tokens + cached + (usage.cache_creation_input_tokens ?? 0),
    output_tokens: usage.output_tokens,
    cached_tokens: cached,
  };
}

export function messageAnswer(message) {
  const result = { text: "", thinking: "", calls: [] };
  for (const block of message.content) {
    if (block.type === "text") result.text += block.text;
    else if (block.type === "thinking") result.thinking += block.thinking;
    else if (block.type === "tool_use") {
      result.calls.push({ id: block.id, name: block.name, arguments: block.input });
    } else ensure(block.type === "redacted_thinking", `a block that nobody sent: ${block.type}`);
  }
  return answer({ ...result, stop: message.stop_reason, ...tokens(message.usage) });
}
