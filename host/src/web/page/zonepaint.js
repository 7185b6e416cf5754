// Cells of zones as pixels: every frame is written whole, row by row, which is faster than to draw a hundred thousand rectangles.

const rgba = (hex, light) => {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const mixed = (part, with_) => Math.round(part + (with_ - part) * light.share);
  return (0xff000000 | (mixed(b, light.b) << 16) | (mixed(g, light.g) << 8) | mixed(r, light.r)) >>> 0;
};

// Smallest cells with a gap, a level and a pattern.
const GAP_FROM = 5;
const DETAIL_FROM = 7;
const PLAIN = () => false;

// The colours of kinds of cells, by their codes.
export function palette(kinds, isDark) {
  const back = isDark ? { r: 16, g: 21, b: 27 } : { r: 255, g: 255, b: 255 };
  const ink = isDark ? { r: 0, g: 0, b: 0 } : { r: 16, g: 22, b: 30 };
  const of = new Array(256);
  for (const { code, pattern, colours } of kinds) {
    const colour = colours[isDark ? 1 : 0];
    of[code & 255] = {
      full: rgba(colour, { ...back, share: 0 }),
      pale: rgba(colour, { ...back, share: 0.62 }),
      dark: rgba(colour, { ...ink, share: 0.4 }),
      pattern,
    };
  }
  const fallback = { full: 0xff808080, pale: 0xff808080, dark: 0xff404040, pattern: () => false };
  return { of, fallback, back: rgba("#000000", { ...back, share: 1 }) };
}

// A cell of this many pixels a side, written up to a level from its bottom; above that the colour is pale.
function stamp({ full, pale, dark, pattern }, side, level) {
  const pixels = new Uint32Array(side * side);
  for (let y = 0; y < side; y += 1) {
    const colour = side - y <= level ? full : pale;
    for (let x = 0; x < side; x += 1) pixels[y * side + x] = pattern(x, y) ? dark : colour;
  }
  return pixels;
}

// Paints cells of `size` pixels, in rows of `columns`, whose first corner is at -left, -top, into `pixels` of this width and height.
// `kind` and `fill` say what a zone looks like.
export function paint({ pixels, width, height }, { columns, count, size, left, top }, colours, kind, fill) {
  pixels.fill(colours.back);
  const gap = size >= GAP_FROM ? 1 : 0;
  const side = Math.ceil(size - gap);
  // Cells that look alike are made once in a frame.
  const stamps = new Map();
  const cell = (zone) => {
    const code = kind(zone);
    const level = size >= DETAIL_FROM ? Math.round(fill(zone) * side) : side;
    const key = code * 65536 + level;
    let made = stamps.get(key);
    if (!made) {
      const look = colours.of[code] ?? colours.fallback;
      made = stamp(size >= DETAIL_FROM ? look : { ...look, pattern: PLAIN }, side, level);
      stamps.set(key, made);
    }
    return made;
  };
  const rows = Math.ceil(count / columns);
  const [firstRow, lastRow] = [Math.max(0, Math.floor(top / size)), Math.min(rows - 1, Math.floor((top + height - 1) / size))];
  const [firstColumn, lastColumn] = [Math.max(0, Math.floor(left / size)), Math.min(columns - 1, Math.floor((left + width - 1) / size))];
  for (let row = firstRow; row <= lastRow; row += 1) {
    const top0 = Math.round(row * size - top);
    const y0 = Math.max(0, top0);
    const y1 = Math.min(height, top0 + side, Math.max(top0 + 1, Math.round((row + 1) * size - top) - gap));
    for (let column = firstColumn; column <= lastColumn; column += 1) {
      const zone = row * columns + column;
      if (zone >= count) break;
      const left0 = Math.round(column * size - left);
      const x0 = Math.max(0, left0);
      const x1 = Math.min(width, left0 + side, Math.max(left0 + 1, Math.round((column + 1) * size - left) - gap));
      const from = cell(zone);
      for (let y = y0; y < y1; y += 1) {
        const end = y * width + x1;
        let source = (y - top0) * side + x0 - left0;
        for (let at = y * width + x0; at < end; at += 1) {
          pixels[at] = from[source];
          source += 1;
        }
      }
    }
  }
}
