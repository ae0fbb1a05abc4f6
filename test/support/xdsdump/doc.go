// Package xdsdump returns the complete configuration of a proxy: the resources of its first
// responses, and then the resources that it requests by name.
//
// In: the table of generators and a View. Out: resources, or one configuration that Envoy can load
// without a control plane.
//
// Start with [All].
package xdsdump
