// Answers HTTP requests by path. ../README.md lists the paths.

let kept = 0;

const text = (body, init) =>
  new Response(body, { ...init, headers: { "content-type": "text/plain" } });

/** The fields of a request, sorted, one a line. */
const headers = (request) =>
  [...request.headers].map(([name, value]) => `${name}: ${value}\n`).sort().join("");

async function count(body) {
  let bytes = 0;
  const reader = body?.getReader();
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true };
    if (done) return bytes;
    bytes += value.length;
  }
}

/** A stream of `bytes` bytes, in pieces. */
function big(bytes) {
  const piece = new Uint8Array(16384).fill(0x78);
  return new ReadableStream({
    pull(controller) {
      if (bytes === 0) return controller.close();
      const next = Math.min(bytes, piece.length);
      bytes -= next;
      controller.enqueue(piece.slice(0, next));
    },
  });
}

async function call(url) {
  let answer;
  try {
    answer = await fetch(url);
  } catch {
    return text("no answer\n", { status: 502 });
  }
  return text(answer.body, { status: answer.status });
}

async function answer(request) {
  const url = new URL(request.url);
  switch (url.pathname) {
    case "/hello":
      return text("hello from JavaScript\n");
    case "/echo":
      return new Response(request.body, {
        headers: { "x-method": request.method, "x-path": url.pathname + url.search },
      });
    case "/headers":
      return text(headers(request));
    case "/count":
      return text(`${await count(request.body)}\n`);
    case "/call":
      return call(url.searchParams.get("url"));
    case "/keep":
      return text(`${++kept}\n`);
    case "/fail":
      throw new Error("asked to fail");
    case "/slow":
      await new Promise((resolve) => setTimeout(resolve, 50));
      return text("slept\n");
    case "/big":
      return new Response(big(Number(url.searchParams.get("n"))));
    case "/trailers":
      return text("no trailers here\n", { status: 501 });
    default:
      return text("not found\n", { status: 404 });
  }
}

addEventListener("fetch", (event) => {
  // Without a call of `respondWith` there is no answer.
  if (new URL(event.request.url).pathname !== "/never") event.respondWith(answer(event.request));
});
