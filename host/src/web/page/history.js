// The last hour, a look a second, in memory that does not grow: rings of numbers for as many subjects as there is room for.

export const SERIES = [
  "reads", "writes", "others", "readBytes", "writeBytes", "readP50", "readP99", "writeP50", "writeP99",
  "freeZones", "copiedBytes", "cleanedZones", "amplification",
];

const LOOKS = 3600;
const MOST_SUBJECTS = 64;

export class History {
  // Seconds since 1970 of each look; the newest is at `#looks - 1`, around the ring.
  #times = new Float64Array(LOOKS);
  #looks = 0;
  #rings = new Map();
  // The subject that is shown: it has a ring whatever else has.
  chosen = "";

  add(time, rates) {
    const place = this.#looks % LOOKS;
    this.#times[place] = time;
    this.#looks += 1;
    for (const key of this.#rings.keys()) {
      this.#rings.get(key).forEach((ring, n) => (ring[place] = rates.get(key)?.[SERIES[n]] ?? NaN));
    }
    for (const [key, rate] of rates) {
      if (!this.#rings.has(key) && this.#makeRoom(key)) {
        const rings = SERIES.map(() => new Float32Array(LOOKS).fill(NaN));
        rings.forEach((ring, n) => (ring[place] = rate[SERIES[n]] ?? NaN));
        this.#rings.set(key, rings);
      }
    }
  }

  #makeRoom(key) {
    if (this.#rings.size < MOST_SUBJECTS) return true;
    if (key !== this.chosen) return false;
    const [first] = this.#rings.keys();
    return this.#rings.delete(first);
  }

  // Times and these series of the last seconds; null where nothing is known.
  last(seconds, names) {
    const end = this.#looks;
    let first = Math.max(0, end - LOOKS);
    const since = end ? this.#times[(end - 1) % LOOKS] - seconds : 0;
    while (first < end && this.#times[first % LOOKS] < since) first += 1;
    const rings = this.#rings.get(this.chosen);
    const column = (ring) =>
      Array.from({ length: end - first }, (_, n) => {
        const value = ring?.[(first + n) % LOOKS];
        return value === undefined || Number.isNaN(value) ? null : value;
      });
    return [column(this.#times), ...names.map((name) => column(rings?.[SERIES.indexOf(name)]))];
  }
}
