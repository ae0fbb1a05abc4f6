package configsource

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/ingest"
	"github.com/meshpilot/meshpilot/internal/ingest/source/xds"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// feed is a Feed with a name.
type feed string

func (f feed) Name() string { return string(f) }

func (feed) Run(context.Context, chan<- mesh.Batch) error { return nil }

// TestOpen checks the order of feeds, and the errors of invalid lists.
func TestOpen(t *testing.T) {
	var log strings.Builder
	options := Options{
		Cluster: func() ingest.Feed { return feed("cluster") },
		Dir: func(dir string) (ingest.Feed, error) {
			if dir == "/missing" {
				return nil, errors.New("no such directory")
			}
			return feed(dir), nil
		},
		XDS: xds.Options{Logger: slog.New(slog.DiscardHandler)},
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	tests := map[string]struct {
		addresses, configDir, want string
		noCluster                  bool
	}{
		"order":             {addresses: "fs:///b xds://127.0.0.1:1 k8s:// fs:///a", want: "/b xds://127.0.0.1:1 cluster /a"},
		"twice":             {addresses: "fs:///a k8s:// fs:///a", want: `meshConfig.configSources[2].address "fs:///a": is there twice`},
		"missing":           {addresses: "fs:///missing", want: `meshConfig.configSources[0].address "fs:///missing": no such directory`},
		"invalid":           {addresses: "k8s:// ftp://x", want: `meshConfig.configSources[1].address "ftp://x": unknown scheme`},
		"no cluster":        {addresses: "k8s://", noCluster: true, want: `meshConfig.configSources[0].address "k8s://": there is no API server`},
		"list before dir":   {addresses: "fs:///a", configDir: "/b", want: "/a"},
		"default":           {want: "cluster"},
		"dir before API":    {configDir: "/b", want: "/b"},
		"missing configDir": {configDir: "/missing", want: "--configDir: no such directory"},
		"nothing":           {noCluster: true},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			var list []*meshconfig.ConfigSource
			for address := range strings.FieldsSeq(c.addresses) {
				list = append(list, &meshconfig.ConfigSource{Address: address})
			}
			log.Reset()
			o := options
			o.ConfigDir = c.configDir
			if c.noCluster {
				o.Cluster = nil
			}
			feeds, err := Open(list, o)
			if warned := strings.Contains(log.String(), "fs://"+c.configDir); warned != (c.addresses != "" && c.configDir != "") {
				t.Errorf("the log is %q", &log)
			}
			if err != nil {
				if feeds != nil || !strings.HasPrefix(err.Error(), c.want) {
					t.Errorf("Open returned %v, %v; want %s", feeds, err, c.want)
				}
				return
			}
			var names []string
			for _, f := range feeds {
				names = append(names, f.Name())
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("the feeds are %s, want %s", got, c.want)
			}
		})
	}
}
