package recovery

import (
	"strings"
	"testing"
)

// FuzzSite tests that the site of any stack is one of its lines, or unknown.
func FuzzSite(f *testing.F) {
	f.Add("goroutine 1 [running]:\nruntime/debug.Stack()\n\t/x/stack.go:26 +0x5e\npanic({0x1, 0x2})\n\t/x/panic.go:1 +0x1\nmain.f()\n\t/x/main.go:7 +0x1d\n")
	f.Add("panic(\n\nruntime.gopanic\n\t/x.go:1\npanic(0x1)\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, stack string) {
		got := panicSite([]byte(stack))
		if got != "unknown" && (strings.ContainsAny(got, "\n ") || !strings.Contains(stack, got)) {
			t.Errorf("the place is %q", got)
		}
	})
}
