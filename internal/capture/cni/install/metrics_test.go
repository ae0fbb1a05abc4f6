package install

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshpilot/meshpilot/internal/capture/cni"
)

// values returns the metrics of an Installer: "ready", and the number of installations by result.
func values(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch f.GetName() {
			case "istio_cni_install_ready":
				found["ready"] = m.GetGauge().GetValue()
			case "istio_cni_installs_total":
				found[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return found
}

// TestMetrics counts failures, and installations that have changed something.
func TestMetrics(t *testing.T) {
	h, registry := newHost(t), prometheus.NewRegistry()
	h.Metrics = registry
	h.run()
	eventually := func(what string, check func(map[string]float64) bool) {
		t.Helper()
		h.eventually(what, func() error {
			if got := values(t, registry); !check(got) {
				return fmt.Errorf("metrics %v", got)
			}
			return nil
		})
	}
	eventually("a failure", func(m map[string]float64) bool {
		return m["CREATE_CNI_CONFIG_FAILURE"] > 0 && m["ready"] == 0 && m["SUCCESS"] == 0
	})
	h.write(h.config("10-net.conflist"), others, 0o644)
	eventually("an installation", func(m map[string]float64) bool { return m["ready"] == 1 && m["SUCCESS"] >= 1 })
	before := values(t, registry)["SUCCESS"]
	if err := os.Remove(filepath.Join(h.BinDirs[0], cni.Name)); err != nil {
		t.Fatal(err)
	}
	eventually("another one", func(m map[string]float64) bool { return m["ready"] == 1 && m["SUCCESS"] > before })
	if err := os.Remove(h.Program); err != nil {
		t.Fatal(err)
	}
	h.write(h.config("20-net.conflist"), others, 0o644) // makes it check all files
	eventually("the missing program", func(m map[string]float64) bool { return m["COPY_BINARIES_FAILURE"] > 0 && m["ready"] == 0 })
}

// TestConfMode: a separate configuration has the mode of the options, also one that exists.
func TestConfMode(t *testing.T) {
	h := newHost(t)
	h.Standalone = true
	path := h.config(standaloneName)
	for _, mode := range []os.FileMode{0o600, 0o640} {
		h.ConfMode = mode
		i, err := New(h.Options, testLog(t))
		if err != nil {
			t.Fatal(err)
		}
		i.installAll()
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("mode %v, want %v (error %v)", info, mode, err)
		}
	}
	chained := newHost(t)
	chained.ConfMode = 0o640
	chained.write(chained.config("10-net.conflist"), others, 0o604)
	i, err := New(chained.Options, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	i.installAll()
	if info, err := os.Stat(chained.config("10-net.conflist")); err != nil || info.Mode().Perm() != 0o604 {
		t.Errorf("mode of another plugin's configuration %v (error %v)", info, err)
	}
}
