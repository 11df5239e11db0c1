// The pointer over charts: it moves the shared cursor, and drags out the stretch to zoom to.

const LEAST_DRAG = 6; // pixels

export class Pointer {
  constructor(page) {
    this.page = page;
    this.charts = new Map();
    this.drag = null;
    this.near = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        const chart = this.charts.get(entry.target);
        if (chart) chart.isNear = entry.isIntersecting;
      }
      page.onScroll();
    }, { rootMargin: "200px 0px" });
  }

  watch(chart) {
    const { overlay } = chart;
    this.charts.set(chart.element, chart);
    this.near.observe(chart.element);
    overlay.addEventListener("pointermove", (event) => this.#move(chart, event));
    overlay.addEventListener("pointerleave", () => this.drag || this.page.setCursor(null, null));
    overlay.addEventListener("pointerdown", (event) => this.#begin(chart, event));
    overlay.addEventListener("pointerup", (event) => this.#end(chart, event));
    overlay.addEventListener("pointercancel", () => this.#cancel());
    overlay.addEventListener("dblclick", () => this.page.resetZoom());
    overlay.addEventListener("wheel", (event) => this.#wheel(chart, event), { passive: false });
  }

  forget(chart) {
    this.charts.delete(chart.element);
    this.near.unobserve(chart.element);
    if (this.drag?.chart === chart) this.#cancel();
  }

  #at(chart, event) {
    const { left, width } = chart.plot.frame;
    const x = event.clientX - chart.overlay.getBoundingClientRect().left;
    const share = Math.min(1, Math.max(0, (x - left) / width));
    const [start, end] = chart.axis.shown;
    return { x: left + share * width, at: start + (end - start) * share };
  }

  #move(chart, event) {
    if (chart.plot === null) return;
    const { x, at } = this.#at(chart, event);
    if (this.drag && this.drag.chart === chart) {
      const frame = chart.plot.frame;
      const [from, to] = [this.drag.x, x].sort((a, b) => a - b);
      chart.chosen.hidden = to - from < LEAST_DRAG;
      chart.chosen.style.transform = `translate(${from}px, ${frame.top}px)`;
      chart.chosen.style.width = `${to - from}px`;
      chart.chosen.style.height = `${frame.height}px`;
    }
    this.page.setCursor(chart.axis, at);
  }

  #begin(chart, event) {
    if (event.button !== 0 || chart.plot === null) return;
    this.drag = { chart, ...this.#at(chart, event) };
    chart.overlay.setPointerCapture(event.pointerId);
    this.page.setCursor(chart.axis, this.drag.at);
  }

  #end(chart, event) {
    const { drag } = this;
    this.#cancel();
    if (!drag || drag.chart !== chart) return;
    const { x, at } = this.#at(chart, event);
    if (Math.abs(x - drag.x) >= LEAST_DRAG) this.page.zoomTo(chart.axis, drag.at, at);
  }

  #cancel() {
    if (this.drag) this.drag.chart.chosen.hidden = true;
    this.drag = null;
  }

  #wheel(chart, event) {
    // A plain wheel scrolls the page.
    if (!(event.ctrlKey || event.metaKey) || chart.plot === null) return;
    event.preventDefault();
    this.page.scaleZoom(chart.axis, event.deltaY > 0 ? 1.4 : 1 / 1.4, this.#at(chart, event).at);
  }
}
