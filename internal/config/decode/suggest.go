package decode

import (
	"fmt"
	"strings"
)

// suggest gives "; did you mean …?" when one of the candidates is close to what was written, else "".
func suggest(written string, candidates []string) string {
	best, least := "", 3
	if len(written) <= 4 {
		least = 2 // short words are close to anything
	}
	for _, candidate := range candidates {
		if strings.EqualFold(written, candidate) {
			return fmt.Sprintf("; did you mean %q?", candidate)
		}
		if d := distance(written, candidate); d < least {
			best, least = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance is the number of letters to insert, remove or change to make a into b.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return max(len(a), len(b)) // not worth the time
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
