// Plots of values over the chosen time: stepped, with the puts that were made, the alarms, and what is not known.

const MOST_PLOTS = 4;
// Less than the page's times tell apart, ms.
const INSTANT = 1e-4;
const plotOf = new Map(D.plots.map((plot, place) => [plot.record, place]));
let shownPlots = D.plots.map((_, place) => place).slice(0, MOST_PLOTS);
let chart = [];

function makeValues() {
  const add = el("select", { id: "add-plot", "aria-label": "Add the plot of a PV", onchange: (event) => addPlot(Number(event.target.value)) });
  return el("section", { id: "values", class: "card" },
    el("div", { class: "bar" }, el("h3", {}, "Values"), el("span", { class: "legend", "aria-hidden": "true" },
      el("span", {}, "▼ put"), el("span", {}, "▨ not recorded"), el("span", {}, "■ events lost")),
    el("span", { class: "push" }, add)), el("div", { id: "plots" }));
}

function addPlot(place) {
  if (!(place >= 0 && place < D.plots.length)) return;
  shownPlots = [place, ...shownPlots.filter((shown) => shown !== place)].slice(0, MOST_PLOTS);
  makePlots();
}

// Times and values of a plot with the places at which nothing is known, where the line breaks.
function series(plot) {
  const ioc = iocOfRecord(plot.record);
  const breaks = D.gaps.filter((gap) => gap.ioc < 0 || gap.ioc === ioc).map((gap) => [gap.from, gap.to]);
  const end = ioc >= 0 && iocs[ioc].end !== null ? iocs[ioc].end : WHOLE[1];
  const times = [], values = [];
  const push = (t, v) => {
    times.push(t);
    values.push(v);
  };
  let at = 0;
  plot.time.forEach((t, i) => {
    for (; at < breaks.length && breaks[at][0] < t; at++) {
      // The value goes on up to the gap.
      if (times.length && values[values.length - 1] !== null) {
        push(breaks[at][0], values[values.length - 1]);
        push(breaks[at][0] + INSTANT, null);
      }
    }
    push(t, plot.value[i]);
  });
  const last = breaks.slice(at).map(([from]) => from).concat(end).sort((a, b) => a - b)[0];
  if (times.length && last > times[times.length - 1]) push(last, values[values.length - 1]);
  return [times, values];
}

function makePlots() {
  for (const plot of chart) plot.destroy();
  chart = [];
  const place = $("plots");
  place.replaceChildren();
  const select = $("add-plot");
  select.replaceChildren(el("option", { value: -1 }, "Add PV…"),
    ...D.plots.map((plot, number) => el("option", { value: number }, recordName(plot.record))));
  if (!D.plots.length) place.append(el("p", { class: "none" }, D.chosen ? "No value of those asked for changed and is a number." : "No value that changed and is a number is in this log."));
  shownPlots.forEach((number, order) => {
    const plot = D.plots[number];
    const units = S[plot.units];
    const about = (units ? units + " · " : "") + (plot.thinned ? `min/max of ${count(plot.seen)}` : plural(plot.seen, "value"));
    const box = el("div", { class: "plot", "data-record": recordName(plot.record), "data-points": plot.time.length },
      el("h4", {}, el("span", { class: "name" }, recordName(plot.record)), "  " + about),
      el("button", { class: "close", type: "button", "aria-label": `Close the plot of ${recordName(plot.record)}`, onclick: () => {
        shownPlots = shownPlots.filter((shown) => shown !== number);
        makePlots();
      } }, "×"));
    place.append(box);
    chart.push(drawPlot(box, plot, order === shownPlots.length - 1));
  });
  drawValues();
}

// The lowest and highest value in the chosen time, with the one that it begins with, and some room around.
function seenRange(plot) {
  let low = Infinity, high = -Infinity, before = null;
  for (let i = 0; i < plot.time.length && plot.time[i] <= state.to; i++) {
    const value = plot.value[i];
    if (plot.time[i] < state.from) before = value;
    else if (value !== null) [low, high] = [Math.min(low, value), Math.max(high, value)];
  }
  if (before !== null) [low, high] = [Math.min(low, before), Math.max(high, before)];
  if (low > high) return [0, 1];
  const room = (high - low) * 0.09 || Math.abs(high) * 0.1 || 1;
  return [low - room, high + room];
}

function drawPlot(box, plot, isLast) {
  const font = `11px ${colours.mono}`;
  const options = {
    width: Math.max(200, box.clientWidth - 20), height: isLast ? 96 : 78, legend: { show: false },
    cursor: { drag: { x: true, y: false, setScale: false }, y: false, points: { size: 5 } },
    select: { show: true },
    padding: [8, 4, isLast ? 0 : 4, 0],
    scales: { x: { time: false }, y: { range: () => seenRange(plot) } },
    axes: [
      { show: isLast, size: 22, font, stroke: colours.text2, grid: { show: false }, ticks: { show: false }, values: (u, found) => {
        const { step } = ticks(u.scales.x.min, u.scales.x.max, ((u.scales.x.max - u.scales.x.min) / u.width) * 110);
        return found.map((t) => tickText(t, step));
      }, splits: (u) => ticks(u.scales.x.min, u.scales.x.max, ((u.scales.x.max - u.scales.x.min) / u.width) * 110).found },
      { size: 58, font, stroke: colours.text2, gap: 3, grid: { stroke: colours.line, width: 1 }, ticks: { show: false }, space: 24,
        values: (u, found, axis, space, step) => found.map((v) => (plot.states.length && Number.isInteger(v) && plot.states[v] ? S[plot.states[v]].slice(0, 7) : tickNumber(v, step))) },
    ],
    series: [{}, { stroke: colours.text1, width: 1.4, paths: uPlot.paths.stepped({ align: 1 }), points: { show: plot.time.length < 30, size: 4, fill: colours.text1 }, spanGaps: false }],
    hooks: { drawAxes: [(u) => drawBelow(u, plot)], draw: [(u) => drawAbove(u, plot)], setSelect: [(u) => {
      if (u.select.width > 3) {
        const [from, to] = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
        u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        choose({ from, to });
      }
    }] },
  };
  const made = new uPlot(options, series(plot), box);
  made.over.addEventListener("dblclick", () => choose({ from: WHOLE[0], to: WHOLE[1] }));
  brushWheel(made.over, (event) => made.posToVal(event.offsetX, "x"));
  return made;
}

function area(u) {
  const { left, top, width, height } = u.bbox;
  u.ctx.save();
  u.ctx.beginPath();
  u.ctx.rect(left, top, width, height);
  u.ctx.clip();
  return { c: u.ctx, top, height, right: left + width, x: (t) => u.valToPos(t, "x", true), px: window.devicePixelRatio || 1 };
}

// Alarms, losses and gaps, below the line.
function drawBelow(u, plot) {
  const { c, top, height, x, px } = area(u);
  for (const loss of D.losses) {
    c.fillStyle = colours.lost;
    c.fillRect(x(loss.from), top, Math.max(px, x(loss.to) - x(loss.from)), height);
  }
  const ioc = iocOfRecord(plot.record);
  const end = ioc >= 0 && iocs[ioc].end !== null ? iocs[ioc].end : WHOLE[1];
  const own = alarms.filter((alarm) => alarm.record === plot.record);
  own.forEach((alarm, i) => {
    if (alarm.to < 1 || alarm.to > 3) return;
    const from = x(alarm.time), to = x(i + 1 < own.length ? own[i + 1].time : end);
    const colour = colours[SEVERITIES[alarm.to].toLowerCase()];
    c.fillStyle = withAlpha(colour, 0.18);
    c.fillRect(from, top, to - from, height);
    c.fillStyle = colour;
    c.fillRect(from, top, to - from, 3 * px);
    if (alarm.to === 1) {
      c.fillStyle = colours["minor-edge"];
      c.fillRect(from, top + 2 * px, to - from, px);
    }
    if (to - from > 62 * px && to > u.bbox.left + 60 * px) {
      const at = Math.max(from, u.bbox.left);
      c.font = `600 ${10 * px}px ${colours.sans}`;
      c.fillStyle = colours.card;
      const name = SEVERITIES[alarm.to];
      c.fillRect(at + 3 * px, top + 5 * px, c.measureText(name).width + 6 * px, 13 * px);
      c.fillStyle = alarm.to === 1 ? colours.text2 : colour;
      c.textBaseline = "middle";
      c.textAlign = "left";
      c.fillText(name, at + 6 * px, top + 12 * px);
    }
  });
  c.restore();
}

// Hatches a part of a plot, in its own pixels, of which `px` are one of the page.
function hatchTime(c, from, to, top, height, px) {
  c.fillStyle = colours.card;
  c.fillRect(from, top, to - from, height);
  c.fillStyle = hatch(c, colours.hatch);
  c.save();
  c.scale(px, px);
  c.fillRect(from / px, top / px, (to - from) / px, height / px);
  c.restore();
}

// Gaps, ends and puts, above the line.
function drawAbove(u, plot) {
  const { c, top, height, right, x, px } = area(u);
  const ioc = iocOfRecord(plot.record);
  const hatched = (from, to) => hatchTime(c, from, to, top, height, px);
  for (const gap of D.gaps) if (gap.ioc < 0 || gap.ioc === ioc) hatched(x(gap.from), Math.max(x(gap.to), x(gap.from) + px));
  if (ioc >= 0 && iocs[ioc].end !== null && x(iocs[ioc].end) < right) {
    hatched(x(iocs[ioc].end), right);
    c.fillStyle = colours.text1;
    c.fillRect(x(iocs[ioc].end), top, 1.5 * px, height);
  }
  const others = puts.filter((put) => isChosenTime(put.time) && !folded.has(seriesOf(put))).length <= 40;
  const few = puts.filter((put) => put.record === plot.record && isChosenTime(put.time)).length <= 150;
  for (const put of puts) {
    if (!isChosenTime(put.time)) continue;
    const mine = put.record === plot.record, at = Math.round(x(put.time));
    if (mine && !few && put.number !== state.put) continue;
    if (!mine && put.number !== state.put && (!others || folded.has(seriesOf(put)))) continue;
    c.strokeStyle = c.fillStyle = put.refused ? colours.denied : colours[userColour(put.writer)];
    c.lineWidth = put.number === state.put ? 2 * px : px;
    c.setLineDash(mine || put.number === state.put ? [] : [2 * px, 3 * px]);
    c.globalAlpha = mine || put.number === state.put ? 1 : 0.5;
    c.beginPath();
    c.moveTo(at + 0.5, top);
    c.lineTo(at + 0.5, top + height);
    c.stroke();
    c.setLineDash([]);
    c.globalAlpha = 1;
  }
  c.restore();
  // The marks stand above the plot.
  for (const put of puts) {
    if (put.record !== plot.record || !isChosenTime(put.time)) continue;
    const at = x(put.time);
    u.ctx.globalAlpha = few ? 1 : 0.5;
    u.ctx.fillStyle = put.refused ? colours.denied : colours[userColour(put.writer)];
    u.ctx.beginPath();
    u.ctx.moveTo(at - 4 * px, top - 7 * px);
    u.ctx.lineTo(at + 4 * px, top - 7 * px);
    u.ctx.lineTo(at, top);
    u.ctx.fill();
  }
  u.ctx.globalAlpha = 1;
}

let lastPut = -1;

function drawValues() {
  if (state.put !== lastPut) {
    lastPut = state.put;
    const place = state.put >= 0 ? plotOf.get(puts[state.put].record) : undefined;
    if (place !== undefined && !shownPlots.includes(place)) return addPlot(place);
  }
  for (const plot of chart) plot.setScale("x", { min: state.from, max: state.to });
}
