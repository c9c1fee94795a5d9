// The Anthropic SDK: messages in one piece and streamed, and its own tool runner, which keeps a thread.
import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import { ToolError } from "@anthropic-ai/sdk/lib/tools/ToolError";

import { messageAnswer } from "./anthropic_answers.mjs";
import { SYSTEM } from "./tools.mjs";

const client = (base_url) => new Anthropic({ apiKey: "test", maxRetries: 0, baseURL: base_url });

const settings = ({ model, budget }) => ({
  model,
  max_tokens: 4096,
  system: SYSTEM,
  thinking: { type: "enabled", budget_tokens: budget },
});

function content({ text, picture: shows }, { type, data }) {
  if (!shows) return text;
  return [
    { type: "text", text },
    { type: "image", source: { type: "base64", media_type: type, data } },
  ];
}

export async function messages(url, wish) {
  const { messages } = client(url);
  const history = [{ role: "user", content: wish.prompt }];
  const tools = wish.tools.map(({ name, description, schema }) => ({ name, description, input_schema: schema }));
  const body = { ...settings(wish), messages: history, tools };
  const answers = [];
  for (;;) {
    const message = wish.streams ? await messages.stream(body).finalMessage() : await messages.create(body);
    answers.push(messageAnswer(message));
    const results = message.content
      .filter((block) => block.type === "tool_use")
      .map(({ id, name }) => ({
        type: "tool_result",
        tool_use_id: id,
        content: content(wish.outcomes[name], wish.picture),
        is_error: wish.outcomes[name].failed,
      }));
    if (!results.length) return answers;
    history.push({ role: "assistant", content: message.content }, { role: "user", content: results });
  }
}

export async function tool_runner(url, wish) {
  const tools = wish.tools.map(({ name, description, schema }) => {
    const run = () => {
      const said = content(wish.outcomes[name], wish.picture);
      if (wish.outcomes[name].failed) throw new ToolError(said);
      return said;
    };
    return betaTool({ name, description, inputSchema: schema, run });
  });
  const asked = [{ role: "user", content: wish.prompt }];
  const body = { ...settings(wish), messages: asked, tools, stream: wish.streams };
  const answers = [];
  for await (const turn of client(url).beta.messages.toolRunner(body)) {
    answers.push(messageAnswer(wish.streams ? await turn.finalMessage() : turn));
  }
  return answers;
}

export async function anthropic_models(url, { model }) {
  const ids = [];
  for await (const { id } of client(url).models.list()) ids.push(id);
  return { ids, one: (await client(url).models.retrieve(model)).id };
}

export async function messages_count(url, { model, prompt, tools }) {
  const messages = [{ role: "user", content: prompt }];
  const offered = tools.map(({ name, description, schema }) => ({ name, description, input_schema: schema }));
  return (await client(url).messages.countTokens({ model, messages, tools: offered })).input_tokens;
}
