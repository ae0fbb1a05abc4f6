package routing

import (
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
)

// explainDumps explains the calls of all cases from the Envoys' own config dumps. The results must
// be those of the configuration that the test generated; a dump does not contain the objects of the
// steps.
func (w *world) explainDumps(t *testing.T, runs []*run) {
	t.Helper()
	dumps := map[string]*explain.ConfigDump{}
	explained := 0
	for _, r := range runs {
		caller := r.c.From
		if r.c.Into != "" {
			caller = r.c.Into
		}
		if r.path == nil || w.resources[caller] == nil {
			continue
		}
		if dumps[caller] == nil {
			dumps[caller] = w.readDump(t, caller)
		}
		path, err := explain.Explain(&dumps[caller].Resources, r.path.Call)
		if err != nil {
			t.Errorf("%s: %v", r.c.ID(), err)
			continue
		}
		if diff := cmp.Diff(endingsOf(r.path), endingsOf(path)); diff != "" {
			t.Errorf("%s: the dump of Envoy is explained otherwise (-generated +dumped):\n%s%s", r.c.ID(), diff, path)
		}
		explained++
	}
	if explained < leastCases/2 && *only == "" {
		t.Errorf("%d cases were explained from dumps", explained)
	}
}

// readDump reads the configuration of a caller's Envoy.
func (w *world) readDump(t *testing.T, caller string) *explain.ConfigDump {
	t.Helper()
	client := w.mesh.Workload(caller).Node.Client(callTime)
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://127.0.0.1:15000/config_dump?include_eds")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	dump, err := explain.ReadConfigDump(body)
	if err != nil {
		t.Fatalf("the dump of %s: %v", caller, err)
	}
	if !dump.HasEndpoints {
		t.Errorf("the dump of %s has no endpoints", caller)
	}
	return dump
}

// endingsOf returns the endings of a path in a line each.
func endingsOf(p *explain.Path) []string {
	var list []string
	for _, e := range p.Endings {
		list = append(list, e.String())
	}
	return list
}
