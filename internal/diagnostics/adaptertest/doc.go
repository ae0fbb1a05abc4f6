// Package adaptertest checks whether a process that serves configuration over xDS does what control
// planes rely on: an adapter of any language (docs/ADAPTERS.md).
//
// The input is the address of the adapter, [Target]. The output is a list of check.Result, one per
// rule. The platform behind the adapter is not controlled, so the rules are about the protocol: a
// control plane that connects, reconnects, rejects, reads slowly or sends garbage. Start reading
// with [Target.Run], and rules in rules.go.
package adaptertest
