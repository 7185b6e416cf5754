// The zone map: a cell a zone, in rows. Wheel, pinch, buttons and keys zoom; dragging pans; a click or the arrow keys choose a zone.

import { $, make } from "./dom.js";
import { CONDITIONS, FILLS, condition, usesOf } from "./conditions.js";
import { bytes } from "./units.js";
import { paint, palette } from "./zonepaint.js";

// Largest cell, and the smallest one with a letter in it, in pixels of the page.
const LARGEST = 96;
const LETTER_FROM = 20;
// How far a pointer may move and still mean a click.
const STILL = 5;
const EMPTY = condition(1);

const dark = matchMedia("(prefers-color-scheme: dark)");

export class ZoneMap {
  #box = $("map");
  #canvas = this.#box.querySelector("canvas");
  #tip = $("tip");
  #context = this.#canvas.getContext("2d", { alpha: false });
  #image = null;
  #zones = null;
  #mode = "condition";
  #kinds = CONDITIONS;
  #colours = null;
  // The world: cells of one pixel of the page, times the scale, from its corner on.
  #columns = 1;
  #least = 1;
  #scale = 1;
  #left = 0;
  #top = 0;
  #chosen = -1;
  #isDue = false;
  #pointers = new Map();
  #moved = 0;
  // Where the tooltip is for.
  #pointed = [0, 0];
  // Times of the last frames, in milliseconds, for who measures them.
  frames = [];
  owner = "";

  constructor() {
    new ResizeObserver(() => this.#resize()).observe(this.#box);
    dark.addEventListener("change", () => this.#recolour());
    const canvas = this.#canvas;
    canvas.addEventListener("wheel", (event) => this.#onWheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.#onDown(event));
    canvas.addEventListener("pointermove", (event) => this.#onMove(event));
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => this.#onUp(event));
    canvas.addEventListener("pointerleave", () => (this.#tip.hidden = true));
    canvas.addEventListener("keydown", (event) => this.#onKey(event));
    const middle = () => [this.#box.clientWidth / 2, this.#box.clientHeight / 2];
    $("in").addEventListener("click", () => this.#zoom(1.6, ...middle()));
    $("out").addEventListener("click", () => this.#zoom(1 / 1.6, ...middle()));
    $("fit").addEventListener("click", () => this.#fit());
    $("colour").addEventListener("change", (event) => {
      this.#mode = event.target.value;
      this.#recolour();
    });
  }

  // Shows these zones; `isNew` if they are others than before.
  show(zones, isNew) {
    const isOther = isNew || zones !== this.#zones;
    this.#zones = zones;
    if (isOther) {
      this.#tip.hidden = true;
      this.#chosen = Math.min(this.#chosen, zones.count - 1);
      this.#fit();
    }
    this.#recolour();
    this.#tell();
    if (!this.#tip.hidden) this.#showTip(...this.#pointed);
  }

  clear() {
    [this.#zones, this.#chosen] = [null, -1];
    this.#tip.hidden = true;
    $("legend").replaceChildren();
    $("count").textContent = "";
    $("zone").textContent = "";
    this.#draw();
  }

  #recolour() {
    const zones = this.#zones;
    const hasUses = (zones?.names.length ?? 0) > 0;
    [...$("colour").options].find(({ value }) => value === "use").disabled = !hasUses;
    if (!hasUses && this.#mode === "use") [this.#mode, $("colour").value] = ["condition", "condition"];
    this.#kinds = { condition: CONDITIONS, fill: FILLS, use: usesOf(zones?.names ?? []) }[this.#mode];
    this.#colours = palette(this.#kinds, dark.matches);
    this.#writeLegend();
    this.#draw();
  }

  #kind = (zone) =>
    this.#mode === "condition" ? this.#zones.state[zone] & 15 : this.#mode === "fill" ? this.#zones.fillStep(zone) : this.#zones.use[zone];

  #writeLegend() {
    const zones = this.#zones;
    if (!zones) return;
    const counts = new Uint32Array(256);
    for (let zone = 0; zone < zones.count; zone += 1) counts[this.#kind(zone)] += 1;
    const shown = this.#kinds.filter(({ code }) => counts[code] > 0);
    $("legend").replaceChildren(...shown.map((kind) => {
      const swatch = make("canvas", { width: 18, height: 18, "aria-hidden": "true" });
      const context = swatch.getContext("2d");
      const image = context.createImageData(18, 18);
      const area = { pixels: new Uint32Array(image.data.buffer), width: 18, height: 18 };
      paint(area, { columns: 1, count: 1, size: 19, left: 0, top: 0 }, this.#colours, () => kind.code, () => (kind === EMPTY ? 0 : 1));
      context.putImageData(image, 0, 0);
      return make("li", {}, swatch, `${kind.letter} ${kind.name}: ${counts[kind.code].toLocaleString()}`);
    }));
    // A disk whose report takes long is asked seldom.
    const age = zones.ageMs > 5000 ? `, as they were ${Math.round(zones.ageMs / 1000)} s ago` : "";
    $("count").textContent = `${zones.count.toLocaleString()} zones of ${bytes(zones.zoneSectors * 512)}${age}`;
  }

  // As many columns as make the smallest world that fills the box, and that world in the box.
  #fit() {
    const [width, height, count] = [this.#box.clientWidth, this.#box.clientHeight, this.#zones?.count ?? 0];
    if (!width || !height || !count) return;
    let size = Math.min(LARGEST, Math.sqrt((width * height) / count));
    const fits = () => Math.ceil(count / Math.max(1, Math.floor(width / size))) * size <= height;
    while (!fits()) size *= 0.99;
    this.#columns = Math.min(count, Math.max(1, Math.floor(width / size)));
    [this.#least, this.#scale, this.#left, this.#top] = [size, size, 0, 0];
    this.#draw();
  }

  #resize() {
    const ratio = devicePixelRatio || 1;
    const [width, height] = [Math.round(this.#box.clientWidth * ratio), Math.round(this.#box.clientHeight * ratio)];
    if (!width || !height) return;
    [this.#canvas.width, this.#canvas.height] = [width, height];
    this.#image = null;
    this.#fit();
    this.#draw();
  }

  #hold() {
    const rows = Math.ceil((this.#zones?.count ?? 0) / this.#columns);
    const within = (at, world, box) => Math.max(0, Math.min(at, world - box));
    this.#left = within(this.#left, this.#columns * this.#scale, this.#box.clientWidth);
    this.#top = within(this.#top, rows * this.#scale, this.#box.clientHeight);
  }

  #zoom(times, x, y) {
    const scale = Math.max(this.#least, Math.min(LARGEST, this.#scale * times));
    const real = scale / this.#scale;
    [this.#left, this.#top] = [(this.#left + x) * real - x, (this.#top + y) * real - y];
    this.#scale = scale;
    this.#hold();
    this.#draw();
  }

  #draw() {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => {
      this.#isDue = false;
      const began = performance.now();
      this.#frame();
      this.frames.push(performance.now() - began);
      if (this.frames.length > 1000) this.frames.shift();
    });
  }

  #frame() {
    const { width, height } = this.#canvas;
    if (!this.#zones?.count || !this.#colours || !width) return this.#context.clearRect(0, 0, width, height);
    if (!this.#image) {
      this.#image = this.#context.createImageData(width, height);
      this.#image.pixels = new Uint32Array(this.#image.data.buffer);
    }
    const ratio = width / this.#box.clientWidth;
    const view = {
      columns: this.#columns,
      count: this.#zones.count,
      size: this.#scale * ratio,
      left: Math.round(this.#left * ratio),
      top: Math.round(this.#top * ratio),
    };
    paint({ pixels: this.#image.pixels, width, height }, view, this.#colours, this.#kind, (zone) => this.#zones.fill(zone));
    this.#context.putImageData(this.#image, 0, 0);
    if (this.#scale >= LETTER_FROM) this.#writeLetters(view, ratio);
    if (this.#chosen >= 0) this.#mark(view, ratio);
  }

  #writeLetters({ columns, count, size, left, top }, ratio) {
    const context = this.#context;
    context.font = `600 ${Math.round(11 * ratio)}px system-ui, sans-serif`;
    [context.textBaseline, context.lineWidth, context.lineJoin] = ["top", 3 * ratio, "round"];
    [context.fillStyle, context.strokeStyle] = dark.matches ? ["#ffffff", "#10151b"] : ["#10151b", "#ffffff"];
    const letters = new Map(this.#kinds.map(({ code, letter }) => [code, letter]));
    const { width, height } = this.#canvas;
    for (let row = Math.floor(top / size); row * size < top + height; row += 1) {
      for (let column = Math.floor(left / size); column < columns && column * size < left + width; column += 1) {
        const zone = row * columns + column;
        if (zone >= count) return;
        const [x, y] = [column * size - left + 3 * ratio, row * size - top + 3 * ratio];
        const letter = letters.get(this.#kind(zone)) ?? "?";
        context.strokeText(letter, x, y);
        context.fillText(letter, x, y);
      }
    }
  }

  #mark({ columns, size, left, top }, ratio) {
    const context = this.#context;
    const side = Math.max(size, 6 * ratio);
    const [x, y] = [(this.#chosen % columns) * size - left, Math.floor(this.#chosen / columns) * size - top];
    for (const [colour, width] of [["#000000", 4], ["#ffffff", 2]]) {
      [context.strokeStyle, context.lineWidth] = [colour, width * ratio];
      context.strokeRect(x - ratio, y - ratio, side + ratio, side + ratio);
    }
  }

  // The zone at a place of the box; -1 if there is none.
  #at(x, y) {
    const [column, row] = [Math.floor((this.#left + x) / this.#scale), Math.floor((this.#top + y) / this.#scale)];
    const zone = row * this.#columns + column;
    const isZone = column >= 0 && column < this.#columns && row >= 0 && zone < (this.#zones?.count ?? 0);
    return isZone ? zone : -1;
  }

  #words(zone, between) {
    const zones = this.#zones;
    const start = zone * zones.zoneSectors;
    const is = condition(zones.condition(zone));
    const words = [`Zone ${zone}: ${is.name} (${is.letter})`, `start sector ${start}`];
    if (!zones.isConventional(zone)) {
      const percent = (100 * zones.fill(zone)).toFixed(zones.fill(zone) % 1 ? 1 : 0);
      words.push(`write pointer ${start + zones.written[zone]}`, `written ${percent} % of ${bytes(zones.capacity[zone] * 512)}`);
    }
    if (zones.names.length) words.push(`used for ${zones.names[zones.use[zone]] || "nothing known"}`);
    if (this.owner) words.push(`owner ${this.owner}`);
    return words.join(between);
  }

  #tell() {
    const isThere = this.#zones && this.#chosen >= 0 && this.#chosen < this.#zones.count;
    const words = isThere ? this.#words(this.#chosen, ", ") : "";
    if ($("zone").textContent !== words) $("zone").textContent = words;
  }

  #choose(zone) {
    this.#chosen = zone;
    this.#tell();
    this.#draw();
  }

  #place(event) {
    const { left, top } = this.#canvas.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  }

  #onWheel(event) {
    const isOut = event.deltaY > 0;
    // There is nothing to make smaller: the page scrolls.
    if (isOut && this.#scale <= this.#least) return;
    event.preventDefault();
    this.#zoom(Math.exp(-Math.max(-60, Math.min(60, event.deltaY)) / 200), ...this.#place(event));
  }

  #onDown(event) {
    this.#canvas.setPointerCapture(event.pointerId);
    this.#pointers.set(event.pointerId, this.#place(event));
    this.#moved = this.#pointers.size > 1 ? Infinity : 0;
  }

  #onMove(event) {
    const now = this.#place(event);
    const before = this.#pointers.get(event.pointerId);
    if (!before) return this.#showTip(...now);
    const [other] = [...this.#pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
    this.#pointers.set(event.pointerId, now);
    this.#moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
    if (this.#moved <= STILL) return;
    this.#tip.hidden = true;
    [this.#left, this.#top] = [this.#left - (now[0] - before[0]) / (other ? 2 : 1), this.#top - (now[1] - before[1]) / (other ? 2 : 1)];
    if (other) {
      const far = ([x, y]) => Math.max(1, Math.hypot(x - other[0], y - other[1]));
      this.#zoom(far(now) / far(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    }
    this.#hold();
    this.#draw();
  }

  #onUp(event) {
    const place = this.#pointers.get(event.pointerId);
    this.#pointers.delete(event.pointerId);
    if (event.type === "pointerup" && place && this.#moved <= STILL) this.#choose(this.#at(...place));
  }

  #showTip(x, y) {
    const zone = this.#at(x, y);
    this.#pointed = [x, y];
    this.#tip.hidden = zone < 0;
    if (zone < 0) return;
    this.#tip.textContent = this.#words(zone, "\n");
    const [width, height] = [this.#tip.offsetWidth, this.#tip.offsetHeight];
    const left = x + 14 + width > this.#box.clientWidth ? Math.max(0, x - width - 10) : x + 14;
    const top = y + 14 + height > this.#box.clientHeight ? Math.max(0, y - height - 10) : y + 14;
    this.#tip.style.transform = `translate(${left}px, ${top}px)`;
  }

  #onKey(event) {
    const count = this.#zones?.count ?? 0;
    const middle = [this.#box.clientWidth / 2, this.#box.clientHeight / 2];
    const steps = {
      ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.#columns, ArrowDown: this.#columns,
      PageUp: -10 * this.#columns, PageDown: 10 * this.#columns, Home: -Infinity, End: Infinity,
    };
    if (event.ctrlKey || event.altKey || event.metaKey || !count) return;
    if (event.key === "+" || event.key === "=") this.#zoom(1.6, ...this.#chosenPlace(middle));
    else if (event.key === "-") this.#zoom(1 / 1.6, ...this.#chosenPlace(middle));
    else if (event.key === "0") this.#fit();
    else if (event.key in steps) {
      const from = this.#chosen < 0 ? 0 : this.#chosen + steps[event.key];
      this.#choose(Math.max(0, Math.min(count - 1, from)));
      this.#reveal();
    } else return;
    event.preventDefault();
  }

  #chosenPlace(otherwise) {
    if (this.#chosen < 0) return otherwise;
    const [x, y] = [((this.#chosen % this.#columns) + 0.5) * this.#scale - this.#left, (Math.floor(this.#chosen / this.#columns) + 0.5) * this.#scale - this.#top];
    return [x, y];
  }

  // Pans so that the chosen zone is to be seen.
  #reveal() {
    const [x, y] = [(this.#chosen % this.#columns) * this.#scale, Math.floor(this.#chosen / this.#columns) * this.#scale];
    const near = (at, from, box) => Math.max(at + this.#scale - box, Math.min(at, from));
    this.#left = near(x, this.#left, this.#box.clientWidth);
    this.#top = near(y, this.#top, this.#box.clientHeight);
    this.#hold();
    this.#draw();
  }
}
