// What stands beside a chart's name: each of its series with its last value, or with that under the cursor.

import { make, makeName, replace } from "./dom.js";
import { MOST_LINES, colorsOf, passing, telling } from "./lines.js";

const MOST_SHOWN = 16;
const SIZE = /\d ([KMGTPE]i)?B/;

// The lines of a chart as they're told: all series of a run, or one band of them.
export function entriesOf(metric, runs, filters) {
  const own = runs.map((run) => passing(run.metrics.get(metric.name)?.series ?? [], filters.chosen));
  const all = own.flat();
  const keys = telling(all);
  const isBand = all.length > MOST_LINES;
  const isOneEach = runs.length > 1 && own.every((series) => series.length <= 1);
  return runs.flatMap((run, at) => {
    const series = own[at];
    if (!series.length) return [];
    const name = runs.length > 1 ? [run.info.name] : [];
    const common = { run, dash: at === 0 ? "solid" : "dashed", isBand };
    if (isBand) {
      const title = series.length > 1 ? [...name, `${series.length} series, min – mean – max`] : name;
      return [{ ...common, color: at, title, figure: figureOf(series) }];
    }
    const colors = isOneEach ? [at] : colorsOf(series, filters.values);
    return series.map((one, index) =>
      ({ ...common, color: colors[index], title: [...name, ...titleOf(one, keys)], figure: one.figure }));
  });
}

function titleOf(series, keys) {
  return keys.filter((key) => Object.hasOwn(series.labels, key)).map((key) => `${key} ${series.labels[key]}`);
}

// The lowest and the highest of the last values; NaN is neither.
function figureOf(series) {
  const finite = series.filter((one) => one.value !== null).sort((a, b) => a.value - b.value);
  return finite.length > 1 ? `${finite[0].figure} to ${finite.at(-1).figure}` : (finite[0] ?? series[0]).figure;
}

export class Legend {
  constructor(name) {
    this.name = name; // of the chart, with its unit where that's always the same
    this.unit = ""; // what the axis of bytes is in: it stands at the head of the chart, and isn't said again
    this.element = make("ul", { className: "legend" });
    this.entries = [];
    this.values = [];
    this.text = "";
  }

  // Takes in the entries; "told" is the element that a reader of the screen is told them by.
  update(entries, told) {
    this.entries = entries;
    const text = JSON.stringify(entries.map(({ title, color, dash }) => [title, color, dash]));
    if (text !== this.text) this.#rebuild();
    this.text = text;
    this.say(() => null);
    // Read aloud, each figure has its unit.
    const said = entries.slice(0, MOST_SHOWN).map(({ title, figure }) => `${title.join(" ").slice(0, 100)} ${figure}`.trim());
    told.setAttribute("aria-label", `${this.name}: ${said.join(", ") || "no points"}`);
  }

  #rebuild() {
    this.values = this.entries.slice(0, MOST_SHOWN).map(() => make("span", { className: "value" }));
    replace(this.element, ...this.values.map((value, index) => {
      const { title, color, dash } = this.entries[index];
      const swatch = make("i", { className: dash === "solid" ? "" : "dashed" });
      swatch.style.setProperty("--color", `var(--color-${color})`);
      return make("li", {}, swatch, ...title.map((part) => makeName(part)), value);
    }));
  }

  // Shows for each entry what "find" has of it, by index, else its last value: without the unit where all have the axis's.
  say(find) {
    const whole = this.values.map((_, index) => find(index) ?? this.entries[index].figure);
    const bare = whole.map((text) => text.replaceAll(` ${this.unit}`, ""));
    const texts = this.unit === "" || bare.some((text) => SIZE.test(text)) ? whole : bare;
    this.values.forEach((value, index) => {
      if (value.textContent !== texts[index]) value.textContent = texts[index];
    });
  }
}
