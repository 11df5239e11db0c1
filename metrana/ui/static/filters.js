// Filters over the labels that exist. Nothing chosen for a label means all of it.

import { make, makeName, replace } from "./dom.js";

const MOST_SHOWN = 100;
const SEARCHED_FROM = 12;
const order = new Intl.Collator("en", { numeric: true }).compare;

export class Filters {
  constructor(element, onChange) {
    this.element = element;
    this.onChange = onChange;
    this.chosen = new Map(); // label -> set of values
    this.values = new Map(); // label -> its values, in order
    this.parts = new Map();
  }

  // Takes in the labels of the runs that are shown.
  update(runs) {
    const found = new Map();
    for (const run of runs) {
      for (const { labels } of run.series.values()) {
        for (const [key, value] of Object.entries(labels)) {
          if (!found.has(key)) found.set(key, new Set());
          found.get(key).add(value);
        }
      }
    }
    let isSame = found.size === this.values.size;
    for (const [key, values] of found) isSame &&= this.values.get(key)?.length === values.size;
    if (isSame) return;
    const sorted = [...found].sort(([a], [b]) => order(a, b));
    this.values = new Map(sorted.map(([key, values]) => [key, [...values].sort(order)]));
    for (const [key, values] of this.chosen) {
      for (const value of values) if (!found.get(key)?.has(value)) values.delete(value);
    }
    this.parts.clear();
    const useful = [...this.values].filter(([, values]) => values.length > 1);
    replace(this.element, ...useful.map(([key, values]) => this.#part(key, values)));
  }

  clear() {
    this.chosen.clear();
    this.values.clear();
    this.parts.clear();
    replace(this.element);
  }

  #part(key, values) {
    const summary = make("summary");
    const list = make("ul");
    const search = values.length < SEARCHED_FROM ? null
      : make("input", { type: "search", placeholder: "find", ariaLabel: "find a value" });
    const all = make("button", { type: "button", textContent: "all" });
    const part = make("details", { className: "filter" }, summary, make("div", {}, search, list, all));
    part.dataset.label = key;
    const fill = () => {
      const wanted = (search?.value ?? "").toLowerCase();
      const matching = values.filter((value) => value.toLowerCase().includes(wanted));
      replace(list, ...matching.slice(0, MOST_SHOWN).map((value) => this.#choice(key, value)),
        matching.length > MOST_SHOWN ? make("li", { textContent: `${matching.length - MOST_SHOWN} more` }) : null);
    };
    search?.addEventListener("input", fill);
    all.addEventListener("click", () => {
      this.chosen.delete(key);
      fill();
      this.#changed(key);
    });
    part.addEventListener("toggle", () => {
      if (part.open) for (const other of this.parts.values()) if (other !== part) other.open = false;
    });
    this.parts.set(key, part);
    fill();
    this.#summarize(key);
    return part;
  }

  #choice(key, value) {
    const box = make("input", { type: "checkbox", checked: this.chosen.get(key)?.has(value) ?? false });
    box.addEventListener("change", () => {
      const values = this.chosen.get(key) ?? new Set();
      if (box.checked) values.add(value);
      else values.delete(value);
      this.chosen.set(key, values);
      this.#changed(key);
    });
    return make("li", {}, make("label", {}, box, makeName(value)));
  }

  #changed(key) {
    this.#summarize(key);
    this.onChange();
  }

  #summarize(key) {
    const values = [...(this.chosen.get(key) ?? [])].sort(order);
    const some = values.length > 3 ? `${values.length} of ${this.values.get(key).length}` : values.join(", ");
    const text = values.length === 0 ? "all" : some;
    replace(this.parts.get(key).querySelector("summary"), makeName(key), " ", makeName(text, "b"));
  }

  // Closes the open list where the pointer goes elsewhere.
  closeUnless(target) {
    for (const part of this.parts.values()) if (!part.contains(target)) part.open = false;
  }
}
