// Package diagnostics groups what answers an operator's questions: Problems that no single object
// shows (analysis), where a call goes and why (explain), the debug pages (debug) and pilotctl
// (cli).
//
// It has no code of its own. Its packages only read the state of the mesh, except for the debug
// pages that require POST, and for commands of pilotctl that write objects or certificates by their
// purpose.
package diagnostics
