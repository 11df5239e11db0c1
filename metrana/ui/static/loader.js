// Fetches what the charts need for the window they show, and nothing twice.

import { fetchPoints, fetchPointsNow } from "./api.js";
import { gridOf } from "./axis.js";
import { join } from "./lines.js";
import { gapOf, settledEnd } from "./run.js";

const MOST_BUCKETS = 1400;
const WHOLE_MS = 60_000; // so often all of a growing chart is fetched: points may come later than any margin

// What a chart lacks of one run's points; null where it has all there is.
export function plan(chart, run, series, isBand) {
  if (run.isGone || !series.length) return null;
  const { axis } = chart;
  const grid = gridFor(chart, run);
  const numbers = series.map((one) => one.n);
  // Where a later attempt has begun, points that have been fetched don't count any more.
  const name = `${run.era} ${axis.by} ${grid.width} ${isBand} ${numbers} ${series.map(countSuperseded)}`;
  const old = chart.loaded.get(run.key);
  const isSame = old?.name === name && old.first <= grid.first;
  const hasEnded = Boolean(old?.isLive) && !run.info.live; // and once more when nothing is to come
  if (isSame && old.last >= grid.last && !hasEnded && !series.some((one) => one.round > old.round)) return null;
  const isWhole = !isSame || hasEnded || performance.now() - old.wholeAt > WHOLE_MS;
  const settled = settledEnd(series, axis.by);
  const next = {
    name, width: grid.width, first: grid.first, last: grid.last, round: run.round,
    isLive: run.info.live, wholeAt: isWhole ? performance.now() : old.wholeAt,
    // Up to here the buckets are full: the next fetch begins there.
    upto: Math.max(grid.first, Math.min(grid.last, Math.floor(settled / grid.width))),
  };
  const from = isWhole ? grid.first : Math.max(grid.first, Math.min(old.upto, grid.last - 1));
  return {
    chart, run, series, next, old: isWhole ? null : old, isBand, by: axis.by, from, count: grid.last - from,
    gap: gapOf(chart.metric, series, grid.width), into: chart.loaded,
  };
}

// The same for what later attempts have superseded. It's fetched as a whole: nothing is ever appended to it.
export function planSuperseded(chart, run, series, isBand) {
  if (run.isGone) return null;
  const { axis } = chart;
  const parts = series.map((one) => one.superseded).filter(Boolean);
  if (!parts.length) {
    chart.superseded.delete(run.key);
    return null;
  }
  const ends = parts.map((one) => (axis.by === "step" ? one.steps : [one.first ?? -Infinity, one.last ?? Infinity]));
  const grid = gridFor(chart, run);
  const first = Math.max(grid.first, Math.floor(Math.min(...ends.map(([from]) => from)) / grid.width));
  const last = Math.min(grid.last, Math.floor(Math.max(...ends.map(([, to]) => to)) / grid.width) + 1);
  const name = `${run.era} ${axis.by} ${grid.width} ${isBand} ${series.map((one) => [one.n, countSuperseded(one)])}`;
  const old = chart.superseded.get(run.key);
  if (first >= last || (old?.name === name && old.first <= first && old.last >= last)) return null;
  return {
    chart, run, series, next: { name, width: grid.width, first, last }, old: null, isBand, by: axis.by, from: first,
    count: last - first, gap: Infinity, into: chart.superseded,
  };
}

// The buckets of what the chart shows, on the run's own axis.
function gridFor(chart, run) {
  const { axis } = chart;
  const offset = axis.by === "time" ? chart.page.offsetOf(run) : 0;
  const [start, end] = axis.shown;
  const wide = Math.max(64, Math.min(MOST_BUCKETS, Math.round(chart.width * 1.2)));
  return gridOf(start + offset, end + offset, wide);
}

function countSuperseded(one) {
  return one.superseded?.count ?? 0;
}

// Fetches plans, as few questions as can be, and leaves the lines with their charts.
export async function carryOut(plans, signal) {
  await Promise.all(gather(plans).map(async ([several, question]) => {
    try {
      keepAll(several, await fetchPoints(question, signal), question.start);
    } catch (error) {
      if (error.status !== 404) throw error; // a run that's gone says so by itself, and the others go on
    }
  }));
}

// The same while the page waits, for printing.
export function carryOutNow(plans) {
  for (const [several, question] of gather(plans)) keepAll(several, fetchPointsNow(question), question.start);
}

function keepAll(several, answers, start) {
  several.forEach((one, index) => keep(one, answers[index], start));
}

// Plans by the question that answers them.
function gather(plans) {
  const together = new Map();
  for (const one of plans) {
    const key = [one.run.key, one.by, one.next.width, one.from, one.count].join(" ");
    if (!together.has(key)) together.set(key, []);
    together.get(key).push(one);
  }
  return [...together.values()].map((several) => {
    const [{ run, by, next, from, count }] = several;
    const charts = several.map(({ chart, series, isBand, into }) =>
      ({ series: series.map((one) => one.n), band: isBand, superseded: into === chart.superseded }));
    const start = from * next.width;
    return [several, { run: run.key, by, start, width: next.width, count, charts }];
  });
}

function keep({ run, next, old, gap, into }, lines, start) {
  const columns = lines.map((line, index) =>
    old && old.columns[index] ? join(old.columns[index], line, next.first * next.width, start) : line);
  into.set(run.key, { ...next, columns, gap });
}
