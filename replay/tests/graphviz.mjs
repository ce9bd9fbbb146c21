// Draws a graph with Graphviz and prints what the drawing shows, as JSON: an array [from, to, label, dashed] for each arrow.
//
// usage: node graphviz.mjs MODULE FILE (the file index.js of @hpcc-js/wasm-graphviz, and DOT)
import { readFileSync } from "node:fs";

const [module, file] = process.argv.slice(2);
const { Graphviz } = await import(module);
const graphviz = await Graphviz.load();
// (what it writes as JSON has each backslash twice)
const svg = graphviz.layout(readFileSync(file, "utf8"), "svg", "dot");

const letters = { amp: "&", lt: "<", gt: ">", quot: '"' };
const decoded = (text) =>
    text.replace(/&(?:#(\d+)|(\w+));/g, (_, code, name) => (code ? String.fromCodePoint(code) : letters[name]));
const names = new Map();
const arrows = [];
for (const [, kind, body] of svg.matchAll(/<g id="\w+" class="(node|edge)">\n(.*?)<\/g>/gs)) {
    const title = decoded(body.match(/<title>(.*?)<\/title>/s)[1]);
    const label = [...body.matchAll(/<text [^>]*>(.*?)<\/text>/gs)].map((text) => decoded(text[1])).join("\n");
    if (kind === "node") names.set(title, label);
    else arrows.push([...title.split("->"), label, body.includes("stroke-dasharray")]);
}
console.log(JSON.stringify(arrows.map(([from, to, ...rest]) => [names.get(from), names.get(to), ...rest])));
