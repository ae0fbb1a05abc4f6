// Package truncate limits the size of texts from outside before they are logged or stored.
//
// [Text] returns the text itself if it fits, else a copy of its beginning with a mark that states
// how many bytes are missing. Invariants: the result never exceeds the limit, it is cut between
// UTF-8 sequences, and a truncated text shares no memory with the original, so that the original
// can be freed.
package truncate
