// Which lines a chart draws, in which colours, and what they look like to Bokeh.

export const MOST_LINES = 8;
const COLORS = 8;
const FAINT = 0.45; // of what's opaque otherwise
const BAND = 0.3;

// The series of a run that pass the filters. One without a label isn't filtered by it.
export function passing(series, filters) {
  return series.filter((one) => {
    for (const [key, values] of filters) {
      if (values.size && Object.hasOwn(one.labels, key) && !values.has(one.labels[key])) return false;
    }
    return true;
  });
}

// Colours by the label that tells the series apart: that of a gpu is the same in all charts.
export function colorsOf(series, values) {
  let best = null;
  for (const key of ["gpu", "pid", "host", ...new Set(series.flatMap((one) => Object.keys(one.labels)))]) {
    const own = new Set(series.map((one) => one.labels[key]));
    if (own.size === series.length && series.length > 1) {
      best = key;
      break;
    }
  }
  if (best === null) return series.map((_, index) => index % COLORS);
  const order = values.get(best) ?? [];
  const colors = series.map((one) => Math.max(0, order.indexOf(one.labels[best])) % COLORS);
  return new Set(colors).size === colors.length ? colors : series.map((_, index) => index % COLORS);
}

// The labels that tell the series of a chart apart.
export function telling(series) {
  const keys = new Set(series.flatMap((one) => Object.keys(one.labels)));
  return [...keys].filter((key) => new Set(series.map((one) => one.labels[key])).size > 1).sort();
}

// What has been fetched of a legend's entries, as lines to draw: positions less the run's offset, colours as they are now.
export function linesOf(entries, loaded, offsetOf) {
  const style = getComputedStyle(document.documentElement);
  const none = new Float64Array();
  const counts = new Map(); // how many lines of a run there have been
  return entries.map(({ run, color, dash, isBand, title }) => {
    const position = counts.get(run) ?? 0;
    counts.set(run, position + 1);
    const found = loaded.get(run.key);
    const columns = found?.columns[position] ?? { x: none, mean: none, low: none, high: none };
    const offset = offsetOf(run);
    return {
      ...columns,
      x: offset === 0 ? columns.x : columns.x.map((x) => x - offset),
      index: color,
      color: style.getPropertyValue(`--color-${color}`).trim(),
      gap: found?.gap ?? 0,
      dash, isBand, title,
    };
  });
}

// Line, band and dots of all lines in the columns that the glyphs read, with "faint" ones below them. "factor" turns
// values into the axis's unit, "colorOf" gives a line's colour.
export function shapesOf(faint, lines, factor, colorOf) {
  const line = { xs: [], ys: [], color: [], dash: [], alpha: [] };
  const band = { xs: [], ys: [], color: [], alpha: [] };
  const dots = { x: [], y: [], color: [], alpha: [] };
  for (const one of [...faint, ...lines]) {
    const [alpha, color] = [faint.includes(one) ? FAINT : 1, colorOf(one)];
    for (const [from, to] of stretches(one)) {
      const x = one.x.subarray(from, to);
      const mean = scaled(one.mean.subarray(from, to), factor);
      const { dash } = one;
      if (to - from === 1) {
        dots.x.push(x[0]);
        dots.y.push(mean[0]);
        dots.color.push(color);
        dots.alpha.push(alpha);
      } else {
        line.xs.push(x);
        line.ys.push(mean);
        line.color.push(color);
        line.dash.push(dash);
        line.alpha.push(alpha);
      }
      if (one.low === one.mean) continue;
      const [low, high] = [scaled(one.low.subarray(from, to), factor), scaled(one.high.subarray(from, to), factor)];
      if (to - from === 1) {
        line.xs.push(Float64Array.of(x[0], x[0]));
        line.ys.push(Float64Array.of(low[0], high[0]));
        line.color.push(color);
        line.dash.push("solid");
        line.alpha.push(alpha);
      } else {
        band.xs.push(around(x, x));
        band.ys.push(around(high, low));
        band.color.push(color);
        band.alpha.push(BAND * alpha);
      }
    }
  }
  return { line, band, dots };
}

// From and to of each part of a line that's drawn through.
function* stretches({ x, mean, gap }) {
  let from = 0;
  for (let index = 0; index <= x.length; index++) {
    const isEnd = index === x.length || Number.isNaN(mean[index]);
    if (isEnd || (index > from && x[index] - x[index - 1] > gap)) {
      if (index > from) yield [from, index];
      from = isEnd ? index + 1 : index;
    }
  }
}

function scaled(values, factor) {
  return factor === 1 ? values : values.map((value) => value * factor);
}

function around(there, back) {
  const ring = new Float64Array(there.length * 2);
  ring.set(there);
  for (let index = 0; index < back.length; index++) ring[ring.length - 1 - index] = back[index];
  return ring;
}

// Lowest and highest value between two ends of the x axis, or null.
export function extent(lines, start, end) {
  let [low, high] = [Infinity, -Infinity];
  for (const one of lines) {
    for (let index = 0; index < one.x.length; index++) {
      if (one.x[index] < start || one.x[index] > end) continue;
      if (one.low[index] < low) low = one.low[index];
      if (one.high[index] > high) high = one.high[index];
    }
  }
  return low <= high ? [low, high] : null;
}

export function nearest(x, at) {
  let [low, high] = [0, x.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (x[middle] <= at) low = middle;
    else high = middle;
  }
  return high >= 0 && Math.abs(x[high] - at) < Math.abs(x[low] - at) ? high : Math.max(0, low);
}

// Old columns with new ones from "start" on, and without what lies before "first".
export function join(old, fresh, first, start) {
  const from = lowerBound(old.x, first);
  const to = Math.max(from, lowerBound(old.x, start));
  const columns = {};
  for (const name of ["x", "mean", "low", "high"]) {
    const kept = old[name].subarray(from, to);
    const joined = new Float64Array(kept.length + fresh[name].length);
    joined.set(kept);
    joined.set(fresh[name], kept.length);
    columns[name] = joined;
  }
  if (old.low === old.mean && fresh.low === fresh.mean) columns.low = columns.high = columns.mean;
  return { ...fresh, ...columns };
}

function lowerBound(x, at) {
  let [low, high] = [0, x.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] < at) low = middle + 1;
    else high = middle;
  }
  return low;
}
