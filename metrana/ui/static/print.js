// Charts on paper: drawings of their own, which fit any width, also of charts that haven't been looked at.

import { carryOutNow } from "./loader.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [420, 180];
const FRAME = { left: 58, right: WIDTH - 14, top: 10, bottom: HEIGHT - 24 };

let drawn = 0; // names the clips apart

// A browser prints as soon as this returns.
export function drawOnPaper(page) {
  carryOutNow(page.planRest());
  for (const chart of page.charts.values()) {
    page.setLines(chart);
    chart.draw();
    chart.paper.replaceChildren(drawChart(chart));
  }
}

export function clearPaper(page) {
  for (const chart of page.charts.values()) chart.paper.replaceChildren();
}

// On paper the colours are those of the light page.
const paperColor = (line) => `var(--color-${line.index})`;

function drawChart(chart) {
  const { start, end, low, high, ticks: [xTicks, yTicks], shapes } = chart.layOut(WIDTH, paperColor);
  const across = (x) => FRAME.left + ((x - start) / (end - start)) * (FRAME.right - FRAME.left);
  const up = (y) => FRAME.bottom - (y / 2 - low / 2) / (high / 2 - low / 2) * (FRAME.bottom - FRAME.top);
  const { line, band, dots } = shapes;
  const svg = part("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" });
  const clip = `paper-${drawn++}`;
  const area = part("clipPath", { id: clip });
  area.append(part("rect", { x: FRAME.left, y: FRAME.top, width: FRAME.right - FRAME.left, height: FRAME.bottom - FRAME.top }));
  const inside = part("g", { "clip-path": `url(#${clip})` });
  svg.append(area);
  for (const [at, text] of yTicks) {
    svg.append(part("line", { x1: FRAME.left, x2: FRAME.right, y1: up(at), y2: up(at), class: "grid-line" }));
    svg.append(label(text, FRAME.left - 6, up(at) + 4, "end"));
  }
  for (const [at, text] of xTicks) svg.append(label(text, across(at), HEIGHT - 7, "middle"));
  const trace = (xs, ys) => Array.from(xs, (x, i) => `${i ? "L" : "M"}${across(x).toFixed(1)} ${up(ys[i]).toFixed(1)}`).join("");
  band.xs.forEach((xs, i) => inside.append(part("path", { d: `${trace(xs, band.ys[i])}Z` }, { fill: band.color[i], opacity: band.alpha[i] })));
  line.xs.forEach((xs, i) => inside.append(part("path", {
    d: trace(xs, line.ys[i]), fill: "none", "stroke-dasharray": line.dash[i] === "dashed" ? "6 4" : "none",
  }, { stroke: line.color[i], opacity: line.alpha[i] })));
  Array.from(dots.x).forEach((x, i) =>
    inside.append(part("circle", { cx: across(x), cy: up(dots.y[i]), r: 2.5 }, { fill: dots.color[i], opacity: dots.alpha[i] })));
  svg.append(inside);
  return svg;
}

function part(tag, attributes, style = {}) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  Object.assign(element.style, style);
  return element;
}

function label(text, x, y, anchor) {
  const element = part("text", { x, y, "text-anchor": anchor });
  element.textContent = text;
  return element;
}
