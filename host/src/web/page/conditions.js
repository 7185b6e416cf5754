// Conditions of zones, and how each looks: a colour, a pattern and a letter, so that none is told by its colour alone.

// By the kernel's numbers (enum blk_zone_cond). A pattern says which pixels of a cell are darker.
const PATTERNS = {
  none: () => false,
  dots: (x, y) => x % 4 < 1 && y % 4 < 1,
  rising: (x, y) => (x + y) % 6 < 2,
  falling: (x, y) => (x - y + 6000) % 6 < 2,
  lines: (x, y) => y % 5 < 1,
  bars: (x) => x % 5 < 2,
  mesh: (x, y) => (x + y) % 5 < 1 || (x - y + 5000) % 5 < 1,
};

export const CONDITIONS = [
  [0, "conventional", "C", "dots", "#8d78b8", "#9a86c9"],
  [1, "empty", "E", "none", "#d9e0e8", "#2a3541"],
  [2, "implicitly open", "I", "rising", "#2f9e6e", "#3fbf87"],
  [3, "explicitly open", "X", "falling", "#0d8aa8", "#35b6d6"],
  [4, "closed", "L", "lines", "#d39a1c", "#e0ae3f"],
  [13, "read-only", "R", "bars", "#c2571a", "#e58a4e"],
  [14, "full", "F", "none", "#3b6fb6", "#5b8fd6"],
  [15, "offline", "O", "mesh", "#a3262a", "#d8585b"],
].map(([code, name, letter, pattern, light, dark]) => ({ code, name, letter, pattern: PATTERNS[pattern], colours: [light, dark] }));

export const FILLS = [
  ["empty", "#d9e0e8", "#2a3541"], ["to 25 %", "#a9cdea", "#2c4f74"], ["to 50 %", "#6faadb", "#3a6ea5"],
  ["to 75 %", "#3c80c0", "#5b95d2"], ["to 100 %", "#1f5a99", "#86b8ea"], ["full", "#0b2f5c", "#cfe4fa"],
].map(([name, light, dark], n) => ({ code: n, name, letter: String(n), pattern: PATTERNS.none, colours: [light, dark] }));

const USE_COLOURS = [
  ["#d9e0e8", "#2a3541"], ["#3b6fb6", "#5b8fd6"], ["#d39a1c", "#e0ae3f"], ["#2f9e6e", "#3fbf87"], ["#8d78b8", "#9a86c9"],
  ["#0d8aa8", "#35b6d6"], ["#c2571a", "#e58a4e"], ["#a3262a", "#d8585b"], ["#6b7480", "#98a3b0"], ["#b0568f", "#d884b9"],
];
const USE_PATTERNS = ["none", "none", "lines", "rising", "dots", "falling", "bars", "mesh"];

export const usesOf = (names) =>
  names.map((name, n) => ({
    code: n,
    name: name || "not known",
    letter: (name[0] ?? "?").toUpperCase(),
    pattern: PATTERNS[USE_PATTERNS[n % USE_PATTERNS.length]],
    colours: USE_COLOURS[n % USE_COLOURS.length],
  }));

const byCode = new Map(CONDITIONS.map((condition) => [condition.code, condition]));
const UNKNOWN = { code: -1, name: "unknown", letter: "?", pattern: PATTERNS.none, colours: ["#ffffff", "#000000"] };
export const condition = (code) => byCode.get(code) ?? UNKNOWN;
