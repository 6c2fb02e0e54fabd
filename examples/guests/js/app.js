// A small web program: a table that is made once, and a function that answers each request.
const prices = new Map();
for (let i = 0; i < 1000; i++) prices.set(`item-${i}`, 100 + (i * i) % 9973);
let requests = 0;

function handle(variables, body) {
  requests++;
  const item = new URLSearchParamsLite(variables.QUERY_STRING).get("item") ?? "item-0";
  const answer = { item, cents: prices.get(item) ?? null, bytes: body.length, requests };
  const status = prices.has(item) ? 200 : 404;
  return `Status: ${status}\nContent-Type: application/json\n\n${JSON.stringify(answer)}\n`;
}

// The part of URLSearchParams that is used here.
class URLSearchParamsLite {
  constructor(text) {
    const pairs = (text ?? "").split("&").map((pair) => pair.split("="));
    this.map = new Map(pairs.map(([name, value]) => [name, decodeURIComponent(value ?? "")]));
  }
  get(name) { return this.map.get(name); }
}
