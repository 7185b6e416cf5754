// Where the boxes of a graph stand, and the lines between them.
//
// If there is room, layers are columns, from exports to disks: every line leads from one column to the next, and one that is longer has a place of
// its own in each column that it passes, so that it runs behind no box. Else all boxes are one column, and lines are arcs beside it.

const BOX = { width: 196, height: 84 };
const BEND = { width: 0, height: 16 };
const LEAST_GAP = 44;
const MOST_GAP = 150;
const SPACE = 14;
const EDGE = 12;
const GUTTER = 58;
const TALL = 1000;
// Narrower rooms have one column.
const COLUMNS_FROM = 680;

// The layer of each node: behind all that lead to it. What nothing leads to stands behind exports, what leads nowhere at the end.
function depths(nodes, lines) {
  const hasExports = nodes.some((node) => node.isExport);
  const depth = new Map(nodes.map((node) => [node.id, node.isExport || !hasExports ? 0 : 1]));
  // A walk along every line as often as there can be layers; there is no circle in a stack.
  for (let round = 0, isMoved = true; isMoved && round < nodes.length; round += 1) {
    isMoved = false;
    for (const { from, to } of lines) {
      if (depth.get(to) > depth.get(from)) continue;
      depth.set(to, depth.get(from) + 1);
      isMoved = true;
    }
  }
  const leads = new Set(lines.map(({ from }) => from));
  const last = Math.max(0, ...depth.values());
  for (const node of nodes) if (!leads.has(node.id) && !node.isExport) depth.set(node.id, last);
  return depth;
}

// Layers of ids, the steps between neighbours, and for each line the ids that it leads through.
function split(nodes, lines, depth) {
  const layers = Array.from({ length: Math.max(0, ...depth.values()) + 1 }, () => []);
  for (const node of nodes) layers[depth.get(node.id)].push(node.id);
  const steps = [];
  const routes = lines.map(({ from, to }, n) => {
    const route = [from];
    for (let at = depth.get(from) + 1; at < depth.get(to); at += 1) {
      layers[at].push(`bend ${n} ${at}`);
      route.push(`bend ${n} ${at}`);
    }
    route.push(to);
    for (let at = 1; at < route.length; at += 1) steps.push([route[at - 1], route[at]]);
    return route;
  });
  return { layers, steps, routes };
}

// Puts each id near those that it has a step to, so that few lines cross.
function untangle(layers, steps) {
  const near = new Map();
  for (const [one, other] of steps.flatMap(([one, other]) => [[one, other], [other, one]])) {
    if (!near.has(one)) near.set(one, []);
    near.get(one).push(other);
  }
  for (let round = 0; round < 8; round += 1) {
    const place = new Map();
    for (const layer of layers) layer.forEach((id, n) => place.set(id, (n + 0.5) / layer.length));
    for (const layer of layers) {
      const pull = (id) => {
        const all = near.get(id) ?? [];
        return all.length ? all.reduce((sum, other) => sum + place.get(other), 0) / all.length : place.get(id);
      };
      const pulls = new Map(layer.map((id) => [id, pull(id)]));
      layer.sort((a, b) => pulls.get(a) - pulls.get(b));
      layer.forEach((id, n) => place.set(id, (n + 0.5) / layer.length));
    }
  }
}

const sizeOf = (id) => (id.startsWith("bend ") ? BEND : BOX);

function inColumns({ layers, steps, routes }, room) {
  untangle(layers, steps);
  const spare = (room - 2 * EDGE - layers.length * BOX.width) / Math.max(1, layers.length - 1);
  const step = BOX.width + Math.max(LEAST_GAP, Math.min(MOST_GAP, spare));
  const tall = (layer) => layer.reduce((sum, id) => sum + sizeOf(id).height + SPACE, -SPACE);
  const height = Math.max(...layers.map(tall));
  const places = new Map();
  layers.forEach((layer, column) => {
    // What is taller than a screen begins at the top: disks are to be seen beside the first exports.
    let y = EDGE + (height > TALL ? 0 : (height - tall(layer)) / 2);
    for (const id of layer) {
      places.set(id, { x: EDGE + column * step, y, ...sizeOf(id) });
      y += sizeOf(id).height + SPACE;
    }
  });
  const curves = routes.map((route) => {
    let path = "";
    for (let at = 1; at < route.length; at += 1) {
      const [one, other] = [places.get(route[at - 1]), places.get(route[at])];
      const isBend = one.width === 0;
      const [x, y, u, v] = [one.x + BOX.width, one.y + one.height / 2, other.x, other.y + other.height / 2];
      const bend = (u - x) / 2;
      // Through a bend it runs straight, as wide as a box.
      path += `${isBend ? `L${x} ${y}` : `M${x} ${y}`}C${x + bend} ${y} ${u - bend} ${v} ${u} ${v}`;
    }
    return path;
  });
  return { places, curves, width: 2 * EDGE + (layers.length - 1) * step + BOX.width, height: height + 2 * EDGE };
}

// Each behind all that lead to it, and near the last of them.
function inOrder(nodes, lines) {
  const waits = new Map(nodes.map((node) => [node.id, 0]));
  for (const { to } of lines) waits.set(to, waits.get(to) + 1);
  const order = [];
  const take = (id) => {
    order.push(id);
    for (const { to } of lines.filter(({ from }) => from === id)) {
      waits.set(to, waits.get(to) - 1);
      if (waits.get(to) === 0) take(to);
    }
  };
  for (const id of nodes.map((node) => node.id).filter((id) => waits.get(id) === 0)) take(id);
  return order;
}

function inOneColumn(nodes, lines, room) {
  const order = inOrder(nodes, lines);
  const width = room - GUTTER - EDGE;
  const places = new Map(order.map((id, n) => [id, { x: GUTTER, y: EDGE + n * (BOX.height + SPACE), width, height: BOX.height }]));
  const curves = lines.map(({ from, to }) => {
    const [one, other] = [places.get(from), places.get(to)];
    const far = (other.y - one.y) / (BOX.height + SPACE);
    const out = GUTTER - Math.min(GUTTER - 6, 18 + 9 * far) * 1.3;
    const [y, v] = [one.y + one.height * 0.62, other.y + other.height * 0.38];
    return `M${GUTTER} ${y}C${out} ${y} ${out} ${v} ${GUTTER} ${v}`;
  });
  return { places, curves, width: room, height: 2 * EDGE + order.length * (BOX.height + SPACE) - SPACE };
}

// Places of nodes by their ids, and the curve of each line, in a room of this width.
export function arrange(nodes, lines, room) {
  if (room < COLUMNS_FROM) return inOneColumn(nodes, lines, room);
  return inColumns(split(nodes, lines, depths(nodes, lines)), room);
}
