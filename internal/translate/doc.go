// Package translate is the table of generators: what makes the resources of each xDS type for a View.
//
// In: a View. Out: encoded resources. Law: the sub-rooms are pure and remember what they made by its whole input, so that
// proxies that are alike cost one translation, and a change costs what it changes.
//
// Start with table.go. Each type has a sub-room: cluster, endpoint, listener, route; below them are memo (remembering),
// policy (which part of a DestinationRule holds for a cluster) and destination (which cluster a destination means).
package translate
