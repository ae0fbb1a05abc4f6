package main

import (
	"context"
	"flag"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/meshpilot/meshpilot/internal/capture/cni/install"
	"github.com/meshpilot/meshpilot/internal/capture/cni/repair"
	"github.com/meshpilot/meshpilot/test/support/document"
)

var update = flag.Bool("update", false, "rewrite docs/FLAGS-CNI.md") //nolint:gochecknoglobals // a flag

// TestFlagsAreDocumented: docs/FLAGS-CNI.md is the list of flags.
func TestFlagsAreDocumented(t *testing.T) {
	const introduction = `# Flags of istio-cni

This page is written by ` + "`go test ./cmd/istio-cni -run TestFlagsAreDocumented -update`" + `. Under the name ` + "`install-cni`" + ` the program is the command
` + "`istio-cni install`" + `. Each of its flags except those of the log can be set by the environment variable with its name in capitals, with
underscores for hyphens (` + "`MONITORING_PORT`" + `); the value ` + "`env`" + ` of the chart sets such variables. [METRICS-CNI.md](METRICS-CNI.md) lists its metrics.
`
	document.CompareFlags(t, "../../docs/FLAGS-CNI.md", introduction, newRoot(), *update)
}

// TestMetricsAreDocumented compares docs/METRICS-CNI.md with the registered metrics.
func TestMetricsAreDocumented(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (?:counter|gauge) \\| ?([a-z, ]*?) ?\\|")
	var documented []string
	for _, m := range row.FindAllStringSubmatch(document.ReadContent(t, "../../docs/METRICS-CNI.md"), -1) {
		documented = append(documented, m[1]+"{"+strings.ReplaceAll(m[2], " ", "")+"}")
	}
	registry := prometheus.NewRegistry()
	o := install.DefaultOptions()
	o.Program, o.Server, o.Metrics = "program", "https://10.96.0.1", registry
	if _, err := install.New(o, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	r := repair.DefaultOptions()
	r.Metrics = registry
	if err := repair.Run(ended, r, client, nil, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	registered := document.RegisteredMetrics(t, registry, "")
	slices.Sort(documented)
	if diff := cmp.Diff(documented, registered); diff != "" {
		t.Errorf("docs/METRICS-CNI.md (-) and the registered metrics (+) differ:\n%s", diff)
	}
}
