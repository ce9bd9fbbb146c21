// The data of the page, and what follows from it. Texts from the log reach the page through textContent only.

const D = JSON.parse(document.getElementById("data").textContent);
const S = D.strings;
// Of a page that is limited to some PVs or users: what its totals are of.
const OF_ALL = D.chosen ? "of those asked for" : "in the log";
const DENIED = 1, FAILED = 2, OTHERWISE = 4, INEXACT = 8, WIRE_ONLY = 16, UNKNOWN = 32, ACKNOWLEDGES = 64,
  OLD_KNOWN = 128, NEW_KNOWN = 256, NOT_WRITTEN = 512;
const SEVERITIES = ["OK", "MINOR", "MAJOR", "INVALID"];
const $ = (id) => document.getElementById(id);

// An element with attributes and children; a string becomes text.
function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  for (const child of children.flat(9)) {
    if (child !== null && child !== undefined && child !== "") made.append(child);
  }
  return made;
}

// Counts over time: start, width in ms, and the counts. A negative number stands for so many zeros.
function bins(packed) {
  if (!packed) return null;
  const counts = [];
  for (const n of packed[2]) {
    if (n < 0) for (let i = 0; i < -n; i++) counts.push(0);
    else counts.push(n);
  }
  return { start: packed[0], width: packed[1], counts };
}

// What was counted between two times: whole bins, those at the edges in proportion. The first and the last reach beyond the
// log, where there is nothing to count.
function counted(b, from, to) {
  if (!b) return 0;
  let sum = 0;
  const first = Math.max(0, Math.floor((from - b.start) / b.width));
  const last = Math.min(b.counts.length - 1, Math.floor((to - b.start) / b.width));
  for (let i = first; i <= last; i++) {
    if (!b.counts[i]) continue;
    const a = Math.max(WHOLE[0], b.start + i * b.width);
    const width = Math.min(WHOLE[1], b.start + (i + 1) * b.width) - a;
    const part = width > 0 ? (Math.min(to, a + width) - Math.max(from, a)) / width : 1;
    sum += b.counts[i] * Math.max(0, Math.min(1, part));
  }
  return Math.round(sum);
}

const WHOLE = [D.first, Math.max(D.last, D.first + 1)];
const iocs = D.iocs.map((ioc, number) => ({ ...ioc, number, bins: bins(ioc.bins) }));
const recordBins = D.records.bins.map(bins);
const causes = D.causes.map(([kind, what, value, who, through]) =>
  ({ kind, what: S[what], value: S[value], who: S[who], through: S[through] }));
const chainsBySerial = new Map(D.chains.map((chain, place) => [chain.serial, place]));

const puts = D.puts.time.map((time, i) => {
  const p = D.puts, flags = p.flags[i];
  return {
    number: i, time, flags, pv: S[p.pv[i]], record: p.record[i], ioc: p.ioc[i], writer: p.writer[i], from: S[p.from[i]],
    address: S[p.address[i]], old: S[p.old[i]], value: S[p.new[i]], asked: S[p.asked[i]], status: S[p.status[i]],
    via: S[p.via[i]], ms: p.ms[i], chain: p.chain[i], refused: (flags & (DENIED | FAILED)) !== 0,
    otherwise: (flags & OTHERWISE) !== 0,
  };
});
const alarms = D.alarms.time.map((time, i) => {
  const a = D.alarms;
  return {
    number: i, time, record: a.record[i], from: a.from[i], to: a.to[i], status: S[a.status[i]], value: S[a.value[i]],
    cause: causes[a.cause[i]] || null, chain: a.chain[i], afterGap: a.gap[i] === 1,
  };
});

const recordName = (record) => (record < 0 ? "" : S[D.records.name[record]]);
const iocOfRecord = (record) => (record < 0 ? -1 : D.records.ioc[record]);
const iocName = (ioc) => (ioc < 0 ? "" : iocs[ioc].name);
const writerName = (writer) => (writer < 0 ? "others" : S[D.writers[writer][0]]);

// The six who put most have a lane and a colour of their own; all others share one.
const rankedWriters = D.writers.map((w, number) => [w[1], number]).sort((a, b) => b[0] - a[0] || a[1] - b[1]).map((w) => w[1]);
const ownLane = rankedWriters.slice(0, rankedWriters.length > 6 ? 5 : 6);
const laneOf = (writer) => {
  const lane = ownLane.indexOf(writer);
  return lane < 0 ? ownLane.length : lane;
};
const userColour = (writer) => `user${Math.min(laneOf(writer), 5) + 1}`;
const iocColour = (ioc) => (ioc < 0 ? "text3" : `user${(ioc % 6) + 1}`);

// Whether something between two times was not recorded: then counts there are minima.
function incomplete(from, to) {
  return D.losses.concat(D.gaps).some((gap) => gap.from <= to && gap.to >= from);
}
