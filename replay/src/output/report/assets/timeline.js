// The timeline: the whole log, and below it the chosen time in lanes. Tables further down hold all that it shows.

const LEFT = 149, RIGHT = 14, OVERVIEW = 46, AXIS = 20;
const MOST_IOCS = 8;
let lanes = [];
let lanesHeight = 0;

// The lanes from top to bottom, each with its height.
function layOut() {
  lanes = [];
  let y = OVERVIEW + AXIS + 4;
  const add = (kind, height, rest) => {
    lanes.push({ kind, y, height, ...rest });
    y += height;
  };
  iocs.slice(0, MOST_IOCS).forEach((ioc) => add("ioc", 22, { ioc }));
  if (iocs.length > MOST_IOCS) add("more", 22, { text: `${iocs.length - MOST_IOCS} more IOCs` });
  y += 4;
  ownLane.forEach((writer) => add("user", 20, { writer, text: writerName(writer) }));
  if (rankedWriters.length > ownLane.length) {
    add("user", 20, { writer: -1, text: `${rankedWriters.length - ownLane.length} others` });
  }
  y += 4;
  for (const severity of [3, 2, 1]) add("severity", 19, { severity });
  add("processing", 64, {});
  add("missing", 26, {});
  lanesHeight = y + 2;
}

let laneWidth = 1;
const xOf = (t, from = state.from, to = state.to) => LEFT + ((t - from) / (to - from)) * laneWidth;
const timeAt = (x, from = state.from, to = state.to) => from + ((x - LEFT) / laneWidth) * (to - from);

function drawTimeline() {
  const { c, width } = prepare($("lanes"), lanesHeight);
  laneWidth = Math.max(50, width - LEFT - RIGHT);
  drawOverview(c, LEFT, 0, laneWidth, OVERVIEW, true);
  const small = `11px ${colours.sans}`, label = `12px ${colours.sans}`;
  drawText(c, "Whole log", 12, 16, LEFT - 20, colours.text2, label);
  drawText(c, "drag to choose a time", 12, 31, LEFT - 20, colours.text3, `11px ${colours.sans}`);
  c.fillStyle = colours.line;
  c.fillRect(0, OVERVIEW, width, 1);
  c.fillRect(LEFT - 1, 0, 1, lanesHeight);
  const top = OVERVIEW + AXIS, bottom = lanesHeight - 4;
  c.save();
  c.beginPath();
  c.rect(LEFT, OVERVIEW + 1, laneWidth, lanesHeight);
  c.clip();
  const { step, found } = ticks(state.from, state.to, ((state.to - state.from) / laneWidth) * 120);
  for (const t of found) {
    c.fillStyle = colours.line;
    c.fillRect(Math.round(xOf(t)), top, 1, bottom - top);
    c.textAlign = "center";
    if (xOf(t) < LEFT + 30 || xOf(t) > LEFT + laneWidth - 30) continue;
    drawText(c, tickText(t, step), xOf(t), OVERVIEW + 11, 120, colours.text2, `11px ${colours.mono}`);
  }
  c.textAlign = "left";
  for (const loss of D.losses) {
    const [a, b] = [xOf(loss.from), Math.max(xOf(loss.to), xOf(loss.from) + 2)];
    c.fillStyle = colours.lost;
    c.fillRect(a, top, b - a, bottom - top);
  }
  c.restore();
  for (const lane of lanes) {
    drawLabel(c, lane, label);
    c.save();
    c.beginPath();
    c.rect(LEFT, lane.y, laneWidth, lane.height);
    c.clip();
    ({ ioc: drawIoc, more: drawMore, user: drawUser, severity: drawSeverity, processing: drawProcessing, missing: drawMissing })[lane.kind](c, lane);
    c.restore();
  }
  c.save();
  c.beginPath();
  c.rect(LEFT, OVERVIEW + 1, laneWidth, lanesHeight);
  c.clip();
  for (const gap of D.gaps.filter((gap) => gap.ioc < 0)) {
    const a = xOf(gap.from);
    fillHatched(c, a, top, Math.max(2, xOf(gap.to) - a), bottom - top);
  }
  const missing = lanes.find((lane) => lane.kind === "missing");
  drawMissing(c, missing);
  c.setLineDash([3, 3]);
  for (const ioc of iocs) if (ioc.end !== null) line(c, xOf(ioc.end), top, bottom, colours.text1);
  c.setLineDash([]);
  for (const [time] of D.marks) {
    const x = Math.round(xOf(time));
    line(c, x, top, bottom - 28, colours.accent, 2);
    c.fillStyle = colours.accent;
    c.beginPath();
    c.moveTo(x - 1, top - 3);
    c.lineTo(x + 9, top + 1);
    c.lineTo(x - 1, top + 6);
    c.fill();
  }
  for (const lane of lanes.filter((lane) => lane.kind === "ioc" && lane.ioc.end !== null)) drawEnd(c, lane, small);
  if (dragged) {
    c.fillStyle = withAlpha(colours.accent, 0.14);
    c.fillRect(dragged[0], OVERVIEW, dragged[1] - dragged[0], bottom - OVERVIEW);
  }
  c.restore();
}

function line(c, x, from, to, colour, width = 1) {
  c.strokeStyle = colour;
  c.lineWidth = width;
  c.beginPath();
  c.moveTo(Math.round(x) + 0.5, from);
  c.lineTo(Math.round(x) + 0.5, to);
  c.stroke();
}

function drawLabel(c, lane, font) {
  const y = lane.y + lane.height / 2;
  if (lane.kind === "ioc") {
    c.fillStyle = colours[iocColour(lane.ioc.number)];
    c.beginPath();
    c.arc(17, y - 1, 3.5, 0, 7);
    c.fill();
    drawText(c, lane.ioc.name, 26, y, LEFT - 34, colours.text1, font);
  } else if (lane.kind === "user") {
    c.fillStyle = colours[userColour(lane.writer)];
    c.fillRect(13, y - 4, 8, 8);
    const number = puts.filter((put) => isChosenTime(put.time) && laneOf(put.writer) === laneOf(lane.writer)).length;
    c.textAlign = "right";
    drawText(c, count(number), LEFT - 10, y, 60, colours.text3, `11px ${colours.mono}`);
    c.textAlign = "left";
    drawText(c, lane.text, 26, y, LEFT - 70, colours.text1, font);
  } else if (lane.kind === "severity") {
    severityShape(c, lane.severity, 13, y - 4, 8);
    drawText(c, SEVERITIES[lane.severity], 26, y, LEFT - 34, colours.text1, font);
  } else if (lane.kind === "processing") {
    drawText(c, "Processing", 12, lane.y + 18, LEFT - 20, colours.text1, font);
    drawText(c, "records/s, log", 12, lane.y + 33, LEFT - 20, colours.text3, `11px ${colours.sans}`);
  } else {
    drawText(c, lane.kind === "more" ? lane.text : "Not recorded", 12, y, LEFT - 20, colours.text1, font);
  }
}

// A bar where the IOC was recorded.
function drawIoc(c, lane) {
  const colour = colours[iocColour(lane.ioc.number)];
  // Logs of older recorders do not say when an IOC was recorded: then it is drawn where something of it was seen.
  const seen = lane.ioc.bins;
  const spans = lane.ioc.recorded.length ? lane.ioc.recorded
    : seen.counts.length ? [[seen.start, seen.start + seen.counts.length * seen.width]] : [];
  for (const [from, to] of spans) {
    const a = Math.max(LEFT, xOf(from === null ? WHOLE[0] : from));
    const b = Math.min(LEFT + laneWidth, xOf(Math.min(to === null ? WHOLE[1] : to, lane.ioc.end === null ? WHOLE[1] : lane.ioc.end)));
    if (b <= a) continue;
    c.fillStyle = withAlpha(colour, 0.2);
    c.fillRect(a, lane.y + 3, b - a, 14);
    c.fillStyle = colour;
    c.fillRect(a, lane.y + 3, b - a, 2);
  }
  for (const gap of D.gaps.filter((gap) => gap.ioc === lane.ioc.number)) {
    const a = xOf(gap.from);
    fillHatched(c, a, lane.y + 2, Math.max(2, xOf(gap.to) - a), 17, 6);
  }
}

function drawMore(c, lane) {
  drawText(c, "see their cards below", LEFT + 6, lane.y + 11, laneWidth, colours.text3, `11px ${colours.sans}`);
}

function drawEnd(c, lane, font) {
  const x = xOf(lane.ioc.end);
  if (x < LEFT - 1 || x > LEFT + laneWidth + 1) return;
  const signal = lane.ioc.how.match(/SIG[A-Z0-9+]+/);
  const status = lane.ioc.how.match(/status (\d+)/);
  const text = signal ? `✕ ${signal[0]}` : status ? `✕ status ${status[1]}` : "✕ ended";
  c.font = `600 ${font}`;
  const width = c.measureText(text).width + 12;
  const left = x + width > LEFT + laneWidth ? x - width : x;
  c.fillStyle = colours.text1;
  c.beginPath();
  c.roundRect(left, lane.y + 2, width, 16, 3);
  c.fill();
  drawText(c, text, left + 6, lane.y + 10.5, width, colours.card, `600 ${font}`);
}

// Puts of one user, with their values where there is room.
function drawUser(c, lane) {
  const mine = puts.filter((put) => laneOf(put.writer) === laneOf(lane.writer) && isChosenTime(put.time));
  const font = `11px ${colours.mono}`;
  let lastPv = "";
  mine.forEach((put, i) => {
    const x = Math.round(xOf(put.time)), y = lane.y + 4;
    const colour = put.refused ? colours.denied : colours[userColour(put.writer)];
    c.globalAlpha = putFits(put) ? 1 : 0.25;
    c.fillStyle = c.strokeStyle = colour;
    c.lineWidth = 1.2;
    if (put.flags & DENIED) {
      c.beginPath();
      c.arc(x + 1, y + 6, 6, 0, 7);
      c.fill();
      c.fillStyle = colours.card;
      c.fillRect(x - 2.5, y + 5, 7, 2);
    } else if (put.flags & (UNKNOWN | FAILED)) {
      c.strokeRect(x - 1.5, y + 0.5, 4, 11);
    } else {
      c.fillRect(x, y, 2, 12);
      if (put.otherwise) {
        c.beginPath();
        c.moveTo(x - 4, y);
        c.lineTo(x + 6, y);
        c.lineTo(x + 1, y + 6);
        c.fill();
      }
    }
    if (put.number === state.put) {
      c.globalAlpha = 1;
      c.strokeStyle = colours.accent;
      c.lineWidth = 2;
      c.strokeRect(x - 5, y - 3, 13, 18);
    }
    const next = i + 1 < mine.length ? xOf(mine[i + 1].time) : LEFT + laneWidth;
    const room = next - x - 16;
    const text = put.flags & DENIED ? "denied" : (put.pv === lastPv ? "" : put.pv + " ") + (put.flags & ACKNOWLEDGES ? "" : "→ ") + put.value;
    if (room > 30) {
      c.font = font;
      const whole = c.measureText(text).width;
      if (whole <= room || room > 110) drawText(c, text, x + 10, y + 6, room, put.flags & DENIED ? colours.denied : colours.text2, font);
    }
    lastPv = put.pv;
    c.globalAlpha = 1;
  });
}

// Times with the number of records in each severity; index 0 is unused. Of an IOC that has ended, no record is in alarm.
const severitySteps = (() => {
  const now = new Map(), number = [0, 0, 0, 0], steps = [];
  const ends = iocs.filter((ioc) => ioc.end !== null).sort((a, b) => a.end - b.end);
  const endBefore = (time) => {
    while (ends.length && ends[0].end <= time) {
      const ended = ends.shift();
      for (const [record, severity] of now) {
        if (iocOfRecord(record) !== ended.number || !severity) continue;
        number[severity]--;
        now.set(record, 0);
      }
      steps.push({ time: ended.end, number: number.slice() });
    }
  };
  for (const alarm of alarms) {
    endBefore(alarm.time);
    const before = now.has(alarm.record) ? now.get(alarm.record) : 0;
    if (before > 0) number[before]--;
    if (alarm.to > 0 && alarm.to < 4) number[alarm.to]++;
    now.set(alarm.record, alarm.to < 4 ? alarm.to : 0);
    steps.push({ time: alarm.time, number: number.slice() });
  }
  endBefore(Infinity);
  return steps;
})();

function drawSeverity(c, lane) {
  const s = lane.severity;
  const [fill, on] = [colours[SEVERITIES[s].toLowerCase()], colours["on-" + SEVERITIES[s].toLowerCase()]];
  c.fillStyle = colours.line;
  c.fillRect(LEFT, lane.y + 9, laneWidth, 1);
  let from = null, number = 0;
  const end = (time) => {
    if (!number) return;
    const a = Math.max(LEFT - 2, xOf(from)), b = Math.min(LEFT + laneWidth, Math.max(xOf(time), a + 1));
    if (b < LEFT || a > LEFT + laneWidth) return;
    c.fillStyle = s === 1 && b - a < 4 ? colours["minor-edge"] : fill;
    c.fillRect(a, lane.y + 2, b - a, 15);
    if (s === 1 && b - a >= 4) {
      c.strokeStyle = colours["minor-edge"];
      c.lineWidth = 1;
      c.strokeRect(a + 0.5, lane.y + 2.5, b - a - 2, 14);
    }
    if (s === 3) {
      c.fillStyle = hatch(c, colours.stripe, 9);
      c.fillRect(a, lane.y + 2, b - a, 15);
    }
    c.fillStyle = colours.card;
    if (b - a > 3) c.fillRect(b - 1, lane.y + 2, 1, 15);
    const text = b - a > 66 ? plural(number, "record") : b - a > 14 ? String(number) : "";
    if (s === 3 && text) {
      c.fillStyle = fill;
      c.font = `600 11px ${colours.sans}`;
      c.fillRect(a + 2, lane.y + 3, c.measureText(text).width + 6, 13);
    }
    if (text) drawText(c, text, a + 5, lane.y + 10, b - a - 8, on, `600 11px ${colours.sans}`);
  };
  for (const step of severitySteps) {
    if (step.number[s] === number) continue;
    end(step.time);
    [from, number] = [step.time, step.number[s]];
  }
  end(WHOLE[1]);
}

// Counts in bins of at least `least` ms: a scan every second would else be a comb.
const wider = new Map();
function widened(b, least) {
  let factor = 1;
  while (b.width * factor < least && factor < 1 << 20) factor *= 2;
  if (factor === 1) return b;
  if (!wider.has(b)) wider.set(b, new Map());
  const known = wider.get(b);
  if (!known.has(factor)) {
    const counts = [];
    b.counts.forEach((n, i) => {
      const at = Math.floor(i / factor);
      counts[at] = (counts[at] || 0) + n;
    });
    known.set(factor, { start: b.start, width: b.width * factor, counts });
  }
  return known.get(factor);
}

const rateOf = (b) => b.counts.reduce((most, n) => Math.max(most, n), 0) * 1000 / b.width;
const highestRate = Math.max(100, ...iocs.map((ioc) => rateOf(widened(ioc.bins, 250))));

// Rates on a logarithmic scale, stepped.
function ratePath(c, b, y, height, toX, upTo) {
  const scale = (rate) => (rate <= 0 ? 0 : Math.min(1, Math.log10(1 + rate) / Math.log10(1 + highestRate)));
  c.beginPath();
  const base = y + height;
  c.moveTo(toX(b.start), base);
  b.counts.forEach((n, i) => {
    const t = b.start + i * b.width;
    if (t > upTo) return;
    // The last bin may reach beyond the end.
    const width = Math.max(1, Math.min(b.width, upTo - t));
    const at = base - scale((n * 1000) / Math.max(width, b.width / 4)) * height;
    c.lineTo(toX(t), at);
    c.lineTo(toX(Math.min(t + b.width, upTo)), at);
  });
  c.lineTo(toX(Math.min(b.start + b.counts.length * b.width, upTo)), base);
}

function drawProcessing(c, lane) {
  const y = lane.y + 6, height = lane.height - 10;
  const scale = (rate) => Math.log10(1 + rate) / Math.log10(1 + highestRate);
  for (const ioc of iocs.slice(0, 12)) {
    if (!ioc.bins.counts.length || (state.ioc >= 0 && state.ioc !== ioc.number)) continue;
    const upTo = ioc.end === null ? WHOLE[1] : Math.max(ioc.end, ioc.bins.start + ioc.bins.width);
    ratePath(c, widened(ioc.bins, (state.to - state.from) / 120), y, height, xOf, upTo);
    c.fillStyle = withAlpha(colours[iocColour(ioc.number)], 0.16);
    c.fill();
    c.strokeStyle = colours[iocColour(ioc.number)];
    c.lineWidth = 1.2;
    c.stroke();
  }
  for (const rate of highestRate < 3000 ? [100] : [10000]) {
    if (rate > highestRate * 1.05) continue;
    const at = y + height - scale(rate) * height;
    c.fillStyle = colours.line;
    c.fillRect(LEFT, Math.round(at), laneWidth, 1);
    c.font = `11px ${colours.mono}`;
    const wide = c.measureText(count(rate)).width + 6;
    c.fillStyle = withAlpha(colours.card, 0.8);
    c.fillRect(LEFT + laneWidth - wide, at - 7 < lane.y + 4 ? at + 1 : at - 13, wide, 12);
    c.textAlign = "right";
    drawText(c, count(rate), LEFT + laneWidth - 2, at - 7 < lane.y + 4 ? at + 7 : at - 7, 80, colours.text2, `11px ${colours.mono}`);
    c.textAlign = "left";
  }
}

function drawMissing(c, lane) {
  const y = lane.y + 5, height = 15;
  for (const gap of D.gaps.concat(D.losses)) {
    const a = xOf(gap.from), b = Math.max(xOf(gap.to), a + 3);
    if (b < LEFT || a > LEFT + laneWidth) continue;
    fillHatched(c, a, y, b - a, height, 6);
    c.strokeStyle = colours.hatch;
    c.lineWidth = 1;
    c.strokeRect(a + 0.5, y + 0.5, b - a - 1, height - 1);
    const text = gap.count ? `${count(gap.count)} ${gap.what} lost` : "";
    c.font = `11px ${colours.sans}`;
    const width = c.measureText(text).width;
    if (text && width + 14 < b - a) {
      const middle = (Math.max(a, LEFT) + Math.min(b, LEFT + laneWidth)) / 2;
      c.fillStyle = colours.card;
      c.fillRect(middle - width / 2 - 4, y + 1, width + 8, height - 2);
      drawText(c, text, middle - width / 2, y + 8, width + 2, colours.text2, c.font);
    }
  }
}

// The whole log in a few px; also in the head, once the timeline has scrolled away.
function drawOverview(c, x, y, width, height, handles) {
  const toX = (t) => x + ((t - WHOLE[0]) / (WHOLE[1] - WHOLE[0])) * width;
  c.save();
  c.beginPath();
  c.rect(x, y, width, height);
  c.clip();
  for (const ioc of iocs.slice(0, 12)) {
    if (!ioc.bins.counts.length) continue;
    ratePath(c, widened(ioc.bins, (WHOLE[1] - WHOLE[0]) / 120), y + height * 0.2, height * 0.7, toX, ioc.end === null ? WHOLE[1] : ioc.end);
    c.fillStyle = withAlpha(colours.text3, 0.22);
    c.fill();
    c.strokeStyle = withAlpha(colours.text3, 0.75);
    c.lineWidth = 1;
    c.stroke();
  }
  if (handles) {
    for (const put of puts) {
      c.fillStyle = put.refused ? colours.denied : colours.accent;
      c.fillRect(Math.round(toX(put.time)), y + height - 6, 1, 6);
    }
  }
  for (const alarm of alarms) {
    if (alarm.to < 2 || alarm.to > 3 || alarm.from >= alarm.to) continue;
    c.fillStyle = alarm.to === 3 ? colours.invalid : colours.major;
    c.fillRect(Math.round(toX(alarm.time)) - 1, y, 3, handles ? 8 : 5);
  }
  for (const gap of D.gaps.filter((gap) => gap.ioc < 0).concat(D.losses)) {
    const a = toX(gap.from), b = Math.max(toX(gap.to), a + 2);
    if (!gap.count) fillHatched(c, a, y, b - a, height);
    else {
      c.fillStyle = hatch(c, colours.hatch);
      c.fillRect(a, y, b - a, height);
    }
  }
  for (const ioc of iocs) if (ioc.end !== null) line(c, toX(ioc.end), y, y + height, colours.text1, 1.5);
  const [a, b] = [toX(state.from), toX(state.to)];
  c.fillStyle = withAlpha(colours.card, 0.68);
  c.fillRect(x, y, a - x, height);
  c.fillRect(b, y, x + width - b, height);
  c.restore();
  c.strokeStyle = colours.accent;
  c.lineWidth = handles ? 2 : 1.5;
  c.strokeRect(a, y + 1, b - a, height - 2);
  if (handles) {
    c.fillStyle = colours.accent;
    for (const edge of [a, b]) {
      c.beginPath();
      c.roundRect(edge - 3, y + height / 2 - 9, 6, 18, 2);
      c.fill();
    }
  }
}

function drawMini() {
  const canvas = $("mini-canvas");
  if (!canvas.clientWidth) return;
  const { c, width } = prepare(canvas, 28);
  drawOverview(c, 1, 0, width - 2, 28, false);
}
