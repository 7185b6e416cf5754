// Numbers for people.

const rounded = (number) => (number >= 100 || Number.isInteger(number) ? number.toFixed(0) : number.toPrecision(3));

function scaled(number, step, units) {
  let unit = 0;
  while (Math.abs(number) >= step && unit < units.length - 1) {
    number /= step;
    unit += 1;
  }
  return `${rounded(number)}${units[unit]}`;
}

export const count = (number) => scaled(number, 1000, ["", "k", "M", "G", "T"]);
export const bytes = (number) => scaled(number, 1024, [" B", " KiB", " MiB", " GiB", " TiB", " PiB"]);

export function seconds(time) {
  if (time === null || time === undefined) return "-";
  if (time < 1e-3) return `${rounded(time * 1e6)} µs`;
  return time < 1 ? `${rounded(time * 1e3)} ms` : `${rounded(time)} s`;
}

export const clockTime = (unixMs) => new Date(unixMs).toLocaleTimeString(undefined, { hour12: false });
export const clock = (unixMs) => new Date(unixMs).toLocaleString(undefined, { dateStyle: "short", timeStyle: "medium", hourCycle: "h23" });
