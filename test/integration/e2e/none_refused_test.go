package e2e

import "testing"

// TestNothingWasRefused runs after all others but TestPoison, by the order of files: none of them made a proxy refuse
// anything.
func TestNothingWasRefused(t *testing.T) {
	m := bookinfoMesh(t)
	if n := metric(t, m, "pilot_total_xds_rejects"); n != 0 {
		var nacks []any
		debugPage(t, m, "/debug/nackz", &nacks)
		t.Errorf("proxies refused %v responses: %v", n, nacks)
	}
	if n := metric(t, m, "pilot_xds"); n != float64(len(m.Workloads)) {
		t.Errorf("%v proxies are connected, want %d", n, len(m.Workloads))
	}
}
