// A run as it has been fetched so far: its description, and its series by metric.

import { fetchRun } from "./api.js";

const LATE = 120; // seconds: other machines' points may turn up this much later

export class Run {
  constructor(key) {
    this.key = key;
    this.token = "";
    this.info = null;
    this.progress = 0;
    this.problems = [];
    this.attributes = {};
    this.groups = [];
    this.metrics = new Map(); // name -> {name, group, unit, series: [series]}
    this.series = new Map(); // number -> series
    this.round = 0;
    this.isGone = false; // its folder has been removed
    this.window = null;
    this.era = ""; // another one: the server numbers the series anew
  }

  // Fetches what's new; true where any series is, or the run has ended.
  async refresh() {
    const [wasWhole, wasLive] = [this.progress === 1, this.info?.live];
    const record = await fetchRun(this.key, this.token).catch((error) => {
      if (error.status !== 404 || !this.info) throw error;
      return null;
    });
    const wasGone = this.isGone;
    this.isGone = record === null;
    if (this.isGone) {
      [this.problems, this.progress, this.info.live] = [[], 1, false];
      return !wasGone;
    }
    const [era] = record.token.split("-");
    const isReplaced = this.era !== "" && this.era !== era;
    this.era = era;
    if (isReplaced) {
      this.metrics.clear();
      this.series.clear();
    }
    this.token = record.token;
    for (const name of ["info", "window", "progress", "problems", "attributes", "groups"]) this[name] = record[name];
    this.round += 1;
    for (const fresh of record.series) this.#take(fresh, record.metrics[fresh.name]);
    return record.series.length > 0 || !wasWhole || isReplaced || wasLive !== this.info.live;
  }

  #take(fresh, described) {
    fresh.round = this.round;
    // While a run is read for the first time its points turn up in any order.
    fresh.settled = this.progress === 1;
    const known = this.series.get(fresh.n);
    if (known) {
      Object.assign(known, fresh);
      return;
    }
    this.series.set(fresh.n, fresh);
    if (!this.metrics.has(fresh.name)) this.metrics.set(fresh.name, { name: fresh.name, ...described, series: [] });
    this.metrics.get(fresh.name).series.push(fresh);
  }

  get hasSuperseded() {
    return [...this.series.values()].some((one) => one.superseded !== null);
  }

  // From the first point to the last, of those that count or of all: [start, end], or null without points.
  span(by, isAll = false) {
    let [start, end] = [Infinity, -Infinity];
    for (const { group, series } of this.metrics.values()) {
      if (by === "step" && group !== "yours") continue;
      const parts = isAll ? series.flatMap((one) => [one, one.superseded].filter(Boolean)) : series;
      for (const one of parts) {
        const [first, last] = by === "step" ? one.steps : [one.first, one.last];
        if (first !== null && first < start) start = first;
        if (last !== null && last > end) end = last;
      }
    }
    return start <= end ? [start, end] : null;
  }
}

// Where a later fetch has to begin again, so that points that were late are taken in. Steps come in any order: from the
// beginning.
export function settledEnd(series, by) {
  if (by === "step" || series.some((one) => !one.settled)) return -Infinity;
  return Math.min(...series.map((one) => one.last ?? -Infinity)) - LATE;
}

// Beyond this distance of two points a line is broken: capture stopped there. What the training logs has no interval.
export function gapOf(metric, series, width) {
  if (metric.group === "yours") return Infinity;
  const intervals = series.map((one) => (one.last - one.first) / Math.max(1, one.count - 1));
  return Math.max(3 * Math.max(...intervals), 2.5 * width);
}
