package wire

import (
	"bytes"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Resource is the part of a resource that a proxy needs.
type Resource struct {
	Name string
	// Endpoints is the ClusterLoadAssignment that a cluster waits for; empty if it waits for none.
	Endpoints string
	// Routes are the route configurations that a listener needs.
	Routes []string
	// Extensions are the extension configs that the filters of a listener need.
	Extensions []string
	// Sum is a checksum that does not depend on the order of map entries, which some servers do not
	// keep.
	Sum uint64
}

// ParseResource reads the body of a resource.
func ParseResource(t Type, b []byte) (*Resource, error) {
	r := &Resource{Sum: checksum(b)}
	var discovered bool
	var service []byte
	err := EachField(b, func(f protowire.Number, v []byte, number uint64) {
		switch {
		case f == 1 && v != nil: // name, in EDS cluster_name
			r.Name = string(v)
		case t == CDS && f == 2: // type
			discovered = number == 3
		case t == CDS && f == 3 && v != nil: // eds_cluster_config.service_name
			service, _ = bytesOf(v, 2)
		case t == LDS && (f == 3 || f == 25): // filter_chains, default_filter_chain
			r.appendReferences(v)
		}
	})
	if discovered {
		if r.Endpoints = string(service); r.Endpoints == "" {
			r.Endpoints = r.Name
		}
	}
	return r, err
}

func checksum(b []byte) (s uint64) {
	for _, c := range b {
		s += (uint64(c) + 1) * 0x9e3779b97f4a7c15 >> 7 * (uint64(c) | 1)
	}
	return s
}

// appendReferences adds the names that a filter chain refers to: route configurations of HTTP
// connection managers, and extension configs of network and HTTP filters.
func (r *Resource) appendReferences(chain []byte) {
	const filters, httpFilters = 3, 5
	_ = EachField(chain, func(f protowire.Number, filter []byte, _ uint64) {
		if f != filters {
			return
		}
		r.appendExtension(filter)
		config, _ := bytesOf(filter, 4) // typed_config
		url, _ := bytesOf(config, 1)
		if !bytes.HasSuffix(url, []byte(".HttpConnectionManager")) {
			return
		}
		manager, _ := bytesOf(config, 2)
		rds, _ := bytesOf(manager, 3)
		if name, _ := bytesOf(rds, 2); len(name) > 0 { // route_config_name
			r.Routes = append(r.Routes, string(name))
		}
		_ = EachField(manager, func(f protowire.Number, filter []byte, _ uint64) {
			if f == httpFilters {
				r.appendExtension(filter)
			}
		})
	})
}

// appendExtension adds the name of a filter that has config_discovery, which is the name of its
// extension config. Network and HTTP filters have the same field numbers.
func (r *Resource) appendExtension(filter []byte) {
	if discovery, _ := bytesOf(filter, 5); len(discovery) == 0 { // config_discovery
		return
	}
	if name, _ := bytesOf(filter, 1); len(name) > 0 && !slices.Contains(r.Extensions, string(name)) {
		r.Extensions = append(r.Extensions, string(name))
	}
}
