// Answers each request with `hello`, by the functions of wasi:http. An instance can answer many
// requests; with the engine's `fetch` events it could answer only one.

import { Fields, OutgoingBody, OutgoingResponse, ResponseOutparam } from "wasi:http/types@0.2.3";

const hello = new TextEncoder().encode("hello");

export const incomingHandler = {
  handle(request, responseOut) {
    // Handles that are not dropped here would wait for the garbage collector.
    request[Symbol.dispose]();
    const response = new OutgoingResponse(new Fields());
    const body = response.body();
    ResponseOutparam.set(responseOut, { tag: "ok", val: response });
    const stream = body.write();
    stream.blockingWriteAndFlush(hello);
    stream[Symbol.dispose]();
    OutgoingBody.finish(body, undefined);
  },
};
