// Package xdsdump gives what a proxy ends up with: all that it is sent at first, and then all that it asks for by name.
//
// In: the table of generators and a View. Out: resources, or one configuration for Envoy to load with nobody to ask.
//
// Start with [All].
package xdsdump
