// What an IOC used of the machine over the chosen time, one IOC at a time. Where nothing is known it is hatched.

let shownUsage = 0;
let usageCharts = [];
let usageFollowed = -1;
const USAGE_COLOURS = ["text1", "user1", "user2", "user6", "user3"];

function makeUsage() {
  const several = new Set(iocs.map((ioc) => ioc.host)).size > 1;
  const name = (ioc) => (ioc < 0 ? "unknown IOC" : iocName(ioc) + (several ? ` on ${iocs[ioc].host}` : ""));
  const choice = el("select", { id: "usage-ioc", "aria-label": "IOC whose resources are shown",
    onchange: (event) => showUsage(Number(event.target.value)) },
    D.usage.map((usage, number) => el("option", { value: number }, name(usage.ioc))));
  const left = [
    D.usage_left_out[0] ? `${plural(D.usage_left_out[0], "more IOC")} not shown` : "",
    D.usage_left_out[1] ? `${plural(D.usage_left_out[1], "line")} left out` : "",
  ].filter(Boolean);
  return el("section", { id: "resources", class: "card" },
    el("div", { class: "bar" }, el("h3", {}, "Resources"), choice,
      el("span", { class: "count" }, left.length ? `${left.join(", ")}; iocreplay health LOG has all` : ""),
      el("span", { class: "push legend", "aria-hidden": "true" }, el("span", {}, "▨ not known"))),
    el("div", { id: "usage" }));
}

function showUsage(number) {
  if (!(number >= 0 && number < D.usage.length)) return;
  shownUsage = number;
  $("usage-ioc").value = String(number);
  makeUsagePlots();
}

function makeUsagePlots() {
  for (const { chart } of usageCharts) chart.destroy();
  usageCharts = [];
  if (!D.usage.length) return;
  const place = $("usage");
  place.replaceChildren();
  const { ioc, plots } = D.usage[shownUsage];
  if (!plots.length) place.append(el("p", { class: "none" }, "No more room for this IOC; iocreplay health LOG has it."));
  for (const plot of plots) {
    const legend = plot.lines.length > 1 || plot.lines[0].name ? plot.lines.map((line, number) => {
      const dot = el("i", { class: "dot", "aria-hidden": "true" });
      dot.style.background = colours[USAGE_COLOURS[number % USAGE_COLOURS.length]];
      return el("span", { class: "line" }, dot, line.name || "all threads");
    }) : [];
    const about = [plot.units, plot.lines.some((line) => line.thinned) ? `min/max of ${count(plot.lines[0].seen)}` : ""];
    const box = el("div", { class: "plot", "data-usage": plot.title,
      "data-points": plot.lines.map((line) => line.time.length).join(" ") },
      el("h4", {}, el("span", { class: "name" }, plot.title), "  " + about.filter(Boolean).join(" · ") + " ", legend));
    place.append(box);
    usageCharts.push({ plot, chart: drawUsagePlot(box, plot, ioc) });
  }
  drawUsage();
}

// Times from which to which the first line is not known, the whole log over.
function unknownTimes(line) {
  const spans = [];
  let from = WHOLE[0];
  line.time.forEach((t, i) => {
    if (line.value[i] === null) from = from === null ? t : from;
    else if (from !== null) {
      if (t > from) spans.push([from, t]);
      from = null;
    }
  });
  if (from !== null && from < WHOLE[1]) spans.push([from, WHOLE[1]]);
  return spans;
}

// The lowest and highest value in the chosen time, with those that it begins with, and some room around.
function usageRange(plot) {
  let low = Infinity, high = -Infinity;
  const take = (value) => {
    if (value !== null) [low, high] = [Math.min(low, value), Math.max(high, value)];
  };
  for (const line of plot.lines) {
    let before = null;
    for (let i = 0; i < line.time.length && line.time[i] <= state.to; i++) {
      if (line.time[i] < state.from) before = line.value[i];
      else take(line.value[i]);
    }
    take(before);
  }
  if (low > high) return [0, 1];
  if (plot.zero) low = 0;
  const room = (high - low) * 0.09 || Math.abs(high) * 0.1 || 1;
  return [plot.zero ? 0 : Math.max(0, low - room), high + room];
}

function drawUsagePlot(box, plot, ioc) {
  const font = `11px ${colours.mono}`;
  // A gap begins where the point before it stands: the value goes on up to there.
  const columns = plot.lines.map((line) => {
    const times = [], values = [];
    line.time.forEach((t, i) => {
      if (line.value[i] === null && i > 0 && line.value[i - 1] !== null) {
        times.push(t, t + INSTANT);
        values.push(line.value[i - 1], null);
      } else {
        times.push(t);
        values.push(line.value[i]);
      }
    });
    return [times, values];
  });
  const unknown = unknownTimes(plot.lines[0]);
  const end = ioc >= 0 ? iocs[ioc].end : null;
  const options = {
    width: Math.max(200, box.clientWidth - 20), height: 104, legend: { show: false },
    cursor: { drag: { x: true, y: false, setScale: false }, y: false, points: { size: 5 } },
    select: { show: true },
    padding: [8, 4, 0, 0],
    scales: { x: { time: false }, y: { range: () => usageRange(plot) } },
    axes: [
      { size: 22, font, stroke: colours.text2, grid: { show: false }, ticks: { show: false }, values: (u, found) => {
        const { step } = ticks(u.scales.x.min, u.scales.x.max, ((u.scales.x.max - u.scales.x.min) / u.width) * 110);
        return found.map((t) => tickText(t, step));
      }, splits: (u) => ticks(u.scales.x.min, u.scales.x.max, ((u.scales.x.max - u.scales.x.min) / u.width) * 110).found },
      { size: 58, font, stroke: colours.text2, gap: 3, grid: { stroke: colours.line, width: 1 }, ticks: { show: false }, space: 24,
        values: (u, found, axis, space, step) => found.map((v) => tickNumber(v, step)) },
    ],
    series: [{}, ...plot.lines.map((line, number) => ({
      stroke: colours[USAGE_COLOURS[number % USAGE_COLOURS.length]], width: number ? 1.1 : 1.4,
      paths: uPlot.paths.stepped({ align: 1 }), points: { show: false }, spanGaps: false,
    }))],
    hooks: { draw: [(u) => {
      const { c, top, height, right, x, px } = area(u);
      for (const [from, to] of unknown) {
        if (to < state.from || from > state.to) continue;
        hatchTime(c, x(from), Math.max(x(to), x(from) + px), top, height, px);
      }
      if (end !== null && x(end) < right) {
        c.fillStyle = colours.text1;
        c.fillRect(x(end), top, 1.5 * px, height);
      }
      c.restore();
    }], setSelect: [(u) => {
      if (u.select.width > 3) {
        const [from, to] = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
        u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        choose({ from, to });
      }
    }] },
  };
  const made = new uPlot(options, uPlot.join(columns), box);
  made.over.addEventListener("dblclick", () => choose({ from: WHOLE[0], to: WHOLE[1] }));
  brushWheel(made.over, (event) => made.posToVal(event.offsetX, "x"));
  return made;
}

function drawUsage() {
  if (state.ioc !== usageFollowed) {
    usageFollowed = state.ioc;
    const place = D.usage.findIndex((usage) => usage.ioc === state.ioc);
    if (place >= 0 && place !== shownUsage) return showUsage(place);
  }
  for (const { chart } of usageCharts) chart.setScale("x", { min: state.from, max: state.to });
}
