// Where the boxes of a graph stand: in layers, from exports to disks, so that every line leads from one layer to a later one.

const SIZE = { width: 196, height: 84 };
const GAP = { along: 76, across: 14 };
const EDGE = 12;

// Nodes by layer: each behind all that lead to it, and those that lead nowhere in the last one.
function layersOf(nodes, lines) {
  const layer = new Map(nodes.map((node) => [node.id, 0]));
  // A walk along every line as often as there can be layers; there is no circle in a stack.
  for (let round = 0; round < nodes.length; round += 1) {
    let moved = false;
    for (const { from, to } of lines) {
      if (layer.get(to) <= layer.get(from)) {
        layer.set(to, layer.get(from) + 1);
        moved = true;
      }
    }
    if (!moved) break;
  }
  const last = Math.max(0, ...layer.values());
  const leads = new Set(lines.map(({ from }) => from));
  const layers = Array.from({ length: last + 1 }, () => []);
  for (const node of nodes) {
    const is = node.isExport ? 0 : Math.max(layer.get(node.id), nodes.some((other) => other.isExport) ? 1 : 0);
    (layers[leads.has(node.id) || node.isExport ? is : Math.max(last, is)] ??= []).push(node);
  }
  return layers.filter((layer) => layer?.length);
}

// Puts each node near those that it has lines with, so that few lines cross.
function untangle(layers, lines) {
  const near = new Map();
  for (const { from, to } of lines) {
    for (const [one, other] of [[from, to], [to, from]]) {
      if (!near.has(one)) near.set(one, []);
      near.get(one).push(other);
    }
  }
  for (let round = 0; round < 6; round += 1) {
    const place = new Map();
    for (const layer of layers) layer.forEach((node, n) => place.set(node.id, (n + 0.5) / layer.length));
    for (const layer of layers) {
      const pull = (node) => {
        const all = near.get(node.id) ?? [];
        return all.length ? all.reduce((sum, id) => sum + (place.get(id) ?? 0), 0) / all.length : place.get(node.id);
      };
      const pulls = new Map(layer.map((node) => [node.id, pull(node)]));
      layer.sort((a, b) => pulls.get(a.id) - pulls.get(b.id));
    }
  }
}

// Places of nodes in a room of this width: layers are columns if there is room for them, else rows that are wrapped.
export function arrange(nodes, lines, room) {
  const layers = layersOf(nodes, lines);
  untangle(layers, lines);
  const isWide = layers.length * SIZE.width + (layers.length - 1) * 40 + 2 * EDGE <= room;
  const places = new Map();
  if (isWide) {
    const spare = (room - 2 * EDGE - layers.length * SIZE.width) / Math.max(1, layers.length - 1);
    const step = SIZE.width + Math.min(Math.max(spare, 40), 2 * GAP.along);
    const most = Math.max(...layers.map((layer) => layer.length));
    layers.forEach((layer, column) =>
      layer.forEach((node, row) => {
        const y = ((row + 0.5) * most) / layer.length - 0.5;
        places.set(node.id, { x: EDGE + column * step, y: EDGE + y * (SIZE.height + GAP.across), ...SIZE });
      }),
    );
    const width = 2 * EDGE + (layers.length - 1) * step + SIZE.width;
    return { places, isWide, width, height: 2 * EDGE + most * (SIZE.height + GAP.across) - GAP.across };
  }
  const perRow = Math.max(1, Math.floor((room - 2 * EDGE + GAP.across) / (150 + GAP.across)));
  const width = Math.min(SIZE.width, (room - 2 * EDGE - (perRow - 1) * GAP.across) / perRow);
  let y = EDGE;
  for (const layer of layers) {
    layer.forEach((node, n) => {
      const inRow = Math.min(perRow, layer.length - Math.floor(n / perRow) * perRow);
      const left = (room - inRow * width - (inRow - 1) * GAP.across) / 2;
      const x = left + (n % perRow) * (width + GAP.across);
      places.set(node.id, { x, y: y + Math.floor(n / perRow) * (SIZE.height + GAP.across), width, height: SIZE.height });
    });
    y += Math.ceil(layer.length / perRow) * (SIZE.height + GAP.across) - GAP.across + 44;
  }
  return { places, isWide, width: room, height: y - 44 + EDGE };
}
