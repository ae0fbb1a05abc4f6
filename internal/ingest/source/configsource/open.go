package configsource

import (
	"errors"
	"fmt"
	"log/slog"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/ingest"
	"github.com/meshpilot/meshpilot/internal/ingest/source/xds"
)

// Options configure which sources are opened, and how.
type Options struct {
	// ConfigDir is the directory of --configDir. If the list is empty, its files are the only
	// source. Otherwise it is not read.
	ConfigDir string
	// Cluster opens the source of the API server (k8s://). If the list and ConfigDir are empty, it
	// is the only source. If nil, there is no API server.
	Cluster func() ingest.Feed
	// Dir opens the source of the files below a directory (fs://).
	Dir func(dir string) (ingest.Feed, error)
	// XDS are the options of the sources that read xDS servers (xds://).
	XDS xds.Options
	Log *slog.Logger
}

// errNoCluster is the error of a list that names an API server if there is none.
var errNoCluster = errors.New("there is no API server: give --kubeconfig, or run in a pod")

// Open returns the feeds of the sources in list, in its order. Without a list it returns the files
// of ConfigDir, else the API server, else nil. It returns an error if the address of a source is
// invalid or has another scheme, if it cannot be opened, or if a feed of the same name precedes it.
// It warns of a ConfigDir that is not read because of the list.
func Open(list []*meshconfig.ConfigSource, o Options) ([]ingest.Feed, error) {
	if len(list) == 0 {
		return o.openDefault()
	}
	if o.ConfigDir != "" {
		o.Log.Warn("--configDir is not read, for meshConfig.configSources takes its place; add fs://"+o.ConfigDir+" to it to read both",
			"configDir", o.ConfigDir)
	}
	var feeds []ingest.Feed
	seen := map[string]bool{}
	for i, c := range list {
		f, err := o.open(c)
		if err == nil && seen[f.Name()] {
			err = fmt.Errorf("address %q: is there twice", c.Address)
		}
		if err != nil {
			return nil, fmt.Errorf("meshConfig.configSources[%d].%w", i, err)
		}
		seen[f.Name()] = true
		feeds = append(feeds, f)
	}
	return feeds, nil
}

// openDefault returns the source of a control plane without meshConfig.configSources: the files of
// ConfigDir, else the API server. It returns nil if there is neither, and an error if ConfigDir
// cannot be opened.
func (o Options) openDefault() ([]ingest.Feed, error) {
	switch {
	case o.ConfigDir != "":
		f, err := o.Dir(o.ConfigDir)
		if err != nil {
			return nil, fmt.Errorf("--configDir: %w", err)
		}
		return []ingest.Feed{f}, nil
	case o.Cluster != nil:
		return []ingest.Feed{o.Cluster()}, nil
	}
	return nil, nil
}

// open returns the feed of one source, which it does not start. The address begins with xds://,
// fs:// or k8s://. An error begins with the name of the invalid field. k8s:// is an error without a
// cluster.
func (o Options) open(c *meshconfig.ConfigSource) (ingest.Feed, error) {
	a, err := xds.ParseAddress(c.Address)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", c.Address, err)
	}
	var f ingest.Feed
	switch {
	case a.Scheme == xds.SchemeXDS:
		return xds.New(c, o.XDS) // Its errors name the field.
	case a.Scheme == xds.SchemeFile:
		f, err = o.Dir(a.Path)
	case o.Cluster == nil:
		err = errNoCluster
	default:
		f = o.Cluster()
	}
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", c.Address, err)
	}
	return f, nil
}
