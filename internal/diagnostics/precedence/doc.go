// Package precedence names the objects that compete with an object, or are merged with it, for the
// proxies of a View.
//
// Inputs: a View and the key of an object. Output: [Relation]s, each with the other object, what
// both are about (a host, a port, a proxy), which of them prevails and why. The package is pure and
// follows the rules by which snapshots and generators choose.
//
// Conflicts that have a Problem are not repeated: Problems name both objects.
//
// Start with [Find] in precedence.go.
package precedence
