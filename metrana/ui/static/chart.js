// The card of one metric: its name, a line of text for each series, the figure, and a cursor over it.

import { make, makeName, replace } from "./dom.js";
import { formatNumber, numberTicks, scaleOf, stepTicks, timeTicks } from "./format.js";
import { extent, nearest, shapesOf } from "./lines.js";
import { Plot } from "./plot.js";

const MOST_LEGENDS = 16;

export class Chart {
  constructor(metric, page) {
    this.metric = metric;
    this.page = page;
    this.scale = scaleOf(metric.unit);
    this.lines = [];
    this.loaded = new Map(); // run key -> what has been fetched
    this.plot = null;
    this.isNear = false;
    this.cursor = null;
    this.legend = make("ul", { className: "legend" });
    this.body = make("div", { className: "plot" });
    this.overlay = make("div", { className: "overlay" });
    this.rule = make("div", { className: "rule", hidden: true });
    this.chosen = make("div", { className: "chosen", hidden: true });
    this.note = make("p", { className: "note", hidden: true });
    this.overlay.append(this.rule, this.chosen, this.note);
    const unit = this.scale.unit ? make("span", { className: "unit", textContent: this.scale.unit }) : null;
    const short = metric.group === "yours" ? metric.name : metric.name.split("/").slice(2).join("/");
    this.element = make("section", { className: "card" },
      make("h3", { title: metric.name.slice(0, 5000) }, makeName(short), unit), this.legend,
      make("div", { className: "body", role: "img", ariaLabel: `chart of ${metric.name.slice(0, 200)}` },
        this.body, this.overlay));
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

  // Draws what has been fetched in the window that's shown now.
  draw() {
    if (this.plot === null) return;
    const { axis, scale } = this;
    const [start, end] = axis.shown;
    const [low, high] = this.#limits(extent(this.lines, start, end));
    this.plot.setRanges([start, end], [low, high]);
    const wanted = Math.max(2, Math.floor(this.body.clientWidth / 90));
    const ticks = axis.by === "step" ? stepTicks(start, end, wanted)
      : timeTicks(start, end, wanted, this.page.isElapsed);
    this.plot.setTicks(ticks, numberTicks(low, high, 4));
    this.plot.setShapes(shapesOf(this.lines, scale.factor));
    this.#explain(start, end);
    this.showCursor(this.page.cursorOf(axis));
  }

  #limits(found) {
    const { unit, factor } = this.scale;
    if (unit === "%" && this.metric.group !== "yours") return [0, found && found[1] > 100 ? found[1] * 1.05 : 100];
    if (found === null) return [0, 1];
    const [low, high] = found.map((value) => value * factor);
    if (unit === "GiB" && low >= 0) return [0, high > 0 ? high * 1.06 : 1];
    // Halves, because the distance may be larger than any number.
    const pad = high > low ? (high / 2 - low / 2) * 0.1 : Math.abs(high) * 0.05 || 1;
    return [Math.max(low - pad, -Number.MAX_VALUE), Math.min(high + pad, Number.MAX_VALUE)];
  }

  #explain(start, end) {
    let why = "";
    const isShown = (x) => x >= start && x <= end;
    const drawn = this.lines.some((line) => line.x.some((x, index) => isShown(x) && !Number.isNaN(line.mean[index])));
    if (!drawn && this.loaded.size) {
      const series = this.page.seriesOf(this);
      if (!series.length) why = "No series passes the filters.";
      else if (series.every((one) => one.finite === 0)) why = "Every value is NaN or infinite.";
      else if (this.lines.some((line) => line.x.some(isShown))) why = "Only NaN and infinities here.";
      else why = "No points in this stretch.";
    }
    this.note.hidden = why === "";
    this.note.textContent = why;
  }

  drawLegend() {
    const items = this.lines.slice(0, MOST_LEGENDS).map((line) => {
      line.value = make("span", { className: "value" });
      const swatch = make("i", { className: line.dash === "solid" ? "" : "dashed" });
      swatch.style.setProperty("--color", line.color);
      return make("li", {}, swatch, ...line.title.map((part) => makeName(part)), line.value);
    });
    replace(this.legend, ...items);
  }

  // The cursor stands in all charts of an axis at once; "at" is a position on it, or null.
  showCursor(at) {
    this.cursor = at;
    if (this.plot === null || !this.isNear) return;
    const [start, end] = this.axis.shown;
    this.rule.hidden = at === null || at < start || at > end;
    if (!this.rule.hidden) {
      const frame = this.plot.frame;
      const left = frame.left + ((at - start) / (end - start)) * frame.width;
      this.rule.style.transform = `translate(${left}px, ${frame.top}px)`;
      this.rule.style.height = `${frame.height}px`;
    }
    for (const line of this.lines) {
      if (line.value) line.value.textContent = this.#valueAt(line, this.rule.hidden ? null : at);
    }
  }

  #valueAt(line, at) {
    if (!line.x.length) return "";
    const index = at === null ? line.x.length - 1 : nearest(line.x, at);
    if (at !== null && Math.abs(line.x[index] - at) > Math.max(line.gap, 0) && line.gap !== Infinity) return "–";
    const text = (value) => formatNumber(value * this.scale.factor);
    if (line.isBand) return `${text(line.low[index])} – ${text(line.mean[index])} – ${text(line.high[index])}`;
    return text(line.mean[index]);
  }

  destroy() {
    this.page.pointer.forget(this);
    this.plot?.destroy();
    this.element.remove();
  }
}
