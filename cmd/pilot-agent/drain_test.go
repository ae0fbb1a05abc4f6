package main

import (
	"errors"
	"net/http"
	"syscall"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// busy is a ready sidecar with an active request to the application behind it.
type busy struct {
	*agent
	service *service
	// inbound and outbound are ports of listeners that route to the application.
	inbound, outbound int
	underWay          <-chan answer
}

func startBusy(t *testing.T, s settings) *busy {
	t.Helper()
	p := serving.FreePorts(t, 2)
	out := &busy{service: newService(t), inbound: p[0], outbound: p[1]}
	captured := listener(t, corev3.TrafficDirection_INBOUND, "127.0.0.1", out.inbound, "in", "inbound|9080||")
	captured.StatPrefix = "captured_15006" // the name prefix of the listener of captured connections
	address := localControlPlane(t,
		cluster("inbound|9080||", "127.0.0.1", out.service.port),
		captured,
		listener(t, corev3.TrafficDirection_OUTBOUND, "127.0.0.1", out.outbound, "out", "inbound|9080||"),
	)
	if s.config == nil {
		s.config = map[string]any{}
	}
	s.config["discoveryAddress"] = address
	out.agent = startAgent(t, s)
	out.awaitReady(t)
	underWay := make(chan answer, 1)
	go func() { underWay <- get(out.inbound, "/slow") }()
	<-out.service.begun
	out.underWay = underWay
	return out
}

// finish lets the active request finish, and checks that it was not cut off.
func (s *busy) finish(t *testing.T) {
	t.Helper()
	close(s.service.release)
	check(t, want(<-s.underWay, 200, "finished"))
}

// awaitDraining waits until inbound clients are asked to reconnect, and checks that outbound ones
// are not.
func (s *busy) awaitDraining(t *testing.T) {
	t.Helper()
	serving.Eventually(t, patience, "connection: close", func() error {
		got := call(http.MethodGet, s.inbound, "/", nil)
		if err := want(got, 200, "hello"); err != nil {
			return err
		}
		if !got.closes {
			return errors.New("the answer does not have Connection: close")
		}
		return nil
	})
	if got := get(s.outbound, "/"); got.closes {
		t.Error("outbound connections are closed by a drain: the application may still need them")
	}
	check(t, want(get(s.status, "/healthz/ready"), 503, "draining"))
}

// TestSIGTERMDrains tests that new clients are asked to reconnect, active requests finish,
// readiness fails and Envoy ends.
func TestSIGTERMDrains(t *testing.T) {
	t.Parallel()
	s := startBusy(t, settings{config: map[string]any{"terminationDrainDuration": "1s"}})
	s.signal(t, syscall.SIGTERM)
	s.awaitDraining(t)
	s.finish(t)
	if status := s.awaitExit(t); status != 0 {
		t.Errorf("status %d, want 0", status)
	}
	s.awaitLog(t, "draining for the termination drain duration\tduration=1s")
	s.awaitLog(t, "envoy exited with status 0 after SIGTERM")
}

// TestInterruptedTwice tests that Ctrl-C, which signals the whole process group, drains
// nevertheless, and that a second one ends the wait of 600 s.
func TestInterruptedTwice(t *testing.T) {
	t.Parallel()
	s := startBusy(t, settings{})
	for _, await := range []func(){
		func() { s.awaitDraining(t) },
		func() { s.awaitLog(t, "draining aborted by a second signal") },
	} {
		if err := syscall.Kill(-s.process.PID(), syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		await()
	}
	if status := s.awaitExit(t); status != 0 {
		t.Errorf("status %d, want 0", status)
	}
}

// TestExitOnZeroActiveConnections tests that draining ends with the last connection.
func TestExitOnZeroActiveConnections(t *testing.T) {
	t.Parallel()
	s := startBusy(t, settings{env: []string{"EXIT_ON_ZERO_ACTIVE_CONNECTIONS=true", "MINIMUM_DRAIN_DURATION=50ms"}})
	s.signal(t, syscall.SIGTERM)
	s.awaitDraining(t)
	s.awaitLog(t, "draining: connections are still open\tconnections=1\n")
	if !s.running() {
		t.Fatal("ended with a client connected")
	}
	s.finish(t)
	if status := s.awaitExit(t); status != 0 {
		t.Errorf("status %d, want 0", status)
	}
	s.awaitLog(t, "drained: all connections are closed")
}

// TestDrainByRequest tests that POST /drain only drains, and that a following SIGTERM waits only
// while clients are connected.
func TestDrainByRequest(t *testing.T) {
	t.Parallel()
	s := startBusy(t, settings{})
	check(t, want(call(http.MethodPost, s.status, "/drain", nil), 200, "OK"))
	s.awaitDraining(t)
	if !s.running() {
		t.Fatal("ended by /drain")
	}
	s.signal(t, syscall.SIGTERM)
	s.awaitLog(t, "draining: connections are still open\tconnections=1\n")
	s.finish(t)
	if status := s.awaitExit(t); status != 0 {
		t.Errorf("status %d, want 0", status)
	}
	s.awaitLog(t, "drained: all connections are closed")
}

// TestTerminationAfterDrainIsBounded tests that EXIT_ON_ZERO_ACTIVE_CONNECTIONS does not keep a
// proxy that was drained by request longer than the drain time.
func TestTerminationAfterDrainIsBounded(t *testing.T) {
	t.Parallel()
	s := startBusy(t, settings{
		config: map[string]any{"terminationDrainDuration": "1s"}, env: []string{"EXIT_ON_ZERO_ACTIVE_CONNECTIONS=true"},
	})
	check(t, want(call(http.MethodPost, s.status, "/drain", nil), 200, "OK"))
	s.awaitDraining(t)
	s.signal(t, syscall.SIGTERM)
	if status := s.awaitExit(t); status != 0 { // although a client is still connected
		t.Errorf("status %d, want 0", status)
	}
	s.awaitLog(t, "draining for the termination drain duration\tduration=1s")
	close(s.service.release)
	<-s.underWay
}

// TestDrainWasLongEnough tests that the drain time is measured from POST /drain, whether or not
// clients are connected.
func TestDrainWasLongEnough(t *testing.T) {
	t.Parallel()
	s := startBusy(t, settings{config: map[string]any{"terminationDrainDuration": "1s"}})
	check(t, want(call(http.MethodPost, s.status, "/drain", nil), 200, "OK"))
	s.awaitLog(t, "draining\n")
	time.Sleep(time.Second) // the configured duration
	s.signal(t, syscall.SIGTERM)
	if status := s.awaitExit(t); status != 0 {
		t.Errorf("status %d, want 0", status)
	}
	s.awaitLog(t, "draining for the termination drain duration\tduration=1s remaining=0s")
}

// TestQuitByRequest tests that POST /quitquitquit ends the agent at once, as a finished job needs.
func TestQuitByRequest(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{})
	serving.Eventually(t, patience, "Envoy", func() error { return want(get(a.admin, "/ready"), 503, "INITIALIZING") })
	check(t, want(get(a.status, "/quitquitquit"), 405, ""))
	check(t, want(call(http.MethodPost, a.status, "/quitquitquit", nil), 200, "OK"))
	if status := a.awaitExit(t); status != 0 {
		t.Errorf("status %d, want 0", status)
	}
	a.awaitLog(t, "ending without draining")
	a.awaitLog(t, "envoy exited with status 0 after SIGTERM")
}

// TestEnvoyDiesWhileItDrains tests that the status is Envoy's, because active requests were lost.
func TestEnvoyDiesWhileItDrains(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{})
	pid := a.envoyPID(t)
	a.signal(t, syscall.SIGTERM)
	a.awaitLog(t, "draining for the termination drain duration")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if status := a.awaitExit(t); status != 137 {
		t.Errorf("status %d, want 137", status)
	}
}
