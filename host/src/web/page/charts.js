// Charts of the last while, with marks where something happened.

import { $, make } from "./dom.js";
import { bytes, clockTime, count, seconds } from "./units.js";
import uPlot from "./vendor/uPlot.esm.js";

// Steps of a scale of bytes.
const POWERS = Array.from({ length: 60 }, (_, n) => 2 ** n);

const CHARTS = [
  { title: "Operations", unit: "per second", of: [["reads", "reads"], ["writes", "writes"], ["others", "others"]], show: count },
  { title: "Bytes", unit: "per second", of: [["readBytes", "read"], ["writeBytes", "written"]], show: bytes, steps: POWERS },
  { title: "Read latency", unit: "of a second's reads", of: [["readP50", "p50"], ["readP99", "p99"]], show: seconds },
  { title: "Write latency", unit: "of a second's writes", of: [["writeP50", "p50"], ["writeP99", "p99"]], show: seconds },
  { title: "Free zones", unit: "", of: [["freeZones", "free"]], show: count },
  { title: "Cleaning", unit: "bytes copied per second", of: [["copiedBytes", "copied"]], show: bytes, steps: POWERS },
  { title: "Zones cleaned", unit: "per second", of: [["cleanedZones", "zones"]], show: count },
  { title: "Write amplification", unit: "since the table was loaded", of: [["amplification", "times"]], show: (value) => value?.toFixed(2) ?? "-" },
];

// Shortest time that is shown, in seconds.
const LEAST_SPAN = 60;

// Lines are told apart by colour and by dashes.
const COLOURS = { light: ["#0b5fb0", "#b04a00", "#5f6b78"], dark: ["#74b7ff", "#ffae6b", "#a3b0be"] };
const DASHES = [[], [7, 4], [2, 3]];

const dark = matchMedia("(prefers-color-scheme: dark)");
const LETTERS = { cut: "C", restore: "P", suspend: "S", swap: "T", fault: "!", reload: "R", policy: "Y", path: "H", zones: "Z", client: "c", daemon: "D", change: "*" };

export class Charts {
  #box = $("charts");
  #plots = [];
  #history;
  #events = [];

  constructor(history) {
    this.#history = history;
    dark.addEventListener("change", () => this.#clear());
    new ResizeObserver(() => this.#plots.forEach(({ plot, figure }) => plot.setSize(size(figure)))).observe(this.#box);
  }

  #clear() {
    this.#plots.forEach(({ plot }) => plot.destroy());
    this.#plots = [];
    this.#box.replaceChildren();
  }

  // Shows the last seconds of the chosen subject, and these events.
  show(span, events) {
    this.#events = events;
    const end = Date.now() / 1000;
    // As long as little has been seen that is shown larger.
    const seen = end - (this.#history.last(span, [])[0][0] ?? end);
    const start = end - Math.min(span, Math.max(LEAST_SPAN, 1.1 * seen));
    for (const chart of CHARTS) {
      const data = this.#history.last(span, chart.of.map(([name]) => name));
      const hasData = data.slice(1).some((column) => column.some((value) => value !== null));
      let there = this.#plots.find((plot) => plot.chart === chart);
      if (!hasData) {
        there?.plot.destroy();
        there?.figure.remove();
        this.#plots = this.#plots.filter((plot) => plot !== there);
        continue;
      }
      if (!there) {
        there = this.#make(chart, data);
        this.#plots.push(there);
        this.#plots.sort((a, b) => CHARTS.indexOf(a.chart) - CHARTS.indexOf(b.chart));
        this.#plots.forEach(({ figure }) => this.#box.append(figure));
      }
      there.plot.batch(() => {
        there.plot.setData(data, false);
        there.plot.setScale("x", { min: start, max: end });
        // While nobody points at a moment, the legend is of the last one.
        if (there.plot.cursor.left < 0) there.plot.setLegend({ idx: data[0].length - 1 }, false);
      });
    }
    if (!this.#plots.length && !this.#box.textContent) this.#box.append(make("p", { class: "hint" }, "Nothing has been seen of this yet."));
    else if (this.#plots.length) this.#box.querySelector(".hint")?.remove();
  }

  #make(chart, data) {
    const figure = make("figure", {}, make("figcaption", {}, chart.title, make("span", {}, chart.unit ? ` ${chart.unit}` : "")));
    this.#box.append(figure);
    const style = getComputedStyle(document.documentElement);
    const [text, line] = ["--text", "--line"].map((name) => style.getPropertyValue(name).trim());
    const colours = COLOURS[dark.matches ? "dark" : "light"];
    const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    const shown = (_, value) => (value === null ? "-" : chart.show(value));
    const options = {
      ...size(figure),
      padding: [14, 8, 0, 0],
      cursor: { drag: { setScale: false } },
      scales: { x: { time: true }, y: { range: (_, __, max) => [0, (max || 1) * 1.1] } },
      axes: [{ ...axis, space: 76, values: (_, all) => all.map((at) => clockTime(at * 1000)) }, { ...axis, size: 68, ...(chart.steps && { incrs: chart.steps }), values: (_, all) => all.map((value) => chart.show(value)) }],
      series: [
        { label: "at", value: (_, at) => (at === null ? "-" : clockTime(at * 1000)) },
        ...chart.of.map(([, label], n) => ({ label, stroke: colours[n], dash: DASHES[n], width: 1.5, points: { show: false }, value: shown })),
      ],
      hooks: { draw: [(plot) => this.#mark(plot, text)] },
    };
    return { chart, figure, plot: new uPlot(options, data, figure) };
  }

  // A line and a letter for each event.
  #mark(plot, colour) {
    const { ctx: context, bbox } = plot;
    const ratio = devicePixelRatio || 1;
    context.save();
    [context.strokeStyle, context.fillStyle, context.lineWidth] = [colour, colour, ratio];
    context.font = `600 ${11 * ratio}px system-ui, sans-serif`;
    [context.textAlign, context.textBaseline] = ["center", "bottom"];
    context.setLineDash([3 * ratio, 3 * ratio]);
    let last = -Infinity;
    for (const { unix_ms: at, kind } of this.#events) {
      const x = plot.valToPos(at / 1000, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      context.beginPath();
      context.moveTo(x, bbox.top);
      context.lineTo(x, bbox.top + bbox.height);
      context.stroke();
      if (x - last > 9 * ratio) context.fillText(LETTERS[kind] ?? "*", x, bbox.top);
      last = x;
    }
    context.restore();
  }
}

export const letterOf = (kind) => LETTERS[kind] ?? "*";

const size = (figure) => ({ width: Math.max(200, figure.clientWidth - 18), height: 190 });
