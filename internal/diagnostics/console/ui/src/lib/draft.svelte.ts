import type { DiffReport } from './types'

/** What the user has entered on the page What-if, kept while other pages are shown. */
class Draft {
  yaml = $state('')
  remove = $state('')
  report = $state.raw<DiffReport | null>(null)
  /** The object that was loaded into the form, and its YAML. */
  object = ''
  loaded = ''

  /** Replaces the YAML by that of an object. */
  load(object: string, yaml: string) {
    this.object = object
    this.loaded = this.yaml = yaml
    this.report = null
  }
}

export const draft = new Draft()
