package route

import (
	"regexp"
	"strings"
	"testing"
)

// TestOtherThan compares the generated expression with the words that it excludes.
func TestOtherThan(t *testing.T) {
	words := append(notAdded(), "a", "a-b")
	e := regexp.MustCompile("^(?:" + strings.Join(otherThan(words...), "|") + ")$")
	for _, w := range append(words, ":status", "") {
		if e.MatchString(w) {
			t.Errorf("%q matches", w)
		}
	}
	for _, w := range []string{
		"x-user", "hos", "hosts", "content-lengt", "content-lengths", "content-", "t", "tea", "trailers", "b", "a-", "a-bc", "ab", "authorization", "x", "upgrades",
	} {
		if !e.MatchString(w) {
			t.Errorf("%q does not match", w)
		}
	}
}
