package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// brittle converts each Service to a service and panics for those of hash 666, without a guard of
// its own.
type brittle struct{}

func (brittle) Convert(batch mesh.Batch) mesh.Batch {
	var out mesh.Batch
	for _, e := range batch {
		switch {
		case e.Config == nil:
			out = append(out, e)
		case e.Config.Hash == 666:
			panic("the number of the beast")
		default:
			k := e.Config.Key
			s := mesh.Service{ServiceKey: mesh.ServiceKey{Namespace: k.Namespace, Host: mesh.Hostname(k.Name)}, From: k, Labels: map[string]string{"v": fmt.Sprint(e.Config.Hash)}}
			out = append(out, mesh.Event{Op: e.Op, Source: "brittle", Service: s.Sealed()})
		}
	}
	return out
}

func version(name string, hash uint64) mesh.Event {
	return mesh.Event{Source: "feed", Config: &config.Config{Meta: config.Meta{Key: config.Key{Kind: api.Service, Namespace: "shop", Name: name}}, Hash: hash}}
}

// recoveringPipeline returns a pipeline with the converter, its last published snapshot and the
// number of its panics.
func recoveringPipeline(o Options) (p *pipeline, last func() *snapshot.Snapshot, panics func() int) {
	n := 0
	var published *snapshot.Snapshot
	o.Recovery = recovery.New(recovery.Options{Count: func(string) { n++ }})
	o.Builder = snapshot.NewBuilder(snapshot.Options{Recovery: o.Recovery})
	o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	publish := o.Publish
	o.Publish = func(s *snapshot.Snapshot, d snapshot.Delta) {
		published = s
		if publish != nil {
			publish(s, d)
		}
	}
	o.Feeds = []Feed{script{name: "feed"}}
	return newPipeline(o), func() *snapshot.Snapshot { return published }, func() int { return n }
}

func services(s *snapshot.Snapshot) (list []string) {
	for _, svc := range s.Services() {
		list = append(list, string(svc.Host)+" "+svc.Labels["v"])
	}
	slices.Sort(list)
	return list
}

func internalErrors(s *snapshot.Snapshot) (list []string) {
	for _, x := range s.Problems() {
		if strings.HasPrefix(x.Reason, "internal error") {
			list = append(list, x.Key.String())
		}
	}
	return list
}

// TestConverterThatPanics: an object whose conversion panics keeps its last version and is named in
// a Problem. Other objects are converted, and a good version of the object resolves the Problem.
func TestConverterThatPanics(t *testing.T) {
	p, last, panics := recoveringPipeline(Options{Converters: []registry.Converter{brittle{}}})
	p.applyBatch(mesh.Batch{version("a", 1), version("b", 1)})
	p.applyBatch(mesh.Batch{version("c", 1), version("a", 666), version("d", 1), version("b", 2)})
	if got, want := services(last()), []string{"a 1", "b 2", "c 1", "d 1"}; !slices.Equal(got, want) {
		t.Errorf("services are %v, want %v", got, want)
	}
	if got := internalErrors(last()); !slices.Equal(got, []string{"Service/shop/a"}) || panics() == 0 {
		t.Errorf("named are %v after %d panics", got, panics())
	}
	p.applyBatch(mesh.Batch{version("a", 3)})
	if got := services(last()); !slices.Contains(got, "a 3") || len(internalErrors(last())) > 0 {
		t.Errorf("fixed: %v, named are %v", got, internalErrors(last()))
	}
}

// TestCallbacksThatPanic: the pipeline continues after a callback has panicked.
func TestCallbacksThatPanic(t *testing.T) {
	calls := 0
	p, last, panics := recoveringPipeline(Options{
		Converters: []registry.Converter{brittle{}},
		Observe:    func(mesh.Batch) { panic("observe") },
		Publish:    func(*snapshot.Snapshot, snapshot.Delta) { calls++; panic(errors.New("publish")) },
	})
	p.applyBatch(mesh.Batch{version("a", 1)})
	p.applyBatch(mesh.Batch{version("a", 2)})
	if got := services(last()); !slices.Equal(got, []string{"a 2"}) || calls != 2 || panics() != 4 {
		t.Errorf("services are %v after %d calls and %d panics", got, calls, panics())
	}
}

// TestBuilderThatPanics: an event with which the Builder panics is reported, and the rest of the
// batch is published.
func TestBuilderThatPanics(t *testing.T) {
	p, last, _ := recoveringPipeline(Options{})
	poison := mesh.Event{Source: "feed", Config: &config.Config{Meta: config.Meta{Key: config.Key{Kind: api.VirtualService, Namespace: "shop", Name: "v"}}, Hash: 1}}
	p.applyBatch(mesh.Batch{poison, script{name: "feed"}.service("one")[0]})
	if got := internalErrors(last()); len(last().Services()) != 1 || !slices.Equal(got, []string{"VirtualService/shop/v"}) {
		t.Errorf("%d services, named are %v", len(last().Services()), got)
	}
}

// unforkable is a converter that cannot be copied.
type unforkable struct{ brittle }

func (unforkable) Fork() registry.Converter { panic("fork") }

// TestPreviewThatPanics: Copy returns an error, and the pipeline continues, if the state cannot be
// copied.
func TestPreviewThatPanics(t *testing.T) {
	p, last, panics := recoveringPipeline(Options{Converters: []registry.Converter{unforkable{}}, Previews: NewPreviews()})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	in, done := make(chan mesh.Batch), make(chan struct{})
	go func() { p.applyBatches(ctx, in); close(done) }()
	if x, err := p.Previews.Copy(ctx); x != nil || !errors.Is(err, errCopyFailed) {
		t.Fatalf("the preview is %v, its error %v", x, err)
	}
	in <- mesh.Batch{version("a", 1)}
	cancel()
	<-done
	if got := services(last()); !slices.Equal(got, []string{"a 1"}) || panics() != 1 {
		t.Errorf("services are %v after %d panics", got, panics())
	}
}
