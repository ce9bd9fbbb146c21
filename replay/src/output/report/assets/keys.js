// The keyboard.

const KEYS = [["/", "search"], ["j k", "next, previous put"], ["← →", "earlier, later"], ["+ −", "zoom in, out"],
  ["Backspace", "what was chosen before"], ["Esc", "whole log"], ["Enter", "show a key moment"], ["?", "these keys"],
  ["drag", "choose a time on the lanes, the overview or a plot"], ["Ctrl + wheel", "zoom"], ["double click", "whole log"]];

function makeHelp() {
  const close = el("button", { type: "button", onclick: () => $("keys").close() }, "Close");
  return el("dialog", { id: "keys", "aria-label": "Keys" }, el("h3", {}, "Keys"),
    el("dl", {}, KEYS.map(([key, what]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)])), close);
}

function listenToKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
    const field = event.target.closest && event.target.closest("input, select, textarea");
    if (field) {
      if (event.key === "Escape") {
        if (field.id === "query" && state.query) choose({ query: "" });
        field.blur();
      }
      return;
    }
    const span = state.to - state.from;
    const action = {
      "/": () => {
        $("query").focus();
        $("query").select();
      },
      j: () => stepPut(1),
      k: () => stepPut(-1),
      ArrowLeft: () => choose({ from: state.from - span / 4, to: state.to - span / 4 }),
      ArrowRight: () => choose({ from: state.from + span / 4, to: state.to + span / 4 }),
      "+": () => zoomBy(0.5),
      "=": () => zoomBy(0.5),
      "-": () => zoomBy(2),
      Escape: () => choose({ from: WHOLE[0], to: WHOLE[1] }),
      Backspace: back,
      "?": () => $("keys").showModal(),
    }[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
