import { credentials } from './credentials.svelte'

const prefix = '/api/v1'

/** An answer of the read API with another status than 200. */
export class APIError extends Error {
  constructor(readonly status: number, message: string) { super(message) }
}

type Query = Record<string, string | string[] | boolean | undefined>

/** Returns the address of an operation. Parameters that are empty are left out. */
export function address(path: string, query: Query = {}): string {
  const values = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one === true) values.append(name, 'true')
      else if (one) values.append(name, one)
    }
  }
  const text = values.toString()
  return prefix + path + (text && '?' + text)
}

/** Sends a request with the token of the user, if there is one. The user is asked for another one if it is refused. */
export async function request(url: string, init: RequestInit): Promise<Response> {
  const token = credentials.token
  const headers = new Headers(init.headers)
  if (token) headers.set('Authorization', 'Bearer ' + token)
  const answer = await fetch(url, { ...init, headers })
  if (answer.status === 401) credentials.refuse(token)
  return answer
}

const turns = new WeakMap<AbortSignal, Promise<void>>()

/** Returns the signal. Requests that are made with it are sent after the turn. */
export function awaitTurn(signal: AbortSignal, turn: Promise<void>): AbortSignal {
  turns.set(signal, turn)
  return signal
}

/** Reads a document. */
export async function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  if (signal) {
    await turns.get(signal)
    signal.throwIfAborted()
  }
  return read(await request(address(path, query), { signal: signal ?? null }))
}

const made = new WeakMap<object, number>()

/** Reports whether the server has made a document after a time of performance.now(), so that it has what had changed then. */
export function madeAfter(document: unknown, time: number): boolean {
  return (made.get(document as object) ?? Infinity) >= time
}

/** Submits YAML to an operation that computes something. */
export async function post<T>(path: string, query: Query, yaml: string): Promise<T> {
  return read(await request(address(path, query), {
    method: 'POST', body: yaml, headers: { 'Content-Type': 'application/yaml' },
  }))
}

async function read<T>(answer: Response): Promise<T> {
  if (answer.ok) {
    const document = await answer.json() as T
    const age = answer.headers.get('Age') // the server has kept it for all consoles
    if (age !== null) made.set(document as object, performance.now() - 1000 * (Number(age) + 1))
    return document
  }
  const text = await answer.text()
  let message = text
  try {
    const problem = JSON.parse(text) as { detail?: string; title?: string; errors?: { message: string }[] }
    message = [problem.detail ?? problem.title ?? text, ...(problem.errors ?? []).map((e) => e.message)].join(': ')
  } catch { /* plain text */ }
  throw new APIError(answer.status, message)
}

/** Returns the text of an error for the user. */
export function errorText(e: unknown): string {
  if (e instanceof APIError) return e.message
  return 'The control plane does not answer: ' + (e instanceof Error ? e.message : String(e))
}

/** Returns the path of an object's operation. */
export function objectPath(kind: string, name: string): string {
  return `/objects/${encodeURIComponent(kind)}/${encodeURIComponent(name)}`
}
