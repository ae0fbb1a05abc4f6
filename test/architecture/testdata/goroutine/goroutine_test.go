package goroutine

import (
	"net/http"
	"sync"
	"testing"
	"time"
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

// lab embeds the test, and replica a lab.
type lab struct {
	*testing.T
	name string
}

type replica struct {
	*lab
	inner *lab
}

func newReplica(t *testing.T) (*replica, error) {
	l := &lab{T: t}
	return &replica{l, l}, nil
}

func (l *lab) apply() {
	if l.name == "" {
		l.Fatal("no name")
	}
}

func (l *lab) create() { l.apply() }

// other has a method of the same name, which ends no goroutine.
type other struct{}

func (other) apply() {}

// recorder embeds a test, but records what would end it.
type recorder struct {
	testing.TB
	said []any
}

func (r *recorder) Fatal(args ...any) { r.said = append(r.said, args...) }

func TestEmbedded(t *testing.T) {
	r, err := newReplica(t)
	if err != nil {
		t.Fatal(err)
	}
	labs := []*lab{r.lab}
	go r.Fatal("promoted") // want
	go func() {
		r.create() // want
	}()
	go func() {
		r.inner.apply() // want
	}()
	go func() {
		r.T.Skip("the embedded test itself") // want
	}()
	for _, l := range labs {
		go func() {
			l.FailNow() // want
		}()
	}
	go func() { labs[0].apply() }() // want
	go func() { other{}.apply() }()
	go (&recorder{}).Fatal("recorded")
	go func() { r.Error("allowed") }()
}

func TestValuesOfFunctions(t *testing.T) {
	var group sync.WaitGroup
	l := &lab{T: t}
	create := func() {
		l.create() // want
	}
	group.Go(create)
	group.Go(l.create) // want
	_ = do(func() error { return nil })
	group.Wait()
}

func TestTimers(t *testing.T) {
	defer time.AfterFunc(time.Minute, func() {
		t.Fatal("too late") // want
	}).Stop()
	defer time.AfterFunc(time.Minute, func() { t.Error("allowed") }).Stop()
}
