// Tool loops whose every turn is told: each SDK in each manner, in one process. What to ask for, which tools there are and
// what these answer comes with the wish.
import { AnthropicError } from "@anthropic-ai/sdk";
import { ApiError } from "@google/genai";
import { OpenAIError } from "openai";

import * as anthropic from "./turns_anthropic.mjs";
import * as genai from "./turns_genai.mjs";
import * as openai from "./turns_openai.mjs";
import { serve } from "./serve.mjs";

const ways = Object.fromEntries(
  [openai, anthropic, genai].flatMap((ways) =>
    Object.entries(ways).map(([name, run]) => [name, async (url, wish) => run(url, wish)]),
  ),
);

await serve(ways, (error) => [OpenAIError, AnthropicError, ApiError].some((kind) => error instanceof kind));
