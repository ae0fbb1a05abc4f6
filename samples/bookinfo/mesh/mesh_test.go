package mesh

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/samples/bookinfo"
	"github.com/meshpilot/meshpilot/test/support/program"
)

// buildApp builds Bookinfo's program into a directory.
func buildApp(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	if err := program.Into(t.Context(), bin, "samples/bookinfo/app"); err != nil {
		t.Fatal(err)
	}
	return bin
}

// Without sidecars, Bookinfo is plain processes in namespaces: this shows that the platform around sidecars works.
func TestAppsWithoutSidecars(t *testing.T) {
	netns.Require(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m, err := Start(ctx, Options{
		Binaries: buildApp(t), Dir: t.TempDir(), Manifests: bookinfo.Platform(), Progress: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	client := m.Workload("client")
	caller := NewCaller(client.Node)
	defer caller.Close()
	for url, version := range map[string]string{ProductReviews: "v1", Reviews: "v1", "http://10.66.1.33:9080/reviews/0": "v3"} {
		a := caller.Get(ctx, url)
		if a.Version() != version || a.Complete() != nil {
			t.Errorf("GET %s: %s", url, a)
		}
	}
	if a := caller.Get(ctx, "http://ratings.default.svc.cluster.local:9080/ratings/0", "x-fail-first: 1", "x-request-id: a"); a.Status != http.StatusInternalServerError {
		t.Errorf("asked to fail, ratings answered %s", a)
	}

	load := StartLoad(client.Node, Reviews, 200)
	time.Sleep(250 * time.Millisecond) // how long it runs does not matter
	tally := load.Stop()
	if tally.Sent < 20 || tally.Failed != 0 || tally.Versions["v1"] != tally.Sent {
		t.Errorf("the load saw %+v", tally)
	}

	// A load that cannot fail would prove nothing.
	load = StartLoad(client.Node, Reviews, 200)
	if err := m.Workload("reviews-v1").App.Stop(5 * time.Second); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(5 * time.Second); load.Tally().Failed == 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	if tally := load.Stop(); tally.Failed == 0 || len(tally.Failures) == 0 {
		t.Errorf("with reviews gone the load saw %+v", tally)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

func TestStartNamesMissingFiles(t *testing.T) {
	pods := fstest.MapFS{"p.yaml": {Data: []byte("kind: Pod\nmetadata: {name: p}\nspec: {containers: []}\n")}}
	for want, opts := range map[string]Options{
		"hold no pod":     {Manifests: fstest.MapFS{}},
		"pilot-discovery": {Manifests: pods, Binaries: buildApp(t), Envoy: "/bin/true", Sidecars: true},
		"bookinfo":        {Manifests: pods, Binaries: t.TempDir()},
		"q.yaml, document 2": {Manifests: fstest.MapFS{
			"q.yaml": {Data: []byte("kind: Node\n---\nkind: Pod\nspec: {contaners: []}\n")},
		}},
	} {
		if _, err := Start(t.Context(), opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Start: %v, want an error with %q", err, want)
		}
	}
}
