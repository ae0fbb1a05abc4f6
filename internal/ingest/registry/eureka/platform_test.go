package eureka

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/test/support/platform"
)

// fakeServer answers as a Eureka server does. test/integration/eureka has real ones; this one also
// has faults that those do not have on request.
type fakeServer struct {
	mu        sync.Mutex
	instances map[string]string // status by ID
	changes   []string          // "ID STATUS ACTION"
	status    int               // of all answers, if not 0
	noDelta   bool
	garbage   bool
	lists     int
}

func (f *fakeServer) edit(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	user, password, _ := r.BasicAuth()
	switch {
	case f.status != 0:
		http.Error(w, "fault", f.status)
		return
	case user != "mesh" || password != "secret":
		http.Error(w, "who", http.StatusUnauthorized)
		return
	case f.garbage:
		fmt.Fprint(w, "<html>")
		return
	}
	lines := f.changes
	if r.URL.Path == "/eureka/apps/delta" {
		if f.noDelta {
			http.Error(w, "disabled", http.StatusForbidden)
			return
		}
	} else {
		f.lists++
		lines = nil
		for id, status := range f.instances {
			lines = append(lines, id+" "+status+" ADDED")
		}
	}
	var list []string
	for _, line := range lines {
		x := strings.Fields(line)
		list = append(list, fmt.Sprintf(`{"app":"WEB","instanceId":%q,"ipAddr":"192.0.2.%s","status":%q,"actionType":%q,`+
			`"port":{"$":8080,"@enabled":"true"},"leaseInfo":{"durationInSecs":1}}`, x[0], x[0], x[1], x[2]))
	}
	tb := newTable()
	for id, status := range f.instances {
		tb.set(instance{App: "WEB", ID: id, Status: status}, map[string]bool{})
	}
	fmt.Fprintf(w, `{"applications":{"apps__hashcode":%q,"application":[{"name":"WEB","instance":[%s]}]}}`, tb.hash(), strings.Join(list, ","))
}

func TestWatch(t *testing.T) {
	f := &fakeServer{instances: map[string]string{"1": "UP", "2": "UP", "3": "UP"}}
	server := httptest.NewServer(f)
	defer server.Close()
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	auth := filepath.Join(t.TempDir(), "auth")
	if err := os.WriteFile(auth, []byte("mesh:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := DefaultSettings()
	settings.URLs, settings.Interval, settings.AuthFile = []string{down.URL + "/eureka", server.URL + "/eureka/"}, 10*time.Millisecond, auth
	p, err := New(settings, nil, clock.System{})
	if err != nil {
		t.Fatal(err)
	}
	follower := platform.Follow(t, p)
	const all = "80.web.service.eureka: 1 2 3"
	follower.Await(all)

	// Changes are read without another list.
	f.edit(func() { f.instances["4"], f.changes = "UP", []string{"4 UP ADDED"} })
	follower.Await(all + " 4")
	f.edit(func() {
		f.instances["1"] = "OUT_OF_SERVICE"
		delete(f.instances, "4")
		f.changes = []string{"4 UP DELETED", "1 OUT_OF_SERVICE MODIFIED"}
	})
	follower.Await("80.web.service.eureka: 1=draining 2 3")
	f.edit(func() {
		if f.lists != 1 {
			t.Errorf("%d lists were read, want 1", f.lists)
		}
		f.instances["1"], f.changes = "UP", []string{"1 UP MODIFIED"}
	})
	follower.Await(all)

	// Errors change nothing.
	unchanged := follower.Mark()
	f.edit(func() { f.status = http.StatusServiceUnavailable })
	follower.AwaitProblem("answered with status 503")
	f.edit(func() { f.status, f.garbage = 0, true })
	follower.AwaitProblem("is not JSON of Eureka")
	// A server that restarts has no instances, and changes do not lead to its hash code.
	f.edit(func() { f.garbage, f.instances, f.changes = false, nil, nil })
	follower.AwaitProblem("does not list 3 of the instances")
	unchanged()
	f.edit(func() {
		f.instances = map[string]string{"1": "UP", "2": "DOWN"}
		f.changes = []string{"1 UP ADDED", "2 DOWN ADDED"}
	})
	follower.Await("80.web.service.eureka: 1 2=unhealthy") // the lease of 3 has passed

	f.edit(func() { f.noDelta, f.instances["2"] = true, "UP" })
	follower.Await("80.web.service.eureka: 1 2")
	follower.AwaitProblem("")
	f.edit(func() {
		f.noDelta, f.instances, f.changes = false, map[string]string{}, []string{"1 UP DELETED", "2 UP DELETED"}
	})
	follower.Await("")
}
