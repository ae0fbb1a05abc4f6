// Package document holds documents for people against the sources that they are about.
//
// In: files and patterns. Out: the names that are in them.
//
// Start with [Names].
package document
