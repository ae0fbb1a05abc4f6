package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// load makes requests continuously, on kept and new connections, until it is stopped.
type load struct {
	made, failed atomic.Int64
	first        atomic.Pointer[string] // failure
	end          context.CancelFunc
	all          sync.WaitGroup
}

func startLoad(t *testing.T, url string) *load {
	t.Helper()
	l := &load{}
	var ctx context.Context
	ctx, l.end = context.WithCancel(context.Background())
	for _, keep := range []bool{true, true, false, false} {
		transport := &http.Transport{DisableKeepAlives: !keep}
		client := &http.Client{Transport: transport, Timeout: patience}
		l.all.Go(func() {
			defer transport.CloseIdleConnections()
			for ctx.Err() == nil {
				if err := request(client, url); err != nil {
					text := err.Error()
					l.first.CompareAndSwap(nil, &text)
					l.failed.Add(1)
				}
				l.made.Add(1)
				time.Sleep(time.Millisecond) // not a wait: some hundred requests a second are enough
			}
		})
	}
	t.Cleanup(l.end)
	return l
}

func request(client *http.Client, url string) error {
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("answer %s", answer.Status)
	}
	return nil
}

// stop ends the load and checks its results.
func (l *load) stop(t *testing.T) {
	t.Helper()
	l.end()
	l.all.Wait()
	if n := l.failed.Load(); n > 0 {
		t.Errorf("%d of %d requests failed, the first: %s", n, l.made.Load(), *l.first.Load())
	}
	if l.made.Load() < 100 {
		t.Errorf("only %d requests were made", l.made.Load())
	}
	t.Logf("%d requests", l.made.Load())
}

// TestHotRestart tests that no request is lost while Envoy is replaced repeatedly under load, also
// if a new one exits before it takes over.
func TestHotRestart(t *testing.T) {
	rounds := scorecard.BySize(longtest.Rounds(3, 20), 60, 1000)
	record := scorecard.Check(t, 14, scorecard.Size("hot restarts", rounds))
	app := newService(t)
	inbound := serving.FreePort(t)
	plane := localControlPlane(
		t,
		cluster(
			"inbound|9080||",
			"127.0.0.1",
			app.port,
		),
		listener(t, corev3.TrafficDirection_INBOUND, "127.0.0.1", inbound, "in", "inbound|9080||"),
	)
	override := filepath.Join(t.TempDir(), "override.yaml")
	write := func(text string) {
		if err := os.WriteFile(override, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("{}\n")
	a := startAgent(t, settings{
		config: map[string]any{"discoveryAddress": plane, "drainDuration": "1s", "terminationDrainDuration": "0s"},
		env:    []string{"MESHPILOT_HOT_RESTART=true", "ISTIO_BOOTSTRAP_OVERRIDE=" + override},
	})
	a.awaitReady(t)
	l := startLoad(t, fmt.Sprintf("http://127.0.0.1:%d/", inbound))
	for i := range rounds {
		a.signal(t, syscall.SIGHUP)
		a.awaitLog(t, fmt.Sprintf("hot restart: new envoy has taken over, the previous one drains\tepoch=%d\n", i+1))
		if got := get(a.status, "/healthz/ready"); got.status != 200 {
			t.Errorf("round %d: readiness %d %s", i, got.status, got.body)
		}
	}
	a.awaitLog(t, fmt.Sprintf("hot restart: previous envoy has exited\tepoch=%d\n", rounds-2))
	write("static_resources: {clusters: [{name: bad, type: EDS}]}\n") // which Envoy rejects
	a.awaitLog(t, "cannot start a new envoy, keeping the current one\terror=\"envoy rejects its configuration")
	check(t, want(get(a.status, "/healthz/ready"), 200, ""))
	write("{}\n")
	a.awaitLog(t, fmt.Sprintf("hot restart: new envoy has taken over, the previous one drains\tepoch=%d\n", rounds+1))
	record.Measured("requests", l.made.Load())
	record.Measured("requests failed", l.failed.Load())
	l.stop(t)
	a.signal(t, syscall.SIGTERM)
	if status := a.awaitExit(t); status != 0 {
		t.Errorf("status %d, want 0", status)
	}
}
