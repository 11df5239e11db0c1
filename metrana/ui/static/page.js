// The charts of the runs that are open, on shared axes.

import { Axis } from "./axis.js";
import { Chart } from "./chart.js";
import { formatDuration, formatTime } from "./format.js";
import { entriesOf } from "./legend.js";
import { MOST_LINES, linesOf, passing } from "./lines.js";
import { carryOut, plan, planSuperseded } from "./loader.js";
import { Pointer } from "./pointer.js";
import { Sections } from "./sections.js";

const AT_ONCE = 4;
const MOST_AHEAD = 40; // charts that are drawn before they're looked at
const MARGIN = 200; // pixels
const frame = () => new Promise((resolve) => { requestAnimationFrame(() => setTimeout(resolve)); });

export class Page {
  constructor(groups, filters, onZoom) {
    this.groups = groups;
    this.sections = new Sections(groups);
    this.filters = filters;
    this.onZoom = onZoom;
    this.runs = [];
    this.charts = new Map(); // metric name -> chart
    this.axes = { time: new Axis("time"), step: new Axis("step") };
    this.isElapsed = false;
    this.isSuperseded = false; // whether what later attempts have logged again is drawn too
    this.by = "time";
    this.cursor = { axis: null, at: null };
    this.pointer = new Pointer(this);
    this.drawing = 0;
    this.abort = new AbortController();
    this.timings = {};
  }

  // Shows runs, the first one in front. Charts of others go.
  open(runs) {
    this.runs = runs;
    for (const chart of this.charts.values()) chart.destroy();
    this.charts.clear();
    this.sections.clear();
    this.axes = { time: new Axis("time"), step: new Axis("step") };
    this.cursor = { axis: null, at: null };
    this.filters.clear();
  }

  // For measuring: the time from a click on a run until its first chart, and until all of it, is drawn.
  noteDrawn(what) {
    const { opened } = this;
    if (opened && opened[what] === undefined) opened[what] = performance.now() - opened.at;
  }

  offsetOf(run) {
    return this.isElapsed ? run.info?.started ?? 0 : 0;
  }

  axisOf(metric) {
    return this.by === "step" && metric.group === "yours" ? this.axes.step : this.axes.time;
  }

  cursorOf(axis) {
    return this.cursor.axis === axis ? this.cursor.at : null;
  }

  setCursor(axis, at) {
    this.cursor = { axis, at };
    this.cursorFrame ??= requestAnimationFrame(() => {
      this.cursorFrame = null;
      for (const chart of this.charts.values()) chart.showCursor(this.cursorOf(chart.axis));
      this.onZoom();
    });
  }

  zoomTo(axis, start, end) {
    axis.zoom(start, end);
    this.redraw();
  }

  scaleZoom(axis, factor, at = null) {
    axis.scale(factor, at);
    this.redraw();
  }

  // All points, also those from outside of the runs' lives.
  showAll() {
    for (const axis of Object.values(this.axes)) axis.showAll();
    this.redraw();
  }

  resetZoom() {
    for (const axis of Object.values(this.axes)) axis.window = null;
    this.redraw();
  }

  setElapsed(isElapsed) {
    if (isElapsed === this.isElapsed) return;
    const started = this.runs[0]?.info?.started ?? 0;
    this.isElapsed = isElapsed;
    this.axes.time.shift(isElapsed ? -started : started);
    this.update();
  }

  setBy(by) {
    this.by = by;
    this.redraw();
  }

  setSuperseded(isSuperseded) {
    this.isSuperseded = isSuperseded;
    this.update();
  }

  // The series of a chart that pass the filters, of one run or over all of them.
  seriesOf(chart, runs = this.runs) {
    return runs.flatMap((run) => passing(run.metrics.get(chart.metric.name)?.series ?? [], this.filters.chosen));
  }

  // Takes in what the runs have got since: charts, axes, explanations.
  update() {
    this.filters.update(this.runs);
    this.#setDomains();
    const names = new Set(this.runs.flatMap((run) => [...run.metrics.keys()]));
    const metrics = [...names].sort(inOrder).map((name) => this.runs.find((run) => run.metrics.has(name)).metrics.get(name));
    for (const group of this.sections.order(metrics.map((metric) => metric.group))) {
      const own = metrics.filter((metric) => metric.group === group);
      this.#addCharts(this.sections.show(group, own.length, this.runs), own);
    }
    return this.redraw();
  }

  #addCharts(grid, metrics) {
    for (const metric of metrics) {
      if (this.charts.has(metric.name)) continue;
      const chart = new Chart(metric, this);
      this.charts.set(metric.name, chart);
      const later = [...grid.children].find((card) => inOrder(card.dataset.metric, metric.name) > 0);
      grid.insertBefore(chart.element, later ?? null);
    }
  }

  #setDomains() {
    const { time, step } = this.axes;
    const spanOf = (run, by) => run.span(by, this.isSuperseded);
    const steps = this.runs.map((run) => spanOf(run, "step")).filter(Boolean);
    if (steps.length) step.setDomain(steps, steps);
    const seen = this.runs.filter((run) => run.window && !run.window.includes(null));
    const shift = (run, ends) => ends.map((at) => at - this.offsetOf(run));
    const spans = seen.filter((run) => spanOf(run, "time")).map((run) => shift(run, spanOf(run, "time")));
    if (seen.length) time.setDomain(spans, seen.map((run) => shift(run, run.window)));
  }

  // Whether a chart has points outside of what's shown before anybody zooms.
  liesOutside(chart) {
    if (chart.axis !== this.axes.time || !chart.axis.isWider) return false;
    const [start, end] = chart.axis.home;
    return this.runs.some((run) => this.seriesOf(chart, [run]).some(({ first, last }) =>
      first - this.offsetOf(run) < start || last - this.offsetOf(run) > end));
  }

  // Charts that come into view before their turn.
  onScroll() {
    if (document.body.dataset.state === "drawn" && this.#nextBatch().length) this.redraw(false);
  }

  // Brings all charts to what the axes show: those in view first, the others when there's time.
  async redraw(isChange = true) {
    const drawing = ++this.drawing;
    this.abort.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    const begin = performance.now();
    const timings = { drawing };
    this.timings = timings;
    document.body.dataset.state = "drawing";
    this.onZoom();
    for (const chart of isChange ? this.charts.values() : []) {
      chart.stale = true;
      chart.legend.update(entriesOf(chart.metric, this.runs, this.filters), chart.figure);
      chart.showCursor(this.cursorOf(chart.axis));
    }
    try {
      await frame();
      // The observer comes too late for the first charts of a page.
      for (const chart of this.charts.values()) chart.isNear = isInView(chart.element);
      for (let batch = this.#nextBatch(); batch.length && !signal.aborted; batch = this.#nextBatch()) {
        if (!batch[0].isNear) timings.visible ??= performance.now() - begin;
        await this.#drawBatch(batch, signal);
      }
      if (signal.aborted) return;
      timings.all = performance.now() - begin;
      timings.visible ??= timings.all;
      if (this.runs.every((run) => run.progress === 1)) this.noteDrawn("all");
      document.body.dataset.state = "drawn";
    } catch (error) {
      if (error.name !== "AbortError") this.onError(error);
    }
  }

  #nextBatch() {
    const cards = [...this.groups.querySelectorAll(".card")];
    const charts = cards.map((card) => this.charts.get(card.dataset.metric)).filter((chart) => chart.stale);
    const near = charts.filter((chart) => chart.isNear);
    // The first figure is shown before the others are made.
    const isFirst = [...this.charts.values()].every((chart) => chart.plot === null);
    if (near.length) return near.slice(0, isFirst ? 1 : near.length);
    const ahead = [...this.charts.values()].filter((chart) => chart.plot !== null).length < MOST_AHEAD;
    return charts.filter((chart) => ahead || chart.plot !== null).slice(0, AT_ONCE);
  }

  async #drawBatch(charts, signal) {
    for (const chart of charts) chart.width = chart.body.clientWidth;
    const plans = this.#plan(charts);
    const plots = charts.map((chart) => chart.ensurePlot());
    await Promise.all([carryOut(plans, signal), ...plots]);
    if (signal.aborted) return;
    for (const chart of charts) {
      this.setLines(chart);
      chart.draw();
      chart.stale = false;
    }
    await frame();
    this.noteDrawn("first");
  }

  #plan(charts) {
    return charts.flatMap((chart) => {
      const isBand = this.seriesOf(chart).length > MOST_LINES;
      const plans = this.isSuperseded ? [plan, planSuperseded] : [plan];
      return this.runs.flatMap((run) =>
        plans.map((make) => make(chart, run, this.seriesOf(chart, [run]), isBand)).filter(Boolean));
    });
  }

  // What the charts lack that haven't been looked at.
  planRest() {
    const rest = [...this.charts.values()].filter((chart) => chart.stale);
    for (const chart of rest) chart.width = chart.body.clientWidth;
    return this.#plan(rest);
  }

  setLines(chart) {
    const entries = entriesOf(chart.metric, this.runs, this.filters);
    const offsetOf = (run) => (chart.axis.by === "time" ? this.offsetOf(run) : 0);
    chart.lines = linesOf(entries, chart.loaded, offsetOf);
    chart.faint = this.isSuperseded ? linesOf(entries, chart.superseded, offsetOf) : [];
    chart.legend.update(entries, chart.figure);
  }

  repaint() {
    for (const chart of this.charts.values()) chart.plot?.paint();
    return this.redraw();
  }

  // The range that's shown, or the cursor's place in it, in words.
  describeRange() {
    const { axis, at } = this.cursor;
    const sayTime = this.isElapsed ? formatDuration : formatTime;
    const say = (where, by) => (by === "step" ? `step ${Math.round(where)}` : sayTime(where));
    if (axis !== null && at !== null) return say(at, axis.by);
    const [start, end] = this.axes.time.shown;
    return `${say(start, "time")} – ${say(end, "time")}`;
  }

  // Whether there's nothing that isn't shown.
  get isAll() {
    return Object.values(this.axes).every(({ shown, domain }) => shown[0] <= domain[0] && shown[1] >= domain[1]);
  }
}

// What's looked at most comes first: the loss, and how busy the hardware is.
function inOrder(a, b) {
  const rank = (name) => (name.startsWith("system/") ? !name.endsWith("/utilization") : !/loss/i.test(name));
  return rank(a) - rank(b) || (a < b ? -1 : Number(a > b));
}

function isInView(element) {
  const { top, bottom } = element.getBoundingClientRect();
  return bottom > -MARGIN && top < window.innerHeight + MARGIN;
}
