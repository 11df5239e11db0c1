// The runs of the store, newest first.

import { make, makeName, replace } from "./dom.js";
import { formatDuration, formatTime } from "./format.js";

const PAGE = 200;

export function sayStatus({ status }) {
  return status === "unknown" ? "status unknown" : status;
}

export class RunList {
  constructor(elements, onOpen, onOverlay) {
    Object.assign(this, elements); // search, counts, runs, more
    this.onOpen = onOpen;
    this.onOverlay = onOverlay;
    this.infos = new Map();
    this.sorted = [];
    this.shown = PAGE;
    this.opened = [];
    this.search.addEventListener("input", () => {
      this.shown = PAGE;
      this.render();
    });
    this.more.addEventListener("click", () => {
      this.shown += PAGE * 5;
      this.render();
    });
  }

  // Takes in what has changed.
  update({ whole, runs, removed }) {
    if (!whole && !runs.length && !removed.length) return;
    if (whole) this.infos.clear();
    for (const key of removed) this.infos.delete(key);
    for (const info of runs) {
      info.text = [info.name, info.project, info.id, info.status, ...info.hosts].join("\n").toLowerCase();
      this.infos.set(info.key, info);
    }
    const age = (info) => -(info.started ?? -Infinity);
    this.sorted = [...this.infos.values()].sort((a, b) => age(a) - age(b) || (a.id < b.id ? 1 : -1));
    this.render();
  }

  select(keys) {
    this.opened = keys;
    this.render();
  }

  render() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = this.sorted.filter((info) => words.every((word) => info.text.includes(word)));
    const live = found.filter((info) => info.live).length;
    const runs = (number) => (number === 1 ? "1 run" : `${number} runs`);
    const all = words.length ? `${found.length} of ${runs(this.sorted.length)}` : runs(found.length);
    this.counts.textContent = live ? `${all}, ${live} live` : all;
    const focused = document.activeElement?.closest?.("#runs li")?.dataset.run;
    replace(this.runs, ...found.slice(0, this.shown).map((info) => this.#item(info)));
    if (focused !== undefined) this.runs.querySelector(`li[data-run="${CSS.escape(focused)}"] button`)?.focus();
    const left = found.length - this.shown;
    this.more.hidden = left <= 0;
    this.more.textContent = `${left} more`;
  }

  #item(info) {
    const at = this.opened.indexOf(info.key);
    const open = make("button", { type: "button", className: "open", ariaCurrent: at === 0 ? "true" : "false" },
      make("span", { className: "title" },
        info.live ? make("i", { className: "live", title: "live" }) : null, makeName(info.name)),
      make("span", { className: "about" }, info.project === "default" ? null : makeName(info.project),
        `${formatTime(info.started)} · ${formatDuration(info.last - info.started)}`,
        info.processes > 1 ? ` · ${info.processes} processes` : ""),
      info.live || info.status === "closed" ? null
        : make("span", { className: "about ended", textContent: sayStatus(info) }));
    open.addEventListener("click", () => this.onOpen(info.key));
    const overlay = make("button", {
      type: "button", className: "over", textContent: at === 1 ? "×" : "+", ariaPressed: at === 1 ? "true" : "false",
      title: at === 1 ? "take it off the charts" : "overlay on the open run", hidden: this.opened.length === 0 || at === 0,
    });
    overlay.setAttribute("aria-label", `${overlay.title}: ${info.name.slice(0, 100)}`);
    overlay.addEventListener("click", () => this.onOverlay(at === 1 ? null : info.key));
    const item = make("li", {}, open, overlay);
    item.dataset.run = info.key;
    if (info.live) item.dataset.live = "";
    if (at >= 0) item.dataset.at = at;
    return item;
  }
}
