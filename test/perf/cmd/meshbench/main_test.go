package main_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/meshpilot/meshpilot/test/perf/report"
	"github.com/meshpilot/meshpilot/test/support/program"
)

// TestReplay measures a server that replays the responses of a real control plane, in plain text and
// with TLS: proxies are sent everything, and changes arrive.
func TestReplay(t *testing.T) {
	dir := t.TempDir()
	if err := program.Into(t.Context(), dir, "cmd/pilot-discovery", "test/perf/cmd/meshbench"); err != nil {
		t.Fatal(err)
	}
	const proxies = 12
	for name, flags := range map[string][]string{"plain": nil, "tls": {"--tls"}} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "out.json")
			args := append([]string{
				"run", "--plane", "replay=" + filepath.Join(dir, "pilot-discovery"), "--size", "small", "--group", "main",
				"--proxies", "12", "--scenario", "endpoint,route,reconnect", "--repeat", "1", "--settle", "100ms", "--json", file,
			}, flags...)
			if out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "meshbench"), args...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			results, err := report.Read(file)
			if err != nil {
				t.Fatal(err)
			}
			rows := map[string]report.Row{}
			for _, row := range results.Runs[0].Rows {
				rows[row.Scenario] = row
				if row.Reached != proxies || row.Missing > 0 || row.Usage.CPU <= 0 || row.Usage.AllocatedBytes <= 0 {
					t.Errorf("%s: reached %d, missing %d, CPU %v s, allocated %v bytes",
						row.Scenario, row.Reached, row.Missing, row.Usage.CPU, row.Usage.AllocatedBytes)
				}
			}
			if len(rows) != 4 {
				t.Fatalf("scenarios: %v", rows)
			}
			if whole, again := rows["connect"].Usage.Bytes, rows["reconnect"].Usage.Bytes; again*20 > whole {
				t.Errorf("on reconnecting %d bytes were sent to proxies that had everything, %d to new ones", again, whole)
			}
		})
	}
}
