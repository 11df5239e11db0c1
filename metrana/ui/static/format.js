// Numbers, times and the ticks of axes as text.

const GIB = 2 ** 30;
const MOST_TICKS = 24;
const DAY = 86400;
const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
  DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 91 * DAY, 182 * DAY, 364 * DAY];
const FARTHEST_SECS = 8e12; // what a Date can hold

// How a metric's values are shown: bytes in GiB, percent on an axis from 0 to 100.
export function scaleOf(unit) {
  return unit === "bytes" ? { unit: "GiB", factor: 1 / GIB } : { unit, factor: 1 };
}

export function formatNumber(value) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e15)) return value.toExponential(2).replace("-", "−");
  const text = size >= 1e4 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(4));
  return text.replace("-", "−");
}

function formatTick(value, step) {
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e16 || step < 1e-6)) return value.toExponential(1).replace("e+", "e").replace(/-/g, "−");
  for (const [unit, suffix] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit && size >= 1e4) return `${trim(value / unit, step / unit)}${suffix}`.replace("-", "−");
  }
  return trim(value, step).replace("-", "−");
}

function trim(value, step) {
  const digits = Math.min(12, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  return (+value.toFixed(digits)).toString();
}

// Ticks as a map from position to text. "wanted" is how many fit.
export function numberTicks(start, end, wanted) {
  const span = end - start;
  if (!(span > 0) || !Number.isFinite(span)) return new Map();
  const rough = span / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  return walk(start, end, step, 0, (value) => formatTick(value, step));
}

export function stepTicks(start, end, wanted) {
  // A step is a whole number: no tick lies between two.
  if (end - start < wanted) return walk(start, end, 1, 0, (value) => formatTick(value, 1));
  return numberTicks(start, end, wanted);
}

export function timeTicks(start, end, wanted, isElapsed) {
  const span = end - start;
  if (!(span > 0) || !Number.isFinite(span)) return new Map();
  const rough = span / Math.max(1, wanted);
  const isPlain = isElapsed || (Math.abs(start) < FARTHEST_SECS && Math.abs(end) < FARTHEST_SECS);
  if (!isPlain || rough > TIME_STEPS.at(-1)) return numberTicks(start, end, wanted);
  if (rough < 0.5) {
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    return walk(start, end, step, 0, (t) => (isElapsed ? `${t.toFixed(digits)}s` : formatClock(t, digits)));
  }
  const step = TIME_STEPS.find((candidate) => candidate >= rough);
  if (isElapsed) return walk(start, end, step, 0, (t) => formatDuration(t));
  const shift = -new Date(start * 1000).getTimezoneOffset() * 60;
  let day = null;
  return walk(start, end, step, shift, (t) => {
    const date = new Date(t * 1000);
    const isNewDay = day !== null && date.toDateString() !== day;
    day = date.toDateString();
    if (step >= DAY || isNewDay) return date.toLocaleDateString("en", { month: "short", day: "numeric" });
    return formatClock(t, step < 60 ? 0 : null);
  });
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

function formatClock(t, digits) {
  const date = new Date(t * 1000);
  const two = (number) => String(number).padStart(2, "0");
  const minutes = `${two(date.getHours())}:${two(date.getMinutes())}`;
  if (digits === null) return minutes;
  const secs = date.getSeconds() + (t - Math.floor(t));
  return `${minutes}:${two(digits ? secs.toFixed(digits).padStart(3 + digits, "0") : Math.floor(secs))}`;
}

export function formatTime(t) {
  if (t === null || !(Math.abs(t) < FARTHEST_SECS)) return t === null ? "unknown" : formatNumber(t);
  const date = new Date(t * 1000);
  const two = (number) => String(number).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${formatClock(t, 0)}`;
}

export function formatDuration(secs) {
  if (!Number.isFinite(secs)) return "unknown";
  const sign = secs < 0 ? "−" : "";
  const whole = Math.abs(secs);
  if (whole < 10 && whole !== Math.round(whole)) return `${sign}${+whole.toPrecision(3)}s`;
  const rounded = Math.round(whole);
  for (const [size, unit, inner, innerUnit] of [[DAY, "d", 3600, "h"], [3600, "h", 60, "m"], [60, "m", 1, "s"]]) {
    if (rounded >= size) {
      const rest = Math.floor((rounded % size) / inner);
      return `${sign}${Math.floor(rounded / size)}${unit}${rest ? ` ${rest}${innerUnit}` : ""}`;
    }
  }
  return `${sign}${rounded}s`;
}
