// What has been done between two looks at the metrics, by export and device.

const READS = ["read"];
const WRITES = ["write", "write_zeroes", "zone_append"];

// Names of subjects: an export and a device may have the same name.
export const exportKey = (name) => `export ${name}`;
export const deviceKey = (name) => `device ${name}`;

// The samples of a family by subject: Map of subject to [further labels, value].
function bySubject(metrics, family, key) {
  const all = new Map();
  for (const [[name, ...rest], value] of metrics[family] ?? []) {
    const of = key(name);
    if (!all.has(of)) all.set(of, []);
    all.get(of).push([rest, value]);
  }
  return all;
}

const sum = (samples, labels) =>
  (samples ?? []).reduce((sum, [[label], value]) => (!labels || labels.includes(label) ? sum + value : sum), 0);

// The histogram of all samples of this work: Map of bound to count.
function histogram(samples, works) {
  const cells = new Map();
  for (const [[work], [, pairs]] of samples ?? []) {
    if (!works.includes(work)) continue;
    for (const [bound, count] of pairs) cells.set(bound ?? Infinity, (cells.get(bound ?? Infinity) ?? 0) + count);
  }
  return cells;
}

// The time that a share of what is in `now` and not in `before` did not exceed. Bounds are powers of two: within one, times are taken
// as spread evenly.
export function quantile(now, before, share) {
  const cells = [...now].map(([bound, count]) => [bound, count - (before.get(bound) ?? 0)]).filter(([, count]) => count > 0);
  cells.sort(([a], [b]) => a - b);
  const total = cells.reduce((sum, [, count]) => sum + count, 0);
  let rest = total * share;
  for (const [bound, count] of cells) {
    if (rest <= count) return bound === Infinity ? null : (bound / 2) * (1 + rest / count);
    rest -= count;
  }
  return null;
}

// All that is known of each subject at one look, as counts since the start, and gauges.
function look(metrics) {
  const subjects = new Map();
  const of = (key) => {
    if (!subjects.has(key)) subjects.set(key, { gauges: {} });
    return subjects.get(key);
  };
  for (const [kind, key, latency] of [
    ["export", exportKey, "export_latency_seconds"],
    ["device", deviceKey, "disk_latency_seconds"],
  ]) {
    const operations = bySubject(metrics, `${kind}_operations`, key);
    const bytes = bySubject(metrics, `${kind}_bytes`, key);
    const errors = bySubject(metrics, `${kind}_errors`, key);
    const times = bySubject(metrics, latency, key);
    for (const name of bySubject(metrics, `${kind}_info`, key).keys()) {
      const all = sum(operations.get(name));
      const [reads, writes] = [READS, WRITES].map((labels) => sum(operations.get(name), labels));
      Object.assign(of(name), {
        reads,
        writes,
        others: all - reads - writes,
        readBytes: sum(bytes.get(name), READS),
        writeBytes: sum(bytes.get(name), WRITES),
        errors: sum(errors.get(name)),
        readTimes: histogram(times.get(name), ["read"]),
        writeTimes: histogram(times.get(name), ["write"]),
      });
    }
  }
  const gauge = (family, name) => {
    for (const [[device], value] of metrics[family] ?? []) of(deviceKey(device)).gauges[name] = value;
  };
  gauge("device_in_flight", "inFlight");
  gauge("device_suspended", "suspended");
  gauge("drive_power", "power");
  gauge("stl_free_zones", "freeZones");
  gauge("stl_zones", "zones");
  gauge("stl_amplification", "amplification");
  gauge("dmzoned_amplification", "amplification");
  const total = (families, name, times = 1) => {
    for (const family of families) {
      for (const [[device], value] of metrics[family] ?? []) {
        const subject = of(deviceKey(device));
        subject[name] = (subject[name] ?? 0) + value * times;
      }
    }
  };
  total(["stl_copied_blocks", "dmzoned_copied_blocks"], "copiedBytes", 4096);
  total(["stl_cleaned_zones", "dmzoned_reclaimed_zones"], "cleanedZones");
  const pools = ["cache", "random", "sequential"];
  for (const [family, name] of pools.flatMap((pool) => [
    [`dmzoned_free_${pool}_zones`, "freeZones"],
    [`dmzoned_${pool}_zones`, "zones"],
  ])) {
    for (const [[device], value] of metrics[family] ?? []) {
      const { gauges } = of(deviceKey(device));
      gauges[name] = (gauges[name] ?? 0) + value;
    }
  }
  for (const [[device, condition], value] of metrics.zones ?? []) {
    const { gauges } = of(deviceKey(device));
    if (condition === "empty") gauges.freeZones = value;
    gauges.zones = (gauges.zones ?? 0) + value;
  }
  return subjects;
}

const COUNTS = ["reads", "writes", "others", "readBytes", "writeBytes", "errors", "copiedBytes", "cleanedZones"];

export class Rates {
  #before = null;

  // Rates and gauges by subject since the look before; null at the first one, after the daemon began anew, or if nothing is new.
  next(metrics) {
    const uptime = metrics.uptime_seconds?.[0]?.[1] ?? 0;
    if (this.#before && uptime === this.#before.uptime) return null;
    const before = this.#before;
    const subjects = look(metrics);
    this.#before = { uptime, subjects };
    if (!before || uptime < before.uptime) return null;
    const took = uptime - before.uptime;
    const rates = new Map();
    for (const [key, now] of subjects) {
      const then = before.subjects.get(key);
      const rate = { ...now.gauges };
      for (const name of COUNTS) {
        const more = now[name] - (then?.[name] ?? now[name]);
        if (now[name] !== undefined) rate[name] = more < 0 ? 0 : more / took;
      }
      for (const [name, times] of [["read", "readTimes"], ["write", "writeTimes"]]) {
        if (!now[times]?.size || !then?.[times]) continue;
        rate[`${name}P50`] = quantile(now[times], then[times], 0.5);
        rate[`${name}P99`] = quantile(now[times], then[times], 0.99);
      }
      rates.set(key, rate);
    }
    return rates;
  }
}
