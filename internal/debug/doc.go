// Package debug is the read-only pages that explain a running control plane: what it read, what it made of it, who is
// connected and what each of them was sent.
//
// In: ways to ask for the current snapshot and the connections. Out: HTTP handlers under /debug with the paths and JSON shapes
// that istiod has (istioctl, Kiali and scripts read them), and some of our own. Law: changes nothing and hands out no live
// pointer: everything is written out before the handler returns.
//
// Start with [New] in pages.go, which is the list of all pages. To add one: a file with its handler, a line in that list.
package debug
