package configsource

import (
	"fmt"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/ingest"
	"github.com/meshpilot/meshpilot/internal/ingest/source/xds"
)

// Openers open sources, by the scheme of their address. Neither function may be nil.
type Openers struct {
	// Cluster opens the source of the API server (k8s://).
	Cluster func() (ingest.Feed, error)
	// Dir opens the source of the files below a directory (fs://).
	Dir func(dir string) (ingest.Feed, error)
	// XDS are the options of the sources that read xDS servers (xds://).
	XDS xds.Options
}

// Open returns the feeds of the sources in list, in its order. It returns an error if the address of a
// source is invalid or has another scheme, if its Opener fails, or if a feed of the same name precedes
// it.
func Open(list []*meshconfig.ConfigSource, o Openers) ([]ingest.Feed, error) {
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

// open returns the feed of one source, which it does not start. An error begins with the name of
// the invalid field. Addresses are xds://, fs:// and k8s://.
func (o Openers) open(c *meshconfig.ConfigSource) (ingest.Feed, error) {
	a, err := xds.ParseAddress(c.Address)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", c.Address, err)
	}
	if a.Scheme == xds.SchemeXDS {
		return xds.New(c, o.XDS) // Its errors name the field.
	}
	var f ingest.Feed
	if a.Scheme == xds.SchemeFile {
		f, err = o.Dir(a.Path)
	} else {
		f, err = o.Cluster()
	}
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", c.Address, err)
	}
	return f, nil
}
