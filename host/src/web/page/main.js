// What is asked for when, and which view shows it.

import { askBytes, askJson, hasToken, setToken, takeToken } from "./api.js";
import { Charts } from "./charts.js";
import { $, make, offer } from "./dom.js";
import { EventList } from "./events.js";
import { Graph } from "./graph.js";
import { History } from "./history.js";
import { Rates, deviceKey, exportKey } from "./rates.js";
import { ZoneMap } from "./zonemap.js";
import { Zones } from "./zones.js";

const EVERY_MS = 1000;
// The stack itself changes seldom: it is asked for in one round of so many, and when something has happened.
const STATUS_ROUNDS = 5;
const VIEWS = ["stack", "zones", "time", "events"];

const [history, rates, events, graph, map] = [new History(), new Rates(), new EventList(), new Graph(), new ZoneMap()];
const charts = new Charts(history);
const state = { view: "", status: null, deps: { devices: [] }, rates: null, zones: new Zones(), device: "", round: 0, uptime: 0 };
// For tests, and for those who look into their browser's console.
globalThis.shingle = { state, map, events, history };

const isAlone = () => state.status?.shards === 0;

function choose(view) {
  const known = VIEWS.includes(view) ? view : "stack";
  state.view = isAlone() ? "zones" : known;
  for (const name of VIEWS) $(`view-${name}`).hidden = name !== state.view;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === state.view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  show();
}

// A device lies under whatever leads to it.
function ownersOf(name) {
  const above = state.deps.devices.filter((device) => device.deps.some((dep) => dep.name === name)).map((device) => device.name);
  const heads = state.status.devices.filter((device) => device.multipath?.paths.some(({ path }) => path === name));
  const exports = state.status.exports.filter((it) => it.device === name).map((it) => `export ${it.name}`);
  return [...above, ...heads.map((head) => head.name), ...exports].join(", ");
}

// Devices that are read-only or cannot be used, above all views. An export is one of them only if its device says nothing.
function showFaults({ devices, exports }) {
  const faulty = devices.filter((it) => it.fault);
  const others = exports.filter((it) => it.fault && !faulty.some((device) => device.name === it.device));
  const lines = [...faulty.map((it) => `${it.name} ${it.fault}`), ...others.map((it) => `export ${it.name} ${it.fault}`)];
  const list = $("faults");
  if ([...list.children].map((item) => item.textContent).join("\n") !== lines.join("\n")) list.replaceChildren(...lines.map((line) => make("li", {}, line)));
  list.hidden = lines.length === 0;
  document.title = `${lines.length ? "\u25B2 " : ""}${isAlone() ? `${devices[0].name} - ` : ""}Shingle`;
}

function show() {
  const { status } = state;
  if (!status || !state.view) return;
  showFaults(status);
  $("views").hidden = isAlone();
  const zoned = status.devices.filter((device) => device.zoned);
  offer($("device"), zoned.length ? zoned.map(({ name }) => [name, name]) : [["", "no zoned device"]]);
  const exports = status.exports.map(({ name }) => [exportKey(name), `export ${name}`]);
  offer($("subject"), [...exports, ...status.devices.map(({ name }) => [deviceKey(name), `device ${name}`])]);
  history.chosen = $("subject").value;
  if (state.view === "stack") graph.show(status, state.deps, state.rates);
  if (state.view === "time") charts.show(Number($("span").value), events.events);
  if (state.view === "events") events.show();
}

async function refreshStatus() {
  [state.status, state.deps] = await Promise.all([askJson("status"), askJson("deps")]);
  const { status } = state;
  const of = isAlone() ? status.devices[0].name : `${status.devices.length} devices, ${status.exports.length} exports, process ${status.pid}`;
  $("about").textContent = `${status.version}: ${of}`;
  if (!state.view) choose(location.hash.slice(1));
}

async function refreshZones() {
  const device = $("device").value;
  if (state.view !== "zones" || !device) return;
  if (device !== state.device) {
    [state.device, state.zones] = [device, new Zones()];
    map.clear();
  }
  const buffer = await askBytes(`zones?device=${encodeURIComponent(device)}&since=${state.zones.version}`);
  // Another one may have been chosen meanwhile.
  if (device !== $("device").value) return;
  const { isNew, changed } = state.zones.take(buffer);
  map.owner = ownersOf(device);
  // Old zones show their age.
  if (isNew || changed || state.zones.ageMs > 5000) map.show(state.zones, isNew);
}

async function round() {
  const metrics = await askJson("metrics");
  const uptime = metrics.uptime_seconds?.[0]?.[1] ?? 0;
  if (uptime < state.uptime) {
    events.restart();
    state.round = 0;
  }
  state.uptime = uptime;
  const { events: newer } = await askJson(`events?since=${events.last}`);
  events.add(newer);
  if (!state.status || state.round % STATUS_ROUNDS === 0 || newer.length) await refreshStatus();
  state.round += 1;
  const next = rates.next(metrics);
  if (next) {
    state.rates = next;
    history.add(Date.now() / 1000, next);
  }
  show();
  await refreshZones();
}

let timer = 0;
let isRunning = false;

function say(words, isBad) {
  if ($("state").textContent !== words) $("state").textContent = words;
  $("state").classList.toggle("bad", isBad);
}

async function run() {
  clearTimeout(timer);
  if (isRunning) return;
  if (!hasToken()) return login("This page takes a token");
  isRunning = true;
  const began = performance.now();
  let pause = EVERY_MS;
  try {
    await round();
    say("Live", false);
  } catch (error) {
    if (error.isStranger) return login(error.message);
    say(`${error.message}; trying again`, true);
    pause = 2 * EVERY_MS;
    state.round = 0;
  } finally {
    isRunning = false;
  }
  timer = setTimeout(run, Math.max(100, pause - (performance.now() - began)));
}

function login(why) {
  say(why, true);
  $("login").hidden = false;
  $("views").hidden = true;
  for (const name of VIEWS) $(`view-${name}`).hidden = true;
  state.view = "";
  $("faults").hidden = true;
}

function begin() {
  takeToken();
  $("login").hidden = true;
  state.status = null;
  run();
}

$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  setToken($("token").value.trim().replace(/^.*token=/, ""));
  begin();
});
addEventListener("hashchange", () => {
  if (location.hash.includes("token=")) begin();
  else if (state.status) choose(location.hash.slice(1)), run();
});
addEventListener("resize", show);
graph.onZoned = (name) => {
  $("device").value = name;
  location.hash = "zones";
};
$("device").addEventListener("change", run);
for (const id of ["subject", "span"]) $(id).addEventListener("change", show);
begin();
