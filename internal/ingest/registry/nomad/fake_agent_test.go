package nomad

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
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
	connections   int    // that clients have opened
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

// add registers an instance of web in a namespace, with an event of the type, or none if that is
// "".
func (f *fakeAgent) add(namespace, id, eventType string) {
	f.edit(func() {
		f.register(registration{ID: id, ServiceName: "web", Namespace: namespace, Address: "192.0.2.1"}, eventType)
	})
}

// register registers an instance, as add does, at a port of its own. The agent must be locked.
func (f *fakeAgent) register(r registration, eventType string) {
	f.index++
	r.CreateIndex, r.Port = f.index, 20000+int(f.index)
	f.registrations[r.ID] = r
	f.event(r, eventType)
}

// countConnections is called when the state of a connection changes.
func (f *fakeAgent) countConnections(_ net.Conn, s http.ConnState) {
	if s == http.StateNew {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.connections++
	}
}

// readsOf returns how often a path was requested.
func (f *fakeAgent) readsOf(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads[path]
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
	name, single := strings.CutPrefix(r.URL.Path, pathService)
	switch {
	case single && f.body != "":
		fmt.Fprint(w, f.body)
	case single:
		list := []registration{}
		for _, x := range f.registrations {
			if x.Namespace == namespace && x.ServiceName == name {
				list = append(list, x)
			}
		}
		_ = json.NewEncoder(w).Encode(list)
	default:
		names := map[string]bool{}
		for _, x := range f.registrations {
			if x.Namespace == namespace {
				names[x.ServiceName] = true
			}
		}
		writeNames(w, namespace, slices.Sorted(maps.Keys(names)))
	}
}

// writeNames writes the list of the services of a namespace.
func writeNames(w io.Writer, namespace string, names []string) {
	if len(names) == 0 {
		fmt.Fprint(w, "[]")
		return
	}
	services := make([]map[string]any, len(names))
	for i, name := range names {
		services[i] = map[string]any{"ServiceName": name, "Tags": []string{}}
	}
	_ = json.NewEncoder(w).Encode([]any{map[string]any{"Namespace": namespace, "Services": services}})
}

// stream sends an empty line, as a heartbeat, at once and with each change, and the events. It ends
// when the agent fails or denies the namespace.
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
