package portrange_test

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/base/portrange"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]portrange.Range{
		"80": {First: 80, Last: 80}, "0": {}, "8000:8010": {First: 8000, Last: 8010}, "8000-8010": {First: 8000, Last: 8010},
		":80": {Last: 80}, "8000:": {First: 8000, Last: 65535},
	} {
		if got, err := portrange.Parse(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ":", "-", "-80", "80-", "http", "*", "65536", "80:79", "80:http", "1:2:3", " 80"} {
		if got, err := portrange.Parse(text); err == nil {
			t.Errorf("%q is accepted as %v", text, got)
		}
	}
}

func TestContains(t *testing.T) {
	r := portrange.Range{First: 80, Last: 81}
	for port, want := range map[uint16]bool{79: false, 80: true, 81: true, 82: false} {
		if got := r.Contains(port); got != want {
			t.Errorf("port %d: %v, want %v", port, got, want)
		}
	}
}
