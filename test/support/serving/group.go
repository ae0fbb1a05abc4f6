package serving

import (
	"runtime"
	"sync"
	"testing"
)

// Group runs parts of a test on goroutines of their own. The zero value is not usable: see
// [NewGroup].
type Group struct {
	tb      testing.TB
	running sync.WaitGroup
}

// NewGroup returns a Group whose parts fail tb.
func NewGroup(tb testing.TB) *Group { return &Group{tb: tb} }

// Go runs f on a new goroutine. A method of its argument that ends the calling goroutine (Fatal,
// FailNow) marks the whole test as failed and ends f alone; testing.TB itself allows such calls
// only on the goroutine of the test. Skipping is not supported: it fails the test.
func (g *Group) Go(f func(tb testing.TB)) {
	g.running.Go(func() { f(part{g.tb}) })
}

// Wait waits until all parts have ended.
func (g *Group) Wait() { g.running.Wait() }

// part is the testing.TB of one goroutine of a Group.
type part struct{ testing.TB }

// FailNow fails the test and ends the calling goroutine.
func (p part) FailNow() {
	p.Fail()
	runtime.Goexit()
}

// Fatal logs its arguments, fails the test and ends the calling goroutine.
func (p part) Fatal(args ...any) {
	p.Helper()
	p.Error(args...)
	runtime.Goexit()
}

// Fatalf is Fatal with a format.
func (p part) Fatalf(format string, args ...any) {
	p.Helper()
	p.Errorf(format, args...)
	runtime.Goexit()
}

// Skip fails the test: a part of a test cannot be skipped.
func (p part) Skip(args ...any) { p.Fatal(args...) }

// Skipf is Skip with a format.
func (p part) Skipf(format string, args ...any) { p.Fatalf(format, args...) }

// SkipNow is Skip without a reason.
func (p part) SkipNow() { p.Fatal("a part of a test cannot be skipped") }
