// What happened most in the chosen time.

const MOST_TOP = 8;

function makeTop() {
  return el("section", { id: "top-lists", class: "card" },
    el("div", { class: "bar" }, el("h3", {}, "Top"), el("span", { class: "count" }, "in the chosen time")),
    el("div", { class: "tops", id: "tops" }));
}

function drawTop() {
  const [from, to] = [state.from, state.to];
  const fits = (record) => (state.ioc < 0 || iocOfRecord(record) === state.ioc) && matches(recordName(record));
  const processed = [];
  D.records.name.forEach((_, record) => {
    if (!fits(record)) return;
    const number = isWhole() ? D.records.processed[record] : counted(recordBins[record], from, to);
    if (number) processed.push([recordName(record), number, record]);
  });
  const chosen = puts.filter(putChosen);
  const tally = (items, key) => {
    const sums = new Map();
    for (const item of items) sums.set(key(item), (sums.get(key(item)) || 0) + 1);
    return [...sums].map(([name, number]) => [name, number]);
  };
  const chosenAlarms = alarms.filter((alarm) => isChosenTime(alarm.time) && alarmFits(alarm) && alarm.to > 0);
  const slowest = chainsShown().map((chain) => [S[chain.title], chain.ms, chain.serial]);
  const busiest = D.records.name.map((_, record) => [recordName(record), D.records.busy_ms[record], record]).filter(([, ms, record]) => ms > 0 && fits(record));
  const search = ([name]) => choose({ query: name });
  $("tops").replaceChildren(
    topList("Processed most", processed, count, search),
    topList("Put most", tally(chosen, (put) => put.pv), count, search),
    topList("Users by puts", tally(chosen, (put) => writerName(put.writer)), count, search),
    topList("Alarms by record", tally(chosenAlarms, (alarm) => recordName(alarm.record)), count, search),
    topList("Longest chains kept here", slowest, length, ([, , serial]) => choose({ chain: serial })),
    topList("Longest in processing, whole log", busiest, length, search));
}

function topList(title, all, format, onchoose) {
  const sorted = all.sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, MOST_TOP);
  const most = sorted.length ? sorted[0][1] : 1;
  return el("div", {}, el("h4", {}, title), sorted.length ? el("ol", {}, sorted.map((item) => {
    const bar = el("i", { "aria-hidden": "true" });
    bar.style.width = `${(100 * item[1]) / most}%`;
    return el("li", { onclick: () => onchoose(item) }, bar, el("span", { class: "name", title: item[0] }, item[0]), el("span", { class: "number" }, format(item[1])));
  })) : el("p", { class: "dim" }, "none"));
}
