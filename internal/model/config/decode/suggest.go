package decode

import (
	"fmt"
	"strings"
)

// suggestName returns "; did you mean …?" with the candidate that resembles written most, or "" if
// none does; of equally similar ones it is the first. A candidate that differs only in case is
// preferred. Others may differ in two edits, or in one if written has at most four bytes.
func suggestName(written string, candidates []string) string {
	best, least := "", 3
	if len(written) <= 4 {
		least = 2 // short words resemble too many others
	}
	for _, candidate := range candidates {
		if strings.EqualFold(written, candidate) {
			return fmt.Sprintf("; did you mean %q?", candidate)
		}
		if d := editDistance(written, candidate); d < least {
			best, least = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// editDistance returns the edit distance between a and b: how many bytes to insert, remove, change
// or swap with a neighbor. If a or b is longer than 64 bytes, it returns the greater length.
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return max(len(a), len(b)) // too expensive to compute
	}
	// Rows of the table for the prefixes of a. Each column is a prefix of b.
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			change := above[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, row[j]+1, above[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
