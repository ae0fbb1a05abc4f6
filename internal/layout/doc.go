// Package layout keeps the table of docs/ARCHITECTURE.md true: which room may import which.
//
// It has no code, only the test. A new room, or a new edge between rooms, is a line in the table here and in the document.
package layout
