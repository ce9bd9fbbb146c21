// Numbers and times as text. The page has one offset from UTC, that of the reader's zone at the begin of the log.

const two = (n) => String(n).padStart(2, "0");

// The time of day of `ms` since the page's base, with `digits` of the second (never more than the log knows).
function clock(ms, digits) {
  const t = new Date(D.base + Math.floor(ms) + D.offset * 60000);
  let text = `${two(t.getUTCHours())}:${two(t.getUTCMinutes())}:${two(t.getUTCSeconds())}`;
  const known = Math.min(digits, D.digits);
  if (known > 0) text += "." + String(t.getUTCMilliseconds()).padStart(3, "0").slice(0, known);
  return text;
}

function day(ms) {
  const t = new Date(D.base + Math.floor(ms) + D.offset * 60000);
  return `${t.getUTCFullYear()}-${two(t.getUTCMonth() + 1)}-${two(t.getUTCDate())}`;
}

const when = (ms, digits) => (D.days ? day(ms) + " " : "") + clock(ms, digits);

// A time whose fraction stands back.
function timeElement(ms, digits = 3) {
  const [whole, fraction] = when(ms, digits).split(".");
  return el("time", {}, whole, fraction ? el("span", { class: "fraction" }, "." + fraction) : "");
}

// A length of time given in ms.
function length(ms) {
  const round = (n) => (n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2).replace(/0$/, ""));
  if (ms < 0.001) return "0.0 µs";
  if (ms < 1) return `${ms * 1000 >= 10 ? (ms * 1000).toFixed(0) : (ms * 1000).toFixed(1)} µs`;
  if (ms < 1000) return `${round(ms)} ms`;
  if (ms < 120000) return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
  if (ms < 7200000) return `${(ms / 60000).toFixed(1)} min`;
  return `${(ms / 3600000).toFixed(1)} h`;
}

// A count with narrow spaces between thousands.
const count = (n) => String(n).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");

// The decimal place of the last digit that a number has, as an exponent of ten: -2 for 0.25.
function lastPlace(number) {
  const [digits, exponent] = number.toExponential(2).split("e");
  return Number(exponent) - digits.replace(/\.?0+$/, "").replace(/^\d\.?/, "").length;
}

// A number on an axis of which the numbers are `step` apart: with the digits that tell them apart, of many the last ones.
function tickNumber(v, step) {
  if (v === 0) return "0";
  const place = lastPlace(step), size = Number(v.toExponential(14).split("e")[1]);
  const digits = Math.min(15, Math.max(1, size - place + 1));
  let text;
  if (size < -3 || (size > 4 && digits <= 4)) text = v.toExponential(digits - 1).replace(/\.?0+e/, "e");
  else {
    const [whole, fraction] = v.toFixed(Math.min(20, Math.max(0, -place))).split(".");
    text = count(whole) + (fraction ? "." + fraction : "");
  }
  return text.length > 8 ? "…" + text.slice(-7) : text;
}

const plural = (n, one) => `${count(n)} ${one}${n === 1 ? "" : "s"}`;

// Times on an axis: those that are round and about `wanted` apart (ms).
function ticks(from, to, wanted) {
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1.5e4, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5,
    108e5, 216e5, 432e5, 864e5, 1728e5, 6048e5];
  const step = steps.find((s) => s >= wanted) || Math.ceil(wanted / 864e5) * 864e5;
  const shift = (D.base + D.offset * 60000) % step;
  const found = [];
  for (let t = Math.ceil((from + shift) / step) * step - shift; t <= to && found.length < 200; t += step) found.push(t);
  return { step, found };
}
const tickText = (t, step) => (step >= 864e5 ? day(t) : clock(t, step < 1000 ? 3 : 0).slice(0, step >= 6e4 ? 5 : undefined));

const severityBadge = (severity) => el("span", { class: `severity s${severity}` }, SEVERITIES[severity] || `severity ${severity}`);
