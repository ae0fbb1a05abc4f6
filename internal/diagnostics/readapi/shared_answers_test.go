package readapi

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// manualClock is a clock that stands still.
type manualClock struct {
	clock.System
	now atomic.Int64
}

func (c *manualClock) Now() time.Time { return time.Unix(0, c.now.Load()) }

// newLargeAPI returns the API of newViewAPI with 1,000 proxies in shop. Listing them takes CPU time; the
// number counts how often they were.
func newLargeAPI(t *testing.T) (*API, *manualClock, *atomic.Int64) {
	t.Helper()
	var list connections
	for i := range 1000 {
		list = append(list, push.Connection{
			ID: fmt.Sprintf("web-%d.shop-1", i), Proxy: &mesh.Proxy{Name: fmt.Sprintf("web-%d", i), Namespace: "shop"},
		})
	}
	o := newViewAPI(t).Options
	made, c := new(atomic.Int64), new(manualClock)
	o.Connection = list.Connection
	o.StreamStates = func() []push.StreamState {
		made.Add(1)
		for work := time.Duration(0); work < minSharedCost; work += cpuTime(func() { list.StreamStates() }) {
		}
		return list.StreamStates()
	}
	o.Clock = c
	return New(o), c, made
}

// TestExpensiveAnswersAreShared reads a list that is expensive to make with many clients. It is made once
// for all that have the same rights, and again after some time.
func TestExpensiveAnswersAreShared(t *testing.T) {
	a, c, made := newLargeAPI(t)
	check := func(what string, want int64) {
		t.Helper()
		if got := made.Load(); got != want {
			t.Errorf("%s: the list was made %d times, want %d", what, got, want)
		}
	}
	var clients sync.WaitGroup
	for range 20 {
		clients.Go(func() {
			if n := len(readView[ProxyList](t, a, "", "/proxies").Proxies); n != 1000 {
				t.Errorf("a client reads %d proxies", n)
			}
		})
	}
	clients.Wait()
	check("20 clients", 1)
	if age := get(a, "", "/proxies").Header().Get("Age"); age != "0" {
		t.Errorf("the age is %q", age)
	}
	if n := len(readView[ProxyList](t, a, "bank", "/proxies").Proxies); n != 0 {
		t.Errorf("bank reads %d proxies", n)
	}
	if w := get(a, "-", "/proxies"); w.Code != http.StatusUnauthorized {
		t.Errorf("a caller without a token: %d", w.Code)
	}
	c.now.Add(int64(maxSharedTime))
	made.Store(0)
	if w := get(a, "", "/proxies"); w.Code != http.StatusOK || w.Header().Get("Age") != "" {
		t.Errorf("the answer after %s has the age %q", maxSharedTime, w.Header().Get("Age"))
	}
	check("after some time", 1)
}

// TestCheapAnswersAreNotKept reads a list of a small mesh, which is always the newest.
func TestCheapAnswersAreNotKept(t *testing.T) {
	o := newViewAPI(t).Options
	var made int
	list := o.StreamStates()
	o.StreamStates = func() []push.StreamState { made++; return list }
	o.Clock = new(manualClock)
	a := New(o)
	for range 5 {
		get(a, "", "/proxies")
	}
	if made < 4 { // an answer may take long on a busy machine, but not each
		t.Errorf("the list was made %d times for 5 requests", made)
	}
}

// TestListsAreCompressed compares the size of a list with and without compression.
func TestListsAreCompressed(t *testing.T) {
	a, _, _ := newLargeAPI(t)
	plain := get(a, "", "/proxies").Body.Len()
	r := httptest.NewRequest(http.MethodGet, "http://localhost"+Prefix+"/proxies", nil)
	r.RemoteAddr = "127.0.0.1:1234"
	r.Header.Set("Accept-Encoding", "gzip, br")
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	size := w.Body.Len()
	text, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatalf("%v: %v", w.Header(), err)
	}
	var list ProxyList
	if err := json.NewDecoder(text).Decode(&list); err != nil || len(list.Proxies) != 1000 {
		t.Errorf("%d proxies: %v", len(list.Proxies), err)
	}
	if w.Header().Get("Content-Encoding") != "gzip" || w.Header().Get("Vary") == "" || size > plain/5 {
		t.Errorf("%d bytes become %d: %v", plain, size, w.Header())
	}
}
