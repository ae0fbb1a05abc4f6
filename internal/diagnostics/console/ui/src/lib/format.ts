/** Returns a number with its noun: "1 proxy", "12 proxies". */
export function count(n: number, one: string, many = one + 's'): string {
  return `${n.toLocaleString('en')} ${n === 1 ? one : many}`
}

/** Returns how long ago a time was: "5 s", "3 min", "2 h", "4 d". */
export function age(time: string | undefined, now = Date.now()): string {
  if (!time) return ''
  return duration(Math.max(0, Math.round((now - Date.parse(time)) / 1000)))
}

/** Returns a duration in its largest unit: "5 s", "3 min", "2 h", "4 d". */
export function duration(seconds: number): string {
  if (seconds < 60) return `${seconds} s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h`
  return `${Math.floor(seconds / 86400)} d`
}

/** Returns a duration in milliseconds: "4.2 ms", "1.25 s", "3 min". */
export function latency(ms: number | undefined): string {
  if (!ms) return ''
  if (ms < 1000) return `${ms.toLocaleString('en', { maximumFractionDigits: ms < 10 ? 1 : 0 })} ms`
  if (ms < 60_000) return `${(ms / 1000).toLocaleString('en', { maximumFractionDigits: 2 })} s`
  return `${Math.floor(ms / 60_000)} min`
}

/** Returns a share as percentage. */
export function percent(share: number): string {
  return `${(share * 100).toLocaleString('en', { maximumFractionDigits: 1 })} %`
}

/** Returns an argument for a shell, in quotes where it needs them. */
export function quote(argument: string): string {
  return /^[\w@%+=:,./|-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", `'\\''`)}'`
}
