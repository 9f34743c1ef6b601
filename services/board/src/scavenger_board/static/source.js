// Where pictures come from: questions and the stream of changes, with a token where one is asked for.

let token = "";

export class Refused extends Error {
  constructor(status, error, remedy) {
    super(error);
    this.status = status;
    this.remedy = remedy;
  }
}

export function useToken(text) {
  token = text.trim();
}

async function ask(path, signal) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { headers, signal, cache: "no-store" });
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, said.error ?? answer.statusText, said.remedy ?? "");
}

export async function get(path) {
  return (await ask(path)).json();
}

const TABLES = { nodes: "name", queues: "name", jobs: "key", timeline: "id", services: "name", pools: "name" };

// The picture that comes of an older one and what has changed; the older one stays as it is.
export function merged(old, message) {
  if (message.whole) return message.whole;
  const picture = { ...old, time: message.time };
  for (const [name, change] of Object.entries(message.changed)) {
    if (!(name in TABLES)) {
      picture[name] = change;
      continue;
    }
    const key = TABLES[name];
    const news = new Map((change.rows ?? []).map((row) => [row[key], row]));
    if (!change.order) {
      picture[name] = old[name].map((row) => news.get(row[key]) ?? row);
      continue;
    }
    const known = new Map(old[name].map((row) => [row[key], row]));
    picture[name] = change.order.map((one) => news.get(one) ?? known.get(one));
  }
  return picture;
}

// Follows the stream until `signal` says so, and comes back to it after each loss. A fetch, not an EventSource, which
// cannot send a token.
export async function follow(on, signal) {
  let wait = 500;
  while (!signal.aborted) {
    try {
      const answer = await ask("/api/stream", signal);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let picture = null;
      let pieces = [];
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        pieces.push(value);
        if (!value.endsWith("\n") && !value.includes("\n\n")) continue; // a whole picture comes in hundreds of pieces
        const parts = pieces.join("").split("\n\n");
        pieces = [parts.pop()];
        for (const part of parts) {
          const lines = Object.fromEntries(part.split("\n").map((line) => [line.slice(0, line.indexOf(": ")), line.slice(line.indexOf(": ") + 2)]));
          const began = performance.now();
          const message = JSON.parse(lines.data);
          on.heard(message.time ?? message.whole.time);
          if (lines.event === "picture") {
            on.picture((picture = merged(picture, message)), "whole" in message);
            performance.clearMeasures("drawn");
            performance.measure("drawn", { start: began }); // `make bench ONLY=board` reads it
          }
          wait = 500;
        }
      }
      on.lost("the stream ended");
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused && (error.status === 401 || error.status === 403)) return on.refused(error);
      on.lost(error.message);
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(10000, 2 * wait);
  }
}
