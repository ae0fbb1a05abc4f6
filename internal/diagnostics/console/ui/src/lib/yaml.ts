// Finds the line of a field in a YAML document of the read API, which has block style and two spaces of indentation.

interface Line { indent: number; item: boolean; key: string }

function parse(line: string): Line | null {
  const match = /^(\s*)(- )?(?:(?:"([^"]*)"|([^\s:"'#][^:]*)):(?:\s|$))?/.exec(line)
  if (!match || !line.trim()) return null
  return { indent: match[1]!.length, item: match[2] !== undefined, key: match[3] ?? match[4] ?? '' }
}

/** Splits "spec.http[0].route[1].weight" into "spec", "http", 0, "route", 1, "weight". */
function steps(field: string): (string | number)[] {
  return [...field.matchAll(/\[(\d+)\]|([^.[\]]+)/g)].map((m) => m[1] !== undefined ? Number(m[1]) : m[2]!)
}

/** Returns the index of the line that a field begins at, or of the closest field around it that exists; -1 without one. */
export function lineOf(manifest: string, field: string): number { return linesOf(manifest, field).first }

/** Returns the index of the first line of a field (see lineOf), and that of the line after its last one. */
export function linesOf(manifest: string, field: string): { first: number; end: number } {
  const lines = manifest.trimEnd().split('\n').map(parse)
  let found = -1
  let start = 0
  let end = lines.length
  let indent = 0
  for (const step of steps(field)) {
    let next = -1
    let column = indent
    if (typeof step === 'number') {
      let n = -1
      for (let i = start; i < end; i++) {
        const l = lines[i]
        if (l?.item && l.indent === indent && ++n === step) { next = i; break }
      }
      column = indent + 2
    } else {
      for (let i = start; i < end; i++) {
        const l = lines[i]
        if (l && l.key === step && l.indent + (l.item ? 2 : 0) === indent) { next = i; break }
      }
    }
    if (next < 0) return { first: found, end }
    found = next
    start = typeof step === 'number' ? next : next + 1
    for (end = next + 1; end < lines.length; end++) {
      const l = lines[end]
      if (!l) continue
      const ends = typeof step === 'number' ? l.indent < column : l.indent < indent || (l.indent === indent && !l.item)
      if (ends) break
    }
    indent = typeof step === 'number' ? column : nextIndent(lines, start, end, indent)
  }
  return { first: found, end }
}

/** Returns the indentation of the children that begin at a line. Lists may have that of their key. */
function nextIndent(lines: (Line | null)[], start: number, end: number, indent: number): number {
  for (let i = start; i < end; i++) if (lines[i]) return lines[i]!.indent
  return indent + 2
}
