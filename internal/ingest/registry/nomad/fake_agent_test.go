package nomad

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// fakeAgent answers as Nomad's documentation describes. No real server can be built here
// (docs/NOMAD.md).
type fakeAgent struct {
	mu            sync.Mutex
	index         uint64
	registrations map[string]registration // by ID
	lines         []string                // of events, all since the start
	changed       chan struct{}           // closed at the next change
	denied        map[string]bool         // namespaces
	token         string
	status        int    // of all answers, if not 0
	body          string // of answers about single services, if not ""
	silent        bool   // streams have no lines
	reads         map[string]int
}

func newFakeAgent() *fakeAgent {
	return &fakeAgent{
		index: 10, registrations: map[string]registration{}, changed: make(chan struct{}), denied: map[string]bool{},
		token: "secret", reads: map[string]int{},
	}
}

// edit changes the agent, and sends a heartbeat in all streams of events.
func (f *fakeAgent) edit(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

// add registers an instance of web in a namespace, with an event of the type, or none if that is "".
func (f *fakeAgent) add(namespace, id, eventType string) {
	f.edit(func() {
		f.index++
		r := registration{
			ID: id, ServiceName: "web", Namespace: namespace, Address: "192.0.2.1", Port: 20000 + int(f.index), CreateIndex: f.index,
		}
		f.registrations[id] = r
		f.event(r, eventType)
	})
}

// remove deregisters an instance.
func (f *fakeAgent) remove(id, eventType string) {
	f.edit(func() {
		f.index++
		f.event(f.registrations[id], eventType)
		delete(f.registrations, id)
	})
}

func (f *fakeAgent) event(r registration, eventType string) {
	if eventType != "" {
		payload, _ := json.Marshal(r)
		f.lines = append(f.lines, fmt.Sprintf(`{"Index":%d,"Events":[{"Topic":"Service","Type":%q,"Namespace":%q,"Index":%d,"Payload":{"Service":%s}}]}`,
			f.index, eventType, r.Namespace, f.index, payload))
	}
}

func (f *fakeAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	namespace := r.URL.Query().Get("namespace")
	switch {
	case f.status != 0:
		http.Error(w, "No cluster leader", f.status)
		return
	case f.denied[namespace] || r.Header.Get("X-Nomad-Token") != f.token:
		http.Error(w, "Permission denied", http.StatusForbidden)
		return
	}
	if r.URL.Path == "/v1/event/stream" {
		f.stream(w, r, namespace)
		return
	}
	f.reads[r.URL.Path]++
	w.Header().Set("X-Nomad-Index", fmt.Sprint(f.index))
	list := []registration{}
	for _, x := range f.registrations {
		if x.Namespace == namespace {
			list = append(list, x)
		}
	}
	switch {
	case r.URL.Path == "/v1/service/web" && f.body != "":
		fmt.Fprint(w, f.body)
	case r.URL.Path == "/v1/service/web":
		_ = json.NewEncoder(w).Encode(list)
	case len(list) == 0:
		fmt.Fprint(w, "[]")
	default:
		fmt.Fprintf(w, `[{"Namespace":%q,"Services":[{"ServiceName":"web","Tags":[]}]}]`, namespace)
	}
}

// stream sends an empty line, as a heartbeat, at once and with each change, and the events. It ends when the
// agent fails or denies the namespace.
func (f *fakeAgent) stream(w http.ResponseWriter, r *http.Request, namespace string) {
	sent := 0
	for f.status == 0 && !f.denied[namespace] {
		if !f.silent {
			fmt.Fprintln(w, "{}")
			for _, line := range f.lines[sent:] {
				if strings.Contains(line, fmt.Sprintf(`"Namespace":%q`, namespace)) {
					fmt.Fprintln(w, line)
				}
			}
			sent = len(f.lines)
			w.(http.Flusher).Flush()
		}
		changed := f.changed
		f.mu.Unlock()
		select {
		case <-changed:
		case <-r.Context().Done():
		}
		f.mu.Lock()
		if r.Context().Err() != nil {
			return
		}
	}
}
