// Runs a WASI command under node, with as much of WASI as the guests use: node's own ends by SIGSEGV when a
// guest with hundreds of megabytes exits.
import { readFileSync, writeSync } from "node:fs";
import { argv, exit, hrtime } from "node:process";

const [badf, spipe, nosys] = [8, 70, 52];
const none = () => badf; // there are no files
let memory;
const view = () => new DataView(memory.buffer);
const passes = argv[3] === undefined ? [] : [`${argv[3]}\0`];
const args = ["guest\0", ...passes].map((text) => new TextEncoder().encode(text));
const wasi = {
  args_get: (to, texts) => {
    for (const text of args) {
      view().setUint32(to, texts, true);
      new Uint8Array(memory.buffer, texts, text.length).set(text);
      [to, texts] = [to + 4, texts + text.length];
    }
    return 0;
  },
  args_sizes_get: (count, bytes) => {
    view().setUint32(count, args.length, true);
    view().setUint32(bytes, args.reduce((sum, text) => sum + text.length, 0), true);
    return 0;
  },
  environ_get: () => 0,
  environ_sizes_get: (count, bytes) => (view().setUint32(count, 0, true), view().setUint32(bytes, 0, true), 0),
  clock_time_get: (_clock, _precision, to) => (view().setBigUint64(to, hrtime.bigint(), true), 0),
  clock_res_get: (_clock, to) => (view().setBigUint64(to, 1n, true), 0),
  fd_close: () => 0,
  fd_fdstat_get: (_fd, to) => {
    new Uint8Array(memory.buffer, to, 24).fill(0xff);
    view().setBigUint64(to, 2n, true); // a character device
    return 0;
  },
  fd_fdstat_set_flags: none,
  fd_prestat_dir_name: none,
  fd_prestat_get: none,
  fd_read: none,
  fd_renumber: none,
  fd_seek: () => spipe,
  fd_write: (fd, vectors, count, written) => {
    let all = 0;
    for (let i = 0; i < count; i++) {
      const [at, bytes] = [0, 4].map((part) => view().getUint32(vectors + 8 * i + part, true));
      const piece = new Uint8Array(memory.buffer, at, bytes);
      for (let done = 0; done < bytes; ) done += writeSync(fd, piece, done);
      all += bytes;
    }
    view().setUint32(written, all, true);
    return 0;
  },
  path_open: none,
  poll_oneoff: () => nosys,
  sched_yield: () => 0,
  proc_exit: (code) => exit(code),
  random_get: (to, bytes) => (crypto.getRandomValues(new Uint8Array(memory.buffer, to, bytes)), 0),
};
const module = new WebAssembly.Module(readFileSync(argv[2]));
const instance = new WebAssembly.Instance(module, { wasi_snapshot_preview1: wasi });
memory = instance.exports.memory;
instance.exports._start();
