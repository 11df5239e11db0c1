// The ticks of axes, as maps from position to text: at least three that differ, and about as many as fit.

import { FARTHEST_SECS, formatClock } from "./format.js";

const MOST_TICKS = 24;
const LEAST_TICKS = 3;
const FINEST = 60; // how often a step is made finer
const DAY = 86400;
const YEAR = 365.2425 * DAY;
const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
  DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 91 * DAY, 182 * DAY];

// 1, 2 or 5 times a power of ten, the next that's no smaller.
function roundUp(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
}

// Tries steps, each finer than the one before, until enough ticks differ.
function choose(rough, roundStep, makeTicks) {
  let step = roundStep(rough);
  let ticks = makeTicks(step);
  for (let tries = 0; tries < FINEST && new Set(ticks.values()).size < LEAST_TICKS; tries++) {
    step = roundStep(step * 0.4, step);
    ticks = makeTicks(step);
  }
  return ticks;
}

function formatTick(value, step) {
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e16 || step < 1e-6)) {
    const digits = Math.floor(Math.log10(size) + 1e-9) - Math.floor(Math.log10(step) + 1e-9);
    return value.toExponential(Math.min(15, Math.max(0, digits))).replace("e+", "e").replace(/-/g, "−");
  }
  for (const [unit, suffix] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit && size >= 1e4) return `${trim(value / unit, step / unit)}${suffix}`.replace("-", "−");
  }
  return trim(value, step).replace("-", "−");
}

function trim(value, step) {
  return (+value.toFixed(digitsOf(step))).toString();
}

function digitsOf(step) {
  return Math.min(15, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
}

// "wanted" is how many fit.
export function numberTicks(start, end, wanted) {
  const span = end - start;
  if (!(span > 0)) return new Map();
  if (!Number.isFinite(span)) return new Map([start / 2, 0, end / 2].map((at) => [at, formatTick(at, Math.abs(at))]));
  return choose(span / Math.max(1, wanted), roundUp, (step) => walk(start, end, step, 0, (value) => formatTick(value, step)));
}

export function stepTicks(start, end, wanted) {
  // A step is a whole number: no tick lies between two.
  if (end - start < wanted) return walk(start, end, 1, 0, (value) => formatTick(value, 1));
  return choose((end - start) / wanted, (rough) => Math.max(1, roundUp(rough)),
    (step) => walk(start, end, step, 0, (value) => formatTick(value, step)));
}

export function timeTicks(start, end, wanted, isElapsed) {
  const span = end - start;
  if (!(span > 0) || !Number.isFinite(span)) return new Map();
  const isPlain = isElapsed || (Math.abs(start) < FARTHEST_SECS && Math.abs(end) < FARTHEST_SECS);
  if (!isPlain) return numberTicks(start, end, wanted);
  return choose(span / Math.max(1, wanted), isElapsed ? roundElapsed : roundClock,
    (step) => (isElapsed ? elapsedTicks(start, end, step) : clockTicks(start, end, step)));
}

// "before" is the step that was too wide.
function roundElapsed(rough, before = Infinity) {
  if (rough > 182 * DAY) return roundUp(rough / DAY) * DAY;
  return roundTime(rough, before);
}

function roundClock(rough, before = Infinity) {
  if (rough > 182 * DAY) return Math.max(1, roundUp(rough / YEAR)) * YEAR;
  return roundTime(rough, before);
}

function roundTime(rough, before) {
  if (before <= 1 || rough < 0.5) return roundUp(Math.min(rough, 0.4));
  if (before === Infinity) return TIME_STEPS.find((step) => step >= rough);
  return TIME_STEPS.findLast((step) => step < before);
}

// All in one unit: the largest of which a step is a whole number.
function elapsedTicks(start, end, step) {
  const [size, unit] = [[DAY, "d"], [3600, "h"], [60, "m"], [1, "s"]].find(([secs]) => step % secs === 0) ?? [1, "s"];
  return walk(start, end, step, 0, (t) => `${trim(t / size, step / size).replace("-", "−")}${unit}`);
}

function clockTicks(start, end, step) {
  if (step >= YEAR) return yearTicks(start, end, Math.round(step / YEAR));
  if (step < 1) return walk(start, end, step, 0, (t) => formatClock(t, digitsOf(step)));
  const shift = -new Date(start * 1000).getTimezoneOffset() * 60;
  const year = end - start > 300 * DAY ? { year: "numeric" } : {};
  let day = null;
  return walk(start, end, step, shift, (t) => {
    const date = new Date(t * 1000);
    const isNewDay = day !== null && date.toDateString() !== day;
    day = date.toDateString();
    if (step >= DAY || isNewDay) return date.toLocaleDateString("en", { month: "short", day: "numeric", ...year });
    return formatClock(t, step < 60 ? 0 : null);
  });
}

function yearTicks(start, end, years) {
  const ticks = new Map();
  let year = Math.ceil(new Date(start * 1000).getFullYear() / years) * years;
  for (let count = 0; count < MOST_TICKS; count++, year += years) {
    const date = new Date(2000, 0, 1);
    date.setFullYear(year);
    const at = date.getTime() / 1000;
    if (!(at <= end)) break;
    if (at >= start) ticks.set(at, String(year));
  }
  return ticks;
}

function walk(start, end, step, shift, label) {
  const ticks = new Map();
  const first = Math.ceil((start + shift) / step);
  for (let index = 0; index < MOST_TICKS; index++) {
    const at = (first + index) * step - shift;
    if (!(at <= end)) break;
    ticks.set(at, label(at));
  }
  return ticks;
}
