// What has happened, the newest first.

import { $, make, offer } from "./dom.js";
import { letterOf } from "./charts.js";
import { clock } from "./units.js";

const MOST = 1000;
const BAD = ["cut", "fault", "client"];

export class EventList {
  events = [];
  #isStale = true;

  constructor() {
    $("kinds").addEventListener("change", () => {
      this.#isStale = true;
      this.show();
    });
  }

  // The number of the last one.
  get last() {
    return this.events.at(-1)?.number ?? 0;
  }

  add(events) {
    if (!events.length) return;
    this.events = [...this.events, ...events].slice(-MOST);
    this.#isStale = true;
  }

  // The daemon counts from 1 again.
  restart() {
    this.events = [];
    this.#isStale = true;
  }

  show() {
    if (!this.#isStale) return;
    this.#isStale = false;
    const kinds = [...new Set(this.events.map(({ kind }) => kind))].sort();
    offer($("kinds"), [["", "all"], ...kinds.map((kind) => [kind, kind])]);
    const wanted = $("kinds").value;
    const shown = this.events.filter(({ kind }) => !wanted || kind === wanted).reverse();
    $("list").replaceChildren(...shown.map(({ unix_ms: at, kind, device, text }) =>
      make("li", BAD.includes(kind) ? { class: "bad" } : {},
        make("time", { datetime: new Date(at).toISOString() }, clock(at)),
        make("b", {}, `${letterOf(kind)} ${kind}`),
        make("span", {}, device && !text.includes(device) ? `${device}: ${text}` : text)),
    ));
    if (!shown.length) $("list").append(make("li", {}, make("span", {}, "Nothing has happened yet.")));
  }
}
