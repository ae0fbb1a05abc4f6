package discovery

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

const (
	oneEntry = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: one, namespace: ns}
spec: {hosts: [one.example.com], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}
`
	twoEntry = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: two, namespace: ns}
spec: {hosts: [two.example.com], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}
`
)

// has returns a check that a text occurs in the config of a control plane, or does not if want is
// false.
func (c *controlPlane) has(text string, want bool) func() error {
	return func() error {
		page, err := c.get("/debug/configz")
		if err == nil && strings.Contains(page, text) != want {
			err = fmt.Errorf("%q among its config: %v", text, !want)
		}
		return err
	}
}

func TestOneControlPlaneFeedsAnother(t *testing.T) {
	for _, mode := range []string{"sotw", "delta"} {
		t.Run(mode, func(t *testing.T) {
			upstream := startWith(t, map[string]string{"one.yaml": oneEntry}, func(o *Options) { o.ConfigPlainText = "loopback" })
			local := t.TempDir()
			downstream := startWith(t, map[string]string{
				".mesh": fmt.Sprintf("configSources: [{address: 'xds://%s?mode=%s'}, {address: 'fs://%s'}]", upstream.grpc, mode, local),
			}, func(*Options) {})
			downstream.eventually("the first object", downstream.has("one.example.com", true))
			upstream.write("two.yaml", twoEntry)
			downstream.eventually("another", downstream.has("two.example.com", true))
			upstream.write("one.yaml", "")
			downstream.eventually("the first object is removed", downstream.has("one.example.com", false))
		})
	}
}

func TestConfigIsNotFedInPlainTextByDefault(t *testing.T) {
	upstream := start(t, map[string]string{"one.yaml": oneEntry})
	dir := t.TempDir()
	(&controlPlane{t: t, dir: dir}).write(".mesh", "configSources: [{address: 'xds://"+upstream.grpc+"'}]")
	o := testOptions(t, dir)
	log := new(serving.Log)
	o.Logs.Out = log
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, o) }()
	upstream.eventually("the refusal is logged", func() error {
		if text := log.String(); !strings.Contains(text, "served only to control planes") {
			return fmt.Errorf("log:\n%s", text)
		}
		return nil
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestBadConfigSourcesAreNamed(t *testing.T) {
	for source, want := range map[string]string{
		"address: 'http://x'":        `meshConfig.configSources[1].address "http://x": unknown scheme`,
		"address: 'k8s://'":          `meshConfig.configSources[1].address "k8s://": there is no API server: give --kubeconfig, or run in a pod`,
		"address: 'fs:///not/there'": `meshConfig.configSources[1].address "fs:///not/there": read configuration directory`,
		"address: 'xds://127.0.0.1:1', tlsSettings: {mode: MUTUAL}": "meshConfig.configSources[1].tlsSettings: mode MUTUAL needs",
		"address: 'xds://127.0.0.1:2'":                              `meshConfig.configSources[1].address "xds://127.0.0.1:2": is there twice`,
	} {
		dir := t.TempDir()
		(&controlPlane{t: t, dir: dir}).write(".mesh", "configSources: [{address: 'xds://127.0.0.1:2'}, {"+source+"}]")
		o := testOptions(t, dir)
		o.Logs.Out = new(serving.Log)
		o.MeshConfigFile = filepath.Join(dir, ".mesh")
		if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", source, err, want)
		}
	}
}
