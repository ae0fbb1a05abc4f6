// Package table reads the topics of behaviour: objects as users write them, and calls with what is to become of them.
//
// In: a directory of txtar files. Out: a [Table] with the objects of all topics in one mesh, the addresses that they were given,
// and the [Case]s. Law: what a topic does not say has a default that suits most, so that a case is a few lines.
//
// Start with [Read] in table.go, then case.go.
package table
