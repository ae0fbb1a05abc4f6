package install

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/meshpilot/meshpilot/internal/capture/cni"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// others is a configuration of a network provider, with keys and numbers that must be preserved.
const others = `{
  "cniVersion": "1.0.0",
  "name": "mynet",
  "plugins": [
    {"type": "bridge", "mtu": 1500, "big": 12345678901234567890, "ipam": {"type": "host-local"}},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ],
  "vendor": {"a": [1, 2.50]}
}`

// host holds a node's directories.
type host struct {
	Options
	t *testing.T
}

func newHost(t *testing.T) *host {
	dir := t.TempDir()
	o := DefaultOptions()
	o.Program, o.NetDir, o.BinDirs = filepath.Join(dir, "program"), filepath.Join(dir, "net.d"), []string{filepath.Join(dir, "bin")}
	o.RunDir, o.ServiceAccount = filepath.Join(dir, "run"), filepath.Join(dir, "sa")
	o.Server = "https://10.96.0.1:443"
	o.Entry.ExcludeNamespaces, o.Entry.PodNamespace = []string{"kube-system"}, "istio-system"
	h := &host{Options: o, t: t}
	h.write(o.Program, "program", 0o755)
	h.write(filepath.Join(o.ServiceAccount, "token"), "token-1", 0o600)
	h.write(filepath.Join(o.ServiceAccount, "ca.crt"), "CA", 0o600)
	if err := os.MkdirAll(o.NetDir, 0o755); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *host) write(path, text string, mode os.FileMode) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) config(name string) string { return filepath.Join(h.NetDir, name) }

// testLog returns a logger to the output of a test.
func testLog(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// run installs until the test ends or stop is called.
func (h *host) run() (stop func()) {
	h.t.Helper()
	i, err := New(h.Options, testLog(h.t))
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan error, 1)
	go func() { done <- i.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
		if i.Ready() {
			h.t.Error("ready after the end")
		}
	}
	h.t.Cleanup(stop)
	return stop
}

func (h *host) eventually(what string, check func() error) {
	h.t.Helper()
	serving.Eventually(h.t, 10*time.Second, what, check)
}

// chained checks that a file is a list that ends with the plugin's entry.
func chained(path string) func() error {
	return func() error {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var list struct{ Plugins []cni.Config }
		if err := json.Unmarshal(text, &list); err != nil {
			return err
		}
		if n := len(list.Plugins); n == 0 || list.Plugins[n-1].Type != cni.Name {
			return errors.New("the last plugin is not ours:\n" + string(text))
		}
		return nil
	}
}

func content(path, want string) func() error {
	return func() error {
		text, err := os.ReadFile(path)
		if err == nil && !strings.Contains(string(text), want) {
			err = errors.New("got " + string(text))
		}
		return err
	}
}

// tree returns a configuration for comparison regardless of the order of keys.
func tree(t *testing.T, text []byte) configuration {
	t.Helper()
	c, err := parseConfiguration(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestInstallAndRemove(t *testing.T) {
	h := newHost(t)
	h.write(h.config("10-mynet.conflist"), others, 0o640)
	h.write(h.config("20-second.conflist"), others, 0o600)
	stop := h.run()
	h.eventually("the entry", chained(h.config("10-mynet.conflist")))
	text, err := os.ReadFile(h.config("10-mynet.conflist"))
	if err != nil {
		t.Fatal(err)
	}
	got := tree(t, text)
	want := tree(t, []byte(others))
	want["plugins"] = append(want["plugins"].([]any), map[string]any{
		"name": "istio-cni", "type": "istio-cni", "cni_agent_run_dir": h.RunDir, "exclude_namespaces": []any{"kube-system"}, "pod_namespace": "istio-system",
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the configuration (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(h.config("10-mynet.conflist")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the configuration's mode: %v, error %v", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Join(h.BinDirs[0], cni.Name)); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the program: %v, error %v", info, err)
	}
	kubeconfig, err := clientcmd.LoadFromFile(h.kubeconfigPath())
	if err != nil {
		t.Fatal(err)
	}
	if user, cluster := kubeconfig.AuthInfos[cni.Name], kubeconfig.Clusters["local"]; user.Token != "token-1" || cluster.Server != h.Server || string(cluster.CertificateAuthorityData) != "CA" {
		t.Errorf("the kubeconfig has user %v, cluster %v", user, cluster)
	}
	stop()
	text, err = os.ReadFile(h.config("10-mynet.conflist"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tree(t, []byte(others)), tree(t, text)); diff != "" {
		t.Errorf("after the end the configuration differs (-before, +after):\n%s", diff)
	}
	for _, path := range []string{filepath.Join(h.BinDirs[0], cni.Name), h.kubeconfigPath()} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s was left behind (error %v)", path, err)
		}
	}
	if second, err := os.ReadFile(h.config("20-second.conflist")); err != nil || string(second) != others {
		t.Errorf("the second configuration was touched: %s, error %v", second, err)
	}
}

// TestLostFilesAreRestored tests that changes of the node's files by others are reverted.
func TestLostFilesAreRestored(t *testing.T) {
	h := newHost(t)
	path, program := h.config("10-mynet.conflist"), filepath.Join(h.BinDirs[0], cni.Name)
	h.write(path, others, 0o600)
	h.run()
	h.eventually("the entry", chained(path))

	h.write(path, others, 0o600)
	h.eventually("the entry after another's write", chained(path))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	h.write(path, strings.Replace(others, "mynet", "newnet", 1), 0o600)
	h.eventually("the entry in a new file", chained(path))
	h.eventually("the new file's own name", content(path, "newnet"))
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	h.eventually("the program", content(program, "program"))
	h.write(filepath.Join(h.ServiceAccount, "token"), "token-2", 0o600)
	h.eventually("the new token", content(h.kubeconfigPath(), "token-2"))
	h.write(h.config("05-first.conflist"), others, 0o600)
	h.eventually("the entry in a configuration that is now the first", chained(h.config("05-first.conflist")))
	h.eventually("no entry in the other", func() error {
		if chained(path)() == nil {
			return errors.New("it is still there")
		}
		return nil
	})
}

func TestInstallWaitsForANetwork(t *testing.T) {
	h := newHost(t)
	h.write(h.config("00-broken.conflist"), `{"plugins": `, 0o600)
	h.write(h.config("01-none.conflist"), `{"name": "x", "plugins": []}`, 0o600)
	h.run()
	h.eventually("the program", content(filepath.Join(h.BinDirs[0], cni.Name), "program"))
	// A single plugin becomes a list, with the name of a list.
	h.write(h.config("10-single.conf"), `{"cniVersion": "0.3.1", "name": "single", "type": "bridge"}`, 0o600)
	h.eventually("the entry", chained(h.config("10-single.conflist")))
	h.eventually("the old file is removed", func() error {
		if _, err := os.Stat(h.config("10-single.conf")); !errors.Is(err, os.ErrNotExist) {
			return errors.New("it still exists")
		}
		return nil
	})
	h.eventually("the plugin that was there", content(h.config("10-single.conflist"), `"bridge"`))
}

// TestNothingIsWrittenTwice tests that a correct configuration is not written, because others watch
// it.
func TestNothingIsWrittenTwice(t *testing.T) {
	h := newHost(t)
	path := h.config("10-mynet.conflist")
	h.write(path, others, 0o600)
	i, err := New(h.Options, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(h.BinDirs[0], 0o755); err != nil {
		t.Fatal(err)
	}
	i.installAll()
	before, err := os.Stat(path)
	if err != nil || !i.Ready() {
		t.Fatal(err, i.Ready())
	}
	i.installAll()
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("it was written again (error %v)", err)
	}
}

func TestAlone(t *testing.T) {
	h := newHost(t)
	h.Standalone = true
	h.write(h.config("10-mynet.conflist"), others, 0o600)
	stop := h.run()
	h.eventually("a configuration of its own", content(h.config(standaloneName), `"type": "istio-cni"`))
	stop()
	if _, err := os.Stat(h.config(standaloneName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was left behind (error %v)", err)
	}
	if text, err := os.ReadFile(h.config("10-mynet.conflist")); err != nil || string(text) != others {
		t.Errorf("the other configuration was touched: %s, error %v", text, err)
	}
}

// TestConfigurationThatCannotBeRead tests that an invalid configuration is not changed, and that
// the installer reports it and is not ready.
func TestConfigurationThatCannotBeRead(t *testing.T) {
	for _, text := range []string{`{"plugins": 3}`, `null`, `[]`, `{"plugins": `} {
		if _, err := withEntry([]byte(text), configuration{"type": cni.Name}); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
	if _, err := New(Options{}, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("options without anything: no error")
	}
}

func FuzzWithEntry(f *testing.F) {
	f.Add([]byte(others))
	f.Add([]byte(`{"type": "bridge"}`))
	f.Add([]byte(`{"plugins": [{"type": "istio-cni"}, 3]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		with, err := withEntry(text, configuration{"type": cni.Name})
		if err != nil {
			return
		}
		again, err := withEntry(with, configuration{"type": cni.Name})
		if err != nil || string(again) != string(with) {
			t.Errorf("the second call returns %s (error %v), want %s", again, err, with)
		}
		without, was, err := withoutEntry(with)
		if err != nil || !was || strings.Contains(string(without), `"type": "istio-cni"`) && !strings.Contains(string(text), cni.Name) {
			t.Errorf("removed: %s (%v, error %v)", without, was, err)
		}
	})
}
