// Package truncate bounds texts that come from outside before they are logged or kept.
//
// In: a text and a limit in bytes. Out: the text itself if it fits, else a copy of its beginning with a mark that states how many
// bytes are missing. Invariants: the result is never longer than the limit, it is cut between UTF-8 sequences, and a cut text shares
// no memory with the original, so the original can be freed.
package truncate
