// The picture of the mesh: which boxes, services and lines are shown, and where.
import dagre from '@dagrejs/dagre'
import type { Source } from './types'

export interface End { namespace: string; service?: string; workload?: string }
export interface Node extends End { gateway?: boolean; workloads: number; noProxy?: number; limited?: boolean; restricted?: boolean }
export interface Call { from: End; to: End; routed?: boolean; by?: Source[]; rate?: Rate }
/** Traffic per second. */
export interface Rate { requestsPerSecond: number; errorsPerSecond: number; bytesPerSecond?: number }
export interface Traffic { configured: boolean; windowSeconds?: number; calls: (Rate & { from: End; to: End })[]; omitted?: number; error?: string }
export interface Topology { nodes: Node[]; calls: Call[]; omitted?: number }

/** A service in the picture. */
export interface Chip { id: string; node: Node; x: number; y: number; width: number; height: number }
/** A namespace in the picture, with its services if it is open. */
export interface Box { namespace: string; nodes: number; chips: Chip[]; x: number; y: number; width: number; height: number }
/** The calls between two chips or boxes. */
export interface Line { id: string; from: string; to: string; calls: Call[]; routed: boolean; rate?: Rate; path: string; middle: { x: number; y: number } }
export interface Picture { boxes: Box[]; lines: Line[]; width: number; height: number }

/** The most services that are shown at once without being asked for. */
export const maxOpen = 40
/** The most services that can be shown at once. */
export const maxShown = 400

const chip = { width: 178, height: 26, gap: 6 }
/** The space between layers and within them; rates need more. */
const space = { layers: 56, boxes: 96, layersWithRates: 142, chipsWithRates: 20 }
const head = 30
const pad = 10
const gap = 26
const margin = 4
const pageWidth = 1200

/** Returns the identity of an end. That of all of a namespace is that of its box. */
export function idOf(e: End): string {
  return e.namespace + '/' + (e.service ?? (e.workload ? '~' + e.workload : '*'))
}

/** Returns the name of an end: a service without the part that all services have. */
export function nameOf(e: End): string {
  if (e.service) return e.service.replace(new RegExp(`\\.${e.namespace.replaceAll('.', '\\.')}\\.svc\\..*$`), '')
  return e.workload ?? 'all of ' + e.namespace
}

/** Reports whether the callers that an end names include a node. */
function includesCaller(end: End, node: Node): boolean {
  return end.namespace === node.namespace && (idOf(end) === idOf(node) || (!end.service && !end.workload))
}

/** Reports whether the callees that an end names include a node. Restricted ones are named one by one. */
function includesCallee(end: End, node: Node): boolean { return idOf(end) === idOf(node) || (!node.restricted && includesCaller(end, node)) }

/** Returns a topology with the rates of its calls, and with the calls that were made and no object names. */
export function withTraffic(t: Topology, traffic: Traffic | null): Topology {
  if (!traffic?.calls.length) return t
  const key = (c: { from: End; to: End }) => idOf(c.from) + '>' + idOf(c.to)
  const rates = new Map(traffic.calls.map((c) => [key(c), c]))
  const calls = t.calls.map((c) => {
    const rate = c.routed ? undefined : rates.get(key(c))
    if (!rate) return c
    rates.delete(key(c))
    return { ...c, rate }
  })
  return { ...t, calls: [...calls, ...[...rates.values()].map((rate) => ({ from: rate.from, to: rate.to, rate }))] }
}

/** Returns the sum of rates, or undefined without any. */
function sum(rates: (Rate | undefined)[]): Rate | undefined {
  let total: Rate | undefined
  for (const r of rates) {
    if (!r) continue
    total = {
      requestsPerSecond: (total?.requestsPerSecond ?? 0) + r.requestsPerSecond,
      errorsPerSecond: (total?.errorsPerSecond ?? 0) + r.errorsPerSecond,
      bytesPerSecond: (total?.bytesPerSecond ?? 0) + (r.bytesPerSecond ?? 0),
    }
  }
  return total
}

/** Returns a rate for the user: requests if there are any, and otherwise bytes. */
export function rateText(r: Rate): string {
  const short = (n: number) => n >= 9.95 ? Math.round(n).toLocaleString('en') : n >= 0.095 ? n.toFixed(1) : n.toPrecision(1)
  if (r.requestsPerSecond || !r.bytesPerSecond) return short(r.requestsPerSecond) + '/s'
  const power = Math.max(0, Math.min(3, Math.floor(Math.log10(r.bytesPerSecond) / 3)))
  return short(r.bytesPerSecond / 1000 ** power) + ['', ' k', ' M', ' G'][power] + 'B/s'
}

/** Returns the part of the requests that fail for the user, or '' if none does. */
export function errorText(r: Rate): string {
  const percent = 100 * r.errorsPerSecond / r.requestsPerSecond
  return r.errorsPerSecond > 0 ? (percent >= 1 ? Math.round(percent) : '<1') + ' % errors' : ''
}

/** Returns the part of a topology around a node: its calls and calls to it, with the nodes at their other ends. */
export function neighbourhood(t: Topology, node: Node): Topology {
  const calls = t.calls.flatMap((c) => [
    ...(includesCaller(c.from, node) && idOf(c.to) !== idOf(node) ? [{ ...c, from: node }] : []),
    ...(includesCallee(c.to, node) && idOf(c.from) !== idOf(node) ? [{ ...c, to: node }] : []),
  ])
  const shown = new Set([idOf(node), ...calls.flatMap((c) => [idOf(c.from), idOf(c.to)])])
  const named = new Set(calls.flatMap((c) => [c.from, c.to]).filter((e) => !e.service && !e.workload).map((e) => e.namespace))
  const nodes = t.nodes.filter((n) => shown.has(idOf(n)) || (named.has(n.namespace) && n.namespace !== node.namespace))
  return { nodes, calls }
}

/** Draws a topology. The services of a namespace are shown if it is open. */
export function draw(t: Topology, isOpen: (namespace: string) => boolean): Picture {
  const boxes = new Map<string, Box>()
  for (const n of t.nodes) {
    let box = boxes.get(n.namespace)
    if (!box) {
      box = { namespace: n.namespace, nodes: 0, chips: [], x: 0, y: 0, width: 0, height: 0 }
      boxes.set(n.namespace, box)
    }
    box.nodes++
    if (isOpen(n.namespace)) box.chips.push({ id: idOf(n), node: n, x: 0, y: 0, width: chip.width, height: chip.height })
  }
  const lines = connect(t.calls, boxes)
  const within = new Map<string, Line[]>()
  for (const l of lines) {
    const namespace = namespaceOf(l.from)
    if (namespace === namespaceOf(l.to)) within.set(namespace, [...within.get(namespace) ?? [], l])
  }
  for (const box of boxes.values()) measure(box, within.get(box.namespace) ?? [])
  const { size, vertical } = place([...boxes.values()], lines)
  const anchors = new Map<string, Rect>()
  for (const box of boxes.values()) {
    anchors.set(box.namespace + '/*', box)
    for (const c of box.chips) {
      c.x += box.x
      c.y += box.y
      anchors.set(c.id, c)
    }
  }
  for (const l of lines) {
    const inside = namespaceOf(l.from) === namespaceOf(l.to)
    l.path = curve(anchors.get(l.from)!, anchors.get(l.to)!, vertical && !inside)
    l.middle = middleOf(l.path)
  }
  return { boxes: [...boxes.values()], lines, ...size }
}

interface Rect { x: number; y: number; width: number; height: number }

/** Returns the namespace of a chip or box. */
function namespaceOf(id: string): string { return id.slice(0, id.indexOf('/')) }

/** Sets the size of a box, and the positions of its chips within it: those with lines in layers, the others in columns below. */
function measure(box: Box, lines: Line[]) {
  if (!box.chips.length) {
    box.width = 2 * pad + chip.width
    box.height = 48
    return
  }
  const linked = new Set(lines.flatMap((l) => [l.from, l.to]))
  const rates = lines.some((l) => l.rate)
  const layers = arrange(box.chips.filter((c) => linked.has(c.id)), lines.map((l) => [l.from, l.to]), {
    rankdir: 'LR', nodesep: rates ? space.chipsWithRates : chip.gap, ranksep: rates ? space.layersWithRates : space.layers,
  })
  for (const c of box.chips) {
    c.x += pad
    c.y += head
  }
  const rest = box.chips.filter((c) => !linked.has(c.id))
  const columns = Math.max(1, Math.min(6, Math.round(Math.sqrt(rest.length / 5))), Math.floor((layers.width + chip.gap) / (chip.width + chip.gap)))
  const rows = Math.ceil(rest.length / columns)
  const below = head + (layers.height ? layers.height + 2 * chip.gap : 0)
  rest.forEach((c, i) => {
    c.x = pad + Math.floor(i / rows) * (chip.width + chip.gap)
    c.y = below + (i % rows) * (chip.height + chip.gap)
  })
  box.width = Math.max(...box.chips.map((c) => c.x + c.width)) + pad
  box.height = Math.max(...box.chips.map((c) => c.y + c.height)) + pad
}

/** Returns the lines of calls between different chips and boxes. */
function connect(calls: Call[], boxes: Map<string, Box>): Line[] {
  const lines = new Map<string, Line>()
  const shown = new Set([...boxes.values()].flatMap((b) => b.chips.map((c) => c.id)))
  const anchor = (e: End) => shown.has(idOf(e)) ? idOf(e) : e.namespace + '/*'
  for (const c of calls) {
    if (!boxes.has(c.from.namespace) || !boxes.has(c.to.namespace)) continue
    const [from, to] = [anchor(c.from), anchor(c.to)]
    if (from === to || (c.from.namespace === c.to.namespace && (from.endsWith('/*') || to.endsWith('/*')))) continue
    const id = from + '>' + to + (c.routed ? '>' : '')
    const line = lines.get(id) ?? { id, from, to, calls: [], routed: Boolean(c.routed), path: '', middle: { x: 0, y: 0 } }
    line.calls.push(c)
    lines.set(id, line)
  }
  for (const l of lines.values()) l.rate = sum(l.calls.map((c) => c.rate))
  return [...lines.values()]
}

/**
 * Sets the positions of the boxes: in layers from callers to callees, and those without lines in rows below. The layers go from left to
 * right or from top to bottom, whichever fits a page better.
 */
function place(boxes: Box[], lines: Line[]): { size: { width: number; height: number }; vertical: boolean } {
  const edges = lines.map((l): [string, string] => [namespaceOf(l.from), namespaceOf(l.to)]).filter(([from, to]) => from !== to)
  const linked = new Set(edges.flat())
  const layered = boxes.filter((b) => linked.has(b.namespace)).map((b) => ({ box: b, id: b.namespace, x: 0, y: 0, width: b.width, height: b.height }))
  let vertical = false
  let size = arrange(layered, edges, { rankdir: 'LR', nodesep: gap, ranksep: lines.some((l) => l.rate) ? space.layersWithRates : space.boxes })
  if (size.width > pageWidth) {
    const before = layered.map((r) => ({ ...r }))
    const other = arrange(layered, edges, { rankdir: 'TB', nodesep: gap, ranksep: 64 })
    if (other.width < size.width) [size, vertical] = [other, true]
    else layered.forEach((r, i) => { [r.x, r.y] = [before[i]!.x, before[i]!.y] })
  }
  for (const r of layered) [r.box.x, r.box.y] = [r.x + margin, r.y + margin]
  let { width, height } = size
  let [x, y, rowHeight] = [margin, height ? height + 2 * gap : margin, 0]
  const rowWidth = Math.max(width, pageWidth)
  for (const b of boxes) {
    if (linked.has(b.namespace)) continue
    if (x > margin && x + b.width > rowWidth) [x, y, rowHeight] = [margin, y + rowHeight + gap, 0]
    ;[b.x, b.y] = [x, y]
    x += b.width + gap
    rowHeight = Math.max(rowHeight, b.height)
    width = Math.max(width, b.x + b.width)
    height = Math.max(height, b.y + b.height)
  }
  return { size: { width: width + 2 * margin, height: height + 2 * margin }, vertical }
}

/** Sets the positions of rectangles in layers, so that edges lead from a layer to a later one where possible, and returns their size. */
function arrange(
  rects: (Rect & { id: string })[], edges: [string, string][], options: { rankdir: 'LR' | 'TB'; nodesep: number; ranksep: number },
): { width: number; height: number } {
  if (!rects.length) return { width: 0, height: 0 }
  const graph = new dagre.graphlib.Graph()
  graph.setGraph(options)
  graph.setDefaultEdgeLabel(() => ({}))
  for (const r of rects) graph.setNode(r.id, { width: r.width, height: r.height })
  for (const [from, to] of edges) graph.setEdge(from, to)
  dagre.layout(graph)
  for (const r of rects) {
    const at = graph.node(r.id)
    r.x = at.x - r.width / 2
    r.y = at.y - r.height / 2
  }
  return { width: Math.max(...rects.map((r) => r.x + r.width)), height: Math.max(...rects.map((r) => r.y + r.height)) }
}

/** Returns the path of a line between the sides of two rectangles that face each other. */
function curve(a: Rect, b: Rect, vertical: boolean): string {
  const [ax, bx, ay, by] = [a.x + a.width / 2, b.x + b.width / 2, a.y + a.height / 2, b.y + b.height / 2]
  if (vertical && a.y + a.height <= b.y) return drop(ax, a.y + a.height, bx, b.y, 1)
  if (vertical && b.y + b.height <= a.y) return drop(ax, a.y, bx, b.y + b.height, -1)
  if (a.x + a.width <= b.x) return bend(a.x + a.width, ay, b.x, by, 1)
  if (b.x + b.width <= a.x) return bend(a.x, ay, b.x + b.width, by, -1)
  const side = Math.max(a.x + a.width, b.x + b.width)
  return `M${a.x + a.width} ${ay}C${side + 46} ${ay} ${side + 46} ${by} ${b.x + b.width} ${by}`
}

/** Returns the middle of a curve. */
function middleOf(path: string): { x: number; y: number } {
  const [x1, y1, x2, y2, x3, y3, x4, y4] = (path.match(/-?[\d.]+/g) ?? []).map(Number) as [number, number, number, number, number, number, number, number]
  return { x: (x1 + 3 * x2 + 3 * x3 + x4) / 8, y: (y1 + 3 * y2 + 3 * y3 + y4) / 8 }
}

function drop(x1: number, y1: number, x2: number, y2: number, direction: number): string {
  const d = direction * Math.max(24, Math.abs(y2 - y1) / 2)
  return `M${x1} ${y1}C${x1} ${y1 + d} ${x2} ${y2 - d} ${x2} ${y2}`
}

function bend(x1: number, y1: number, x2: number, y2: number, direction: number): string {
  const d = direction * Math.max(28, Math.abs(x2 - x1) / 2)
  return `M${x1} ${y1}C${x1 + d} ${y1} ${x2 - d} ${y2} ${x2} ${y2}`
}
