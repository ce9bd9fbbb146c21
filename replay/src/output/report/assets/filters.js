// The bar of filters, and the sums of what they leave.

function makeFilters() {
  const select = (id, label, options, onchange) => el("select", { id, "aria-label": label, onchange },
    options.map(([value, text]) => el("option", { value }, text)));
  const input = el("input", {
    id: "query", type: "search", placeholder: "PV, record, user, host", "aria-label": "Search PV, record, user, host",
    spellcheck: "false", autocomplete: "off", oninput: (event) => choose({ query: event.target.value }, true),
  });
  return el("section", { id: "filters", "aria-label": "Filters" },
    el("button", { id: "range", type: "button", title: "Whole log", onclick: () => choose({ from: WHOLE[0], to: WHOLE[1] }) }),
    select("by-ioc", "IOC", [[-1, "All IOCs"], ...iocs.map((ioc) => [ioc.number, ioc.name])], (event) => choose({ ioc: Number(event.target.value) })),
    select("by-user", "User", [[-1, "All users"], ...rankedWriters.slice(0, 500).map((w) => [w, writerName(w)])],
      (event) => choose({ writer: Number(event.target.value) })),
    select("by-kind", "Kind of put", KINDS, (event) => choose({ kind: event.target.value })),
    el("div", { id: "search" }, input, el("kbd", { "aria-hidden": "true" }, "/")),
    el("output", { id: "sums", "aria-live": "polite" }),
    el("p", { class: "printed", id: "printed" }));
}

function drawFilters() {
  const range = $("range");
  range.className = isWhole() ? "" : "narrow";
  range.replaceChildren(`${when(state.from, 3)} – ${when(state.to, 3)}`, el("span", {}, length(state.to - state.from)),
    isWhole() ? "" : el("span", { "aria-hidden": "true" }, "×"));
  $("by-ioc").value = state.ioc;
  $("by-user").value = state.writer;
  $("by-kind").value = state.kind;
  if ($("query").value !== state.query) $("query").value = state.query;
  const [from, to] = [state.from, state.to];
  const least = incomplete(from, to) ? "≥ " : "";
  let processed = 0;
  for (const ioc of iocs) if (state.ioc < 0 || state.ioc === ioc.number) processed += counted(ioc.bins, from, to);
  // the page has not kept all
  const of = (all, total) => (all.length < total ? "≥ " : least);
  const part = (n, word, sign) => [el("b", {}, sign + count(n)), ` ${word}`];
  const ofMany = (n, one, sign) => part(n, n === 1 ? one : `${one}s`, sign);
  const shownPuts = puts.filter(putChosen).length;
  const shownAlarms = alarms.filter((alarm) => isChosenTime(alarm.time) && alarmFits(alarm)).length;
  $("sums").replaceChildren(...ofMany(shownPuts, "put", of(puts, D.puts.total)), " · ",
    ...ofMany(shownAlarms, "alarm", of(alarms, D.alarms.total)), " · ", ...part(processed, "processed", least));
  const words = [`Shown: ${when(from, 3)} to ${when(to, 3)}`];
  if (state.ioc >= 0) words.push(`IOC ${iocName(state.ioc)}`);
  if (state.writer >= 0) words.push(`user ${writerName(state.writer)}`);
  if (state.kind) words.push(KINDS.find(([kind]) => kind === state.kind)[1].toLowerCase());
  if (state.query) words.push(`“${state.query}”`);
  $("printed").textContent = words.join(", ") + ".";
}
