package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// TestRefusedClientsAreProblems: a client in plain text whose message exceeds the limit is a Problem
// that names the client and the setting, once, however often it tries; so is one with too many names.
func TestRefusedClientsAreProblems(t *testing.T) {
	var refused RefusedClients
	h := serve(t, 1, Options{Refused: &refused})
	for range 2 {
		c := h.connect(stream.Delta, testNode(1))
		c.ask(api.ClusterType, nil, nil)
		c.want(api.ClusterType)
		c.ask(api.EndpointType, namesOf(1200<<10), nil)
		if err := c.wantEnd(); status.Code(err) != codes.ResourceExhausted {
			t.Fatalf("the stream ended with %v", err)
		}
	}
	first := h.connect(stream.Delta, testNode(2))
	first.ask(api.ClusterType, nil, state(1200<<10)) // its node is not decoded
	if err := first.wantEnd(); status.Code(err) != codes.ResourceExhausted {
		t.Fatalf("the stream ended with %v", err)
	}
	named := h.connect(stream.Delta, testNode(3))
	named.ask(api.ClusterType, nil, nil)
	named.want(api.ClusterType)
	names := make([]string, h.pusher.NameLimits().Names+1)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	named.ask(api.EndpointType, names, nil)
	if err := named.wantEnd(); status.Code(err) != codes.ResourceExhausted {
		t.Fatalf("the stream ended with %v", err)
	}
	var lines []string
	h.wait("the clients are recorded", func() bool {
		lines = nil
		for _, p := range refused.Problems(time.Now()) {
			if p.Code != code.ClientRefused {
				t.Errorf("code %s of %s", p.Code, p)
			}
			lines = append(lines, p.String())
		}
		return len(lines) == 3
	})
	for i, want := range [][]string{
		{fmt.Sprintf("%q", testNode(1).GetId()), "at 127.0.0.1", requestLimit, "1048576"},
		{"xDS client at 127.0.0.1", requestLimit},
		{fmt.Sprintf("%q", testNode(3).GetId()), "MESHPILOT_XDS_MAX_NAMES"},
	} {
		for _, w := range want {
			if !strings.Contains(lines[i], w) {
				t.Errorf("%q does not contain %q", lines[i], w)
			}
		}
	}
	if list := refused.Problems(time.Now().Add(2 * refusalMemory)); len(list) > 0 {
		t.Errorf("clients that do not try again are still Problems: %v", list)
	}
}

// namesOf returns names that together have at least size bytes.
func namesOf(size int) (names []string) {
	for i := 0; len(names)*500 < size; i++ {
		names = append(names, fmt.Sprintf("%0500d", i))
	}
	return names
}

// TestRefusedClientsAreBounded: of many clients the newest are recorded, and the first are logged,
// once until they have not tried for some minutes.
func TestRefusedClientsAreBounded(t *testing.T) {
	var refused RefusedClients
	now := time.Now()
	for i := range 3 * maxRefusedClients {
		client := fmt.Sprintf("client %02d", i)
		if log := refused.record(client, "too long", now); log != (i < maxRefusedClients) {
			t.Errorf("client %d is logged: %t", i, log)
		}
		if refused.record(client, "too long", now) {
			t.Errorf("client %d is logged again", i)
		}
	}
	list := refused.Problems(now)
	if len(list) != maxRefusedClients || list[maxRefusedClients-1].Origin != fmt.Sprintf("client %02d", 3*maxRefusedClients-1) {
		t.Errorf("%d Problems: %v", len(list), list)
	}
	later := now.Add(2 * refusalMemory)
	if !refused.record("client 59", "too long", later) || len(refused.Problems(later)) != 1 {
		t.Errorf("after the clients were forgotten: %v", refused.Problems(later))
	}
}
