// What is chosen: one time for everything, filters, a put, a chain. It stands behind the # of the URL.

const START = { from: WHOLE[0], to: WHOLE[1], ioc: -1, writer: -1, kind: "", query: "", put: -1, chain: 0 };
const KINDS = [["", "All puts"], ["people", "Without scripts"], ["otherwise", "Clamped"], ["denied", "Denied, failed"],
  ["unknown", "Outcome unknown"]];
let state = { ...START };
const past = [];
const views = [];
let planned = false;

function setRange(from, to) {
  const least = Math.min(0.01, WHOLE[1] - WHOLE[0]);
  if (to < from) [from, to] = [to, from];
  if (to - from < least) to = from + least;
  const span = Math.min(to - from, WHOLE[1] - WHOLE[0]);
  from = Math.max(WHOLE[0], Math.min(from, WHOLE[1] - span));
  return { from, to: from + span };
}

const isWhole = () => state.from <= WHOLE[0] && state.to >= WHOLE[1];

// Changes what is chosen. `quiet`: it belongs to a movement that has been noted already.
function choose(change, quiet) {
  const next = { ...state, ...change };
  if ("from" in change) Object.assign(next, setRange(next.from, next.to));
  if (Object.keys(next).every((key) => next[key] === state[key])) return;
  if (!quiet) remember();
  state = next;
  plan();
}

function remember() {
  past.push(state);
  if (past.length > 100) past.shift();
}

function back() {
  const before = past.pop();
  if (before) {
    state = before;
    plan();
  }
}

function plan() {
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => {
    planned = false;
    draw();
  });
}

function draw() {
  history.replaceState(null, "", "#" + toHash(state));
  for (const view of views) view();
}

function toHash(s) {
  const parts = [];
  if (s.from > WHOLE[0] || s.to < WHOLE[1]) parts.push(`t=${+s.from.toFixed(3)},${+s.to.toFixed(3)}`);
  if (s.ioc >= 0) parts.push(`ioc=${s.ioc}`);
  if (s.writer >= 0) parts.push(`user=${s.writer}`);
  if (s.kind) parts.push(`kind=${s.kind}`);
  if (s.query) parts.push(`q=${encodeURIComponent(s.query)}`);
  if (s.put >= 0) parts.push(`put=${s.put}`);
  if (s.chain) parts.push(`chain=${s.chain}`);
  return parts.join("&");
}

// What the text behind a # chooses, and the section that it leads to. Unknown and wrong parts are left out.
function fromHash(hash) {
  const change = {};
  let section = "";
  for (const part of hash.replace(/^#/, "").split("&")) {
    const at = part.indexOf("=");
    const name = at < 0 ? part : part.slice(0, at);
    let value = at < 0 ? "" : part.slice(at + 1);
    const number = Number(value);
    const whole = value !== "" && Number.isInteger(number);
    if (name === "t") {
      const [from, to] = value.split(",").map(Number);
      if (Number.isFinite(from) && Number.isFinite(to)) Object.assign(change, setRange(from, to));
    } else if (name === "ioc" && whole && number < iocs.length) change.ioc = Math.max(-1, number);
    else if (name === "user" && whole && number < D.writers.length) change.writer = Math.max(-1, number);
    else if (name === "kind" && KINDS.some(([kind]) => kind === value)) change.kind = value;
    else if (name === "put" && whole && number < puts.length) change.put = Math.max(-1, number);
    else if (name === "chain" && whole) change.chain = Math.max(0, number);
    else if (name === "at") section = value;
    else if (name === "q") {
      try {
        value = decodeURIComponent(value);
      } catch {
        value = "";
      }
      change.query = value;
    } else if (at < 0) section = name;
  }
  return { change, section };
}

// Whether a put is chosen by time and filters.
function putChosen(put) {
  if (put.time < state.from || put.time > state.to) return false;
  return putFits(put);
}

function putFits(put) {
  if (state.ioc >= 0 && put.ioc !== state.ioc) return false;
  if (state.writer >= 0 && put.writer !== state.writer) return false;
  if (state.kind === "people" && folded.has(seriesOf(put))) return false;
  if (state.kind === "otherwise" && !put.otherwise) return false;
  if (state.kind === "denied" && !put.refused) return false;
  if (state.kind === "unknown" && !(put.flags & UNKNOWN)) return false;
  return matches(put.pv, recordName(put.record), writerName(put.writer), put.from);
}

function alarmFits(alarm) {
  if (state.ioc >= 0 && iocOfRecord(alarm.record) !== state.ioc) return false;
  const cause = alarm.cause;
  return matches(recordName(alarm.record), cause ? cause.what : "", cause ? cause.who : "");
}

// Whether one of the texts has what is searched for; * and ? stand for letters.
function matches(...texts) {
  if (!state.query) return true;
  if (matches.query !== state.query) {
    const escaped = state.query.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".");
    matches.query = state.query;
    matches.pattern = new RegExp(escaped, "i");
  }
  return texts.some((text) => matches.pattern.test(text));
}

// Series of scripts: one writer's puts to one PV that are 12 % of all puts or more, if they are many.
const FOLD_SHARE = 0.12, FOLD_LEAST = 12;
const seriesOf = (put) => `${put.writer} ${put.pv}`;
const folded = (() => {
  const sums = new Map();
  for (const put of puts) sums.set(seriesOf(put), (sums.get(seriesOf(put)) || 0) + 1);
  return new Set([...sums].filter(([, n]) => n >= FOLD_LEAST && n >= FOLD_SHARE * puts.length).map(([key]) => key));
})();

const isChosenTime = (time) => time >= state.from && time <= state.to;
