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
	openers := Openers{
		Cluster: func() (ingest.Feed, error) { return feed("cluster"), nil },
		Dir: func(dir string) (ingest.Feed, error) {
			if dir == "/missing" {
				return nil, errors.New("no such directory")
			}
			return feed(dir), nil
		},
		XDS: xds.Options{Logger: slog.New(slog.DiscardHandler)},
	}
	tests := map[string]struct{ addresses, want string }{
		"order":   {"fs:///b xds://127.0.0.1:1 k8s:// fs:///a", "/b xds://127.0.0.1:1 cluster /a"},
		"twice":   {"fs:///a k8s:// fs:///a", `meshConfig.configSources[2].address "fs:///a": is there twice`},
		"missing": {"fs:///missing", `meshConfig.configSources[0].address "fs:///missing": no such directory`},
		"invalid": {"k8s:// ftp://x", `meshConfig.configSources[1].address "ftp://x": unknown scheme`},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			var list []*meshconfig.ConfigSource
			for address := range strings.FieldsSeq(c.addresses) {
				list = append(list, &meshconfig.ConfigSource{Address: address})
			}
			feeds, err := Open(list, openers)
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
