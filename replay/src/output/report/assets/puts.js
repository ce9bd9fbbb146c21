// The table of puts. Only the rows in sight are in the document; series of scripts are folded to a line.

const ROW = 25;
const opened = new Set();
let rows = [];
let ascending = true;

function changeText(put) {
  if (put.flags & ACKNOWLEDGES) return put.value;
  if (put.flags & NOT_WRITTEN) return `not written (asked ${put.asked || put.value})`;
  const known = put.flags & NEW_KNOWN;
  if (put.refused && !known) return `not known (asked ${put.value})`;
  const old = put.flags & OLD_KNOWN ? put.old + " " : "";
  const doubt = !known ? " if it arrived" : put.flags & INEXACT ? " (may not be what this put left)" : "";
  return `${old}→ ${put.value}${doubt}${put.asked ? ` (asked ${put.asked})` : ""}`;
}

function makePuts() {
  const columns = [["Time ↑", 15.5], ["PV", 19], ["Old → new", 25], ["User", 20], ["IOC", 8.5], ["Result", 12]];
  const head = columns.map(([name, width], i) => el("th", { scope: "col", style: null, id: i ? null : "by-time", "data-width": width }, name));
  const table = el("table", { "aria-label": "Puts" }, el("colgroup", {}, columns.map(([, width]) => {
    const column = el("col");
    column.style.width = `${width}%`;
    return column;
  })), el("thead", {}, el("tr", {}, head)), el("tbody", { id: "put-rows" }));
  const scroll = el("div", { class: "scroll", id: "put-scroll", tabindex: "0", role: "region", "aria-label": "Puts, scrollable", onscroll: drawRows }, table);
  head[0].addEventListener("click", () => {
    ascending = !ascending;
    head[0].textContent = ascending ? "Time ↑" : "Time ↓";
    drawPuts();
  });
  return el("section", { id: "puts", class: "card" },
    el("div", { class: "bar" }, el("h3", {}, "Puts"), el("span", { class: "count", id: "put-count" }),
      el("span", { class: "push", "aria-hidden": "true" }, el("kbd", {}, "j"), el("kbd", {}, "k"))), scroll);
}

// The rows: puts, and a line for each folded series, at its first put.
function listPuts() {
  const chosen = puts.filter(putChosen);
  const series = new Map();
  rows = [];
  for (const put of chosen) {
    const keep = put.refused || put.otherwise || put.flags & UNKNOWN || put.number === state.put;
    const key = seriesOf(put);
    if (!folded.has(key) || state.kind) {
      rows.push({ put });
      continue;
    }
    if (!series.has(key)) {
      const row = { key, writer: put.writer, pv: put.pv, number: 0, first: put.time, last: put.time };
      series.set(key, row);
      rows.push({ series: row });
    }
    const row = series.get(key);
    row.number++;
    row.last = put.time;
    if (keep || opened.has(key)) rows.push({ put });
  }
  if (!ascending) rows.reverse();
  const hidden = chosen.length - rows.filter((row) => row.put).length;
  return { chosen: chosen.length, hidden };
}

function drawPuts() {
  const { chosen, hidden } = listPuts();
  const kept = puts.length < D.puts.total ? ` kept here, of ${count(D.puts.total)} ${OF_ALL}` : "";
  $("put-count").textContent = `${count(chosen)} of ${count(puts.length)}${kept}${hidden ? `, ${count(hidden)} folded` : ""}`
    + (kept ? "; iocreplay puts LOG shows all" : "");
  drawRows();
}

function drawRows(all) {
  const scroll = $("put-scroll");
  const everything = all === true;
  const first = everything ? 0 : Math.max(0, Math.floor(scroll.scrollTop / ROW) - 10);
  const last = everything ? Math.min(rows.length, 3000) : Math.min(rows.length, first + Math.ceil(scroll.clientHeight / ROW) + 30);
  const space = (height) => {
    const row = el("tr", { "aria-hidden": "true" }, el("td", { colspan: 6 }));
    row.firstChild.style.height = `${height}px`;
    row.firstChild.style.border = row.firstChild.style.padding = "0";
    return row;
  };
  const shown = rows.slice(first, last).map((row) => (row.series ? seriesRow(row.series) : putRow(row.put)));
  if (first > 0) shown.unshift(space(first * ROW));
  if (last < rows.length) shown.push(space((rows.length - last) * ROW));
  if (!rows.length) shown.push(el("tr", {}, el("td", { colspan: 6, class: "dim" }, puts.length ? "No put matches the time and the filters." : D.chosen ? "No put of those asked for is in this log." : "No put from outside the IOCs is in this log.")));
  $("put-rows").replaceChildren(...shown);
}

function userCell(put) {
  const dot = el("i", { class: "dot", "aria-hidden": "true" });
  dot.style.background = `var(--${userColour(put.writer)})`;
  return el("td", { class: "who", title: `${writerName(put.writer)} ${put.from} ${put.address} (${put.via})` }, dot, writerName(put.writer), " ", el("small", {}, put.from));
}

function putRow(put) {
  const denied = (put.flags & (DENIED | FAILED)) !== 0;
  const value = el("td", { class: "value", title: changeText(put) });
  if (put.flags & ACKNOWLEDGES) value.append(put.value);
  else if (put.flags & NOT_WRITTEN || (denied && !(put.flags & NEW_KNOWN))) {
    value.append(el("i", {}, put.flags & NOT_WRITTEN ? "not written" : "not known"), " ", el("span", { class: "asked" }, `asked ${put.asked || put.value}`));
  }
  else {
    const known = (put.flags & NEW_KNOWN) !== 0;
    const old = put.flags & OLD_KNOWN ? put.old : el("span", { class: "dim" }, "?");
    value.append(old, el("span", { class: "dim" }, " → "), el("b", {}, put.value));
    if (!known) value.append(" ", el("i", { class: "dim" }, "if it arrived"));
    else if (put.flags & INEXACT) value.append(" ", el("i", { class: "dim", title: "may not be what this put left" }, "?"));
    if (put.asked) value.append(" ", el("span", { class: "asked" }, `asked ${put.asked}`));
  }
  const result = put.flags & DENIED ? "⊘ denied" : put.status;
  const ms = put.ms === null || put.flags & (DENIED | FAILED) ? "" : " " + length(put.ms);
  return el("tr", {
    class: denied ? "denied" : null, "data-put": put.number, "aria-selected": put.number === state.put ? "true" : "false",
    onclick: () => selectPut(put.number),
  }, el("td", {}, timeElement(put.time)), el("td", { class: "name", title: put.pv }, put.pv), value, userCell(put),
    el("td", { title: iocName(put.ioc) }, iocName(put.ioc) || el("span", { class: "dim" }, "?")),
    el("td", { class: "mono", title: result + ms }, put.flags & UNKNOWN ? el("i", { class: "dim" }, "unknown") : result, ms));
}

function seriesRow(series) {
  const open = opened.has(series.key);
  const every = series.number > 1 ? `every ${length((series.last - series.first) / (series.number - 1))}` : "";
  const toggle = () => {
    if (open) opened.delete(series.key);
    else opened.add(series.key);
    drawPuts();
  };
  return el("tr", { class: "fold", onclick: toggle },
    el("td", { class: "mono" }, el("button", { type: "button", class: "fold-button", "aria-expanded": String(open) }, open ? "▾" : "▸"), " ", plural(series.number, "put")),
    el("td", { class: "name" }, series.pv), el("td", {}, every), userCell({ writer: series.writer, from: "", address: "", via: "" }), el("td"), el("td"));
}

// Chooses a put, and what belongs to it: its chain, its plot. Never scrolls the page.
function selectPut(number) {
  if (number < 0 || number >= puts.length) return;
  const put = puts[number];
  const change = { put: number };
  if (chainsBySerial.has(put.chain)) change.chain = put.chain;
  choose(change);
}

// The next or previous put that is listed.
function stepPut(by) {
  listPuts();
  const listed = rows.filter((row) => row.put).map((row) => row.put.number);
  if (!listed.length) return;
  const at = listed.indexOf(state.put);
  const next = at < 0 ? (by > 0 ? 0 : listed.length - 1) : Math.max(0, Math.min(listed.length - 1, at + by));
  selectPut(listed[next]);
  listPuts();
  const row = rows.findIndex((row) => row.put && row.put.number === listed[next]);
  const scroll = $("put-scroll");
  const top = row * ROW, view = scroll.clientHeight - 40;
  if (top < scroll.scrollTop) scroll.scrollTop = top;
  else if (top > scroll.scrollTop + view - ROW) scroll.scrollTop = top - view + ROW;
}
