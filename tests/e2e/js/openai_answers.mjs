// What the OpenAI SDK's parsed answers say, reduced to the same record.
import { answer, ensure, parsed } from "./serve.mjs";

// A response may be delivered well and say that it failed; an application looks at its status.
export class ResponseFailed extends Error {}

export function chatAnswer(completion) {
  const { message, finish_reason } = completion.choices[0];
  const { usage } = completion;
  const legacy = message.function_call ? [{ id: null, function: message.function_call }] : [];
  ensure(message.role === "assistant", "the role");
  return answer({
    text: message.content ?? "",
    thinking: message.reasoning_content ?? "",
    calls: (message.tool_calls ?? legacy).map((call) => ({
      id: call.id,
      name: call.function.name,
      arguments: parsed(call.function.arguments),
    })),
    stop: finish_reason,
    input_tokens: usage?.prompt_tokens,
    output_tokens: usage?.completion_tokens,
    cached_tokens: usage?.prompt_tokens_details?.cached_tokens ?? 0,
  });
}

export function responsesAnswer(response) {
  const result = { text: "", thinking: "", calls: [] };
  for (const item of response.output) {
    if (item.type === "message") {
      result.text += item.content.map((part) => part.text ?? "").join("");
    } else if (item.type === "reasoning") {
      result.thinking += [...item.summary, ...(item.content ?? [])].map((part) => part.text).join("");
    } else if (item.type === "custom_tool_call") {
      result.calls.push({ id: item.call_id, name: item.name, arguments: item.input });
    } else {
      ensure(item.type === "function_call", `an item that nobody sent: ${item.type}`);
      const whole = item.status === "completed";
      result.calls.push({
        id: item.call_id,
        name: item.name,
        arguments: whole ? parsed(item.arguments) : item.arguments,
      });
    }
  }
  if (response.status === "failed") throw new ResponseFailed(response.error.message);
  const reason = response.incomplete_details?.reason;
  return answer({
    ...result,
    stop: reason ? `${response.status}:${reason}` : response.status,
    input_tokens: response.usage?.input_tokens,
    output_tokens: response.usage?.output_tokens,
    cached_tokens: response.usage?.input_tokens_details.cached_tokens ?? 0,
  });
}
