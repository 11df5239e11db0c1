// One Bokeh figure: axes, grid, bands, lines and dots. Bokeh is given numbers only; every name is on the page beside it.

/* global Bokeh */

const HEIGHT = 176;

export class Plot {
  static async create(element) {
    const plot = new Plot();
    await plot.#build(element);
    return plot;
  }

  async #build(element) {
    const { Range1d, FixedTicker, ColumnDataSource, Plotting } = Bokeh;
    this.x = new Range1d({ start: 0, end: 1 });
    this.y = new Range1d({ start: 0, end: 1 });
    const figure = Plotting.figure({
      height: HEIGHT, sizing_mode: "stretch_width", x_range: this.x, y_range: this.y, tools: [], toolbar_location: null,
      output_backend: "canvas", min_border_left: 52, min_border_right: 12, min_border_top: 9, min_border_bottom: 26,
      outline_line_color: null, lod_threshold: null,
    });
    this.figure = figure;
    this.tickers = [figure.xaxis, figure.yaxis].map((axis) => {
      const ticker = new FixedTicker({ ticks: [] });
      axis.ticker = ticker;
      axis.minor_tick_line_color = null;
      axis.major_tick_line_color = null;
      axis.axis_line_color = null;
      axis.major_label_text_font_size = "11px";
      axis.major_label_text_font = "system-ui, sans-serif";
      return ticker;
    });
    figure.xgrid.grid_line_color = null;
    figure.ygrid.ticker = this.tickers[1];
    this.bandSource = new ColumnDataSource({ data: { xs: [], ys: [], color: [], alpha: [] } });
    this.lineSource = new ColumnDataSource({ data: { xs: [], ys: [], color: [], dash: [], alpha: [] } });
    this.dotSource = new ColumnDataSource({ data: { x: [], y: [], color: [], alpha: [] } });
    figure.patches({ field: "xs" }, { field: "ys" }, {
      source: this.bandSource, fill_color: { field: "color" }, fill_alpha: { field: "alpha" }, line_color: { field: "color" },
      line_alpha: { field: "alpha" }, line_width: 0.5,
    });
    figure.multi_line({ field: "xs" }, { field: "ys" }, {
      source: this.lineSource, line_color: { field: "color" }, line_dash: { field: "dash" }, line_alpha: { field: "alpha" },
      line_width: 1.5, line_join: "round",
    });
    figure.scatter({ field: "x" }, { field: "y" }, {
      source: this.dotSource, marker: "circle", size: 5, fill_color: { field: "color" }, fill_alpha: { field: "alpha" },
      line_color: null,
    });
    this.paint();
    this.view = await Plotting.show(figure, element);
    await this.view.ready;
  }

  // Takes on the page's colours, light or dark.
  paint() {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    this.figure.background_fill_color = color("--card");
    this.figure.border_fill_color = color("--card");
    this.figure.xaxis.major_label_text_color = color("--faint");
    this.figure.yaxis.major_label_text_color = color("--faint");
    this.figure.ygrid.grid_line_color = color("--grid");
  }

  setRanges([start, end], [low, high]) {
    this.x.setv({ start, end });
    this.y.setv({ start: low, end: high });
  }

  setTicks(x, y) {
    this.ticks = { x: [...x.values()], y: [...y.values()] };
    this.figure.xaxis.major_label_overrides = x;
    this.figure.yaxis.major_label_overrides = y;
    this.tickers[0].ticks = [...x.keys()];
    this.tickers[1].ticks = [...y.keys()];
  }

  setShapes({ line, band, dots }) {
    this.bandSource.data = band;
    this.lineSource.data = line;
    this.dotSource.data = dots;
  }

  // The rectangle within the axes, in pixels of the element.
  get frame() {
    const { left, top, width, height } = this.view.frame.bbox;
    return { left, top, width, height };
  }

  destroy() {
    const { model } = this.view;
    const owner = model.document;
    this.view.remove();
    owner?.clear();
    const at = Bokeh.documents.indexOf(owner);
    if (at >= 0) Bokeh.documents.splice(at, 1);
  }
}
