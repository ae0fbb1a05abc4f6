// Package table reads the topics of behaviour: objects as users write them, and calls with their
// expected outcome.
//
// In: a directory of txtar files. Out: a [Table] with the objects of all topics in one mesh, the
// addresses that they were given, and the [Case]s. Law: fields that a topic omits have common
// defaults, so that a case is a few lines.
//
// Start with [Read] in table.go, then case.go.
package table
