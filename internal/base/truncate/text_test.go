package truncate

import (
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for name, c := range map[string]struct {
		in    string
		limit int
		want  string
	}{
		"empty":      {"", 64, ""},
		"fits":       {strings.Repeat("x", 64), 64, strings.Repeat("x", 64)},
		"one over":   {strings.Repeat("x", 65), 64, strings.Repeat("x", 46) + "… [19 bytes cut]"},
		"tiny limit": {strings.Repeat("x", 100), 1, strings.Repeat("x", 45) + "… [55 bytes cut]"},
	} {
		if got := Text(c.in, c.limit); got != c.want {
			t.Errorf("%s: %q (%d bytes), want %q", name, got, len(got), c.want)
		}
	}
}

// TestCutsBetweenSequences tests that no UTF-8 sequence is cut at any offset, and that no result
// exceeds the limit.
func TestCutsBetweenSequences(t *testing.T) {
	for shift := range 8 {
		in := strings.Repeat("x", shift) + strings.Repeat("€😀é", 5000)
		for limit := MinLimit; limit < MinLimit+16; limit++ {
			got := Text(in, limit)
			if !utf8.ValidString(got) || len(got) > limit || !strings.HasSuffix(got, " bytes cut]") {
				t.Fatalf("limit %d, shift %d: %q (%d bytes)", limit, shift, got, len(got))
			}
		}
	}
	if got := Text(strings.Repeat("\x80", 1000), MinLimit); len(got) > MinLimit {
		t.Errorf("%d bytes of a text that is not UTF-8", len(got))
	}
}

// TestOriginalIsFreed keeps 100 truncated texts of 4 MiB each. Substrings would retain 400 MiB.
func TestOriginalIsFreed(t *testing.T) {
	var kept []string
	for range 100 {
		kept = append(kept, Text(strings.Repeat("x", 4<<20), 4<<10))
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 64<<20 {
		t.Errorf("%d MiB are held by %d texts of 4 KiB", m.HeapAlloc>>20, len(kept))
	}
	runtime.KeepAlive(kept)
}

func FuzzText(f *testing.F) {
	f.Add("", 0)
	f.Add(strings.Repeat("ä", 100), 70)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit %= 1 << 12
		got := Text(s, limit)
		if len(got) > max(limit, MinLimit) || utf8.ValidString(s) && !utf8.ValidString(got) || len(s) <= limit && got != s {
			t.Errorf("%q of %d bytes", got, len(s))
		}
	})
}
