// The card of one metric: its name, a line of text for each series, the figure, and a cursor over it.

import { make, makeName } from "./dom.js";
import { formatFigure, scaleOf } from "./format.js";
import { Legend } from "./legend.js";
import { extent, nearest, shapesOf } from "./lines.js";
import { Plot } from "./plot.js";
import { numberTicks, stepTicks, timeTicks } from "./ticks.js";

const UNIT_IN_NAME = /_(percent|celsius|watts|mhz|secs|bytes)$/;
const LEAST_EXTENT = 0.05; // of the largest value: what changes by less doesn't fill the chart
const LEAST_BYTES = 8;
const OUTSIDE = "Points lie outside of the run's time: “all” shows them.";

export class Chart {
  constructor(metric, page) {
    this.metric = metric;
    this.page = page;
    this.lines = [];
    this.faint = []; // of what later attempts have superseded, where it's shown: an entry's line, as in "lines"
    this.loaded = new Map(); // run key -> what has been fetched
    this.superseded = new Map(); // run key -> what has been fetched of that
    this.plot = null;
    this.isNear = false;
    this.cursor = null;
    this.body = make("div", { className: "plot", inert: true });
    this.paper = make("div", { className: "paper" });
    this.overlay = make("div", { className: "overlay" });
    this.rule = make("div", { className: "rule", hidden: true });
    this.chosen = make("div", { className: "chosen", hidden: true });
    this.note = make("p", { className: "note", hidden: true });
    this.outside = make("p", { className: "outside", hidden: true, textContent: OUTSIDE });
    this.overlay.append(this.rule, this.chosen, this.note);
    // A unit stands once: behind the name of what metrana measures instead of in it, and in a name of yours.
    const isYours = metric.group === "yours";
    const whole = isYours ? metric.name : metric.name.split("/").slice(2).join("/");
    const short = isYours || !metric.unit ? whole : whole.replace(UNIT_IN_NAME, "");
    this.unit = make("span", { className: "unit", textContent: isYours || metric.unit === "bytes" ? "" : metric.unit });
    this.legend = new Legend(`${short.slice(0, 200)} ${this.unit.textContent}`.trim());
    this.figure = make("div", { className: "body", role: "img", tabIndex: 0 }, this.body, this.overlay, this.paper);
    this.element = make("section", { className: "card" },
      make("h3", { title: metric.name.slice(0, 5000) }, makeName(short), this.unit), this.legend.element, this.outside,
      this.figure);
    this.element.dataset.metric = metric.name;
    page.pointer.watch(this);
  }

  get axis() {
    return this.page.axisOf(this.metric);
  }

  async ensurePlot() {
    this.creating ??= Plot.create(this.body);
    this.plot = await this.creating;
  }

  // What a chart of that width shows now: ranges, ticks, and shapes in the unit of the y axis.
  layOut(width, colorOf = (line) => line.color) {
    const { axis } = this;
    const [start, end] = axis.shown;
    const found = extent([...this.faint, ...this.lines], start, end);
    const scale = scaleOf(this.metric.unit, found ? Math.max(Math.abs(found[0]), Math.abs(found[1])) : 0);
    if (this.metric.unit === "bytes") this.unit.textContent = this.legend.unit = scale.unit;
    const [low, high] = this.#limits(found, scale);
    const wanted = Math.max(2, Math.floor(width / 90));
    const x = axis.by === "step" ? stepTicks(start, end, wanted) : timeTicks(start, end, wanted, this.page.isElapsed);
    const shapes = shapesOf(this.faint, this.lines, scale.factor, colorOf);
    return { start, end, low, high, ticks: [x, numberTicks(low, high, 4)], shapes };
  }

  // Draws what has been fetched in the window that's shown now.
  draw() {
    this.#explain(...this.axis.shown);
    if (this.plot === null) return;
    const { start, end, low, high, ticks, shapes } = this.layOut(this.body.clientWidth);
    this.plot.setRanges([start, end], [low, high]);
    this.plot.setTicks(...ticks);
    this.plot.setShapes(shapes);
    this.showCursor(this.page.cursorOf(this.axis));
  }

  #limits(found, { unit, factor }) {
    if (unit === "%" && this.metric.group !== "yours") return [0, found && found[1] > 100 ? found[1] * 1.05 : 100];
    if (found === null) return [0, 1];
    const [low, high] = found.map((value) => value * factor);
    const isBytes = this.metric.unit === "bytes";
    if (isBytes && low >= 0) return [0, Math.max(high * 1.06, unit === "B" ? LEAST_BYTES : 0)];
    // Halves, because the distance may be larger than any number.
    const size = Math.max(Math.abs(low), Math.abs(high));
    const half = Math.max(high / 2 - low / 2, (size * LEAST_EXTENT) / 2) || 1;
    const middle = low / 2 + high / 2;
    return [Math.max(middle - half * 1.1, -Number.MAX_VALUE), Math.min(middle + half * 1.1, Number.MAX_VALUE)];
  }

  #explain(start, end) {
    let why = "";
    const isShown = (x) => x >= start && x <= end;
    const drawn = this.lines.some((line) => line.x.some((x, index) => isShown(x) && !Number.isNaN(line.mean[index])));
    const series = this.page.seriesOf(this);
    if (!drawn && this.loaded.size) {
      if (!series.length) why = "No series passes the filters.";
      else if (series.every((one) => one.finite === 0)) why = "Every value is NaN or infinite.";
      else if (this.lines.some((line) => line.x.some(isShown))) why = "Only NaN and infinities here.";
      else why = "No points in this stretch.";
    }
    this.note.hidden = why === "";
    this.note.textContent = why;
    this.outside.hidden = this.axis.window !== null || !this.page.liesOutside(this);
  }

  // The cursor stands in all charts of an axis at once; "at" is a position on it, or null.
  showCursor(at) {
    this.cursor = at;
    const [start, end] = this.axis.shown;
    const isHidden = at === null || at < start || at > end || this.plot === null || !this.isNear;
    this.rule.hidden = isHidden;
    if (!isHidden) {
      const frame = this.plot.frame;
      const left = frame.left + ((at - start) / (end - start)) * frame.width;
      this.rule.style.transform = `translate(${left}px, ${frame.top}px)`;
      this.rule.style.height = `${frame.height}px`;
    }
    this.legend.say((index) => (isHidden || !this.lines[index] ? null : this.#valueAt(this.lines[index], at)));
  }

  #valueAt(line, at) {
    if (!line.x.length) return "–";
    const index = nearest(line.x, at);
    if (Math.abs(line.x[index] - at) > Math.max(line.gap, 0) && line.gap !== Infinity) return "–";
    const text = (value) => formatFigure(value, this.metric.unit);
    if (line.isBand) return `${text(line.low[index])} – ${text(line.mean[index])} – ${text(line.high[index])}`;
    return text(line.mean[index]);
  }

  destroy() {
    this.page.pointer.forget(this);
    this.plot?.destroy();
    this.element.remove();
  }
}
