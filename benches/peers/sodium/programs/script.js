// Objects, closures, arrays, strings, regular expressions and JSON. The last expression is the
// function that each pass calls.
let seed = 7;
const next = () => (seed = (seed * 1103515245 + 12345) % 2147483648);

class Shape {
  constructor(x, y) { this.x = x; this.y = y; }
  area() { return this.x * this.y; }
}
class Round extends Shape {
  area() { return super.area() * 0.75; }
}

function sieve(limit) {
  const composite = new Uint8Array(limit);
  let count = 0;
  for (let i = 2; i < limit; i++) {
    if (composite[i]) continue;
    count++;
    for (let j = i * 2; j < limit; j += i) composite[j] = 1;
  }
  return count;
}

function words() {
  const text = "the quick brown fox jumps over the lazy dog and the cat, which was 12 years old";
  const counts = new Map();
  for (const word of text.split(/[ ,]+/)) counts.set(word, (counts.get(word) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 3).join(";");
}

(function () {
  const shapes = Array.from({ length: 300 }, (_, i) => new (i % 2 ? Round : Shape)(next() % 100, i));
  const area = shapes.map((shape) => shape.area()).filter((area) => area > 50).reduce((a, b) => a + b, 0);
  const items = shapes.map((shape, i) => ({ id: i, name: `item ${i}`, place: { x: shape.x, y: shape.y } }));
  const parsed = JSON.parse(JSON.stringify(items));
  parsed.sort((a, b) => a.place.x - b.place.x || a.id - b.id);
  let hash = 0;
  for (const item of parsed) {
    for (let i = 0; i < item.name.length; i++) hash = (hash * 31 + item.name.charCodeAt(i)) | 0;
  }
  return `${sieve(3000)} ${area} ${hash} ${words()} ${parsed[0].name}`;
})
