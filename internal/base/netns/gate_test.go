package netns

import (
	"fmt"
	"testing"
)

func TestMapsUID(t *testing.T) {
	const all, one = "         0          0 4294967295\n", "0 1000 1\n"
	for _, c := range []struct {
		uidMap string
		uid    int
		want   bool
	}{
		{all, 0, true}, {all, 1337, true}, {one, 0, true}, {one, 1337, false}, {one, 1000, false},
		{one + "1337 100000 1\n", 1337, true}, {"", 0, false},
	} {
		if got := mapsUID(c.uidMap, c.uid); got != c.want {
			t.Errorf("mapsUID(%q, %d) = %v, want %v", c.uidMap, c.uid, got, c.want)
		}
	}
}

func TestInnermostPID(t *testing.T) {
	for status, want := range map[string]string{
		"Name:\tsh\nNSpid:\t4711\t12\nThreads:\t1\n": "12 true",
		"NSpid:\t3\n": "3 true",
		"Name:\tsh\n": "0 false",
		"NSpid:\tx\n": "0 false",
	} {
		pid, ok := innermostPID(status)
		if got := fmt.Sprint(pid, ok); got != want {
			t.Errorf("innermostPID(%q) = %s, want %s", status, got, want)
		}
	}
}

type fakeTB struct{ said string }

func (f *fakeTB) Helper()           {}
func (f *fakeTB) Skip(args ...any)  { f.said = "skip: " + fmt.Sprint(args...) }
func (f *fakeTB) Fatal(args ...any) { f.said = "fatal: " + fmt.Sprint(args...) }

func TestRequire(t *testing.T) {
	for _, c := range []struct{ stage, reason, ci, want string }{
		{"inside", "", "", ""},
		{"inside", "", "true", ""},
		{"", "not here", "", "skip: not here"},
		{"", "not here", "true", "fatal: not here"},
		{"", "", "", "skip: this program was not started through netns.Run or netns.TestMain"},
	} {
		t.Setenv(stageVar, c.stage)
		t.Setenv(reasonVar, c.reason)
		t.Setenv("CI", c.ci)
		var tb fakeTB
		Require(&tb)
		if tb.said != c.want {
			t.Errorf("stage %q, reason %q, CI %q: %q, want %q", c.stage, c.reason, c.ci, tb.said, c.want)
		}
	}
}
