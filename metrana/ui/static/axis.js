// The axes that charts share: what there is to see, and which part of it is shown.

const FARTHEST = 1e300;
const LEAST = { time: 0.001, step: 3 }; // three whole steps have three ticks

export class Axis {
  constructor(by) {
    this.by = by;
    this.domain = [0, 1]; // all points
    this.home = [0, 1]; // the runs' lives, which are shown until somebody zooms
    this.window = null; // null: home, and what's appended to it
  }

  get shown() {
    return this.window ?? this.home;
  }

  // Whether points lie outside of what's shown first.
  get isWider() {
    return this.domain[0] < this.home[0] || this.domain[1] > this.home[1];
  }

  setDomain(spans, windows) {
    const join = (pairs) => [Math.min(...pairs.map(([start]) => start)), Math.max(...pairs.map(([, end]) => end))];
    this.home = this.#widen(join(windows));
    this.domain = this.#widen(join([...spans, this.home]));
  }

  #widen([start, end]) {
    // Between the farthest ends that a damaged run may have lies more than any number.
    const [low, high] = [Math.max(start, -FARTHEST), Math.min(end, FARTHEST)];
    if (this.by === "step") return [low, Math.max(high, low + 2)];
    return [low, high > low ? high : low + Math.max(10, Math.abs(low) * 1e-9)];
  }

  showAll() {
    this.window = this.isWider ? [...this.domain] : null;
  }

  zoom(start, end) {
    let [low, high] = start < end ? [start, end] : [end, start];
    if (!Number.isFinite(high - low)) return;
    const least = Math.max(LEAST[this.by], Math.abs(low) * 1e-12);
    if (high - low < least) [low, high] = [(low + high) / 2 - least / 2, (low + high) / 2 + least / 2];
    const isAll = low <= this.domain[0] && high >= this.domain[1];
    if (isAll) this.showAll();
    else this.window = [low, high];
  }

  scale(factor, at = null) {
    const [start, end] = this.shown;
    const fixed = at ?? start / 2 + end / 2;
    this.zoom(fixed - (fixed - start) * factor, fixed + (end - fixed) * factor);
  }

  pan(share) {
    if (this.window === null) return;
    const [start, end] = this.window;
    const by = (end - start) * share;
    this.zoom(start + by, end + by);
  }

  shift(by) {
    if (this.window !== null) this.window = this.window.map((at) => at + by);
  }
}

// A grid of buckets whose width is a power of two: edges are exact, and stay where they are while a run grows.
export function gridOf(start, end, most) {
  const width = 2 ** Math.ceil(Math.log2(Math.max((end - start) / most, 2 ** -40)));
  return { width, first: Math.floor(start / width) - 1, last: Math.floor(end / width) + 2 };
}
