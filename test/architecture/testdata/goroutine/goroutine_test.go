package goroutine

import (
	"net/http"
	"sync"
	"testing"
)

// check may end its goroutine.
func check(t *testing.T) {
	if t.Name() == "" {
		t.Fatal("no name")
	}
}

// do calls f on another goroutine.
func do(f func() error) error {
	done := make(chan error)
	go func() { done <- f() }()
	return <-done
}

type kit struct{ t *testing.T }

func (k kit) must(err error) {
	if err != nil {
		k.t.Fatal(err)
	}
}

func TestBroken(t *testing.T) {
	go func() {
		t.Fatal("direct") // want
	}()
	go check(t) // want
	var group sync.WaitGroup
	group.Go(func() {
		check(t) // want
	})
	_ = do(func() error {
		check(t) // want
		return nil
	})
	http.HandleFunc("/", func(http.ResponseWriter, *http.Request) {
		kit{t}.must(nil) // want
	})
	group.Wait()
}

func TestGood(t *testing.T) {
	check(t)
	go func() { t.Error("allowed") }()
	func() { t.Fatal("on the test's own goroutine") }()
	_ = do(func() error { return nil })
}

// under calls only its first function on another goroutine.
func under(load, change func()) {
	go load()
	change()
}

func TestArguments(t *testing.T) {
	under(func() { check(t) }, func() {}) // want
	under(func() {}, func() { check(t) })
	go func(string) {}(name(t))
}

func name(t *testing.T) string {
	check(t)
	return t.Name()
}
