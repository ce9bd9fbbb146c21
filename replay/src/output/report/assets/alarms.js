// Alarm transitions with their causes.

const MOST_ALARMS = 1000;

function makeAlarms() {
  const columns = [["Time", 17], ["Severity", 19], ["Record", 21], ["Status, value", 19], ["Caused by", 24]];
  const table = el("table", { "aria-label": "Alarms" }, el("colgroup", {}, columns.map(([, width]) => {
    const column = el("col");
    column.style.width = `${width}%`;
    return column;
  })), el("thead", {}, el("tr", {}, columns.map(([name]) => el("th", { scope: "col" }, name)))), el("tbody", { id: "alarm-rows" }));
  return el("section", { id: "alarms", class: "card" },
    el("div", { class: "bar" }, el("h3", {}, "Alarms"), el("span", { class: "count", id: "alarm-count" })),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Alarms, scrollable" }, table));
}

function drawAlarms() {
  const shown = alarms.filter((alarm) => isChosenTime(alarm.time) && alarmFits(alarm));
  const kept = alarms.length < D.alarms.total ? ` kept here, of ${count(D.alarms.total)} ${OF_ALL}; iocreplay alarms LOG shows all` : "";
  const more = shown.length > MOST_ALARMS ? `, the first ${count(MOST_ALARMS)} listed` : "";
  $("alarm-count").textContent = `${count(shown.length)} of ${count(alarms.length)}${kept}${more}`;
  const rows = shown.slice(0, MOST_ALARMS).map((alarm) => el("tr", {
    onclick: () => {
      const change = chainsBySerial.has(alarm.chain) ? { chain: alarm.chain } : {};
      const plot = plotOf.get(alarm.record);
      if (plot !== undefined && !shownPlots.includes(plot)) addPlot(plot);
      choose(change);
    },
    "aria-selected": alarm.chain && alarm.chain === state.chain ? "true" : "false",
  },
  el("td", { title: alarm.afterGap ? "transitions of this record before this one are left out" : null }, timeElement(alarm.time), alarm.afterGap ? " …" : ""),
  el("td", {}, el("span", { class: "dim" }, alarm.from < 0 ? "? → " : `${SEVERITIES[alarm.from] || alarm.from} → `), severityBadge(alarm.to)),
  el("td", { class: "name", title: recordName(alarm.record) }, recordName(alarm.record)),
  el("td", { title: `${alarm.status} ${alarm.value}` }, alarm.status, " ", el("span", { class: "mono dim" }, alarm.value)),
  causeCell(alarm)));
  if (!rows.length) rows.push(el("tr", {}, el("td", { colspan: 5, class: "dim" }, alarms.length ? "No alarm matches the time and the filters." : D.chosen ? "No record of those asked for was seen to go into alarm." : "No record was seen to go into alarm.")));
  $("alarm-rows").replaceChildren(...rows);
}

function causeCell(alarm) {
  const cause = alarm.cause;
  if (!cause) return el("td", { class: "dim" }, alarm.chain ? "not known" : "found by a snapshot: when is not known");
  const text = cause.kind === "CP link" ? cause.what.replace(/^.* from /, "from ") : cause.what;
  const through = cause.through ? `, by CP link of ${cause.through}` : "";
  return el("td", { title: `${cause.kind} ${cause.what} ${cause.who}${through}` }, causeBadge(cause.kind), " ",
    cause.kind === "put" ? el("span", { class: "name" }, text) : text, cause.who ? ` ${cause.who}` : "", through);
}
