// Ties the page together: the list of runs, the run that's open, the tools above its charts, and what's new.

import { ServerError, fetchRuns } from "./api.js";
import { make, makeName, printable, replace } from "./dom.js";
import { Filters } from "./filters.js";
import { formatDuration, formatTime } from "./format.js";
import { RunList, sayStatus } from "./list.js";
import { Page } from "./page.js";
import { clearPaper, drawOnPaper } from "./print.js";
import { Run } from "./run.js";

const PAUSE_MS = 2000;
const READING_PAUSE_MS = 300;
const $ = (id) => document.getElementById(id);
const filters = new Filters($("filters"), () => page.redraw());
const page = new Page($("groups"), filters, showZoom);
const list = new RunList({ search: $("search"), counts: $("counts"), runs: $("runs"), more: $("more") }, openRun, overlay);
const problems = { link: [], list: [], run: [], server: [], page: [] };
let token = "";
let opening = 0;
let wake = () => {}; // ends the pause between two looks at the server

page.onError = (error) => say(error instanceof ServerError ? "server" : "page", [error.message]);
window.metrana = page; // for a look from the browser's console

async function poll() {
  try {
    const answer = await fetchRuns(token);
    token = answer.token;
    $("store").textContent = answer.dir;
    $("store").title = answer.dir;
    say("list", answer.problems);
    list.update(answer);
    if (!page.runs.length) await openFromAddress();
    await refresh();
    say("server", []);
  } catch (error) {
    page.onError(error);
  }
}

async function keepPolling() {
  for (;;) {
    if (!document.hidden) await poll();
    const isReading = page.runs.some((run) => run.progress < 1 && run.info);
    await new Promise((resolve) => {
      wake = resolve;
      setTimeout(resolve, isReading ? READING_PAUSE_MS : PAUSE_MS);
    });
  }
}

// Asks for what's new of the open runs. A run that has ended is asked about too: another process may resume it.
async function refresh() {
  const { runs } = page;
  if (!runs.length) return;
  const changes = await Promise.allSettled(runs.map((run) => (run.isGone && !list.infos.has(run.key) ? false : run.refresh())));
  if (runs !== page.runs) return;
  showRun();
  if (changes.some((change) => change.value)) await page.update();
  const failed = changes.find((change) => change.status === "rejected");
  if (failed) throw failed.reason; // one of two runs may be gone, and the other goes on
}

async function openFromAddress() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const keys = [wanted.get("run"), wanted.get("with")].filter(Boolean);
  const missing = keys.filter((key) => !list.infos.has(key));
  const isOpen = page.runs.length > 0 && keys.join() === page.runs.map((run) => run.key).join();
  if (isOpen) return;
  say("link", missing.length && missing[0] !== keys[0] ? [sayMissing(missing[0])] : []);
  if (keys.length && missing[0] === keys[0]) showNothing(sayMissing(keys[0]));
  else if (keys.length) await openRuns(keys.filter((key) => !missing.includes(key)));
  else if (list.sorted.length) await openRuns([list.sorted[0].key]);
  else showNothing("No runs here yet. They appear as soon as one is written.");
}

function sayMissing(key) {
  return `There's no run ${printable(key).slice(0, 100)} in this folder: it may have been removed. `
    + "The list has those that are there.";
}

function showNothing(text) {
  opening += 1;
  if (page.runs.length) page.open([]);
  if ($("empty").textContent !== text) $("empty").textContent = text;
  $("empty").hidden = false;
  $("run").hidden = true;
  document.title = "metrana";
  list.select([]);
  say("run", []);
  document.body.dataset.state = "drawn";
}

function openRun(key) {
  say("link", []);
  closeList();
  return openRuns([key]);
}

function overlay(key) {
  say("link", []);
  const [first] = page.runs;
  return openRuns([first.key, key].filter(Boolean));
}

async function openRuns(keys) {
  const mine = ++opening;
  const at = performance.now();
  const old = new Map(page.runs.map((run) => [run.key, run]));
  const runs = keys.map((key) => old.get(key) ?? new Run(key));
  list.select(keys);
  history.replaceState(null, "", `#${new URLSearchParams({ run: keys[0], ...(keys[1] ? { with: keys[1] } : {}) })}`);
  try {
    await Promise.all(runs.map((run) => run.refresh()));
    if (mine !== opening) return;
    const isSecond = runs.length > page.runs.length && runs.length > 1;
    page.open(runs);
    page.opened = { at };
    if (isSecond) setElapsed(true); // two runs are compared from their beginnings
    $("empty").hidden = true;
    $("run").hidden = false;
    showRun();
    wake(); // a long run is read on at once
    await page.update();
  } catch (error) {
    page.onError(error);
  }
}

function showRun() {
  if (!page.runs.length) return;
  const parts = page.runs.map((run) => {
    const { info } = run;
    const state = info.live ? make("span", { className: "state live", textContent: "live" })
      : make("span", { className: "state", textContent: run.isGone ? "removed" : sayStatus(info) });
    const about = [info.id, `started ${formatTime(info.started)}`, formatDuration(info.last - info.started),
      info.processes === 1 ? "1 process" : `${info.processes} processes`];
    const reading = ` · read ${Math.floor(run.progress * 100)} % so far`;
    return make("div", { className: "one" },
      make("h2", {}, makeName(info.name), state),
      make("p", {}, makeName(info.project), " · ", makeName(about[0]), ` · ${about.slice(1).map(keepTogether).join(" · ")}`,
        run.progress < 1 ? make("span", { className: "reading", textContent: reading }) : null));
  });
  replace($("head"), ...parts);
  $("superseded").hidden = !page.runs.some((run) => run.hasSuperseded);
  document.title = `${page.runs[0].info.name.slice(0, 100)} – metrana`;
  const named = (run, text) => (page.runs.length > 1 ? `${run.info.name.slice(0, 100)}: ${text}` : text);
  const gone = page.runs.filter((run) => run.isGone)
    .map((run) => `The folder of ${printable(run.info.name).slice(0, 100)} has been removed: what was drawn of it stays here.`);
  say("run", [...gone, ...page.runs.flatMap((run) => run.problems.map((text) => named(run, text)))]);
  showAttributes();
}

const keepTogether = (text) => text.replaceAll(" ", "\u00a0");

let shownAttributes = "";

function showAttributes() {
  const text = JSON.stringify(page.runs.map((run) => run.attributes));
  if (text === shownAttributes) return;
  shownAttributes = text;
  replace($("attributes").querySelector("div"), ...page.runs.map((run) => {
    const isSystem = (name) => name.startsWith("system/");
    const names = Object.keys(run.attributes).sort((a, b) => isSystem(a) - isSystem(b) || (a < b ? -1 : 1));
    const rows = names.map((name) => make("tr", {},
      make("th", { scope: "row" }, makeName(name)), make("td", {}, makeName(run.attributes[name]))));
    if (!rows.length) rows.push(make("tr", {}, make("td", { textContent: "none" })));
    const caption = page.runs.length > 1 ? make("caption", {}, makeName(run.info.name)) : null;
    return make("table", {}, caption, make("tbody", {}, ...rows));
  }));
}

function say(about, texts) {
  problems[about] = texts;
  const all = [...new Set(Object.values(problems).flat())];
  if (all.join("\n") === $("problems").dataset.text) return;
  $("problems").dataset.text = all.join("\n");
  replace($("problems"), ...all.map((text) => make("p", { dir: "auto" }, makeName(text, "span"))));
}

function showZoom() {
  $("reset").disabled = page.isAll;
  $("range").textContent = page.runs.length ? page.describeRange() : "";
}

function setElapsed(isElapsed) {
  document.querySelector(`input[name=time][value=${isElapsed ? "elapsed" : "absolute"}]`).checked = true;
  page.setElapsed(isElapsed);
}

function closeList() {
  document.body.classList.remove("listing");
  $("toggle").setAttribute("aria-expanded", "false");
}

function scaleAll(factor) {
  page.axes.step.scale(factor);
  page.scaleZoom(page.axes.time, factor);
}

$("toggle").addEventListener("click", () => {
  const isOpen = document.body.classList.toggle("listing");
  $("toggle").setAttribute("aria-expanded", String(isOpen));
});
for (const input of document.querySelectorAll("input[name=time]")) {
  input.addEventListener("change", () => setElapsed(input.value === "elapsed"));
}
for (const input of document.querySelectorAll("input[name=by]")) input.addEventListener("change", () => page.setBy(input.value));
$("superseded").addEventListener("change", (event) => page.setSuperseded(event.target.checked));
$("wider").addEventListener("click", () => scaleAll(2));
$("closer").addEventListener("click", () => scaleAll(0.5));
$("reset").addEventListener("click", () => page.showAll());
document.addEventListener("pointerdown", (event) => filters.closeUnless(event.target));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") filters.closeUnless(null);
  if (event.target.closest?.("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const act = {
    "+": () => scaleAll(0.5), "-": () => scaleAll(2), "0": () => page.resetZoom(),
    ArrowLeft: () => pan(-0.25), ArrowRight: () => pan(0.25),
  }[event.key];
  if (act) act();
});

function pan(share) {
  for (const axis of Object.values(page.axes)) axis.pan(share);
  page.redraw();
}

window.addEventListener("hashchange", () => openFromAddress());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => page.repaint());
let resized = 0;
window.addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(() => page.redraw(), 150);
});
document.addEventListener("visibilitychange", () => document.hidden || poll());

window.addEventListener("beforeprint", () => drawOnPaper(page));
window.addEventListener("afterprint", () => clearPaper(page));

keepPolling();
