// Puts the page together.

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  readColours();
}

function followTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(dark.matches ? "dark" : "light");
  let own = false;
  dark.addEventListener("change", () => {
    if (own) return;
    setTheme(dark.matches ? "dark" : "light");
    redraw();
  });
  $("theme").addEventListener("click", () => {
    own = true;
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    redraw();
  });
  let before = "";
  addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme;
    setTheme("light");
    redraw();
    drawRows(true);
  });
  addEventListener("afterprint", () => {
    setTheme(before || "light");
    redraw();
  });
}

function redraw() {
  makePlots();
  makeUsagePlots();
  draw();
}

function goTo(section, behavior = "auto") {
  const target = document.getElementById(section);
  if (target) target.scrollIntoView({ block: "start", behavior });
}

// Links of the page choose something, or lead to a section, or both.
function listenToLinks() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (!link) return;
    event.preventDefault();
    const { change, section } = fromHash(link.getAttribute("href"));
    if (Object.keys(change).length) choose(change);
    if (section) requestAnimationFrame(() => goTo(section));
  });
  addEventListener("hashchange", () => choose({ ...START, ...fromHash(location.hash).change }));
}

const tip = el("div", { id: "tip", role: "status" });
tip.hidden = true;
layOut();
$("app").append(
  el("section", { id: "timeline", class: "card", "aria-label": "Timeline; the tables below hold all that it shows" },
    el("canvas", { id: "lanes", role: "img", "aria-label": "Timeline of IOCs, puts, alarms and processing" })),
  makeFilters(),
  el("div", { class: "two" }, makePuts(), makeValues()),
  makeChains(),
  el("div", { class: "two" }, makeAlarms(), makeTop()));
if (D.usage.length) $("app").append(makeUsage());
document.body.append(tip, makeHelp());
followTheme();
const { change, section } = fromHash(location.hash);
state = { ...START, ...change };
views.push(drawTimeline, drawMini, drawFilters, drawPuts, drawValues, drawChains, drawAlarms, drawTop, drawUsage);
brushOverview($("lanes"), LEFT, RIGHT, OVERVIEW);
brushOverview($("mini-canvas"), 1, 1, 28);
brushLanes($("lanes"));
brushWheel($("lanes"), (event) => timeAt(event.offsetX));
listenToKeys();
listenToLinks();
$("help").addEventListener("click", () => $("keys").showModal());
new IntersectionObserver(([entry]) => {
  $("mini").classList.toggle("shown", !entry.isIntersecting);
  drawMini();
}, { rootMargin: "-60px 0px 0px 0px" }).observe($("timeline"));
let resized = 0;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(redraw, 100);
});
redraw();
if (section) goTo(section, "instant");
document.documentElement.dataset.ready = "yes";
