package event

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// server answers discovery and lists of VirtualServices, of which one exists, and stores Events.
type server struct {
	events  map[string]corev1.Event
	patched map[string]string
	// broken makes writes fail.
	broken bool
	// old is set if the server serves VirtualServices in version v1beta1 only.
	old bool
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	switch {
	case s.old && r.Method == http.MethodGet && !strings.Contains(r.URL.Path, "/v1beta1"):
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
	case r.Method == http.MethodGet && name == "v1" || r.Method == http.MethodGet && name == "v1beta1":
		fmt.Fprint(w, `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "networking.istio.io/v1", "resources": [
			{"name": "virtualservices", "kind": "VirtualService", "namespaced": true, "verbs": ["list"]}]}`)
	case r.Method == http.MethodGet && r.URL.Query().Get("fieldSelector") == "metadata.name=reviews":
		fmt.Fprint(w, `{"apiVersion": "networking.istio.io/v1", "kind": "VirtualServiceList", "items": [
			{"apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
			 "metadata": {"name": "reviews", "namespace": "shop", "uid": "u1", "resourceVersion": "7"}}]}`)
	case r.Method == http.MethodGet:
		fmt.Fprint(w, `{"apiVersion": "networking.istio.io/v1", "kind": "VirtualServiceList", "items": []}`)
	case s.broken:
		http.Error(w, `{"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403}`, http.StatusForbidden)
	case r.Method == http.MethodPost:
		var e corev1.Event
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if _, found := s.events[e.Name]; found {
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "AlreadyExists", "code": 409}`)
			return
		}
		s.events[e.Name] = e
		_ = json.NewEncoder(w).Encode(e)
	default:
		var patch struct{ LastTimestamp string }
		_ = json.NewDecoder(r.Body).Decode(&patch)
		s.patched[name] = patch.LastTimestamp
		_ = json.NewEncoder(w).Encode(s.events[name])
	}
}

// lab is a Writer at a server, with a time that only the test changes.
type lab struct {
	*server
	*Writer
	t        *testing.T
	now      time.Time
	problems []config.Problem
	known    map[config.Problem]*reported
	counts   map[Outcome]int
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, server: &server{events: map[string]corev1.Event{}, patched: map[string]string{}}, now: time.Unix(1000, 0)}
	h := httptest.NewServer(l.server)
	t.Cleanup(h.Close)
	client, err := kube.NewClient(&rest.Config{Host: h.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.HTTP.CloseIdleConnections)
	l.counts = map[Outcome]int{}
	l.Writer = New(Options{
		Problems: func() []config.Problem { return l.problems }, Dynamic: client.Dynamic, Kubernetes: client.Kubernetes, Pod: "istiod-1",
		Clock: l, Count: func(_ api.Kind, o Outcome) { l.counts[o]++ },
	})
	return l
}

// Now returns the test's time. readProblems does not use After.
func (l *lab) Now() time.Time                       { return l.now }
func (l *lab) After(time.Duration) <-chan time.Time { return nil }

// readProblems reads the Problems n times.
func (l *lab) readProblems(n int) {
	for range n {
		l.known = l.reportProblems(context.Background(), l.known)
	}
}

// want compares the number of Events and of each outcome.
func (l *lab) want(events int, counts map[Outcome]int) {
	l.t.Helper()
	if len(l.events) != events {
		l.t.Errorf("%d events, want %d: %v", len(l.events), events, l.events)
	}
	for _, o := range []Outcome{Written, Renewed, Suppressed, Failed} {
		if l.counts[o] != counts[o] {
			l.t.Errorf("%d %s, want %d", l.counts[o], o, counts[o])
		}
	}
}

func problem(name, reason string) config.Problem {
	return config.Problem{
		Key:   config.Key{Kind: api.VirtualService, Namespace: "shop", Name: name},
		Field: "spec.http", Reason: reason, Severity: config.Error,
	}
}

func TestEventOfAnError(t *testing.T) {
	l := newLab(t)
	l.problems = []config.Problem{problem("reviews", "is wrong")}
	l.readProblems(1)
	l.want(0, nil) // it may be a state between two edits
	l.readProblems(3)
	l.want(1, map[Outcome]int{Written: 1})
	for name, e := range l.events {
		if !strings.HasPrefix(name, "reviews.") || e.Namespace != "shop" || e.Type != "Warning" || e.Reason != "InvalidConfiguration" ||
			e.Message != "[IST0106] spec.http: is wrong" || e.InvolvedObject.UID != "u1" || e.InvolvedObject.Kind != "VirtualService" ||
			e.InvolvedObject.APIVersion != "networking.istio.io/v1" || e.Source.Component != "istiod" || e.Source.Host != "istiod-1" {
			t.Errorf("the event is %+v", e)
		}
	}

	// The problem disappears and comes back.
	l.problems = nil
	l.readProblems(1)
	l.problems = []config.Problem{problem("reviews", "is wrong")}
	l.readProblems(2)
	l.want(1, map[Outcome]int{Written: 1, Renewed: 1})
}

// TestOldVersion: an object is found in the version of its kind that the API server serves.
func TestOldVersion(t *testing.T) {
	l := newLab(t)
	l.old = true
	l.problems = []config.Problem{problem("reviews", "is wrong")}
	l.readProblems(2)
	l.want(1, map[Outcome]int{Written: 1})
	for _, e := range l.events {
		if e.InvolvedObject.APIVersion != "networking.istio.io/v1beta1" {
			t.Errorf("the event is about version %s", e.InvolvedObject.APIVersion)
		}
	}
}

// TestEventIsRenewed advances the clock by the time after which API servers delete Events.
func TestEventIsRenewed(t *testing.T) {
	l := newLab(t)
	l.problems = []config.Problem{problem("reviews", "is wrong")}
	l.readProblems(2)
	l.now = l.now.Add(renewAfter)
	l.readProblems(2)
	l.want(1, map[Outcome]int{Written: 1, Renewed: 1})
	for name, at := range l.patched {
		if want := l.now.UTC().Format(time.RFC3339); at != want {
			t.Errorf("%s was renewed to %s, want %s", name, at, want)
		}
	}
}

// TestLeaderFindsEvents starts again without state, as a new leader does.
func TestLeaderFindsEvents(t *testing.T) {
	l := newLab(t)
	l.problems = []config.Problem{problem("reviews", "is wrong")}
	l.readProblems(2)
	l.known, l.Pod = nil, "istiod-2"
	l.readProblems(2)
	l.want(1, map[Outcome]int{Written: 1, Renewed: 1})
}

// TestConflict reports a warning about a conflict of listeners.
func TestConflict(t *testing.T) {
	l := newLab(t)
	conflict := problem("reviews", "another Service has the port")
	conflict.Severity, conflict.Code = config.Warning, code.ListenerConflict
	l.problems = []config.Problem{conflict}
	l.readProblems(3)
	l.want(1, map[Outcome]int{Written: 1})
	for _, e := range l.events {
		if e.Reason != "ConflictingConfiguration" {
			t.Errorf("the reason is %s", e.Reason)
		}
	}
}

// TestOnlyErrorsAndRejections: no Event is written for warnings, for Problems of objects that the
// API server does not have, and for Problems without a Key.
func TestOnlyErrorsAndRejections(t *testing.T) {
	l := newLab(t)
	warning, rejected := problem("reviews", "is odd"), problem("reviews", "proxies refuse it")
	warning.Severity, rejected.Severity, rejected.Code = config.Warning, config.Warning, code.ProxyRejected
	l.problems = []config.Problem{warning, rejected, problem("of-a-file", "is wrong"), {Reason: "unreadable", Severity: config.Error}}
	l.readProblems(3)
	l.want(1, map[Outcome]int{Written: 1})
	for _, e := range l.events {
		if e.Reason != "RejectedByProxies" {
			t.Errorf("the reason is %s", e.Reason)
		}
	}
}

func TestEventsOfAnObjectAreLimited(t *testing.T) {
	l := newLab(t)
	for i := range maxPerObject + 5 {
		l.problems = append(l.problems, problem("reviews", fmt.Sprint("mistake ", i)))
	}
	l.readProblems(4)
	l.want(maxPerObject, map[Outcome]int{Written: maxPerObject, Suppressed: 5})
}

func TestFailedEventIsRepeated(t *testing.T) {
	l := newLab(t)
	l.broken = true
	l.problems = []config.Problem{problem("reviews", strings.Repeat("long ", 1000))}
	l.readProblems(4)
	l.want(0, map[Outcome]int{Failed: 1})
	l.broken, l.now = false, l.now.Add(retryAfter)
	l.readProblems(1)
	l.want(1, map[Outcome]int{Failed: 1, Written: 1})
	for _, e := range l.events {
		if len(e.Message) > maxMessage {
			t.Errorf("the message has %d bytes", len(e.Message))
		}
	}
}

// TestEventNameIsValid: API servers accept the name of an Event, whichever character of its object's
// name the cut follows.
func TestEventNameIsValid(t *testing.T) {
	for _, name := range []string{
		"reviews", strings.Repeat("a", 253), strings.Repeat("ab.", 84), strings.Repeat("a", 199) + "-b",
		strings.Repeat("a", 199) + ".b", strings.Repeat("a", 195) + "-----b",
	} {
		object := corev1.ObjectReference{Namespace: "shop", Name: name}
		e := newEvent(object, problem(name, "is wrong"), "istiod-1", time.Unix(1000, 0))
		if faults := validation.IsDNS1123Subdomain(e.Name); len(faults) > 0 {
			t.Errorf("%s: %s: %v", name, e.Name, faults)
		}
	}
}

func TestRunEnds(t *testing.T) {
	l := newLab(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.Run(ctx) // returns
}
