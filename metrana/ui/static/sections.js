// The groups of charts: a title, why a chart is missing, and the grid of cards.

import { make, makeName, replace } from "./dom.js";

const TITLES = { yours: "Training", gpu: "GPU", cpu: "CPU", memory: "Memory", disk: "Disk", process: "Process" };
const NOTHING = "nothing was logged: metrana.log() adds charts here";

export class Sections {
  constructor(element) {
    this.element = element;
    this.parts = new Map(); // group -> its elements
  }

  clear() {
    this.parts.clear();
    replace(this.element);
  }

  // The groups as they stand on the page, those without a chart too.
  order(groups) {
    return [...Object.keys(TITLES), ...[...new Set(groups)].filter((group) => !Object.hasOwn(TITLES, group)).sort()];
  }

  // Shows a group of so many charts and what the runs say of it. Returns the grid for its cards.
  show(group, count, runs) {
    const section = this.parts.get(group) ?? this.#add(group);
    const said = runs.map((run) => run.groups.find((one) => one.group === group));
    const notes = said.flatMap((one, index) => (one?.notes ?? []).map((text) => [index, text]));
    const whys = said.map((one, index) => [index, one?.why]).filter(([, why]) => why);
    if (group === "yours" && !count) whys.push([0, NOTHING]);
    const all = [...whys, ...notes];
    const isCommon = (text) => runs.every((_, at) => all.some(([index, other]) => index === at && other === text));
    const shown = all.filter(([index, text]) => index === 0 || !isCommon(text)).map(([index, text]) =>
      make("p", { className: "why" }, isCommon(text) ? null : makeName(runs[index].info.name, "b"),
        isCommon(text) ? null : " ", makeName(text)));
    const text = JSON.stringify(all);
    if (section.text !== text) replace(section.notes, ...shown);
    section.text = text;
    section.element.dataset.cards = Math.min(count, 2);
    section.element.hidden = !count && !shown.length;
    return section.grid;
  }

  #add(group) {
    const title = Object.hasOwn(TITLES, group) ? document.createTextNode(TITLES[group]) : makeName(group);
    const section = { notes: make("div", { className: "notes" }), grid: make("div", { className: "grid" }) };
    section.element = make("section", { className: "group" }, make("h2", {}, title), section.notes, section.grid);
    section.element.dataset.group = group;
    this.parts.set(group, section);
    const order = this.order(this.parts.keys());
    const after = order.slice(order.indexOf(group) + 1).map((one) => this.parts.get(one)).find(Boolean);
    this.element.insertBefore(section.element, after?.element ?? null);
    return section;
  }
}
