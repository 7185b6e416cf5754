// The stack as a graph, with the rates of the last second.

import { $, draw } from "./dom.js";
import { arrange } from "./layers.js";
import { deviceKey, exportKey } from "./rates.js";
import { bytes, count } from "./units.js";

// What there is, out of the daemon's answers.
function parts(status, deps) {
  const names = new Set(status.devices.map((device) => device.name));
  const nodes = [
    ...status.exports.map((it) => ({ id: exportKey(it.name), name: it.name, kind: it.path ?? "export", isExport: true, it })),
    ...status.devices.map((it) => ({ id: deviceKey(it.name), name: it.name, kind: it.kind, isExport: false, it })),
  ];
  const lines = status.exports.filter((it) => names.has(it.device)).map((it) => ({ from: exportKey(it.name), to: deviceKey(it.device) }));
  const below = [
    ...deps.devices.map((it) => [it.name, it.deps.map((dep) => dep.name)]),
    ...status.devices.filter((it) => it.multipath).map((it) => [it.name, it.multipath.paths.map((path) => path.path)]),
  ];
  for (const [name, all] of below) {
    for (const other of new Set(all)) {
      if (names.has(name) && names.has(other) && name !== other) lines.push({ from: deviceKey(name), to: deviceKey(other) });
    }
  }
  return { nodes, lines };
}

// What people have to know of a device beside its rates.
function note({ it, isExport }, rate) {
  if (it.health && it.health !== "ok") return it.health;
  if (isExport) return it.read_only ? "read-only" : "";
  if (it.drive?.power === "off" || rate?.power === 0) return "no power";
  if (it.plug_failure) return "plug refuses writes";
  if (rate?.suspended ?? it.suspended) return "suspended";
  const down = (it.multipath?.paths ?? []).filter((path) => !path.usable).length;
  if (down) return `${down} of ${it.multipath.paths.length} paths down`;
  if (rate?.errors > 0) return `${count(rate.errors)} errors/s`;
  return "";
}

const cut = (text, width) => {
  const most = Math.max(4, Math.floor((width - 18) / 7.6));
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
};

export class Graph {
  #box = $("graph");
  #shape = "";
  #boxes = new Map();
  #paths = [];
  #nodes = [];
  // Called with the name of a zoned device that somebody wants to see.
  onZoned = () => {};

  show(status, deps, rates) {
    const { nodes, lines } = parts(status, deps);
    this.#nodes = nodes;
    const room = Math.max(200, this.#box.clientWidth);
    const isZoned = (node) => !node.isExport && node.it.zoned !== null;
    const shape = JSON.stringify([room, nodes.map((node) => [node.id, node.kind, isZoned(node)]), lines]);
    if (shape !== this.#shape) {
      this.#shape = shape;
      this.#build(lines, room);
    }
    this.update(rates);
  }

  #build(lines, room) {
    const { places, curves, width, height } = arrange(this.#nodes, lines, room);
    const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
    this.#paths = lines.map(({ from, to }, n) => {
      const path = draw("path", { d: curves[n] });
      svg.append(path);
      return { path, from, to };
    });
    this.#boxes.clear();
    for (const node of this.#nodes) {
      const at = places.get(node.id);
      const line = (n, kind) => draw("text", { x: 9, y: 18 + 19 * n, class: kind });
      const [name, kind, reads, writes] = [line(0, "name"), line(1, "kind note"), line(2, ""), line(3, "")];
      const full = draw("title");
      const box = draw("g", { transform: `translate(${at.x} ${at.y})`, tabindex: 0, role: "img" }, full,
        draw("rect", { width: at.width, height: at.height, rx: 6 }), name, kind, reads, writes);
      name.textContent = cut(node.name, at.width);
      if (!node.isExport && node.it.zoned) {
        box.classList.add("zoned");
        box.setAttribute("role", "link");
        const open = () => this.onZoned(node.name);
        box.addEventListener("click", open);
        box.addEventListener("keydown", (event) => event.key === "Enter" && open());
      }
      svg.append(box);
      this.#boxes.set(node.id, { box, full, kind, reads, writes, width: at.width });
    }
    this.#box.replaceChildren(svg);
  }

  update(rates) {
    for (const node of this.#nodes) {
      const at = this.#boxes.get(node.id);
      const rate = rates?.get(node.id);
      if (!at) continue;
      const trouble = note(node, rate);
      const size = bytes(node.it.bytes);
      const told = (name, of, operations) => `${name} ${bytes(of ?? 0)}/s  ${count(operations ?? 0)}/s`;
      at.kind.textContent = cut(trouble ? `${trouble} · ${node.kind}` : `${node.kind}, ${size}`, at.width);
      at.reads.textContent = cut(rate ? told("R", rate.readBytes, rate.reads) : "R …", at.width + 30);
      at.writes.textContent = cut(rate ? told("W", rate.writeBytes, rate.writes) : "W …", at.width + 30);
      at.box.classList.toggle("bad", trouble !== "" && (trouble !== "read-only" || Boolean(node.it.fault)));
      const words = `${node.isExport ? "export" : "device"} ${node.name}: ${node.kind}, ${size}. ${at.reads.textContent}, ${at.writes.textContent}`;
      const why = node.it.fault ? `${node.name} ${node.it.fault}` : trouble;
      at.full.textContent = why ? `${words}. ${why}` : words;
    }
    for (const { path, from, to } of this.#paths) {
      const [one, other] = [rates?.get(from), rates?.get(to)];
      const flow = Math.min(...[one, other].map((rate) => (rate ? rate.readBytes + rate.writeBytes || 0 : 0)));
      path.setAttribute("stroke-width", flow < 1 ? 1 : Math.min(7, 1.5 + Math.log10(flow) / 1.6).toFixed(1));
    }
  }
}
