package config

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// FuzzRegexp: an expression with no fault compiles, in no time, and none takes long to be judged.
func FuzzRegexp(f *testing.F) {
	for _, e := range []string{"", "a|b", "(", "(a{1000}){1000}", `\pL{900}`, "(?i)[^/]+", strings.Repeat("(", 900), `\C`, "a**", "[[:alpha:]]", "\xff", "x{2,1}", `(?P<n>a)(?P<n>b)`} {
		f.Add(e)
	}
	f.Fuzz(func(t *testing.T, e string) {
		begin := time.Now()
		_, fault := regexpFault(e)
		if fault == "" {
			if _, err := regexp.Compile(e); err != nil {
				t.Errorf("%q has no fault: %v", e, err)
			}
		}
		if took := time.Since(begin); took > 2*time.Second { // it takes a millisecond; the machine may be busy
			t.Errorf("%q took %s", e, took)
		}
	})
}
