// The zones of a device, kept up to date with what has changed: docs/web.md has the form of the answers.

const MAGIC = 0x315a4853;

export class Zones {
  version = 0;
  count = 0;
  zoneSectors = 0;
  // How old all of that is.
  ageMs = 0;
  names = [];
  written = new Uint32Array(0);
  capacity = new Uint32Array(0);
  state = new Uint8Array(0);
  use = new Uint8Array(0);

  // Takes in an answer; whether there are other zones now.
  take(buffer) {
    const [magic, version, count, changed, isWhole, zoneSectors, ageMs] = new Uint32Array(buffer, 0, 8);
    if (magic !== MAGIC) throw new Error("these are no zones");
    this.ageMs = ageMs;
    const isNew = isWhole === 1;
    if (isNew) {
      Object.assign(this, { count, zoneSectors });
      [this.written, this.capacity] = [new Uint32Array(count), new Uint32Array(count)];
      [this.state, this.use] = [new Uint8Array(count), new Uint8Array(count)];
    }
    const [numbers, written, capacity] = [0, 1, 2].map((n) => new Uint32Array(buffer, 32 + 4 * n * changed, changed));
    const [state, use] = [0, 1].map((n) => new Uint8Array(buffer, 32 + (12 + n) * changed, changed));
    for (let n = 0; n < changed; n += 1) {
      const zone = numbers[n];
      [this.written[zone], this.capacity[zone]] = [written[n], capacity[n]];
      [this.state[zone], this.use[zone]] = [state[n], use[n]];
    }
    const names = new TextDecoder().decode(new Uint8Array(buffer, 32 + 14 * changed));
    [this.version, this.names] = [version, names ? names.split("\n") : []];
    return { isNew, changed };
  }

  condition = (zone) => this.state[zone] & 15;
  isConventional = (zone) => this.state[zone] >> 4 === 1;

  // How much of a zone is written, from 0 to 1; of one without a pointer all, as anything may be.
  fill(zone) {
    const condition = this.condition(zone);
    if (this.isConventional(zone)) return 1;
    if (condition === 14) return 1;
    return this.capacity[zone] ? Math.min(1, this.written[zone] / this.capacity[zone]) : 0;
  }

  // The step of the scale of fills.
  fillStep(zone) {
    const fill = this.fill(zone);
    return fill === 0 ? 0 : fill >= 1 ? 5 : Math.min(4, 1 + Math.floor(fill * 4));
  }
}
