// Choosing a time with the pointer: on the lanes, on the overviews, on plots.

let dragged = null;

// The overview: its handles move, its middle moves both, elsewhere a new time begins.
function brushOverview(canvas, left, right, height) {
  let drag = null;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    const width = box.width - left - right;
    const x = event.clientX - box.left - left;
    return { x, y: event.clientY - box.top, time: WHOLE[0] + (Math.max(0, Math.min(width, x)) / width) * (WHOLE[1] - WHOLE[0]), perPx: (WHOLE[1] - WHOLE[0]) / width };
  };
  const part = (p) => {
    const near = 7 * p.perPx;
    if (Math.abs(p.time - state.from) < near) return "from";
    if (Math.abs(p.time - state.to) < near) return "to";
    return p.time > state.from && p.time < state.to && !isWhole() ? "both" : "new";
  };
  canvas.addEventListener("pointerdown", (event) => {
    const p = at(event);
    if (event.button !== 0 || p.y > height || p.x < -8) return;
    remember();
    drag = { part: part(p), time: p.time, from: state.from, to: state.to, moved: false };
    canvas.setPointerCapture(event.pointerId);
    event.stopImmediatePropagation();
  });
  canvas.addEventListener("pointermove", (event) => {
    const p = at(event);
    if (!drag) {
      if (p.y <= height) canvas.style.cursor = { from: "ew-resize", to: "ew-resize", both: "grab", new: "crosshair" }[part(p)];
      return;
    }
    const by = p.time - drag.time;
    drag.moved = drag.moved || Math.abs(by) > 2 * p.perPx;
    if (!drag.moved) return;
    if (drag.part === "both") choose(setRange(drag.from + by, drag.to + by), true);
    else if (drag.part === "from") choose({ from: Math.min(p.time, drag.to - p.perPx), to: drag.to }, true);
    else if (drag.part === "to") choose({ from: drag.from, to: Math.max(p.time, drag.from + p.perPx) }, true);
    else choose({ from: Math.min(drag.time, p.time), to: Math.max(drag.time, p.time) }, true);
  });
  const stop = () => {
    if (drag && !drag.moved) past.pop();
    drag = null;
  };
  canvas.addEventListener("pointerup", stop);
  canvas.addEventListener("pointercancel", stop);
}

function brushLanes(canvas) {
  let start = null;
  const x = (event) => {
    const box = canvas.getBoundingClientRect();
    return Math.max(LEFT, Math.min(LEFT + laneWidth, event.clientX - box.left));
  };
  canvas.addEventListener("pointerdown", (event) => {
    const box = canvas.getBoundingClientRect();
    if (event.button !== 0 || event.clientY - box.top <= OVERVIEW || event.clientX - box.left < LEFT) return;
    start = x(event);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const y = event.clientY - box.top;
    if (start === null) {
      if (y > OVERVIEW) canvas.style.cursor = "crosshair";
      showTip(event, describe(event.clientX - box.left, y));
      return;
    }
    showTip(event, "");
    dragged = [Math.min(start, x(event)), Math.max(start, x(event))];
    drawTimeline();
  });
  const stop = (event, done) => {
    if (start === null) return;
    const chosen = dragged;
    start = dragged = null;
    if (done && chosen && chosen[1] - chosen[0] > 3) choose({ from: timeAt(chosen[0]), to: timeAt(chosen[1]) });
    else {
      const box = canvas.getBoundingClientRect();
      const put = done ? putAt(event.clientX - box.left, event.clientY - box.top) : null;
      if (put) selectPut(put.number);
      else drawTimeline();
    }
  };
  canvas.addEventListener("pointerup", (event) => stop(event, true));
  canvas.addEventListener("pointercancel", (event) => stop(event, false));
  canvas.addEventListener("pointerleave", () => $("tip").hidden = true);
  canvas.addEventListener("dblclick", () => choose({ from: WHOLE[0], to: WHOLE[1] }));
}

function zoomBy(factor, around) {
  const middle = around === undefined ? (state.from + state.to) / 2 : around;
  choose({ from: middle - (middle - state.from) * factor, to: middle + (state.to - middle) * factor });
}

function brushWheel(element, timeOf) {
  element.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoomBy(event.deltaY > 0 ? 1.25 : 0.8, timeOf(event));
  }, { passive: false });
}

function putAt(x, y) {
  const lane = lanes.find((lane) => lane.kind === "user" && y >= lane.y && y < lane.y + lane.height);
  if (!lane) return null;
  let best = null, distance = 7;
  for (const put of puts) {
    if (laneOf(put.writer) !== laneOf(lane.writer) || !isChosenTime(put.time)) continue;
    const d = Math.abs(xOf(put.time) - x);
    if (d < distance) [best, distance] = [put, d];
  }
  return best;
}

// What is at a place of the lanes, in words.
function describe(x, y) {
  if (x < LEFT) return "";
  if (y < OVERVIEW) return "";
  const time = timeAt(x);
  const put = putAt(x, y);
  if (put) return `${when(put.time, 3)}  ${writerName(put.writer)}\n${put.pv} ${changeText(put)}`;
  const near = (t) => Math.abs(xOf(t) - x) < 5;
  const mark = D.marks.find(([t]) => near(t));
  if (mark) return `${when(mark[0], 3)}  mark\n${mark[1]}`;
  const gap = D.gaps.concat(D.losses).find((gap) => gap.from <= time && gap.to >= time);
  const lane = lanes.find((lane) => y >= lane.y && y < lane.y + lane.height);
  let text = when(time, 3);
  if (lane && lane.kind === "ioc" && lane.ioc.end !== null && near(lane.ioc.end)) text += `\n${lane.ioc.name}: ${lane.ioc.how || "ended"}`;
  if (lane && lane.kind === "severity") {
    let number = 0;
    for (const step of severitySteps) if (step.time <= time) number = step.number[lane.severity];
    text += `\n${plural(number, "record")} ${SEVERITIES[lane.severity]}`;
  }
  if (lane && lane.kind === "processing") {
    for (const ioc of iocs.slice(0, 12)) {
      const place = Math.floor((time - ioc.bins.start) / ioc.bins.width);
      const n = ioc.bins.counts[place];
      if (n !== undefined) text += `\n${ioc.name}: ${count(Math.round((n * 1000) / ioc.bins.width))} records/s`;
    }
  }
  if (gap) text += gap.count ? `\n${count(gap.count)} ${gap.what} lost: ${gap.cause}` : `\nnot recorded: ${gap.cause}`;
  return text;
}

function showTip(event, text) {
  const tip = $("tip");
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
  tip.style.left = `${left}px`;
  tip.style.top = `${event.clientY + 16}px`;
}
