// Chains: a list, and the tree of the chosen one with the time of each step.

const KIND = ["put", "db put", "", "CA link", ""];
const MAX_LISTED = 300;
let byTime = false;
let axis = "";
const closed = new Set();

function makeChains() {
  const sort = (text, value) => el("button", { type: "button", "aria-pressed": "false", "data-by-time": value, onclick: () => {
    byTime = value === "yes";
    drawChains();
  } }, text);
  return el("section", { id: "chains", class: "card" },
    el("div", { class: "bar" }, el("h3", {}, "Chains"), el("span", { class: "count", id: "chain-count" }),
      el("span", { class: "push toggle" }, sort("Notable first", "no"), sort("By time", "yes"))),
    el("div", { class: "chains" }, el("ul", { id: "chain-list", role: "listbox", "aria-label": "Chains", tabindex: "0" }), el("div", { id: "chain" })));
}

function chainFits(chain) {
  if (state.ioc >= 0 && !chain.place.includes(state.ioc)) return false;
  const cause = causes[chain.cause];
  if (state.writer >= 0 && (!cause || cause.who !== writerName(state.writer))) return false;
  return matches(S[chain.title], cause ? cause.who : "", ...chain.name.map((name) => S[name]));
}

function chainsShown() {
  const shown = D.chains.filter((chain) => chain.time <= state.to && chain.time + chain.ms >= state.from && chainFits(chain));
  if (byTime) shown.sort((a, b) => a.time - b.time || a.serial - b.serial);
  return shown;
}

function causeBadge(kind) {
  return el("span", { class: `badge ${kind === "put" ? "put" : kind.endsWith("link") ? "link" : ""}` }, kind);
}

function drawChains() {
  const shown = chainsShown();
  const kept = D.chains.length < D.chain_total ? `, of ${count(D.chain_total)} ${OF_ALL}; iocreplay traces LOG shows all` : "";
  $("chain-count").textContent = `${count(shown.length)} of ${count(D.chains.length)} kept here${kept}`;
  document.querySelectorAll("[data-by-time]").forEach((button) => {
    button.setAttribute("aria-pressed", String((button.dataset.byTime === "yes") === byTime));
  });
  const list = $("chain-list");
  const open = chainsBySerial.has(state.chain) ? D.chains[chainsBySerial.get(state.chain)] : shown[0];
  list.replaceChildren(...shown.slice(0, MAX_LISTED).map((chain) => chainRow(chain, chain === open)));
  if (!shown.length) list.append(el("li", { class: "more" }, "No chain matches the time and the filters."));
  drawTree(open);
}

function chainRow(chain, chosen) {
  const cause = causes[chain.cause];
  const kind = !cause ? "unknown" : cause.through ? "CP link" : cause.kind;
  const asked = cause && cause.value && !cause.through ? ` ← ${cause.value}` : "";
  return el("li", { role: "option", "aria-selected": String(chosen), "data-chain": chain.serial, onclick: () => choose({ chain: chain.serial }) },
    el("div", { class: "first" }, causeBadge(kind), " ", el("span", { class: "name" }, S[chain.title]), asked),
    el("div", { class: "side" }, chain.severity ? severityBadge(chain.severity) : "", el("div", { class: "more" }, cause ? cause.who : "")),
    el("div", { class: "more" }, el("span", { class: "number" }, when(chain.time, 3)), `  ${plural(chain.processed, "step")}  `,
      el("span", { class: "number" }, length(chain.ms)), chain.iocs > 1 ? [" ", el("span", { class: "badge hop" }, `${chain.iocs} IOCs`)] : ""));
}

// Places on the axis of a tree: linear, or logarithmic where one step is far longer than most.
function scaleOf(chain) {
  const total = Math.max(chain.ms * 1000, 0.1, ...chain.start.map((s, i) => s + (chain.length[i] || 0)));
  const lengths = chain.length.filter((l) => l !== null && l > 0).sort((a, b) => a - b);
  const median = lengths[lengths.length >> 1] || 1;
  const log = axis ? axis === "log" : total / median > 300;
  const unit = 5;
  const place = log
    ? (us) => Math.log1p(Math.max(0, us) / unit) / Math.log1p(total / unit)
    : (us) => Math.max(0, us) / total;
  const marks = log
    ? [10, 100, 1e3, 1e4, 1e5, 1e6, 1e7].filter((us) => us < total * 0.9 && place(us) > 0.1)
    : [0.25, 0.5, 0.75].map((part) => part * total);
  return { log, total, place: (us) => place(us) * 88, marks };
}

function causeWords(cause) {
  if (!cause) return "cause not known";
  const who = cause.who ? `by ${cause.who}` : "";
  if (!cause.through) return cause.kind === "put" ? who : cause.what;
  const value = cause.value ? ` ← ${cause.value}` : "";
  return `begun by ${cause.kind} ${cause.what}${value} ${who}, by CP link of ${cause.through}`;
}

function drawTree(chain) {
  const box = $("chain");
  box.replaceChildren();
  if (!chain) return;
  const cause = causes[chain.cause];
  const scale = scaleOf(chain);
  const words = causeWords(cause);
  const own = cause && !cause.through;
  box.append(el("div", { class: "title" }, causeBadge(own ? cause.kind : cause ? "CP link" : "unknown"),
    el("span", {}, el("b", { class: "name" }, S[chain.title]), own && cause.value ? ` ← ${cause.value}` : ""), words,
    el("span", { class: "number" }, when(chain.time, 3)), el("span", { class: "number" }, length(chain.ms)),
    chain.iocs > 1 ? el("span", { class: "badge hop" }, `crosses ${chain.iocs} IOCs`) : "",
    chain.open ? "not seen to end" : "",
    el("span", { class: "push" }, el("button", { type: "button", onclick: () => {
      axis = scale.log ? "linear" : "log";
      drawTree(chain);
    } }, `Time: ${scale.log ? "log" : "linear"}`))));
  const rows = [treeAxis(scale)];
  const depth = [];
  const hidden = new Set();
  const hasChildren = new Set(chain.parent);
  chain.parent.forEach((parent, i) => {
    depth[i] = parent < 0 ? 0 : depth[parent] + 1;
    if (parent >= 0 && (hidden.has(parent) || closed.has(`${chain.serial}.${parent}`))) {
      hidden.add(i);
      return;
    }
    rows.push(treeRow(chain, i, depth[i], hasChildren.has(i), scale));
  });
  const tree = el("div", { id: "tree", role: "tree", "aria-label": "Steps of the chain" }, rows);
  box.append(tree);
  if (chain.left_out) box.append(el("p", { class: "none" }, `${plural(chain.left_out, "more step")} are left out here; iocreplay traces LOG shows them.`));
}

function treeAxis(scale) {
  const right = el("div", { class: "right" }, el("span", {}, "0"));
  right.firstChild.style.left = "4px";
  for (const us of scale.marks) {
    const mark = el("span", {}, `+${us < 1000 ? `${+us.toFixed(us < 10 ? 1 : 0)} µs` : us < 1e6 ? `${+(us / 1000).toFixed(1)} ms` : `${+(us / 1e6).toFixed(1)} s`}`);
    mark.style.left = `${scale.place(us)}%`;
    right.append(mark);
  }
  return el("div", { class: "row axis" }, el("div", { class: "left" }, "Step"), right);
}

function treeRow(chain, i, depth, parent, scale) {
  const key = `${chain.serial}.${i}`;
  const left = el("div", { class: "left" });
  for (let d = 0; d < Math.min(depth, 24); d++) left.append(el("span", { class: "guide" }));
  const fold = el("button", { class: "fold", type: "button", "aria-label": closed.has(key) ? "Open" : "Close", onclick: () => {
    if (closed.has(key)) closed.delete(key);
    else closed.add(key);
    drawTree(chain);
  } }, parent ? (closed.has(key) ? "▶" : "▼") : "");
  if (!parent) fold.disabled = true;
  left.append(fold);
  const kind = chain.kind[i];
  if (chain.hop[i]) left.append(el("span", { class: "badge hop" }, `⇢ ${iocName(chain.place[i]) || "?"}`));
  if (KIND[kind]) left.append(causeBadge(KIND[kind]));
  left.append(el("span", { class: "step", title: `${S[chain.name[i]]} ${S[chain.detail[i]]}` }, el("span", { class: "name" }, S[chain.name[i]]), " ", el("small", {}, S[chain.detail[i]])));
  left.append(el("span", { class: "end", title: S[chain.value[i]] }, el("span", { class: "number" }, S[chain.value[i]]), chain.severities[i] ? severityBadge(chain.severities[i]) : ""));
  const right = el("div", { class: "right" });
  const took = chain.length[i];
  if (kind !== 4) {
    const bar = el("i");
    const from = scale.place(chain.start[i]), to = scale.place(chain.start[i] + (took || 0));
    const colour = `var(--${iocColour(chain.place[i])})`;
    bar.style.left = `${from}%`;
    bar.style.width = `${Math.max(0.4, to - from)}%`;
    if (kind === 2) bar.style.background = colour;
    else bar.style.border = `1px solid ${colour}`;
    const text = el("span", {}, took === null ? "" : length(took / 1000));
    if (to - from > 24) {
      text.style.left = `calc(${from}% + 5px)`;
      if (kind === 2) text.style.color = "var(--card)";
    } else if (to > 74) text.style.right = `calc(${100 - from}% + 5px)`;
    else text.style.left = `calc(${Math.max(to, from + 0.4)}% + 6px)`;
    right.append(bar, text);
  }
  return el("div", { class: `row${chain.hop[i] ? " hop" : ""}`, role: "treeitem", "aria-level": depth + 1 }, left, right);
}
