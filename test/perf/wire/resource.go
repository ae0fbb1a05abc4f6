package wire

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

// Resource is the part of a resource that a proxy needs.
type Resource struct {
	Name string
	// Endpoints is the ClusterLoadAssignment that a cluster waits for; empty if it waits for none.
	Endpoints string
	// Routes are the route configurations that a listener needs.
	Routes []string
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
			r.Routes = appendRoutes(r.Routes, v)
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

// appendRoutes adds the names in the rds fields of a filter chain's HTTP connection managers.
func appendRoutes(out []string, chain []byte) []string {
	_ = EachField(chain, func(f protowire.Number, filter []byte, _ uint64) {
		if f != 3 { // filters
			return
		}
		config, _ := bytesOf(filter, 4) // typed_config
		url, _ := bytesOf(config, 1)
		if !bytes.HasSuffix(url, []byte(".HttpConnectionManager")) {
			return
		}
		manager, _ := bytesOf(config, 2)
		rds, _ := bytesOf(manager, 3)
		if name, _ := bytesOf(rds, 2); len(name) > 0 { // route_config_name
			out = append(out, string(name))
		}
	})
	return out
}
