// Cells of zones as pixels: every frame is written whole, row by row, which is faster than to draw a hundred thousand rectangles.

const rgba = (hex, light) => {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const mixed = (part, with_) => Math.round(part + (with_ - part) * light.share);
  return (0xff000000 | (mixed(b, light.b) << 16) | (mixed(g, light.g) << 8) | mixed(r, light.r)) >>> 0;
};

// Smallest cells with a gap, a level and a pattern.
const GAP_FROM = 5;
const DETAIL_FROM = 7;

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

// Paints cells of `size` pixels, in rows of `columns`, whose first corner is at -left, -top, into `pixels` of this width and height.
// `kind` and `fill` say what a zone looks like.
export function paint({ pixels, width, height }, { columns, count, size, left, top }, colours, kind, fill) {
  pixels.fill(colours.back);
  const gap = size >= GAP_FROM ? 1 : 0;
  const hasDetail = size >= DETAIL_FROM;
  const rows = Math.ceil(count / columns);
  const [firstRow, lastRow] = [Math.max(0, Math.floor(top / size)), Math.min(rows - 1, Math.floor((top + height - 1) / size))];
  const [firstColumn, lastColumn] = [Math.max(0, Math.floor(left / size)), Math.min(columns - 1, Math.floor((left + width - 1) / size))];
  for (let row = firstRow; row <= lastRow; row += 1) {
    const y0 = Math.max(0, Math.round(row * size - top));
    const bottom = Math.round((row + 1) * size - top);
    const y1 = Math.min(height, Math.max(y0 + 1, bottom - gap));
    for (let column = firstColumn; column <= lastColumn; column += 1) {
      const zone = row * columns + column;
      if (zone >= count) break;
      const x0 = Math.max(0, Math.round(column * size - left));
      const x1 = Math.min(width, Math.max(x0 + 1, Math.round((column + 1) * size - left) - gap));
      const { full, pale, dark, pattern } = colours.of[kind(zone)] ?? colours.fallback;
      if (!hasDetail) {
        for (let y = y0; y < y1; y += 1) pixels.fill(full, y * width + x0, y * width + x1);
        continue;
      }
      // The level of what is written stands from the bottom; above it the colour is pale.
      const level = bottom - gap - fill(zone) * (size - gap);
      for (let y = y0; y < y1; y += 1) {
        const colour = y + 0.5 >= level ? full : pale;
        const start = y * width;
        pixels.fill(colour, start + x0, start + x1);
        for (let x = x0; x < x1; x += 1) {
          if (pattern(x - x0, y - y0)) pixels[start + x] = dark;
        }
      }
    }
  }
}
