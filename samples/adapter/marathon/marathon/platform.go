package marathon

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// Platform reads applications from Marathon.
type Platform struct {
	// URL is the address of Marathon: "http://marathon.example.com:8080".
	URL string
	// Client sends the requests (default http.DefaultClient). It must have no time limit for responses,
	// because the event stream does not end. Its transport adds credentials.
	Client *http.Client
	// Namespace is the namespace of the services (default "default"). Domain is the end of their hosts
	// (default "marathon.mesos").
	Namespace, Domain string
	// Resync is how often all applications are read although no event arrives (default 1 minute). It
	// covers lost events, and a stream that has ended without a sign.
	Resync time.Duration
}

var _ adapter.Platform = (*Platform)(nil)

// Limits of responses.
const (
	maxResponse = 256 << 20
	maxEvent    = 16 << 20
)

func (p *Platform) withDefaults() Platform {
	o := *p
	if o.Client == nil {
		o.Client = http.DefaultClient
	}
	if o.Domain == "" {
		o.Domain = "marathon.mesos"
	}
	if o.Resync == 0 {
		o.Resync = time.Minute
	}
	return o
}

// Watch implements adapter.Platform. It subscribes to events before it reads the applications, so that
// no change between the two is lost.
func (p *Platform) Watch(ctx context.Context, sink adapter.Sink) error {
	o := p.withDefaults()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := o.get(ctx, "/v2/events", "text/event-stream")
	if err != nil {
		return err
	}
	defer stream.Close()
	w := &watch{Platform: o, sink: sink, known: map[string]bool{}}
	if w.framework, err = o.readFramework(ctx); err != nil {
		return err
	}
	if err := w.readAll(ctx); err != nil {
		return err
	}
	sink.SyncedGeneration(w.framework)
	events, lost := make(chan event, 1024), make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		lost <- readEvents(stream, func(e event) {
			select {
			case events <- e:
			case <-ctx.Done():
			}
		})
	}()
	defer func() { cancel(); stream.Close(); <-done }()
	return w.follow(ctx, events, lost)
}

// watch is the state of one Watch.
type watch struct {
	Platform
	sink  adapter.Sink
	known map[string]bool // IDs of reported applications
	// framework is the ID of Marathon's framework when Watch began.
	framework string
}

// readFramework returns the ID with which Marathon is registered at Mesos. Marathon stores it beside the
// applications, so a Marathon that lost its data has another one.
func (p *Platform) readFramework(ctx context.Context) (string, error) {
	var info struct {
		FrameworkID string `json:"frameworkId"`
	}
	err := p.getJSON(ctx, "/v2/info", &info)
	return info.FrameworkID, err
}

// settleTime is how long events are collected, so that an application is read once for many of them.
const settleTime = 100 * time.Millisecond

// follow reads what events are about, until the stream is lost.
func (w *watch) follow(ctx context.Context, events <-chan event, lost <-chan error) error {
	resync := time.NewTicker(w.Resync)
	defer resync.Stop()
	settled := time.NewTimer(0)
	<-settled.C
	changed, all := map[string]bool{}, false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-lost:
			return fmt.Errorf("the event stream ended: %w", err)
		case e := <-events:
			if len(changed) == 0 && !all {
				settled.Reset(settleTime)
			}
			if e.AppID == "" {
				all = true
			} else {
				changed[e.AppID] = true
			}
			continue
		case <-resync.C:
			all = true
		case <-settled.C:
		}
		if err := w.readChanged(ctx, changed, all); err != nil {
			return err
		}
		changed, all = map[string]bool{}, false
	}
}

func (w *watch) readChanged(ctx context.Context, changed map[string]bool, all bool) error {
	if all {
		return w.readAll(ctx)
	}
	for id := range changed {
		if err := w.readApp(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// readAll reads all applications, and deletes those that are missing.
func (w *watch) readAll(ctx context.Context) error {
	var list struct {
		Apps []app `json:"apps"`
	}
	if err := w.getJSON(ctx, "/v2/apps?embed=apps.tasks", &list); err != nil {
		return err
	}
	if list.Apps == nil {
		return errors.New("/v2/apps: the response has no apps")
	}
	framework, err := w.readFramework(ctx)
	switch {
	case err != nil:
		return err
	case framework != w.framework:
		return errors.New("another framework ID than before: Marathon may have lost its data")
	}
	found := make(map[string]bool, len(list.Apps))
	for i := range list.Apps {
		found[list.Apps[i].ID] = true
		w.set(&list.Apps[i])
	}
	for id := range w.known {
		if !found[id] {
			w.delete(id)
		}
	}
	return nil
}

// readApp reads one application, and deletes it if Marathon has it no more.
func (w *watch) readApp(ctx context.Context, id string) error {
	var body struct {
		App *app `json:"app"`
	}
	path := (&url.URL{Path: "/v2/apps/" + strings.Trim(id, "/")}).EscapedPath()
	err := w.getJSON(ctx, path+"?embed=app.tasks", &body)
	var status statusError
	switch {
	case errors.As(err, &status) && status == http.StatusNotFound:
		w.delete(id)
		return nil
	case err != nil:
		return err
	case body.App == nil || body.App.ID != id:
		return fmt.Errorf("%s: the response has another application", path)
	}
	w.set(body.App)
	return nil
}

// set reports an application. One without ports is no service.
func (w *watch) set(a *app) {
	s := newService(a, w.Namespace, w.Domain)
	if len(s.Ports) == 0 {
		w.delete(a.ID)
		return
	}
	w.known[a.ID] = true
	w.sink.Set(s)
}

func (w *watch) delete(id string) {
	if w.known[id] {
		delete(w.known, id)
		w.sink.Delete(adapter.ServiceKey{Namespace: w.Namespace, Name: id})
	}
}

// statusError is the status of a response that is not 200.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

// get returns the body of a response with status 200. The caller closes it.
func (p *Platform) get(ctx context.Context, path, accept string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(p.URL, "/")+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", accept)
	resp, err := p.Client.Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("%s: %w", path, statusError(resp.StatusCode))
	}
	return resp.Body, nil
}

// requestTime limits requests other than that of the event stream.
const requestTime = time.Minute

func (p *Platform) getJSON(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	body, err := p.get(ctx, path, "application/json")
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(io.LimitReader(body, maxResponse)).Decode(into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// event is the part of an event that shows what to read. AppID is empty if it may be about all
// applications.
type event struct {
	Type      string `json:"eventType"`
	AppID     string `json:"appId"`
	RunSpecID string `json:"runSpecId"` // the same, in events about instances
}

// readEvents reads a stream of server-sent events until it ends, and returns the reason. It calls
// observe for each event after which applications may differ.
func readEvents(stream io.Reader, observe func(event)) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(make([]byte, 64<<10), maxEvent)
	for lines.Scan() {
		data, isData := strings.CutPrefix(lines.Text(), "data:")
		var e event
		if isData && json.Unmarshal([]byte(data), &e) == nil && e.isChange() {
			observe(e)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.EOF
}

// isChange reports whether tasks or applications may differ after the event. Events have no guaranteed
// order, so they only show what to read again.
func (e *event) isChange() bool {
	switch e.Type {
	case "status_update_event", "health_status_changed_event", "instance_changed_event", "instance_health_changed_event",
		"app_terminated_event":
		e.AppID = cmp.Or(e.AppID, e.RunSpecID)
		return e.AppID != ""
	case "deployment_success", "deployment_failed", "deployment_step_success", "group_change_success":
		e.AppID = ""
		return true
	default:
		return false
	}
}
