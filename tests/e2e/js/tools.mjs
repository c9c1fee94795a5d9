// The tools of the loops: what they are called, what they take, and what they answer. One of them always fails.
const weather = {
  type: "object",
  properties: {
    city: { type: "string" },
    days: { type: "integer", minimum: 1 },
    units: { type: "object", properties: { wind: { type: "string", enum: ["km/h", "m/s"] } } },
    hours: { type: "array", items: { type: "number" } },
  },
  required: ["city"],
};
const time = { type: "object", properties: { timezone: { type: "string" } }, required: ["timezone"] };

export const TOOLS = [
  { name: "refresh", description: "Refresh the data.", schema: { type: "object", properties: {} } },
  { name: "get_weather", description: "The weather of a city.", schema: weather },
  { name: "get_time", description: "The time in a zone.", schema: time },
];
export const SYSTEM = "You answer questions about places.";

const RESULTS = {
  refresh: { text: "refreshed", failed: false },
  get_weather: { text: "17 °C, rain ☂", failed: false },
  get_time: { text: "the clock is broken", failed: true },
};

export const run = (name) => RESULTS[name];
